// Every verb that swarm-mcp has, with --json, against the shape that swarm-mcp gives it, and the exit statuses.
#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "tests/support/node_process.hpp"

using namespace swarm::testing;

namespace {

using keys = std::set<std::string>;

keys keys_of(const json& object) {
  keys out;
  for (const auto& [name, value] : object.items())
    out.insert(name);
  return out;
}

bool has_all(const json& object, const keys& wanted) {
  auto have = keys_of(object);
  return std::includes(have.begin(), have.end(), wanted.begin(), wanted.end());
}

const keys instance_keys{"id", "scope", "directory", "root", "file_root", "pid", "label", "adopted", "lease_until"};
const keys task_keys{"id",
                     "scope",
                     "type",
                     "title",
                     "description",
                     "requester",
                     "assignee",
                     "status",
                     "files",
                     "result",
                     "created_at",
                     "updated_at",
                     "changed_at",
                     "priority",
                     "depends_on",
                     "idempotency_key",
                     "parent_task_id",
                     "review_of_task_id",
                     "fixes_task_id",
                     "progress_summary",
                     "progress_updated_at",
                     "blocked_reason",
                     "expected_next_update_at",
                     "tracker_required",
                     "tracker_provider"};

bool is_seconds(const json& value) { return value.is_number_integer() && value > 1'000'000'000 && value < 10'000'000'000; }

} // namespace

TEST_CASE("register, whoami, instances, bootstrap, deregister and remove-instance have swarm-mcp's shapes") {
  test_node node;
  auto leased = node.ctl_json({"register", "--label", "identity:work role:reviewer", "--lease-seconds", "600"});
  CHECK(has_all(leased, instance_keys));
  CHECK(leased.at("adopted") == false);
  CHECK(is_seconds(leased.at("lease_until")));
  CHECK(is_seconds(leased.at("heartbeat")));
  CHECK(leased.at("scope") == node.work());
  CHECK(leased.at("directory") == node.work());
  auto plain = node.ctl_json({"register", "--label", "identity:work"});
  CHECK(keys_of(plain) == instance_keys);
  CHECK(plain.at("lease_until").is_null());
  auto text = node.ctl({"register"});
  CHECK(text.out.rfind("registered ", 0) == 0);

  auto me = node.ctl_json({"whoami", "--as", "role:reviewer"});
  CHECK(keys_of(me) == instance_keys);
  CHECK(me.at("id") == leased.at("id"));
  CHECK(node.ctl_json({"whoami"}, {.env = {{"SWARM_MCP_INSTANCE_ID", leased.at("id")}}}).at("id") == leased.at("id"));
  // One that a row of another scope has is taken over there.
  auto far = node.ctl_json({"register", "--label", "identity:work name:far", "--lease-seconds", "600", "--scope", "other"}).at("id");
  auto taken = node.ctl_json({"register"}, {.env = {{"SWARM_MCP_INSTANCE_ID", far}}});
  CHECK(taken.at("id") == far);
  CHECK(taken.at("scope") == "other");
  CHECK(taken.at("label") == "identity:work name:far");
  CHECK(taken.at("adopted") == true);
  CHECK(node.ctl_json({"instances", "--scope", "other"}).size() == 1);
  for (const auto* verb : {"instances", "list-instances"}) {
    auto rows = node.ctl_json({verb});
    REQUIRE(rows.size() == 3);
    for (const auto& row : rows)
      CHECK(keys_of(row) == keys{"id", "scope", "directory", "root", "file_root", "label", "pid", "registered_at", "heartbeat"});
  }
  REQUIRE(node.ctl({"send", "--to", leased.at("id"), "--as", plain.at("id"), "hello", "there"}).status == 0);
  auto boot = node.ctl_json({"bootstrap", "--as", leased.at("id")});
  CHECK(keys_of(boot) == keys{"instance", "peers", "unread_messages", "tasks", "work_tracker"});
  CHECK(boot.at("peers").size() == 2);
  REQUIRE(boot.at("unread_messages").size() == 1);
  CHECK(keys_of(boot.at("unread_messages")[0]) == keys{"id", "sender", "content", "created_at"});
  CHECK(boot.at("work_tracker").is_null());
  CHECK(has_all(boot.at("tasks"), {"open", "claimed", "in_progress", "blocked", "approval_required", "done", "failed", "cancelled"}));
  CHECK(node.ctl_json({"bootstrap", "--as", leased.at("id")}).at("unread_messages").empty());

  auto gone = node.ctl_json({"deregister", "--as", plain.at("id")});
  CHECK(keys_of(gone) == keys{"ok", "id", "scope"});
  CHECK(gone.at("ok") == true);
  CHECK(node.ctl_json({"remove-instance", leased.at("id")}).at("id") == leased.at("id"));
  CHECK(node.ctl_json({"instances"}).size() == 1);
}

TEST_CASE("tasks are requested, claimed, reported, completed and listed in swarm-mcp's shapes") {
  test_node node;
  auto worker = node.session("name:worker");
  auto created = node.ctl_json({"request-task", "fix", "the", "parser", "--file", "src/a.cpp", "--priority", "3"});
  CHECK(keys_of(created) == keys{"id", "status", "task"});
  CHECK(created.at("status") == "open");
  CHECK(has_all(created.at("task"), task_keys));
  CHECK(created.at("task").at("title") == "the parser");
  CHECK(created.at("task").at("files") == json::array({node.work() + "/src/a.cpp"}));
  CHECK(created.at("task").at("depends_on").is_null());
  auto id = created.at("id").get<std::string>();
  auto keyed = node.ctl_json({"request-task", "--type", "test", "run", "it", "--idempotency-key", "k", "--depends-on", id});
  CHECK(keyed.at("status") == "blocked");
  auto again = node.ctl_json({"request-task", "--type", "test", "run", "it", "--idempotency-key", "k"});
  CHECK(again.at("existing") == true);
  CHECK(again.at("id") == keyed.at("id"));

  auto rows = node.ctl_json({"tasks"});
  REQUIRE(rows.size() == 2);
  CHECK(keys_of(rows[0]) == keys{"id", "type", "title", "status", "assignee", "requester", "priority", "created_at"});
  CHECK(rows[0].at("id") == id);
  CHECK(is_seconds(rows[0].at("created_at")));
  CHECK(node.ctl_json({"tasks", "--status", "blocked"}).size() == 1);

  auto claimed = node.ctl_json({"claim", id, "--as", worker});
  CHECK(claimed.at("ok") == true);
  CHECK(claimed.at("task_id") == id);
  auto taken = node.ctl({"claim", id, "--as", node.session("name:late"), "--json"});
  CHECK(taken.status == 1);
  CHECK(taken.parsed().contains("error"));
  CHECK(taken.err.find("claim failed: ") != std::string::npos);
  auto progress = node.ctl_json({"report-progress", id, "half", "way", "--as", worker});
  CHECK(progress.at("ok") == true);
  CHECK(progress.at("progress_summary") == "half way");
  auto complete = node.ctl_json({"complete-task", id, "--summary", "fixed", "--file", "src/a.cpp", "--test", "passed:ctest", "--as", worker});
  CHECK(complete.at("status") == "done");
  CHECK(complete.at("result").at("files_changed") == json::array({node.work() + "/src/a.cpp"}));
  auto next = node.ctl_json({"claim-next", "--as", worker, "--force"});
  CHECK(next.at("ok") == true);
  CHECK(next.at("task_id") == keyed.at("id"));
  auto updated = node.ctl_json({"update-task", keyed.at("id"), "--status", "failed", "--note", "broken", "--as", worker});
  CHECK(keys_of(updated) == keys{"ok", "task_id", "status"});
  CHECK(updated.at("status") == "failed");
  auto waiting = node.ctl_json({"request-task", "other", "ask first", "--approval-required"});
  CHECK(waiting.at("status") == "approval_required");
  auto approved = node.ctl_json({"approve", waiting.at("id")});
  CHECK(approved.at("status") == "open");
  CHECK(keys_of(node.ctl_json({"task", id})) == task_keys);
}

TEST_CASE("a lock does not take a name that nobody has expanded for a file of this directory") {
  test_node node;
  const auto one = node.session("name:one");
  const auto home = node.env({}).at("HOME");
  for (const auto& [name, meant] :
       {std::pair{std::string{"~/a"}, home + "/a"}, {"~", home}, {"file:///r/a", "/r/a"}, {"file:/r/a", "/r/a"}, {"FILE:///r/a", "/r/a"}}) {
    CAPTURE(name);
    const auto refused = node.ctl({"lock", name, "--as", one});
    CHECK(refused.status == 2);
    CHECK(refused.err.find("if you mean " + meant + ", name that; for a file of this very name: ./" + name) != std::string::npos);
  }
  CHECK(node.ctl_json({"locks"}).empty());
  CHECK(node.ctl({"lock", "./~/a", "--as", one}).out == "locked " + node.work() + "/~/a\n");
  CHECK(node.ctl({"unlock", "~/a", "--as", one}).status == 2);
  CHECK(node.ctl({"unlock", "./~/a", "--as", one}).status == 0);
}

TEST_CASE("locks have the shape that swarm-mcp's hooks read, and refusals carry the holder") {
  test_node node;
  auto one = node.session("name:one");
  auto two = node.session("name:two");
  auto locked = node.ctl_json({"lock", "src/a.cpp", "--note", "editing", "--as", one});
  CHECK(locked.at("ok") == true);
  CHECK(locked.at("id").is_string());
  CHECK(locked.at("fence").is_number_unsigned());
  auto rows = node.ctl_json({"locks"});
  REQUIRE(rows.size() == 1);
  CHECK(has_all(rows[0], {"id", "instance_id", "file", "type", "content", "created_at", "owner_label"}));
  CHECK(rows[0].at("file") == node.work() + "/src/a.cpp");
  CHECK(rows[0].at("type") == "lock");
  CHECK(rows[0].at("content") == "editing");
  CHECK(rows[0].at("instance_id") == one);
  CHECK(node.ctl_json({"locks", "--as", two}).empty());
  auto refused = node.ctl({"lock", "src/a.cpp", "--as", two, "--json"});
  CHECK(refused.status == 1);
  CHECK(refused.parsed().at("error") == "File is already locked");
  CHECK(refused.parsed().at("active").at("instance_id") == one);
  CHECK(refused.err.find("lock failed: ") != std::string::npos);
  auto unlocked = node.ctl_json({"unlock", "src/a.cpp", "--as", one});
  CHECK(keys_of(unlocked) == keys{"ok", "file"});
  CHECK(node.ctl({"locks"}).out == "(no locks in scope " + node.work() + ")\n");
}

TEST_CASE("kv commands have swarm-mcp's shapes, and a missing key is status 1 and null") {
  test_node node;
  CHECK(node.ctl_json({"kv", "set", "a", "some", "text"}).at("ok") == true);
  auto got = node.ctl_json({"kv", "get", "a"});
  CHECK(has_all(got, {"value", "updated_at", "owner_identity"}));
  CHECK(got.at("value") == "some text");
  auto appended = node.ctl_json({"kv", "append", "list", "{\"x\":1}"});
  CHECK(keys_of(appended) == keys{"ok", "key", "length"});
  CHECK(node.ctl_json({"kv", "append", "list", "2"}).at("length") == 2);
  auto rows = node.ctl_json({"kv", "list"});
  REQUIRE(rows.size() == 2);
  CHECK(keys_of(rows[0]) == keys{"key", "updated_at"});
  CHECK(node.ctl_json({"kv", "--prefix", "li"}).size() == 1);
  CHECK(keys_of(node.ctl_json({"kv", "del", "a"})) == keys{"ok", "key"});
  auto missing = node.ctl({"kv", "get", "a", "--json"});
  CHECK(missing.status == 1);
  CHECK(missing.parsed().is_null());
  CHECK(node.ctl({"kv", "get", "a"}).err.empty());
}

TEST_CASE("messages are sent, broadcast, prompted and listed in swarm-mcp's shapes") {
  test_node node;
  auto one = node.session("name:one");
  auto two = node.session("name:two");
  auto sent = node.ctl_json({"send", "--to", "name:two", "--as", one, "look", "here"});
  CHECK(sent == json{{"ok", true}, {"sender", one}, {"recipient", two}, {"scope", node.work()}});
  auto live = node.ctl_json({"register", "--label", "name:live"}).at("id").get<std::string>();
  auto all = node.ctl_json({"broadcast", "--as", one, "red"});
  CHECK(keys_of(all) == keys{"ok", "sender", "scope", "count"});
  CHECK(all.at("count") == 2);
  auto prompt = node.ctl_json({"prompt-peer", "--to", live, "--message", "please", "--as", one});
  CHECK(prompt.at("message_sent") == true);
  CHECK(prompt.at("recipient") == live);
  CHECK(prompt.at("nudged") == false);
  CHECK(prompt.at("nudge_skipped").is_string());
  auto rows = node.ctl_json({"messages"});
  REQUIRE(rows.size() == 4);
  for (const auto& row : rows)
    CHECK(keys_of(row) == keys{"id", "sender", "recipient", "content", "created_at", "read"});
  CHECK(rows[0].at("content") == "look here");
  CHECK(rows[0].at("read") == 0);
  CHECK(node.ctl_json({"messages", "--to", two, "--limit", "1"}).size() == 1);
  CHECK(node.ctl_json({"resolve-workspace-handle", "pane-1"}).at("instance_id").is_null());
}

TEST_CASE("inspect, cleanup, doctor and roles have swarm-mcp's shapes") {
  test_node node;
  node.session("name:one role:reviewer");
  REQUIRE(node.ctl({"request-task", "fix", "it"}).status == 0);
  auto inspect = node.ctl_json({"inspect"});
  CHECK(keys_of(inspect) == keys{"scope", "instances", "messages", "tasks", "locks", "kv"});
  CHECK(has_all(inspect.at("tasks")[0], task_keys));
  auto cleaned = node.ctl_json({"cleanup", "--dry-run"});
  CHECK(has_all(cleaned, {"dry_run"}));
  CHECK(node.ctl({"cleanup"}).out.rfind("cleaned all scopes", 0) == 0);
  CHECK(keys_of(node.ctl_json({"doctor"})) == keys{"ok", "failed", "scope", "checks"});
  auto roles = node.ctl_json({"roles", "--as", "name:one role:reviewer"});
  CHECK(keys_of(roles) == keys{"plugin_modes", "routing_roles", "current"});
  CHECK(roles.at("current").at("routing_role") == "reviewer");
}

TEST_CASE("spawn, spawns, subscriptions, approvals and wait answer as JSON") {
  test_node node;
  auto me = node.session("name:me");
  auto spawn = node.ctl_json({"spawn", "--key", "one", "--", "sh", "-c", "exit 3"});
  CHECK(spawn.at("existing") == false);
  CHECK(eventually([&] { return node.ctl_json({"spawns"})[0].at("status") == "ended"; }));
  CHECK(node.ctl_json({"spawns"})[0].at("exit_status") == 3);
  CHECK(node.ctl_json({"spawn", "--key", "one", "--", "sh", "-c", "exit 3"}).at("id") == spawn.at("id"));
  CHECK(node.ctl_json({"subscribe", "board", "--type", "kv.", "--from-start"}).at("name") == "board");
  REQUIRE(node.ctl({"kv", "set", "a", "b"}).status == 0);
  auto revision = node.ctl_json({"kv", "get", "a"}).at("revision").get<std::uint64_t>();
  CHECK(node.ctl_json({"ack", "board", std::to_string(revision)}).at("cursor") == revision);
  CHECK(node.ctl_json({"subscriptions"}).size() == 1);
  CHECK(node.ctl_json({"unsubscribe", "board"}).at("ok") == true);
  CHECK(node.ctl_json({"approvals"}).is_array());
  auto late = node.ctl({"wait", "--seconds", "0.05", "--json", "--as", me});
  CHECK(late.status == 4);
  CHECK(late.parsed().at("timeout") == true);
  CHECK(node.ctl_json({"version"}).contains("version"));
}

TEST_CASE("exit statuses: refused and not found 1, usage 2, no node 3, deadline 4, also with --json") {
  test_node node;
  CHECK(node.ctl({"tasks", "--no-autostart", "--json"}).status == 3);
  auto me = node.session("name:me");
  auto other = node.session("name:other");
  struct expected {
    std::vector<std::string> arguments;
    int status;
  };
  const std::vector<expected> table{
    {{"frobnicate"}, 2},
    {{"tasks", "--no-such-flag"}, 2},
    {{"request-task", "nonsense", "title"}, 2},
    {{"dispatch", " "}, 2},
    {{"update-task", "x"}, 2},
    {{"lock", "verify", "a"}, 2},
    {{"kv", "set", "a"}, 2},
    {{"task", "00000000-0000-4000-8000-000000000000"}, 1},
    {{"whoami", "--as", "nobody"}, 1},
    {{"kv", "get", "missing"}, 1},
    {{"unlock", "never-locked", "--as", "nobody"}, 1},
    {{"pty", "read", "nothing"}, 1},
    {{"claim", "nothing", "--as", "name:me"}, 1},
    {{"kv", "append", "a", "not json"}, 1},
    {{"tasks", "extra"}, 2},
  };
  for (const auto& e : table) {
    auto plain = node.ctl(e.arguments);
    CHECK_MESSAGE(plain.status == e.status, json(e.arguments).dump(), " said ", plain.out, plain.err);
    auto with_json = e.arguments;
    with_json.push_back("--json");
    CHECK_MESSAGE(node.ctl(with_json).status == e.status, json(with_json).dump());
  }
  REQUIRE(node.ctl({"lock", "a", "--as", other}).status == 0);
  CHECK(node.ctl({"lock", "a", "--as", me, "--wait", "0.2"}).status == 4);
  CHECK(node.ctl({"lock", "a", "--as", me, "--wait", "0.2", "--json"}).status == 4);
}

TEST_CASE("swarmctl names the bounds that the node's configuration sets, and a broken one does not keep it from a running node") {
  test_node node;
  fs::create_directories(node.dir().root);
  fs::permissions(node.dir().root, fs::perms::owner_all);
  std::ofstream{node.dir().config_file()} << "[limits]\nsession_reclaim = 120000\ndescription_bytes_max = 4096\n";
  CHECK(node.ctl({"register", "--help"}).out.find("it ends 2 min 0 s after it last changed something") != std::string::npos);
  auto help = node.ctl({"request-task", "--help"});
  CHECK(help.out.find("at most 4.0 KiB") != std::string::npos);
  CHECK(help.err.empty());
  REQUIRE(node.ctl({"up"}).status == 0);
  std::ofstream{node.dir().config_file()} << "[limits\n";
  auto rows = node.ctl({"tasks", "--json"});
  CHECK(rows.status == 0);
  CHECK(rows.parsed().is_array());
  CHECK(rows.err.find("config.toml:1: ") != std::string::npos);
  CHECK(std::count(rows.err.begin(), rows.err.end(), '\n') == 1);
}

TEST_CASE("text output shows control characters of others escaped") {
  test_node node;
  auto one = node.session("name:one");
  REQUIRE(node.ctl({"send", "--to", one, "evil\x1b]0;title\x07text"}).status == 0);
  REQUIRE(node.ctl({"request-task", "fix", "bad\x1b[2Jtitle"}).status == 0);
  for (const auto* verb : {"messages", "tasks", "inspect"}) {
    auto out = node.ctl({verb}).out;
    CHECK((out.find("evil") != std::string::npos || out.find("bad") != std::string::npos));
    CHECK_MESSAGE(out.find('\x1b') == std::string::npos, verb);
    CHECK_MESSAGE(out.find('\x07') == std::string::npos, verb);
  }
}

TEST_CASE("help has examples for every verb, and completion scripts exist for three shells") {
  test_node node;
  auto help = node.ctl({"--help"});
  CHECK(help.status == 0);
  for (const auto* verb : {"dispatch", "lock", "kv", "pty", "events", "register", "request-task", "doctor", "backup"}) {
    CHECK(help.out.find(verb) != std::string::npos);
    auto one = node.ctl({verb, "--help"});
    CHECK(one.status == 0);
    CHECK_MESSAGE(one.out.find("Examples:") != std::string::npos, verb);
  }
  for (const auto* shell : {"bash", "zsh", "fish"})
    CHECK(node.ctl({"completion", shell}).out.find("swarmctl") != std::string::npos);
  CHECK(node.node_pid() == 0);
}

TEST_CASE("bash completes commands by either name of the program, asking the one that was typed") {
  test_node node;
  temp_dir dir;
  auto script = dir.path() / "completion";
  std::ofstream{script} << node.ctl({"completion", "bash"}).out;
  fs::create_symlink(program("swarmctl"), dir.path() / "swarm-mcp");
  for (const auto& path : {program("swarmctl").string(), (dir.path() / "swarm-mcp").string()}) {
    auto name = fs::path{path}.filename().string();
    child_process bash{{"/bin/bash", "-uc",
                        R"(. "$1"; complete -p "$2"; COMP_WORDS=("$3" --json pty at); COMP_CWORD=3; _swarmctl; echo "${COMPREPLY[@]}")", "complete",
                        script.string(), name, path},
                       node.env(),
                       node.work()};
    auto r = bash.finish();
    CHECK(r.err.empty());
    CHECK(r.out == "complete -F _swarmctl " + name + "\nattach\n");
  }
  CHECK(node.node_pid() == 0);
}
