#include "actors/store/staged_rows.hpp"

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
bool staged_table<Row>::surely_empty() const {
  if constexpr (requires(typename domain::table<Row>::filter f) { f.limit; }) {
    if (stored_ == content::unknown)
      stored_ = base_.find({.limit = 1}).empty() ? content::none : content::some;
    return stored_ == content::none && now_.empty();
  }
  return false;
}

template <class Row>
std::vector<Row> staged_table<Row>::find(const typename domain::table<Row>::filter& f) const {
  if (surely_empty())
    return {};
  return domain::find_with(base_, f, now_);
}

template <class Row>
std::uint64_t staged_table<Row>::count(const typename domain::table<Row>::filter& f) const {
  if (surely_empty())
    return 0;
  auto n = base_.count(f);
  for (const auto& [key, row] : now_) {
    if (const auto& before = before_.at(key); before && domain::table<Row>::matches(f, *before))
      --n;
    if (row && domain::table<Row>::matches(f, *row))
      ++n;
  }
  return n;
}

template <class Row>
void staged_table<Row>::stage(const std::string& key, std::optional<Row> row) {
  if (!now_.contains(key))
    before_.emplace(key, get(key));
  now_.insert_or_assign(key, std::move(row));
}

template <class Row>
void staged_table<Row>::erase_staged(sqlite::connection& db) {
  for (const auto& [key, row] : now_)
    if (!row && before_.at(key)) {
      erase_row<Row>(db, key);
      stored_ = content::unknown;
    }
}

template <class Row>
void staged_table<Row>::write_staged(sqlite::connection& db) {
  for (const auto& [key, row] : now_)
    if (row) {
      write_row(db, key, *row, before_.at(key));
      stored_ = content::some;
    }
}

template <class Row>
void staged_table<Row>::settle() {
  for (auto& [key, row] : now_)
    keep(key, row);
  now_.clear();
  before_.clear();
}

template <class Row>
void staged_table<Row>::forget() {
  now_.clear();
  before_.clear();
  known_.clear();
  stored_ = content::unknown;
}

template class staged_table<v1::Session>;
template class staged_table<v1::Credential>;
template class staged_table<v1::Task>;
template class staged_table<v1::Lock>;
template class staged_table<v1::LockWaiter>;
template class staged_table<v1::Message>;
template class staged_table<v1::KvEntry>;
template class staged_table<v1::Spawn>;
template class staged_table<v1::Subscription>;
template class staged_table<v1::Approval>;
template class staged_table<v1::ScopeState>;

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
    each_patched(patch, [](auto& table, const std::string& key, const auto*) { (void)table.get(key); });
  for (const auto& patch : batch.patches())
    each_patched(patch, [](auto& table, const std::string& key, const auto* row) {
      if (row != nullptr)
        table.stage(key, *row);
      else
        table.stage(key, std::nullopt);
    });
}

void staged_rows::write(sqlite::connection& db) {
  // Erasures first: a unique value may move from an erased row to a new one.
  each([&](auto& table) { table.erase_staged(db); });
  each([&](auto& table) { table.write_staged(db); });
  each([](auto& table) { table.settle(); });
}

void staged_rows::forget() {
  each([](auto& table) { table.forget(); });
}

} // namespace swarm
