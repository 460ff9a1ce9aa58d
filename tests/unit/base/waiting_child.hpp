// A process to look at.
#pragma once

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace swarm {

/// A child that waits until it is killed; it ends with the object.
class waiting_child {
public:
  explicit waiting_child(const char* name = nullptr) : pid_(fork()) {
    if (pid_ != 0)
      return;
    if (name)
      prctl(PR_SET_NAME, name);
    for (;;)
      pause();
  }
  ~waiting_child() { end(); }
  waiting_child(const waiting_child&) = delete;
  waiting_child& operator=(const waiting_child&) = delete;
  void end() {
    if (pid_ <= 0)
      return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  pid_t pid() const { return pid_; }

private:
  pid_t pid_;
};

} // namespace swarm
