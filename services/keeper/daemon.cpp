#include "services/keeper/daemon.hpp"

#include <algorithm>
#include <cerrno>
#include <stdexcept>
#include <system_error>

#include <fcntl.h>
#include <pwd.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

namespace swarm::keeper {

namespace {

constexpr int backlog = 64;

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
  if (same && environ[env.size()] == nullptr)
    return;
  env.push_back(nullptr);
  execve("/proc/self/exe", argv, env.data());
  fail("cannot execute myself again");
}

unique_fd lock_state(const state_dir& dir) {
  auto path = dir.root / "keeper.lock";
  unique_fd fd{open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600)};
  if (!fd)
    fail("cannot open " + path.string());
  if (flock(fd.get(), LOCK_EX | LOCK_NB) == 0)
    return fd;
  if (errno != EWOULDBLOCK)
    fail("cannot lock " + path.string());
  return {};
}

unique_fd listen_on(const state_dir& dir) {
  unique_fd fd{socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  socket_name name{dir.keeper_socket()};
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  name.text().copy(address.sun_path, sizeof address.sun_path - 1);
  unlink(name.text().c_str());
  auto old = umask(0177);
  auto bound = fd && bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  umask(old);
  if (!bound || listen(fd.get(), backlog) != 0)
    fail("cannot listen on " + dir.keeper_socket().string());
  return fd;
}

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
