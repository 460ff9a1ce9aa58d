// The rows as SQLite holds them, for the rules.
#pragma once

#include "actors/domain/rows.hpp"
#include "actors/store/sqlite.hpp"

namespace swarm {

template <class Row>
class sqlite_table : public virtual domain::table_view<Row> {
public:
  explicit sqlite_table(sqlite::connection& db) : db_(db) {}
  std::optional<Row> get(const std::string& key) const final;
  std::vector<Row> find(const typename domain::table<Row>::filter&) const final;
  std::uint64_t count(const typename domain::table<Row>::filter&) const final;

private:
  sqlite::connection& db_;
};

template <class... Rows>
class sqlite_tables : public domain::rows_view, private sqlite_table<Rows>... {
public:
  explicit sqlite_tables(sqlite::connection& db) : sqlite_table<Rows>(db)... {}
};

/// Rows on a connection, in whatever transaction it is in. Throws sqlite::error for a row that does not decode or a filter with a
/// malformed position, sqlite::io_failure when the file failed.
class sqlite_rows final : public domain::all_rows::in<sqlite_tables> {
public:
  explicit sqlite_rows(sqlite::connection& db) : domain::all_rows::in<sqlite_tables>(db), db_(db) {}
  std::vector<v1::Event> events(const std::string& scope, std::uint64_t after, std::size_t limit) const final;
  std::vector<v1::Event> newest_events(const std::string& scope, std::size_t limit) const final;
  std::uint64_t oldest_event(const std::string& scope) const final;
  std::uint64_t events_below(const std::string& scope, std::int64_t at_ms) const final;
  /// Any task, of any scope, depends on another.
  bool any_dependencies() const;

private:
  sqlite::connection& db_;
};

} // namespace swarm
