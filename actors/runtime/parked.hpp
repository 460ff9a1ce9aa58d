// A promise that answers itself.
#pragma once

#include <string>
#include <type_traits>
#include <utility>

#include <caf/error.hpp>
#include <caf/response_promise.hpp>
#include <caf/typed_response_promise.hpp>
#include <caf/unit.hpp>

#include "actors/runtime/error.hpp"

namespace swarm::runtime {

/// Holds a caller's promise until the answer is known. CAF 0.17.6 forgets dropped promises, and an actor that dies with promises
/// in its state leaves those callers waiting; a parked promise that is destroyed unanswered answers `otherwise` instead.
/// Only the actor that owns the promise may answer, move or destroy it. While it lives it keeps that actor alive, so the actor
/// must end by exit message or quit. `parked<void>` answers a `reacts_to` handler.
template <class... Ts>
class parked {
public:
  using promise_type = caf::typed_response_promise<Ts...>;

  /// `otherwise`: what the caller gets when nobody answered; errc::unavailable unless the outcome may have happened.
  explicit parked(promise_type promise, errc otherwise = errc::unavailable) : promise_(std::move(promise)), otherwise_(otherwise) {}
  parked(parked&& other) noexcept : promise_(std::exchange(other.promise_, {})), otherwise_(other.otherwise_) {}
  parked& operator=(parked&& other) noexcept {
    if (this != &other) {
      abandon();
      promise_ = std::exchange(other.promise_, {});
      otherwise_ = other.otherwise_;
    }
    return *this;
  }
  ~parked() { abandon(); }

  /// False once answered, delegated or moved from, and for a message that asked for no answer.
  bool pending() const { return promise_.pending(); }
  /// What a drop would answer from now on, for instance errc::unknown_outcome once a transaction has begun.
  void otherwise(errc code) noexcept { otherwise_ = code; }

  /// Answers with values of exactly the types Ts, or with one caf::error. Does nothing when already answered.
  template <class... Us>
  void answer(Us&&... xs) {
    auto p = std::exchange(promise_, {});
    if constexpr (sizeof...(Us) == 0)
      static_cast<caf::response_promise&>(p).deliver(caf::unit);
    else
      p.deliver(std::forward<Us>(xs)...);
  }

  /// Somebody else answers: the request goes on to `dest` as this message.
  template <class Handle, class... Us>
  void delegate(const Handle& dest, Us&&... xs) {
    auto p = std::exchange(promise_, {});
    p.delegate(dest, std::forward<Us>(xs)...);
  }

private:
  void abandon() noexcept {
    if (promise_.pending())
      std::exchange(promise_, {}).deliver(fail(otherwise_));
  }

  promise_type promise_;
  errc otherwise_;
};

} // namespace swarm::runtime
