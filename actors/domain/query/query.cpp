// Questions: the entrance, and what all lists share.
#include "actors/domain/query/rules.hpp"
#include "actors/domain/refusal.hpp"

namespace swarm::domain {

namespace {

v1::Answer as_answer(v1::Refusal refusal) {
  v1::Answer a;
  *a.mutable_refusal() = std::move(refusal);
  return a;
}

v1::Answer ask(const question& q) {
  using body = v1::Query;
  const auto& query = q.query;
  switch (query.body_case()) {
    case body::kListSessions: return list_sessions(q, query.list_sessions());
    case body::kFindSession: return find_session(q, query.find_session());
    case body::kListTasks: return list_tasks(q, query.list_tasks());
    case body::kGetTask: return get_task(q, query.get_task());
    case body::kFindTask: return find_task(q, query.find_task());
    case body::kTaskSnapshot: return task_snapshot(q, query.task_snapshot());
    case body::kListLocks: return list_locks(q, query.list_locks());
    case body::kGetLock: return get_lock(q, query.get_lock());
    case body::kVerifyLock: return verify_lock(q, query.verify_lock());
    case body::kListMessages: return list_messages(q, query.list_messages());
    case body::kGetKv: return get_kv(q, query.get_kv());
    case body::kListKv: return list_kv(q, query.list_kv());
    case body::kGetStatus: return get_status(q);
    case body::kListEvents: return list_events(q, query.list_events());
    case body::kListSpawns: return list_spawns(q, query.list_spawns());
    case body::kListSubscriptions: return list_subscriptions(q);
    case body::kListApprovals: return list_approvals(q, query.list_approvals());
    case body::kListScopes: return list_scopes(q, query.list_scopes());
    case body::kPreviewSweep: {
      v1::Answer a;
      *a.mutable_sweep() = preview_sweep(q.rows, q.scope(), q.in);
      if (q.viewer && !q.cross)
        a.mutable_sweep()->clear_kv_keys_deleted(); // their names may be another identity's
      return a;
    }
    case body::kResolveToken: return resolve_token(q, query.resolve_token());
    case body::kGetTotals: return get_totals(q);
    case body::kListConversations: return list_conversations(q, query.list_conversations());
    case body::kListPrompts: return list_prompts(q, query.list_prompts());
    case body::kListUsage: return list_usage(q, query.list_usage());
    case body::BODY_NOT_SET: break;
  }
  return deny(v1::Refusal::INVALID, "The query is empty or not known to this version");
}

/// The session whose view limits the answer: a session always asks as itself. Empty = no limit, everything is visible.
const std::string& viewer_of(const v1::Query& query) {
  return query.principal().kind() == v1::Principal::SESSION ? query.principal().id() : query.viewer();
}

/// An agent without a session sees what one without a label would.
v1::Session onlooker(const v1::Query& query, const inputs& in) {
  v1::Session s;
  s.set_id(query.principal().id());
  s.set_scope(query.scope());
  s.set_identity(effective_identity({}, in));
  return s;
}

} // namespace

v1::Answer deny(v1::Refusal::Code code, std::string text, std::string subject) {
  return as_answer(refusal(code, std::move(text), std::move(subject)));
}

std::string page_token(std::string_view list, std::string_view position) { return to_hex(key(list, position)); }

page_start read_page(std::string_view list, const v1::Page& page) {
  page_start start;
  if (page.size() > 0)
    start.size = std::min<std::size_t>(page.size(), limits::page_rows_max);
  if (page.token().empty())
    return start;
  const auto text = from_hex(page.token());
  const auto prefix = key(list, std::string_view{});
  start.valid = text.size() > prefix.size() && text.compare(0, prefix.size(), prefix) == 0;
  if (start.valid)
    start.position = text.substr(prefix.size());
  return start;
}

v1::Answer bad_page() { return deny(v1::Refusal::INVALID, "The page token does not belong to this list. Start again without it."); }

v1::Answer answer(const v1::Query& query, const rows_view& rows, const inputs& in) {
  if (auto refusal = validate(query))
    return as_answer(std::move(*refusal));
  if (auto refusal = authorize(query))
    return as_answer(std::move(*refusal));
  if (auto refusal = authorize_place(query, rows))
    return as_answer(std::move(*refusal));
  question q{query, rows, in, std::nullopt, may_cross_identity(query)};
  if (query.principal().kind() == v1::Principal::AGENT) {
    q.viewer = onlooker(query, in);
  } else if (const auto& viewer = viewer_of(query); !viewer.empty() && !about_the_node(query)) {
    q.viewer = rows.row<v1::Session>(key(viewer));
    if (!q.viewer || q.viewer->scope() != query.scope())
      return deny(v1::Refusal::NOT_REGISTERED, "Not registered. Call register first.", viewer);
  }
  auto a = ask(q);
  if (const auto state = rows.row<v1::ScopeState>(key(query.scope())))
    a.set_revision(state->revision());
  return a;
}

} // namespace swarm::domain
