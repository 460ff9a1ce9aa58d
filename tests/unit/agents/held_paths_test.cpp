// What a tool would write, and what is held.
#include "actors/agents/held_paths.hpp"

#include <filesystem>
#include <fstream>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "actors/base/limits.hpp"

using namespace swarm;
using namespace swarm::agents;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

internal::HookQuestion question(const std::string& tool, const json& input, const std::string& directory = "/repo") {
  internal::HookQuestion q;
  q.set_tool(tool);
  q.set_input(input.dump());
  q.set_directory(directory);
  return q;
}

tool_writes writes(const std::string& tool, const json& input, const std::string& directory = "/repo") {
  return writes_of(question(tool, input, directory), {.directory = "/elsewhere", .home = "/home/u", .variables = {{"SWARM_HOME", "/home/u/node"}}});
}

json removal(int files, const std::string& last) {
  std::string command = "rm -f";
  for (int i = 0; i < files; ++i)
    command += " a" + std::to_string(i);
  return {{"command", command + " " + last}};
}

internal::Locks locks(std::vector<std::string> paths, bool more = false) {
  internal::Locks out;
  out.mutable_paths()->Assign(paths.begin(), paths.end());
  out.set_more(more);
  return out;
}

std::string kept(const std::string& tool, const json& input) {
  return kept_out_of({"/home/u/node"}, question(tool, input),
                     {.directory = "/repo", .home = "/home/u", .variables = {{"SWARM_HOME", "/home/u/node"}}})
    .rule;
}

} // namespace

TEST_CASE("a path that is written is told by its name and by the file that it leads to") {
  std::string name = (fs::temp_directory_path() / "held-XXXXXX").string();
  REQUIRE(mkdtemp(name.data()) != nullptr);
  const auto dir = fs::canonical(name).string();
  std::ofstream{dir + "/file"} << "x";
  fs::create_symlink(dir + "/file", dir + "/link");
  auto w = writes("Write", {{"file_path", "link"}}, dir);
  REQUIRE(w.paths.size() == 1);
  CHECK(w.paths[0].name() == dir + "/link");
  CHECK(w.paths[0].real() == dir + "/file");
  CHECK(writes("Write", {{"file_path", "file"}}, dir).paths.at(0).real().empty());
  // By either name, without another look at the files.
  fs::remove_all(dir);
  CHECK(held_against(locks({dir + "/file"}), w).path == dir + "/file");
  CHECK(held_against(locks({dir + "/link"}), w).path == dir + "/link");
  CHECK(held_against(locks({dir + "/other"}), w).what == held_path::kind::free);
}

TEST_CASE("of a command that writes more files than are looked at nobody says that it is free") {
  const auto most = static_cast<int>(limits::hook_paths_max);
  CHECK_FALSE(writes("Bash", removal(most - 1, "b")).more);
  const auto many = writes("Bash", removal(most, "held"));
  CHECK(many.more);
  CHECK(held_against(locks({"/repo/held"}), many).what == held_path::kind::perhaps);
  CHECK(held_against({}, many).what == held_path::kind::free);
  CHECK(kept("Bash", removal(most, "/home/u/node/config.toml")) == "too much at once to be looked at");
  CHECK(kept("Bash", removal(most - 2, "b")).empty());
  std::string same = "rm -f";
  for (int i = 0; i <= most; ++i)
    same += " a";
  CHECK(writes("Bash", {{"command", same + " held"}}).more);
}

TEST_CASE("a question tells as many paths as have room, and that there are more") {
  internal::HookQuestion q;
  put_writes(writes("Bash", removal(200, std::string(200, 'x'))), q);
  CHECK(q.writes_size() == 201);
  CHECK_FALSE(q.more_writes());
  std::string command = "rm -f";
  for (int i = 0; i < 100; ++i)
    command += " " + std::string(200, 'x') + std::to_string(i);
  put_writes(writes("Bash", {{"command", command}}), q);
  CHECK(q.more_writes());
  CHECK(q.ByteSizeLong() <= limits::approval_writes_bytes_max + 16);
  internal::Request r;
  put_writes(writes("Bash", removal(200, "b")), r);
  CHECK(static_cast<std::size_t>(r.writes_size()) == limits::approval_writes_max);
  CHECK(r.more_writes());
}

TEST_CASE("what is too long to be looked at may write what peers hold, and what no agent writes") {
  auto q = question("Bash", json::object());
  q.clear_input();
  q.set_too_long(true);
  CHECK(held_against(locks({"/repo/a"}), writes_of(q, {})).what == held_path::kind::perhaps);
  CHECK(kept_out_of({"/home/u/node"}, q, {}).rule == "too much at once to be looked at");
  CHECK(kept_out_of({}, q, {}).rule.empty());
}

TEST_CASE("the node's directory is known by the variable that names it, and by any text of a server's tool") {
  for (const auto* command : {"rm $SWARM_HOME/swarm.db", "echo x > ${SWARM_HOME}/config.toml", "echo x > \"$SWARM_HOME/config.toml\""})
    CHECK_MESSAGE(kept("Bash", {{"command", command}}) == "no agent writes /home/u/node", command);
  for (const auto* path : {"/home/u/node/x", "~/node/x", "file:///home/u/node/x"}) {
    CAPTURE(path);
    CHECK_FALSE(kept("mcp__e__put", {{"target", path}}).empty());
    CHECK_FALSE(kept("mcp__e__search_replace", {{"edits", json::array({{{"in", path}}})}}).empty());
    CHECK(kept("mcp__e__read_file", {{"path", path}}).empty());
    CHECK(kept("Task", {{"prompt", "look at\n" + std::string{path}}}).empty());
  }
  CHECK(kept("mcp__e__put", {{"target", "/repo/x"}, {"text", "words"}}).empty());
}

TEST_CASE("with more locks than are known a write may be to one of them, and what writes nothing passes") {
  CHECK(held_against(locks({"/repo/a"}, true), writes("Write", {{"file_path", "b"}})).path == "/repo/b");
  CHECK(held_against(locks({"/repo/a"}, true), writes("Write", {{"file_path", "b"}})).what == held_path::kind::perhaps);
  CHECK(held_against(locks({"/repo/a"}, true), writes("Read", {{"file_path", "a"}})).what == held_path::kind::free);
  CHECK(held_against(locks({"/repo/dir/a"}), writes("Bash", {{"command", "rm -r dir"}})).path == "/repo/dir/a");
  CHECK(held_against(locks({"/repo/x.o"}), writes("Bash", {{"command", "rm *.o"}})).path == "/repo/x.o");
}

TEST_CASE("a tool that watches a command writes what that writes, and a program is read with its arguments") {
  const auto watched = writes("Monitor", {{"command", "tail -f log > held.c"}, {"timeout_ms", 1000}});
  REQUIRE(watched.paths.size() == 1);
  CHECK(watched.paths[0].name() == "/repo/held.c");
  CHECK_FALSE(watched.more);
  CHECK_FALSE(writes("Monitor", {{"ws", {{"url", "wss://x.org/"}}}}).more);
  const auto words = writes("mcp__x__shell", {{"command", json::array({"sh", "-c", "echo x > held.c"})}});
  REQUIRE(words.paths.size() == 1);
  CHECK(words.paths[0].name() == "/repo/held.c");
  CHECK_FALSE(words.more);
  CHECK(kept("Monitor", {{"command", "echo x > ~/node/config.toml"}}) == "no agent writes /home/u/node");
  CHECK(kept("mcp__x__shell", {{"command", json::array({"rm", "/home/u/node/x"})}}) == "no agent writes /home/u/node");
}

TEST_CASE("of a tool that does not show what it runs nobody says that it writes no more") {
  for (const auto& [tool, input] : std::vector<std::pair<std::string, json>>{{"Bash", json::object()},
                                                                             {"Bash", {{"command", 1}}},
                                                                             {"Monitor", json::object()},
                                                                             {"PowerShell", {{"command", "Set-Content held.c x"}}},
                                                                             {"mcp__x__shell", {{"command", json::array({"sh", 1})}}},
                                                                             {"mcp__x__shell", {{"line", "echo x > held.c"}}},
                                                                             {"mcp__x__execute_code", {{"code", "open('held.c', 'w')"}}}}) {
    CAPTURE(tool);
    CHECK(writes(tool, input).more);
    CHECK(held_against(locks({"/repo/held.c"}), writes(tool, input)).what == held_path::kind::perhaps);
    CHECK(kept(tool, input).empty());
  }
}
