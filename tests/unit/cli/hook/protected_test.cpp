#include "cli/hook/protected.hpp"

#include <doctest/doctest.h>

using namespace swarm;
using namespace swarm::cli;

namespace {

const environment user{variables{{"HOME", "/h"}}};

/// Why the tool is denied in /h/work.
std::string denied(const char* tool, json input, const environment& env = user, const std::string& state = "/state") {
  auto use = tool_use_of({{"tool_name", tool}, {"tool_input", std::move(input)}}, {"/h/work", "/h"});
  return reason_against(use, protected_directories(env, state));
}

} // namespace

TEST_CASE("no tool writes the node's state or swarm's settings, and the reason is said") {
  for (const auto* file :
       {"/state/config.toml", "/state", "~/x/../.config/swarm/contexts.toml", "../.local/state/swarm/config.toml", "/h/.config/swarm-mcp/work.env",
        "file:///state/config.toml", "file://localhost/state/config%2Etoml", "file:/state/config.toml", "FILE:///state/config.toml"}) {
    const std::string path = file;
    CHECK_MESSAGE(!denied("Write", {{"file_path", path}, {"content", "x"}}).empty(), file);
    CHECK(!denied("Edit", {{"file_path", path}}).empty());
    if (!path.starts_with("file:") && !path.starts_with("FILE:"))
      CHECK(!denied("Bash", {{"command", "echo x > " + path}}).empty());
    CHECK(!denied("apply_patch", {{"input", "*** Begin Patch\n*** Update File: " + path + "\n*** End Patch"}}).empty());
    CHECK(!denied("mcp__fs__write_file", {{"path", file}}).empty());
  }
  CHECK(denied("Write", {{"file_path", "/state/config.toml"}}) ==
        "swarm denied Write for /state/config.toml: /state holds the node's state or swarm's settings, which say who may do what. No agent writes "
        "there, whatever it was asked to do. Tell the person what you wanted to change, and go on without it.");
  CHECK(denied("Write", {{"file_path", "/h/work/config.toml"}}).empty());
  CHECK(denied("Bash", {{"command", "cat /state/config.toml"}}).empty());
  CHECK(denied("Read", {{"file_path", "/state/config.toml"}}).empty());
}

TEST_CASE("a tool of an MCP server is denied the path that it names, wherever it stands, unless it only reads") {
  for (const auto* tool : {"mcp__fs__move_file", "mcp__fs__createDirectory", "mcp__files__touch", "mcp__x__frobnicate", "mcp__x__read_and_write",
                           "mcp__x__list_or_delete", "mcp__x__set"}) {
    CHECK_MESSAGE(!denied(tool, {{"source", "/tmp/x"}, {"destination", "/state/config.toml"}}).empty(), tool);
    CHECK(!denied(tool, {{"files", {{{"name", "a"}, {"where", "file:///state/a"}}}}}).empty());
    CHECK(!denied(tool, {{"uri", "~/.config/swarm"}}).empty());
    CHECK(denied(tool, {{"text", "do not touch /state/config.toml"}, {"path", "/h/work/x"}}).empty());
  }
  for (const auto* tool : {"mcp__fs__read_file", "mcp__fs__get_file_info", "mcp__fs__directory_tree", "mcp__fs__listDirectory", "Grep", "Read",
                           "read_many_files", "mcp__fs__search-files"})
    CHECK_MESSAGE(denied(tool, {{"path", "/state"}}).empty(), tool);
}

TEST_CASE("the directories are those of the node that is spoken to, and those that the user's node would have") {
  const environment moved{variables{{"HOME", "/h"}, {"XDG_STATE_HOME", "/s"}, {"XDG_CONFIG_HOME", "/c"}, {"SWARM_MCP_PROFILE_DIR", "/p"}}};
  for (const auto* file : {"/elsewhere/x", "/s/swarm/x", "/c/swarm/x", "/p/x", "/h/.local/state/swarm/x", "/h/.config/swarm/x"})
    CHECK_MESSAGE(!denied("Write", {{"file_path", file}}, moved, "/elsewhere").empty(), file);
  // What is no directory of its own stops no write.
  const environment wrong{variables{{"HOME", ""}, {"XDG_CONFIG_HOME", "relative"}, {"SWARM_MCP_PROFILE_DIR", "/"}}};
  CHECK(denied("Write", {{"file_path", "/h/work/x"}}, wrong, "").empty());
}
