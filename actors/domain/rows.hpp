// The tables as the rules see them: one key, one filter and one order per row type.
//
// A rule reads through `rows_view` only. The store implements it on SQLite, `transaction` lays the changes of the
// current command over it, and tests implement it in memory. `matches` and `before` are the single definition of what a filter
// means; the SQL of actors/store must agree with them (tests/unit/store/rows_test.cpp compares the two).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "swarm/v1/command.pb.h"
#include "swarm/v1/state.pb.h"

namespace swarm::domain {

namespace v1 = ::swarm::v1;

/// Encodes the parts of a composite key: text parts are joined by NUL, numbers are 20 digits, so that byte order is key order.
std::string key(std::string_view a);
std::string key(std::string_view a, std::string_view b);
std::string key(std::string_view a, std::string_view b, std::string_view c);
std::string key(std::string_view a, std::uint64_t n);
std::string key(std::string_view a, std::string_view b, std::uint64_t n);

/// SQL LIKE as swarm-mcp uses it: ASCII case-insensitive, % and _ are wildcards.
bool like(std::string_view text, std::string_view pattern);

/// True for done, failed, cancelled.
bool is_terminal(v1::TaskStatus) noexcept;
/// Asked for, starting or running.
bool is_live(const v1::Spawn&) noexcept;
/// Queued or sending: it has not reached the agent, as far as is known.
bool is_open(const v1::Prompt&) noexcept;
/// Sending or submitted: the driver may have it, and no turn has.
bool is_given(const v1::Prompt&) noexcept;
/// The agent has taken it or never gets it, or nobody knows.
bool is_retired(const v1::Prompt&) noexcept;

/// List positions of rows that are not ordered by their key: time (20 digits), NUL, id.
std::string position(const v1::Session&);
std::string position(const v1::Spawn&);
std::string position(const v1::Conversation&);
std::string position(const v1::Approval&);
/// For what comes back from a caller: the store cannot look up a position of another form.
bool is_position(std::string_view) noexcept;

/// `principal.kind/principal.id` in one word, for instance "operator/" or "session/3f…": what replies and subscriptions
/// are kept under.
std::string principal_key(const v1::Principal&);

// -- filters: an unset member does not restrict; limit 0 means no limit -----------------

struct session_filter {
  std::string scope = {};
  std::string node_id = {};
  std::optional<bool> adopted = {};
  /// Rows of presence HEARTBEAT whose heartbeat_ms is more than limits::session_reclaim() before this, or more than limits::session_stale()
  /// after it, as when the clock was set back; and rows of presence LEASE with 0 < lease_until_ms < this.
  std::optional<std::int64_t> due_at_ms = {};
  std::string other_identity = {}; // only rows whose identity is not this one
  std::string after_key = {};      // rows after this position(row) in order
  std::size_t limit = 0;
  bool operator==(const session_filter&) const = default;
};

struct credential_filter {
  std::string session_id = {};
};

struct task_filter {
  std::string scope = {};
  std::vector<v1::TaskStatus> statuses = {};
  std::string assignee = {};
  std::string requester = {};
  std::string depends_on = {}; // tasks that list this id
  std::string idempotency_key = {};
  std::string idempotency_base = {}; // this key, or one that begins with it and a colon
  std::string id_prefix = {};
  std::optional<bool> unassigned = {};
  std::optional<std::int64_t> updated_before_ms = {};
  bool by_creation = false; // created_at, id instead of priority desc, created_at, id
  /// List position: the last row of the previous page (priority, created_at_ms, id are used).
  std::optional<v1::Task> after = {};
  bool newest = false; // the last `limit` rows in this order instead of the first, still in this order
  std::size_t limit = 0;
};

struct lock_filter {
  std::string scope = {};
  std::string session_id = {};
  std::string task_id = {};
  std::string path_prefix = {};
  std::optional<std::int64_t> due_at_ms = {}; // deadline set and not later than this
  std::string after_path = {};
  std::size_t limit = 0;
};

struct waiter_filter {
  std::string scope = {};
  std::string path = {};
  std::string path_prefix = {};
  std::string session_id = {};
  std::optional<std::int64_t> due_at_ms = {};
  std::size_t limit = 0;
};

struct message_filter {
  std::string scope = {};
  std::string recipient = {};
  std::string sender = {};
  std::optional<bool> read = {};
  std::string content_prefix = {};
  std::optional<std::int64_t> created_before_ms = {};
  std::uint64_t after_id = 0;
  bool newest = false; // the newest `limit` rows, still in ascending order
  std::size_t limit = 0;
};

struct kv_filter {
  std::string scope = {};
  std::string like_prefix = {};               // pattern is like_prefix + "%"
  std::string key_prefix = {};                // exact, case-sensitive prefix
  std::optional<std::int64_t> due_at_ms = {}; // expires and not later than this
  std::optional<std::int64_t> updated_before_ms = {};
  std::string after_key = {};
  std::size_t limit = 0;
};

struct spawn_filter {
  std::string scope = {};
  std::string role = {};
  std::string key = {};
  std::string task_id = {};
  std::string session_id = {};
  std::string node_id = {};
  std::optional<bool> live = {}; // requested, starting or running
  std::optional<bool> of_conversation = {};
  std::optional<std::int64_t> ended_before_ms = {};
  std::string after_id = {}; // rows after this position(row) in order
  std::size_t limit = 0;
};

struct subscription_filter {
  std::string scope = {};
  std::string owner = {};
  std::optional<std::int64_t> updated_before_ms = {};
};

struct approval_filter {
  std::string scope = {};
  std::string subject = {};
  std::optional<bool> open = {};
  std::string asker = {}; // id of requested_by
  std::string request_key = {};
  std::string conversation_id = {};
  std::optional<bool> of_conversation = {};
  std::string after_key = {}; // rows after this position(row) in order
  std::size_t limit = 0;
};

struct conversation_filter {
  std::string scope = {};
  std::optional<bool> open = {}; // has not ended
  std::string after_key = {};    // rows after this position(row) in order
  std::size_t limit = 0;
};

struct prompt_filter {
  std::string scope = {};
  std::string conversation_id = {};
  std::optional<bool> open = {};    // queued or sending
  std::optional<bool> retired = {}; // see is_retired
  std::optional<std::int64_t> retired_before_ms = {};
  std::uint64_t after_number = 0;
  std::size_t limit = 0;
};

struct usage_day_filter {
  std::string scope = {};
  std::uint32_t since_day = 0;
  std::optional<std::uint32_t> before_day = {};
  std::string after_key = {};
  std::size_t limit = 0;
};

struct scope_state_filter {
  std::string after_scope = {};
  std::size_t limit = 0;
};

// -- per-table definitions ---------------------------------------------------------------
// Times named `before` are strict (<); prefixes and equality are by byte. Ties in an order are broken by the key.

/// `table<Row>::filter`, `::key(row)`, `::erased` (its number in v1::Erased), `::mutable_in(patch)` and `::in(patch)` (null for another's), and
/// `::due_at(row)`: from which moment on a sweep should look at the row, 0 = never.
template <class Row>
struct table;

/// Every table there is, in the order of RowPatch in command.proto: ROW(message, filter, number in v1::Erased, field of the patch). The only list.
// clang-format off
#define SWARM_ROWS(ROW)                                                                                               \
  ROW(Session, session_filter, SESSIONS, session)                     /* key(id); order registered_at_ms, id */       \
  ROW(Credential, credential_filter, CREDENTIALS, credential)         /* key(token_hash) */                           \
  ROW(Task, task_filter, TASKS, task)                                 /* key(id) */                                   \
  ROW(Lock, lock_filter, LOCKS, lock)                                 /* key(scope, path); order path */              \
  ROW(LockWaiter, waiter_filter, LOCK_WAITERS, lock_waiter)           /* key(scope, path, seq); order seq */          \
  ROW(Message, message_filter, MESSAGES, message)                     /* key(scope, id); order id */                  \
  ROW(KvEntry, kv_filter, KV, kv)                                     /* key(scope, key); order key */                \
  ROW(Spawn, spawn_filter, SPAWNS, spawn)                             /* key(id); order requested_at_ms, id */        \
  ROW(Subscription, subscription_filter, SUBSCRIPTIONS, subscription) /* key(scope, owner, name); order name */       \
  ROW(Approval, approval_filter, APPROVALS, approval)                 /* key(id); order created_at_ms, id */          \
  ROW(Conversation, conversation_filter, CONVERSATIONS, conversation) /* key(id); order created_at_ms, id */          \
  ROW(Prompt, prompt_filter, PROMPTS, prompt)                         /* key(id); order number, id */                 \
  ROW(UsageDay, usage_day_filter, USAGE_DAYS, usage_day)              /* key(conversation_id, day) */                 \
  ROW(ScopeState, scope_state_filter, TABLE_UNSPECIFIED, scope_state) /* key(scope); order scope; never erased */
// clang-format on

#define SWARM_TABLE(row_type, filter_type, erased_name, patch_field)                                                                                 \
  template <>                                                                                                                                        \
  struct table<v1::row_type> {                                                                                                                       \
    using filter = filter_type;                                                                                                                      \
    static constexpr auto erased = v1::Erased::erased_name;                                                                                          \
    static std::string key(const v1::row_type&);                                                                                                     \
    static v1::row_type* mutable_in(v1::RowPatch& p) { return p.mutable_##patch_field(); }                                                           \
    static const v1::row_type* in(const v1::RowPatch& p) { return p.has_##patch_field() ? &p.patch_field() : nullptr; }                              \
    static bool matches(const filter_type&, const v1::row_type&);                                                                                    \
    static std::int64_t due_at(const v1::row_type&);                                                                                                 \
    static bool before(const filter_type&, const v1::row_type&, const v1::row_type&);                                                                \
  };
SWARM_ROWS(SWARM_TABLE)
#undef SWARM_TABLE

template <class... Rows>
struct row_list {
  /// act.operator()<Row>() for each.
  template <class Act>
  static void each(Act act) {
    (act.template operator()<Rows>(), ...);
  }
  template <template <class...> class Template>
  using in = Template<Rows...>;
};
template <class None, class... Rows>
row_list<Rows...> without_first(row_list<None, Rows...>);
#define SWARM_ROW_TYPE(row_type, filter_type, erased_name, patch_field) , v1::row_type
using all_rows = decltype(without_first(row_list<void SWARM_ROWS(SWARM_ROW_TYPE)>{}));
#undef SWARM_ROW_TYPE

/// Of the row in the patch; 0 as well for a row that is gone.
std::int64_t due_at(const v1::RowPatch&);

// -- reading -------------------------------------------------------------------------------

template <class Row>
class table_view {
public:
  virtual ~table_view() = default;
  virtual std::optional<Row> get(const std::string& key) const = 0;
  /// Rows that match, in the table's order, at most `filter.limit` of them.
  virtual std::vector<Row> find(const typename table<Row>::filter&) const = 0;
  virtual std::uint64_t count(const typename table<Row>::filter&) const = 0;
};

/// The bases are virtual so that an implementation can be composed of one class per table (their `get` differ in the result only).
template <class... Rows>
class table_views : public virtual table_view<Rows>... {};

class rows_view : public all_rows::in<table_views> {
public:
  template <class Row>
  std::optional<Row> row(const std::string& k) const {
    return static_cast<const table_view<Row>&>(*this).get(k);
  }
  template <class Row>
  std::vector<Row> rows(const typename table<Row>::filter& f) const {
    return static_cast<const table_view<Row>&>(*this).find(f);
  }
  template <class Row>
  std::uint64_t total(const typename table<Row>::filter& f) const {
    return static_cast<const table_view<Row>&>(*this).count(f);
  }
  /// Events of a scope with a revision above `after`, ascending, at most `limit`.
  virtual std::vector<v1::Event> events(const std::string& scope, std::uint64_t after, std::size_t limit) const = 0;
  /// The newest `limit` events, ascending.
  virtual std::vector<v1::Event> newest_events(const std::string& scope, std::size_t limit) const = 0;
  virtual std::uint64_t oldest_event(const std::string& scope) const = 0; // 0 = none
  /// Events older than this; used by the sweep.
  virtual std::uint64_t events_below(const std::string& scope, std::int64_t at_ms) const = 0; // lowest revision to keep
};

} // namespace swarm::domain
