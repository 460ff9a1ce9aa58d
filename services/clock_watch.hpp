// gRPC 1.51, as Debian builds it, waits for its next deadline by the wall clock: when that is set back, deadlines, keep-alives and attempts to
// connect stand still for as long. The kernel says when the clock is set; gRPC then looks at its deadlines anew.
#pragma once

#include <thread>

#include "actors/base/unique_fd.hpp"

namespace swarm {

/// One for the process, for as long as it uses gRPC. Throws std::system_error when the kernel gives no timer.
class clock_watch {
public:
  clock_watch();
  ~clock_watch();
  clock_watch(const clock_watch&) = delete;
  clock_watch& operator=(const clock_watch&) = delete;

private:
  void run() const;
  unique_fd timer_;
  unique_fd stop_;
  std::thread thread_;
};

} // namespace swarm
