// Real programs in a state directory of their own: runs them with a deadline, on pipes or on a terminal, starts, stops and kills
// the node, and leaves no process behind.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>
#include <termios.h>

#include <nlohmann/json.hpp>

#include "actors/base/paths.hpp"
#include "actors/base/unique_fd.hpp"

namespace swarm::testing {

namespace fs = std::filesystem;
using json = nlohmann::json;
using environment = std::map<std::string, std::string>;

/// How long a condition may take before the test gives up. Generous: it is only ever used up by a failure.
inline constexpr std::chrono::milliseconds patience{30'000};

/// For conditions that nobody announces, such as a process being gone.
bool eventually(const std::function<bool()>& condition, std::chrono::milliseconds deadline = patience);

/// A program of this build: swarmctl, swarmd or swarm-keeper.
fs::path program(const char* name);
std::string file_text(const fs::path&);
std::vector<std::string> lines_of(const std::string& text);
std::size_t count_lines(const fs::path&);
bool is_running(pid_t);
/// Living processes that have this NAME=value in their start environment.
std::vector<pid_t> processes_with(const std::string& variable, const std::string& value);

class temp_dir {
public:
  temp_dir();
  ~temp_dir();
  temp_dir(const temp_dir&) = delete;
  temp_dir& operator=(const temp_dir&) = delete;
  const fs::path& path() const { return path_; }
  std::string text() const { return path_.string(); }

private:
  fs::path path_;
};

struct run_result {
  int status = -1; // exit status, 128 + signal, or -1 when it had to be killed at the deadline
  std::string out;
  std::string err;
  json parsed() const { return json::parse(out, nullptr, false); }
};

struct run_options {
  std::string input = {};
  environment env = {};       // on top of the node's; an empty value takes the variable away
  std::string directory = {}; // empty = the node's working directory
  std::chrono::milliseconds deadline = patience;
};

/// A program with pipes for standard output and error. Killed when it is destroyed while it runs.
class child_process {
public:
  child_process(const std::vector<std::string>& argv, const environment&, const std::string& directory, const std::string& input = {});
  ~child_process();
  child_process(child_process&&) noexcept;
  child_process(const child_process&) = delete;
  child_process& operator=(const child_process&) = delete;

  pid_t pid() const { return pid_; }
  void signal(int) const;
  /// Collects output until the condition holds on it; false at the deadline or when the output ended without it.
  bool read_until(const std::function<bool(const run_result&)>&, std::chrono::milliseconds deadline = patience);
  bool read_until(const std::string& text, std::chrono::milliseconds deadline = patience);
  const run_result& so_far() const { return result_; }
  run_result finish(std::chrono::milliseconds deadline = patience);

private:
  bool pump(std::chrono::steady_clock::time_point until);
  pid_t pid_ = -1;
  unique_fd out_;
  unique_fd err_;
  run_result result_;
};

/// A program on a terminal of its own, as a person has it.
class terminal_process {
public:
  terminal_process(const std::vector<std::string>& argv, const environment&, const std::string& directory, std::uint16_t columns = 100,
                   std::uint16_t rows = 30);
  ~terminal_process();
  terminal_process(const terminal_process&) = delete;
  terminal_process& operator=(const terminal_process&) = delete;

  pid_t pid() const { return pid_; }
  void type(const std::string&);
  void resize(std::uint16_t columns, std::uint16_t rows);
  termios modes() const;
  bool read_until(const std::string& text, std::chrono::milliseconds deadline = patience);
  const std::string& screen() const { return seen_; }
  /// Exit status, 128 + signal, or -1 at the deadline; everything it printed is in screen().
  int finish(std::chrono::milliseconds deadline = patience);

private:
  bool pump(std::chrono::steady_clock::time_point until);
  pid_t pid_ = -1;
  unique_fd master_;
  unique_fd slave_; // held open, so that the modes can be read after the program's end
  std::string seen_;
  std::optional<int> status_;
};

/// A state directory, a working directory and the node that serves it. Destroying it ends everything that was started in it.
class test_node {
public:
  test_node();
  /// A state directory at this path below a temporary one.
  explicit test_node(const std::string& below);
  ~test_node();
  test_node(const test_node&) = delete;
  test_node& operator=(const test_node&) = delete;

  const state_dir& dir() const { return dir_; }
  /// Where swarmctl runs: an empty directory that is no git checkout, hence the scope.
  std::string work() const { return work_.string(); }
  environment env(const environment& more = {}) const;

  /// swarmd as a child of the test, ready to serve. Throws when it does not get ready.
  void start(const std::vector<std::string>& arguments = {});
  /// Ends swarmd with SIGKILL and waits until it is gone. The keeper stays.
  void kill_node();
  /// Waits until swarmd has ended by itself. Its exit status, 128 + signal, or -1 at the deadline.
  int wait_for_exit(std::chrono::milliseconds deadline = patience);
  void kill_keeper();
  /// swarmctl down, and waits until the node is gone.
  run_result down(const std::vector<std::string>& arguments = {});
  /// Of the running node and its keeper, found in the process table; 0 = none.
  pid_t node_pid() const;
  pid_t keeper_pid() const;

  run_result ctl(std::vector<std::string> arguments, const run_options& = {}) const;
  /// Runs with --json, expects success, and gives what was printed.
  json ctl_json(std::vector<std::string> arguments, const run_options& = {}) const;
  /// swarmctl in the background.
  child_process ctl_start(std::vector<std::string> arguments, const run_options& = {}) const;
  /// A row that lives by a lease, so that it needs no process: `register --lease-seconds 600`.
  std::string session(const std::string& label = {}) const;

private:
  void end_everything() const;
  temp_dir base_;
  state_dir dir_;
  fs::path work_;
  pid_t child_ = -1;
};

} // namespace swarm::testing
