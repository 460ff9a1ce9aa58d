#include "actors/domain/changes.hpp"

#include <algorithm>

namespace swarm::domain {

template <class Row>
std::vector<Row> find_with(const table_view<Row>& base, const typename table<Row>::filter& f, const changes<Row>& mine) {
  if (mine.empty())
    return base.find(f);
  constexpr bool limited = requires { f.limit; };
  constexpr bool can_be_newest = requires { f.newest; };
  auto wide = f;
  // Each of our changes can hide at most one row of the base, so this many more make up for it.
  if constexpr (limited)
    if (wide.limit != 0)
      wide.limit += mine.size();
  auto out = base.find(wide);
  std::erase_if(out, [&](const Row& row) { return mine.count(table<Row>::key(row)) > 0; });
  for (const auto& [key, row] : mine)
    if (row && table<Row>::matches(f, *row))
      out.push_back(*row);
  std::sort(out.begin(), out.end(), [&](const Row& a, const Row& b) { return table<Row>::before(f, a, b); });
  if constexpr (limited) {
    if (f.limit != 0 && out.size() > f.limit) {
      auto extra = static_cast<std::ptrdiff_t>(out.size() - f.limit);
      bool from_front = false;
      if constexpr (can_be_newest)
        from_front = f.newest;
      if (from_front)
        out.erase(out.begin(), out.begin() + extra);
      else
        out.erase(out.end() - extra, out.end());
    }
  }
  return out;
}

template <class Row>
std::uint64_t count_with(const table_view<Row>& base, const typename table<Row>::filter& f, const changes<Row>& mine) {
  auto n = base.count(f);
  for (const auto& [k, row] : mine) {
    if (auto before = base.get(k); before && table<Row>::matches(f, *before))
      --n;
    if (row && table<Row>::matches(f, *row))
      ++n;
  }
  return n;
}

template std::vector<v1::Session> find_with(const table_view<v1::Session>&, const table<v1::Session>::filter&, const changes<v1::Session>&);
template std::uint64_t count_with(const table_view<v1::Session>&, const table<v1::Session>::filter&, const changes<v1::Session>&);
template std::vector<v1::Credential> find_with(const table_view<v1::Credential>&, const table<v1::Credential>::filter&,
                                               const changes<v1::Credential>&);
template std::uint64_t count_with(const table_view<v1::Credential>&, const table<v1::Credential>::filter&, const changes<v1::Credential>&);
template std::vector<v1::Task> find_with(const table_view<v1::Task>&, const table<v1::Task>::filter&, const changes<v1::Task>&);
template std::uint64_t count_with(const table_view<v1::Task>&, const table<v1::Task>::filter&, const changes<v1::Task>&);
template std::vector<v1::Lock> find_with(const table_view<v1::Lock>&, const table<v1::Lock>::filter&, const changes<v1::Lock>&);
template std::uint64_t count_with(const table_view<v1::Lock>&, const table<v1::Lock>::filter&, const changes<v1::Lock>&);
template std::vector<v1::LockWaiter> find_with(const table_view<v1::LockWaiter>&, const table<v1::LockWaiter>::filter&,
                                               const changes<v1::LockWaiter>&);
template std::uint64_t count_with(const table_view<v1::LockWaiter>&, const table<v1::LockWaiter>::filter&, const changes<v1::LockWaiter>&);
template std::vector<v1::Message> find_with(const table_view<v1::Message>&, const table<v1::Message>::filter&, const changes<v1::Message>&);
template std::uint64_t count_with(const table_view<v1::Message>&, const table<v1::Message>::filter&, const changes<v1::Message>&);
template std::vector<v1::KvEntry> find_with(const table_view<v1::KvEntry>&, const table<v1::KvEntry>::filter&, const changes<v1::KvEntry>&);
template std::uint64_t count_with(const table_view<v1::KvEntry>&, const table<v1::KvEntry>::filter&, const changes<v1::KvEntry>&);
template std::vector<v1::Spawn> find_with(const table_view<v1::Spawn>&, const table<v1::Spawn>::filter&, const changes<v1::Spawn>&);
template std::uint64_t count_with(const table_view<v1::Spawn>&, const table<v1::Spawn>::filter&, const changes<v1::Spawn>&);
template std::vector<v1::Subscription> find_with(const table_view<v1::Subscription>&, const table<v1::Subscription>::filter&,
                                                 const changes<v1::Subscription>&);
template std::uint64_t count_with(const table_view<v1::Subscription>&, const table<v1::Subscription>::filter&, const changes<v1::Subscription>&);
template std::vector<v1::Approval> find_with(const table_view<v1::Approval>&, const table<v1::Approval>::filter&, const changes<v1::Approval>&);
template std::uint64_t count_with(const table_view<v1::Approval>&, const table<v1::Approval>::filter&, const changes<v1::Approval>&);
template std::vector<v1::ScopeState> find_with(const table_view<v1::ScopeState>&, const table<v1::ScopeState>::filter&,
                                               const changes<v1::ScopeState>&);
template std::uint64_t count_with(const table_view<v1::ScopeState>&, const table<v1::ScopeState>::filter&, const changes<v1::ScopeState>&);

} // namespace swarm::domain
