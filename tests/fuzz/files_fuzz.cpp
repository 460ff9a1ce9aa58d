// Files that a person edits or that a crash may have cut: the limits' configuration, node.json.
#include <algorithm>

#include "actors/base/limits_config.hpp"
#include "actors/base/paths.hpp"
#include "actors/base/text.hpp"
#include "actors/domain/config.hpp"
#include "services/swarmd/node_identity.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace swarm;

namespace {

std::vector<std::uint64_t> values() {
  std::vector<std::uint64_t> out;
  for (const auto& s : limit_settings())
    out.push_back(s.value);
  return out;
}

void put_back(const std::vector<limit_setting>& defaults) {
  std::string text = "[limits]\n";
  for (const auto& s : defaults)
    text += std::string{s.name} + " = " + std::to_string(s.value) + "\n";
  SWARM_HOLDS(!configure_limits_from(text));
}

/// All or nothing, never out of range, and the same text again changes nothing.
void check_limits(const std::string& text) {
  static const auto defaults = limit_settings();
  auto before = values();
  auto wrong = configure_limits_from(text);
  if (wrong) {
    SWARM_HOLDS(!wrong->empty());
    SWARM_HOLDS(values() == before);
    return;
  }
  for (const auto& s : limit_settings())
    SWARM_HOLDS(s.value >= s.lowest && s.value <= s.highest);
  auto after = values();
  SWARM_HOLDS(!configure_limits_from(text));
  SWARM_HOLDS(values() == after);
  put_back(defaults);
  SWARM_HOLDS(values() == before);
}

/// Faults say something on one line of the file, and what was read can be written and read again.
void check_document(const std::string& text) {
  const auto document = parse_config(text, domain::whole_config());
  for (const auto& fault : document.faults)
    SWARM_HOLDS(!fault.text.empty() && is_utf8(fault.text));
  if (!document.faults.empty())
    return;
  for (const auto& e : document.entries)
    if (e.key->name != "*") {
      const auto again = parse_config("[" + e.key->section + "]\n" + e.name + " = " + config_text(e.value) + "\n", domain::whole_config());
      // A limit alone may contradict a default.
      SWARM_HOLDS(again.entries.size() == 1 && again.entries[0].value == e.value);
    }
  (void)domain::node_config_of(document);
  for (const auto& used : domain::secrets_used(document))
    SWARM_HOLDS(is_plain_name(used.name));
}

void check_identity(const std::string& text) {
  auto identity = parse_identity(text);
  if (!identity)
    return;
  SWARM_HOLDS(is_plain_name(identity->id));
  SWARM_HOLDS(is_utf8(identity->name));
  SWARM_HOLDS(identity->key.empty());
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::input in{data, size};
  auto which = in.byte();
  if (which % 2 != 0) {
    check_identity(in.rest());
    return 0;
  }
  const auto text = in.rest();
  check_document(text);
  check_limits(text);
  return 0;
}
