// Nothing enters the actor graph without a slot: CAF's mailboxes have no bound of their own.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "actors/base/limits.hpp"

namespace swarm::runtime {

struct admission_bounds {
  std::size_t total = limits::calls_in_flight_max();
  std::size_t per_principal = limits::calls_in_flight_per_principal_max();
  std::size_t per_caller = limits::calls_in_flight_per_caller_max();
  std::size_t for_operator = limits::calls_kept_for_operator; // of the total
};

/// Counts calls in flight, in total, per principal and per caller. Thread-safe; never blocks for long (one mutex, no calls out).
class admission {
public:
  explicit admission(const admission_bounds& bounds = {});

  /// One call in flight. Freed by its destructor, on any thread, also after the admission itself is gone.
  class slot {
  public:
    slot(slot&&) noexcept = default;
    slot& operator=(slot&& other) noexcept;
    ~slot();

  private:
    friend class admission;
    struct state;
    slot(std::shared_ptr<state> owner, std::string principal, std::string caller);
    void leave() noexcept;

    std::shared_ptr<state> owner_;
    std::string principal_;
    std::string caller_;
  };

  /// `caller`: whose processes call, whatever principals they act as; empty = it is not counted. Nothing when a bound is reached: answer
  /// errc::overloaded.
  std::optional<slot> enter(std::string_view principal, std::string_view caller = {}, bool is_operator = false);

  std::size_t in_flight() const;
  std::size_t in_flight(std::string_view principal) const;

private:
  std::shared_ptr<slot::state> state_;
};

} // namespace swarm::runtime
