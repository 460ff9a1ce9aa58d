#include "services/federation/node_labels.hpp"

#include <filesystem>
#include <fstream>

#include <doctest/doctest.h>
#include <unistd.h>

namespace fs = std::filesystem;
using namespace swarm;

TEST_CASE("the agents that a node finds are those whose programs are on the path of its own environment") {
  const auto dir = fs::temp_directory_path() / ("labels-" + std::to_string(getpid()));
  fs::create_directories(dir);
  std::ofstream{dir / "codex"} << "#!/bin/sh\n";
  CHECK(agents_found({"PATH=" + dir.string()}).empty());
  fs::permissions(dir / "codex", fs::perms::owner_all);
  CHECK(agents_found({"PATH=" + dir.string()}) == std::vector<std::string>{"codex"});
  fs::remove_all(dir);
}
