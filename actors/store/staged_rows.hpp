// The rows as a transaction in the making sees them: what its commands have changed, over what SQLite holds.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "actors/domain/overlay.hpp"
#include "actors/store/sqlite_rows.hpp"

namespace swarm {

/// Rows that change all the time and that the tables have no reason to refuse (of two tasks with one idempotency key the rules make
/// one): they are written when the transaction is about to be committed, so that what comes and goes within it never touches the file,
/// and what changes several times is written once.
template <class Row>
inline constexpr bool written_late = false;
template <>
inline constexpr bool written_late<v1::Lock> = true;
template <>
inline constexpr bool written_late<v1::ScopeState> = true;
template <>
inline constexpr bool written_late<v1::Task> = true;

/// One table of it. Rows looked up or written lately are kept in memory: nobody else writes, so they stay true until forget().
template <class Row>
class staged_table : public virtual domain::table_view<Row> {
public:
  explicit staged_table(const sqlite_rows& base) : base_(base), stored_rows_(base) {}

  std::optional<Row> get(const std::string& key) const final;
  std::vector<Row> find(const typename domain::table<Row>::filter&) const final;
  std::uint64_t count(const typename domain::table<Row>::filter&) const final;

  void stage(const std::string& key, std::optional<Row> row);
  std::size_t staged() const noexcept { return now_.size(); }
  /// Puts all erasures and the `rows` that have waited longest into SQLite.
  void write(sqlite::connection&, std::size_t rows);
  /// Reads the row, so that stage() cannot fail.
  void look_up(const std::string& key) const;
  void forget();

private:
  void keep(const std::string& key, const std::optional<Row>& row) const;
  bool nothing_stored() const;
  bool nothing_matches(const typename domain::table<Row>::filter&) const;
  std::vector<Row> search(const typename domain::table<Row>::filter&) const;

  enum class content { unknown, none, some };
  mutable content stored_ = content::unknown; // in SQLite: most tables of a quiet node are empty, and looking there costs as much as elsewhere

  /// Tasks that depend on others, in SQLite or staged: whether there are any is asked with the end of every task.
  mutable content dependencies_ = content::unknown;

  const domain::table_view<Row>& base_;
  const sqlite_rows& stored_rows_;
  /// The last search and what it found, until a row changes: every lock asks the same of the sessions. Of that table only.
  mutable std::optional<std::pair<typename domain::table<Row>::filter, std::vector<Row>>> searched_;
  domain::overlay<Row> now_;
  /// Keys that came into now_, by recipient, some of which have gone again: an end of many sessions writes to everybody, and asks with each
  /// message how full that mailbox is. Of that table only.
  std::unordered_map<std::string, std::unordered_set<std::string>> by_recipient_;
  std::deque<std::string> arrivals_;                                  // keys of now_ in the order they came; some have gone again
  std::unordered_map<std::string, std::optional<Row>> before_;        // of the keys in now_
  mutable std::unordered_map<std::string, std::optional<Row>> known_; // what SQLite holds; bounded
};

template <class... Rows>
class staged_tables : public domain::rows_view, protected staged_table<Rows>... {
public:
  explicit staged_tables(const sqlite_rows& base) : staged_table<Rows>(base)... {}

protected:
  template <class Do>
  void each(Do act) {
    (act(static_cast<staged_table<Rows>&>(*this)), ...);
  }
};

class staged_rows final : public domain::all_rows::in<staged_tables> {
public:
  /// `write_events` puts the events of the commands so far into SQLite; called before events are read, which is rare.
  staged_rows(const sqlite_rows& base, std::function<void()> write_events)
    : domain::all_rows::in<staged_tables>(base), base_(base), write_events_(std::move(write_events)) {}

  std::vector<v1::Event> events(const std::string& scope, std::uint64_t after, std::size_t limit) const final;
  std::vector<v1::Event> newest_events(const std::string& scope, std::size_t limit) const final;
  std::uint64_t oldest_event(const std::string& scope) const final;
  std::uint64_t events_below(const std::string& scope, std::int64_t at_ms) const final;

  /// Takes over a command's row patches. Throws sqlite::error, with nothing taken over, for a malformed patch.
  void stage(const v1::Batch&);
  /// Writes what is staged, each row once, into the open transaction; of the tables that are written late only what is too much to be
  /// searched with every command, the oldest first. Throws like apply(); then forget() and roll back.
  void write(sqlite::connection&);
  /// Writes all that is staged.
  void write_all(sqlite::connection&);
  /// Nothing is staged or known any more.
  void forget();

private:
  /// act(table, key, row or null for an erasure) for the one table a patch concerns.
  template <class Act>
  void each_patched(const v1::RowPatch& patch, Act act) {
    each([&]<class Row>(staged_table<Row>& table) {
      if (patch.has_erased()) {
        if (domain::table<Row>::erased != v1::Erased::TABLE_UNSPECIFIED && domain::table<Row>::erased == patch.erased().table())
          act(table, patch.erased().key(), static_cast<const Row*>(nullptr));
      } else if (const auto* row = domain::table<Row>::in(patch)) {
        act(table, domain::table<Row>::key(*row), row);
      }
    });
  }

  const sqlite_rows& base_;
  std::function<void()> write_events_;
};

} // namespace swarm
