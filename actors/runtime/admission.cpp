#include "actors/runtime/admission.hpp"

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace swarm::runtime {

struct admission::slot::state {
  using counts = std::unordered_map<std::string, std::size_t>; // only those with calls in flight

  explicit state(const admission_bounds& b) : bounds(b) {}

  static std::size_t of(const counts& all, const std::string& name) {
    auto i = all.find(name);
    return i == all.end() ? 0 : i->second;
  }
  static void drop(counts& all, const std::string& name) {
    if (auto i = all.find(name); i != all.end() && --i->second == 0)
      all.erase(i);
  }

  const admission_bounds bounds;
  mutable std::mutex mutex;
  std::size_t total = 0;
  counts by_principal;
  counts by_caller;
};

admission::slot::slot(std::shared_ptr<state> owner, std::string principal, std::string caller)
  : owner_(std::move(owner)), principal_(std::move(principal)), caller_(std::move(caller)) {}

admission::slot& admission::slot::operator=(slot&& other) noexcept {
  if (this != &other) {
    leave();
    owner_ = std::move(other.owner_);
    principal_ = std::move(other.principal_);
    caller_ = std::move(other.caller_);
  }
  return *this;
}

admission::slot::~slot() { leave(); }

void admission::slot::leave() noexcept {
  auto owner = std::exchange(owner_, nullptr);
  if (!owner)
    return;
  std::lock_guard lock{owner->mutex};
  --owner->total;
  state::drop(owner->by_principal, principal_);
  state::drop(owner->by_caller, caller_);
}

admission::admission(const admission_bounds& bounds) : state_(std::make_shared<slot::state>(bounds)) {}

std::optional<admission::slot> admission::enter(std::string_view principal, std::string_view caller, bool is_operator) {
  std::string name{principal}, whose{caller};
  auto& s = *state_;
  std::lock_guard lock{s.mutex};
  if (s.total + (is_operator ? 0 : std::min(s.bounds.for_operator, s.bounds.total)) >= s.bounds.total)
    return std::nullopt;
  if (slot::state::of(s.by_principal, name) >= s.bounds.per_principal)
    return std::nullopt;
  if (!whose.empty() && slot::state::of(s.by_caller, whose) >= s.bounds.per_caller)
    return std::nullopt;
  ++s.total;
  ++s.by_principal[name];
  if (!whose.empty())
    ++s.by_caller[whose];
  return slot{state_, std::move(name), std::move(whose)};
}

std::size_t admission::in_flight() const {
  std::lock_guard lock{state_->mutex};
  return state_->total;
}

std::size_t admission::in_flight(std::string_view principal) const {
  std::lock_guard lock{state_->mutex};
  return slot::state::of(state_->by_principal, std::string{principal});
}

} // namespace swarm::runtime
