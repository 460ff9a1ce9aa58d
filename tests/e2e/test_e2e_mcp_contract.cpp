// Semantics of swarm-mcp that are easy to get wrong, as far as test_e2e_mcp and test_e2e_mcp_protocol have no test of them. What
// docs/compatibility.md changes is tested as that page says.
#include <csignal>
#include <fstream>

#include <doctest/doctest.h>
#include <sys/stat.h>

#include "actors/store/apply.hpp"
#include "actors/store/sqlite_rows.hpp"
#include "tests/support/mcp_client.hpp"

using namespace swarm::testing;

namespace {

using clock_type = std::chrono::steady_clock;
using texts = std::vector<std::string>;

/// A session with its server, initialized and registered.
struct member : mcp_client {
  explicit member(const test_node& node, const std::string& label = "identity:work", const environment& env = {}) : mcp_client(node, {.env = env}) {
    initialize();
    enroll(label);
  }
};

std::string new_task(mcp_client& by, json more = json::object()) {
  more.update({{"type", "implement"}, {"title", more.value("title", "work")}});
  return by.ask("request_task", more).at("task_id");
}

json row_of(mcp_client& viewer, const std::string& task) { return viewer.ask("get_task", {{"task_id", task}}); }

/// Shortened as far as the configuration allows, so that what the contract has at 30 and 60 s comes at 3.75 and 7.5 s.
void shorten_presence(const test_node& node) {
  fs::create_directories(node.dir().root);
  std::ofstream{node.dir().config_file()}
    << "[limits]\nsession_heartbeat = 1250\nsession_stale = 3750\nsession_reclaim = 7500\nrestart_grace = 1875\n";
}
constexpr std::chrono::milliseconds shortened_reclaim{7500};

std::string leased(const test_node& node, const std::string& label, int seconds, texts more = {}) {
  texts words{"register", "--label", label, "--lease-seconds", std::to_string(seconds)};
  words.insert(words.end(), more.begin(), more.end());
  return node.ctl_json(words).at("id");
}

/// Into the database of a node that does not run.
void edit_sessions(const test_node& node, const std::function<void(swarm::v1::Session&)>& edit) {
  swarm::sqlite::connection db{node.dir().database().string(), {}};
  swarm::v1::Batch batch;
  for (auto& s : swarm::sqlite_rows{db}.rows<swarm::v1::Session>({})) {
    edit(s);
    *batch.add_patches()->mutable_session() = std::move(s);
  }
  REQUIRE(batch.patches_size() > 0);
  swarm::apply(db, batch);
}

bool is_listed(mcp_client& viewer, const std::string& id) {
  for (const auto& row : viewer.ask("list_instances"))
    if (row.at("id") == id)
      return true;
  return false;
}

} // namespace

TEST_CASE("what is refused is a normal result, text or {error} as its tool has it, and only bad arguments and exceptions set isError") {
  test_node node;
  member me{node};
  member stranger{node, "identity:home"};
  REQUIRE(stranger.text("kv_set", {{"key", "theirs"}, {"value", "1"}}) == "Set \"theirs\"");
  json task{{"type", "fix"}, {"title", "it"}};
  auto with = [](json object, const char* name, const json& value) {
    object[name] = value;
    return object;
  };
  struct row {
    const char* tool;
    json arguments;
    bool is_text;
  };
  const row refused[] = {
    {"remove_instance", {{"instance_id", "none"}}, true},
    {"send_message", {{"recipient", "none"}, {"content", "x"}}, true},
    {"prompt_peer", {{"recipient", "none"}, {"message", "x"}}, false},
    {"peek_peer", {{"recipient", "none"}}, false},
    {"request_task", with(task, "assignee", "none"), true},
    {"request_task", with(task, "assignee", stranger.id()), true},
    {"request_task", with(task, "depends_on", {"none"}), true},
    {"request_task_batch", {{"tasks", json::array({with(task, "assignee", "none")})}}, false},
    {"claim_task", {{"task_id", "none"}}, false},
    {"claim_next_task", json::object(), false},
    {"update_task", {{"task_id", "none"}, {"status", "done"}}, false},
    {"complete_task", {{"task_id", "none"}, {"summary", "x"}}, false},
    {"report_progress", {{"task_id", "none"}, {"summary", "x"}}, false},
    {"approve_task", {{"task_id", "none"}}, false},
    {"get_task", {{"task_id", "none"}}, true},
    {"lock_file", {{"file", "of the stranger's directory as well"}}, false},
    {"kv_get", {{"key", "none"}}, true},
    {"kv_set", {{"key", "theirs"}, {"value", "2"}}, false},
    {"kv_append", {{"key", "mine"}, {"value", "no json"}}, true},
    {"dispatch", {{"title", "it"}}, false},
  };
  for (const auto& r : refused) {
    auto reply = me.call(r.tool, r.arguments);
    CAPTURE(reply.text());
    CHECK_MESSAGE(!reply.is_error, r.tool);
    auto value = json::parse(reply.text(), nullptr, false);
    CHECK_MESSAGE(value.is_discarded() == r.is_text, r.tool);
    CHECK_MESSAGE((r.is_text || value.at("error").is_string()), r.tool);
  }
  CHECK(me.text("kv_delete", {{"key", "theirs"}}) == "Deleted \"theirs\""); // says so, whatever it did
  CHECK(me.text("unlock_file", {{"file", "never held"}}) == "Unlocked never held");
  CHECK(stranger.ask("kv_get", {{"key", "theirs"}}).at("value") == "1");
  const row wrong[] = {
    {"kv_get", json::object(), true},
    {"kv_get", {{"key", 1}}, true},
    {"kv_append", {{"key", "theirs"}, {"value", "1"}}, true},
    {"resolve_workspace_handle", {{"handle", " "}}, true},
    {"no_such_tool", json::object(), true},
  };
  for (const auto& r : wrong)
    CHECK_MESSAGE(me.call(r.tool, r.arguments).is_error, r.tool, " ", r.arguments.dump());
}

TEST_CASE("claimed is assigned and not begun, claim_task begins it, and what is released is open again") {
  test_node node;
  member me{node};
  member worker{node};
  auto begun = new_task(me, {{"assignee", worker.id()}}), straight = new_task(me, {{"assignee", worker.id()}}),
       left = new_task(me, {{"assignee", worker.id()}});
  worker.text("poll_messages");
  for (const auto& id : {begun, straight, left})
    CHECK(row_of(me, id).at("status") == "claimed");
  CHECK(me.ask("claim_task", {{"task_id", begun}}).at("error") == "Task is already claimed"); // another's
  CHECK(worker.ask("claim_task", {{"task_id", begun}}) == json{{"ok", true}});
  CHECK(row_of(me, begun).at("status") == "in_progress");
  CHECK(worker.ask("update_task", {{"task_id", straight}, {"status", "done"}}).at("ok") == true);
  worker.text("deregister");
  for (const auto& id : {begun, left}) {
    CHECK(row_of(me, id).at("status") == "open");
    CHECK(row_of(me, id).at("assignee").is_null());
  }
  CHECK(row_of(me, straight).at("status") == "done");
}

TEST_CASE("the locks of an ended task are free before what waited for the task opens") {
  test_node node;
  member me{node};
  auto task = new_task(me, {{"assignee", me.id()}, {"files", {"a"}}});
  auto next = new_task(me, {{"depends_on", {task}}});
  REQUIRE(me.ask("lock_file", {{"file", "a"}}).contains("ok"));
  me.ask("update_task", {{"task_id", task}, {"status", "done"}});
  CHECK(row_of(me, next).at("status") == "open");
  texts order;
  const auto told = me.ask("events_since", {{"types", {"task.", "context.lock_released"}}});
  for (const auto& e : told.at("events"))
    if (e.at("type") != "task.created")
      order.push_back(e.at("type"));
  CAPTURE(json(order).dump());
  CHECK(order == texts{"task.updated", "context.lock_released", "task.cascade.unblocked"});
}

TEST_CASE("a known key brings the task as it is, prompts nobody and looks at nothing else of the request") {
  test_node node;
  member me{node};
  member peer{node};
  json task{{"type", "fix"}, {"title", "it"}, {"idempotency_key", "k"}};
  auto id = me.ask("request_task", task).at("task_id").get<std::string>();
  me.ask("claim_task", {{"task_id", id}});
  auto again = task;
  again.update({{"title", "other"}, {"assignee", peer.id()}, {"depends_on", {"none"}}, {"approval_required", true}});
  auto reply = me.call("request_task", again);
  CHECK(reply.keys() == "task_id status existing");
  CHECK(reply.value() == json{{"task_id", id}, {"status", "in_progress"}, {"existing", true}});
  // A single one not before its assignee is somebody; in a batch it is not looked at at all.
  again["assignee"] = "nobody";
  CHECK(me.text("request_task", again) == "Instance nobody is not active in this scope");
  auto batch = me.ask("request_task_batch", {{"tasks", json::array({again, {{"type", "fix"}, {"title", "new"}}})}});
  CHECK(batch.at("created") == 1);
  CHECK(batch.at("tasks")[0] == json{{"id", id}, {"status", "in_progress"}, {"idempotency_key", "k"}, {"new", false}});
  CHECK(row_of(me, id).at("title") == "it");
  CHECK(row_of(me, id).at("assignee") == me.id());
  CHECK(peer.text("poll_messages") == "[]");
}

TEST_CASE("bootstrap, poll_messages and wait_for_activity take the mail and so open the way to new work, and what only looks does not") {
  test_node node;
  member me{node};
  member peer{node};
  auto is_gated = [&] { return me.ask("claim_next_task", {{"types", {"review"}}}).contains("unread_message_count"); };
  struct row {
    const char* tool;
    json arguments;
    bool takes;
  };
  const row rows[] = {
    {"bootstrap", {{"mark_read", false}}, false}, {"swarm_status", json::object(), false}, {"list_tasks", json::object(), false},
    {"bootstrap", json::object(), true},          {"poll_messages", json::object(), true}, {"wait_for_activity", {{"timeout_seconds", 60}}, true},
  };
  for (const auto& r : rows) {
    CAPTURE(r.tool);
    peer.text("send_message", {{"recipient", me.id()}, {"content", "x"}});
    REQUIRE(is_gated());
    me.call(r.tool, r.arguments);
    CHECK(is_gated() != r.takes);
    me.text("poll_messages");
  }
}

TEST_CASE("an id of its own is adopted wherever its row is, one that is asked for only in its scope and directory") {
  test_node node;
  auto elsewhere = node.work() + "/elsewhere";
  fs::create_directories(elsewhere);
  auto far = leased(node, "identity:work name:far", 600, {elsewhere, "--scope", "other"});
  {
    mcp_client worker{node, {.env = {{"SWARM_MCP_INSTANCE_ID", far}}}};
    worker.initialize();
    auto instance = worker.ask("whoami");
    CHECK(instance.at("id") == far);
    CHECK(instance.at("scope") == "other");
    CHECK(instance.at("directory") == elsewhere);
    CHECK(instance.at("label") == "identity:work name:far");
    CHECK(instance.at("adopted") == true);
    CHECK(instance.at("lease_until").is_null());
    CHECK(instance.at("pid") == worker.pid());
    CHECK(worker.ask("get_file_lock", {{"file", "a"}}).at("file") == elsewhere + "/a");
    REQUIRE(worker.ask("lock_file", {{"file", "a"}}).contains("ok")); // and it works there
    CHECK(node.ctl_json({"locks", "--scope", "other"}).at(0).at("instance_id") == far);
  }
  CHECK(eventually([&] { return node.ctl_json({"instances", "--scope", "other"}).empty(); })); // and ends with its process
  auto there = leased(node, "identity:work name:there", 600, {elsewhere, "--scope", node.work()});
  mcp_client me{node};
  auto instance = me.ask("register", {{"directory", node.work()}, {"label", "identity:work"}, {"adopt_instance_id", there}});
  CHECK(instance.at("id") != there);
  CHECK(instance.at("directory") == node.work());
  mcp_client other{node};
  CHECK(other.ask("register", {{"directory", elsewhere}, {"scope", node.work()}, {"adopt_instance_id", there}}).at("id") == there);
}

TEST_CASE("a row that is adopted and that no process holds can be taken over, with all it has") {
  test_node node;
  auto row = node.ctl_json({"register", "--label", "identity:work name:before"});
  REQUIRE(row.at("adopted") == true);
  auto id = row.at("id").get<std::string>();
  REQUIRE(node.ctl({"lock", "a", "--as", id}).status == 0);
  member me{node, "identity:work"};
  auto mine = me.id();
  auto instance = me.enroll("identity:work name:after", {{"adopt_instance_id", id}});
  CHECK(instance.at("id") == id);
  CHECK(instance.at("label") == "identity:work name:after");
  CHECK(instance.at("pid") == me.pid());
  CHECK(me.ask("get_file_lock", {{"file", "a"}}).at("active").at("instance_id") == id);
  CHECK(me.ask("lock_file", {{"file", "a"}}).contains("ok"));
  CHECK_FALSE(is_listed(me, mine)); // the session that took it over was somebody else before
}

TEST_CASE("without a sign of life a session is stale, then visible until its time is over, and a lease is over by itself alone") {
  test_node node;
  shorten_presence(node);
  member me{node};
  auto lives = leased(node, "identity:work name:leased", 600);
  auto began = clock_type::now();
  auto id = node.ctl_json({"register", "--label", "identity:work name:silent"}).at("id").get<std::string>();
  REQUIRE(is_listed(me, id));
  REQUIRE(node.ctl({"lock", "a", "--as", id}).status == 0);
  json stale;
  REQUIRE(eventually([&] {
    auto shown = me.ask("get_file_lock", {{"file", "a"}}).at("active");
    if (!is_listed(me, id))
      return true;
    if (!shown.is_null() && shown.at("owner").at("stale") == true)
      stale = shown.at("owner");
    return false;
  }));
  CHECK(clock_type::now() - began > shortened_reclaim);
  REQUIRE_FALSE(stale.is_null());
  CHECK(stale.at("reclaimable") == false);
  CHECK(stale.at("active") == true);
  CHECK(stale.at("heartbeat_age_seconds").get<int>() >= 4);
  CHECK(me.ask("get_file_lock", {{"file", "a"}}).at("active").is_null());
  CHECK(me.text("send_message", {{"recipient", id}, {"content", "x"}}) == "Instance " + id + " is not active in this scope");
  // As long as the silent one: a session that a process holds, and one that has a lease.
  CHECK(me.ask("whoami").at("id") == me.id());
  CHECK(me.text("send_message", {{"recipient", lives}, {"content", "x"}}) == "Message sent to " + lives);
}

TEST_CASE("what the clock was set back over is reclaimed unless it has a lease, and what nobody adopted and has no lease is for ever") {
  test_node node;
  shorten_presence(node);
  const std::string ahead = node.ctl_json({"register", "--label", "identity:work name:ahead"}).at("id");
  const auto leased_ahead = leased(node, "identity:work name:leased", 600), immortal = leased(node, "identity:work name:immortal", 600);
  REQUIRE(node.ctl({"lock", "a", "--as", ahead}).status == 0);
  REQUIRE(node.down().status == 0);
  edit_sessions(node, [&](swarm::v1::Session& s) {
    constexpr std::int64_t hour_ms = 3'600'000;
    if (s.id() == immortal) {
      s.set_heartbeat_ms(s.heartbeat_ms() - hour_ms);
      s.set_lease_until_ms(0);
    } else {
      s.set_heartbeat_ms(s.heartbeat_ms() + hour_ms);
    }
  });
  REQUIRE(node.ctl({"up"}).status == 0);
  member me{node};
  REQUIRE(eventually([&] { return !is_listed(me, ahead); }));
  CHECK(me.ask("get_file_lock", {{"file", "a"}}).at("active").is_null());
  CHECK(me.text("send_message", {{"recipient", ahead}, {"content", "x"}}) == "Instance " + ahead + " is not active in this scope");
  // As long as a session lives without a sign of life, and a sweep for it.
  const std::string silent = node.ctl_json({"register", "--label", "identity:work name:silent"}).at("id");
  REQUIRE(is_listed(me, silent));
  REQUIRE(eventually([&] { return !is_listed(me, silent); }));
  for (const auto& id : {leased_ahead, immortal}) {
    CAPTURE(id);
    CHECK(me.text("send_message", {{"recipient", id}, {"content", "x"}}) == "Message sent to " + id);
    CHECK_FALSE(is_listed(me, id)); // as rows that nobody has adopted are not
  }
  auto shown = node.ctl_json({"whoami", "--as", immortal});
  CHECK(shown.at("adopted") == false);
  CHECK(shown.at("lease_until").is_null());
}

TEST_CASE("a role is made safe in the lock's path only, and never takes another role for itself") {
  test_node node;
  REQUIRE(node.ctl({"dispatch", "warm", "--harness", "exec", "--", "true"}).status == 0);
  auto agent = node.work() + "/agent";
  std::ofstream{agent} << "#!/bin/sh\nexec sleep 1000\n";
  chmod(agent.c_str(), 0700);
  member gateway{node, "identity:work mode:gateway", {{"SWARM_HARNESS_CLAUDE", agent}}};
  auto keeper = node.keeper_pid();
  REQUIRE(keeper != 0);
  kill(keeper, SIGSTOP); // what starts the workers does not get to it
  auto dispatch = [&](const std::string& role, json more = json::object()) {
    more.update({{"title", "it"}, {"role", role}, {"wait_seconds", 0}, {"harness", "claude"}});
    return gateway.ask("dispatch", more);
  };
  const std::string path = "/__swarm/spawn/resear_cher/";
  auto one = dispatch("resear/cher"), two = dispatch("resear_cher");
  for (const auto& d : {one, two}) {
    CHECK(d.at("status") == "spawn_in_flight");
    CHECK(d.at("spawn_lock").get<std::string>().rfind(path, 0) == 0);
    CHECK(d.at("spawn_lock").get<std::string>().size() == path.size() + 16);
  }
  CHECK(one.at("task_id") != two.at("task_id")); // the role as it was given is what is hashed
  CHECK(one.at("spawn_lock") != two.at("spawn_lock"));
  CHECK(dispatch("resear/cher").at("lock").at("file") == one.at("spawn_lock"));
  CHECK(dispatch("resear cher", {{"spawn", false}}).at("role") == "resear cher");
  kill(keeper, SIGCONT);
}

TEST_CASE("with a tracker configured complete_task demands its field for whatever looks like a ticket, update_task never does") {
  test_node node;
  member me{node};
  me.text("kv_set", {{"key", "config/work_tracker/work"}, {"value", R"({"provider":"linear"})"}});
  auto completed = [&](const std::string& id, json more = json::object()) {
    more.update({{"task_id", id}, {"summary", "s"}});
    return me.ask("complete_task", more);
  };
  const std::string demand = "Tracker-backed tasks require tracker_update or tracker_update_skipped in complete_task";
  struct row {
    json task;
    bool demanded;
  };
  const row rows[] = {
    {{{"title", "Fix UTF-8 decoding"}}, true},
    {{{"title", "it"}, {"idempotency_key", "linear:eng-7"}}, true},
    {{{"title", "it"}, {"description", "https://linear.app/acme/issue/eng-12"}}, true},
    {{{"title", "Fix utf-8 decoding"}}, false},
    {{{"title", "a plain task"}}, false},
  };
  for (const auto& r : rows) {
    CAPTURE(r.task.dump());
    auto task = r.task;
    task["assignee"] = me.id();
    auto id = new_task(me, task);
    CHECK(row_of(me, id).at("tracker_required") == 0); // what the caller passed
    CHECK(completed(id).value("error", "") == (r.demanded ? demand : ""));
    if (!r.demanded)
      continue;
    CHECK(row_of(me, id).at("status") == "claimed");
    auto done = completed(id, {{"tracker_update_skipped", ""}}); // there, though empty
    CHECK(done.at("ok") == true);
    CHECK_FALSE(done.at("result").contains("tracker_update_skipped"));
  }
  CHECK(me.ask("update_task", {{"task_id", new_task(me, {{"title", "SHA-256"}, {"assignee", me.id()}})}, {"status", "done"}}) == json{{"ok", true}});
}

TEST_CASE("on the command line an empty instance id means none, a task's id is whole, and --help anywhere wins") {
  test_node node;
  auto me = leased(node, "name:me", 600);
  auto task = node.ctl_json({"request-task", "fix", "it"}).at("id").get<std::string>();
  // By that name; swarmctl takes the beginning of an id.
  fs::create_symlink(program("swarmctl"), fs::path{node.work()} / "swarm-mcp");
  child_process who{{"/bin/sh", "-c", "SWARM_MCP_INSTANCE_ID= exec ./swarm-mcp whoami --json"}, node.env(), node.work()};
  CHECK(who.finish().parsed().at("id") == me);
  child_process whole{{node.work() + "/swarm-mcp", "claim", task.substr(0, 8), "--as", me}, node.env(), node.work()};
  auto refused = whole.finish();
  CHECK(refused.status == 1);
  CHECK(refused.err.find("Task not found") != std::string::npos);
  auto help = node.ctl({"claim", task, "--as", me, "--help"});
  CHECK(help.status == 0);
  CHECK(help.out.find("claim") != std::string::npos);
  CHECK(node.ctl_json({"task", task}).at("status") == "open");
  // Our difference: with --json failures print the same and exit non-zero.
  auto other = leased(node, "name:other", 600);
  REQUIRE(node.ctl({"lock", "a", "--as", other}).status == 0);
  auto held = node.ctl({"lock", "a", "--as", me, "--json"});
  CHECK(held.status == 1);
  CHECK(held.parsed().at("error") == "File is already locked");
  auto update = node.ctl({"update-task", task, "--status", "done", "--as", me, "--json"});
  CHECK(update.status == 1);
  CHECK(update.parsed().at("error") == "Task must be claimed before it can be updated");
}

TEST_CASE("every write and deletion of a key is a change of its own, also within one millisecond") {
  test_node node;
  member me{node};
  member peer{node};
  std::vector<int> sent;
  for (int i = 0; i < 10; ++i) {
    sent.push_back(me.call_later("kv_set", {{"key", "k"}, {"value", std::to_string(i)}}));
    sent.push_back(me.call_later("kv_delete", {{"key", "k"}}));
  }
  for (auto id : sent)
    me.reply_to(id);
  auto events = me.ask("events_since", {{"types", {"kv."}}}).at("events");
  REQUIRE(events.size() == sent.size());
  for (std::size_t i = 0; i < events.size(); ++i) {
    CHECK(events[i].at("type") == (i % 2 == 0 ? "kv.set" : "kv.deleted"));
    CHECK((i == 0 || events[i].at("revision").get<std::uint64_t>() > events[i - 1].at("revision").get<std::uint64_t>()));
  }
  me.text("kv_set", {{"key", "k"}, {"value", "x"}});
  auto wait = peer.call_later("wait_for_activity", {{"timeout_seconds", 60}});
  peer.ask("whoami"); // so the wait has begun
  me.text("kv_delete", {{"key", "k"}});
  CHECK(peer.reply_to(wait).value() == json{{"changes", {"kv_updates"}}});
}

TEST_CASE("a leased planner owns the plan as any other does, and hands it on when it is removed or its lease is over") {
  test_node node;
  shorten_presence(node);
  member me{node};
  auto owner = [&] { return me.ask("swarm_status").at("planner_owner"); };
  auto brief = leased(node, "identity:work role:planner name:brief", 4);
  CHECK(owner().at("instance_id") == brief);
  CHECK(owner().at("label") == "identity:work role:planner name:brief");
  CHECK(json::parse(me.ask("kv_get", {{"key", "owner/planner"}}).at("value").get<std::string>()).at("instance_id") == brief);
  auto next = leased(node, "identity:work role:planner name:next", 600);
  member last{node, "identity:work role:planner"};
  CHECK(last.ask("swarm_status").at("planner_owner").at("is_me") == false); // there is one, though nobody has adopted it
  CHECK(eventually([&] { return owner().at("instance_id") == next; }));
  CHECK(node.ctl({"whoami", "--as", brief}).status == 1);
  CHECK(me.text("remove_instance", {{"instance_id", next}}).rfind("Removed instance", 0) == 0);
  CHECK(owner().at("instance_id") == last.id());
  CHECK(last.ask("swarm_status").at("planner_owner").at("is_me") == true);
}

TEST_CASE("who goes offline is reclaimed though its scope asks for nothing, and the others there are told by system") {
  test_node node;
  shorten_presence(node);
  member me{node};
  auto task = new_task(me, {{"title", "left behind"}});
  auto worker = leased(node, "identity:work name:worker", 4);
  REQUIRE(node.ctl({"claim", task, "--as", worker}).status == 0);
  mcp_client stranger{node};
  stranger.ask("register", {{"directory", node.work()}, {"scope", "other"}, {"label", "identity:home"}});
  auto from = me.received().size();
  stranger.text("kv_list"); // in another scope
  me.await_notification("notifications/resources/updated", {{"uri", "swarm://inbox"}}, from);
  auto mail = me.ask("poll_messages");
  REQUIRE(mail.size() == 1);
  CHECK(mail[0].at("sender") == "system");
  CHECK(mail[0].at("content") == "[auto] Agent identity:work name:worker went offline. 1 task(s) released back to open: \"left behind\" (implement, "
                                 "task_id: " +
                                   task + "). Claim them if they match your role.");
  CHECK(row_of(me, task).at("status") == "open");
  CHECK(row_of(me, task).at("assignee").is_null());
  CHECK(stranger.text("poll_messages") == "[]");
}
