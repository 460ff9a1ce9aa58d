// One process of the agent, in a group of its own; its input and output are one end of a socketpair, which no tool of its can open through /proc.
#pragma once

#include <string>
#include <vector>

#include <sys/types.h>

#include "actors/base/process.hpp"
#include "actors/base/unique_fd.hpp"

namespace swarm::driver {

class agent_process {
public:
  /// Throws std::runtime_error when the system has no room for it. What cannot be executed says so on its standard error and exits with 127.
  explicit agent_process(const std::vector<std::string>& argv);
  /// Ends what is left.
  ~agent_process();
  agent_process(const agent_process&) = delete;
  agent_process& operator=(const agent_process&) = delete;

  pid_t pid() const noexcept { return pid_; }
  int socket() const noexcept { return socket_.get(); }
  int complaints() const noexcept { return complaints_.get(); }
  int ended() const noexcept { return ended_.get(); } // readable when it has ended

  void close_input() const;
  void signal(int number) const;
  /// Live processes that it has started beside its own, in whatever group or session; also of its group, whose number its own process keeps until it
  /// is reaped. A node that was started from here, and what is below it, is none of them.
  std::vector<process_stat> others() const;
  void signal_others(int number) const;
  struct how {
    int status = 0;
    int signal = 0;
  };
  /// Of one that has ended. It is not reaped before the destructor.
  how ending() const;

private:
  pid_t pid_ = 0;
  unique_fd socket_, complaints_, ended_;
};

/// Processes that others have started and that have ended below this one are not kept dead. All but `agent`, whose end is still to be told.
void reap_strangers(pid_t agent);

} // namespace swarm::driver
