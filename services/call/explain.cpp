#include "services/call/explain.hpp"

#include <algorithm>

#include "actors/base/text.hpp"

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
  add_chain(out, who, look, workers);
  out.set_end(end_of(look.standing.end, look));
  return out;
}

void add_rights(v1::Explanation& out, const v1::Principal& who) {
  *out.mutable_principal() = who;
  auto& may = *out.mutable_may();
  auto& may_not = *out.mutable_may_not();
  switch (who.kind()) {
    case v1::Principal::OPERATOR: lines(may, {"everything"}); return;
    case v1::Principal::SESSION:
      lines(may, {"act as its session: tasks, locks, messages, keys and waits", "read its own terminal"});
      for (const auto& grant : who.grants())
        *may.Add() = "what the grant " + grant + " gives";
      lines(may_not, {"decide what needs a person", "act as another session, or take its locks", "stop, back up or change the node"});
      break;
    case v1::Principal::AGENT:
      lines(may, {"register a session, which it acts as from then on: swarmctl register", "look: list sessions, tasks and locks"});
      lines(may_not, {"change anything before it has registered"});
      break;
    case v1::Principal::ORPHAN:
      lines(may, {"what a session may, and act as any session of the node"});
      lines(may_not, {"decide what needs a person", "type into terminals", "stop, back up or change the node"});
      break;
    default: break;
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
