#include "actors/domain/overlay.hpp"

#include <algorithm>

namespace swarm::domain {

template <class Row>
typename table<Row>::filter widened(typename table<Row>::filter f, std::size_t rows) {
  if constexpr (requires { f.limit; })
    if (f.limit != 0)
      f.limit += rows;
  return f;
}

template <class Row>
std::vector<Row> laid_over(std::vector<Row> found, const typename table<Row>::filter& f, const overlay<Row>& mine) {
  if (mine.empty())
    return found;
  constexpr bool limited = requires { f.limit; };
  constexpr bool can_be_newest = requires { f.newest; };
  std::erase_if(found, [&](const Row& row) { return mine.count(table<Row>::key(row)) > 0; });
  for (const auto& [key, row] : mine)
    if (row && table<Row>::matches(f, *row))
      found.push_back(*row);
  std::sort(found.begin(), found.end(), [&](const Row& a, const Row& b) { return table<Row>::before(f, a, b); });
  if constexpr (limited) {
    if (f.limit != 0 && found.size() > f.limit) {
      auto extra = static_cast<std::ptrdiff_t>(found.size() - f.limit);
      bool from_front = false;
      if constexpr (can_be_newest)
        from_front = f.newest;
      if (from_front)
        found.erase(found.begin(), found.begin() + extra);
      else
        found.erase(found.end() - extra, found.end());
    }
  }
  return found;
}

template <class Row>
std::vector<Row> find_with(const table_view<Row>& base, const typename table<Row>::filter& f, const overlay<Row>& mine) {
  // Each of our changes can hide at most one row of the base, so this many more make up for it.
  return laid_over<Row>(base.find(mine.empty() ? f : widened<Row>(f, mine.size())), f, mine);
}

template <class Row>
std::uint64_t count_with(const table_view<Row>& base, const typename table<Row>::filter& f, const overlay<Row>& mine) {
  auto n = base.count(f);
  for (const auto& [k, row] : mine) {
    if (auto before = base.get(k); before && table<Row>::matches(f, *before))
      --n;
    if (row && table<Row>::matches(f, *row))
      ++n;
  }
  return n;
}

#define SWARM_CHANGES(row, ...)                                                                                                                      \
  template table<v1::row>::filter widened<v1::row>(table<v1::row>::filter, std::size_t);                                                             \
  template std::vector<v1::row> laid_over(std::vector<v1::row>, const table<v1::row>::filter&, const overlay<v1::row>&);                             \
  template std::vector<v1::row> find_with(const table_view<v1::row>&, const table<v1::row>::filter&, const overlay<v1::row>&);                       \
  template std::uint64_t count_with(const table_view<v1::row>&, const table<v1::row>::filter&, const overlay<v1::row>&);
SWARM_ROWS(SWARM_CHANGES)
#undef SWARM_CHANGES

} // namespace swarm::domain
