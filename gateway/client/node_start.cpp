#include "gateway/client/node_start.hpp"

#include "actors/base/child_process.hpp"
#include "actors/base/environment.hpp"
#include "actors/base/owner.hpp"
#include "actors/base/process.hpp"
#include "gateway/client/failure.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>

#include <fcntl.h>
#include <poll.h>
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

} // namespace

std::filesystem::path swarmd_path() {
  std::error_code ec;
  auto self = std::filesystem::read_symlink("/proc/self/exe", ec);
  return self.parent_path() / "swarmd";
}

start_outcome start_node(const state_dir& dir, const std::string& node_name, std::int64_t timeout_ms) {
  prepare_or_fail(dir);
  auto ready = make_pipe();
  auto args = arguments(dir, node_name);
  args.insert(args.end(), {"--detach", "--ready-fd", std::to_string(ready.write.get())});
  auto log = dir.log_dir() / "swarmd.start.log";
  auto pid = spawn(std::move(args), log, ready.write.get());
  ready.write.reset();
  auto report = await_report(ready.read.get(), timeout_ms);
  // Before it has detached itself it writes into a log of its own.
  constexpr int settle_ms = 5000;
  auto status = report && report->empty() ? exit_status_within(pid, settle_ms) : 0;
  if (!report)
    throw call_failed(code::deadline, "swarmd did not become ready in time; look into " + dir.log_dir().string());
  if (report->starts_with(start_report::ready))
    return start_outcome::started;
  if (report->starts_with(start_report::owned))
    return start_outcome::owned;
  auto why = report->starts_with(start_report::failed) ? report->substr(1) : status != 0 ? log_tail(log) : std::string{};
  throw call_failed(code::no_node, "swarmd could not start" + (why.empty() ? "; look into " + dir.log_dir().string() : ": " + why));
}

void become_node(const state_dir& dir, const std::string& node_name) {
  prepare_or_fail(dir);
  auto args = arguments(dir, node_name);
  auto environment = clean_environment();
  execve(args[0].c_str(), pointers_to(args).data(), pointers_to(environment).data());
  throw call_failed(code::no_node, "cannot start " + args[0] + ": " + std::strerror(errno));
}

} // namespace swarm::cli
