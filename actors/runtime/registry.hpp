// Which actor bears a name now. Never CAF's own registry: that keeps the first binding for ever and can hang the shutdown.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include <caf/actor_cast.hpp>

#include "actors/base/limits.hpp"
#include "actors/runtime/messages.hpp"

namespace swarm::runtime {

/// Supervisors write it. Callers of actors read it, also on threads outside the actor system. Thread-safe; nothing but
/// wait_for() waits.
class registry {
public:
  /// News of a start (with a handle) or a death (without); an incarnation older than the known one changes nothing.
  void bind(const binding& news);
  /// Where the name lives; nothing when it was never bound or its death is long past. `who` is null while it is down.
  std::optional<binding> lookup(const std::string& name) const;
  /// Its handle, null when there is none now. The name stands for actors of this type only.
  template <class Handle>
  Handle find(const std::string& name) const {
    auto known = lookup(name);
    return known ? caf::actor_cast<Handle>(known->who) : Handle{};
  }
  /// Blocks until the name has another bearer than this one (null: any bearer); null at the deadline. Not for actors.
  caf::strong_actor_ptr wait_for(const std::string& name, const caf::strong_actor_ptr& other_than,
                                 std::chrono::steady_clock::time_point deadline) const;
  /// Forgets all: the handles keep their actors from being freed.
  void clear();

private:
  void remember_dead(const binding& b);

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::unordered_map<std::string, binding> by_name_;
  std::deque<std::pair<std::string, std::uint64_t>> dead_; // names in the order they went down, at most registry_dead_names_max
};

} // namespace swarm::runtime
