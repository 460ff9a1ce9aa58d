#include "services/keeper/launch.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "actors/base/limits.hpp"
#include "actors/base/process.hpp"
#include "actors/base/ring.hpp"

namespace swarm::keeper {

namespace {

// Where the child keeps its two private descriptors until exec; both close then.
constexpr int child_gate_fd = 3;
constexpr int child_status_fd = 4;
constexpr int first_free_fd = 5;

std::string reason(int error) { return std::generic_category().message(error); }

[[noreturn]] void fail(const char* what) {
  auto error = errno;
  throw std::runtime_error(std::string{what} + ": " + reason(error));
}

std::pair<unique_fd, unique_fd> make_pipe() {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0)
    fail("cannot make a pipe");
  return {unique_fd{fds[0]}, unique_fd{fds[1]}};
}

void set_nonblocking(int fd) { fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK); }

/// What the child turns into its standard streams.
struct child_end {
  unique_fd in;
  unique_fd out;
  bool terminal = false;
};

child_end open_terminal(const internal::StartChild& start, launched& l) {
  l.output.reset(posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (!l.output || grantpt(l.output.get()) != 0 || unlockpt(l.output.get()) != 0)
    fail("cannot open a terminal");
  l.slave.reset(ioctl(l.output.get(), TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC));
  l.input.reset(fcntl(l.output.get(), F_DUPFD_CLOEXEC, first_free_fd));
  if (!l.slave || !l.input)
    fail("cannot open a terminal");
  if (start.columns() > 0 && start.rows() > 0)
    set_size(l.output.get(), start.columns(), start.rows());
  child_end end;
  end.in.reset(fcntl(l.slave.get(), F_DUPFD_CLOEXEC, first_free_fd));
  end.out.reset(fcntl(l.slave.get(), F_DUPFD_CLOEXEC, first_free_fd));
  end.terminal = true;
  if (!end.in || !end.out)
    fail("cannot open a terminal");
  return end;
}

child_end open_pipes(launched& l) {
  child_end end;
  std::tie(end.in, l.input) = make_pipe();
  std::tie(l.output, end.out) = make_pipe();
  return end;
}

child_end open_streams(const internal::StartChild& start, launched& l) {
  auto end = start.pipes() ? open_pipes(l) : open_terminal(start, l);
  if (start.no_input())
    end.in.reset(open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!end.in)
    fail("cannot open /dev/null");
  return end;
}

// -- in the child ------------------------------------------------------------------

void report(std::string_view text) {
  while (!text.empty()) {
    auto n = write(child_status_fd, text.data(), text.size());
    if (n <= 0)
      return;
    text.remove_prefix(static_cast<std::size_t>(n));
  }
}

[[noreturn]] void setup_failure(const std::string& text) {
  report(setup_failed + text);
  _exit(127);
}

void reset_signals() {
  // Not sigaction(): glibc keeps two signals to itself and would leave them ignored if our own parent had them so. All zero is
  // the kernel's default action on every architecture.
  static constexpr unsigned long kernel_default[8]{};
  for (int s = 1; s < NSIG; ++s)
    syscall(SYS_rt_sigaction, s, kernel_default, nullptr, sizeof(std::uint64_t));
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

void wait_at_gate() {
  char c = 0;
  ssize_t n = 0;
  do
    n = read(child_gate_fd, &c, 1);
  while (n < 0 && errno == EINTR);
  if (n != 1 || c != gate_opened)
    _exit(127);
}

/// The descriptors' numbers collide with the targets unless all are moved out of the way first.
void place_descriptors(const child_end& end, int gate, int status) {
  auto high = [](int fd) { return fcntl(fd, F_DUPFD_CLOEXEC, 16); };
  int in = high(end.in.get()), out = high(end.out.get()), g = high(gate), s = high(status);
  if (in < 0 || out < 0 || g < 0 || s < 0 || dup3(s, child_status_fd, O_CLOEXEC) < 0)
    _exit(127);
  if (dup3(g, child_gate_fd, O_CLOEXEC) < 0 || dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(out, 2) < 0)
    setup_failure("cannot set up the standard streams");
  syscall(SYS_close_range, static_cast<unsigned>(first_free_fd), ~0U, 0U);
}

[[noreturn]] void run_child(const internal::StartChild& start, const child_end& end, int gate, int status, const rlimit& files, pid_t keeper) {
  // A program deaf to SIGHUP would outlive a killed keeper and run beside the next attempt.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != keeper)
    _exit(127);
  // Only a session leader can get the terminal.
  setsid();
  place_descriptors(end, gate, status);
  if (end.terminal && ioctl(1, TIOCSCTTY, 0) != 0)
    setup_failure("cannot get a controlling terminal: " + reason(errno));
  reset_signals();
  umask(022);
  setrlimit(RLIMIT_NOFILE, &files);
  if (chdir(start.directory().c_str()) != 0)
    setup_failure("cannot enter " + start.directory() + ": " + reason(errno));
  std::vector<char*> argv, env;
  for (const auto& a : start.argv())
    argv.push_back(const_cast<char*>(a.c_str()));
  for (const auto& e : start.environment())
    env.push_back(const_cast<char*>(e.c_str()));
  argv.push_back(nullptr);
  env.push_back(nullptr);
  report({&gate_reached, 1});
  wait_at_gate();
  // execvp looks the program up on the PATH of `environ`, which is now the one the program was given.
  environ = env.data();
  execvp(argv[0], argv.data());
  report("swarm-keeper: cannot run " + start.argv(0) + ": " + reason(errno) + "\r\n");
  _exit(127);
}

bool has_nul(const std::string& s) { return s.find('\0') != std::string::npos; }

} // namespace

std::string check(const internal::StartChild& start) {
  if (start.id().empty() || start.id().size() > limits::id_bytes_max)
    return "a child's id has 1 to 128 bytes";
  if (start.argv().empty() || start.argv(0).empty() || static_cast<std::size_t>(start.argv_size()) > limits::argv_count_max())
    return "a program with at most 1023 arguments is needed";
  std::size_t argv_bytes = 0, environment_bytes = 0;
  for (const auto& a : start.argv()) {
    argv_bytes += a.size() + 1;
    if (has_nul(a))
      return "an argument contains a zero byte";
  }
  for (const auto& e : start.environment()) {
    environment_bytes += e.size() + 1;
    if (has_nul(e) || e.find('=') == std::string::npos || e.front() == '=')
      return "the environment has an entry that is not NAME=value";
  }
  if (argv_bytes > limits::argv_bytes_max())
    return "the arguments exceed 128 KiB";
  if (environment_bytes > limits::environment_bytes_max())
    return "the environment exceeds 256 KiB";
  if (start.directory().empty() || start.directory().front() != '/' || has_nul(start.directory()))
    return "the working directory must be an absolute path";
  if (!is_ring_capacity(start.ring_bytes()))
    return "the ring's size must be " + ring_capacity_rule();
  return {};
}

bool set_size(int master, std::uint32_t columns, std::uint32_t rows) {
  winsize size{};
  size.ws_col = static_cast<unsigned short>(std::min<std::uint32_t>(columns, 0xffff));
  size.ws_row = static_cast<unsigned short>(std::min<std::uint32_t>(rows, 0xffff));
  return ioctl(master, TIOCSWINSZ, &size) == 0;
}

launched launch(const internal::StartChild& start, const rlimit& files) {
  launched l;
  auto end = open_streams(start, l);
  unique_fd gate, status;
  std::tie(gate, l.gate) = make_pipe();
  std::tie(l.status, status) = make_pipe();
  for (auto fd : {l.output.get(), l.input.get(), l.status.get(), l.gate.get()})
    set_nonblocking(fd);
  auto keeper = getpid();
  l.pid = fork();
  if (l.pid < 0)
    fail("cannot fork");
  if (l.pid == 0)
    run_child(start, end, gate.get(), status.get(), files, keeper);
  // It is our child and not reaped yet, so the number is still its own.
  l.start = pid_start_time(l.pid).value_or(0);
  return l;
}

} // namespace swarm::keeper
