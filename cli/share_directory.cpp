#include "cli/share_directory.hpp"

#include "actors/base/process.hpp"

#include <unistd.h>

namespace swarm::cli {

namespace fs = std::filesystem;

fs::path running_program() {
  constexpr std::string_view replaced = " (deleted)";
  auto name = executable_of(getpid()).value_or("");
  if (name.size() > replaced.size() && name.ends_with(replaced))
    name.resize(name.size() - replaced.size());
  return name;
}

fs::path share_directory(const environment& env) {
  if (auto named = env.get("SWARM_SHARE"); !named.empty())
    return named;
  std::error_code ec;
  auto directory = running_program().parent_path();
  if (auto installed = directory.parent_path() / "share" / "swarm-fabric"; fs::is_directory(installed, ec))
    return installed;
  for (; !directory.empty(); directory = directory.parent_path()) {
    if (fs::is_directory(directory / "deploy" / "skills", ec))
      return directory / "deploy";
    if (directory == directory.parent_path())
      break;
  }
  return {};
}

} // namespace swarm::cli
