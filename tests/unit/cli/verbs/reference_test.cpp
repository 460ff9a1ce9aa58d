// Which terminal a word means, and what a terminal of a person remembers for @last.
#include "cli/verbs/reference.hpp"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <unistd.h>

#include "actors/base/limits.hpp"
#include "gateway/client/failure.hpp"

namespace fs = std::filesystem;
using namespace swarm;
using namespace swarm::cli;

namespace {

v1::PtyInfo terminal(const std::string& id, const std::string& name, const std::string& scope, bool running, std::int64_t created_at_ms) {
  v1::PtyInfo p;
  p.set_id(id);
  p.set_name(name);
  p.set_scope(scope);
  p.set_running(running);
  p.set_created_at_ms(created_at_ms);
  return p;
}

std::string chosen(const std::vector<v1::PtyInfo>& all, const std::string& who, reach far = reach::this_scope) {
  try {
    return choose_terminal(all, who, "/p2", far)->id();
  } catch (const failure& f) {
    return f.what();
  }
}

} // namespace

TEST_CASE("a terminal's name that is the beginning of another one's id means neither of them, and a whole id always means its own") {
  std::vector<v1::PtyInfo> all{terminal("de1e8a3c-1", "other4", "/p1", true, 1), terminal("2ac4ffe4-2", "de1e", "/p2", true, 2),
                               terminal("77770000-3", "2ac4ffe4-2", "/p2", true, 3), terminal("88880000-4", "8888", "/p2", true, 4)};
  const std::string clash =
    "\"de1e\" is the name of one terminal and the beginning of another one's id; give the whole id: 2ac4ffe4-2 (that name) or "
    "de1e8a3c-1";
  CHECK(chosen(all, "de1e") == clash);
  CHECK(chosen(all, "de1e", reach::all_scopes) == clash);
  all[0].set_scope("/p2");
  CHECK(chosen(all, "de1e") == clash);
  all[1].set_running(false);
  CHECK(chosen(all, "de1e") == clash);
  CHECK(chosen(all, "de1e8") == "de1e8a3c-1");
  CHECK(chosen(all, "de1e8a3c-1") == "de1e8a3c-1");
  CHECK(chosen(all, "2ac4ffe4-2") == "2ac4ffe4-2");
  CHECK(chosen(all, "2ac4") == "2ac4ffe4-2");
  CHECK(chosen(all, "8888") == "88880000-4");
}

TEST_CASE("a terminal that two hosts list after a further attempt is one terminal, and the one that runs") {
  std::vector<v1::PtyInfo> all{terminal("de1e8a3c-1", "rl", "/p2", false, 1), terminal("de1e8a3c-1", "rl", "/p2", true, 2)};
  all[1].set_node_id("b");
  CHECK(chosen(all, "de1e8") == "de1e8a3c-1");
  CHECK(choose_terminal(all, "de1e8", "/p2", reach::this_scope)->node_id() == "b");
  std::swap(all[0], all[1]);
  CHECK(choose_terminal(all, "de1e8", "/p2", reach::this_scope)->node_id() == "b");
}

TEST_CASE("less than four characters are never the beginning of an id") {
  std::vector<v1::PtyInfo> all{terminal("de1e8a3c-1", "", "/p2", true, 1)};
  CHECK(chosen(all, "d") == "no terminal of scope /p2 is called \"d\"; see: swarmctl pty list --all");
  CHECK(chosen(all, "de1") == "no terminal of scope /p2 is called \"de1\"; see: swarmctl pty list --all");
  CHECK(chosen(all, "de1e") == "de1e8a3c-1");
}

TEST_CASE("what types or ends does not cross scopes by the beginning of an id or by a name, what only reads does by the former") {
  std::vector<v1::PtyInfo> all{terminal("de1e8a3c-1", "build", "/p1", true, 1)};
  CHECK(chosen(all, "de1e8") ==
        "no terminal of scope /p2 is called \"de1e8\"; one of another scope begins so: give its whole id, de1e8a3c-1, if you mean it");
  CHECK(chosen(all, "de1e8", reach::all_scopes) == "de1e8a3c-1");
  CHECK(chosen(all, "build", reach::all_scopes) == "no terminal of scope /p2 is called \"build\"; see: swarmctl pty list --all");
  CHECK(chosen(all, "de1e8a3c-1") == "de1e8a3c-1");
}

TEST_CASE("of terminals with one name the one that runs is meant, and of those that ended the newest") {
  std::vector<v1::PtyInfo> all{terminal("aaaa0000", "b", "/p2", false, 3), terminal("bbbb0000", "b", "/p2", true, 1),
                               terminal("cccc0000", "b", "/p2", false, 2)};
  CHECK(chosen(all, "b") == "bbbb0000");
  all[1].set_running(false);
  CHECK(chosen(all, "b") == "aaaa0000");
  all[1].set_running(true);
  all[2].set_running(true);
  CHECK(chosen(all, "b") == "more than one terminal is meant by \"b\": bbbb0000 (b), cccc0000 (b); give more of the id");
}

TEST_CASE("several ids that begin so are named, not guessed") {
  std::vector<v1::PtyInfo> all{terminal("aaaa1111", "", "/p2", true, 1), terminal("aaaa2222", "x", "/p2", true, 2)};
  CHECK(chosen(all, "aaaa") == "more than one terminal is meant by \"aaaa\": aaaa1111, aaaa2222 (x); give more of the id");
}

TEST_CASE("a terminal remembers its newest task for each scope and node") {
  auto dir = fs::temp_directory_path() / ("swarm-recent-" + std::to_string(getpid()));
  fs::create_directories(dir);
  recent_things here{dir / "recent" / "34816-7-99"}, elsewhere{dir / "recent" / "34817-8-99"};
  using k = kind_of_thing;
  CHECK(here.newest(k::task, "", "/r").empty());
  here.made(k::task, "", "/r", "t1");
  here.made(k::task, "", "/r", "t2");
  here.made(k::task, "far", "/r", "t3");
  here.made(k::terminal, "", "/r", "p1");
  CHECK(here.newest(k::task, "", "/r") == "t2");
  CHECK(here.newest(k::task, "far", "/r") == "t3");
  CHECK(here.newest(k::terminal, "", "/r") == "p1");
  CHECK(here.newest(k::task, "", "/other").empty());
  CHECK(elsewhere.newest(k::task, "", "/r").empty());
  CHECK(fs::status(dir / "recent").permissions() == fs::perms::owner_all);
  for (std::size_t i = 0; i < 2 * limits::recent_entries_max; ++i)
    here.made(k::task, "", "/scope" + std::to_string(i), "t");
  CHECK(here.newest(k::task, "", "/r").empty());
  CHECK(fs::file_size(dir / "recent" / "34816-7-99") < limits::recent_file_bytes_max);
  fs::remove_all(dir);
}

TEST_CASE("the files of terminals that are gone make room, and one without a terminal keeps nothing") {
  auto dir = fs::temp_directory_path() / ("swarm-recent-many-" + std::to_string(getpid()));
  fs::create_directories(dir);
  for (std::size_t i = 0; i < limits::recent_files_max + 8; ++i)
    recent_things{dir / "recent" / std::to_string(i)}.made(kind_of_thing::task, "", "/r", "t");
  auto left = std::distance(fs::directory_iterator{dir / "recent"}, fs::directory_iterator{});
  CHECK(left <= static_cast<std::ptrdiff_t>(limits::recent_files_max));
  CHECK(recent_things{dir / "recent" / std::to_string(limits::recent_files_max + 7)}.newest(kind_of_thing::task, "", "/r") == "t");
  recent_things none;
  none.made(kind_of_thing::task, "", "/r", "t");
  CHECK(none.newest(kind_of_thing::task, "", "/r").empty());
  fs::remove_all(dir);
}
