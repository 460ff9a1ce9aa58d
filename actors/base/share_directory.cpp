#include "actors/base/share_directory.hpp"

#include <unistd.h>

#include "actors/base/process.hpp"

namespace swarm {

namespace fs = std::filesystem;

fs::path running_program() {
  constexpr std::string_view replaced = " (deleted)";
  auto name = executable_of(getpid()).value_or("");
  if (name.ends_with(replaced))
    name.resize(name.size() - replaced.size());
  return name;
}

fs::path share_directory(std::string_view named, const fs::path& program) {
  if (!named.empty())
    return named;
  // Of a program whose place is not known nothing lies beside it.
  if (!program.is_absolute())
    return {};
  std::error_code ec;
  auto directory = program.parent_path();
  if (auto installed = directory.parent_path() / "share" / "swarm-fabric"; fs::is_directory(installed, ec))
    return installed;
  for (; directory.has_relative_path(); directory = directory.parent_path())
    if (fs::is_directory(directory / "deploy" / "skills", ec))
      return directory / "deploy";
  return {};
}

fs::path share_directory(std::string_view named) { return share_directory(named, running_program()); }

} // namespace swarm
