#include "actors/base/limits.hpp"
#include "actors/base/unique_fd.hpp"
#include "cli/hook/event.hpp"
#include "cli/hook/locks.hpp"
#include "cli/hook/session.hpp"
#include "cli/hook/store.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include <fcntl.h>
#include <pwd.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <doctest/doctest.h>

using namespace swarm;
using namespace swarm::cli;

namespace fs = std::filesystem;

namespace {

struct directory {
  fs::path path = fs::temp_directory_path() / ("swarm-hook-rules." + std::to_string(getpid()));
  directory() {
    fs::remove_all(path);
    fs::create_directories(path);
  }
  ~directory() { fs::remove_all(path); }
  std::string operator/(const std::string& name) const { return (path / name).string(); }
};

tool_use used(const char* tool, json input) { return tool_use_of({{"tool_name", tool}, {"tool_input", std::move(input)}}, {"/r", "/h"}); }

std::string paths(const tool_use& use) {
  std::string out;
  for (const auto& w : use.paths)
    out += (out.empty() ? "" : " ") + w.path;
  return out;
}

const agents::agent& agent(const char* name) { return *agents::find(name); }

std::string label(const char* name, variables v, const std::string& session = "12345678-9abc", const std::string& place = "/nowhere") {
  return identity_of(agent(name), environment{std::move(v)}, session, place, place, "").label;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

} // namespace

TEST_CASE("a tool call names what it writes in the words of its agent") {
  CHECK(paths(used("Write", {{"file_path", "/a/../b"}})) == "/b");
  CHECK(paths(used("Edit", {{"file_path", "x"}})) == "/r/x");
  CHECK(paths(used("NotebookEdit", {{"notebook_path", "n.ipynb"}, {"path", "p"}, {"file", "f"}, {"filepath", "g"}})) == "/r/n.ipynb /r/p /r/f /r/g");
  CHECK(paths(used("edit", {{"filePath", "x"}})) == "/r/x");
  CHECK(paths(used("write_file", {{"path", "x"}, {"content", "*** Begin Patch\n*** Add File: no"}})) == "/r/x");
  CHECK(paths(used("patch", {{"path", "x"}, {"patchText", "*** Begin Patch\n*** Delete File: y"}})) == "/r/x /r/y");
  CHECK(paths(used("apply_patch", "*** Begin Patch\n*** Update File: a\n*** Move to: b")) == "/r/a /r/b");
  CHECK(paths(used("apply_patch", {{"anything", "*** Begin Patch\n*** Move File: a -> b"}})) == "/r/a /r/b");
  CHECK(paths(used("mcp__files__write_file", {{"path", "x"}})) == "/r/x");
  CHECK(used("mcp__swarm__lock_file", {{"file", "x"}}).what == tool_use::kind::other);
  CHECK(used("Read", {{"file_path", "x"}}).what == tool_use::kind::other);
  CHECK(used("Bash", {{"command", "rm x"}}).what == tool_use::kind::shell);
  // Python: may write anything, and no shell reads it.
  CHECK(used("execute_code", {{"code", "rm > x"}}).what == tool_use::kind::shell);
  CHECK(paths(used("execute_code", {{"code", "rm > x"}})).empty());
  CHECK(paths(used("shell", {{"command", {"sh", "-c", "rm x"}}, {"workdir", "sub"}})) == "/r/sub/x");
  CHECK(paths(used("exec_command", {{"cmd", "rm x"}, {"workdir", "/w"}})) == "/w/x");
  CHECK(paths(used("Bash", {{"command", "*** Begin Patch\n*** Add File: x\n*** End Patch"}})) == "/r/x");
  for (const auto& input :
       {json(), json(7), json::array(), json{{"command", 7}}, json{{"command", {7}}}, json{{"file_path", nullptr}}, json{{"path", ""}}})
    for (const auto* tool : {"Write", "Bash", "apply_patch", "patch"})
      CHECK(used(tool, input).paths.empty());
  CHECK(tool_use_of(json(), {"/r", ""}).what == tool_use::kind::other);
}

TEST_CASE("a path that one program expands and another takes as it stands counts as both") {
  for (const auto* tool : {"Write", "Edit", "MultiEdit", "write_file", "patch", "write"}) {
    CHECK(paths(used(tool, {{"path", "~/x/../y"}})) == "/r/~/y /h/y");
    CHECK(paths(used(tool, {{"file_path", "~"}})) == "/r/~ /h");
    CHECK(paths(used(tool, {{"filePath", "file:///a/b%20c"}})) == "/r/file:/a/b%20c /a/b%20c /a/b c");
  }
  CHECK(paths(used("NotebookEdit", {{"notebook_path", "~/n.ipynb"}})) == "/r/~/n.ipynb /h/n.ipynb");
  CHECK(paths(used("apply_patch", "*** Begin Patch\n*** Update File: ~/a\n*** Move to: file://localhost/b")) ==
        "/r/~/a /h/a /r/file:/localhost/b /b");
  CHECK(paths(used("write_file", {{"path", "~root/x"}})) == "/r/~root/x " + std::string{getpwnam("root")->pw_dir} + "/x");
  CHECK(paths(used("write_file", {{"path", "~no such account/x"}})) == "/r/~no such account/x");
  CHECK(paths(used("write_file", {{"path", "a~/x"}})) == "/r/a~/x");
  CHECK(paths(used("write_file", {{"path", "file://elsewhere/x"}})) == "/r/file:/elsewhere/x");
  CHECK(paths(used("write_file", {{"path", "file:/a/x"}})) == "/r/file:/a/x /a/x");
  CHECK(paths(used("write_file", {{"path", "FILE://LocalHost/a/x"}})) == "/r/FILE:/LocalHost/a/x /a/x");
  CHECK(paths(used("exec_command", {{"cmd", "rm x"}, {"workdir", "~/w"}})) == "/r/~/w/x /h/w/x");
  CHECK(paths(tool_use_of({{"tool_name", "Write"}, {"tool_input", {{"path", "~/x"}}}}, {"/r", ""})) == "/r/~/x");
}

TEST_CASE("of the texts of a tool call only those that may be accounts are looked up and each once") {
  std::vector<std::string> asked;
  auto home = [&](const std::string& account) {
    asked.push_back(account);
    return account == "Ada.L-2" ? std::string{"/home/ada"} : std::string{};
  };
  auto input = json{{"a", "~Ada.L-2/x"},
                    {"b", {"~Ada.L-2/y", "~Ada.L-2", "~5 minutes", "~/x", "~", "~~", "~ada is away/x", "~\u00e9", "~2"}},
                    {"c", "~nobody/x"},
                    {"d", "~nobody"},
                    {"e", "~" + std::string(300, 'a')},
                    {"f", "~EX\\ada@example.org/x"},
                    {"g", "~3d"}};
  auto use = tool_use_of({{"tool_name", "mcp__notes__add"}, {"tool_input", std::move(input)}}, {"/r", "/h"}, home);
  CHECK(asked == std::vector<std::string>{"Ada.L-2", "nobody", "EX\\ada@example.org", "3d"});
  std::vector<std::string> named;
  for (const auto& w : use.named)
    named.push_back(w.path);
  for (const auto* path : {"/home/ada/x", "/home/ada/y", "/home/ada", "/h/x", "/h"})
    CHECK_MESSAGE(std::count(named.begin(), named.end(), path) == 1, path);
}

TEST_CASE("what names no tool, or does not say what a tool is to write, is no tool call that can be checked") {
  for (const auto& event : {json(), json::object(), json{{"tool_name", 5}, {"tool_input", {{"file_path", "x"}}}}, json{{"tool_name", ""}}})
    CHECK(tool_use_of(event, {"/r", ""}).unreadable);
  for (const auto& input : {json(), json(7), json::array(), json::object(), json{{"file_path", 7}}, json{{"path", ""}}})
    for (const auto* tool : {"Write", "edit", "apply_patch"})
      CHECK_MESSAGE(used(tool, input).unreadable, tool << " " << input.dump());
  for (const auto& input : {json(), json(7), json::object(), json{{"command", 7}}, json{{"command", nullptr}}, json{{"command", {"sh", 7}}}})
    CHECK_MESSAGE(used("Bash", input).unreadable, input.dump());
  CHECK_FALSE(used("Write", {{"file_path", "x"}}).unreadable);
  CHECK_FALSE(used("Bash", {{"command", "rm x"}}).unreadable);
  CHECK_FALSE(used("shell", {{"command", {"sh", "-c", "rm x"}}}).unreadable);
  CHECK_FALSE(used("execute_code", {{"code", "rm > x"}}).unreadable);
  CHECK_FALSE(used("Read", json()).unreadable);
  CHECK_FALSE(used("mcp__wiki__edit", {{"page", "x"}}).unreadable);
}

TEST_CASE("a tool call is known again at its end, with an id of the agent's or without") {
  json event{{"tool_name", "Bash"}, {"tool_input", {{"command", "make"}}}};
  auto without = tool_use_of(event, {"/r", ""}).key;
  CHECK(without == tool_use_of(event, {"/elsewhere", ""}).key);
  event["tool_input"]["command"] = "make all";
  CHECK(without != tool_use_of(event, {"/r", ""}).key);
  event["tool_use_id"] = "toolu_1";
  CHECK(tool_use_of(event, {"/r", ""}).key == "toolu_1");
  event["tool_use_id"] = std::string(100'000, 'x');
  CHECK(tool_use_of(event, {"/r", ""}).key.size() <= limits::id_bytes_max);
}

TEST_CASE("each agent is denied and told things in its own words") {
  CHECK(hook_denial(agent("codex"), "no").dump() ==
        R"({"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"no"}})");
  CHECK(hook_denial(agent("claude"), "no") == hook_denial(agent("codex"), "no"));
  CHECK(hook_denial(agent("hermes"), "no").dump() == R"({"action":"block","message":"no"})");
  CHECK(hook_denial(agent("opencode"), "no").dump() == R"({"decision":"block","reason":"no"})");
  CHECK(hook_denial(agent("gemini"), "no").dump() == R"({"decision":"deny","reason":"no"})");
  CHECK(hook_context(agent("gemini"), hook_event::post_tool_use, "x").dump() ==
        R"({"hookSpecificOutput":{"hookEventName":"AfterTool","additionalContext":"x"}})");
  CHECK(hook_context(agent("codex"), hook_event::pre_tool_use, "x").dump() == R"({"systemMessage":"x"})");
  CHECK(hook_context(agent("claude"), hook_event::session_start, "x")["hookSpecificOutput"]["hookEventName"] == "SessionStart");
  CHECK(hook_context(agent("hermes"), hook_event::session_start, "x").dump() == R"({"context":"x"})");
  CHECK(!agents::find("vim"));
  CHECK(!find_hook_event("PreToolUse"));
}

TEST_CASE("a session's label says who it is") {
  CHECK(label("claude", {}) == "claude-code platform:cli origin:claude-code session:12345678");
  CHECK(label("codex", {{"AGENT_IDENTITY", "work"}}) == "identity:work codex platform:cli origin:codex session:12345678");
  CHECK(label("codex", {{"SWARM_CODEX_IDENTITY", "identity:home"}, {"AGENT_IDENTITY", "work"}}) ==
        "identity:home codex platform:cli origin:codex session:12345678");
  CHECK(label("claude", {{"SWARM_CODEX_IDENTITY", "x"}, {"SWARM_IDENTITY", "two words"}}) ==
        "claude-code platform:cli origin:claude-code session:12345678");
  CHECK(label("claude", {{"SWARM_ROLE", "gateway"}}) == "claude-code platform:cli mode:gateway role:planner origin:claude-code session:12345678");
  CHECK(label("claude", {{"SWARM_ROLE", "gateway"}, {"SWARM_CC_ROLE", "worker"}, {"SWARM_AGENT_ROLE", "Fixer"}}) ==
        "claude-code platform:cli role:fixer origin:claude-code session:12345678");
  CHECK(label("claude", {{"SWARM_CC_AGENT_ROLE", "worker"}, {"SWARM_AGENT_ROLE", "fixer"}}) ==
        "claude-code platform:cli origin:claude-code session:12345678");
  CHECK(label("claude", {{"SWARM_CC_AGENT_ROLE", "a b\nmode:gateway"}}) ==
        "claude-code platform:cli role:a_b_mode:gateway origin:claude-code session:12345678");
  CHECK(label("claude", {{"SWARM_CC_LABEL", "role:x"}, {"AGENT_IDENTITY", "w"}}) == "identity:w role:x session:12345678");
  CHECK(label("claude", {{"SWARM_CC_LABEL", "identity:z session:12345678"}, {"AGENT_IDENTITY", "w"}}) == "identity:z session:12345678");
  CHECK(label("hermes", {}, "a b\tc") == "hermes platform:cli origin:hermes session:a_b_c");
  // No half of a character, and nothing but text.
  CHECK(label("hermes", {},
              "gr\xc3\xb6\xc3\x9f"
              "er\xc3\xa9") == "hermes platform:cli origin:hermes session:gr\xc3\xb6\xc3\x9f"
                               "er");
  CHECK(label("claude", {{"SWARM_CC_AGENT_ROLE", "a\xff\xc2\x9b"}}) ==
        "claude-code platform:cli role:a\xef\xbf\xbd\\x9b origin:claude-code session:12345678");
  CHECK(identity_of(agent("hermes"), environment{}, "s", "/x", "/x", "telegram bot").label == "hermes platform:telegram_bot origin:hermes session:s");
  CHECK(identity_of(agent("claude"), environment{{{"SWARM_LEASE_SECONDS", "7"}}}, "s", "/x", "/x", "").lease_ms == 7'000);
  CHECK(identity_of(agent("claude"), environment{{{"SWARM_LEASE_SECONDS", "-1"}}}, "s", "/x", "/x", "").lease_ms == 86'400'000);
  CHECK(identity_of(agent("claude"), environment{{{"SWARM_CC_LEASE_SECONDS", "999999999"}}}, "s", "/x", "/x", "").lease_ms ==
        limits::lease_max().count());
}

TEST_CASE("role and tracker are looked for from the directory up to the scope's, no further") {
  directory base;
  fs::create_directories(base / "repo/sub");
  std::ofstream{base / ".swarm-role"} << "outside";
  CHECK(!has(label("claude", {}, "s", base / "repo/sub"), "role:"));
  auto at = [&] { return identity_of(agent("claude"), environment{}, "s", base / "repo/sub", base / "repo", "").label; };
  CHECK(!has(at(), "role:"));
  std::ofstream{base / "repo/.swarm-role"} << "#no\n\nResearcher\nmore";
  CHECK(has(at(), " role:researcher "));
  std::ofstream{base / "repo/.swarm-work-tracker"} << "jira:jira-mcp\n";
  auto tracker = work_tracker_of(agent("claude"), environment{}, "work", base / "repo/sub", base / "repo");
  REQUIRE(tracker);
  CHECK(tracker->key == "config/work_tracker/work");
  CHECK(tracker->value == R"({"schema_version":1,"identity":"work","provider":"jira","mcp":"jira-mcp"})");
  tracker = work_tracker_of(agent("claude"), environment{{{"SWARM_WORK_TRACKER", R"({"provider":"Linear","url":"u","x":1})"}}}, "", base / "repo",
                            base / "repo");
  REQUIRE(tracker);
  CHECK(tracker->value == R"({"schema_version":1,"identity":"default","provider":"linear","mcp":"linear","url":"u"})");
  tracker = work_tracker_of(agent("codex"), environment{{{"SWARM_CODEX_WORK_TRACKER_PROVIDER", "gh"}, {"SWARM_WORK_TRACKER_MCP", "m"}}}, "",
                            base / "repo", base / "repo");
  REQUIRE(tracker);
  CHECK(tracker->mcp == "m");
  for (const auto* bad : {"{", "{\"provider\":7}", "a b", ":", "[1]"})
    CHECK(!work_tracker_of(agent("claude"), environment{{{"SWARM_WORK_TRACKER", bad}}}, "", "/nowhere", "/nowhere"));
  fs::remove(base / "repo/.swarm-role");
  CHECK(mkfifo((base / "repo/.swarm-role").c_str(), 0600) == 0);
  CHECK(!has(at(), "role:"));
}

TEST_CASE("the greeting has what agents are told by") {
  hook_greeting g;
  g.id = "3fa1";
  auto text = greeting_text(g);
  for (const auto* part : {"swarm coordination is active", "Instance `3fa1`", "`bootstrap`", "adopt_instance_id=\"3fa1\"", "mode `worker`"})
    CHECK(has(text, part));
  CHECK(!has(text, "Call the `register` tool"));
  CHECK(!has(text, "Gateway"));
  g.coordinator = true;
  g.soul = "kind";
  g.tracker = tracker_setting{"k", "v", "linear", "lin`ear"};
  text = greeting_text(g);
  for (const auto* part : {"mode `gateway`", "Gateway/lead mode", "bootstrap.work_tracker", "`dispatch`", "`swarm-mcp` skill", "## identity / SOUL",
                           "kind", "Configured work tracker published", "MCP `linear`"})
    CHECK(has(text, part));
  g = {};
  g.reason = "no `node`\nat all";
  text = greeting_text(g);
  CHECK(has(text, "could not auto-register this session (no node\\nat all)"));
  CHECK(has(text, "Call the `register` tool"));
  CHECK(!has(text, "swarm coordination is active"));
}

TEST_CASE("a written path and a lock meet by any name of the file") {
  directory base;
  fs::create_directories(base / "real/deep");
  fs::create_directory_symlink(base / "real", base / "link");
  hook_memory me;
  auto found = [&](shell::written_path w, const std::string& lock) { return path_matcher{{std::move(w)}, me}.find(lock) != nullptr; };
  CHECK(found({base / "real/a"}, base / "real/a"));
  CHECK(found({base / "link/a"}, base / "real/a"));
  CHECK(found({base / "real/a"}, base / "link/a"));
  CHECK(found({base / "link/deep/new/x"}, base / "real/deep/new/x"));
  CHECK(!found({base / "real"}, base / "real/a"));
  CHECK(found({base / "real", true}, base / "real/a"));
  CHECK(found({base / "link", true}, base / "real/deep/x"));
  CHECK(!found({base / "rea", true}, base / "real/a"));
  CHECK(found({base / "link/*.c", false, true}, base / "real/a.c"));
  CHECK(!found({base / "link/*.c", false, true}, base / "real/deep/a.c"));
  CHECK(!found({base / "link/*", false, true}, base / "real/deep/a.c"));
  CHECK(found({base / "link/*", true, true}, base / "real/deep/a.c"));
  CHECK(found({"/*", true, true}, base / "real/a"));
  CHECK(!path_matcher{{}, me}.find("/x"));
  // Mapped as lock_file maps it (as in swarm-mcp).
  me.directory = me.root = base / "real";
  me.file_root = base / "logical";
  CHECK(found({base / "real/a"}, base / "logical/a"));
  CHECK(found({base / "link/a"}, base / "logical/a"));
  CHECK(lock_name(base / "link/a", me) == base / "logical/a");
}

TEST_CASE("a hook that others keep from its file gives up in time, once") {
  directory base;
  fs::path state = base / "state";
  hook_store store{state, "claude", "s", std::chrono::milliseconds{100}};
  auto write = [](hook_memory& m) { return m.id = "id", true; };
  REQUIRE(store.update(write, true));
  swarm::unique_fd other{open((state / "hooks" / "claude").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  REQUIRE(flock(other.get(), LOCK_EX) == 0);
  CHECK_FALSE(store.update(write));
  CHECK(store.kept_out());
  other.reset();
  CHECK_FALSE(store.update(write)); // it has waited once
  CHECK(hook_store(state, "claude", "s").update(write));
}

TEST_CASE("a session's file is its own, survives what it finds, and is changed by one hook at a time") {
  directory base;
  fs::path state = base / "state";
  hook_store store{state, "claude", "../../etc/passwd"};
  CHECK(!store.load());
  CHECK(!store.update([](hook_memory&) { return true; }));
  CHECK(!fs::exists(state));
  auto write = [](hook_memory& m) {
    m.id = "id";
    m.state = v1::AgentReport::BLOCKED;
    m.taken["/a"] = {5, 2};
    m.calls.push_back({"k", 10, 20, {"/p"}, {{"/w", "/f", "h", {true, 1, 2, 3}}}, {"/a"}});
    return true;
  };
  REQUIRE(store.update(write, true));
  auto read = store.load();
  REQUIRE(read);
  CHECK(read->id == "id");
  CHECK(read->state == v1::AgentReport::BLOCKED);
  CHECK(read->taken.at("/a").fence == 5);
  CHECK(read->taken.at("/a").users == 2);
  REQUIRE(read->calls.size() == 1);
  CHECK(read->calls[0].paths == std::vector<std::string>{"/p"});
  CHECK(read->calls[0].locks == std::vector<std::string>{"/a"});
  CHECK(read->calls[0].watched.at(0).before == file_stamp{true, 1, 2, 3});
  CHECK(!store.update([](hook_memory& m) { return m.id != "id"; }));
  CHECK(!hook_store(state, "claude", "other").load());
  CHECK(!hook_store(state, "codex", "../../etc/passwd").load());
  CHECK(!hook_store(state, "claude", "").update(write, true));
  CHECK(hook_store::only_one(state, "claude"));
  CHECK(hook_store::may_have_written(state, "id", "/p", 20));
  CHECK(!hook_store::may_have_written(state, "id", "/p", 21));
  CHECK(!hook_store::may_have_written(state, "id", "/q", 20));
  CHECK(!hook_store::may_have_written(state, "", "/p", 0));
  for (int i = 0; i < 100; ++i)
    store.update([&](hook_memory& m) {
      m.calls.push_back({std::to_string(i), 1, 0, {}, {}, {}});
      return true;
    });
  CHECK(store.load()->calls.size() < 50);
  CHECK(hook_store::may_have_written(state, "id", "/q", 20)); // a command under way may write anything
  hook_store(state, "claude", "second").update(write, true);
  CHECK(!hook_store::only_one(state, "claude"));
  hook_store::remove_old(state, 1'000'000);
  CHECK(store.load());
  store.remove();
  CHECK(!store.load());
}

TEST_CASE("a holder's file is in the holder's worktree") {
  v1::Session holder;
  holder.set_directory("/nowhere/at/all");
  CHECK(file_of_holder("/r/a", holder) == "/r/a");
}
