#include "tests/support/node_process.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "actors/base/process.hpp"

namespace swarm::testing {

namespace {

using steady = std::chrono::steady_clock;

int left_ms(steady::time_point until) {
  auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - steady::now()).count();
  return static_cast<int>(std::max<std::int64_t>(left, 0));
}

int as_status(int wait_status) { return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status); }

/// Everything exec needs, made before the fork: after it only async-signal-safe calls are allowed.
struct prepared {
  std::vector<std::string> arguments;
  std::vector<std::string> variables;
  std::vector<char*> argv;
  std::vector<char*> envp;
  std::string directory;

  prepared(const std::vector<std::string>& args, const environment& env, std::string dir) : arguments(args), directory(std::move(dir)) {
    for (const auto& [name, value] : env)
      variables.push_back(name + "=" + value);
    for (auto& a : arguments)
      argv.push_back(a.data());
    for (auto& v : variables)
      envp.push_back(v.data());
    argv.push_back(nullptr);
    envp.push_back(nullptr);
  }

  [[noreturn]] void exec() const {
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    if (!directory.empty() && chdir(directory.c_str()) != 0)
      _exit(126);
    execve(argv[0], argv.data(), envp.data());
    _exit(127);
  }
};

std::pair<unique_fd, unique_fd> make_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    throw std::runtime_error(std::string{"pipe2: "} + std::strerror(errno));
  return {unique_fd{ends[0]}, unique_fd{ends[1]}};
}

/// False: nothing more will come.
bool take(unique_fd& fd, std::string& into) {
  char buffer[16384];
  auto n = read(fd.get(), buffer, sizeof buffer);
  if (n < 0 && (errno == EINTR || errno == EAGAIN))
    return true;
  if (n <= 0) {
    fd.reset();
    return false;
  }
  into.append(buffer, static_cast<std::size_t>(n));
  return true;
}

/// Standard input without a writer that could block: a file that is already gone.
unique_fd input_file(const std::string& input) {
  std::string name = "/tmp/swarm-input-XXXXXX";
  unique_fd fd{mkostemp(name.data(), O_CLOEXEC)};
  unlink(name.c_str());
  if (!fd || write(fd.get(), input.data(), input.size()) != static_cast<ssize_t>(input.size()) || lseek(fd.get(), 0, SEEK_SET) != 0)
    throw std::runtime_error("cannot write " + name);
  return fd;
}

std::vector<std::string> command_line(pid_t pid) {
  std::vector<std::string> out;
  std::istringstream in{file_text("/proc/" + std::to_string(pid) + "/cmdline")};
  for (std::string word; std::getline(in, word, '\0');)
    out.push_back(word);
  return out;
}

/// The program with this name whose arguments name exactly this directory.
pid_t find_program(const std::string& name, const std::string& directory) {
  for (const auto& p : list_processes()) {
    auto words = p.is_dead() ? std::vector<std::string>{} : command_line(p.pid);
    if (words.empty() || fs::path{words[0]}.filename() != name)
      continue;
    if (std::find(words.begin(), words.end(), directory) != words.end())
      return p.pid;
  }
  return 0;
}

void kill_below(pid_t top) {
  for (const auto& p : list_processes())
    if (p.pid != top && is_descendant(p.pid, top).value_or(false))
      kill(p.pid, SIGKILL);
}

} // namespace

bool eventually(const std::function<bool()>& condition, std::chrono::milliseconds deadline) {
  auto until = steady::now() + deadline;
  while (!condition()) {
    if (steady::now() > until)
      return false;
    poll(nullptr, 0, 10);
  }
  return true;
}

fs::path program(const char* name) {
  auto* dir = std::getenv("SWARM_TEST_BIN_DIR");
  if (!dir)
    throw std::runtime_error("SWARM_TEST_BIN_DIR names the directory of the programs");
  return fs::path{dir} / name;
}

std::string file_text(const fs::path& path) {
  std::ifstream in{path, std::ios::binary};
  // A process that ends meanwhile makes reading its files fail, which the stream itself takes for the end.
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in{text};
  for (std::string line; std::getline(in, line);)
    out.push_back(line);
  return out;
}

std::size_t count_lines(const fs::path& path) { return lines_of(file_text(path)).size(); }

bool is_running(pid_t pid) {
  auto p = read_process(pid);
  return p && !p->is_dead();
}

std::vector<pid_t> processes_with(const std::string& variable, const std::string& value) {
  std::vector<pid_t> out;
  for (const auto& p : list_processes())
    if (!p.is_dead() && environment_of(p.pid, variable) == value)
      out.push_back(p.pid);
  return out;
}

temp_dir::temp_dir() {
  std::string name = "/tmp/swarm-e2e-XXXXXX";
  if (!mkdtemp(name.data()))
    throw std::runtime_error("mkdtemp");
  path_ = name;
}

temp_dir::~temp_dir() {
  std::error_code ec;
  fs::remove_all(path_, ec);
}

// -- child_process ---------------------------------------------------------------------------

child_process::child_process(const std::vector<std::string>& argv, const environment& env, const std::string& directory, const std::string& input) {
  prepared what{argv, env, directory};
  auto in = input_file(input);
  auto [out_read, out_write] = make_pipe();
  auto [err_read, err_write] = make_pipe();
  pid_ = fork();
  if (pid_ < 0)
    throw std::runtime_error("fork");
  if (pid_ == 0) {
    dup2(in.get(), STDIN_FILENO);
    dup2(out_write.get(), STDOUT_FILENO);
    dup2(err_write.get(), STDERR_FILENO);
    what.exec();
  }
  out_ = std::move(out_read);
  err_ = std::move(err_read);
}

child_process::child_process(child_process&& other) noexcept
  : pid_(std::exchange(other.pid_, -1)), out_(std::move(other.out_)), err_(std::move(other.err_)), result_(std::move(other.result_)) {}

child_process::~child_process() {
  if (pid_ <= 0)
    return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

void child_process::signal(int number) const { kill(pid_, number); }

bool child_process::pump(steady::time_point until) {
  if (!out_ && !err_)
    return false;
  pollfd fds[] = {{out_.get(), POLLIN, 0}, {err_.get(), POLLIN, 0}};
  if (poll(fds, 2, left_ms(until)) <= 0)
    return steady::now() < until;
  if (fds[0].revents != 0)
    take(out_, result_.out);
  if (fds[1].revents != 0)
    take(err_, result_.err);
  return true;
}

bool child_process::read_until(const std::function<bool(const run_result&)>& enough, std::chrono::milliseconds deadline) {
  auto until = steady::now() + deadline;
  while (!enough(result_))
    if (!pump(until))
      return false;
  return true;
}

bool child_process::read_until(const std::string& text, std::chrono::milliseconds deadline) {
  return read_until([&](const run_result& r) { return r.out.find(text) != std::string::npos || r.err.find(text) != std::string::npos; }, deadline);
}

run_result child_process::finish(std::chrono::milliseconds deadline) {
  auto until = steady::now() + deadline;
  auto ended = open_pidfd(pid_);
  // Output may be held open by others (a daemon that did not close it); the end of the process is the end.
  while (ended) {
    pollfd fds[] = {{ended->get(), POLLIN, 0}, {out_.get(), POLLIN, 0}, {err_.get(), POLLIN, 0}};
    auto n = poll(fds, 3, left_ms(until));
    if (n < 0 && errno == EINTR)
      continue;
    if (fds[1].revents != 0)
      take(out_, result_.out);
    if (fds[2].revents != 0)
      take(err_, result_.err);
    if (n == 0 || (fds[0].revents != 0 && fds[1].revents == 0 && fds[2].revents == 0))
      break;
  }
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) == pid_) {
    result_.status = as_status(status);
  } else {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    result_.err += "\n[killed by the test at its deadline]";
  }
  pid_ = -1;
  return result_;
}

// -- terminal_process ------------------------------------------------------------------------

terminal_process::terminal_process(const std::vector<std::string>& argv, const environment& env, const std::string& directory, std::uint16_t columns,
                                   std::uint16_t rows) {
  prepared what{argv, env, directory};
  winsize size{rows, columns, 0, 0};
  int master = -1;
  int slave = -1;
  if (openpty(&master, &slave, nullptr, nullptr, &size) != 0)
    throw std::runtime_error("openpty");
  master_.reset(master);
  slave_.reset(slave);
  fcntl(master, F_SETFD, FD_CLOEXEC);
  fcntl(slave, F_SETFD, FD_CLOEXEC);
  pid_ = fork();
  if (pid_ < 0)
    throw std::runtime_error("fork");
  if (pid_ == 0) {
    setsid();
    ioctl(slave, TIOCSCTTY, 0);
    for (int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
      dup2(slave, fd);
    what.exec();
  }
}

terminal_process::~terminal_process() {
  if (status_)
    return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

void terminal_process::type(const std::string& text) {
  if (write(master_.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    throw std::runtime_error("cannot type");
}

void terminal_process::resize(std::uint16_t columns, std::uint16_t rows) {
  winsize size{rows, columns, 0, 0};
  ioctl(master_.get(), TIOCSWINSZ, &size);
}

termios terminal_process::modes() const {
  termios out{};
  tcgetattr(slave_.get(), &out);
  return out;
}

bool terminal_process::pump(steady::time_point until) {
  pollfd p{master_.get(), POLLIN, 0};
  constexpr int slice_ms = 20; // our own slave end keeps the master readable for ever, so the end is asked for
  auto n = poll(&p, 1, std::min(left_ms(until), slice_ms));
  if (n > 0)
    return take(master_, seen_);
  int status = 0;
  if (!status_ && waitpid(pid_, &status, WNOHANG) == pid_) {
    status_ = as_status(status);
    return true; // once more, for what it wrote last
  }
  return !status_ && steady::now() < until;
}

bool terminal_process::read_until(const std::string& text, std::chrono::milliseconds deadline) {
  auto until = steady::now() + deadline;
  while (seen_.find(text) == std::string::npos)
    if (!pump(until))
      return false;
  return true;
}

int terminal_process::finish(std::chrono::milliseconds deadline) {
  auto until = steady::now() + deadline;
  while (pump(until))
    ;
  return status_.value_or(-1);
}

// -- test_node -------------------------------------------------------------------------------

test_node::test_node() : test_node("state") {}

test_node::test_node(const std::string& below) : dir_{base_.path() / below}, work_(base_.path() / "work") {
  fs::create_directories(work_);
  fs::create_directories(dir_.root.parent_path());
}

test_node::~test_node() { end_everything(); }

environment test_node::env(const environment& more) const {
  environment out{{"PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"},
                  {"HOME", base_.text()},
                  {"USER", "tester"},
                  {"LANG", "C.UTF-8"},
                  {"TERM", "xterm"},
                  {"SWARM_HOME", dir_.root.string()}};
  for (auto* passed : {"ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS", "TSAN_OPTIONS", "LD_LIBRARY_PATH"})
    if (auto* value = std::getenv(passed))
      out[passed] = value;
  for (const auto& [name, value] : more)
    if (value.empty())
      out.erase(name);
    else
      out[name] = value;
  return out;
}

void test_node::start(const std::vector<std::string>& arguments) {
  auto [ready_read, ready_write] = make_pipe();
  std::vector<std::string> argv{program("swarmd").string(), "--state-dir", dir_.root.string(), "--ready-fd", std::to_string(ready_write.get())};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  prepared what{argv, env(), "/"};
  auto log = base_.text() + "/swarmd.err";
  child_ = fork();
  if (child_ == 0) {
    auto null = open("/dev/null", O_RDWR | O_CLOEXEC);
    auto err = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    dup2(null, STDIN_FILENO);
    dup2(err, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    fcntl(ready_write.get(), F_SETFD, 0);
    what.exec();
  }
  ready_write.reset();
  pollfd p{ready_read.get(), POLLIN, 0};
  char byte = 0;
  if (poll(&p, 1, static_cast<int>(patience.count())) == 1 && read(ready_read.get(), &byte, 1) == 1)
    return;
  // A swarmctl that was waiting for its node to come back may have been faster.
  constexpr int another_serves = 75;
  int status = 0;
  if (waitpid(child_, &status, WNOHANG) == 0) {
    if (!eventually([&] { return waitpid(child_, &status, WNOHANG) == child_; }))
      throw std::runtime_error("swarmd did not get ready: " + file_text(log));
  }
  child_ = -1;
  if (!WIFEXITED(status) || WEXITSTATUS(status) != another_serves || !eventually([&] {
        return node_pid() != 0 && ctl({"status", "--no-autostart"}).status == 0;
      }))
    throw std::runtime_error("swarmd did not get ready: " + file_text(log));
}

namespace {

/// The first thread of a killed process is dead before the last one has closed its files, the lock of the state directory among them.
bool is_gone(pid_t pid) {
  std::error_code error;
  int threads = 0;
  for (fs::directory_iterator at{"/proc/" + std::to_string(pid) + "/task", error}; !error && at != fs::directory_iterator{}; at.increment(error))
    ++threads;
  return !is_running(pid) && threads <= 1;
}

} // namespace

void test_node::kill_node() {
  auto pid = child_ > 0 ? child_ : node_pid();
  if (pid == 0)
    throw std::runtime_error("no node runs");
  kill(pid, SIGKILL);
  if (child_ > 0)
    waitpid(std::exchange(child_, -1), nullptr, 0);
  else if (!eventually([&] { return is_gone(pid); }))
    throw std::runtime_error("swarmd survived SIGKILL");
}

int test_node::wait_for_exit(std::chrono::milliseconds deadline) {
  int status = 0;
  if (child_ <= 0 || !eventually([&] { return waitpid(child_, &status, WNOHANG) == child_; }, deadline))
    return -1;
  child_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void test_node::kill_keeper() {
  auto pid = keeper_pid();
  if (pid == 0)
    throw std::runtime_error("no keeper runs");
  kill(pid, SIGKILL);
  if (!eventually([&] { return !is_running(pid); }))
    throw std::runtime_error("swarm-keeper survived SIGKILL");
}

run_result test_node::down(const std::vector<std::string>& arguments) {
  auto pid = child_ > 0 ? child_ : node_pid();
  std::vector<std::string> all{"down"};
  all.insert(all.end(), arguments.begin(), arguments.end());
  auto out = ctl(all);
  auto gone = pid == 0 || eventually([&] {
                if (child_ <= 0)
                  return !is_running(pid);
                if (waitpid(child_, nullptr, WNOHANG) != child_)
                  return false;
                child_ = -1;
                return true;
              });
  if (!gone)
    throw std::runtime_error("the node is still there after down: " + out.out + out.err);
  return out;
}

pid_t test_node::node_pid() const { return child_ > 0 ? child_ : find_program("swarmd", dir_.root.string()); }

pid_t test_node::keeper_pid() const { return find_program("swarm-keeper", dir_.root.string()); }

run_result test_node::ctl(std::vector<std::string> arguments, const run_options& options) const {
  return ctl_start(std::move(arguments), options).finish(options.deadline);
}

child_process test_node::ctl_start(std::vector<std::string> arguments, const run_options& options) const {
  arguments.insert(arguments.begin(), program("swarmctl").string());
  return {arguments, env(options.env), options.directory.empty() ? work() : options.directory, options.input};
}

json test_node::ctl_json(std::vector<std::string> arguments, const run_options& options) const {
  auto shown = json(arguments).dump();
  auto dashes = std::find(arguments.begin(), arguments.end(), "--");
  arguments.insert(dashes, "--json");
  auto r = ctl(arguments, options);
  auto out = r.parsed();
  if (r.status != 0 || out.is_discarded())
    throw std::runtime_error("swarmctl " + shown + " ended with " + std::to_string(r.status) + "\nstdout: " + r.out + "\nstderr: " + r.err);
  return out;
}

std::string test_node::session(const std::string& label) const {
  std::vector<std::string> arguments{"register", "--lease-seconds", "600"};
  if (!label.empty())
    arguments.insert(arguments.end(), {"--label", label});
  return ctl_json(arguments).at("id");
}

void test_node::end_everything() const {
  if (child_ > 0) {
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
  }
  while (auto pid = find_program("swarmd", dir_.root.string())) {
    kill(pid, SIGKILL);
    eventually([&] { return !is_running(pid); });
  }
  while (auto pid = find_program("swarm-keeper", dir_.root.string())) {
    kill_below(pid);
    kill(pid, SIGKILL);
    eventually([&] { return !is_running(pid); });
  }
  for (auto pid : processes_with("SWARM_HOME", dir_.root.string()))
    kill(pid, SIGKILL);
}

} // namespace swarm::testing
