// A value, or why there is none.
#pragma once

#include <utility>
#include <variant>

namespace swarm {

/// What can fail without being exceptional gives one of these. The value may be read only when the result is true, the failure only when it is
/// false.
template <class T, class Failure>
class [[nodiscard]] result {
public:
  result(T value) : state_(std::move(value)) {}
  result(Failure why) : state_(std::move(why)) {}

  explicit operator bool() const noexcept { return state_.index() == 0; }
  T& operator*() & { return std::get<0>(state_); }
  const T& operator*() const& { return std::get<0>(state_); }
  T&& operator*() && { return std::get<0>(std::move(state_)); }
  T* operator->() { return &std::get<0>(state_); }
  const T* operator->() const { return &std::get<0>(state_); }
  const Failure& failure() const { return std::get<1>(state_); }

private:
  std::variant<T, Failure> state_;
};

} // namespace swarm
