#include "gateway/client/node_start.hpp"

#include "actors/base/child_process.hpp"
#include "actors/base/crypto.hpp"
#include "actors/base/environment.hpp"
#include "actors/base/limits.hpp"
#include "actors/base/local_socket.hpp"
#include "actors/base/owner.hpp"
#include "actors/base/process.hpp"
#include "actors/base/stopped_mark.hpp"
#include "actors/base/text.hpp"
#include "gateway/client/failure.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace swarm::cli {

namespace {

std::vector<std::string> arguments(const state_dir& dir, const std::string& node_name) {
  std::vector<std::string> out{swarmd_path().string(), "--state-dir", dir.root.string()};
  if (!node_name.empty()) {
    out.push_back("--node-name");
    out.push_back(node_name);
  }
  return out;
}

void prepare_or_fail(const state_dir& dir) {
  try {
    prepare(dir);
  } catch (const std::exception& e) {
    throw call_failed(code::no_node, e.what());
  }
  if (access(swarmd_path().c_str(), X_OK) != 0)
    throw call_failed(code::no_node, "no node is running and there is no " + swarmd_path().string() + " to start one");
}

std::string log_tail(const std::filesystem::path& log) {
  std::ifstream in(log, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  while (!text.empty() && text.back() == '\n')
    text.pop_back();
  constexpr std::size_t shown = 2000;
  return text.size() > shown ? text.substr(text.size() - shown) : text;
}

pid_t spawn(std::vector<std::string> args, const std::filesystem::path& log, int ready) {
  child_options o;
  o.arguments = std::move(args);
  o.directory = "/";
  o.environment = clean_environment();
  o.errors_into = log;
  o.further = o.further_as = ready;
  auto child = start_child(o);
  if (child.error)
    throw call_failed(code::no_node, "cannot start " + o.arguments[0] + ": " + child.error.message());
  return child.pid;
}

/// Exit status, or -1 if it has not ended by then.
int exit_status_within(pid_t pid, int timeout_ms) {
  auto process = open_pidfd(pid);
  pollfd p{process ? process->get() : -1, POLLIN, 0};
  if (process && poll(&p, 1, timeout_ms) <= 0)
    return -1;
  return wait_for_child(pid);
}

/// What the node says of its start; empty when it ended without a word, nothing when it is late.
std::optional<std::string> await_report(int fd, std::int64_t timeout_ms) {
  pollfd p{fd, POLLIN, 0};
  int n = 0;
  do
    n = poll(&p, 1, static_cast<int>(timeout_ms));
  while (n < 0 && errno == EINTR);
  if (n <= 0)
    return std::nullopt;
  std::array<char, 4096> bytes;
  auto got = read(fd, bytes.data(), bytes.size()); // it is written in one go
  return std::string{bytes.data(), static_cast<std::size_t>(std::max<ssize_t>(got, 0))};
}

/// What comes until its end, without the newline there.
std::string all_of(int fd) {
  std::string out;
  std::array<char, 4096> bytes;
  for (ssize_t n = 0; (n = read(fd, bytes.data(), bytes.size())) > 0 || (n < 0 && errno == EINTR);)
    out.append(bytes.data(), static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
  while (!out.empty() && out.back() == '\n')
    out.pop_back();
  return out;
}

/// Where to look for the reason of a start that failed without one: on a full disk it could not be written.
std::string where_to_look(const state_dir& dir) {
  std::error_code ec;
  const auto space = std::filesystem::space(dir.root, ec);
  if (!ec && space.available < limits::disk_critical_bytes())
    return concat({"the disk of ", dir.root.string(), " has only ", space.available / limits::kib, " KiB free; free some space"});
  return "look into " + dir.log_dir().string();
}

} // namespace

std::filesystem::path swarmd_path() {
  std::error_code ec;
  auto self = std::filesystem::read_symlink("/proc/self/exe", ec);
  return self.parent_path() / "swarmd";
}

std::string no_node_text(const state_dir& dir) {
  if (auto pid = living_owner(dir.lock_file()))
    return concat({"the node of ", dir.root.string(), " (pid ", *pid,
                   ") does not answer; if it is starting or stopping, try again, else end it with: kill ", *pid});
  return concat({"no node is running for ", dir.root.string(), "; start one with: swarmctl up"});
}

start_outcome start_node(const state_dir& dir, const std::string& node_name, const start_wish& wish, std::int64_t timeout_ms) {
  if (wish.why == start_reason::needed && read_stopped_mark(dir))
    return start_outcome::stopped; // asked again under the lock
  prepare_or_fail(dir);
  auto ready = make_pipe();
  auto args = arguments(dir, node_name);
  args.insert(args.end(), {"--detach", "--ready-fd", std::to_string(ready.write.get())});
  if (wish.why == start_reason::needed)
    args.emplace_back("--if-wanted");
  if (wish.take_keeper)
    args.emplace_back("--take-keeper");
  auto log = dir.log_dir() / "swarmd.start.log";
  auto pid = spawn(std::move(args), log, ready.write.get());
  ready.write.reset();
  auto report = await_report(ready.read.get(), timeout_ms);
  // Before it has detached itself it writes into a log of its own.
  constexpr int settle_ms = 5000;
  auto status = report && report->empty() ? exit_status_within(pid, settle_ms) : 0;
  if (!report)
    throw call_failed(code::deadline, "swarmd did not become ready in time; " + where_to_look(dir));
  if (report->starts_with(start_report::ready))
    return start_outcome::started;
  if (report->starts_with(start_report::owned))
    return start_outcome::owned;
  if (report->starts_with(start_report::stopped))
    return start_outcome::stopped;
  auto why = report->starts_with(start_report::failed) ? report->substr(1) : status != 0 ? log_tail(log) : std::string{};
  throw call_failed(code::no_node, "swarmd could not start" + (why.empty() ? "; " + where_to_look(dir) : ": " + why));
}

namespace {

/// The keeper outlives a node that was killed; what it runs are its children.
bool keeper_runs_programs(const state_dir& dir) {
  const auto keeper = keeper_of(dir);
  const auto all = list_processes();
  return keeper && std::any_of(all.begin(), all.end(), [&](const auto& p) { return p.parent == *keeper && !p.is_dead(); });
}

} // namespace

std::optional<pid_t> keeper_of(const state_dir& dir) {
  auto connected = connect_at(dir.keeper_socket());
  ucred keeper{};
  socklen_t size = sizeof keeper;
  if (!connected || getsockopt(connected.get(), SOL_SOCKET, SO_PEERCRED, &keeper, &size) != 0)
    return std::nullopt;
  return keeper.pid;
}

bool mark_stopped(const state_dir& dir) {
  prepare_or_fail(dir);
  const bool programs_go_on = keeper_runs_programs(dir);
  if (auto error = write_stopped_mark(dir, {.programs_go_on = programs_go_on}))
    throw call_failed(code::refused, "the mark that keeps the node down cannot be written: " + error.message());
  return programs_go_on;
}

namespace {

struct finished {
  int status;
  std::string out, err;
};

/// swarmd for one errand, to its end.
finished run_swarmd(const state_dir& dir, const std::vector<std::string>& errand) {
  prepare_or_fail(dir);
  auto said = make_pipe(), wrong = make_pipe();
  child_options o;
  o.arguments = arguments(dir, "");
  o.arguments.insert(o.arguments.end(), errand.begin(), errand.end());
  o.environment = clean_environment();
  o.directory = "/";
  o.standard = {-1, said.write.get(), wrong.write.get()};
  auto child = start_child(o);
  if (child.error)
    throw call_failed(code::no_node, "cannot start " + o.arguments[0] + ": " + child.error.message());
  said.write.reset();
  wrong.write.reset();
  finished out;
  out.out = all_of(said.read.get());
  out.err = all_of(wrong.read.get());
  out.status = wait_for_child(child.pid);
  constexpr std::string_view prefix = "swarmd: ";
  if (out.err.starts_with(prefix))
    out.err.erase(0, prefix.size());
  return out;
}

} // namespace

namespace {

constexpr int another_serves = 75;

std::vector<v1::PtyInfo> programs_told_by(const state_dir& dir, const char* errand) {
  auto r = run_swarmd(dir, {errand});
  if (r.status == another_serves)
    return {}; // they are the running node's
  if (r.status != 0)
    throw call_failed(code::refused, r.err.empty() ? std::string{"swarmd "} + errand + " ended with " + std::to_string(r.status) : r.err);
  std::vector<v1::PtyInfo> out;
  std::istringstream lines{r.out};
  for (std::string line; std::getline(lines, line);)
    if (v1::PtyInfo info; info.ParseFromString(from_hex(line)))
      out.push_back(std::move(info));
  return out;
}

} // namespace

std::vector<v1::PtyInfo> kept_programs(const state_dir& dir) {
  return keeper_runs_programs(dir) ? programs_told_by(dir, "--programs") : std::vector<v1::PtyInfo>{};
}

std::vector<v1::PtyInfo> end_kept_programs(const state_dir& dir) { return programs_told_by(dir, "--end-programs"); }

std::string restore_backup(const state_dir& dir, const std::string& file) {
  auto r = run_swarmd(dir, {"--restore", file});
  if (r.status == another_serves)
    throw call_failed(code::refused, "a node is running for " + dir.root.string() + "; stop it first: swarmctl down");
  if (r.status != 0)
    throw call_failed(code::refused, r.err);
  return r.out;
}

std::vector<std::string> obstacles_to_start(const state_dir& dir) {
  auto r = run_swarmd(dir, {"--check"});
  if (r.status != 0 && r.out.empty())
    throw call_failed(code::refused, r.err.empty() ? "swarmd --check ended with " + std::to_string(r.status) : r.err);
  std::vector<std::string> out;
  std::istringstream lines{r.out};
  for (std::string line; std::getline(lines, line);)
    out.push_back(line);
  return out;
}

void become_node(const state_dir& dir, const std::string& node_name) {
  prepare_or_fail(dir);
  auto args = arguments(dir, node_name);
  auto environment = clean_environment();
  (void)!chdir("/");
  execve(args[0].c_str(), pointers_to(args).data(), pointers_to(environment).data());
  throw call_failed(code::no_node, "cannot start " + args[0] + ": " + std::strerror(errno));
}

} // namespace swarm::cli
