// What the files that answer queries share: whose eyes look, and how a list is cut into pages.
#pragma once

#include <algorithm>
#include <limits>

#include "actors/base/crypto.hpp"
#include "actors/base/limits.hpp"
#include "actors/domain/decide.hpp"
#include "actors/domain/rules.hpp"

namespace swarm::domain {

/// A query with everything it is answered from. Without a viewer everything is visible.
struct question {
  const v1::Query& query;
  const rows_view& rows;
  const inputs& in;
  std::optional<v1::Session> viewer;
  bool cross = false;

  const std::string& scope() const { return query.scope(); }
  const v1::Session* eyes() const { return viewer ? &*viewer : nullptr; }
  bool sees(const v1::Session& s) const { return !viewer || cross || s.id() == viewer->id() || s.identity() == viewer->identity(); }
  bool sees(const v1::Task& t) const { return task_visible(t, eyes(), cross); }
  bool sees(const v1::Spawn& s) const { return !viewer || cross || effective_identity(s.label(), in) == viewer->identity(); }
  bool sees(const v1::Approval& a) const {
    // Nobody stands for an orphan: it sees what every session might.
    if (query.principal().kind() == v1::Principal::ORPHAN)
      return approval_kind(a) == v1::Approval::TASK;
    // The grant chat opens what agents of conversations ask, and approve everything.
    const auto remote = query.principal().kind() == v1::Principal::DEVICE || query.principal().kind() == v1::Principal::GATEWAY;
    if (remote && !has_grant(query.principal(), "approve"))
      return !a.conversation_id().empty();
    return !viewer || approval_visible(a, *viewer);
  }
  /// A session sees its own conversation, and with the grant chat all.
  bool sees_conversation(const std::string& id) const { return sees_conversations() || (viewer && conversation_of(rows, *viewer) == id); }
  bool sees_conversations() const {
    if (query.principal().kind() == v1::Principal::ORPHAN)
      return false;
    if (!viewer || has_grant(query.principal(), "chat"))
      return true;
    const auto grants = grants_at(viewer->grants(), viewer->grant_ends(), in.now_ms);
    return std::find(grants.begin(), grants.end(), "chat") != grants.end();
  }
  bool sees(const v1::KvEntry& e) const { return kv_visible(e, eyes(), cross); }
};

/// An answer that refuses, as refuse() makes replies.
v1::Answer deny(v1::Refusal::Code code, std::string text, std::string subject = {});

/// The lock that keeps others from the path: its own, else that of the nearest directory above it.
std::optional<v1::Lock> covering_lock(const question& q, const std::string& path);

/// A session's row as answers carry it.
v1::Session shown(const question& q, v1::Session s);

// -- pages -----------------------------------------------------------------------------------------

/// Opaque tokens: the hex of "<list> NUL <position>", so that one list's token is not mistaken for another's.
std::string page_token(std::string_view list, std::string_view position);

/// Where a page begins, and its size in rows.
struct page_start {
  std::string position; // empty = from the beginning
  std::size_t size = limits::page_rows_max;
  bool valid = true;
};
page_start read_page(std::string_view list, const v1::Page& page);
/// Refuses a token that read_page found not to be this list's.
v1::Answer bad_page();

/// Fills one page. fetch(position, limit) gives rows after a position in order, position(row) its place, take(row) moves a
/// wanted row into the answer and returns its bytes, or 0. Returns the position to go on from, or nullopt at the end.
template <class Row, class Fetch, class Position, class Take>
std::optional<std::string> fill_page(const page_start& start, Fetch fetch, Position position, Take take) {
  auto at = start.position;
  std::size_t rows = 0, bytes = 0, examined = 0;
  while (true) {
    const auto limit = std::min(limits::page_chunk_rows, start.size - rows + 1);
    std::vector<Row> chunk = fetch(at, limit);
    for (std::size_t i = 0; i < chunk.size(); ++i) {
      at = position(chunk[i]);
      const bool more = i + 1 < chunk.size() || chunk.size() == limit;
      if (const std::size_t taken = take(std::move(chunk[i])); taken > 0) {
        ++rows;
        bytes += taken;
      }
      if (rows == start.size || bytes >= limits::page_encoded_bytes_max || ++examined >= limits::page_examined_rows_max)
        return more ? std::optional(at) : std::nullopt;
    }
    if (chunk.size() < limit)
      return std::nullopt;
  }
}

// -- one function per query ------------------------------------------------------------------------

// query_sessions.cpp
v1::Answer list_sessions(const question&, const v1::ListSessions&);
v1::Answer find_session(const question&, const v1::FindSession&);
// query_tasks.cpp
v1::Answer list_tasks(const question&, const v1::ListTasks&);
v1::Answer get_task(const question&, const v1::GetTask&);
v1::Answer find_task(const question&, const v1::FindTask&);
v1::Answer task_snapshot(const question&, const v1::TaskSnapshot&);
/// Tasks of that status which the viewer sees.
std::uint64_t count_tasks(const question&, v1::TaskStatus);
// query_lists.cpp
v1::Answer list_locks(const question&, const v1::ListLocks&);
v1::Answer get_lock(const question&, const v1::GetLock&);
v1::Answer verify_lock(const question&, const v1::VerifyLock&);
v1::Answer list_messages(const question&, const v1::ListMessages&);
v1::Answer get_kv(const question&, const v1::GetKv&);
v1::Answer list_kv(const question&, const v1::ListKv&);
v1::Answer list_events(const question&, const v1::ListEvents&);
v1::Answer list_spawns(const question&, const v1::ListSpawns&);
v1::Answer list_subscriptions(const question&);
v1::Answer list_approvals(const question&, const v1::ListApprovals&);
v1::Answer list_scopes(const question&, const v1::ListScopes&);
v1::Answer resolve_token(const question&, const v1::ResolveToken&);
v1::Answer get_totals(const question&);
// conversations.cpp
v1::Answer list_conversations(const question&, const v1::ListConversations&);
v1::Answer list_prompts(const question&, const v1::ListPrompts&);
v1::Answer list_usage(const question&, const v1::ListUsage&);
// query_status.cpp
v1::Answer get_status(const question&);

} // namespace swarm::domain
