// Files that a person edits or that a crash may have cut: the limits' configuration, node.json.
#include <algorithm>

#include "actors/base/limits_config.hpp"
#include "actors/base/paths.hpp"
#include "actors/base/text.hpp"
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
  which % 2 == 0 ? check_limits(in.rest()) : check_identity(in.rest());
  return 0;
}
