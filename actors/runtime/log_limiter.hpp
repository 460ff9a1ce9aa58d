// What goes wrong again and again for the same reason: counted each time, said once.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "actors/base/limits.hpp"

namespace swarm::runtime {

class log_limiter {
public:
  /// True when it is to be said: it was not heard for long. `now_ms` of a clock that only goes forward.
  bool add(const std::string& why, std::int64_t now_ms) {
    ++count_;
    last_ = why;
    if (heard_.size() >= limits::complaint_reasons_max && !heard_.contains(why))
      heard_.clear(); // a sender of ever new reasons is heard again
    auto [at, fresh] = heard_.try_emplace(why, now_ms);
    auto quiet = std::chrono::milliseconds{now_ms - at->second};
    at->second = now_ms;
    return fresh || quiet >= limits::complaint_quiet;
  }
  std::uint64_t count() const { return count_; }
  /// For people: what was done so often and why last; empty: there was nothing.
  std::string summary(std::string_view done) const {
    return count_ == 0 ? std::string{} : "; " + std::to_string(count_) + " " + std::string{done} + ", last: " + last_;
  }

private:
  std::map<std::string, std::int64_t> heard_; // when last
  std::uint64_t count_ = 0;
  std::string last_;
};

} // namespace swarm::runtime
