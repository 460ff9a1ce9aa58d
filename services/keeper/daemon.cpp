#include "services/keeper/daemon.hpp"

#include <algorithm>
#include <cerrno>
#include <stdexcept>
#include <system_error>

#include <fcntl.h>
#include <pwd.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace swarm::keeper {

namespace {

[[noreturn]] void fail(const std::string& what) {
  auto error = errno;
  throw std::runtime_error(what + ": " + std::generic_category().message(error));
}

void fork_and_leave() {
  auto pid = fork();
  if (pid < 0)
    fail("cannot fork");
  if (pid > 0)
    _exit(0);
}

void close_all_but(std::vector<int> keep) {
  std::sort(keep.begin(), keep.end());
  unsigned from = STDERR_FILENO + 1;
  for (auto fd : keep) {
    if (static_cast<unsigned>(fd) > from)
      syscall(SYS_close_range, from, static_cast<unsigned>(fd) - 1, 0U);
    from = static_cast<unsigned>(fd) + 1;
  }
  syscall(SYS_close_range, from, ~0U, 0U);
}

} // namespace

std::vector<std::string> clean_environment() {
  auto user = getpwuid(geteuid());
  return {"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", std::string{"HOME="} + (user ? user->pw_dir : "/"),
          std::string{"USER="} + (user ? user->pw_name : std::to_string(geteuid())), "LANG=C.UTF-8", "TERM=dumb"};
}

void require_clean_environment(char** argv) {
  auto clean = clean_environment();
  std::vector<char*> env;
  bool same = environ != nullptr;
  for (auto& e : clean) {
    same = same && environ[env.size()] != nullptr && e == environ[env.size()];
    env.push_back(e.data());
  }
  if (same && environ[env.size()] == nullptr) {
    // The kernel names a process after the file that it executed, which here was /proc/self/exe.
    prctl(PR_SET_NAME, "swarm-keeper");
    return;
  }
  env.push_back(nullptr);
  execve("/proc/self/exe", argv, env.data());
  fail("cannot execute myself again");
}

std::filesystem::path lock_file(const state_dir& dir) { return dir.root / "keeper.lock"; }

void daemonise(log_file& log, const std::vector<int>& keep) {
  fork_and_leave();
  setsid();
  // Once more: a process that leads no session can never get a controlling terminal by accident.
  fork_and_leave();
  umask(077);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  signal(SIGHUP, SIG_IGN);
  signal(SIGPIPE, SIG_IGN);
  if (chdir("/") != 0)
    fail("cannot enter /");
  unique_fd null{open("/dev/null", O_RDONLY | O_CLOEXEC)};
  dup2(null.get(), STDIN_FILENO);
  null.reset();
  if (!log.open_as_stdio())
    fail("cannot open the log");
  close_all_but(keep);
}

} // namespace swarm::keeper
