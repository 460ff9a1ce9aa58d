#include <doctest/doctest.h>

#include "actors/agents/held_paths.hpp"
#include "actors/agents/tools.hpp"

using namespace swarm;
using namespace swarm::agents;

namespace {

std::string held(const std::string& tool, const std::string& input, const std::string& path = "/repo/a") {
  internal::Locks locks;
  locks.add_paths(path);
  internal::HookQuestion q;
  q.set_tool(tool);
  q.set_input(input);
  q.set_directory("/repo");
  return held_against(locks, writes_of(q, {.directory = "/repo", .home = "/home/u"})).path;
}

} // namespace

TEST_CASE("a tool is known by its name, also when a server offers it") {
  CHECK(kind_of_tool("Write") == tool_kind::writes);
  CHECK(kind_of_tool("mcp__files__write_file") == tool_kind::writes);
  CHECK(kind_of_tool("Bash") == tool_kind::runs);
  CHECK(kind_of_tool("mcp__host__run_command") == tool_kind::runs);
  for (const auto* reads : {"Read", "Glob", "Grep", "LS", "NotebookRead", "mcp__files__read_file", "mcp__files__directory_tree"})
    CHECK_MESSAGE(kind_of_tool(reads) == tool_kind::reads, reads);
  for (const auto* other : {"", "Task", "mcp__files__get_and_delete", "mcp__files__read_or_create", "mcp__x"})
    CHECK_MESSAGE(kind_of_tool(other) == tool_kind::other, other);
}

TEST_CASE("a driver finds what a tool writes by the same names as the hooks of agents on terminals") {
  CHECK(held("Write", R"({"file_path":"a"})") == "/repo/a");
  CHECK(held("Write", R"({"filepath":"/repo/a"})") == "/repo/a");
  CHECK(held("mcp__files__get_and_delete", R"({"path":"/repo/a"})") == "/repo/a");
  CHECK(held("mcp__host__run_command", R"({"cmd":"echo x > a"})") == "/repo/a");
  CHECK(held("apply_patch", R"({"input":"*** Begin Patch\n*** Update File: a\n*** End Patch"})") == "/repo/a");
  CHECK(held("Read", R"({"file_path":"/repo/a"})").empty());
  CHECK(held("mcp__files__read_file", R"({"path":"/repo/a"})").empty());
  CHECK(held("Write", R"({"file_path":"/repo/b"})").empty());
}
