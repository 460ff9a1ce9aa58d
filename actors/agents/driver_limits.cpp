#include "actors/agents/driver_limits.hpp"

#include <algorithm>
#include <array>

#include "actors/base/limits_config.hpp"
#include "actors/base/text.hpp"

namespace swarm::agents {

namespace {

constexpr std::array<std::string_view, 4> names{"conversation_silence", "delta_join", "hook_question_deadline", "kill_grace"};

bool is_known(std::string_view name) { return std::find(names.begin(), names.end(), name) != names.end(); }

} // namespace

std::string driver_limits() {
  std::string out;
  for (const auto& limit : limit_settings())
    if (is_known(limit.name))
      out += concat({out.empty() ? "" : ",", limit.name, "=", limit.value});
  return out;
}

std::optional<std::string> set_driver_limits(std::string_view text) {
  std::string config = "[limits]\n";
  while (!text.empty()) {
    const auto one = text.substr(0, text.find(','));
    text.remove_prefix(std::min(one.size() + 1, text.size()));
    const auto name = one.substr(0, one.find('='));
    const auto value = one.substr(std::min(name.size() + 1, one.size()));
    if (!is_known(name) || value.empty() || value.find_first_not_of("0123456789") != value.npos)
      return concat({"'", one, "' is no limit of a driver"});
    config += concat({name, " = ", value, "\n"});
  }
  return configure_limits_from(config);
}

} // namespace swarm::agents
