// What came out.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

namespace swarm::simulate {

struct figure {
  std::string scenario, name;
  double value = 0;
  std::string unit;
  /// It depends on how fast this machine is; all others are the same again for the same sizes, seed and times.
  bool of_this_machine = false;
};

class figures {
public:
  void begin(std::string scenario) { scenario_ = std::move(scenario); }
  void add(std::string name, double value, std::string unit) { all_.push_back({scenario_, std::move(name), value, std::move(unit), false}); }
  void measured(std::string name, double value, std::string unit) { all_.push_back({scenario_, std::move(name), value, std::move(unit), true}); }
  const std::vector<figure>& all() const { return all_; }
  /// The last one of that name in a scenario whose name begins so; throws std::out_of_range when there is none.
  double value(std::string_view scenario, const std::string& name) const;
  void print(std::ostream&) const;
  void print_json(std::ostream&) const;

private:
  std::string scenario_;
  std::vector<figure> all_;
};

/// Of durations in microseconds; p in 0..1. 0 when there are none.
std::int64_t quantile(std::vector<std::int64_t>& values, double p);

} // namespace swarm::simulate
