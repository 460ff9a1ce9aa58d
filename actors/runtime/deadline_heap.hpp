// Many deadlines, one timer.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include <caf/actor_cast.hpp>
#include <caf/send.hpp>

#include "actors/runtime/error.hpp"

namespace swarm::runtime {

/// At most one deadline per key, in milliseconds of whatever clock the owner uses (clock_port::boot_ms for leases).
/// Setting, cancelling and taking are O(log n) amortised; memory is O(live keys).
template <class Key, class Hash = std::hash<Key>>
class deadline_heap {
public:
  /// Replaces the key's earlier deadline.
  void set(const Key& key, std::int64_t deadline_ms) {
    auto generation = ++generations_;
    live_[key] = generation;
    heap_.push_back({deadline_ms, generation, key});
    std::ranges::push_heap(heap_, later);
    compact();
  }

  /// True when there was one.
  bool cancel(const Key& key) {
    auto had = live_.erase(key) != 0;
    compact();
    return had;
  }

  /// The earliest deadline.
  std::optional<std::int64_t> next() {
    drop_stale();
    return heap_.empty() ? std::nullopt : std::optional{heap_.front().deadline_ms};
  }

  /// Takes the earliest key whose deadline is at or before `now_ms`; keys with equal deadlines come in the order they were set.
  std::optional<Key> take_due(std::int64_t now_ms) {
    drop_stale();
    if (heap_.empty() || heap_.front().deadline_ms > now_ms)
      return std::nullopt;
    auto key = std::move(heap_.front().key);
    pop();
    live_.erase(key);
    return key;
  }

  std::size_t size() const { return live_.size(); }
  bool empty() const { return live_.empty(); }

private:
  struct entry {
    std::int64_t deadline_ms;
    std::uint64_t generation;
    Key key;
  };

  static bool later(const entry& a, const entry& b) { return std::pair{a.deadline_ms, a.generation} > std::pair{b.deadline_ms, b.generation}; }

  bool stale(const entry& e) const {
    auto i = live_.find(e.key);
    return i == live_.end() || i->second != e.generation;
  }

  void pop() {
    std::ranges::pop_heap(heap_, later);
    heap_.pop_back();
  }

  void drop_stale() {
    while (!heap_.empty() && stale(heap_.front()))
      pop();
  }

  // Replaced and cancelled entries stay in the heap until they surface; without this a lease renewed for ever would fill it.
  void compact() {
    if (heap_.size() <= 2 * live_.size() + 64)
      return;
    std::erase_if(heap_, [this](const entry& e) { return stale(e); });
    std::ranges::make_heap(heap_, later);
  }

  std::vector<entry> heap_;
  std::unordered_map<Key, std::uint64_t, Hash> live_;
  std::uint64_t generations_ = 0;
};

/// Keeps one CAF timer armed for an actor whose behaviour has `[self](tick_atom, std::uint64_t stamp)`. Timers of CAF 0.17.6
/// cannot be cancelled; a superseded one still fires and is told by its stamp. Stamps are unique in the process, so one handler
/// may offer each tick to several timers.
class single_timer {
public:
  /// Wakes `self` at `deadline_ms` unless an earlier or equal wake-up is already on its way. A deadline in the past wakes at once.
  template <class Self>
  void arm(Self* self, std::int64_t now_ms, std::optional<std::int64_t> deadline_ms) {
    if (!deadline_ms || (stamp_ != 0 && due_ms_ <= *deadline_ms))
      return;
    stamp_ = next_stamp();
    due_ms_ = *deadline_ms;
    auto delay = std::chrono::milliseconds{std::max<std::int64_t>(0, due_ms_ - now_ms)};
    caf::delayed_anon_send(caf::actor_cast<caf::actor>(self->address()), delay, tick_atom_v, stamp_);
  }

  /// True when this is the wake-up that was armed last; then none is armed any more.
  bool fired(std::uint64_t stamp) {
    if (stamp != stamp_)
      return false;
    stamp_ = 0;
    return true;
  }

  bool armed() const { return stamp_ != 0; }

private:
  static std::uint64_t next_stamp() {
    static std::atomic<std::uint64_t> last{0};
    return ++last;
  }

  std::uint64_t stamp_ = 0;
  std::int64_t due_ms_ = 0;
};

} // namespace swarm::runtime
