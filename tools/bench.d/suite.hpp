// What is measured. A suite takes its samples once per round and turns them into rows at the end.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tools/bench.d/measure.hpp"
#include "tools/bench.d/peers.hpp"
#include "tools/bench.d/report.hpp"

namespace swarm::bench {

struct settings {
  std::filesystem::path bin;               // where swarmd and the others are
  std::filesystem::path tools;             // where what they are measured against is
  std::filesystem::path dir;               // scratch, on the disk that is measured
  std::chrono::milliseconds length{1'500}; // of one measurement under load
  int rounds = 5;
};

/// Values by name, one per round.
class samples {
public:
  void add(const std::string& name, double value) { by_name_[name].push_back(value); }
  /// Of all rounds, or the value of the one that is looked at, where it has one.
  double median_of(const std::string& name) const {
    auto i = by_name_.find(name);
    if (i == by_name_.end())
      return 0;
    return round_ < i->second.size() ? i->second[round_] : median(i->second);
  }
  void look_at(std::size_t round) { round_ = round; }
  void look_at_all() { round_ = all; }

private:
  static constexpr auto all = static_cast<std::size_t>(-1);
  std::map<std::string, std::vector<double>> by_name_;
  std::size_t round_ = all;
};

class suite {
public:
  virtual ~suite() = default;
  virtual void round() = 0;
  virtual std::vector<row> rows() const = 0;
  /// As if there had been only this round, counted from 0.
  std::vector<row> rows_of(std::size_t round) {
    samples_.look_at(round);
    auto out = rows();
    samples_.look_at_all();
    return out;
  }

protected:
  samples samples_;
};

/// Commands under load: fdatasync, echo, etcd and the node in turn, with 1, 16 and 64 clients and pipelined.
std::unique_ptr<suite> make_load_suite(const settings&);
/// From a change to the answer of somebody who waits for it.
std::unique_ptr<suite> make_wake_suite(const settings&);
/// Whole processes: one call and out.
std::unique_ptr<suite> make_process_suite(const settings&);
/// Lists, restarts with many tasks, and a node that does nothing.
std::unique_ptr<suite> make_size_suite(const settings&);
/// Agents' MCP servers: start, calls, a race for tasks, wake-up, memory.
std::unique_ptr<suite> make_mcp_suite(const settings&);
/// Two nodes that are linked: commands, terminals and messages across, beside the same at home and ssh.
std::unique_ptr<suite> make_hosts_suite(const settings&);
/// Conversations with a scripted driver: deltas, prompts, replay, what they leave of locks, memory.
std::unique_ptr<suite> make_chat_suite(const settings&);
/// Memory per session, task and lock.
std::unique_ptr<suite> make_memory_suite(const settings&);

} // namespace swarm::bench
