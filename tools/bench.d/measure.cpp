#include "tools/bench.d/measure.hpp"

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cmath>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace swarm::bench {

double ms_since(steady::time_point then) { return std::chrono::duration<double, std::milli>(steady::now() - then).count(); }

double percentile(std::vector<double> values, double share) {
  if (values.empty())
    return 0;
  auto at = static_cast<std::size_t>(std::lround(share * static_cast<double>(values.size() - 1)));
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(at), values.end());
  return values[at];
}

load_result closed_loop(int clients, std::chrono::milliseconds length, const std::function<operation(int)>& make) {
  std::vector<std::vector<double>> taken(static_cast<std::size_t>(clients));
  steady::time_point start;
  std::barrier ready{clients, [&]() noexcept { start = steady::now(); }};
  std::atomic<bool> over{false};
  std::vector<std::jthread> threads;
  for (int i = 0; i < clients; ++i)
    threads.emplace_back([&, i] {
      auto op = make(i);
      auto& mine = taken[static_cast<std::size_t>(i)];
      ready.arrive_and_wait();
      while (!over && steady::now() - start < length) {
        auto began = steady::now();
        if (!op())
          over = true;
        else
          mine.push_back(ms_since(began));
      }
    });
  threads.clear();
  auto elapsed_s = ms_since(start) / 1000;
  std::vector<double> all;
  for (const auto& t : taken)
    all.insert(all.end(), t.begin(), t.end());
  return {percentile(all, 0.5), percentile(all, 0.99), static_cast<double>(all.size()) / elapsed_s};
}

bool eventually(std::chrono::milliseconds patience, const std::function<bool()>& what) {
  std::mutex mutex;
  std::condition_variable never;
  std::unique_lock lock{mutex};
  for (auto until = steady::now() + patience; !what(); never.wait_for(lock, std::chrono::milliseconds{1}))
    if (steady::now() >= until)
      return false;
  return true;
}

} // namespace swarm::bench
