// Profile files: assignments with names and values within bounds, or a refusal that names the bound; written out plainly they read the
// same.
#include <algorithm>

#include "actors/base/limits.hpp"
#include "cli/profile.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace swarm;

namespace {

bool is_name(const std::string& name) {
  auto fits = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; };
  return !name.empty() && !(name.front() >= '0' && name.front() <= '9') && std::all_of(name.begin(), name.end(), fits);
}

/// The values without what a line would expand once more.
cli::variables plain(cli::variables all) {
  std::erase_if(all, [](const auto& v) { return v.second.find('$') != std::string::npos; });
  return all;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::input in{data, size};
  auto given = in.piece();
  auto text = in.rest();
  cli::environment env{{{"GIVEN", given}, {"EMPTY", ""}, {"HOME", "/home/ada"}}};
  cli::variables found;
  try {
    found = cli::parse_profile(text, env);
  } catch (const cli::failure& e) {
    SWARM_HOLDS(e.exit_status == cli::code::refused);
    SWARM_HOLDS(std::string{e.what()}.find(std::to_string(limits::profile_value_bytes_max)) != std::string::npos);
    return 0;
  }
  for (const auto& [name, value] : found) {
    SWARM_HOLDS(is_name(name));
    SWARM_HOLDS(value.size() <= limits::profile_value_bytes_max);
  }
  SWARM_HOLDS(cli::parse_profile(text, env) == found);
  std::string written;
  for (const auto& [name, value] : plain(found))
    if (value.find('\n') == std::string::npos) // only a variable of the process can hold one
      written += "export " + name + " = \"" + value + "\"\n";
  auto again = cli::parse_profile(written, cli::environment{});
  for (const auto& [name, value] : again)
    SWARM_HOLDS(found.at(name) == value);
  SWARM_HOLDS(cli::parse_profile("# " + text.substr(0, text.find('\n')), env).empty());
  return 0;
}
