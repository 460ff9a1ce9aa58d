// Locks, messages, keys, events, spawns and the other lists.
#include <charconv>

#include "actors/base/paths.hpp"
#include "actors/domain/lock_paths.hpp"
#include "actors/domain/query/rules.hpp"

namespace swarm::domain {

namespace {

/// Adds a row's bytes after moving it to where it belongs.
template <class Row>
std::size_t move_to(Row* place, Row row) {
  const auto bytes = row.ByteSizeLong() + 4;
  *place = std::move(row);
  return bytes;
}

std::optional<v1::Lock> held_lock(const question& q, const std::string& path) {
  auto lock = q.rows.row<v1::Lock>(key(q.scope(), path));
  if (lock && has_lapsed(*lock, q.in))
    lock.reset();
  return lock;
}

bool wanted(const v1::ListEvents& c, const v1::Event& e) {
  if (!c.subject().empty() && c.subject() != e.subject())
    return false;
  return c.types_size() == 0 ||
         std::any_of(c.types().begin(), c.types().end(), [&](const auto& prefix) { return e.type().compare(0, prefix.size(), prefix) == 0; });
}

/// Nothing for what is no revision. One beyond what the store can hold has nothing after it, like the last one it can.
std::optional<std::uint64_t> revision_at(const std::string& position) {
  constexpr std::uint64_t last = std::numeric_limits<std::int64_t>::max();
  std::uint64_t n = 0;
  const auto* end = position.data() + position.size();
  const auto parsed = std::from_chars(position.data(), end, n);
  if (parsed.ptr != end || parsed.ec == std::errc::invalid_argument)
    return std::nullopt;
  return parsed.ec == std::errc::result_out_of_range ? last : std::min(n, last);
}

/// The last page: bounded look back, still ascending.
void newest_events(const question& q, const v1::ListEvents& c, std::size_t size, v1::EventList& out) {
  const bool filtered = c.types_size() > 0 || !c.subject().empty();
  auto events = q.rows.newest_events(q.scope(), filtered ? limits::page_examined_rows_max : size);
  std::erase_if(events, [&](const auto& e) { return !wanted(c, e) || e.revision() <= c.after(); });
  std::size_t bytes = 0;
  auto first = events.end();
  while (first != events.begin() && static_cast<std::size_t>(events.end() - first) < size && bytes < limits::page_encoded_bytes_max)
    bytes += (--first)->ByteSizeLong() + 4;
  for (; first != events.end(); ++first)
    *out.add_events() = std::move(*first);
}

/// A session reads only the mail it has got or sent. Both are looked up as such, so that the limit counts what it may see.
std::vector<v1::Message> own_messages(const rows_view& rows, const message_filter& f, const std::string& me) {
  std::vector<v1::Message> out;
  const auto add = [&](std::string message_filter::*party) {
    if (!(f.*party).empty() && f.*party != me)
      return;
    auto own = f;
    own.*party = me;
    for (auto& m : rows.rows<v1::Message>(own))
      out.push_back(std::move(m));
  };
  add(&message_filter::recipient);
  add(&message_filter::sender);
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.id() < b.id(); });
  out.erase(std::unique(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.id() == b.id(); }), out.end());
  if (const auto surplus = out.size() - std::min(out.size(), f.limit); surplus > 0)
    out.erase(f.newest ? out.begin() : out.end() - static_cast<std::ptrdiff_t>(surplus),
              f.newest ? out.begin() + static_cast<std::ptrdiff_t>(surplus) : out.end());
  return out;
}

} // namespace

std::optional<v1::Lock> covering_lock(const question& q, const std::string& path) {
  for (const auto& p : covering_paths(path))
    if (auto lock = held_lock(q, p))
      return lock;
  return std::nullopt;
}

v1::Answer list_locks(const question& q, const v1::ListLocks& c) {
  const auto start = read_page("locks", c.page());
  if (!start.valid)
    return bad_page();
  v1::Answer a;
  auto& out = *a.mutable_locks();
  lock_filter f;
  f.scope = q.scope();
  f.session_id = c.holder();
  const auto next = fill_page<v1::Lock>(
    start,
    [&](const std::string& after, std::size_t limit) {
      f.after_path = after;
      f.limit = limit;
      return q.rows.rows<v1::Lock>(f);
    },
    [](const v1::Lock& l) { return l.path(); },
    [&](const v1::Lock& l) -> std::size_t {
      return has_lapsed(l, q.in) ? 0 : move_to(out.add_locks(), lock_view(q.rows, l, q.eyes(), q.cross, q.in.now_ms));
    });
  if (next)
    out.mutable_page()->set_token(page_token("locks", *next));
  return a;
}

v1::Answer get_lock(const question& q, const v1::GetLock& c) {
  v1::Answer a;
  a.mutable_lock()->set_path(c.path());
  if (const auto lock = covering_lock(q, c.path()))
    *a.mutable_lock()->mutable_active() = lock_view(q.rows, *lock, q.eyes(), q.cross, q.in.now_ms);
  return a;
}

v1::Answer verify_lock(const question& q, const v1::VerifyLock& c) {
  v1::Answer a;
  auto& out = *a.mutable_lock_verified();
  auto lock = held_lock(q, c.path());
  out.set_valid(lock && lock->fence() == c.fence());
  if (lock)
    *out.mutable_lock() = lock_view(q.rows, *lock, q.eyes(), q.cross, q.in.now_ms).lock();
  return a;
}

v1::Answer list_messages(const question& q, const v1::ListMessages& c) {
  message_filter f;
  f.scope = q.scope();
  f.recipient = c.to();
  f.sender = c.from();
  f.limit = std::min(c.limit() == 0 ? limits::messages_listed_default : std::size_t{c.limit()}, limits::messages_listed_max);
  if (c.unread_only())
    f.read = false;
  else
    f.newest = true;
  auto messages = q.viewer && !q.cross ? own_messages(q.rows, f, q.viewer->id()) : q.rows.rows<v1::Message>(f);
  std::size_t bytes = 0, kept = 0;
  const auto fits = [&](const v1::Message& m) {
    bytes += m.ByteSizeLong() + 4;
    return bytes <= limits::page_encoded_bytes_max;
  };
  v1::Answer a;
  auto& out = *a.mutable_messages();
  if (c.unread_only()) {
    while (kept < messages.size() && fits(messages[kept]))
      *out.add_messages() = std::move(messages[kept++]);
    return a;
  }
  while (kept < messages.size() && fits(messages[messages.size() - 1 - kept]))
    ++kept;
  for (auto i = messages.size() - kept; i < messages.size(); ++i)
    *out.add_messages() = std::move(messages[i]);
  return a;
}

v1::Answer get_kv(const question& q, const v1::GetKv& c) {
  auto entry = q.rows.row<v1::KvEntry>(key(q.scope(), c.key()));
  if (!entry || has_expired(*entry, q.in.now_ms) || !q.sees(*entry))
    return deny(v1::Refusal::NOT_FOUND, "Key \"" + c.key() + "\" not found", c.key());
  v1::Answer a;
  *a.mutable_kv() = std::move(*entry);
  return a;
}

v1::Answer list_kv(const question& q, const v1::ListKv& c) {
  const auto start = read_page("kv", c.page());
  if (!start.valid)
    return bad_page();
  v1::Answer a;
  auto& out = *a.mutable_kv_list();
  kv_filter f;
  f.scope = q.scope();
  f.like_prefix = c.prefix();
  const auto next = fill_page<v1::KvEntry>(
    start,
    [&](const std::string& after, std::size_t limit) {
      f.after_key = after;
      f.limit = limit;
      return q.rows.rows<v1::KvEntry>(f);
    },
    [](const v1::KvEntry& e) { return e.key(); },
    [&](v1::KvEntry e) -> std::size_t {
      if (has_expired(e, q.in.now_ms) || !q.sees(e))
        return 0;
      e.clear_value();
      return move_to(out.add_entries(), std::move(e));
    });
  if (next)
    out.mutable_page()->set_token(page_token("kv", *next));
  return a;
}

v1::Answer list_events(const question& q, const v1::ListEvents& c) {
  const auto start = read_page("events", c.page());
  if (!start.valid || (!start.position.empty() && !revision_at(start.position)))
    return bad_page();
  v1::Answer a;
  auto& out = *a.mutable_events();
  // Every revision is an event's: when none is kept, the next one will be the oldest.
  out.set_oldest(q.rows.oldest_event(q.scope()));
  if (const auto state = q.rows.row<v1::ScopeState>(key(q.scope())); out.oldest() == 0 && state)
    out.set_oldest(state->revision() + 1);
  if (c.newest()) {
    newest_events(q, c, start.size, out);
    return a;
  }
  auto from = start;
  if (from.position.empty())
    from.position = std::to_string(c.after());
  const auto next = fill_page<v1::Event>(
    from, [&](const std::string& after, std::size_t limit) { return q.rows.events(q.scope(), *revision_at(after), limit); },
    [](const v1::Event& e) { return std::to_string(e.revision()); },
    [&](v1::Event e) -> std::size_t { return wanted(c, e) ? move_to(out.add_events(), std::move(e)) : 0; });
  if (next)
    out.mutable_page()->set_token(page_token("events", *next));
  return a;
}

v1::Answer list_spawns(const question& q, const v1::ListSpawns& c) {
  const auto start = read_page("spawns", c.page());
  if (!start.valid || (!start.position.empty() && !is_position(start.position)))
    return bad_page();
  v1::Answer a;
  auto& out = *a.mutable_spawns();
  spawn_filter f;
  f.scope = q.scope();
  f.task_id = c.task_id();
  if (c.live_only())
    f.live = true;
  const auto next = fill_page<v1::Spawn>(
    start,
    [&](const std::string& after, std::size_t limit) {
      f.after_id = after;
      f.limit = limit;
      return q.rows.rows<v1::Spawn>(f);
    },
    [](const v1::Spawn& s) { return position(s); },
    [&](v1::Spawn s) -> std::size_t { return q.sees(s) ? move_to(out.add_spawns(), std::move(s)) : 0; });
  if (next)
    out.mutable_page()->set_token(page_token("spawns", *next));
  return a;
}

v1::Answer list_subscriptions(const question& q) {
  v1::Answer a;
  auto& out = *a.mutable_subscriptions();
  subscription_filter f;
  f.scope = q.scope();
  f.owner = q.viewer ? "session/" + q.viewer->id() : principal_key(q.query.principal());
  for (auto& s : q.rows.rows<v1::Subscription>(f))
    *out.add_subscriptions() = std::move(s);
  return a;
}

namespace {

v1::Approval shown_approval(v1::Approval a) {
  a.set_kind(approval_kind(a));
  return a;
}

v1::Answer one_approval(const question& q, const std::string& id) {
  v1::Answer a;
  auto& out = *a.mutable_approvals();
  auto row = q.rows.row<v1::Approval>(key(id));
  if (row && row->scope() == q.scope() && q.sees(*row))
    *out.add_approvals() = shown_approval(std::move(*row));
  return a;
}

/// Those that wait longest first, all of them page by page.
v1::Answer page_of_approvals(const question& q, const v1::ListApprovals& c, approval_filter f) {
  const auto start = read_page("approvals", c.page());
  if (!start.valid || (!start.position.empty() && !is_position(start.position)))
    return bad_page();
  v1::Answer a;
  auto& out = *a.mutable_approvals();
  const auto next = fill_page<v1::Approval>(
    start,
    [&](const std::string& after, std::size_t limit) {
      f.after_key = after;
      f.limit = limit;
      return q.rows.rows<v1::Approval>(f);
    },
    [](const v1::Approval& row) { return position(row); },
    [&](v1::Approval row) -> std::size_t { return q.sees(row) ? move_to(out.add_approvals(), shown_approval(std::move(row))) : 0; });
  if (next)
    out.mutable_page()->set_token(page_token("approvals", *next));
  return a;
}

void leave_body_out(v1::Approval& row) {
  if (row.body().empty())
    return;
  row.set_body_bytes(row.body().size());
  row.set_body_left_out(true);
  row.clear_body();
}

/// Few are, of the many that a conversation has asked for.
v1::Answer underway_approvals(const question& q, const std::string& conversation_id) {
  v1::Answer a;
  auto& out = *a.mutable_approvals();
  approval_filter f;
  f.scope = q.scope();
  f.conversation_id = conversation_id;
  std::size_t bytes = 0;
  for (auto& row : q.rows.rows<v1::Approval>(f)) {
    if (!q.sees(row) || (row.decided_at_ms() != 0 && row.delivery() != v1::Approval::PENDING))
      continue;
    if (bytes >= limits::page_encoded_bytes_max / 2)
      leave_body_out(row);
    bytes += row.ByteSizeLong();
    *out.add_approvals() = shown_approval(std::move(row));
  }
  return a;
}

} // namespace

v1::Answer list_approvals(const question& q, const v1::ListApprovals& c) {
  if (!c.id().empty())
    return one_approval(q, c.id());
  if (!c.conversation_id().empty())
    return underway_approvals(q, c.conversation_id());
  v1::Answer a;
  auto& out = *a.mutable_approvals();
  approval_filter f;
  f.scope = q.scope();
  if (c.open_only())
    f.open = true;
  if (c.has_page())
    return page_of_approvals(q, c, std::move(f));
  auto found = q.rows.rows<v1::Approval>(f);
  std::erase_if(found, [&](const v1::Approval& row) { return !q.sees(row); });
  // The newest ones: what is decided is history. Beyond half of what a page holds a row comes without its body, which a question for its id gives.
  std::size_t bytes = 0, first = found.size();
  while (first > 0 && found.size() - first < limits::page_rows_max && bytes < limits::page_encoded_bytes_max) {
    auto& row = found[--first];
    if (bytes >= limits::page_encoded_bytes_max / 2)
      leave_body_out(row);
    bytes += row.ByteSizeLong();
  }
  for (; first < found.size(); ++first)
    *out.add_approvals() = shown_approval(std::move(found[first]));
  return a;
}

v1::Answer list_scopes(const question& q, const v1::ListScopes& c) {
  const auto start = read_page("scopes", c.page());
  if (!start.valid)
    return bad_page();
  v1::Answer a;
  auto& out = *a.mutable_scopes();
  scope_state_filter f;
  const auto next = fill_page<v1::ScopeState>(
    start,
    [&](const std::string& after, std::size_t limit) {
      f.after_scope = after;
      f.limit = limit;
      return q.rows.rows<v1::ScopeState>(f);
    },
    [](const v1::ScopeState& s) { return s.scope(); },
    [&](v1::ScopeState s) -> std::size_t { return c.shared() && !is_named_scope(s.scope()) ? 0 : move_to(out.add_scopes(), std::move(s)); });
  if (next)
    out.mutable_page()->set_token(page_token("scopes", *next));
  return a;
}

v1::Answer resolve_token(const question& q, const v1::ResolveToken& c) {
  const auto credential = q.rows.row<v1::Credential>(key(c.token_hash()));
  auto session = credential ? q.rows.row<v1::Session>(key(credential->session_id())) : std::nullopt;
  if (!session)
    return deny(v1::Refusal::NOT_FOUND, "The token belongs to no session. Register again.");
  v1::Answer a;
  *a.mutable_session() = std::move(*session);
  return a;
}

v1::Answer get_totals(const question& q) {
  task_filter unfinished;
  unfinished.statuses = {v1::OPEN, v1::CLAIMED, v1::IN_PROGRESS, v1::BLOCKED, v1::APPROVAL_REQUIRED};
  v1::Answer a;
  auto& out = *a.mutable_totals();
  out.set_scopes(q.rows.total<v1::ScopeState>({}));
  out.set_sessions(q.rows.total<v1::Session>({}));
  out.set_open_tasks(q.rows.total<v1::Task>(unfinished));
  out.set_locks(q.rows.total<v1::Lock>({}));
  return a;
}

} // namespace swarm::domain
