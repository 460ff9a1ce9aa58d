// The driver's core between the keeper's pipes and the agent's process.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "actors/base/clock.hpp"
#include "actors/base/event_loop.hpp"
#include "services/driver/agent_process.hpp"
#include "services/driver/core.hpp"

namespace swarm::driver {

class shell {
public:
  /// `argv` is the agent's program with its arguments. `signals` is a signalfd of what asks the driver to end. Throws std::runtime_error when input
  /// and output are no pipes.
  shell(settings s, std::vector<std::string> argv, int signals, const clock_port& clock);
  /// Returns the exit status.
  int run();

private:
  moment now() const { return {clock_.unix_ms(), clock_.boot_ms()}; }
  void read_swarmd();
  void write_swarmd();
  void read_agent();
  void write_agent();
  void read_complaints();
  void read_signals(int signals);
  void agent_ended();
  void watch_others(const std::vector<process_stat>& others);
  void others_ended();
  void report_end();
  void act();
  void start(const std::vector<std::string>& further);
  void drop_agent();
  /// 0 events: not watched at all, for a hang-up is always told.
  void want(event_loop::token& token, int fd, std::uint32_t events, void (shell::*call)(std::uint32_t));
  void swarmd_ready(std::uint32_t) { write_swarmd(); }
  void agent_ready(std::uint32_t events);
  void settle();

  const clock_port& clock_;
  event_loop loop_;
  core core_;
  std::vector<std::string> argv_;
  std::unique_ptr<agent_process> agent_;
  event_loop::token input_ = 0, output_ = 0, socket_ = 0, complaints_ = 0, ended_ = 0, timer_ = 0, patience_ = 0;
  std::vector<std::pair<event_loop::token, unique_fd>> others_; // that the agent has left behind, after its end
  std::size_t left_behind_ = 0;
  bool end_reported_ = false;
  bool output_broken_ = false;
  int status_ = 0;
};

} // namespace swarm::driver
