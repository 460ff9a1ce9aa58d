// The table of rights: who may do what, by kind of principal and by grant. It stands beside the table of commands (commands.cpp), whose column
// `from` is of the same type, and holds the rest: queries, operations that are neither, and the calls and questions of links that come down to them.
// What no row opens is refused. docs/security.md#the-table-of-rights shows it (tools/rights-table).
#pragma once

#include <array>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "swarm/v1/command.pb.h"
#include "swarm/v1/query.pb.h"

namespace swarm::domain {

using principal_kind = v1::Principal::Kind;

/// Some kinds of principals.
class kinds {
public:
  constexpr kinds() = default;
  constexpr kinds(std::initializer_list<principal_kind> list) {
    for (auto k : list)
      bits_ |= 1u << static_cast<unsigned>(k);
  }
  constexpr bool has(principal_kind k) const { return k > 0 && k < 32 && (bits_ >> static_cast<unsigned>(k) & 1u) != 0; }
  constexpr bool empty() const { return bits_ == 0; }
  constexpr bool operator==(const kinds&) const = default;

private:
  unsigned bits_ = 0;
};

/// A kind that has the right by one of its grants.
struct by_grant {
  principal_kind who = v1::Principal::KIND_UNSPECIFIED;
  std::string_view grant = {};
  constexpr bool operator==(const by_grant&) const = default;
};

/// A row's right: everybody whom no field names is refused.
struct right {
  /// Without a grant, whatever it is about.
  kinds all = {};
  /// Without a grant, for itself and what is its own.
  kinds own = {};
  /// As the rule decides that looks at the rows; `rule` says when.
  kinds some = {};
  /// With the grant.
  std::array<by_grant, 4> with = {};
  std::string_view rule = {};

  /// The kind may without a grant, whatever it is about. An orphan may what both an operator and a session may: what only a person may, and what a
  /// session may for itself alone, is not for a process that nobody stands for.
  constexpr bool without_grant(principal_kind k) const {
    return k == v1::Principal::ORPHAN ? all.has(v1::Principal::OPERATOR) && all.has(v1::Principal::SESSION) : all.has(k);
  }
  /// The kind may in some case, with whatever grant.
  constexpr bool possible(principal_kind k) const {
    if (without_grant(k) || own.has(k) || some.has(k))
      return true;
    for (const auto& w : with)
      if (w.who == k && !w.grant.empty())
        return true;
    return false;
  }
  constexpr bool operator==(const right&) const = default;
};

/// Rights that several rows share; commands.cpp names them in its column `from`.
namespace rights {

inline constexpr right members{.all = {v1::Principal::OPERATOR, v1::Principal::SESSION}};
inline constexpr right members_and_node{.all = {v1::Principal::OPERATOR, v1::Principal::SESSION, v1::Principal::NODE}};
inline constexpr right member_itself{.all = {v1::Principal::OPERATOR}, .own = {v1::Principal::SESSION}};
inline constexpr right member_itself_and_node{.all = {v1::Principal::OPERATOR, v1::Principal::NODE}, .own = {v1::Principal::SESSION}};
inline constexpr right whoever_registers{.all = {v1::Principal::OPERATOR, v1::Principal::SESSION, v1::Principal::AGENT}};
inline constexpr right operator_or_node{.all = {v1::Principal::OPERATOR, v1::Principal::NODE}};
inline constexpr right node{.all = {v1::Principal::NODE}};
inline constexpr right who_starts_workers{.all = {v1::Principal::OPERATOR},
                                          .some = {v1::Principal::SESSION},
                                          .with = {{{v1::Principal::SESSION, "spawn"}}},
                                          .rule = "a session labeled mode:gateway; one with the grant needs SWARM_MCP_ALLOW_SPAWN=1 as well"};
inline constexpr right who_chats{.all = {v1::Principal::OPERATOR},
                                 .with = {{{v1::Principal::SESSION, "chat"}, {v1::Principal::DEVICE, "chat"}, {v1::Principal::GATEWAY, "chat"}}}};
inline constexpr right who_decides{.all = {v1::Principal::OPERATOR},
                                   .some = {v1::Principal::SESSION},
                                   .with = {{{v1::Principal::DEVICE, "approve"}, {v1::Principal::GATEWAY, "approve"}}},
                                   .rule = "a session labeled mode:gateway, what is about task/<id> and what it has not asked for itself"};

} // namespace rights

// -- what is neither a command nor a query ------------------------------------------------------

enum class operation : std::uint8_t {
  // Calls that bring a command or a query, which has a row of its own.
  execute,
  ask,
  // Streams and waits.
  watch_events,
  watch_all_scopes,
  wait_for_activity,
  attach_session,
  // Terminals. What is about one terminal has a row for each `terminal`.
  pty_create,
  pty_list,
  pty_find,
  pty_read,
  pty_peek,
  pty_write,
  pty_resize,
  pty_kill,
  pty_forget,
  pty_attach,
  // The node.
  node_status,
  node_graph,
  node_backup,
  node_shutdown,
  node_check,
  node_kill_actor,
  explain,
  login,
  logout,
  set_passphrase,
  // The cluster.
  cluster_found,
  cluster_create_join_token,
  cluster_join,
  cluster_list_nodes,
  cluster_unlock_authority,
  cluster_revoke_node,
  cluster_drain_node,
  cluster_leave,
  cluster_share_scope,
  cluster_unshare_scope,
  cluster_list_checkouts,
  // Between nodes: a certificate, or a join token, is judged before anything is looked up here.
  link,
  enroll,
  // Inside of commands and queries.
  give_grants,
  make_coordinators,
  loosen_permissions,
  choose_identity,
  cross_identity,
  act_as_session,
  outrank_agents,
  decide_for_others,
};

/// Whose a terminal is, as its caller sees it. That of an agent has an agent's harness, or an agent at work in it.
enum class terminal : std::uint8_t { program, agent, own };

struct operation_row {
  operation what;
  std::optional<terminal> of; // nullopt = it is about no terminal
  right who;
  std::string_view meaning; // for people: what is done
};

struct query_row {
  v1::Query::BodyCase body;
  right who;
};

/// What a call of a service comes down to.
struct call_row {
  std::string_view method; // "swarm.v1.Node.Status"
  operation what;
};

/// What a question of a link comes down to.
struct link_row {
  int ask; // number of the field of v1::LinkRequest
  operation what;
};

std::span<const operation_row> operation_rights() noexcept;
std::span<const query_row> query_rights() noexcept;
std::span<const call_row> call_rights() noexcept;
std::span<const link_row> link_rights() noexcept;

/// Null when there is no row: then nobody may.
const right* right_to(operation, terminal = terminal::program) noexcept;
const right* right_to(v1::Query::BodyCase) noexcept;
const operation* operation_of_link(int ask) noexcept;

/// The principal has the right, by its kind or by a grant that it holds. What is open to it for its own, and what a rule decides, passes: the
/// caller asks that rule.
bool holds(const v1::Principal&, const right&) noexcept;
/// The same without what a rule decides, and without what is open to it for its own.
bool holds_outright(const v1::Principal&, const right&) noexcept;
/// nullopt = it has. Otherwise FORBIDDEN, with what to do.
std::optional<v1::Refusal> may(const v1::Principal&, const right*);
std::optional<v1::Refusal> may(const v1::Principal&, operation);
std::optional<v1::Refusal> may(const v1::Principal&, operation, terminal);
/// The same for a caller whose grants are not known yet: refused is who could not have the right with any grant, of any terminal.
std::optional<v1::Refusal> may_ever(principal_kind, operation);

// -- grants ---------------------------------------------------------------------------------------

/// What a kind of principal may be given.
struct grant_spec {
  principal_kind who;
  std::string_view name; // one that ends in ":*" stands for all that begin so
  std::string_view meaning;
};
std::span<const grant_spec> known_grants() noexcept;
bool is_grant(principal_kind, std::string_view name) noexcept;
/// "spawn, pty, …"
std::string grant_names(principal_kind);

using grant_list = google::protobuf::RepeatedPtrField<std::string>;
using grant_end_list = google::protobuf::RepeatedPtrField<v1::GrantEnd>;

bool has_grant(const v1::Principal&, std::string_view grant);
/// Those of `grants` that have not ended at `now_ms`.
grant_list grants_at(const grant_list& grants, const grant_end_list& ends, std::int64_t now_ms);
/// When the next of `grants` ends after `now_ms`; 0 = none does.
std::int64_t next_grant_end(const grant_list& grants, const grant_end_list& ends, std::int64_t now_ms);

/// "operator", "session", "device", "gateway", "node", "agent", "orphan"; empty for what is none.
std::string_view name_of(principal_kind) noexcept;

} // namespace swarm::domain
