// A world with tasks that conversations do.
#pragma once

#include "tests/unit/domain/conversation/conversation_world.hpp"

namespace swarm::test {

struct work_world : conversation_world {
  static v1::Command dispatching(const std::string& title = "mend it", v1::Command cmd = command()) {
    auto& d = *cmd.mutable_dispatch();
    d.set_title(title);
    d.set_message("the test is red");
    d.set_harness("claude");
    d.set_directory("/repo");
    d.set_structured(true);
    return cmd;
  }
  /// The conversation of the task that is dispatched.
  std::string dispatch(const std::string& title = "mend it") {
    const auto r = reply(dispatching(title)).dispatch();
    task_id = r.task().id();
    return r.spawn().conversation_id();
  }
  v1::Task task(const std::string& id = {}) { return rows.row<v1::Task>(domain::key(id.empty() ? task_id : id)).value_or(v1::Task{}); }
  /// Its agent has taken the instruction as a turn.
  std::string working() {
    auto id = dispatch();
    begin(id, "1");
    return id;
  }
  void begin(const std::string& id, const std::string& name) {
    driver_runs(id);
    agent(id);
    take(id, name);
  }
  void take(const std::string& id, const std::string& name) {
    const auto p = prompts(id).back().id();
    send(id, p);
    outcome(id, p, prompt_row::CONSUMED, name);
    turn(id, name);
  }
  v1::Command ending(const std::string& id, const std::string& name, const std::string& text = "all green") {
    auto cmd = turn_end(id, name);
    cmd.mutable_report_conversation()->mutable_turn_ended()->set_last_text(text);
    return cmd;
  }
  v1::Command failing(const std::string& id, const std::string& name) {
    auto cmd = turn_end(id, name);
    cmd.mutable_report_conversation()->mutable_turn_ended()->set_finished(false);
    cmd.mutable_report_conversation()->mutable_turn_ended()->set_failure("no credit");
    return cmd;
  }

  void beside(const std::string& id, std::uint32_t running) {
    auto cmd = about(id);
    cmd.mutable_report_conversation()->set_background(running);
    reply(cmd);
  }
  /// A turn of its agent has ended, and something goes on beside it.
  std::string waiting() {
    auto id = working();
    beside(id, 2);
    reply(ending(id, "1", "it runs"));
    return id;
  }
  v1::Batch cancel() {
    auto cmd = command();
    cmd.mutable_update_task()->set_task_id(task_id);
    cmd.mutable_update_task()->set_status(v1::CANCELLED);
    return run(cmd);
  }

  std::string task_id;
};

} // namespace swarm::test
