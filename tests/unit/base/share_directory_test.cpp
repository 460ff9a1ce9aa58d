#include "actors/base/share_directory.hpp"

#include <doctest/doctest.h>
#include <stdlib.h>

using namespace swarm;
namespace fs = std::filesystem;

namespace {

struct temp_dir {
  temp_dir() {
    std::string name = (fs::temp_directory_path() / "share-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~temp_dir() {
    std::error_code ec;
    fs::remove_all(path, ec);
  }
  fs::path path;
};

} // namespace

TEST_CASE("what comes with the programs lies beside them, installed or in the source tree") {
  temp_dir d;
  const auto program = d.path / "usr" / "bin" / "swarmctl";
  CHECK(share_directory("", program).empty());
  const auto source = d.path / "deploy";
  fs::create_directories(source / "skills");
  CHECK(share_directory("", program) == source);
  CHECK(share_directory("", d.path / "build" / "asan" / "bin" / "swarmctl") == source);
  // An installed program takes its own, also where a source tree is above it.
  const auto installed = d.path / "usr" / "share" / "swarm-fabric";
  fs::create_directories(installed);
  CHECK(share_directory("", program) == installed);
  CHECK(share_directory("", d.path / "build" / "asan" / "bin" / "swarmctl") == source);
}

TEST_CASE("a directory that is named is used, whatever is in it") {
  temp_dir d;
  fs::create_directories(d.path / "share" / "swarm-fabric");
  CHECK(share_directory("/nowhere", d.path / "bin" / "swarmctl") == "/nowhere");
  CHECK(share_directory("/nowhere") == "/nowhere");
}

TEST_CASE("without a program's place nothing is found, above all not in the working directory") {
  temp_dir d;
  fs::create_directories(d.path / "share" / "swarm-fabric");
  const auto before = fs::current_path();
  fs::create_directories(d.path / "bin");
  fs::current_path(d.path / "bin");
  for (const char* program : {"", "swarmctl", "../bin/swarmctl"}) {
    CAPTURE(program);
    CHECK(share_directory("", program).empty());
  }
  fs::current_path(before);
  CHECK(share_directory("", "/swarmctl").empty());
}

TEST_CASE("the program that runs is known by its file") {
  CHECK(running_program() == fs::read_symlink("/proc/self/exe"));
  CHECK(fs::is_regular_file(running_program()));
}
