#include "actors/runtime/admission.hpp"

#include <algorithm>
#include <cmath>
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

rate_quota::rate_quota(const clock_port& clock, std::size_t per_minute, std::size_t burst, std::size_t keys_max)
  : clock_(clock), per_ms_(static_cast<double>(per_minute) / 60'000.0), burst_(static_cast<double>(std::max<std::size_t>(burst, 1))),
    keys_max_(keys_max) {}

double rate_quota::refilled(const bucket& b, std::int64_t now_ms) const {
  return std::min(burst_, b.tokens + static_cast<double>(std::max<std::int64_t>(0, now_ms - b.at_ms)) * per_ms_);
}

bool rate_quota::make_room(std::int64_t now_ms) {
  if (buckets_.size() < keys_max_)
    return true;
  std::erase_if(buckets_, [&](const auto& entry) { return refilled(entry.second, now_ms) >= burst_; });
  return buckets_.size() < keys_max_;
}

bool rate_quota::take(std::string_view key) {
  std::string name{key};
  std::lock_guard lock{mutex_};
  auto now = clock_.boot_ms();
  auto i = buckets_.find(name);
  if (i == buckets_.end()) {
    if (!make_room(now))
      return false;
    i = buckets_.emplace(std::move(name), bucket{burst_, now}).first;
  }
  auto& b = i->second;
  b = {refilled(b, now), now};
  if (b.tokens < 1.0)
    return false;
  b.tokens -= 1.0;
  return true;
}

std::int64_t rate_quota::wait_ms(std::string_view key) const {
  std::lock_guard lock{mutex_};
  auto i = buckets_.find(std::string{key});
  if (i == buckets_.end())
    return 0;
  auto missing = 1.0 - refilled(i->second, clock_.boot_ms());
  return missing <= 0.0 ? 0 : static_cast<std::int64_t>(std::ceil(missing / per_ms_));
}

} // namespace swarm::runtime
