#include "actors/runtime/restarts.hpp"

#include <algorithm>

namespace swarm::runtime {

namespace {

// splitmix64: no source of randomness, so that tests repeat; neighbours differ all the same.
std::uint64_t scatter(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

} // namespace

std::chrono::milliseconds backoff::after_failure(const restart_options& options, std::chrono::milliseconds lived, std::size_t salt) {
  if (lived >= options.stable_after)
    in_a_row_ = 0;
  auto before = in_a_row_++;
  if (options.first_at_once) {
    if (before == 0)
      return std::chrono::milliseconds{0};
    --before;
  }
  auto wait = std::min(options.backoff_min * (std::int64_t{1} << std::min<std::uint32_t>(before, 20)), options.backoff_max);
  auto spread = wait.count() * options.jitter_percent / 100;
  return wait - std::chrono::milliseconds{static_cast<std::int64_t>(scatter(salt + before) % static_cast<std::uint64_t>(spread + 1))};
}

bool restart_budget::spend(const restart_options& options, std::int64_t now_ms) {
  while (!recent_.empty() && now_ms - recent_.front() > options.window.count())
    recent_.pop_front();
  if (recent_.size() < options.max_restarts) {
    recent_.push_back(now_ms);
    return true;
  }
  recent_.clear();
  return false;
}

restart_record::decision restart_record::failed(const restart_options& options, std::chrono::milliseconds lived, std::int64_t now_ms,
                                                std::size_t salt) {
  ++failures_;
  auto wait = waits_.after_failure(options, lived, salt);
  if (budget_.spend(options, now_ms))
    return {wait, false};
  return {options.window, true};
}

} // namespace swarm::runtime
