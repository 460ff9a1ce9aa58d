// Real files in a directory of the test's own.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <doctest/doctest.h>

#include "gateway/session/lock_target.hpp"

using namespace swarm;
namespace fs = std::filesystem;

namespace {

struct tree {
  tree() {
    std::string name = fs::canonical(fs::temp_directory_path()) / "swarm-lock-target.XXXXXX";
    REQUIRE(mkdtemp(name.data()) != nullptr);
    root = name;
  }
  ~tree() { fs::remove_all(root); }
  tree(const tree&) = delete;
  tree& operator=(const tree&) = delete;

  std::string root;
  std::string at(const std::string& name) const { return root + "/" + name; }
  void file(const std::string& name) const {
    fs::create_directories(fs::path{at(name)}.parent_path());
    std::ofstream{at(name)} << "x";
  }
  void link(const std::string& to, const std::string& name) const { fs::create_symlink(to, at(name)); }
};

} // namespace

TEST_CASE("a file has one name, by whatever links it is reached, also when it is not there yet") {
  tree t;
  t.file("d/f");
  t.link("d", "to_d");
  t.link("d/f", "to_f");
  t.link("new", "to_new");
  t.link("to_new", "to_to_new");
  t.link("d/fresh/g", "deep");
  auto follow = [&](const std::string& name) { return mcp::follow_links(t.at(name), t.root); };
  CHECK(follow("to_d/f") == t.at("d/f"));
  CHECK(follow("to_f") == t.at("d/f"));
  CHECK(follow("to_new") == t.at("new"));
  CHECK(follow("to_to_new") == t.at("new"));
  CHECK(follow("to_d/other") == t.at("d/other"));
  CHECK(follow("deep") == t.at("d/fresh/g"));
}

TEST_CASE("links that lead in a circle end somewhere") {
  tree t;
  t.link("b", "a");
  t.link("a", "b");
  t.link("self/x", "self");
  for (const auto* name : {"a", "b", "self", "self/y"})
    CHECK(!mcp::follow_links(t.at(name), t.root).empty());
}

TEST_CASE("a pattern is refused, but not a file of that name, nor one in a directory whose name has brackets") {
  tree t;
  t.file("app/[id]/page.tsx");
  t.file("odd*name");
  auto refused = [&](const std::string& name) { return mcp::why_not_lockable(t.at(name), t.root).has_value(); };
  CHECK(refused("*.c"));
  CHECK(refused("app/[x]/page.tsx"));
  CHECK(refused("app/[id]/*.tsx"));
  CHECK_FALSE(refused("odd*name"));
  CHECK_FALSE(refused("app/[id]/page.tsx"));
  CHECK_FALSE(refused("app/[id]/new.tsx"));
  CHECK_FALSE(refused("app/[id]"));
  CHECK_FALSE(mcp::why_not_lockable("/__swarm/spawn/*", t.root).has_value());
}

TEST_CASE("a file of another repository is locked there") {
  tree t;
  fs::create_directories(t.at("one/.git"));
  fs::create_directories(t.at("one/inner/.git"));
  fs::create_directories(t.at("loose"));
  auto refused = [&](const std::string& name, const std::string& scope) { return mcp::why_not_lockable(t.at(name), scope).has_value(); };
  CHECK(refused("one/f", t.at("one/inner")));
  CHECK(refused("one/inner/f", t.at("one")));
  CHECK(refused("one/f", t.at("one/sub"))); // of the same repository, whose own sessions would not see it
  CHECK_FALSE(refused("one/sub/f", t.at("one/sub")));
  CHECK_FALSE(refused("one/f", t.at("one")));
  CHECK_FALSE(refused("loose/f", t.at("one")));
  CHECK_FALSE(refused("one/f", "team"));
}
