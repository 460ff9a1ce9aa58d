// Changed rows of one table, and reading a table with such changes laid over it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "actors/domain/rows.hpp"

namespace swarm::domain {

/// By key; nothing = erased.
template <class Row>
using overlay = std::map<std::string, std::optional<Row>>;

/// The filter with a limit higher by `rows`, for a search in a base of which so many rows may be hidden by changes.
template <class Row>
typename table<Row>::filter widened(typename table<Row>::filter f, std::size_t rows);

/// What a base finds with the pending changes applied; `found` is what it finds now, with the filter widened.
template <class Row>
std::vector<Row> laid_over(std::vector<Row> found, const typename table<Row>::filter& f, const overlay<Row>& mine);

/// `base` with the pending changes applied.
template <class Row>
std::vector<Row> find_with(const table_view<Row>& base, const typename table<Row>::filter& f, const overlay<Row>& mine);

/// The base's count, corrected by what has changed: counting must not read what it counts.
template <class Row>
std::uint64_t count_with(const table_view<Row>& base, const typename table<Row>::filter& f, const overlay<Row>& mine);

} // namespace swarm::domain
