#include "gateway/session/task_follow.hpp"

#include <doctest/doctest.h>

using namespace swarm;
using mcp::follow;
using mcp::follow_port;
using mcp::task_follow;
using json = nlohmann::ordered_json;

namespace {

v1::Event event(const std::string& type, const std::string& subject, const json& payload = json::object()) {
  v1::Event e;
  e.set_type(type);
  e.set_subject(subject);
  e.set_payload(payload.dump());
  return e;
}

v1::Task task(v1::TaskStatus status, const std::string& harness = {}, const std::string& result = {}) {
  v1::Task t;
  t.set_id("T");
  t.set_scope("/r");
  t.set_status(status);
  t.set_harness(harness);
  t.set_result(result);
  return t;
}

/// Plays events to the follower and gives it rows; counts how often the row was read.
struct world {
  v1::Task row = task(v1::IN_PROGRESS);
  std::vector<v1::Event> events;
  bool lost_position = false;
  int reads = 0;
  std::vector<std::string> told;
  v1::WatchRequest asked;

  follow_port port() {
    follow_port p;
    p.read = [this](const v1::Task&) {
      ++reads;
      return row;
    };
    p.watch = [this](const v1::WatchRequest& request, const auto& on, const auto& on_reset) {
      asked = request;
      if (lost_position && !on_reset())
        return;
      for (const auto& e : events)
        if (!on(e))
          return;
    };
    p.tell = [this](const v1::Event& e) { told.push_back(e.type()); };
    return p;
  }
};

v1::DispatchReply spawning() {
  v1::DispatchReply d;
  d.set_status(v1::DispatchReply::SPAWNING);
  return d;
}

} // namespace

TEST_CASE("a task is followed to its end: the row decides, events of others are passed over") {
  world w;
  w.events = {event("task.progress", "T"), event("task.updated", "other", {{"status", "done"}}), event("task.updated", "T", {{"status", "done"}}),
              event("task.progress", "T")};
  w.row = task(v1::DONE);
  task_follow f{.task = task(v1::IN_PROGRESS)};
  follow(f, 7, w.port());
  CHECK(f.task.status() == v1::DONE);
  CHECK(w.told == std::vector<std::string>{"task.progress", "task.updated"});
  CHECK(w.reads == 2); // at the event, and at the end
  CHECK(w.asked.scope() == "/r");
  CHECK(w.asked.after() == 7);
  CHECK_FALSE(w.asked.from_now());
}

TEST_CASE("an end that the row does not confirm is one of an earlier attempt: following goes on") {
  world w;
  w.events = {event("task.updated", "T", {{"status", "failed"}}), event("task.progress", "T")};
  task_follow f{.task = task(v1::IN_PROGRESS)};
  follow(f, 1, w.port());
  CHECK(w.told.size() == 2);
  CHECK_FALSE(f.done());
}

TEST_CASE("followed to its worker, a task is far enough once one runs or cannot") {
  world w;
  w.events = {event("spawn.requested", "S", {{"task_id", "T"}}), event("spawn.running", "S", {{"task_id", "T"}}), event("task.progress", "T")};
  task_follow f{.task = task(v1::OPEN), .until = task_follow::target::worker};
  follow(f, 1, w.port());
  CHECK(f.bound);
  CHECK(w.told.back() == "spawn.running");

  w.events = {event("spawn.failed", "S", {{"task_id", "T"}, {"reason", "node_restarted"}}),
              event("spawn.failed", "S", {{"task_id", "T"}, {"reason", "no program"}})};
  task_follow g{.task = task(v1::OPEN), .until = task_follow::target::worker};
  follow(g, 1, w.port());
  CHECK(g.spawn_error() == "no program"); // a restarted host may try again, which is no error yet
}

TEST_CASE("a position that is no longer kept is made up for by the row") {
  world w;
  w.lost_position = true;
  w.row = task(v1::CANCELLED);
  w.events = {event("task.progress", "T")};
  task_follow f{.task = task(v1::IN_PROGRESS)};
  follow(f, 1, w.port());
  CHECK(f.done());
  CHECK(w.told.empty());
}

TEST_CASE("a task that is over already is read once and not watched") {
  world w;
  w.row = task(v1::DONE);
  task_follow f{.task = task(v1::DONE)};
  follow(f, 1, w.port());
  CHECK(w.asked.scope().empty());
  CHECK(w.reads == 1);
}

TEST_CASE("the answer says what became of the worker, also when the event about it was missed") {
  auto told = [](task_follow f) {
    json payload;
    mcp::add_worker(payload, spawning(), f);
    return payload;
  };
  task_follow f{.task = task(v1::FAILED, "exec", R"({"reason":"spawn_failed: no such file"})")};
  CHECK(told(f).at("status") == "spawn_failed");
  CHECK(told(f).at("error") == "spawn_failed: no such file");
  f.task = task(v1::FAILED, "exec", R"({"exit_status":3})");
  CHECK(told(f).at("status") == "spawned");
  f.task = task(v1::OPEN);
  CHECK_FALSE(told(f).contains("status"));
  CHECK(mcp::completion(f, 0, 12).at("timeout_seconds").is_null());
  CHECK(mcp::completion(f, 1500, 12).at("status") == "timeout");
}

TEST_CASE("messages about the task are consumed to the last page, and a failure keeps what was read") {
  v1::Command command;
  command.set_actor("me");
  int calls = 0;
  auto some = [&](const v1::Command& c) {
    CHECK(c.consume_messages().task_prefix() == "T");
    if (++calls == 2)
      throw std::runtime_error("gone");
    v1::Reply r;
    for (std::uint32_t i = 0; i < c.consume_messages().limit(); ++i)
      r.mutable_messages()->add_messages()->set_content("done");
    return r;
  };
  CHECK(mcp::consume_messages(command, "T", some).size() == 200);
  CHECK(calls == 2);
  command.clear_actor();
  CHECK(mcp::consume_messages(command, "T", some).empty());
}
