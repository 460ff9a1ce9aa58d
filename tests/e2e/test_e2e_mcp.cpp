// The tools of `swarmctl mcp`: what each answers, and what the swarm does behind it (docs/compatibility.md says where that differs from swarm-mcp).
#include <algorithm>
#include <csignal>
#include <ctime>
#include <fstream>

#include <doctest/doctest.h>
#include <sys/stat.h>

#include "tests/support/mcp_client.hpp"

using namespace swarm::testing;

namespace {

constexpr const char* not_woken = "no workspace identity is published for that instance";
constexpr const char* peer_keys = "id scope directory root file_root pid label registered_at heartbeat adopted lease_until";
constexpr const char* task_keys = "id scope type title description requester assignee status files result created_at updated_at changed_at priority "
                                  "depends_on idempotency_key parent_task_id review_of_task_id fixes_task_id progress_summary progress_updated_at "
                                  "blocked_reason expected_next_update_at tracker_required tracker_provider";

nlohmann::ordered_json in_order(const std::string& text) { return nlohmann::ordered_json::parse(text); }

bool is_recent(const json& seconds) { return seconds.is_number_integer() && std::abs(seconds.get<std::int64_t>() - std::time(nullptr)) < 120; }

/// A session with its server, initialized and registered.
struct member : mcp_client {
  explicit member(const test_node& node, const std::string& label = "identity:work", const environment& env = {}) : mcp_client(node, {.env = env}) {
    initialize();
    instance = enroll(label);
  }
  json instance;
};

std::string new_task(mcp_client& by, json more = json::object()) {
  more.update({{"type", "implement"}, {"title", more.value("title", "work")}});
  return by.ask("request_task", more).at("task_id");
}

std::string status_of(mcp_client& viewer, const std::string& task) { return viewer.ask("get_task", {{"task_id", task}}).at("status"); }

std::vector<std::string> ids_in(const json& rows) {
  std::vector<std::string> out;
  for (const auto& row : rows)
    out.push_back(row.at("id"));
  return out;
}

std::vector<std::string> contents_in(const json& messages) {
  std::vector<std::string> out;
  for (const auto& m : messages)
    out.push_back(m.at("content"));
  return out;
}

bool is_locked(mcp_client& viewer, const std::string& file) { return !viewer.ask("get_file_lock", {{"file", file}}).at("active").is_null(); }

/// A program that dispatch can start as the agent claude.
environment with_agent(const test_node& node, const std::string& script) {
  auto path = node.work() + "/agent";
  std::ofstream{path} << script;
  chmod(path.c_str(), 0755);
  return {{"SWARM_HARNESS_CLAUDE", path}};
}

json not_woken_prompt(const mcp_client& sender, const std::string& recipient) {
  return {{"message_sent", true}, {"sender", sender.id()}, {"recipient", recipient}, {"nudged", false}, {"nudge_skipped", not_woken}};
}

using texts = std::vector<std::string>;

} // namespace

// -- sessions --------------------------------------------------------------------------------

TEST_CASE("register answers with the instance as compact JSON, what to do next, and guidance for the known roles") {
  test_node node;
  fs::create_directories(node.work() + "/repo/.git");
  fs::create_directories(node.work() + "/repo/sub");
  auto repo = node.work() + "/repo";
  mcp_client planner{node};
  planner.initialize();
  auto reply = planner.call("register", {{"directory", "repo/sub"}, {"label", " identity:work role:planner "}});
  CHECK(reply.keys() == "id scope directory root file_root pid label adopted lease_until");
  CHECK(in_order(reply.text()).dump() == reply.text());
  auto instance = reply.value();
  CHECK(instance == json{{"id", instance.at("id")},
                         {"scope", repo},
                         {"directory", repo + "/sub"},
                         {"root", repo},
                         {"file_root", repo + "/sub"},
                         {"pid", planner.pid()},
                         {"label", "identity:work role:planner"},
                         {"adopted", true},
                         {"lease_until", nullptr}});
  REQUIRE(reply.texts.size() == 3);
  CHECK(reply.texts[1].front() != '{');
  CHECK(reply.texts[2].find("references/planner.md") != std::string::npos);
  struct {
    const char* label;
    std::size_t blocks;
  } cases[] = {{"role:Implementer", 3}, {"role:reviewer role:planner", 3}, {"role:researcher", 3}, {"role:gardener", 2}, {"name:plain", 2}};
  for (const auto& c : cases) {
    mcp_client other{node};
    auto answer = other.call("register", {{"directory", node.work()}, {"label", c.label}, {"scope", "named"}, {"file_root", repo}});
    CHECK_MESSAGE(answer.texts.size() == c.blocks, c.label);
    CHECK(answer.value().at("file_root") == repo);
    CHECK(answer.value().at("scope") == "named"); // a name is the same everywhere on the node
  }
}

TEST_CASE("whoami answers with the instance that register gave, indented") {
  test_node node;
  member me{node};
  auto reply = me.call("whoami");
  CHECK(reply.value() == me.instance);
  CHECK(reply.keys() == "id scope directory root file_root pid label adopted lease_until");
  CHECK(in_order(reply.text()).dump(2) == reply.text());
}

TEST_CASE("list_instances shows the adopted rows of the identity in the order of registration, itself included") {
  test_node node;
  member first{node, "identity:work role:planner"};
  member second{node, "identity:work role:implementer"};
  member stranger{node, "identity:home"};
  auto leased = node.session("identity:work name:leased");
  auto reply = first.call("list_instances");
  CHECK(ids_in(reply.value()) == texts{first.id(), second.id()});
  auto row = in_order(reply.text())[0];
  CHECK(keys_of(row) == peer_keys);
  CHECK(row.at("adopted") == 1);
  CHECK(is_recent(row.at("registered_at")));
  CHECK(is_recent(row.at("heartbeat")));
  CHECK(ids_in(stranger.ask("list_instances")) == texts{stranger.id()});
  // SQL LIKE: ASCII letters of either case are the same, % and _ are wildcards, and the caller itself may be filtered out.
  CHECK(ids_in(first.ask("list_instances", {{"label_contains", "ROLE:impl"}})) == texts{second.id()});
  CHECK(ids_in(first.ask("list_instances", {{"label_contains", "role%planner"}})) == texts{first.id()});
  CHECK(ids_in(first.ask("list_instances", {{"label_contains", "role_"}})).size() == 2);
  CHECK(first.text("list_instances", {{"label_contains", "nobody"}}) == "[]");
}

TEST_CASE("bootstrap gives everything in one answer, takes the messages, and lists ended tasks only when asked") {
  test_node node;
  member me{node};
  member peer{node};
  REQUIRE(peer.text("send_message", {{"recipient", me.id()}, {"content", "hi"}}) == "Message sent to " + me.id());
  auto ended = new_task(me);
  me.ask("update_task", {{"task_id", ended}, {"status", "cancelled"}});
  auto peeked = me.ask("bootstrap", {{"mark_read", false}});
  auto reply = me.call("bootstrap");
  auto got = reply.value();
  CHECK(reply.keys() == "instance peers unread_messages state_backend tasks work_tracker");
  CHECK(got.at("instance") == me.instance);
  CHECK(ids_in(got.at("peers")) == texts{peer.id()});
  CHECK(keys_of(in_order(reply.text()).at("peers")[0]) == peer_keys);
  REQUIRE(got.at("unread_messages").size() == 1);
  auto message = got.at("unread_messages")[0];
  CHECK(keys_of(in_order(reply.text()).at("unread_messages")[0]) == "id sender content created_at");
  CHECK(message.at("sender") == peer.id());
  CHECK(message.at("content") == "hi");
  CHECK(is_recent(message.at("created_at")));
  CHECK(peeked.at("unread_messages")[0] == message);
  auto backend = in_order(reply.text()).at("state_backend");
  CHECK(keys_of(backend) == "backend db_path db_path_source default_db_path scope home hermes_host_home hermes_profile_home");
  CHECK(backend.at("backend") == "sqlite");
  CHECK(backend.at("db_path") == node.dir().database().string());
  CHECK(backend.at("scope") == node.work());
  CHECK(backend.at("hermes_host_home").is_null());
  CHECK(keys_of(in_order(reply.text()).at("tasks")) == "open claimed in_progress blocked approval_required terminal_counts");
  CHECK(got.at("tasks").at("terminal_counts") == json{{"done", 0}, {"failed", 0}, {"cancelled", 1}});
  CHECK(got.at("work_tracker").is_null());
  CHECK(me.ask("bootstrap").at("unread_messages").empty());
  CHECK(ids_in(me.ask("bootstrap", {{"include_terminal", true}}).at("tasks").at("cancelled")) == texts{ended});
  CHECK(ids_in(me.ask("bootstrap", {{"terminal_limit", 1}}).at("tasks").at("cancelled")) == texts{ended});
  CHECK(me.text("kv_set", {{"key", "config/work_tracker/work"}, {"value", R"({"provider":"linear"})"}}) == "Set \"config/work_tracker/work\"");
  auto tracker = me.ask("bootstrap").at("work_tracker");
  CHECK(tracker.at("key") == "config/work_tracker/work");
  CHECK(tracker.at("value") == json{{"provider", "linear"}});
  CHECK(is_recent(tracker.at("updated_at")));
}

TEST_CASE("remove_instance ends another session, frees what it had and tells the others") {
  test_node node;
  member me{node, "identity:work role:planner"};
  member other{node, "identity:work role:implementer"};
  member third{node};
  auto task = new_task(me);
  REQUIRE(other.ask("claim_task", {{"task_id", task}}).at("ok") == true);
  REQUIRE(other.ask("lock_file", {{"file", "a"}}).at("ok") == true);
  CHECK(me.text("remove_instance", {{"instance_id", me.id()}}) == "Cannot remove yourself. Use deregister instead.");
  CHECK(me.text("remove_instance", {{"instance_id", "nobody"}}) == "Instance nobody not found in this scope");
  CHECK(me.text("remove_instance", {{"instance_id", other.id()}}) ==
        "Removed instance identity:work role:implementer (" + other.id() + "). Tasks released, locks cleared.");
  CHECK(status_of(me, task) == "open");
  CHECK_FALSE(is_locked(me, "a"));
  CHECK(contents_in(third.ask("poll_messages")) == texts{"[auto] Instance identity:work role:implementer (" + other.id() +
                                                         ") was removed by identity:work role:planner. Its tasks and locks have been released."});
  // register goes on showing what it remembers; the first call of another tool notices, and only then does register make a new row.
  CHECK(other.ask("register", {{"directory", node.work()}}).at("id") == other.id());
  CHECK(other.text("whoami") == "Not registered. Call register first.");
  CHECK(other.enroll("identity:work").at("id") != other.instance.at("id"));
  auto leased = node.session("identity:home name:leased");
  CHECK(me.text("remove_instance", {{"instance_id", leased}}).rfind("Removed instance identity:home", 0) == 0); // no identity check
}

TEST_CASE("deregister leaves the swarm, frees what the session had, and says so once") {
  test_node node;
  member me{node};
  member peer{node};
  auto task = new_task(peer);
  me.ask("claim_task", {{"task_id", task}});
  me.ask("lock_file", {{"file", "a"}});
  CHECK(me.text("deregister") == "Deregistered instance " + me.id() + ". Tasks released, locks cleared.");
  CHECK(me.text("deregister") == "Not registered. Call register first.");
  CHECK(ids_in(peer.ask("list_instances")) == texts{peer.id()});
  CHECK(status_of(peer, task) == "open");
  CHECK_FALSE(is_locked(peer, "a"));
}

TEST_CASE("a leased row is not shown, but can be written to, given a task and hold a lock") {
  test_node node;
  member me{node};
  auto leased = node.session("identity:work name:leased");
  CHECK(ids_in(me.ask("list_instances")) == texts{me.id()});
  CHECK(me.ask("bootstrap").at("peers").empty());
  CHECK(me.ask("swarm_status").at("peers").empty());
  CHECK(status_of(me, new_task(me, {{"assignee", leased}})) == "claimed");
  REQUIRE(node.ctl({"lock", "a", "--as", leased}).status == 0);
  auto refused = me.ask("lock_file", {{"file", "a"}});
  CHECK(refused.at("error") == "File is already locked");
  CHECK(refused.at("active").at("instance_id") == leased);
  CHECK(node.ctl_json({"messages", "--to", leased}).size() == 1);
}

TEST_CASE("a bound session's register changes nothing, whatever its arguments are") {
  test_node node;
  member me{node, "identity:work role:planner"};
  CHECK(me.ask("register", {{"directory", "/elsewhere"}, {"label", "identity:home"}, {"scope", "other"}}) == me.instance);
  CHECK(me.ask("whoami") == me.instance);
}

// -- messages --------------------------------------------------------------------------------

TEST_CASE("send_message checks that the recipient is active, another one, and of the same identity, in this order") {
  test_node node;
  member me{node};
  member peer{node};
  member stranger{node, "identity:home"};
  auto send = [&](const std::string& to) { return me.call("send_message", {{"recipient", to}, {"content", "x"}}); };
  CHECK(send("nobody").text() == "Instance nobody is not active in this scope");
  CHECK(send(me.id()).text() == "Cannot send a message to yourself");
  CHECK(send(stranger.id()).text().rfind("Cross-identity coordination blocked: sender identity:work, target identity:home.", 0) == 0);
  CHECK_FALSE(send(stranger.id()).is_error);
  CHECK(send(peer.id()).text() == "Message sent to " + peer.id());
  CHECK(send(node.session("identity:work name:leased")).text().rfind("Message sent to ", 0) == 0); // a leased row is a recipient, too
  CHECK(stranger.text("poll_messages") == "[]");
}

TEST_CASE("broadcast reaches every other adopted session of the identity and counts them") {
  test_node node;
  member me{node};
  member peer{node};
  member stranger{node, "identity:home"};
  node.session("identity:work name:leased");
  CHECK(me.text("broadcast", {{"content", "to all"}}) == "Broadcast sent to 1 instance(s)");
  CHECK(stranger.text("broadcast", {{"content", "alone"}}) == "Broadcast sent to 0 instance(s)");
  CHECK(contents_in(peer.ask("poll_messages")) == texts{"to all"});
  CHECK(contents_in(me.ask("poll_messages")).empty());
}

TEST_CASE("poll_messages takes the unread ones, the oldest first, up to its limit") {
  test_node node;
  member me{node};
  member peer{node};
  for (const auto* text : {"one", "two", "three"})
    peer.text("send_message", {{"recipient", me.id()}, {"content", text}});
  auto reply = me.call("poll_messages", {{"limit", 2}});
  CHECK(contents_in(reply.value()) == texts{"one", "two"});
  CHECK(keys_of(in_order(reply.text())[0]) == "id sender content created_at");
  CHECK(reply.value()[0].at("id") < reply.value()[1].at("id"));
  CHECK(contents_in(me.ask("poll_messages")) == texts{"three"});
  CHECK(me.text("poll_messages") == "[]");
}

TEST_CASE("send_message takes the label that a refused write names, or a word of it, and never a part of a word") {
  test_node node;
  member me{node, "name:me"}, bob{node, "name:bob"};
  auto send = [&](const std::string& to) { return me.text("send_message", {{"recipient", to}, {"content", "x"}}); };
  CHECK(send("name:bob") == "Message sent to name:bob");
  CHECK(send("bob") == "Message sent to bob");
  for (const auto* to : {"bo", "name", "ob", "nobody"})
    CHECK(send(to) == std::string{"Instance "} + to + " is not active in this scope");
  CHECK(node.ctl_json({"messages", "--to", bob.id()}).size() == 2);
}

TEST_CASE("prompt_peer keeps the message whether it can wake the peer or not, and tells errors as JSON") {
  test_node node;
  member me{node};
  member peer{node};
  member stranger{node, "identity:home"};
  auto reply = me.call("prompt_peer", {{"recipient", peer.id()}, {"message", "look"}, {"task_id", "T1"}});
  CHECK(reply.keys() == "message_sent sender recipient nudged nudge_skipped");
  CHECK(reply.value() == not_woken_prompt(me, peer.id()));
  CHECK(me.ask("prompt_peer", {{"recipient", peer.id()}, {"message", "quietly"}, {"nudge", false}}).at("nudge_skipped") == "nudge=false");
  CHECK(contents_in(peer.ask("poll_messages")) == texts{"[task:T1] look", "quietly"});
  auto refused = [&](const std::string& to) { return me.ask("prompt_peer", {{"recipient", to}, {"message", "x"}}).at("error").get<std::string>(); };
  CHECK(refused("nobody") == "Instance nobody is not active in this scope");
  CHECK(refused(me.id()) == "Cannot prompt yourself");
  CHECK(refused(stranger.id()).rfind("Cross-identity coordination blocked", 0) == 0);
}

TEST_CASE("peek_peer of a session without a workspace says why it shows nothing") {
  test_node node;
  member me{node};
  member peer{node};
  member stranger{node, "identity:home"};
  auto reply = me.call("peek_peer", {{"recipient", peer.id()}});
  CHECK(reply.keys() == "sender recipient peeked source lines peek_skipped");
  CHECK(reply.value() ==
        json{{"sender", me.id()}, {"recipient", peer.id()}, {"peeked", false}, {"source", "recent"}, {"lines", 80}, {"peek_skipped", not_woken}});
  auto refused = [&](const std::string& whom) { return me.ask("peek_peer", {{"recipient", whom}}).value("error", ""); };
  CHECK(refused("nobody") == "Instance nobody is not active in this scope");
  CHECK(refused(me.id()) == "Cannot peek yourself");
  CHECK(refused(stranger.id()) == "Instance " + stranger.id() + " is not active in this scope");
}

TEST_CASE("resolve_workspace_handle knows nobody yet, and refuses a blank handle and an unknown backend") {
  test_node node;
  member me{node};
  auto reply = me.call("resolve_workspace_handle", {{"handle", " p1 "}});
  CHECK(reply.keys() == "backend handle_kind handle canonical_handle instance_id ambiguous matches");
  CHECK(reply.value() == json{{"backend", "herdr"},
                              {"handle_kind", "pane"},
                              {"handle", "p1"},
                              {"canonical_handle", "p1"},
                              {"instance_id", nullptr},
                              {"ambiguous", false},
                              {"matches", json::array()}});
  auto blank = me.call("resolve_workspace_handle", {{"handle", " "}});
  CHECK(blank.is_error);
  CHECK(blank.text() == "resolve_workspace_handle requires handle");
  auto unknown = me.call("resolve_workspace_handle", {{"handle", "p1"}, {"backend", "tmux"}});
  CHECK(unknown.is_error);
  CHECK(unknown.text() == "Unsupported workspace backend \"tmux\". Currently registered: pty, herdr.");
}

// -- tasks -----------------------------------------------------------------------------------

TEST_CASE("request_task answers with id and status, tells the assignee, and finds the task of its key again") {
  test_node node;
  member me{node};
  member peer{node};
  auto open = me.call("request_task", {{"type", "fix"}, {"title", "it"}, {"idempotency_key", "k"}});
  CHECK(open.keys() == "task_id status");
  CHECK(open.value().at("status") == "open");
  auto again = me.call("request_task", {{"type", "test"}, {"title", "other"}, {"idempotency_key", "k"}, {"depends_on", {"nothing"}}});
  CHECK(again.keys() == "task_id status existing");
  CHECK(again.value() == json{{"task_id", open.value().at("task_id")}, {"status", "open"}, {"existing", true}});
  auto assigned = me.call("request_task", {{"type", "review"}, {"title", "look"}, {"assignee", peer.id()}});
  CHECK(assigned.keys() == "task_id status prompt");
  CHECK(assigned.value().at("status") == "claimed");
  CHECK(assigned.value().at("prompt") == not_woken_prompt(me, peer.id()));
  auto id = assigned.value().at("task_id").get<std::string>();
  CHECK(contents_in(peer.ask("poll_messages")) == texts{"[task:" + id + "] [auto] New review task assigned to you: \"look\" (task_id: " + id +
                                                        "). Claim it with claim_task if not auto-claimed."});
  CHECK(me.call("request_task", {{"type", "fix"}, {"title", "mine"}, {"assignee", me.id()}}).keys() == "task_id status");
}

TEST_CASE("request_task looks at the assignee before the key, and at relations only after it") {
  test_node node;
  member me{node};
  member stranger{node, "identity:home"};
  auto ask = [&](json more) {
    more.update({{"type", "fix"}, {"title", "it"}});
    return me.text("request_task", more);
  };
  ask({{"idempotency_key", "k"}});
  CHECK(ask({{"idempotency_key", "k"}, {"assignee", "nobody"}}) == "Instance nobody is not active in this scope");
  CHECK(ask({{"assignee", stranger.id()}}).rfind("Cross-identity coordination blocked", 0) == 0);
  CHECK(json::parse(ask({{"idempotency_key", "k"}, {"parent_task_id", "none"}})).at("existing") == true);
  CHECK(ask({{"depends_on", {"none"}}}) == "Dependency task none not found in scope");
  CHECK(ask({{"parent_task_id", "none"}}) == "Parent task none not found in scope");
  CHECK(ask({{"review_of_task_id", "none"}}) == "Review target task none not found in scope");
  CHECK(ask({{"fixes_task_id", "none"}}) == "Fix target task none not found in scope");
}

TEST_CASE("request_task_batch creates all or none, lets tasks refer to earlier ones, and prompts each assignee once") {
  test_node node;
  member me{node};
  member peer{node};
  auto spec = [](const std::string& title, json more = json::object()) {
    more.update({{"type", "implement"}, {"title", title}});
    return more;
  };
  auto reply = me.call("request_task_batch", {{"tasks",
                                               {spec("a", {{"assignee", peer.id()}}), spec("b", {{"depends_on", {"$1"}}, {"idempotency_key", "bk"}}),
                                                spec("c", {{"assignee", peer.id()}, {"depends_on", {"$1"}}})}}});
  CHECK(reply.keys() == "task_ids created existing tasks prompts");
  auto got = reply.value();
  REQUIRE(got.at("task_ids").size() == 3);
  auto a = got.at("task_ids")[0].get<std::string>(), b = got.at("task_ids")[1].get<std::string>(), c = got.at("task_ids")[2].get<std::string>();
  CHECK(got.at("created") == 3);
  CHECK(got.at("existing") == 0);
  CHECK(keys_of(in_order(reply.text()).at("tasks")[1]) == "id status idempotency_key new");
  CHECK(got.at("tasks")[0] == json{{"id", a}, {"status", "claimed"}, {"new", true}});
  CHECK(got.at("tasks")[1] == json{{"id", b}, {"status", "blocked"}, {"idempotency_key", "bk"}, {"new", true}});
  CHECK(got.at("prompts") == json::array({{{"recipient", peer.id()}, {"prompt", not_woken_prompt(me, peer.id())}}}));
  CHECK(contents_in(peer.ask("poll_messages")) == texts{"[auto] 2 task(s) assigned to you: \"a\" (implement, task_id: " + a +
                                                        "), \"c\" (implement, task_id: " + c + ") (blocked). Claim open tasks with claim_task."});
  auto again = me.ask("request_task_batch", {{"tasks", {spec("b", {{"idempotency_key", "bk"}})}}});
  CHECK(again == json{{"task_ids", {b}},
                      {"created", 0},
                      {"existing", 1},
                      {"tasks", json::array({{{"id", b}, {"status", "blocked"}, {"idempotency_key", "bk"}, {"new", false}}})}});
  auto details = [&](const json& tasks) {
    auto refused = me.ask("request_task_batch", {{"tasks", tasks}});
    CHECK(refused.at("error") == "Validation failed");
    texts out;
    for (const auto& d : refused.at("details"))
      out.push_back(std::to_string(d.at("task_index").get<int>()) + " " + d.at("field").get<std::string>() + ": " +
                    d.at("message").get<std::string>());
    return out;
  };
  CHECK(details({spec("x", {{"idempotency_key", "y"}}), spec("x", {{"idempotency_key", "y"}, {"depends_on", {"$9"}}})}) ==
        texts{"1 idempotency_key: Duplicate idempotency_key y also used by task 1"});
  CHECK(details({spec("x", {{"depends_on", {"$9", "$1", "$2"}}, {"assignee", "nobody"}}), spec("y", {{"parent_task_id", "$2"}})}) ==
        texts{"0 depends_on: $9 is out of range (batch has 2 tasks)", "0 depends_on: $1 is a self-reference",
              "0 depends_on: $2 is a forward reference (not allowed — task 1 cannot depend on task 2)",
              "0 assignee: Instance nobody is not active in this scope", "1 parent_task_id: $2 is a self-reference"});
  CHECK(details({spec("x", {{"depends_on", {"none"}}}), spec("y", {{"depends_on", {"none too"}}})}) ==
        texts{"0 depends_on: External task none not found in scope"});
  CHECK(me.ask("list_tasks").size() == 3);
}

TEST_CASE("claim_task starts a task, and says in order why it cannot") {
  test_node node;
  member me{node};
  member peer{node};
  member stranger{node, "identity:home"};
  auto task = new_task(me);
  auto claim = [&](mcp_client& by, const std::string& id, bool anyway = false) {
    return by.ask("claim_task", {{"task_id", id}, {"ignore_unread_messages", anyway}});
  };
  CHECK(claim(me, "none") == json{{"error", "Task not found"}});
  CHECK(claim(stranger, task) == json{{"error", "Task belongs to another identity"}});
  peer.text("send_message", {{"recipient", me.id()}, {"content", "wait"}});
  auto gated = me.call("claim_task", {{"task_id", task}});
  CHECK(gated.keys() == "error unread_message_count latest_message_id latest_message_sender");
  auto message = std::to_string(gated.value().at("latest_message_id").get<std::int64_t>());
  CHECK(gated.value().at("error") ==
        "Unread messages pending (1). Call bootstrap or poll_messages before claiming new work, or retry claim_task/claim_next_task with "
        "ignore_unread_messages=true if you intentionally want to skip them. Latest unread message: #" +
          message + " from " + peer.id() + ".");
  CHECK(gated.value().at("unread_message_count") == 1);
  CHECK(gated.value().at("latest_message_sender") == peer.id());
  auto ended = new_task(me);
  me.ask("update_task", {{"task_id", ended}, {"status", "cancelled"}});
  CHECK(claim(me, ended) == json{{"error", "Task is already cancelled"}}); // the state comes before the mail
  CHECK(me.text("claim_task", {{"task_id", task}, {"ignore_unread_messages", true}}) == in_order("{\"ok\":true}").dump(2));
  CHECK(claim(peer, task) == json{{"error", "Task is already in_progress"}});
}

TEST_CASE("claim_next_task takes what is assigned first, then by priority and age, and looks at the mail before anything else") {
  test_node node;
  member me{node};
  member peer{node};
  CHECK(me.ask("claim_next_task") == json{{"error", "No claimable task found"}});
  auto low = new_task(me, {{"title", "low"}, {"files", {"a.txt"}}});
  auto high = new_task(me, {{"title", "high"}, {"priority", 5}});
  auto mine = new_task(me, {{"title", "mine"}, {"assignee", me.id()}, {"priority", -1}});
  auto reply = me.call("claim_next_task");
  CHECK(reply.keys() == "ok task_id prior_status task");
  CHECK(reply.value().at("task_id") == mine);
  CHECK(reply.value().at("prior_status") == "claimed");
  CHECK(keys_of(in_order(reply.text()).at("task")) == task_keys);
  CHECK(reply.value().at("task").at("status") == "in_progress");
  CHECK(me.ask("claim_next_task", {{"files", {"b.txt"}}}) == json{{"error", "No claimable task found"}});
  CHECK(me.ask("claim_next_task", {{"types", {"review"}}}) == json{{"error", "No claimable task found"}});
  CHECK(me.ask("claim_next_task", {{"files", {"b.txt", node.work() + "/a.txt"}}}).at("task_id") == low);
  peer.text("send_message", {{"recipient", me.id()}, {"content", "x"}});
  CHECK(me.ask("claim_next_task", {{"types", {"review"}}}).contains("unread_message_count"));
  auto next = me.ask("claim_next_task", {{"ignore_unread_messages", true}});
  CHECK(next.at("task_id") == high);
  CHECK(next.at("prior_status") == "open");
}

TEST_CASE("update_task ends a task, tells the requester and those who waited for it") {
  test_node node;
  member me{node};
  member worker{node};
  member next{node};
  auto first = new_task(me, {{"title", "first"}, {"assignee", worker.id()}});
  auto second = new_task(me, {{"title", "second"}, {"assignee", next.id()}, {"depends_on", {first}}});
  next.ask("poll_messages");
  // `claimed` may go straight to done.
  auto reply = worker.call("update_task", {{"task_id", first}, {"status", "done"}, {"result", "fine"}});
  CHECK(reply.keys() == "ok prompt unblocked_prompts");
  CHECK(reply.value().at("prompt") == not_woken_prompt(worker, me.id()));
  CHECK(reply.value().at("unblocked_prompts") ==
        json::array({{{"task_id", second}, {"recipient", next.id()}, {"prompt", not_woken_prompt(worker, next.id())}}}));
  CHECK(contents_in(me.ask("poll_messages")) == texts{"[task:" + first + "] [auto] Task \"first\" (" + first + ") is now done. Result: fine"});
  CHECK(contents_in(next.ask("poll_messages")) ==
        texts{"[task:" + second + "] [auto] Task \"second\" (" + second + ") is unblocked and claimed by you. Call claim_task to start it."});
  CHECK(me.ask("get_task", {{"task_id", first}}).at("result") == "fine");
}

TEST_CASE("update_task refuses what the state of the task or the caller's part in it forbids") {
  test_node node;
  member me{node};
  member peer{node};
  auto update = [&](mcp_client& by, const std::string& id, const char* status) {
    return by.ask("update_task", {{"task_id", id}, {"status", status}}).value("error", "ok");
  };
  auto open = new_task(me);
  CHECK(update(me, "none", "done") == "Task not found");
  CHECK(update(me, open, "done") == "Task must be claimed before it can be updated");
  CHECK(update(me, new_task(me, {{"depends_on", {open}}}), "done") == "Task is blocked. It will auto-unblock when dependencies complete.");
  CHECK(update(me, new_task(me, {{"approval_required", true}}), "failed") == "Task is approval_required. Use approve_task to approve it first.");
  CHECK(update(peer, open, "cancelled") == "Only the requester or assignee can cancel this task");
  peer.ask("claim_task", {{"task_id", open}});
  CHECK(update(me, open, "done") == "Only the assignee can update this task");
  CHECK(update(me, open, "cancelled") == "ok");
  CHECK(update(me, open, "cancelled") == "Task is already cancelled");
}

TEST_CASE("complete_task stores its result as JSON text in one order and tells the requester the summary") {
  test_node node;
  member me{node};
  member worker{node};
  auto task = new_task(me, {{"title", "it"}, {"assignee", worker.id()}});
  auto reply = worker.call("complete_task", {{"task_id", task},
                                             {"summary", "ok"},
                                             {"files_changed", {"src/x.ts", node.work() + "/src/x.ts"}},
                                             {"tests", json::array({{{"command", "t"}, {"status", "passed"}}})},
                                             {"followups", {"f"}}});
  CHECK(reply.keys() == "ok status result prompt");
  auto result = in_order(reply.text()).at("result");
  CHECK(result.dump() ==
        R"({"summary":"ok","files_changed":[")" + node.work() + R"(/src/x.ts"],"tests":[{"command":"t","status":"passed"}],"followups":["f"]})");
  CHECK(reply.value().at("status") == "done");
  CHECK(me.ask("get_task", {{"task_id", task}}).at("result") == result.dump());
  CHECK(contents_in(me.ask("poll_messages")) == texts{"[task:" + task + "] [auto] Task \"it\" (" + task + ") is now done. Summary: ok"});
  auto own = new_task(me, {{"assignee", me.id()}});
  auto brief = me.call("complete_task", {{"task_id", own}, {"summary", "no"}, {"status", "failed"}, {"tracker_update_skipped", "none"}});
  CHECK(in_order(brief.text()).dump() ==
        R"({"ok":true,"status":"failed","result":{"summary":"no","files_changed":[],"tests":[],"tracker_update_skipped":"none","followups":[]}})");
}

TEST_CASE("a task that must report to a tracker says so on complete_task only, and a title like UTF-8 asks for nothing without a tracker") {
  test_node node;
  member me{node};
  auto complete = [&](const std::string& id, json more = json::object()) {
    more.update({{"task_id", id}, {"summary", "s"}});
    return me.ask("complete_task", more).value("error", "ok");
  };
  CHECK(complete(new_task(me, {{"title", "Fix UTF-8 decoding"}, {"assignee", me.id()}})) == "ok");
  json required{{"tracker_required", true}, {"tracker_provider", "linear"}, {"assignee", me.id()}};
  auto task = new_task(me, required);
  CHECK(me.ask("get_task", {{"task_id", task}}).at("tracker_required") == 1);
  CHECK(me.ask("get_task", {{"task_id", task}}).at("tracker_provider") == "linear");
  CHECK(complete(task) == "Tracker-backed tasks require tracker_update or tracker_update_skipped in complete_task");
  CHECK(complete(task, {{"tracker_update", {{"issue", "W-1"}}}}) == "ok");
  CHECK(me.ask("update_task", {{"task_id", new_task(me, required)}, {"status", "done"}}) == json{{"ok", true}});
}

TEST_CASE("report_progress keeps what is left out, clears what is null, and ends with the task") {
  test_node node;
  member me{node};
  member peer{node};
  auto task = new_task(me);
  auto report = [&](mcp_client& by, json more = json::object()) {
    more.update({{"task_id", task}, {"summary", "half"}});
    return by.call("report_progress", more);
  };
  CHECK(me.ask("report_progress", {{"task_id", "none"}, {"summary", "x"}}) == json{{"error", "Task not found"}});
  CHECK(report(me).value() == json{{"error", "Only the assignee can report progress on this task"}});
  me.ask("claim_task", {{"task_id", task}});
  CHECK(report(peer).value() == json{{"error", "Only the assignee can report progress on this task"}});
  auto reply = report(me, {{"blocked_reason", "w"}, {"expected_next_update_at", 99}});
  CHECK(reply.keys() == "ok progress_summary progress_updated_at blocked_reason expected_next_update_at");
  CHECK(is_recent(reply.value().at("progress_updated_at")));
  CHECK(reply.value().at("blocked_reason") == "w");
  CHECK(reply.value().at("expected_next_update_at") == 99);
  CHECK(report(me).value().at("blocked_reason") == "w");
  auto cleared = report(me, {{"blocked_reason", nullptr}, {"expected_next_update_at", nullptr}}).value();
  CHECK(cleared.at("blocked_reason").is_null());
  CHECK(cleared.at("expected_next_update_at").is_null());
  me.ask("update_task", {{"task_id", task}, {"status", "done"}});
  CHECK(report(me).value() == json{{"error", "Task is already done"}});
  CHECK(me.ask("get_task", {{"task_id", task}}).at("progress_summary").is_null());
  auto assigned = new_task(me, {{"assignee", me.id()}});
  CHECK(me.ask("report_progress", {{"task_id", assigned}, {"summary", "x"}}) ==
        json{{"error", "Task must be in_progress before progress can be reported"}});
}

TEST_CASE("approve_task looks at the dependencies again and tells the assignee") {
  test_node node;
  member me{node};
  member peer{node};
  auto approve = [&](const std::string& id) { return me.call("approve_task", {{"task_id", id}}); };
  CHECK(approve("none").value() == json{{"error", "Task not found"}});
  auto task = new_task(me, {{"approval_required", true}});
  CHECK(approve(task).text() == in_order(R"({"ok":true,"status":"open"})").dump(2));
  CHECK(approve(task).value() == json{{"error", "Task is open, not approval_required"}});
  auto open = new_task(me);
  CHECK(approve(new_task(me, {{"approval_required", true}, {"depends_on", {open}}})).value() == json{{"ok", true}, {"status", "blocked"}});
  auto assigned = new_task(me, {{"title", "it"}, {"approval_required", true}, {"assignee", peer.id()}});
  peer.ask("poll_messages");
  auto claimed = approve(assigned);
  CHECK(claimed.keys() == "ok status prompt");
  CHECK(claimed.value().at("status") == "claimed");
  CHECK(contents_in(peer.ask("poll_messages")) ==
        texts{"[task:" + assigned + "] [auto] Task \"it\" (" + assigned + ") has been approved and is now claimed by you."});
}

TEST_CASE("get_task and list_tasks give full rows with the documented keys, nulls and order") {
  test_node node;
  member me{node};
  auto task = new_task(me, {{"title", "T"}, {"files", {"src/x.ts", "/abs/y"}}, {"priority", 3}, {"depends_on", json::array()}});
  auto reply = me.call("get_task", {{"task_id", task}});
  CHECK(reply.keys() == task_keys);
  auto row = reply.value();
  CHECK(row.at("files") == json{node.work() + "/src/x.ts", "/abs/y"});
  CHECK(row.at("requester") == me.id());
  CHECK(row.at("scope") == node.work());
  CHECK(is_recent(row.at("created_at")));
  CHECK(row.at("changed_at").get<std::int64_t>() / 1000 == row.at("updated_at").get<std::int64_t>());
  CHECK(row.at("tracker_required") == 0);
  for (const auto* name :
       {"description", "assignee", "result", "depends_on", "idempotency_key", "parent_task_id", "review_of_task_id", "fixes_task_id",
        "progress_summary", "progress_updated_at", "blocked_reason", "expected_next_update_at", "tracker_provider"})
    CHECK_MESSAGE(row.at(name).is_null(), name);
  CHECK(me.text("get_task", {{"task_id", "none"}}) == "Task not found");
  auto plain = new_task(me), empty = new_task(me, {{"files", json::array()}, {"priority", 9}});
  CHECK(me.ask("get_task", {{"task_id", plain}}).at("files").is_null());
  CHECK(me.ask("get_task", {{"task_id", empty}}).at("files") == json::array());
  CHECK(ids_in(me.ask("list_tasks")) == texts{empty, task, plain});
  me.ask("update_task", {{"task_id", plain}, {"status", "cancelled"}});
  CHECK(ids_in(me.ask("list_tasks", {{"status", "cancelled"}})) == texts{plain});
  CHECK(me.ask("list_tasks", {{"requester", "nobody"}}).empty());
  CHECK(me.ask("list_tasks", {{"assignee", me.id()}}).empty());
}

TEST_CASE("list_tasks has no limit, and an empty key means no key") {
  test_node node;
  member me{node};
  auto batch = json::array();
  for (int i = 0; i < 50; ++i)
    batch.push_back({{"type", "test"}, {"title", "task " + std::to_string(i)}, {"idempotency_key", ""}});
  constexpr std::size_t batches = 12;
  for (std::size_t i = 0; i < batches; ++i)
    REQUIRE(me.ask("request_task_batch", {{"tasks", batch}}).at("created") == 50);
  CHECK(me.ask("list_tasks").size() == batches * 50);
}

TEST_CASE("what failed or was cancelled cancels what waits for it, and what is done sets it free") {
  test_node node;
  member me{node};
  auto result_of = [&](const std::string& id) { return me.ask("get_task", {{"task_id", id}}).at("result").get<std::string>(); };
  auto first = new_task(me, {{"assignee", me.id()}});
  auto blocked = new_task(me, {{"depends_on", {first}}});
  auto waiting = new_task(me, {{"depends_on", {first}}, {"approval_required", true}});
  auto after = new_task(me, {{"depends_on", {blocked}}});
  me.ask("update_task", {{"task_id", first}, {"status", "cancelled"}});
  for (const auto& id : {blocked, waiting, after})
    CHECK(status_of(me, id) == "cancelled");
  CHECK(result_of(blocked) == "auto-cancelled: dependency " + first + " failed");
  CHECK(result_of(after) == "auto-cancelled: dependency " + blocked + " failed");
  auto open = new_task(me, {{"assignee", me.id()}});
  auto late = new_task(me, {{"depends_on", {open, first}}, {"approval_required", true}});
  CHECK(result_of(late) == "auto-cancelled: dependency " + first + " is already cancelled");
  auto failed = new_task(me, {{"assignee", me.id()}});
  me.ask("update_task", {{"task_id", failed}, {"status", "failed"}});
  CHECK(result_of(new_task(me, {{"depends_on", {failed}}})) == "auto-cancelled: dependency " + failed + " is already failed");
  auto freed = new_task(me, {{"depends_on", {open}}});
  auto held = new_task(me, {{"depends_on", {open}}, {"approval_required", true}});
  me.ask("update_task", {{"task_id", open}, {"status", "done"}});
  CHECK(status_of(me, freed) == "open");
  CHECK(status_of(me, held) == "approval_required");
}

TEST_CASE("a task stays visible to the identity that asked for it when its requester has gone") {
  test_node node;
  member requester{node};
  member peer{node};
  member stranger{node, "identity:home"};
  auto task = new_task(requester);
  requester.text("deregister");
  CHECK(status_of(peer, task) == "open");
  CHECK(stranger.text("get_task", {{"task_id", task}}) == "Task not found");
  CHECK(peer.ask("claim_next_task").at("task_id") == task);
}

// -- locks -----------------------------------------------------------------------------------

TEST_CASE("lock_file, get_file_lock and unlock_file show and change one row") {
  test_node node;
  member me{node, "identity:work role:a"};
  member peer{node};
  auto locked = me.call("lock_file", {{"file", "src/a.ts"}});
  CHECK(locked.keys() == "ok id");
  auto task = new_task(me, {{"title", "t"}});
  me.ask("claim_task", {{"task_id", task}});
  auto shown = peer.call("get_file_lock", {{"file", "src/a.ts"}});
  CHECK(shown.keys() == "file active");
  auto row = in_order(shown.text()).at("active");
  CHECK(keys_of(row) == "id instance_id file type content created_at owner active_tasks");
  CHECK(keys_of(row.at("owner")) == "id label heartbeat heartbeat_age_seconds stale reclaimable active");
  CHECK(row.at("id") == locked.value().at("id"));
  CHECK(row.at("instance_id") == me.id());
  CHECK(row.at("file") == node.work() + "/src/a.ts");
  CHECK(row.at("type") == "lock");
  CHECK(row.at("content") == "actively editing");
  CHECK(row.at("owner").at("label") == "identity:work role:a");
  CHECK(row.at("owner").at("stale") == false);
  CHECK(row.at("owner").at("active") == true);
  CHECK(row.at("active_tasks").dump() == R"([{"id":")" + task + R"(","type":"implement","title":"t","status":"in_progress"}])");
  auto refused = peer.call("lock_file", {{"file", node.work() + "/src/a.ts"}, {"reason", "me too"}});
  CHECK_FALSE(refused.is_error);
  CHECK(refused.keys() == "error active");
  CHECK(refused.value().at("error") == "File is already locked");
  CHECK(refused.value().at("active").at("id") == row.at("id"));
  CHECK(peer.text("unlock_file", {{"file", "src/a.ts"}}) == "Unlocked src/a.ts"); // says so, and does nothing to another's
  CHECK(is_locked(peer, "src/a.ts"));
  CHECK(me.text("unlock_file", {{"file", "src/a.ts"}}) == "Unlocked src/a.ts");
  CHECK(peer.ask("get_file_lock", {{"file", "src/a.ts"}}) == json{{"file", node.work() + "/src/a.ts"}, {"active", nullptr}});
}

TEST_CASE("locking again renews the row, unless it is asked to be exclusive") {
  test_node node;
  member me{node};
  auto task = new_task(me, {{"assignee", me.id()}});
  auto first = me.ask("lock_file", {{"file", "a"}, {"reason", "one"}, {"task_id", task}});
  auto exclusive = me.ask("lock_file", {{"file", "a"}, {"exclusive", true}});
  CHECK(exclusive.at("error") == "File is already locked");
  CHECK(exclusive.at("active").at("content") == "one");
  auto second = me.ask("lock_file", {{"file", "a"}});
  CHECK(second.at("id") != first.at("id"));
  CHECK(me.ask("get_file_lock", {{"file", "a"}}).at("active").at("content") == "actively editing");
  CHECK(me.ask("swarm_status").at("held_locks")[0].at("task_id").is_null()); // the old tag is gone
}

TEST_CASE("a lock is for the logical path: relative to the file root, mapped into its repository, or literal") {
  test_node node;
  auto main = node.work() + "/main", tree = node.work() + "/tree";
  for (const auto& d : {main + "/.git", main + "/sub", tree + "/.git", tree + "/sub"})
    fs::create_directories(d);
  mcp_client me{node};
  me.ask("register", {{"directory", tree + "/sub"}, {"file_root", main + "/sub"}, {"scope", main}, {"label", "identity:work"}});
  auto resolved = [&](const std::string& file) { return me.ask("get_file_lock", {{"file", file}}).at("file").get<std::string>(); };
  CHECK(resolved("a") == main + "/sub/a");
  CHECK(resolved("../b/./c") == main + "/b/c");
  CHECK(resolved(tree + "/x") == main + "/x");
  CHECK(resolved(tree + "/sub/x") == main + "/sub/x");
  CHECK(resolved("/__swarm/spawn/x") == "/__swarm/spawn/x");
  CHECK(resolved("/elsewhere/../there") == "/there");
  CHECK(resolved(" a ") == main + "/sub/a");
  CHECK(resolved("") == main + "/sub");
  // A lock on a directory covers all that is below it, so nobody gets one for a name that was left out.
  CHECK(me.text("lock_file", {{"file", ""}}).find("is empty") != std::string::npos);
}

TEST_CASE("the end of a task releases the assignee's locks in three steps and leaves the swarm's own paths") {
  test_node node;
  member me{node};
  member peer{node};
  auto claimed = [&](json more = json::object()) {
    more["assignee"] = me.id();
    return new_task(peer, more);
  };
  auto first = claimed({{"files", {"of-first"}}}), second = claimed();
  for (const auto* file : {"of-first", "loose", "/__swarm/own"})
    REQUIRE(me.ask("lock_file", {{"file", file}}).contains("ok"));
  REQUIRE(me.ask("lock_file", {{"file", "tagged"}, {"task_id", first}}).contains("ok"));
  peer.ask("update_task", {{"task_id", first}, {"status", "cancelled"}}); // the actor is another one
  CHECK_FALSE(is_locked(peer, "of-first"));
  CHECK_FALSE(is_locked(peer, "tagged"));
  CHECK(is_locked(peer, "loose")); // there is another task
  me.ask("poll_messages");
  me.ask("update_task", {{"task_id", second}, {"status", "done"}});
  CHECK_FALSE(is_locked(peer, "loose"));
  CHECK(is_locked(peer, "/__swarm/own"));
}

TEST_CASE("another identity's path cannot be locked, and its lock shows only that it is there") {
  test_node node;
  auto mine = node.work() + "/mine", theirs = node.work() + "/theirs";
  for (const auto& d : {mine, theirs})
    fs::create_directories(d);
  mcp_client owner{node};
  owner.ask("register", {{"directory", theirs}, {"scope", "shared"}, {"label", "identity:home"}});
  mcp_client me{node};
  me.ask("register", {{"directory", mine}, {"scope", "shared"}, {"label", "identity:work"}});
  auto leased = node.ctl({"register", theirs, "--scope", "shared", "--label", "identity:third", "--lease-seconds", "600"});
  REQUIRE(leased.status == 0);
  json hidden{{"hidden", true}, {"reason", "cross_identity"}, {"file", theirs + "/a"}};
  auto refused = me.ask("lock_file", {{"file", theirs + "/a"}});
  CHECK(refused.at("explanation").get<std::string>().find("which is identity:home; you are identity:work") != std::string::npos);
  refused.erase("explanation");
  CHECK(refused == json{{"error", "Cannot lock a path owned by another identity"}, {"active", hidden}});
  REQUIRE(owner.ask("lock_file", {{"file", "a"}, {"reason", "secret"}}).contains("ok")); // the leased row has no say
  CHECK(me.ask("get_file_lock", {{"file", theirs + "/a"}}) == json{{"file", theirs + "/a"}, {"active", hidden}});
}

// -- keys ------------------------------------------------------------------------------------

TEST_CASE("the kv tools answer as documented, a miss and a refusal each in their own way") {
  test_node node;
  member me{node};
  member stranger{node, "identity:home"};
  CHECK(me.text("kv_set", {{"key", "k"}, {"value", "v"}}) == "Set \"k\"");
  auto got = me.call("kv_get", {{"key", "k"}});
  CHECK(got.keys() == "value updated_at owner_identity");
  CHECK(got.value().at("value") == "v");
  CHECK(is_recent(got.value().at("updated_at")));
  CHECK(got.value().at("owner_identity") == "identity:work");
  CHECK(me.text("kv_append", {{"key", "list"}, {"value", "[1]"}}) == "Appended to \"list\" (1 items)");
  CHECK(me.text("kv_append", {{"key", "list"}, {"value", "\"x\""}}) == "Appended to \"list\" (2 items)");
  CHECK(me.ask("kv_get", {{"key", "list"}}).at("value") == R"([[1],"x"])");
  CHECK(me.text("kv_append", {{"key", "k"}, {"value", "2"}}) == "Appended to \"k\" (2 items)"); // what is no JSON becomes a text
  CHECK(me.ask("kv_get", {{"key", "k"}}).at("value") == R"(["v",2])");
  CHECK(me.text("kv_append", {{"key", "k"}, {"value", "no json"}}) == "Value must be valid JSON");
  CHECK(me.text("kv_get", {{"key", "none"}}) == "Key \"none\" not found");
  CHECK(me.text("kv_delete", {{"key", "none"}}) == "Deleted \"none\"");
  // Of another identity: read as missing, not listed, written in vain.
  CHECK(stranger.text("kv_get", {{"key", "k"}}) == "Key \"k\" not found");
  CHECK(stranger.text("kv_list") == "[]");
  CHECK(stranger.ask("kv_set", {{"key", "k"}, {"value", "w"}}) == json{{"error", "KV key is owned by another identity"}});
  auto append = stranger.call("kv_append", {{"key", "k"}, {"value", "1"}});
  CHECK(append.is_error);
  CHECK(append.text() == "KV key is owned by another identity");
  CHECK(stranger.text("kv_delete", {{"key", "k"}}) == "Deleted \"k\"");
  CHECK(me.ask("kv_get", {{"key", "k"}}).at("value") == R"(["v",2])");
  CHECK(me.text("kv_delete", {{"key", "k"}}) == "Deleted \"k\"");
  CHECK(me.text("kv_get", {{"key", "k"}}) == "Key \"k\" not found");
}

TEST_CASE("a key of nobody is open to all until an identity writes it") {
  test_node node;
  member unlabelled{node, ""};
  member me{node};
  member stranger{node, "identity:home"};
  auto owner = [&] { return me.ask("kv_get", {{"key", "k"}}).at("owner_identity"); };
  unlabelled.text("kv_set", {{"key", "k"}, {"value", "1"}});
  CHECK(owner().is_null());
  CHECK(stranger.ask("kv_get", {{"key", "k"}}).at("value") == "1");
  me.text("kv_set", {{"key", "k"}, {"value", "2"}});
  CHECK(owner() == "identity:work");
  for (auto* other : {static_cast<mcp_client*>(&unlabelled), static_cast<mcp_client*>(&stranger)})
    CHECK(other->text("kv_get", {{"key", "k"}}) == "Key \"k\" not found");
}

TEST_CASE("kv_list takes its prefix as LIKE does and lists by key, and plan/v3 is a key like any other") {
  test_node node;
  member me{node};
  for (const auto* key : {"plan/v3", "Plan/b", "plan_c", "other"})
    me.text("kv_set", {{"key", key}, {"value", "x"}});
  auto keys = [&](json arguments = json::object()) {
    texts out;
    for (const auto& row : me.ask("kv_list", arguments))
      out.push_back(row.at("key"));
    return out;
  };
  CHECK(keys() == texts{"Plan/b", "other", "plan/v3", "plan_c"});
  CHECK(keys({{"prefix", "plan/"}}) == texts{"Plan/b", "plan/v3"});
  CHECK(keys({{"prefix", "plan_"}}) == texts{"Plan/b", "plan/v3", "plan_c"});
  CHECK(keys({{"prefix", "%er"}}) == texts{"other"});
  CHECK(keys_of(in_order(me.text("kv_list"))[0]) == "key updated_at");
}

// -- overview --------------------------------------------------------------------------------

TEST_CASE("swarm_status says what to do next, in the order of urgency") {
  test_node node;
  member me{node};
  member planner{node, "identity:work role:planner"};
  auto next = [&] { return me.ask("swarm_status").at("next_action"); };
  auto reply = me.call("swarm_status");
  CHECK(reply.keys() == "instance peers planner_owner unread_messages task_counts assigned_tasks claimable_tasks active_peer_tasks held_locks "
                        "blocking_locks warnings next_action");
  auto got = in_order(reply.text());
  CHECK(keys_of(got.at("instance")) == "id label role scope directory file_root");
  CHECK(keys_of(got.at("planner_owner")) == "instance_id label assigned_at is_me");
  CHECK(got.at("planner_owner").at("instance_id") == planner.id());
  CHECK(got.at("planner_owner").at("is_me") == false);
  CHECK(keys_of(got.at("task_counts")) == "open claimed in_progress done failed cancelled blocked approval_required");
  CHECK(next().at("tool") == "wait_for_activity");
  auto task = new_task(me, {{"files", {"x"}}});
  CHECK(next().at("tool") == "claim_next_task");
  auto summary = in_order(me.text("swarm_status")).at("claimable_tasks")[0];
  CHECK(keys_of(summary) == "id type title status assignee requester priority files depends_on parent_task_id review_of_task_id fixes_task_id "
                            "progress_summary progress_updated_at blocked_reason expected_next_update_at");
  CHECK(summary.at("depends_on") == json::array());
  auto mine = new_task(me, {{"assignee", me.id()}});
  CHECK(next().at("tool") == "claim_task");
  CHECK(next().at("task_id") == mine);
  me.ask("claim_task", {{"task_id", task}});
  CHECK(next().at("tool") == "complete_task");
  REQUIRE(planner.ask("lock_file", {{"file", "x"}}).contains("ok"));
  auto status = me.ask("swarm_status");
  texts codes;
  for (const auto& w : status.at("warnings"))
    codes.push_back(w.at("code"));
  for (const auto* code : {"missing_lock_for_in_progress_task", "file_locked_by_peer"})
    CHECK_MESSAGE(std::find(codes.begin(), codes.end(), code) != codes.end(), code);
  CHECK(status.at("blocking_locks")[0].at("task_id") == task);
  planner.text("send_message", {{"recipient", me.id()}, {"content", "x"}});
  CHECK(next().at("tool") == "poll_messages");
  CHECK(me.ask("swarm_status").at("unread_messages").size() == 1); // it only looks
}

TEST_CASE("the planner that leaves hands over to the next one, and without one there is none") {
  test_node node;
  member first{node, "identity:work role:planner"};
  member second{node, "identity:work role:planner"};
  member me{node};
  auto owner = [&] { return me.ask("swarm_status").at("planner_owner"); };
  CHECK(owner().at("instance_id") == first.id());
  CHECK(json::parse(me.ask("kv_get", {{"key", "owner/planner"}}).at("value").get<std::string>()).at("instance_id") == first.id());
  first.text("deregister");
  CHECK(owner().at("instance_id") == second.id());
  CHECK(second.ask("swarm_status").at("planner_owner").at("is_me") == true);
  second.text("deregister");
  CHECK(owner().is_null());
  CHECK(me.text("kv_get", {{"key", "owner/planner"}}) == "Key \"owner/planner\" not found");
}

TEST_CASE("wait_for_activity answers at once with unread mail and the board, and with compact JSON when nothing happens") {
  test_node node;
  member me{node};
  member peer{node};
  auto quiet = me.call("wait_for_activity", {{"timeout_seconds", 1}});
  CHECK(quiet.text() == R"({"changes":[],"timeout":true,"message":"No new activity within timeout."})");
  peer.text("send_message", {{"recipient", me.id()}, {"content", "hi"}});
  auto mail = me.call("wait_for_activity");
  CHECK(mail.keys() == "changes messages tasks");
  CHECK(mail.value().at("changes") == json{"new_messages"});
  CHECK(contents_in(mail.value().at("messages")) == texts{"hi"});
  CHECK(keys_of(in_order(mail.text()).at("tasks")) == "open claimed in_progress done failed cancelled blocked approval_required terminal_counts");
  CHECK(me.text("poll_messages") == "[]"); // taken
}

// -- identity --------------------------------------------------------------------------------

TEST_CASE("sessions without a label share an identity: they see each other, lock, and claim by id") {
  test_node node;
  member one{node, ""};
  member two{node, ""};
  member labelled{node, "identity:work"};
  CHECK(one.instance.at("label").is_null());
  CHECK(ids_in(one.ask("list_instances")) == texts{one.id(), two.id()});
  CHECK(one.ask("claim_task", {{"task_id", new_task(one)}}) == json{{"ok", true}});
  CHECK(two.text("send_message", {{"recipient", one.id()}, {"content", "x"}}) == "Message sent to " + one.id());
  CHECK(one.text("send_message", {{"recipient", labelled.id()}, {"content", "x"}}) != "Message sent to " + labelled.id());
  fs::create_directories(node.work() + "/alone");
  mcp_client alone{node};
  alone.ask("register", {{"directory", node.work() + "/alone"}, {"scope", "alone"}});
  CHECK(alone.ask("lock_file", {{"file", "a"}}).contains("ok"));
}

TEST_CASE("the variables that open a boundary apply to a session that has the right, and for no other") {
  test_node node;
  member stranger{node, "identity:home"};
  environment opened{{"SWARM_MCP_ALLOW_CROSS_IDENTITY", "yes"}, {"SWARM_MCP_ALLOW_SPAWN", "1"}};
  auto granted =
    node.ctl_json({"register", "--lease-seconds", "600", "--label", "identity:work", "--grant", "cross_identity", "--grant", "spawn"}).at("id");
  member plain{node, "identity:work", opened};
  mcp_client open{node, {.env = opened}};
  CHECK(open.enroll({}, {{"adopt_instance_id", granted}}).at("id") == granted);
  auto send = [&](mcp_client& by) { return by.text("send_message", {{"recipient", stranger.id()}, {"content", "x"}}); };
  CHECK(send(plain).rfind("Cross-identity coordination blocked", 0) == 0);
  CHECK(send(open) == "Message sent to " + stranger.id());
  CHECK(open.ask("list_instances").size() == 3);
  json dispatch{{"title", "it"}, {"role", "nobody"}, {"spawn", false}, {"force_spawn", true}};
  CHECK(plain.ask("dispatch", dispatch).at("error").get<std::string>().rfind("dispatch is gateway-only.", 0) == 0);
  CHECK(open.ask("dispatch", dispatch).at("status") == "no_worker");
}

TEST_CASE("an identity that is confined to directories cannot be registered elsewhere") {
  test_node node;
  mcp_client me{node, {.env = {{"SWARM_MCP_WORK_ROOTS", "/srv/work:/srv/more"}}}};
  auto refused = me.call("register", {{"directory", node.work()}, {"label", "identity:work"}});
  CHECK(refused.is_error);
  CHECK(refused.text() ==
        "Registration blocked: identity:work directory must be under one of /srv/work, /srv/more. Set SWARM_MCP_WORK_ROOTS to override.");
  CHECK_FALSE(me.call("register", {{"directory", node.work()}, {"label", "identity:home"}}).is_error);
}

// -- dispatch --------------------------------------------------------------------------------

TEST_CASE("dispatch is for coordinators, and refuses before it makes a task") {
  test_node node;
  member plain{node};
  member gateway{node, "identity:work mode:gateway"};
  auto refused = [](mcp_client& by, json more = json::object()) {
    more["title"] = more.value("title", "it");
    auto reply = by.call("dispatch", more);
    CHECK_FALSE(reply.is_error);
    return reply.value().at("error").get<std::string>();
  };
  CHECK(refused(plain) ==
        "dispatch is gateway-only. Use a requester labeled mode:gateway, or set SWARM_MCP_ALLOW_SPAWN=1 from a trusted operator shell.");
  CHECK(refused(gateway, {{"title", " "}}) == "dispatch requires a title");
  CHECK(refused(gateway, {{"spawner", "nonesuch"}}).rfind("Unknown dispatch spawner \"nonesuch\". Registered spawners:", 0) == 0);
  CHECK(refused(gateway, {{"label", "identity:home"}}) == "Spawn label identity identity:home does not match requester identity:work");
  CHECK(gateway.ask("list_tasks").empty());
}

TEST_CASE("dispatch without a worker leaves a task of a key that hashes as it always did") {
  test_node node;
  mcp_client gateway{node};
  gateway.ask("register", {{"directory", node.work()}, {"scope", "/repo"}, {"label", "identity:work mode:gateway"}});
  auto reply = gateway.call("dispatch", {{"title", "Do it"}, {"message", "all of it"}, {"spawn", false}});
  CHECK(reply.keys() == "status task_id task role promotion");
  auto got = reply.value();
  CHECK(got.at("status") == "no_worker");
  CHECK(got.at("role") == "implementer");
  CHECK(got.at("promotion") ==
        json{{"decision", {{"promote", false}, {"reason", "no_tracker_configured"}, {"identity", "work"}, {"provider", nullptr}}}});
  CHECK(got.at("task").at("idempotency_key") == "dispatch:78e34052518ea3cf");
  CHECK(got.at("task").at("description") == "all of it");
  CHECK(gateway.ask("dispatch", {{"title", " Do it "}, {"spawn", false}}).at("task_id") == got.at("task_id"));
  gateway.ask("update_task", {{"task_id", got.at("task_id")}, {"status", "cancelled"}});
  CHECK(gateway.call("dispatch", {{"title", "Do it"}}).keys() == "status task_id task");
  CHECK(gateway.ask("dispatch", {{"title", "Do it"}}).at("status") == "already_terminal");
}

TEST_CASE("dispatch says of a new task whether it belongs into the tracker, as the caller decides with promote and promote_identifier") {
  test_node node;
  member gateway{node, "identity:work mode:gateway"};
  auto dispatch = [&](const std::string& title, json more) {
    more.update({{"title", title}, {"type", "test"}, {"spawn", false}});
    return gateway.call("dispatch", more);
  };
  auto promotion = [](const tool_reply& reply) { return in_order(reply.text()).at("promotion"); };
  CHECK(promotion(dispatch("before", {{"promote", true}})).at("decision").at("reason") == "no_tracker_configured");
  gateway.text("kv_set", {{"key", "config/work_tracker/work"}, {"value", R"({"provider":"linear"})"}});
  auto bound = [&](const tool_reply& reply) {
    return gateway.text("kv_get", {{"key", "tracker/linear/work/" + reply.value().at("task_id").get<std::string>()}});
  };

  auto suppressed = dispatch("see VUH-36", {{"promote", false}, {"promote_identifier", "ENG-7"}});
  CHECK(suppressed.keys() == "status task_id task role promotion");
  CHECK(promotion(suppressed).dump() == R"({"decision":{"promote":false,"reason":"operator_suppressed","identity":"work","provider":"linear"}})");
  CHECK(bound(suppressed).find("not found") != std::string::npos);

  auto linked = dispatch("see VUH-37", {{"promote_identifier", "ENG-7"}});
  CHECK(keys_of(promotion(linked)) == "decision binding_written");
  CHECK(promotion(linked).at("decision").dump() ==
        R"({"promote":true,"mode":"link","reason":"explicit_identifier","identity":"work","provider":"linear","identifier":"ENG-7",)"
        R"("existing_binding":null,"precedence":"per_dispatch"})");
  auto written = promotion(linked).at("binding_written");
  CHECK(keys_of(written) == "identifier linked_at");
  CHECK(written.at("identifier") == "ENG-7");
  CHECK(is_recent(written.at("linked_at").get<std::int64_t>() / 1000));
  CHECK(json::parse(json::parse(bound(linked)).at("value").get<std::string>()) == json(written));
  CHECK(linked.value().at("task").at("tracker_required") == 1);
  CHECK(linked.value().at("task").at("tracker_provider") == "linear");
  CHECK_FALSE(dispatch("see VUH-37", {{"promote_identifier", "ENG-8"}}).value().contains("promotion")); // decided already

  member worker{node, "identity:work role:implementer"};
  auto requested = dispatch("small", {{"promote", true}});
  CHECK(requested.keys() == "status task_id task recipient prompt promotion");
  CHECK(promotion(requested).dump() ==
        R"({"decision":{"promote":true,"mode":"create","reason":"operator_requested","identity":"work","provider":"linear",)"
        R"("existing_binding":null,"precedence":"per_dispatch"}})");
  CHECK(requested.value().at("task").at("tracker_required") == 1);
  CHECK(promotion(dispatch("smaller", json::object())).at("decision").at("reason") == "type_not_promotable");
}

TEST_CASE("dispatch finds the live worker of the role, else a generalist, and instructs it each time") {
  test_node node;
  member gateway{node, "identity:work mode:gateway"};
  member stranger{node, "identity:home role:implementer"};
  member generalist{node, "identity:work"};
  member worker{node, "identity:work role:implementer"};
  auto reply = gateway.call("dispatch", {{"title", "it"}, {"message", "do it well"}});
  CHECK(reply.keys() == "status task_id task recipient prompt promotion");
  auto got = reply.value();
  CHECK(got.at("status") == "dispatched");
  CHECK(got.at("recipient") == worker.id());
  CHECK(got.at("task").at("assignee") == worker.id());
  CHECK(got.at("prompt") == not_woken_prompt(gateway, worker.id()));
  gateway.ask("dispatch", {{"title", "it"}, {"message", "do it well"}});
  auto mail = contents_in(worker.ask("poll_messages"));
  auto id = got.at("task_id").get<std::string>();
  CHECK(mail.size() == 2);
  for (const auto& text : mail) {
    CHECK(text.rfind("[task:" + id + "] Task " + id + " is ready: it", 0) == 0);
    CHECK(text.find("do it well") != std::string::npos);
  }
  CHECK(gateway.ask("dispatch", {{"title", "other"}, {"role", "reviewer"}}).at("recipient") == generalist.id());
}

TEST_CASE("dispatch does not assign a task that was there before its worker, and takes no leased row for one") {
  test_node node;
  member gateway{node, "identity:work mode:gateway"};
  node.session("identity:work role:implementer");
  CHECK(gateway.ask("dispatch", {{"title", "it"}}).at("status") == "no_worker");
  member worker{node, "identity:work role:implementer"};
  auto got = gateway.ask("dispatch", {{"title", "it"}});
  CHECK(got.at("status") == "dispatched");
  CHECK(got.at("recipient") == worker.id());
  CHECK(got.at("task").at("status") == "open");
  CHECK(got.at("task").at("assignee").is_null());
}

TEST_CASE("dispatch that waits for the completion takes exactly the messages about the task") {
  test_node node;
  member gateway{node, "identity:work mode:gateway"};
  member worker{node, "identity:work role:implementer"};
  auto waiting = gateway.call_later("dispatch", {{"title", "it"}, {"completion_wait_seconds", 60}});
  json mail;
  REQUIRE(eventually([&] { return !(mail = worker.ask("poll_messages")).empty(); }));
  auto id = worker.ask("list_tasks")[0].at("id");
  worker.text("send_message", {{"recipient", gateway.id()}, {"content", "by the way"}});
  CHECK_FALSE(gateway.is_answered(waiting));
  worker.ask("complete_task", {{"task_id", id}, {"summary", "well done"}});
  auto got = gateway.reply_to(waiting).value();
  CHECK(got.at("status") == "dispatched");
  CHECK(got.at("task").at("status") == "done");
  CHECK(got.at("completion").at("status") == "completed");
  CHECK(got.at("completion").at("terminal_status") == "done");
  CHECK(got.at("completion").at("timeout_seconds") == 60);
  REQUIRE(got.at("consumed_completion_messages").size() == 1);
  CHECK(got.at("consumed_completion_messages")[0].at("content").get<std::string>().find("Summary: well done") != std::string::npos);
  CHECK(contents_in(gateway.ask("poll_messages")) == texts{"by the way"});
}

TEST_CASE("dispatch that waits for a completion that does not come says so at its timeout") {
  test_node node;
  member gateway{node, "identity:work mode:gateway"};
  member worker{node, "identity:work role:implementer"};
  auto late = gateway.ask("dispatch", {{"title", "never"}, {"completion_wait_seconds", 0.2}});
  CHECK(late.at("completion").at("status") == "timeout");
  CHECK_FALSE(late.contains("consumed_completion_messages"));
}

TEST_CASE("dispatch starts a worker, which is told its task, and finds it again") {
  test_node node;
  member gateway{node, "identity:work mode:gateway", with_agent(node, "#!/bin/sh\nexec sleep 1000\n")};
  auto reply = gateway.call("dispatch", {{"title", "it"}, {"harness", "claude"}});
  CHECK(reply.keys().rfind("task_id task spawner spawn_lock promotion status spawned_instance", 0) == 0);
  auto got = reply.value();
  CHECK(got.at("status") == "spawned");
  CHECK(got.at("task").at("assignee") == got.at("spawned_instance"));
  CHECK(gateway.ask("dispatch", {{"title", "it"}, {"harness", "claude"}}).at("recipient") == got.at("spawned_instance"));
}

TEST_CASE("dispatch while the worker is being started answers spawn_in_flight, again with the lock of the first") {
  test_node node;
  REQUIRE(node.ctl({"dispatch", "warm", "--harness", "exec", "--", "true"}).status == 0);
  mcp_client gateway{node, {.env = with_agent(node, "#!/bin/sh\nexec sleep 1000\n")}};
  gateway.ask("register", {{"directory", node.work()}, {"scope", "/repo"}, {"label", "identity:work mode:gateway"}});
  auto keeper = node.keeper_pid();
  REQUIRE(keeper != 0);
  kill(keeper, SIGSTOP); // what starts the worker does not get to it
  json ask{{"title", "Do it"}, {"harness", "claude"}, {"wait_seconds", 0}};
  auto first = gateway.call("dispatch", ask);
  CHECK(first.keys() == "task_id task spawner spawn_lock promotion status");
  CHECK(first.value().at("status") == "spawn_in_flight");
  CHECK(first.value().at("spawn_lock") == "/__swarm/spawn/implementer/3386b7620cc9da19");
  auto second = gateway.call("dispatch", ask);
  CHECK(second.keys() == "status task_id task lock");
  CHECK(second.value().at("status") == "spawn_in_flight");
  CHECK(second.value().at("task_id") == first.value().at("task_id"));
  auto lock = second.value().at("lock");
  CHECK(keys_of(in_order(second.text()).at("lock")) == "id instance_id file content");
  CHECK(lock.at("file") == first.value().at("spawn_lock"));
  CHECK(json::parse(lock.at("content").get<std::string>()).at("task_id") == first.value().at("task_id"));
  kill(keeper, SIGCONT);
  CHECK(eventually([&] { return gateway.ask("dispatch", ask).at("status") == "dispatched"; }));
}

TEST_CASE("dispatch whose worker cannot be started says spawn_failed and keeps the task") {
  test_node node;
  REQUIRE(node.ctl({"dispatch", "warm", "--harness", "exec", "--", "true"}).status == 0);
  member gateway{node, "identity:work mode:gateway", with_agent(node, "#!/bin/sh\nexec sleep 1000\n")};
  auto keeper = node.keeper_pid();
  REQUIRE(keeper != 0);
  kill(keeper, SIGSTOP);
  auto gone = node.work() + "/gone";
  fs::create_directories(gone);
  auto waiting = gateway.call_later("dispatch", {{"title", "it"}, {"harness", "claude"}, {"cwd", gone}});
  member witness{node};
  REQUIRE(eventually([&] { return witness.ask("list_tasks", {{"requester", gateway.id()}}).size() == 1; }));
  fs::remove(gone);
  kill(keeper, SIGCONT);
  auto reply = gateway.reply_to(waiting);
  CHECK(reply.keys() == "task_id task spawner spawn_lock promotion status error");
  CHECK(reply.value().at("status") == "spawn_failed");
  CHECK_FALSE(reply.value().value("error", "").empty());
  CHECK(status_of(gateway, reply.value().at("task_id")) == "open");
}
