#include "services/driver/agent_process.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <system_error>

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "actors/base/text.hpp"

namespace swarm::driver {

namespace {

std::string reason(int error) { return std::generic_category().message(error); }

void reset_signals() {
  for (int s = 1; s < NSIG; ++s)
    ::signal(s, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

[[noreturn]] void run(const std::vector<char*>& argv, int socket, int complaints, pid_t driver) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != driver)
    _exit(127);
  setpgid(0, 0);
  if (dup2(socket, 0) < 0 || dup2(socket, 1) < 0 || dup2(complaints, 2) < 0)
    _exit(127);
  reset_signals();
  execvp(argv[0], argv.data());
  const auto text = concat({"cannot run ", argv[0], ": ", reason(errno), "\n"});
  [[maybe_unused]] auto n = write(2, text.data(), text.size());
  _exit(127);
}

} // namespace

agent_process::agent_process(const std::vector<std::string>& argv) {
  int pair[2], pipe[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
    throw std::runtime_error("cannot make a socketpair: " + reason(errno));
  socket_.reset(pair[0]);
  unique_fd theirs{pair[1]};
  if (pipe2(pipe, O_CLOEXEC) != 0)
    throw std::runtime_error("cannot make a pipe: " + reason(errno));
  complaints_.reset(pipe[0]);
  unique_fd their_complaints{pipe[1]};
  for (int fd : {socket_.get(), complaints_.get()})
    fcntl(fd, F_SETFL, O_NONBLOCK);
  std::vector<char*> words;
  for (const auto& a : argv)
    words.push_back(const_cast<char*>(a.c_str()));
  words.push_back(nullptr);
  const auto driver = getpid();
  pid_ = fork();
  if (pid_ < 0)
    throw std::runtime_error("cannot fork: " + reason(errno));
  if (pid_ == 0)
    run(words, theirs.get(), their_complaints.get(), driver);
  setpgid(pid_, pid_); // both do it: whoever comes first
  auto fd = open_pidfd(pid_);
  if (!fd) { // no destructor runs
    ::kill(pid_, SIGKILL);
    while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
    throw std::runtime_error("cannot watch the agent's process");
  }
  ended_ = std::move(*fd);
}

agent_process::~agent_process() {
  if (pid_ <= 0)
    return;
  signal(SIGKILL);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void agent_process::close_input() const { shutdown(socket_.get(), SHUT_WR); }
void agent_process::signal(int number) const { ::kill(-pid_, number); }

std::vector<process_stat> agent_process::others() const {
  auto all = list_processes();
  std::erase_if(all, [this](const auto& p) { return p.group != pid_ || p.pid == pid_ || p.is_dead(); });
  return all;
}

agent_process::how agent_process::ending() const {
  siginfo_t info{};
  while (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT) != 0 && errno == EINTR) {
  }
  return info.si_code == CLD_EXITED ? how{info.si_status, 0} : how{0, info.si_status};
}

} // namespace swarm::driver
