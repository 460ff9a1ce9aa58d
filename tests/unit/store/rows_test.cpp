// SQL against the definition: random rows and random filters, SQLite on one side, `matches` and `before` in memory on the other.
#include <doctest/doctest.h>

#include <random>

#include "actors/store/apply.hpp"
#include "actors/store/columns.hpp"
#include "actors/store/select.hpp"
#include "actors/store/staged_rows.hpp"
#include "tests/support/memory_rows.hpp"
#include "tests/unit/store/store_fixture.hpp"

using namespace swarm;
using namespace swarm::test;

namespace {

struct dice {
  std::mt19937_64 rng;

  std::size_t below(std::size_t n) { return rng() % n; }
  bool one_in(std::size_t n) { return below(n) == 0; }
  /// Few values, so that filters hit; the awkward ones are in it.
  std::string word() { return word_of(rng()); }
  std::string word_of(std::uint64_t n) {
    static const std::vector<std::string> words{"a", "b", "ab", "aB", "a%", "a_", "\xc3\xa9t\xc3\xa9", "zz", "a/b", "a/c", "/src/x", "\x7f"};
    return words[n % words.size()];
  }
  std::string maybe_word() { return one_in(3) ? std::string{} : word(); }
  std::string scope() { return one_in(2) ? "s" : one_in(2) ? "s2" : "/src"; }
  std::string maybe_scope() { return one_in(4) ? std::string{} : scope(); }
  std::int64_t time() { return static_cast<std::int64_t>(100'000 + below(8)); }
  std::int64_t maybe_time() { return one_in(2) ? 0 : time(); }
  std::optional<std::int64_t> filter_time() { return one_in(3) ? std::optional{time()} : std::nullopt; }
  std::optional<bool> filter_bool() { return one_in(2) ? std::optional{one_in(2)} : std::nullopt; }
  std::string filter_word() { return one_in(3) ? word() : std::string{}; }
  std::size_t limit() { return one_in(2) ? 0 : 1 + below(6); }
};

template <class Row>
Row random_row(dice&);
template <class Row>
typename domain::table<Row>::filter random_filter(dice&, const std::vector<Row>&);

template <>
v1::Session random_row(dice& d) {
  v1::Session r;
  r.set_id(d.word() + d.word());
  r.set_scope(d.scope());
  r.set_node_id(d.word());
  r.set_adopted(d.one_in(2));
  r.set_registered_at_ms(d.time());
  r.set_presence(static_cast<v1::Session::Presence>(d.below(5)));
  r.set_heartbeat_ms(d.time() + (d.one_in(3) ? limits::session_stale().count() : -limits::session_reclaim().count()));
  r.set_lease_until_ms(d.maybe_time());
  r.set_identity(d.maybe_word());
  return r;
}
template <>
domain::session_filter random_filter(dice& d, const std::vector<v1::Session>& rows) {
  return {.scope = d.maybe_scope(),
          .node_id = d.filter_word(),
          .adopted = d.filter_bool(),
          .due_at_ms = d.filter_time(),
          .other_identity = d.filter_word(),
          .after_key = d.one_in(3) ? domain::position(rows[d.below(rows.size())]) : "",
          .limit = d.limit()};
}

template <>
v1::Credential random_row(dice& d) {
  v1::Credential r;
  r.set_token_hash(d.word() + d.word());
  r.set_session_id(d.word());
  return r;
}
template <>
domain::credential_filter random_filter(dice& d, const std::vector<v1::Credential>&) {
  return {.session_id = d.filter_word()};
}

template <>
v1::Task random_row(dice& d) {
  v1::Task r;
  r.set_id(d.word() + d.word());
  r.set_scope(d.scope());
  r.set_status(static_cast<v1::TaskStatus>(d.below(9)));
  r.set_assignee(d.maybe_word());
  r.set_requester(d.word());
  r.set_created_at_ms(d.time());
  r.set_updated_at_ms(d.time());
  r.set_priority(d.one_in(8) ? std::numeric_limits<std::int64_t>::min() : static_cast<std::int64_t>(d.below(5)) - 2);
  for (auto n = d.below(3); n > 0; --n)
    r.add_depends_on(d.word());
  if (d.one_in(2)) // unique within the scope
    r.set_idempotency_key((d.one_in(2) ? "b:" : "") + r.id());
  return r;
}
template <>
domain::task_filter random_filter(dice& d, const std::vector<v1::Task>& rows) {
  domain::task_filter f{
    .scope = d.maybe_scope(), .unassigned = d.filter_bool(), .updated_before_ms = d.filter_time(), .by_creation = d.one_in(2), .limit = d.limit()};
  for (auto n = d.one_in(2) ? 0 : d.below(5); n > 0; --n)
    f.statuses.push_back(static_cast<v1::TaskStatus>(d.one_in(2) ? d.below(9) : 4 + d.below(3)));
  if (d.one_in(4))
    f.assignee = d.word();
  if (d.one_in(4))
    f.requester = d.word();
  if (d.one_in(4))
    f.depends_on = d.word();
  if (d.one_in(6))
    f.idempotency_key = rows[d.below(rows.size())].idempotency_key();
  if (d.one_in(6))
    f.idempotency_base = d.one_in(2) ? "b" : rows[d.below(rows.size())].id();
  if (d.one_in(4))
    f.id_prefix = rows[d.below(rows.size())].id().substr(0, 1 + d.below(2));
  if (d.one_in(3))
    f.after = rows[d.below(rows.size())];
  f.newest = d.one_in(3);
  return f;
}

template <>
v1::Lock random_row(dice& d) {
  v1::Lock r;
  r.set_scope(d.scope());
  r.set_path(d.word() + d.word());
  r.set_session_id(d.word());
  r.set_task_id(d.maybe_word());
  r.set_deadline_ms(d.maybe_time());
  return r;
}
template <>
domain::lock_filter random_filter(dice& d, const std::vector<v1::Lock>&) {
  return {.scope = d.maybe_scope(),
          .session_id = d.filter_word(),
          .task_id = d.filter_word(),
          .path_prefix = d.filter_word(),
          .due_at_ms = d.filter_time(),
          .after_path = d.filter_word(),
          .limit = d.limit()};
}

template <>
v1::LockWaiter random_row(dice& d) {
  v1::LockWaiter r;
  r.set_scope(d.scope());
  r.set_path(d.word());
  r.set_seq(d.below(12));
  r.set_session_id(d.word());
  r.set_deadline_ms(d.maybe_time());
  return r;
}
template <>
domain::waiter_filter random_filter(dice& d, const std::vector<v1::LockWaiter>&) {
  return {.scope = d.maybe_scope(), .path = d.filter_word(), .session_id = d.filter_word(), .due_at_ms = d.filter_time(), .limit = d.limit()};
}

std::string long_text(char last) { return std::string(message_head_bytes + 10, 'x') + last; }

template <>
v1::Message random_row(dice& d) {
  v1::Message r;
  r.set_scope(d.scope());
  r.set_id(d.below(60));
  r.set_sender(d.word());
  r.set_recipient(d.word_of(r.id())); // a message never goes to somebody else
  r.set_content(d.one_in(4) ? long_text(d.one_in(2) ? 'y' : 'z') + "tail" : d.word() + d.word());
  r.set_created_at_ms(d.time());
  r.set_read(d.one_in(2));
  return r;
}
template <>
domain::message_filter random_filter(dice& d, const std::vector<v1::Message>& rows) {
  return {.scope = d.maybe_scope(),
          .recipient = d.filter_word(),
          .sender = d.filter_word(),
          .read = d.filter_bool(),
          .content_prefix = d.one_in(4) ? long_text('y') : d.filter_word(),
          .created_before_ms = d.filter_time(),
          .after_id = rows.empty() || d.one_in(2) ? 0 : rows[d.below(rows.size())].id(),
          .newest = d.one_in(2),
          .limit = d.limit()};
}

template <>
v1::KvEntry random_row(dice& d) {
  v1::KvEntry r;
  r.set_scope(d.scope());
  r.set_key(d.word() + d.word());
  r.set_updated_at_ms(d.time());
  r.set_expires_at_ms(d.maybe_time());
  return r;
}
template <>
domain::kv_filter random_filter(dice& d, const std::vector<v1::KvEntry>&) {
  return {.scope = d.maybe_scope(),
          .like_prefix = d.filter_word(),
          .key_prefix = d.filter_word(),
          .due_at_ms = d.filter_time(),
          .updated_before_ms = d.filter_time(),
          .after_key = d.filter_word(),
          .limit = d.limit()};
}

template <>
v1::Spawn random_row(dice& d) {
  v1::Spawn r;
  r.set_id(d.word() + d.word());
  r.set_scope(d.scope());
  r.set_role(d.word());
  r.set_key(d.word());
  r.set_task_id(d.maybe_word());
  r.set_session_id(d.maybe_word());
  r.set_node_id(d.word());
  r.set_status(static_cast<v1::Spawn::Status>(d.below(6)));
  r.set_requested_at_ms(d.time());
  r.set_ended_at_ms(d.maybe_time());
  return r;
}
template <>
domain::spawn_filter random_filter(dice& d, const std::vector<v1::Spawn>& rows) {
  return {.scope = d.maybe_scope(),
          .role = d.filter_word(),
          .key = d.filter_word(),
          .task_id = d.filter_word(),
          .session_id = d.filter_word(),
          .node_id = d.filter_word(),
          .live = d.filter_bool(),
          .ended_before_ms = d.filter_time(),
          .after_id = d.one_in(3) ? domain::position(rows[d.below(rows.size())]) : "",
          .limit = d.limit()};
}

template <>
v1::Subscription random_row(dice& d) {
  v1::Subscription r;
  r.set_scope(d.scope());
  r.set_owner(d.word());
  r.set_name(d.word());
  r.set_updated_at_ms(d.time());
  return r;
}
template <>
domain::subscription_filter random_filter(dice& d, const std::vector<v1::Subscription>&) {
  return {.scope = d.maybe_scope(), .owner = d.filter_word(), .updated_before_ms = d.filter_time()};
}

template <>
v1::Approval random_row(dice& d) {
  v1::Approval r;
  r.set_id(d.word() + d.word());
  r.set_scope(d.scope());
  r.set_subject(d.word());
  r.set_created_at_ms(d.time());
  r.set_decided_at_ms(d.maybe_time());
  r.mutable_requested_by()->set_kind(v1::Principal::SESSION);
  r.mutable_requested_by()->set_id(d.word());
  r.set_request_key(d.filter_word());
  r.set_conversation_id(d.filter_word());
  return r;
}
template <>
domain::approval_filter random_filter(dice& d, const std::vector<v1::Approval>& rows) {
  return {.scope = d.maybe_scope(),
          .subject = d.filter_word(),
          .open = d.filter_bool(),
          .asker = d.filter_word(),
          .request_key = d.filter_word(),
          .conversation_id = d.filter_word(),
          .of_conversation = d.filter_bool(),
          .after_key = rows.empty() || d.one_in(2) ? std::string{} : domain::position(rows[d.below(rows.size())]),
          .limit = d.limit()};
}

template <>
v1::Conversation random_row(dice& d) {
  v1::Conversation r;
  r.set_id(d.word() + d.word());
  r.set_scope(d.scope());
  r.set_state(d.one_in(2) ? v1::Conversation::ENDED : v1::Conversation::IDLE);
  r.set_created_at_ms(d.time());
  return r;
}
template <>
domain::conversation_filter random_filter(dice& d, const std::vector<v1::Conversation>& rows) {
  return {.scope = d.maybe_scope(),
          .open = d.filter_bool(),
          .after_key = rows.empty() || d.one_in(2) ? std::string{} : domain::position(rows[d.below(rows.size())]),
          .limit = d.limit()};
}

template <>
v1::Prompt random_row(dice& d) {
  v1::Prompt r;
  r.set_id(d.word() + d.word());
  r.set_scope(d.scope());
  r.set_conversation_id(d.word());
  r.set_number(1 + d.below(8));
  r.set_state(static_cast<v1::Prompt::State>(1 + d.below(6)));
  r.set_changed_at_ms(d.time());
  return r;
}
template <>
domain::prompt_filter random_filter(dice& d, const std::vector<v1::Prompt>&) {
  return {.scope = d.maybe_scope(),
          .conversation_id = d.filter_word(),
          .open = d.filter_bool(),
          .retired = d.filter_bool(),
          .retired_before_ms = d.filter_time(),
          .after_number = d.one_in(2) ? 0 : d.below(8),
          .limit = d.limit()};
}

template <>
v1::UsageDay random_row(dice& d) {
  v1::UsageDay r;
  r.set_scope(d.scope());
  r.set_conversation_id(d.word());
  r.set_day(static_cast<std::uint32_t>(1 + d.below(8)));
  return r;
}
template <>
domain::usage_day_filter random_filter(dice& d, const std::vector<v1::UsageDay>& rows) {
  return {.scope = d.maybe_scope(),
          .since_day = static_cast<std::uint32_t>(d.one_in(2) ? 0 : d.below(8)),
          .before_day = d.one_in(2) ? std::nullopt : std::optional{static_cast<std::uint32_t>(d.below(8))},
          .after_key = rows.empty() || d.one_in(2) ? std::string{} : domain::table<v1::UsageDay>::key(rows[d.below(rows.size())]),
          .limit = d.limit()};
}

template <>
v1::ScopeState random_row(dice& d) {
  v1::ScopeState r;
  r.set_scope(d.word() + d.word());
  return r;
}
template <>
domain::scope_state_filter random_filter(dice& d, const std::vector<v1::ScopeState>&) {
  return {.after_scope = d.filter_word(), .limit = d.limit()};
}

void set_in(v1::RowPatch& p, v1::ScopeState row) { *p.mutable_scope_state() = std::move(row); }
template <class Row>
void set_in(v1::RowPatch& p, Row row) {
  *domain::table<Row>::mutable_in(p) = std::move(row);
}

template <class Row>
std::vector<std::string> bytes_of(const std::vector<Row>& rows) {
  std::vector<std::string> out;
  for (const auto& r : rows)
    out.push_back(r.SerializeAsString());
  return out;
}

/// A row, and now and then the end of an earlier one.
template <class Row>
v1::Batch random_batch(dice& d, std::vector<Row>& made) {
  auto row = random_row<Row>(d);
  made.push_back(row);
  v1::Batch batch;
  set_in(*batch.add_patches(), row);
  if (domain::table<Row>::erased != v1::Erased::TABLE_UNSPECIFIED && d.one_in(6)) {
    const auto& gone = made[d.below(made.size())];
    if (domain::table<Row>::key(gone) != domain::table<Row>::key(row)) {
      auto* erased = batch.add_patches()->mutable_erased();
      erased->set_table(domain::table<Row>::erased);
      erased->set_key(domain::table<Row>::key(gone));
    }
  }
  return batch;
}

template <class Row>
void compare(const domain::rows_view& store, const memory_rows& memory, dice& d, const std::vector<Row>& made, int times) {
  for (int i = 0; i < times; ++i) {
    auto f = random_filter<Row>(d, made);
    CAPTURE(i);
    auto text = plan(f).rows_sql();
    CAPTURE(text);
    REQUIRE(bytes_of(store.rows<Row>(f)) == bytes_of(memory.rows<Row>(f)));
    REQUIRE(store.total<Row>(f) == memory.total<Row>(f));
    auto key = domain::table<Row>::key(made[d.below(made.size())]);
    auto found = store.row<Row>(key);
    REQUIRE(found.has_value() == memory.row<Row>(key).has_value());
    if (found)
      REQUIRE(found->SerializeAsString() == memory.row<Row>(key)->SerializeAsString());
  }
}

template <class Row>
void compare_with_memory(std::uint64_t seed) {
  CAPTURE(seed);
  dice d{std::mt19937_64{seed}};
  sqlite::connection db{":memory:", {}};
  migrate(db);
  sqlite_rows sql{db};
  memory_rows memory;
  std::vector<Row> made;
  for (int i = 0; i < 80; ++i) {
    auto batch = random_batch(d, made);
    apply(db, batch);
    memory.apply(batch);
  }
  compare(sql, memory, d, made, 120);
}

/// The same, staged and written now and then, some of it or all: each row once, and of a known row only what differs.
template <class Row>
void compare_staged(std::uint64_t seed) {
  CAPTURE(seed);
  dice d{std::mt19937_64{seed}};
  sqlite::connection db{":memory:", {}};
  migrate(db);
  sqlite_rows sql{db};
  staged_rows staged{sql, [] {}};
  memory_rows memory;
  std::vector<Row> made;
  for (int i = 0; i < 120; ++i) {
    auto batch = random_batch(d, made);
    staged.stage(batch);
    memory.apply(batch);
    if (d.one_in(4))
      staged.write(db);
    if (d.one_in(12)) {
      staged.write_all(db);
      if (d.one_in(3))
        staged.forget();
    }
    compare(staged, memory, d, made, 2);
  }
  staged.write_all(db);
  compare(sql, memory, d, made, 60);
}

} // namespace

TEST_CASE("SQL, and rows staged over it, agree with matches and before on random rows and filters") {
  // Few, so that rows that are written late are written by and by.
  auto before = limits::writer_late_rows_max();
  REQUIRE(limits::writer_late_rows_max.set(3));
  for (std::uint64_t seed = 1; seed <= 6; ++seed)
    domain::all_rows::each([&]<class Row>() {
      compare_with_memory<Row>(seed);
      compare_staged<Row>(seed);
    });
  limits::writer_late_rows_max.set(before);
}

TEST_CASE("a row that comes and goes before it is written leaves no trace in the file") {
  sqlite::connection db{":memory:", {}};
  migrate(db);
  sqlite_rows sql{db};
  staged_rows staged{sql, [] {}};
  v1::Batch comes, goes;
  auto& lock = *comes.add_patches()->mutable_lock();
  lock.set_scope("s");
  lock.set_path("/f");
  lock.set_session_id("a");
  goes.add_patches()->mutable_erased()->set_table(v1::Erased::LOCKS);
  goes.mutable_patches(0)->mutable_erased()->set_key(domain::key("s", "/f"));
  staged.stage(comes);
  staged.write(db);
  CHECK(staged.total<v1::Lock>({.scope = "s"}) == 1);
  staged.stage(goes);
  CHECK(staged.total<v1::Lock>({.scope = "s"}) == 0);
  CHECK_FALSE(staged.row<v1::Lock>(domain::key("s", "/f")).has_value());
  auto before = db.number("SELECT total_changes()");
  staged.write_all(db);
  CHECK(db.number("SELECT total_changes()") == before);
}

TEST_CASE("a batch with a patch of no kind is not staged, not even in part") {
  sqlite::connection db{":memory:", {}};
  migrate(db);
  sqlite_rows sql{db};
  staged_rows staged{sql, [] {}};
  v1::Batch batch;
  batch.add_patches()->mutable_kv()->set_key("k");
  batch.add_patches();
  CHECK_THROWS_AS(staged.stage(batch), const sqlite::error&);
  batch.mutable_patches(1)->mutable_erased()->set_key("k");
  CHECK_THROWS_AS(staged.stage(batch), const sqlite::error&);
  CHECK_FALSE(staged.row<v1::KvEntry>(domain::key("", "k")).has_value());
}

TEST_CASE("a page of tasks walks an index and sorts nothing, however many tasks there are") {
  sqlite::connection db{":memory:", {}};
  migrate(db);
  v1::Task last;
  last.set_id("t");
  for (const auto& statuses : {std::vector<v1::TaskStatus>{}, {v1::OPEN}, {v1::OPEN, v1::CLAIMED, v1::IN_PROGRESS}})
    for (auto by_creation : {false, true}) {
      auto query = plan(domain::task_filter{.scope = "s", .statuses = statuses, .by_creation = by_creation, .after = last, .limit = 100});
      auto sql = "EXPLAIN QUERY PLAN " + query.rows_sql();
      CAPTURE(sql);
      auto row = db.prepared(sql).use();
      for (const auto& v : query.values())
        row.bind(v);
      std::string steps;
      while (row.step())
        steps += std::string{row.view_at(3)} + "\n";
      CAPTURE(steps);
      CHECK(steps.find("SEARCH tasks USING") != std::string::npos);
      CHECK(steps.find("SCAN") == std::string::npos);
      CHECK(steps.find("TEMP B-TREE") == std::string::npos);
    }
}

TEST_CASE("events are read by revision from either end") {
  sqlite::connection db{":memory:", {}};
  migrate(db);
  v1::Batch batch;
  batch.set_scope("s");
  for (std::uint64_t r = 1; r <= 5; ++r) {
    auto* e = batch.add_events();
    e->set_scope("s");
    e->set_revision(r);
    e->set_at_ms(static_cast<std::int64_t>(r * 10));
  }
  apply(db, batch);
  sqlite_rows rows{db};
  auto revisions = [](const std::vector<v1::Event>& events) {
    std::vector<std::uint64_t> out;
    for (const auto& e : events)
      out.push_back(e.revision());
    return out;
  };
  CHECK(revisions(rows.events("s", 2, 2)) == std::vector<std::uint64_t>{3, 4});
  CHECK(revisions(rows.events("s", 3, 0)) == std::vector<std::uint64_t>{4, 5});
  CHECK(revisions(rows.newest_events("s", 2)) == std::vector<std::uint64_t>{4, 5});
  CHECK(rows.oldest_event("s") == 1);
  CHECK(rows.events_below("s", 30) == 3);
  CHECK(rows.events_below("s", 99) == 6);
  CHECK(rows.oldest_event("other") == 0);
  v1::Batch retention;
  retention.set_scope("s");
  retention.set_delete_events_below(4);
  apply(db, retention);
  CHECK(rows.oldest_event("s") == 4);
}
