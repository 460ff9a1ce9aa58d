#include "actors/store/sqlite_rows.hpp"

#include <algorithm>

#include <sqlite3.h>

#include "actors/store/columns.hpp"
#include "actors/store/select.hpp"

namespace swarm {

namespace {

template <class Message>
Message decode(std::string_view body, const char* table) {
  Message m;
  if (!m.ParseFromArray(body.data(), static_cast<int>(body.size())))
    throw sqlite::error{SQLITE_MISMATCH, std::string{"a row of "} + table + " is damaged; run `swarmctl doctor`"};
  return m;
}

/// SQL's way to say "all".
std::int64_t sql_limit(std::size_t n) { return n == 0 ? -1 : to_column(n); }

void bind_all(sqlite::cursor& c, const std::vector<sqlite::value>& values) {
  for (const auto& v : values)
    c.bind(v);
}

} // namespace

template <class Row>
std::optional<Row> sqlite_table<Row>::get(const std::string& key) const {
  static const auto sql = std::string{"SELECT body FROM "} + columns<Row>::table + " WHERE key=?1";
  auto found = db_.prepared(sql).use();
  found.bytes(key);
  if (!found.step())
    return std::nullopt;
  return decode<Row>(found.view_at(0), columns<Row>::table);
}

template <class Row>
std::vector<Row> sqlite_table<Row>::find(const typename domain::table<Row>::filter& f) const {
  const auto query = plan(f);
  std::vector<Row> rows;
  {
    auto found = db_.prepared(query.rows_sql()).use();
    bind_all(found, query.values());
    if (query.limit() != 0)
      found.integer(sql_limit(query.limit()));
    while (found.step())
      rows.push_back(decode<Row>(found.view_at(0), columns<Row>::table));
  }
  if (query.is_backwards())
    std::reverse(rows.begin(), rows.end());
  return rows;
}

template <class Row>
std::uint64_t sqlite_table<Row>::count(const typename domain::table<Row>::filter& f) const {
  const auto query = plan(f);
  auto found = db_.prepared(query.count_sql()).use();
  bind_all(found, query.values());
  return found.step() ? static_cast<std::uint64_t>(found.integer_at(0)) : 0;
}

std::vector<v1::Event> sqlite_rows::events(const std::string& scope, std::uint64_t after, std::size_t limit) const {
  std::vector<v1::Event> out;
  auto found = db_.prepared("SELECT body FROM events WHERE scope=?1 AND revision>?2 ORDER BY revision LIMIT ?3").use();
  found.text(scope).integer(to_column(after)).integer(sql_limit(limit));
  while (found.step())
    out.push_back(decode<v1::Event>(found.view_at(0), "events"));
  return out;
}

std::vector<v1::Event> sqlite_rows::newest_events(const std::string& scope, std::size_t limit) const {
  std::vector<v1::Event> out;
  auto found = db_.prepared("SELECT body FROM events WHERE scope=?1 ORDER BY revision DESC LIMIT ?2").use();
  found.text(scope).integer(sql_limit(limit));
  while (found.step())
    out.push_back(decode<v1::Event>(found.view_at(0), "events"));
  std::reverse(out.begin(), out.end());
  return out;
}

std::uint64_t sqlite_rows::oldest_event(const std::string& scope) const {
  auto found = db_.prepared("SELECT revision FROM events WHERE scope=?1 ORDER BY revision LIMIT 1").use();
  found.text(scope);
  return found.step() ? static_cast<std::uint64_t>(found.integer_at(0)) : 0;
}

// Times do not fall within a scope but for clock steps, so walking up from the oldest event meets the first young one after the
// old ones that are about to go: an index by time would cost a page per commit to save nothing.
std::uint64_t sqlite_rows::events_below(const std::string& scope, std::int64_t at_ms) const {
  {
    auto young = db_.prepared("SELECT revision FROM events WHERE scope=?1 AND at_ms>=?2 ORDER BY revision LIMIT 1").use();
    young.text(scope).integer(at_ms);
    if (young.step())
      return static_cast<std::uint64_t>(young.integer_at(0));
  }
  auto newest = db_.prepared("SELECT revision FROM events WHERE scope=?1 ORDER BY revision DESC LIMIT 1").use();
  newest.text(scope);
  return newest.step() ? static_cast<std::uint64_t>(newest.integer_at(0)) + 1 : 0;
}

bool sqlite_rows::any_dependencies() const { return db_.prepared("SELECT 1 FROM task_dependencies LIMIT 1").use().step(); }

#define SWARM_INSTANCE(row_type, ...) template class sqlite_table<v1::row_type>;
SWARM_ROWS(SWARM_INSTANCE)
#undef SWARM_INSTANCE

} // namespace swarm
