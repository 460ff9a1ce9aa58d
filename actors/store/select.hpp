// From a filter to SQL: one plan per filter shape, every plan names the index it walks, so that cost does not depend on statistics.
#pragma once

#include <string>
#include <vector>

#include "actors/domain/rows.hpp"
#include "actors/store/sqlite.hpp"

namespace swarm {

/// A query over one table being put together. Conditions refer to their values by number, so the text depends on the filter's
/// shape only and its statement can be reused.
class selection {
public:
  /// `source`: what follows FROM. `order`: columns of the table's order.
  selection(std::string source, std::vector<const char*> order) : source_(std::move(source)), order_(std::move(order)) {}

  /// Another source (a better index) for the same table.
  void walk(std::string source) { source_ = std::move(source); }
  void order_by(std::vector<const char*> columns) { order_ = std::move(columns); }
  /// ANDs a condition; each `?` in it takes the next of the values.
  void where(std::string_view condition, std::vector<sqlite::value> values = {});
  /// The number under which a value is bound, for conditions of arms.
  std::string bound(sqlite::value v);
  /// Rows where one of these holds. Each arm walks its own part of an index and SQLite merges them in order, which keeps the
  /// cost of a page independent of the rows not on it. The arms must exclude each other.
  void arms(std::vector<std::string> conditions) { arms_ = std::move(conditions); }
  /// Keys within [lower, upper).
  void key_range(std::string lower, std::string upper);
  /// Takes the last rows of the order instead of the first; they come out backwards.
  void backwards() { backwards_ = true; }
  /// At most so many rows; 0 = all. Counting takes no notice of it.
  void limit(std::size_t n) { limit_ = n; }

  bool is_backwards() const noexcept { return backwards_; }
  std::string rows_sql() const;
  std::string count_sql() const;
  /// Values of the conditions, in the order of their numbers; the limit's is the next after them.
  const std::vector<sqlite::value>& values() const noexcept { return values_; }
  std::size_t limit() const noexcept { return limit_; }

private:
  std::string union_of(const std::string& result) const;

  std::string source_;
  std::vector<const char*> order_;
  std::string where_;
  std::vector<std::string> arms_;
  std::vector<sqlite::value> values_;
  std::size_t limit_ = 0;
  bool backwards_ = false;
};

/// The smallest string above every string with that prefix; empty when there is none.
std::string after_prefix(std::string prefix);

/// The plan for a filter, one for each table; `matches` and `before` of the same table define what the plan has to find.
#define SWARM_PLAN(row_type, filter_type, erased_name, patch_field) selection plan(const domain::filter_type&);
SWARM_ROWS(SWARM_PLAN)
#undef SWARM_PLAN

} // namespace swarm
