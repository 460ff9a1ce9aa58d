#include "actors/store/staged_rows.hpp"

#include <algorithm>
#include <type_traits>
#include <utility>

#include <sqlite3.h>

#include "actors/base/limits.hpp"
#include "actors/store/apply.hpp"

namespace swarm {

template <class Row>
void staged_table<Row>::keep(const std::string& key, const std::optional<Row>& row) const {
  if (row && row->ByteSizeLong() > limits::writer_known_row_bytes_max) {
    known_.erase(key);
    return;
  }
  if (known_.size() >= limits::writer_rows_known_max())
    known_.clear();
  known_.insert_or_assign(key, row);
}

template <class Row>
std::optional<Row> staged_table<Row>::get(const std::string& key) const {
  if (auto i = now_.find(key); i != now_.end())
    return i->second;
  if (auto i = known_.find(key); i != known_.end())
    return i->second;
  auto row = base_.get(key);
  keep(key, row);
  return row;
}

template <class Row>
void staged_table<Row>::look_up(const std::string& key) const {
  if (!now_.contains(key) && !known_.contains(key))
    (void)get(key);
}

template <class Row>
bool staged_table<Row>::nothing_stored() const {
  if constexpr (requires(typename domain::table<Row>::filter f) { f.limit; }) {
    if (stored_ == content::unknown)
      stored_ = base_.find({.limit = 1}).empty() ? content::none : content::some;
    return stored_ == content::none;
  }
  return false;
}

template <class Row>
bool staged_table<Row>::nothing_matches(const typename domain::table<Row>::filter& f) const {
  if constexpr (std::is_same_v<Row, v1::Task>) {
    if (f.depends_on.empty())
      return false;
    if (dependencies_ == content::unknown)
      dependencies_ = stored_rows_.any_dependencies() ? content::some : content::none;
    return dependencies_ == content::none;
  }
  return false;
}

template <class Row>
std::vector<Row> staged_table<Row>::search(const typename domain::table<Row>::filter& f) const {
  if (nothing_matches(f))
    return {};
  if (nothing_stored())
    return domain::laid_over<Row>({}, f, now_);
  auto hidden = static_cast<std::size_t>(
    std::count_if(before_.begin(), before_.end(), [&](const auto& b) { return b.second && domain::table<Row>::matches(f, *b.second); }));
  return domain::laid_over<Row>(base_.find(domain::widened<Row>(f, hidden)), f, now_);
}

template <class Row>
std::vector<Row> staged_table<Row>::find(const typename domain::table<Row>::filter& f) const {
  if constexpr (std::is_same_v<Row, v1::Session>) {
    if (searched_ && searched_->first == f)
      return searched_->second;
    auto found = search(f);
    if (found.size() <= limits::search_kept_rows_max)
      searched_.emplace(f, found);
    return found;
  } else {
    return search(f);
  }
}

template <class Row>
std::uint64_t staged_table<Row>::count(const typename domain::table<Row>::filter& f) const {
  auto n = nothing_stored() ? 0 : base_.count(f);
  auto look_at = [&](const std::string& key, const std::optional<Row>& row) {
    if (const auto& before = before_.at(key); before && domain::table<Row>::matches(f, *before))
      --n;
    if (row && domain::table<Row>::matches(f, *row))
      ++n;
  };
  if constexpr (std::is_same_v<Row, v1::Message>) {
    if (!f.recipient.empty()) {
      if (auto mine = by_recipient_.find(f.recipient); mine != by_recipient_.end())
        for (const auto& key : mine->second)
          if (auto i = now_.find(key); i != now_.end())
            look_at(i->first, i->second);
      return n;
    }
  }
  for (const auto& [key, row] : now_)
    look_at(key, row);
  return n;
}

template <class Row>
void staged_table<Row>::stage(const std::string& key, std::optional<Row> row) {
  searched_.reset();
  if constexpr (std::is_same_v<Row, v1::Task>)
    if (row && row->depends_on_size() > 0)
      dependencies_ = content::some;
  if (!now_.contains(key)) {
    const auto& before = before_.emplace(key, get(key)).first->second;
    if constexpr (std::is_same_v<Row, v1::Message>)
      if (const auto* known = row ? &*row : before ? &*before : nullptr)
        by_recipient_[known->recipient()].insert(key);
  }
  if (row || before_.at(key)) {
    if (now_.insert_or_assign(key, std::move(row)).second)
      arrivals_.push_back(key);
    return;
  }
  // It has come and gone: SQLite need not hear of it.
  now_.erase(key);
  before_.erase(key);
  keep(key, std::nullopt);
}

template <class Row>
void staged_table<Row>::write(sqlite::connection& db, std::size_t rows) {
  // Erasures first: a unique value may move from an erased row to a new one.
  for (auto i = now_.begin(); i != now_.end();) {
    if (i->second) {
      ++i;
      continue;
    }
    erase_row<Row>(db, i->first);
    stored_ = content::unknown;
    keep(i->first, std::nullopt);
    before_.erase(i->first);
    i = now_.erase(i);
  }
  for (; rows > 0 && !arrivals_.empty(); arrivals_.pop_front()) {
    auto i = now_.find(arrivals_.front());
    if (i == now_.end())
      continue;
    write_row(db, i->first, *i->second, before_.at(i->first));
    stored_ = content::some;
    keep(i->first, i->second);
    before_.erase(i->first);
    now_.erase(i);
    --rows;
  }
  if (now_.empty()) {
    arrivals_.clear();
    by_recipient_.clear();
  }
}

template <class Row>
void staged_table<Row>::forget() {
  now_.clear();
  by_recipient_.clear();
  arrivals_.clear();
  before_.clear();
  known_.clear();
  searched_.reset();
  stored_ = content::unknown;
  dependencies_ = content::unknown;
}

#define SWARM_INSTANCE(row_type, ...) template class staged_table<v1::row_type>;
SWARM_ROWS(SWARM_INSTANCE)
#undef SWARM_INSTANCE

std::vector<v1::Event> staged_rows::events(const std::string& scope, std::uint64_t after, std::size_t limit) const {
  write_events_();
  return base_.events(scope, after, limit);
}

std::vector<v1::Event> staged_rows::newest_events(const std::string& scope, std::size_t limit) const {
  write_events_();
  return base_.newest_events(scope, limit);
}

std::uint64_t staged_rows::oldest_event(const std::string& scope) const {
  write_events_();
  return base_.oldest_event(scope);
}

std::uint64_t staged_rows::events_below(const std::string& scope, std::int64_t at_ms) const {
  write_events_();
  return base_.events_below(scope, at_ms);
}

void staged_rows::stage(const v1::Batch& batch) {
  auto erased_table_exists = [this](const v1::Erased& e) {
    auto found = false;
    each([&]<class Row>(staged_table<Row>&) {
      found |= domain::table<Row>::erased != v1::Erased::TABLE_UNSPECIFIED && domain::table<Row>::erased == e.table();
    });
    return found;
  };
  for (const auto& patch : batch.patches())
    if (patch.row_case() == v1::RowPatch::ROW_NOT_SET || (patch.has_erased() && !erased_table_exists(patch.erased())))
      throw sqlite::error{SQLITE_MISMATCH, "a batch holds a patch of an unknown kind"};
  // What was there before is read first: a damaged row must refuse the command before anything of it is taken over.
  for (const auto& patch : batch.patches())
    each_patched(patch, [](auto& table, const std::string& key, const auto*) { table.look_up(key); });
  for (const auto& patch : batch.patches())
    each_patched(patch, [](auto& table, const std::string& key, const auto* row) {
      if (row != nullptr)
        table.stage(key, *row);
      else
        table.stage(key, std::nullopt);
    });
}

void staged_rows::write(sqlite::connection& db) {
  each([&]<class Row>(staged_table<Row>& table) {
    auto may_wait = written_late<Row> ? limits::writer_late_rows_max() : 0;
    if (table.staged() > may_wait)
      table.write(db, table.staged() - may_wait);
  });
}

void staged_rows::write_all(sqlite::connection& db) {
  each([&](auto& table) { table.write(db, table.staged()); });
}

void staged_rows::forget() {
  each([](auto& table) { table.forget(); });
}

} // namespace swarm
