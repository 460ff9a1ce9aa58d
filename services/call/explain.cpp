#include "services/call/explain.hpp"

#include <algorithm>

#include "actors/base/text.hpp"
#include "actors/domain/commands.hpp"

namespace swarm {

namespace {

using place_kind = caller_place::kind;

std::string end_of(agents::walk_end end, const caller_look& look) {
  const auto above = look.standing.chain.size();
  const auto who = look.standing.chain.empty() ? std::string{} : concat({"process ", look.standing.chain.back().pid});
  switch (end) {
    case agents::walk_end::agent: return "the nearest agent counts";
    case agents::walk_end::stranger: return who + " is of another user, whose processes the node cannot look into";
    case agents::walk_end::hidden:
      return concat({"the process above ", who.empty() ? "it" : who, " cannot be seen (hidepid, or another PID namespace)"});
    case agents::walk_end::multiplexer:
      return concat({who, " (", look.standing.chain.back().program, ") serves terminals, and whoever started it is not who types into them"});
    case agents::walk_end::top: break;
  }
  return above > limits::process_ancestors_max ? "there are too many processes above it" : std::string{};
}

std::string role_of(const agents::relative& r) {
  switch (r.is) {
    case agents::role::agent: return std::string{"agent "} + r.agent->name;
    case agents::role::multiplexer: return "multiplexer";
    case agents::role::editor: return "editor";
    case agents::role::service_manager: return "service manager";
    case agents::role::plain: break;
  }
  return {};
}

/// As far as the rule looked: up to the worker, or to where the walk for agents ended.
void add_chain(v1::Explanation& out, const claim& who, const caller_look& look, const worker_registry& workers) {
  const auto& line = look.line.processes;
  const auto& standing = look.standing.chain;
  const auto is_workers = who.place.is == place_kind::worker || who.place.is == place_kind::stray;
  const auto count = std::min(is_workers ? line.size() : standing.size(), limits::process_ancestors_max);
  for (std::size_t i = 0; i < count; ++i) {
    auto& p = *out.add_chain();
    p.set_pid(line[i].pid);
    p.set_start(line[i].start);
    p.set_program(i < standing.size() ? standing[i].program : line[i].name);
    if (i < standing.size())
      p.set_role(role_of(standing[i]));
    if (who.place.is == place_kind::worker)
      if (auto worker = workers.of_lineage({line[i]}); worker && worker->id() == who.place.worker.id()) {
        p.set_role("worker");
        p.set_session(worker->id());
        p.set_matched(true);
        return;
      }
    if (who.rule == v1::Explanation::LOGIN) {
      p.set_matched(i == 0);
      continue;
    }
    if (who.place.is == place_kind::agent && line[i].pid == who.place.root.pid)
      p.set_matched(true);
    if ((who.place.is == place_kind::marked || who.place.is == place_kind::user) && i == 0)
      p.set_matched(true);
    if (who.place.is == place_kind::orphan && i + 2 == count)
      p.set_matched(true); // the one below the service manager
  }
}

void lines(google::protobuf::RepeatedPtrField<std::string>& out, std::initializer_list<const char*> texts) {
  for (const auto* t : texts)
    *out.Add() = t;
}

using domain::right_to;

const domain::right* right_to(v1::Command::BodyCase body) {
  for (const auto& spec : domain::commands())
    if (spec.body == body)
      return &spec.from.get();
  return nullptr;
}

void add_ways_out(v1::Explanation& out) {
  if (out.rule() == v1::Explanation::TOKEN || out.rule() == v1::Explanation::TOKEN_UNKNOWN || out.rule() == v1::Explanation::TOKEN_ELSEWHERE)
    lines(*out.mutable_ways_out(), {"unset SWARM_TOKEN, which makes its bearer that session"});
  lines(*out.mutable_ways_out(), {"run it in another terminal: one that you have opened yourself, and no agent",
                                  "swarmctl login, in a terminal of your own: it asks for the passphrase of the node, if it has one"});
}

} // namespace

v1::Explanation explanation_of(const claim& who, const caller_look& look, const worker_registry& workers) {
  v1::Explanation out;
  out.set_rule(who.rule);
  out.set_reason(reason_of(who.place));
  if (who.rule == v1::Explanation::TOKEN)
    out.set_reason("this process shows the token of a session");
  if (who.rule == v1::Explanation::LOGIN)
    out.set_reason("a person has logged in at this terminal (swarmctl login), whatever is above it");
  add_chain(out, who, look, workers);
  out.set_end(end_of(look.standing.end, look));
  return out;
}

const std::vector<subject>& subjects() {
  using enum domain::operation;
  using c = v1::Command;
  using q = v1::Query;
  using domain::terminal;
  auto terminals_of = [](terminal whose) {
    std::vector<const domain::right*> out;
    for (auto what : {pty_read, pty_write, pty_resize, pty_kill, pty_forget, pty_attach})
      out.push_back(right_to(what, whose));
    return out;
  };
  static const std::vector<subject> all{
    {"register a session (swarmctl register), and list sessions, tasks and locks",
     {right_to(c::kRegisterSession), right_to(q::kListSessions), right_to(q::kListTasks), right_to(q::kListLocks)}},
    {"work with tasks, locks, messages, keys and events",
     {right_to(c::kCreateTasks), right_to(c::kClaimTask), right_to(c::kUpdateTask), right_to(c::kCompleteTask), right_to(c::kAcquireLock),
      right_to(c::kSendMessage), right_to(c::kSetKv), right_to(q::kListMessages), right_to(q::kGetKv), right_to(watch_events)}},
    {"wait for a session's mail and news", {right_to(wait_for_activity), right_to(attach_session)}},
    {"read, resize and end its own terminal",
     {right_to(pty_read, terminal::own), right_to(pty_resize, terminal::own), right_to(pty_kill, terminal::own)}},
    {"start programs and workers", {right_to(pty_create), right_to(c::kDispatch), right_to(c::kRequestSpawn)}},
    {"use the terminals of programs", terminals_of(terminal::program)},
    {"use the terminals of agents", terminals_of(terminal::agent)},
    {"decide approvals", {right_to(c::kDecideApproval)}},
    {"act as another session, give grants, register coordinators and other identities",
     {right_to(act_as_session), right_to(give_grants), right_to(make_coordinators), right_to(loosen_permissions), right_to(choose_identity)}},
    {"stop, back up or change the node and its cluster",
     {right_to(node_shutdown), right_to(node_backup), right_to(node_kill_actor), right_to(set_passphrase), right_to(cluster_found),
      right_to(cluster_create_join_token), right_to(cluster_join), right_to(cluster_unlock_authority), right_to(cluster_revoke_node),
      right_to(cluster_drain_node), right_to(cluster_leave), right_to(cluster_share_scope), right_to(cluster_unshare_scope)}}};
  return all;
}

extent extent_of(const v1::Principal& who, const domain::right& r) {
  if (r.some.has(who.kind()))
    return extent::by_rule;
  if (domain::holds_outright(who, r))
    return extent::all;
  return r.own.has(who.kind()) ? extent::own : extent::none;
}

void add_rights(v1::Explanation& out, const v1::Principal& who) {
  *out.mutable_principal() = who;
  if (who.kind() == v1::Principal::OPERATOR) {
    out.add_may("everything");
    return;
  }
  v1::Principal person;
  person.set_kind(v1::Principal::OPERATOR);
  for (const auto& s : subjects()) {
    const auto& right = *s.rights.front();
    switch (extent_of(who, right)) {
      case extent::all: out.add_may(s.text); break;
      case extent::own: out.add_may(concat({s.text, " (its own)"})); break;
      case extent::by_rule: out.add_may(concat({s.text, ", only as ", right.rule})); break;
      case extent::none:
        if (domain::holds(person, right))
          out.add_may_not(s.text);
    }
  }
  if (out.may_size() <= 1) {
    out.clear_may_not();
    out.add_may_not(out.may().empty() ? "anything" : "anything else");
  }
  add_ways_out(out);
}

void add_refusal(v1::Explanation& out, v1::Explanation::Rule rule, const std::string& why) {
  out.set_rule(rule);
  constexpr std::string_view tail = ask_why;
  std::string_view text = why;
  if (text.ends_with(tail))
    text.remove_suffix(tail.size());
  out.set_reason(std::string{text});
  lines(*out.mutable_may_not(), {"anything: the node refuses every call of this process"});
  add_ways_out(out);
}

} // namespace swarm
