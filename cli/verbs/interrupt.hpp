// Ctrl-C as an event: while an interrupt_guard lives, SIGINT, SIGTERM and SIGHUP call a function on a thread of its own instead of ending the
// process. The same happens when the reader of our output pipe is gone, so that `| head` ends the command at once, not at the next output.
#pragma once

#include <atomic>
#include <functional>
#include <thread>

namespace swarm::cli {

class interrupt_guard {
public:
  explicit interrupt_guard(std::function<void()> on_interrupt);
  ~interrupt_guard();
  interrupt_guard(const interrupt_guard&) = delete;
  interrupt_guard& operator=(const interrupt_guard&) = delete;
  bool interrupted() const noexcept { return interrupted_; }

private:
  void wait();

  std::function<void()> on_interrupt_;
  std::atomic<bool> interrupted_ = false;
  int stop_[2] = {-1, -1};
  std::thread thread_;
};

} // namespace swarm::cli
