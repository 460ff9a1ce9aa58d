// The tables of domain::rows_view in plain maps: what a rule reads in tests, and the reference for the store's SQL.
#pragma once

#include <algorithm>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "actors/domain/rows.hpp"

namespace swarm::test {

namespace v1 = ::swarm::v1;

template <class Row>
class memory_table : public virtual domain::table_view<Row> {
public:
  std::optional<Row> get(const std::string& key) const override {
    auto i = rows_.find(key);
    return i == rows_.end() ? std::nullopt : std::optional<Row>(i->second);
  }

  std::vector<Row> find(const typename domain::table<Row>::filter& f) const override {
    require_positions(f);
    std::vector<Row> out;
    for (const auto& [key, row] : rows_)
      if (domain::table<Row>::matches(f, row))
        out.push_back(row);
    std::sort(out.begin(), out.end(), [&](const Row& a, const Row& b) { return domain::table<Row>::before(f, a, b); });
    cut(f, out);
    return out;
  }

  std::uint64_t count(const typename domain::table<Row>::filter& f) const override {
    return static_cast<std::uint64_t>(
      std::count_if(rows_.begin(), rows_.end(), [&](const auto& r) { return domain::table<Row>::matches(f, r.second); }));
  }

  void put(const Row& row) { rows_[domain::table<Row>::key(row)] = row; }
  void erase(const std::string& key) { rows_.erase(key); }
  const std::map<std::string, Row>& all() const { return rows_; }

private:
  /// As the store, which cannot look up a position of another form.
  template <class Filter>
  static void require_positions(const Filter& f) {
    auto well_formed = [](const std::string& position) { return position.empty() || domain::is_position(position); };
    if constexpr (std::is_same_v<Row, v1::Session>)
      if (!well_formed(f.after_key))
        throw std::logic_error("a list position is malformed");
    if constexpr (std::is_same_v<Row, v1::Spawn>)
      if (!well_formed(f.after_id))
        throw std::logic_error("a list position is malformed");
  }
  template <class Filter>
  static void cut(const Filter& f, std::vector<Row>& rows) {
    if constexpr (requires { f.limit; }) {
      if (f.limit == 0 || rows.size() <= f.limit)
        return;
      auto extra = static_cast<std::ptrdiff_t>(rows.size() - f.limit);
      if constexpr (requires { f.newest; })
        if (f.newest) {
          rows.erase(rows.begin(), rows.begin() + extra);
          return;
        }
      rows.erase(rows.end() - extra, rows.end());
    }
  }

  std::map<std::string, Row> rows_;
};

template <class... Rows>
class memory_tables : public domain::rows_view, public memory_table<Rows>... {};

class memory_rows final : public domain::all_rows::in<memory_tables> {
public:
  /// What the store does with a decided command. Throws std::logic_error for a batch no store could apply.
  void apply(const v1::Batch& batch) {
    if (batch.reply().has_refusal() && (batch.patches_size() > 0 || batch.events_size() > 0))
      throw std::logic_error("a refused command has effects");
    for (const auto& p : batch.patches())
      apply(p);
    auto& log = events_[batch.scope()];
    for (const auto& e : batch.events()) {
      if (!log.empty() && e.revision() <= log.back().revision())
        throw std::logic_error("revisions do not grow");
      log.push_back(e);
    }
    std::erase_if(log, [&](const auto& e) { return e.revision() < batch.delete_events_below(); });
  }

  template <class Row>
  void put(const Row& row) {
    static_cast<memory_table<Row>&>(*this).put(row);
  }
  template <class Row>
  const std::map<std::string, Row>& all() const {
    return static_cast<const memory_table<Row>&>(*this).all();
  }
  template <class Row>
  void erase(const Row& row) {
    static_cast<memory_table<Row>&>(*this).erase(domain::table<Row>::key(row));
  }

  std::vector<v1::Event> events(const std::string& scope, std::uint64_t after, std::size_t limit) const override {
    std::vector<v1::Event> out;
    for (const auto& e : log(scope))
      if (e.revision() > after && (limit == 0 || out.size() < limit))
        out.push_back(e);
    return out;
  }
  std::vector<v1::Event> newest_events(const std::string& scope, std::size_t limit) const override {
    const auto& all_events = log(scope);
    auto n = limit == 0 ? all_events.size() : std::min(limit, all_events.size());
    return {all_events.end() - static_cast<std::ptrdiff_t>(n), all_events.end()};
  }
  std::uint64_t oldest_event(const std::string& scope) const override { return log(scope).empty() ? 0 : log(scope).front().revision(); }
  std::uint64_t events_below(const std::string& scope, std::int64_t at_ms) const override {
    for (const auto& e : log(scope))
      if (e.at_ms() >= at_ms)
        return e.revision();
    return log(scope).empty() ? 0 : log(scope).back().revision() + 1;
  }

private:
  const std::vector<v1::Event>& log(const std::string& scope) const {
    static const std::vector<v1::Event> none;
    auto i = events_.find(scope);
    return i == events_.end() ? none : i->second;
  }

  void apply(const v1::RowPatch& p) {
    if (p.has_erased())
      return erase(p.erased());
    auto known = false;
    domain::all_rows::each([&]<class Row>() {
      if (const auto* row = domain::table<Row>::in(p)) {
        known = true;
        put(*row);
      }
    });
    if (!known)
      throw std::logic_error("empty patch");
  }

  void erase(const v1::Erased& e) {
    domain::all_rows::each([&]<class Row>() {
      if (e.table() == domain::table<Row>::erased && e.table() != v1::Erased::TABLE_UNSPECIFIED)
        static_cast<memory_table<Row>&>(*this).erase(e.key());
    });
  }

  std::map<std::string, std::vector<v1::Event>> events_;
};

} // namespace swarm::test
