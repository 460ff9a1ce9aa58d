#include "services/driver/agent_process.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string_view>
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

/// A node that an agent's command has started serves others too.
bool is_of_node(pid_t pid) {
  const auto program = executable_of(pid).value_or("");
  const auto name = std::string_view{program}.substr(program.rfind('/') + 1);
  return name.starts_with("swarmd") || name.starts_with("swarm-keeper");
}

[[noreturn]] void run(const std::vector<char*>& argv, int socket, int complaints, pid_t driver) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != driver)
    _exit(127);
  setpgid(0, 0);
  if (dup2(socket, 0) < 0 || dup2(socket, 1) < 0 || dup2(complaints, 2) < 0)
    _exit(127);
  reset_signals();
  setenv("SWARM_DRIVEN", std::to_string(getpid()).c_str(), 1); // no agent that this one starts has a driver
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
  signal_others(SIGKILL);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void agent_process::close_input() const { shutdown(socket_.get(), SHUT_WR); }
void agent_process::signal(int number) const { ::kill(-pid_, number); }

std::vector<process_stat> agent_process::others() const {
  const auto all = list_processes();
  std::map<pid_t, const process_stat*> by_pid;
  for (const auto& p : all)
    by_pid[p.pid] = &p;
  const auto driver = getpid();
  const auto is_ours = [&](const process_stat& p) {
    if (p.group == pid_)
      return true;
    std::vector<pid_t> chain;
    for (const auto* at = &p; chain.size() <= all.size();) { // it is no snapshot
      chain.push_back(at->pid);
      if (at->parent == driver)
        return std::none_of(chain.begin(), chain.end(), is_of_node);
      const auto parent = by_pid.find(at->parent);
      if (parent == by_pid.end())
        return false;
      at = parent->second;
    }
    return false;
  };
  std::vector<process_stat> out;
  for (const auto& p : all)
    if (p.pid != pid_ && p.pid != driver && !p.is_dead() && is_ours(p))
      out.push_back(p);
  return out;
}

void agent_process::signal_others(int number) const {
  for (const auto& p : others())
    signal_process(p.pid, p.start, number);
}

void reap_strangers(pid_t agent) {
  for (siginfo_t dead{}; waitid(P_ALL, 0, &dead, WEXITED | WNOHANG | WNOWAIT) == 0 && dead.si_pid != 0 && dead.si_pid != agent; dead = {})
    waitpid(dead.si_pid, nullptr, WNOHANG);
}

agent_process::how agent_process::ending() const {
  siginfo_t info{};
  while (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT) != 0 && errno == EINTR) {
  }
  return info.si_code == CLD_EXITED ? how{info.si_status, 0} : how{0, info.si_status};
}

} // namespace swarm::driver
