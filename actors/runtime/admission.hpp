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

/// Counts calls in flight, in total and per principal. Thread-safe; never blocks for long (one mutex, no calls out).
class admission {
public:
  explicit admission(std::size_t total_max = limits::calls_in_flight_max(),
                     std::size_t per_principal_max = limits::calls_in_flight_per_principal_max());

  /// One call in flight. Freed by its destructor, on any thread, also after the admission itself is gone.
  class slot {
  public:
    slot(slot&&) noexcept = default;
    slot& operator=(slot&& other) noexcept;
    ~slot();

  private:
    friend class admission;
    struct state;
    slot(std::shared_ptr<state> owner, std::string principal);
    void leave() noexcept;

    std::shared_ptr<state> owner_;
    std::string principal_;
  };

  /// Nothing when a bound is reached: answer errc::overloaded.
  std::optional<slot> enter(std::string_view principal);

  std::size_t in_flight() const;
  std::size_t in_flight(std::string_view principal) const;

private:
  std::shared_ptr<slot::state> state_;
};

} // namespace swarm::runtime
