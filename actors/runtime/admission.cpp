#include "actors/runtime/admission.hpp"

#include <unordered_map>
#include <utility>

namespace swarm::runtime {

struct admission::slot::state {
  state(std::size_t all, std::size_t each) : total_max(all), per_principal_max(each) {}

  const std::size_t total_max;
  const std::size_t per_principal_max;
  mutable std::mutex mutex;
  std::size_t total = 0;
  std::unordered_map<std::string, std::size_t> by_principal; // only those with calls in flight
};

admission::slot::slot(std::shared_ptr<state> owner, std::string principal) : owner_(std::move(owner)), principal_(std::move(principal)) {}

admission::slot& admission::slot::operator=(slot&& other) noexcept {
  if (this != &other) {
    leave();
    owner_ = std::move(other.owner_);
    principal_ = std::move(other.principal_);
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
  auto i = owner->by_principal.find(principal_);
  if (--i->second == 0)
    owner->by_principal.erase(i);
}

admission::admission(std::size_t total_max, std::size_t per_principal_max) : state_(std::make_shared<slot::state>(total_max, per_principal_max)) {}

std::optional<admission::slot> admission::enter(std::string_view principal) {
  std::string name{principal};
  std::lock_guard lock{state_->mutex};
  if (state_->total >= state_->total_max)
    return std::nullopt;
  auto i = state_->by_principal.find(name);
  auto mine = i == state_->by_principal.end() ? std::size_t{0} : i->second;
  if (mine >= state_->per_principal_max)
    return std::nullopt;
  ++state_->total;
  ++state_->by_principal[name];
  return slot{state_, std::move(name)};
}

std::size_t admission::in_flight() const {
  std::lock_guard lock{state_->mutex};
  return state_->total;
}

std::size_t admission::in_flight(std::string_view principal) const {
  std::lock_guard lock{state_->mutex};
  auto i = state_->by_principal.find(std::string{principal});
  return i == state_->by_principal.end() ? 0 : i->second;
}

} // namespace swarm::runtime
