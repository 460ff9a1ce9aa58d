// A world with one node's conversations: what people ask of them, and what their drivers tell.
#pragma once

#include "tests/support/domain_world.hpp"

namespace swarm::test {

using conversation = v1::Conversation;
using prompt_row = v1::Prompt;

struct conversation_world : domain_world {
  static v1::Command by_node() { return by(v1::Principal::NODE); }
  static v1::Command by_grant(const std::string& session, const std::string& grant) {
    auto cmd = by(v1::Principal::SESSION, session);
    if (!grant.empty())
      cmd.mutable_principal()->add_grants(grant);
    return cmd;
  }

  static v1::Command starting(const std::string& prompt = {}, const std::string& title = {}) {
    auto cmd = command();
    auto& s = *cmd.mutable_start_conversation();
    s.set_harness("claude");
    s.set_directory("/repo");
    s.set_prompt(prompt);
    s.set_title(title);
    s.set_node_id("node-1");
    return cmd;
  }
  std::string start(const std::string& prompt = "fix it") { return reply(starting(prompt)).conversation().conversation().id(); }

  static v1::Command prompting(const std::string& id, const std::string& text = "more", v1::Command cmd = command()) {
    cmd.mutable_send_prompt()->set_conversation_id(id);
    cmd.mutable_send_prompt()->set_prompt(text);
    return cmd;
  }
  std::string say(const std::string& id, const std::string& text = "more") { return reply(prompting(id, text)).conversation().prompt().id(); }
  v1::Reply interrupt(const std::string& id) {
    auto cmd = command();
    cmd.mutable_interrupt_conversation()->set_conversation_id(id);
    return reply(cmd);
  }
  v1::Reply resume(const std::string& id) {
    auto cmd = command();
    cmd.mutable_resume_conversation()->set_conversation_id(id);
    return reply(cmd);
  }
  v1::Reply stop(const std::string& id) {
    auto cmd = command();
    cmd.mutable_stop_conversation()->set_conversation_id(id);
    return reply(cmd);
  }
  v1::Reply remove(const std::string& id) {
    auto cmd = command();
    cmd.mutable_delete_conversation()->set_conversation_id(id);
    return reply(cmd);
  }

  conversation row(const std::string& id) { return rows.row<conversation>(domain::key(id)).value_or(conversation{}); }
  conversation::State state(const std::string& id) { return row(id).state(); }
  prompt_row prompt(const std::string& id) { return rows.row<prompt_row>(domain::key(id)).value_or(prompt_row{}); }
  v1::Spawn driver(const std::string& id) { return rows.row<v1::Spawn>(domain::key(row(id).spawn_id())).value_or(v1::Spawn{}); }
  std::vector<prompt_row> prompts(const std::string& id) { return rows.rows<prompt_row>({.conversation_id = id}); }

  // -- the driver ---------------------------------------------------------------------------------

  v1::Command about(const std::string& id) {
    auto cmd = by_node();
    cmd.mutable_report_conversation()->set_conversation_id(id);
    cmd.mutable_report_conversation()->set_generation(row(id).generation());
    return cmd;
  }
  /// The process of the driver exists and runs.
  void driver_runs(const std::string& id) {
    auto cmd = by_node();
    cmd.mutable_spawn_starting()->set_spawn_id(row(id).spawn_id());
    cmd.mutable_spawn_starting()->set_attempt(driver(id).attempt());
    cmd.mutable_spawn_starting()->set_pid(7);
    reply(cmd);
    auto runs = by_node();
    runs.mutable_spawn_running()->set_spawn_id(row(id).spawn_id());
    runs.mutable_spawn_running()->set_attempt(driver(id).attempt());
    reply(runs);
  }
  v1::Reply agent(const std::string& id, const std::string& native = "native-1") {
    auto cmd = about(id);
    auto& a = *cmd.mutable_report_conversation()->mutable_agent();
    a.set_native_session(native);
    a.set_version("2");
    a.set_model("m");
    return reply(cmd);
  }
  /// Started by its node and introduced.
  std::string idle(const std::string& prompt = "fix it") {
    auto id = start(prompt);
    driver_runs(id);
    agent(id);
    return id;
  }
  v1::Reply send(const std::string& id, const std::string& prompt_id) {
    auto cmd = about(id);
    cmd.mutable_report_conversation()->set_sending(prompt_id);
    return reply(cmd);
  }
  v1::Reply outcome(const std::string& id, const std::string& prompt_id, prompt_row::State s, const std::string& turn = {}) {
    auto cmd = about(id);
    auto& p = *cmd.mutable_report_conversation()->add_prompts();
    p.set_prompt_id(prompt_id);
    p.set_state(s);
    p.set_turn(turn);
    return reply(cmd);
  }
  v1::Reply turn(const std::string& id, const std::string& turn) {
    auto cmd = about(id);
    cmd.mutable_report_conversation()->set_turn_started(turn);
    return reply(cmd);
  }
  v1::Command turn_end(const std::string& id, const std::string& turn, double session_cost = -1, std::uint64_t tokens = 0) {
    auto cmd = about(id);
    auto& t = *cmd.mutable_report_conversation()->mutable_turn_ended();
    t.set_turn(turn);
    t.set_finished(true);
    t.mutable_usage()->set_input_tokens(tokens);
    t.set_cost_known(session_cost >= 0);
    t.set_session_cost_usd(std::max(session_cost, 0.0));
    return cmd;
  }
  /// A prompt that the agent works on as turn 1.
  std::string running() {
    auto id = idle();
    auto p = prompts(id).front().id();
    send(id, p);
    outcome(id, p, prompt_row::SUBMITTED);
    outcome(id, p, prompt_row::CONSUMED, "1");
    turn(id, "1");
    return id;
  }
  v1::Reply driver_gone(const std::string& id) {
    auto cmd = about(id);
    cmd.mutable_report_conversation()->set_driver_ended(true);
    return reply(cmd);
  }
  v1::Reply ended(const std::string& id, const std::string& reason = {}, bool never_ran = false) {
    auto cmd = by_node();
    cmd.mutable_spawn_ended()->set_spawn_id(row(id).spawn_id());
    cmd.mutable_spawn_ended()->set_attempt(driver(id).attempt());
    cmd.mutable_spawn_ended()->set_reason(reason);
    cmd.mutable_spawn_ended()->set_never_ran(never_ran);
    return reply(cmd);
  }

  // -- what the agent asks ------------------------------------------------------------------------

  v1::Command asking(const std::string& id, const std::string& native = "toolu_1", v1::Approval::Kind kind = v1::Approval::COMMAND) {
    auto cmd = by_node();
    auto& r = *cmd.mutable_request_approval();
    r.set_kind(kind);
    r.set_subject("conversation/" + id);
    r.set_title("Bash");
    r.set_body(R"({"command":"make"})");
    r.mutable_conversation()->set_conversation_id(id);
    r.mutable_conversation()->set_generation(row(id).generation());
    r.mutable_conversation()->set_native_id(native);
    return cmd;
  }
  v1::Approval ask(const std::string& id, const std::string& native = "toolu_1") { return reply(asking(id, native)).approval(); }
  static v1::Command deciding(const v1::Approval& a, const std::string& option = "allow", v1::Command cmd = command()) {
    auto& d = *cmd.mutable_decide_approval();
    d.set_approval_id(a.id());
    d.set_option(option);
    d.set_action_digest(a.action_digest());
    return cmd;
  }
  v1::Approval approval(const std::string& id) { return rows.row<v1::Approval>(domain::key(id)).value_or(v1::Approval{}); }
  v1::Reply deliver(const v1::Approval& a, v1::Approval::Delivery how, std::uint32_t generation = 1) {
    auto cmd = by_node();
    cmd.mutable_report_delivery()->set_approval_id(a.id());
    cmd.mutable_report_delivery()->set_generation(generation);
    cmd.mutable_report_delivery()->set_delivery(how);
    return reply(cmd);
  }
};

} // namespace swarm::test
