#include "actors/domain/rights.hpp"

#include <algorithm>

#include "actors/base/text.hpp"
#include "actors/domain/explained.hpp"
#include "actors/domain/refusal.hpp"
#include "swarm/v1/federation.pb.h"

namespace swarm::domain {

namespace {

using p = v1::Principal;
using q = v1::Query;
using l = v1::LinkRequest;
using enum operation;

// -- rights that only rows of this file have --------------------------------------------------

constexpr right nobody{};
constexpr right operator_only{.all = {p::OPERATOR}};
constexpr right members_and_node = rights::members_and_node;
/// What somebody sees who has not registered yet.
constexpr right onlookers{.all = {p::OPERATOR, p::SESSION, p::NODE, p::AGENT}};
constexpr right everybody_here{.all = {p::OPERATOR, p::SESSION, p::AGENT}};
constexpr right anybody{.all = {p::OPERATOR, p::SESSION, p::DEVICE, p::GATEWAY, p::NODE, p::AGENT}};
constexpr right whoever_has_a_command{
  .all = {p::OPERATOR, p::SESSION, p::NODE, p::AGENT},
  .with = {{{p::DEVICE, "approve"}, {p::GATEWAY, "approve"}, {p::DEVICE, "chat"}, {p::GATEWAY, "chat"}}},
};
constexpr right who_reads_approvals{
  .all = {p::OPERATOR, p::SESSION, p::NODE},
  .with = {{{p::DEVICE, "approve"}, {p::GATEWAY, "approve"}, {p::DEVICE, "chat"}, {p::GATEWAY, "chat"}}},
};
// What a session sees of them is its own: so an orphan is refused, and not shown a list in which they are missing.
constexpr right who_reads_conversations{
  .all = {p::OPERATOR, p::NODE},
  .own = {p::SESSION},
  .with = {{{p::SESSION, "chat"}, {p::DEVICE, "chat"}, {p::GATEWAY, "chat"}}},
};
constexpr right who_reads_usage{
  .all = {p::OPERATOR, p::NODE},
  .with = {{{p::SESSION, "chat"}, {p::DEVICE, "chat"}, {p::GATEWAY, "chat"}}},
};
constexpr right in_programs{.all = {p::OPERATOR}, .with = {{{p::SESSION, "pty"}, {p::DEVICE, "terminal"}}}};
constexpr right in_agents{.all = {p::OPERATOR}, .with = {{{p::SESSION, "pty:agents"}, {p::DEVICE, "terminal"}}}};
constexpr right at_a_peer{
  .all = {p::OPERATOR}, .some = {p::SESSION}, .with = {{{p::DEVICE, "terminal"}}}, .rule = "a session, the screen of a peer that it sees"};
constexpr right the_session{.all = {p::SESSION}};
constexpr right who_lists{.all = {p::OPERATOR, p::SESSION}, .with = {{{p::DEVICE, "terminal"}}}};
constexpr right who_finds{.all = {p::OPERATOR, p::SESSION, p::NODE}, .with = {{{p::DEVICE, "terminal"}}}};

constexpr std::nullopt_t no = std::nullopt;
constexpr auto program = terminal::program, agent = terminal::agent, own = terminal::own;

constexpr std::array operations{
  operation_row{execute, no, whoever_has_a_command, "send commands, each by its own row"},
  operation_row{ask, no, whoever_has_a_command, "ask queries, each by its own row"},
  operation_row{watch_events, no, members_and_node, "follow the events of a scope"},
  operation_row{watch_all_scopes, no, operator_only, "follow approvals and conversations of all scopes"},
  operation_row{wait_for_activity, no, rights::member_itself, "wait for a session's mail and news"},
  operation_row{attach_session, no, rights::member_itself, "hold a session present"},

  operation_row{pty_create, no, rights::who_starts_workers, "start a program in a terminal"},
  operation_row{pty_list, no, who_lists, "list the terminals that one may read"},
  operation_row{pty_find, no, who_finds, "find the node of a terminal"},
  operation_row{pty_read, program, in_programs, "read the output of a program's terminal"},
  operation_row{pty_read, agent, in_agents, "read the output of an agent's terminal"},
  operation_row{pty_read, own, the_session, "read the output of its own terminal"},
  operation_row{pty_peek, program, at_a_peer, "look at the last screen of a program's terminal"},
  operation_row{pty_peek, agent, at_a_peer, "look at the last screen of an agent's terminal"},
  operation_row{pty_peek, own, the_session, "look at its own last screen"},
  operation_row{pty_write, program, in_programs, "type into a program's terminal"},
  operation_row{pty_write, agent, in_agents, "type into an agent's terminal"},
  operation_row{pty_write, own, nobody, "type into its own terminal"},
  operation_row{pty_resize, program, in_programs, "resize a program's terminal"},
  operation_row{pty_resize, agent, in_agents, "resize an agent's terminal"},
  operation_row{pty_resize, own, the_session, "resize its own terminal"},
  operation_row{pty_kill, program, in_programs, "end the program of a terminal"},
  operation_row{pty_kill, agent, in_agents, "end the agent of a terminal"},
  operation_row{pty_kill, own, the_session, "end what runs in its own terminal"},
  operation_row{pty_forget, program, in_programs, "take a program's ended terminal out of the list"},
  operation_row{pty_forget, agent, in_agents, "take an agent's ended terminal out of the list"},
  operation_row{pty_forget, own, nobody, "take its own terminal out of the list"},
  operation_row{pty_attach, program, in_programs, "attach to a program's terminal"},
  operation_row{pty_attach, agent, in_agents, "attach to an agent's terminal"},
  operation_row{pty_attach, own, the_session, "attach to its own terminal, to look"},

  operation_row{node_status, no, onlookers, "see the node's status"},
  operation_row{node_graph, no, operator_only, "see the graph of actors, which names everybody's scopes and files"},
  operation_row{node_backup, no, operator_only, "back up the store"},
  operation_row{node_shutdown, no, operator_only, "stop the node"},
  operation_row{node_check, no, everybody_here, "check the store for damage"},
  operation_row{node_kill_actor, no, operator_only, "kill an actor"},
  operation_row{explain, no, anybody, "be told who one is, and by which rule"},
  operation_row{login, no, everybody_here, "show the passphrase of a person"},
  operation_row{logout, no, everybody_here, "take back what a login gave"},
  operation_row{set_passphrase, no, operator_only, "set the passphrase of a person"},

  operation_row{cluster_found, no, operator_only, "found a cluster"},
  operation_row{cluster_create_join_token, no, operator_only, "make a join token"},
  operation_row{cluster_join, no, operator_only, "join a cluster"},
  operation_row{cluster_list_nodes, no, operator_only, "list the nodes"},
  operation_row{cluster_unlock_authority, no, operator_only, "unlock the authority"},
  operation_row{cluster_revoke_node, no, operator_only, "revoke a node"},
  operation_row{cluster_drain_node, no, operator_only, "drain a node"},
  operation_row{cluster_leave, no, operator_only, "leave the cluster"},
  operation_row{cluster_share_scope, no, operator_only, "share a scope"},
  operation_row{cluster_unshare_scope, no, operator_only, "share a scope no more"},
  operation_row{cluster_list_checkouts, no, everybody_here, "list the checkouts of shared scopes"},

  operation_row{link, no, rights::node, "speak for another host, with its certificate"},
  operation_row{enroll, no, nobody, "bring a host in: a join token decides, nothing else"},

  operation_row{give_grants, no, operator_only, "give grants to a session or worker"},
  operation_row{make_coordinators, no, operator_only, "register a session, or ask for a worker, that is labeled mode:gateway"},
  operation_row{loosen_permissions, no, operator_only, "let the agent of a conversation do something that nobody is asked about"},
  operation_row{choose_identity, no, operator_only, "register a session under whatever identity"},
  operation_row{cross_identity, no, {.all = {p::OPERATOR, p::NODE}, .with = {{{p::SESSION, "cross_identity"}}}}, "override the identity boundary"},
  operation_row{act_as_session, no, operator_only, "act as another session"},
  operation_row{outrank_agents, no, {.all = {p::OPERATOR}, .with = {{{p::DEVICE, "terminal"}}}}, "keep agents from typing while one types"},
  operation_row{decide_for_others, no, {.with = {{{p::GATEWAY, "approve"}}}}, "say for whom an approval is decided"},
};

constexpr std::array queries{
  query_row{q::kListSessions, onlookers},
  query_row{q::kFindSession, onlookers},
  query_row{q::kListTasks, onlookers},
  query_row{q::kGetTask, onlookers},
  query_row{q::kTaskSnapshot, onlookers},
  query_row{q::kListLocks, onlookers},
  query_row{q::kGetLock, onlookers},
  query_row{q::kVerifyLock, onlookers},
  query_row{q::kListMessages, members_and_node},
  query_row{q::kGetKv, members_and_node},
  query_row{q::kListKv, members_and_node},
  query_row{q::kGetStatus, members_and_node},
  query_row{q::kListEvents, members_and_node},
  query_row{q::kListSpawns, onlookers},
  query_row{q::kListSubscriptions, members_and_node},
  query_row{q::kListApprovals, who_reads_approvals},
  query_row{q::kListScopes, onlookers},
  query_row{q::kPreviewSweep, members_and_node},
  query_row{q::kResolveToken, rights::node},
  query_row{q::kGetTotals, onlookers},
  query_row{q::kFindTask, onlookers},
  query_row{q::kListConversations, who_reads_conversations},
  query_row{q::kListPrompts, who_reads_conversations},
  query_row{q::kListUsage, who_reads_usage},
};

constexpr std::array calls{
  call_row{"swarm.v1.Coordination.Execute", execute},
  call_row{"swarm.v1.Coordination.Pipeline", execute},
  call_row{"swarm.v1.Coordination.Ask", ask},
  call_row{"swarm.v1.Coordination.Watch", watch_events},
  call_row{"swarm.v1.Coordination.WaitForActivity", wait_for_activity},
  call_row{"swarm.v1.Coordination.Attach", attach_session},
  call_row{"swarm.v1.Conversations.Read", ask},
  call_row{"swarm.v1.Conversations.ReadBlob", ask},
  call_row{"swarm.v1.Conversations.WriteBlob", execute},
  call_row{"swarm.v1.Ptys.Create", pty_create},
  call_row{"swarm.v1.Ptys.List", pty_list},
  call_row{"swarm.v1.Ptys.Read", pty_read},
  call_row{"swarm.v1.Ptys.Send", pty_write},
  call_row{"swarm.v1.Ptys.Resize", pty_resize},
  call_row{"swarm.v1.Ptys.Kill", pty_kill},
  call_row{"swarm.v1.Ptys.Forget", pty_forget},
  call_row{"swarm.v1.Ptys.Attach", pty_attach},
  call_row{"swarm.v1.Node.Status", node_status},
  call_row{"swarm.v1.Node.Graph", node_graph},
  call_row{"swarm.v1.Node.Backup", node_backup},
  call_row{"swarm.v1.Node.Shutdown", node_shutdown},
  call_row{"swarm.v1.Node.Check", node_check},
  call_row{"swarm.v1.Node.KillActor", node_kill_actor},
  call_row{"swarm.v1.Node.Explain", explain},
  call_row{"swarm.v1.Node.Login", login},
  call_row{"swarm.v1.Node.Logout", logout},
  call_row{"swarm.v1.Node.SetPassphrase", set_passphrase},
  call_row{"swarm.v1.Cluster.Found", cluster_found},
  call_row{"swarm.v1.Cluster.CreateJoinToken", cluster_create_join_token},
  call_row{"swarm.v1.Cluster.JoinCluster", cluster_join},
  call_row{"swarm.v1.Cluster.ListNodes", cluster_list_nodes},
  call_row{"swarm.v1.Cluster.UnlockAuthority", cluster_unlock_authority},
  call_row{"swarm.v1.Cluster.RevokeNode", cluster_revoke_node},
  call_row{"swarm.v1.Cluster.DrainNode", cluster_drain_node},
  call_row{"swarm.v1.Cluster.LeaveCluster", cluster_leave},
  call_row{"swarm.v1.Cluster.ShareScope", cluster_share_scope},
  call_row{"swarm.v1.Cluster.UnshareScope", cluster_unshare_scope},
  call_row{"swarm.v1.Cluster.ListCheckouts", cluster_list_checkouts},
  call_row{"swarm.v1.Federation.Link", link},
  call_row{"swarm.v1.Federation.Bulk", link},
  call_row{"swarm.v1.Federation.Renew", link},
  call_row{"swarm.v1.Federation.Leave", link},
  call_row{"swarm.v1.Federation.Drain", link},
  call_row{"swarm.v1.Enrollment.Join", enroll},
};

constexpr std::array links{
  link_row{l::kExecute, execute},   link_row{l::kQuery, ask},        link_row{l::kWait, wait_for_activity}, link_row{l::kWatch, watch_events},
  link_row{l::kListPtys, pty_list}, link_row{l::kReadPty, pty_read}, link_row{l::kSendPty, pty_write},      link_row{l::kResizePty, pty_resize},
  link_row{l::kKillPty, pty_kill},  link_row{l::kFindPty, pty_find}, link_row{l::kGraph, node_graph},       link_row{l::kForgetPty, pty_forget},
};

/// `reserved` grants are known, can be given to nobody's harm, and open nothing: no row asks for them.
constexpr std::array grants{
  grant_spec{p::SESSION, "spawn", "start workers, with SWARM_MCP_ALLOW_SPAWN=1"},
  grant_spec{p::SESSION, "pty", "use the terminals of programs"},
  grant_spec{p::SESSION, "pty:agents", "use the terminals of agents"},
  grant_spec{p::SESSION, "phone", "use the tools of a paired phone"},
  grant_spec{p::SESSION, "cross_identity", "override the identity boundary"},
  grant_spec{p::SESSION, "chat", "conversations, but for prompts to its own"},
  grant_spec{p::DEVICE, "chat", "conversations, and the texts of their approvals"},
  grant_spec{p::DEVICE, "terminal", "read terminals and type into them"},
  grant_spec{p::DEVICE, "bridge", "be driven by an agent"},
  grant_spec{p::DEVICE, "tui", "a terminal's program on the device"},
  grant_spec{p::DEVICE, "voice:*", "talk to an agent"},
  grant_spec{p::DEVICE, "dispatch", "start configured agents in allowed directories"},
  grant_spec{p::DEVICE, "approve", "decide approvals"},
  grant_spec{p::DEVICE, "files", "read and write below a conversation's directory"},
  grant_spec{p::DEVICE, "admin", "administer the node, for at most 12 h"},
  grant_spec{p::GATEWAY, "dispatch", "start configured agents in allowed directories"},
  grant_spec{p::GATEWAY, "approve", "decide approvals for the person whom a binding names"},
  grant_spec{p::GATEWAY, "chat", "conversations, and the texts of their approvals"},
};

bool covers(std::string_view known, std::string_view name) {
  constexpr std::string_view any = ":*";
  if (known == name)
    return true;
  const auto stem = known.size() > any.size() && known.substr(known.size() - any.size()) == any ? known.substr(0, known.size() - 1) : "";
  return !stem.empty() && name.size() > stem.size() && name.substr(0, stem.size()) == stem;
}

std::string_view grant_for(principal_kind k, const right& r) {
  for (const auto& w : r.with)
    if (w.who == k)
      return w.grant;
  return {};
}

/// Why not, and what to do instead.
std::string why_not(principal_kind k, const right& r) {
  const auto grant = grant_for(k, r);
  switch (k) {
    case p::KIND_UNSPECIFIED: return "The caller is not known";
    case p::OPERATOR: return "Only the node itself does that";
    case p::SESSION:
      if (!grant.empty())
        return concat(
          {"A session may not do that without the grant ", grant, ". The operator gives it when the session is made: --grant ", grant, "."});
      if (r == nobody)
        return "A session may not do that";
      if (r == rights::node)
        return "Only the node itself does that";
      return concat({"Only the operator may do that, outside every worker and agent.", explained});
    case p::AGENT:
      return concat(
        {"This process runs below an agent program that has no live session: it may register and look, nothing else. Run: swarmctl register.",
         explained});
    case p::ORPHAN:
      return concat(
        {"Nobody who could be asked has started this process: it runs in the background, without a terminal. So it may not do what only a "
         "person may. Run it from a terminal.",
         explained});
    case p::NODE: return "A node reports what becomes of its own processes and sessions, and does nothing else";
    default:
      return grant.empty() ? concat({"A ", name_of(k), " may not do that"})
                           : concat({"A ", name_of(k), " may not do that without the grant ", grant});
  }
}

} // namespace

std::span<const operation_row> operation_rights() noexcept { return operations; }
std::span<const query_row> query_rights() noexcept { return queries; }
std::span<const call_row> call_rights() noexcept { return calls; }
std::span<const link_row> link_rights() noexcept { return links; }
std::span<const grant_spec> known_grants() noexcept { return grants; }

const right* right_to(operation what, terminal of) noexcept {
  for (const auto& row : operations)
    if (row.what == what && row.of.value_or(of) == of)
      return &row.who;
  return nullptr;
}

const right* right_to(v1::Query::BodyCase body) noexcept {
  for (const auto& row : queries)
    if (row.body == body)
      return &row.who;
  return nullptr;
}

const operation* operation_of_link(int ask) noexcept {
  for (const auto& row : links)
    if (row.ask == ask)
      return &row.what;
  return nullptr;
}

bool holds_outright(const v1::Principal& who, const right& r) noexcept {
  const auto k = who.kind();
  return r.without_grant(k) ||
         std::any_of(r.with.begin(), r.with.end(), [&](const by_grant& w) { return w.who == k && !w.grant.empty() && has_grant(who, w.grant); });
}

bool holds(const v1::Principal& who, const right& r) noexcept { return r.own.has(who.kind()) || r.some.has(who.kind()) || holds_outright(who, r); }

std::optional<v1::Refusal> may(const v1::Principal& who, const right* r) {
  if (r && holds(who, *r))
    return std::nullopt;
  return refusal(v1::Refusal::FORBIDDEN, why_not(who.kind(), r ? *r : nobody));
}

std::optional<v1::Refusal> may(const v1::Principal& who, operation what) { return may(who, right_to(what)); }
std::optional<v1::Refusal> may(const v1::Principal& who, operation what, terminal of) { return may(who, right_to(what, of)); }

std::optional<v1::Refusal> may_ever(principal_kind k, operation what) {
  const right* first = nullptr;
  for (const auto& row : operations) {
    if (row.what != what)
      continue;
    if (row.who.possible(k))
      return std::nullopt;
    if (!first)
      first = &row.who;
  }
  return refusal(v1::Refusal::FORBIDDEN, why_not(k, first ? *first : nobody));
}

bool is_grant(principal_kind k, std::string_view name) noexcept {
  return std::any_of(grants.begin(), grants.end(), [&](const grant_spec& g) { return g.who == k && covers(g.name, name); });
}

std::string grant_names(principal_kind k) {
  std::string out;
  for (const auto& g : grants)
    if (g.who == k)
      out += (out.empty() ? "" : ", ") + std::string{g.name};
  return out;
}

bool has_grant(const v1::Principal& who, std::string_view grant) {
  return std::find(who.grants().begin(), who.grants().end(), grant) != who.grants().end();
}

namespace {

/// 0 = it has no end.
std::int64_t end_of(std::string_view grant, const grant_end_list& ends) {
  for (const auto& e : ends)
    if (e.grant() == grant)
      return e.until_ms();
  return 0;
}

} // namespace

grant_list grants_at(const grant_list& all, const grant_end_list& ends, std::int64_t now_ms) {
  grant_list out;
  for (const auto& g : all)
    if (const auto until = end_of(g, ends); until == 0 || now_ms < until)
      *out.Add() = g;
  return out;
}

std::int64_t next_grant_end(const grant_list& all, const grant_end_list& ends, std::int64_t now_ms) {
  std::int64_t next = 0;
  for (const auto& g : all)
    if (const auto until = end_of(g, ends); until > now_ms && (next == 0 || until < next))
      next = until;
  return next;
}

std::string_view name_of(principal_kind k) noexcept {
  switch (k) {
    case p::OPERATOR: return "operator";
    case p::SESSION: return "session";
    case p::DEVICE: return "device";
    case p::GATEWAY: return "gateway";
    case p::NODE: return "node";
    case p::AGENT: return "agent";
    case p::ORPHAN: return "orphan";
    default: return "";
  }
}

} // namespace swarm::domain
