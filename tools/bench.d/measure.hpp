// How things are measured: closed loops of clients, percentiles, medians over rounds.
#pragma once

#include <chrono>
#include <functional>
#include <vector>

namespace swarm::bench {

using steady = std::chrono::steady_clock;

/// Milliseconds since a moment.
double ms_since(steady::time_point);

/// The value below which `share` (0 to 1) of the values lie; 0 for none.
double percentile(std::vector<double> values, double share);
inline double median(const std::vector<double>& values) { return percentile(values, 0.5); }

struct load_result {
  double p50_ms = 0;
  double p99_ms = 0;
  double per_second = 0; // operations, all clients together
};

/// One operation of one client; false = nothing is left to do, which ends the run for all.
using operation = std::function<bool()>;

/// Every client is a thread that makes its operation by `make(client)`, waits for the others, and then repeats it without a pause
/// for this long. What throws ends the program: a benchmark with errors measures nothing.
load_result closed_loop(int clients, std::chrono::milliseconds length, const std::function<operation(int)>& make);

/// Repeats `what` until the deadline or until it says true; false = the deadline.
bool eventually(std::chrono::milliseconds patience, const std::function<bool()>& what);

} // namespace swarm::bench
