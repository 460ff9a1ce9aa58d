#include "cli/hook/run.hpp"

#include "actors/agents/ancestry.hpp"
#include "actors/base/limits.hpp"
#include "actors/base/paths.hpp"
#include "actors/base/text.hpp"
#include "actors/domain/json_text.hpp"
#include "actors/domain/rules.hpp"
#include "cli/hook/run_internal.hpp"
#include "cli/verb.hpp"
#include "gateway/session/ambient_block.hpp"

#include <algorithm>
#include <charconv>

#include <unistd.h>

namespace swarm::cli {

namespace {

constexpr const char* report_source = "hook";

/// Of the process that a driver has started; 0 = none that is known.
pid_t driven_agent(const environment& env) {
  const auto text = env.get("SWARM_DRIVEN");
  pid_t pid = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), pid);
  return error == std::errc{} && end == text.data() + text.size() ? pid : 0;
}

} // namespace

hook_run::hook_run(const invocation& cli, const agents::agent& agent, hook_event event, const hook_options& options, const std::string& input)
  : cli_(cli), agent_(agent), event_(event), options_(options), input_(domain::parse_json_of_others(input).value_or(json())),
    place_(place_of_event()), agent_session_(event_text("session_id")), state_directory_(cli.node().finder.state_directory()),
    // Waiting for other hooks takes at most half of the time, so that the other half is left for the node.
    store_(state_directory_, agent.name, agent_session_,
           std::chrono::milliseconds{bounded_by_timeout(cli, limits::hook_call_deadline().count()) / 2}),
    worker_(!cli.env().get("SWARM_MCP_INSTANCE_ID").empty() && !cli.env().get("SWARM_TOKEN").empty()),
    below_driven_(worker_ && !cli.env().get("SWARM_DRIVEN").empty()),
    deadline_ms_(cli.boot_ms() + bounded_by_timeout(cli, limits::hook_call_deadline().count() * (event == hook_event::session_start ? 2 : 1))) {}

bool hook_run::remember(const std::function<bool(hook_memory&)>& change) {
  bool waited = store_.kept_out();
  bool done = store_.update(change, worker_ || entered_ || event_ == hook_event::session_start);
  if (!waited && store_.kept_out())
    note("another hook of this host keeps their file; this one remembers nothing");
  return done;
}

std::string hook_run::event_text(const char* key) const {
  if (!input_.is_object())
    return {};
  auto i = input_.find(key);
  return i != input_.end() && i->is_string() ? i->get<std::string>() : std::string{};
}

std::string hook_run::place_of_event() const {
  for (const auto& place : {event_text("cwd"), cli_.env().get("SWARM_MCP_DIRECTORY"), cli_.env().get("TERMINAL_CWD")})
    if (!place.empty() && place.size() <= limits::path_bytes_max() && place.find('\0') == place.npos)
      return normalize_path(place, cli_.directory());
  return cli_.directory();
}

// -- the node -----------------------------------------------------------------------------------

/// Gives the next call to the node what is left of the hook's time.
void hook_run::set_deadline() const { cli_.node().finder.set_timeout_ms(std::max<std::int64_t>(deadline_ms_ - cli_.boot_ms(), 1)); }

/// Paths of a scope that hosts share are those of the checkout around this directory.
v1::Caller hook_run::caller_in(const std::string& directory) const {
  auto out = cli_.caller();
  out.set_directory(!directory.empty() ? directory : me_.directory.empty() ? place_ : me_.directory);
  return out;
}

v1::Command hook_run::command() const {
  v1::Command c;
  c.set_scope(me_.scope);
  c.set_actor(me_.id);
  *c.mutable_caller() = caller_in({});
  return c;
}

v1::Query hook_run::query_in(const place_of_locks& where) const {
  v1::Query q;
  q.set_scope(where.scope);
  *q.mutable_caller() = caller_in(where.directory);
  return q;
}

v1::Answer hook_run::ask_or_throw(const v1::Query& q) const {
  auto answer = ask(q);
  if (answer.has_refusal())
    throw refused(answer.refusal());
  return answer;
}

/// Tells the node what the agent does now, unless the node knows it. Best effort: refusals and an unreachable node are ignored.
void hook_run::report(v1::AgentReport::State state) {
  if (below_driven_)
    return;
  auto now = cli_.now_ms();
  // A question is always new: nobody tells a hook that the one before was answered.
  bool known = me_.state == state && state != v1::AgentReport::BLOCKED &&
               (state != v1::AgentReport::WORKING || now - me_.reported_at_ms < limits::hook_report_ttl().count() / 2);
  if (me_.id.empty() || known)
    return;
  try {
    auto c = command();
    auto* body = c.mutable_report_agent();
    body->set_session_id(me_.id);
    body->set_source(report_source);
    body->set_seq(static_cast<std::uint64_t>(now));
    body->set_ttl_ms(state == v1::AgentReport::WORKING ? limits::hook_report_ttl().count() : 0);
    body->set_state(state);
    // No turn is open where one has just ended or the program has just begun.
    body->set_turn_ended(event_ == hook_event::stop || event_ == hook_event::session_start);
    auto reply = decide(c);
    const bool goes_on = event_ == hook_event::prompt_submit || event_ == hook_event::pre_tool_use;
    if (reply.refusal().code() == v1::Refusal::NOT_REGISTERED && goes_on && enter_again()) {
      c.set_actor(me_.id);
      body->set_session_id(me_.id);
      reply = decide(c);
    }
    if (reply.has_refusal())
      return;
    // While the program asks its user, a report may change nothing; then it is to be said again.
    if (domain::asks_person(reply.session().session()))
      state = v1::AgentReport::BLOCKED;
  } catch (const failure& f) {
    if (entered_)
      note(std::string{"not registered: "} + f.what());
    return;
  }
  remember([&](hook_memory& m) {
    if (m.id.empty())
      m = me_;
    m.state = state;
    m.reported_at_ms = now;
    return true;
  });
}

// -- turns --------------------------------------------------------------------------------------

/// Marks the open tool calls as over. The agent sends no post-tool-use event for a call that a person has declined.
void hook_run::end_calls() {
  auto open = [](const tool_call_seen& c) { return c.to_ms == 0; };
  if (std::any_of(me_.calls.begin(), me_.calls.end(), open))
    remember([&](hook_memory& m) {
      for (auto& c : m.calls)
        if (open(c))
          c.to_ms = cli_.now_ms();
      return true;
    });
}

/// When a turn begins or ends, no tool call is running: what is left of earlier ones is cleaned up.
void hook_run::turn(v1::AgentReport::State state) {
  me_ = known_session();
  try {
    if (event_ != hook_event::notification) {
      end_calls();
      if (!me_.taken.empty())
        give_back_all();
    }
    if (event_ == hook_event::prompt_submit && (!me_.id.empty() || !enter_again()))
      look_for_tool_server();
  } catch (const std::exception& e) {
    note(e.what());
  }
  report(state);
  if (agent_.what == agents::program::hermes && event_ == hook_event::prompt_submit && !me_.id.empty())
    show_mail();
}

/// Prints the unread messages with the prompt, because the fabric does not type into a conversation of Hermes. They stay unread until the agent
/// reads them.
void hook_run::show_mail() {
  auto q = query();
  q.set_viewer(me_.id);
  q.mutable_get_status();
  if (auto mail = mcp::make_mail_block(ask(q).status()); !mail.empty())
    say(hook_context(agent_, event_, mail));
}

/// The state that a notification shows; nothing for a notification that needs no answer.
std::optional<v1::AgentReport::State> hook_run::notified_state() const {
  auto type = event_text("notification_type");
  if (type.find("idle") != type.npos || (type.empty() && event_text("message").find("waiting for your input") != std::string::npos))
    return v1::AgentReport::IDLE;
  if (type.find("auth") != type.npos)
    return std::nullopt;
  return v1::AgentReport::BLOCKED;
}

// -- the event ----------------------------------------------------------------------------------

void hook_run::run() {
  // The agent of a conversation asks its driver, and what it does is told by that. An agent that it starts has no driver: what it writes is looked at
  // here, and the session's state is not its to tell.
  const bool is_guard = event_ == hook_event::pre_tool_use || event_ == hook_event::post_tool_use;
  if (below_driven_ && (!is_guard || agents::runs_for(system_processes(), getpid(), driven_agent(cli_.env()))))
    return;
  // Only the session-start event may start a node.
  if (event_ != hook_event::session_start)
    cli_.node().finder.never_start();
  bool guards = event_ == hook_event::pre_tool_use && options_.fail_closed;
  try {
    if (!input_.is_object()) {
      note("the event is no JSON object of at most " + std::to_string(limits::hook_input_bytes_max / limits::mib) + " MiB");
      if (guards)
        deny(cannot_be_read);
      return;
    }
    switch (event_) {
      case hook_event::session_start: return session_start();
      case hook_event::session_end: return session_end();
      case hook_event::pre_tool_use: return pre_tool_use();
      case hook_event::post_tool_use: return post_tool_use();
      case hook_event::prompt_submit: return turn(v1::AgentReport::WORKING);
      case hook_event::stop: return turn(v1::AgentReport::IDLE);
      case hook_event::notification:
        if (auto state = notified_state())
          turn(*state);
        return;
    }
  } catch (const std::exception& e) {
    if (guards)
      deny("swarm lock check failed for " + use_.tool + ": " + escape_control(e.what(), false) + ". Nothing is written unchecked.");
    else
      note((event_ == hook_event::pre_tool_use ? "no locks were checked: " : "") + std::string{e.what()});
    try {
      give_back(std::exchange(taken_, {}));
    } catch (const std::exception&) {
      // The locks expire.
    }
  }
}

void run_hook(const invocation& cli, const agents::agent& agent, hook_event event, const hook_options& options, const std::string& input) {
  try {
    hook_run hook{cli, agent, event, options, input};
    hook.run();
    // With --fail-closed, Hermes treats a hook without output as failed.
    if (agent.what == agents::program::hermes && event == hook_event::pre_tool_use && options.fail_closed)
      hook.answer_nothing();
  } catch (const std::exception& e) {
    cli.io().error(std::string{"swarmctl hook: "} + e.what());
  }
}

} // namespace swarm::cli
