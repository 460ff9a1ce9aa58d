#include "services/keeper/connect.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <stdexcept>
#include <string>
#include <system_error>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "actors/base/child_process.hpp"
#include "actors/base/clock.hpp"
#include "actors/base/local_socket.hpp"
#include "actors/base/owner.hpp"
#include "actors/base/process.hpp"
#include "services/keeper/daemon.hpp"

namespace swarm::keeper {

namespace {

constexpr int ready_fd = 3;
constexpr std::size_t error_text_max = 1024;

struct spawned {
  pid_t pid = 0;
  unique_fd ready;
  unique_fd errors;
};

spawned spawn_keeper(const state_dir& dir, const std::filesystem::path& program) {
  auto ready = make_pipe(), errors = make_pipe();
  child_options o;
  o.arguments = {program.string(), "--state-dir", dir.root.string(), "--ready-fd", std::to_string(ready_fd)};
  // It makes its own environment; none of ours passes through.
  o.standard[STDERR_FILENO] = errors.write.get();
  o.further = ready.write.get();
  o.further_as = ready_fd;
  auto child = start_child(o);
  if (child.error)
    throw std::runtime_error("cannot start " + program.string() + ": " + child.error.message());
  return {child.pid, std::move(ready.read), std::move(errors.read)};
}

int left_ms(std::int64_t deadline_ms) { return static_cast<int>(std::clamp<std::int64_t>(deadline_ms - system_clock_port().boot_ms(), 0, 60'000)); }

/// What the starting process wrote before it closed its standard error; waits no longer than the deadline.
std::string read_until_closed(int fd, std::int64_t deadline_ms) {
  std::string out;
  pollfd p{fd, POLLIN, 0};
  while (out.size() < error_text_max && poll(&p, 1, left_ms(deadline_ms)) > 0) {
    char buffer[256];
    auto n = read(fd, buffer, sizeof buffer);
    if (n <= 0)
      break;
    out.append(buffer, static_cast<std::size_t>(n));
  }
  while (!out.empty() && out.back() == '\n')
    out.pop_back();
  return out;
}

/// What became of a start.
struct started {
  bool owned = false; // another keeper holds the lock
  std::string error;  // empty when it is ready
};

/// The process we start is only the first of three; it ends by itself.
started start(const state_dir& dir, const std::filesystem::path& program, std::int64_t deadline_ms) {
  auto s = spawn_keeper(dir, program);
  pollfd p{s.ready.get(), POLLIN, 0};
  char byte = 0;
  auto ready = poll(&p, 1, left_ms(deadline_ms)) > 0 && read(s.ready.get(), &byte, 1) == 1;
  started out;
  if (!ready) {
    out.error = read_until_closed(s.errors.get(), deadline_ms);
    if (out.error.empty())
      out.error = "swarm-keeper did not become ready in time; see log/keeper.log in " + dir.root.string();
    // Nothing to a process that has ended already.
    kill(s.pid, SIGKILL);
  }
  auto status = wait_for_child(s.pid);
  out.owned = !ready && status == exit_owned;
  return out;
}

} // namespace

std::optional<pinned_process> peer_of(int socket) {
  ucred who{};
  socklen_t size = sizeof who;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &who, &size) != 0 || who.pid <= 0)
    return std::nullopt;
  auto start = pid_start_time(who.pid);
  return start ? std::optional{pinned_process{who.pid, *start}} : std::nullopt;
}

std::optional<pinned_process> running_keeper(const state_dir& dir) {
  auto connected = connect_at(dir.keeper_socket(), SOCK_NONBLOCK);
  return connected ? peer_of(connected.get()) : std::nullopt;
}

bool is_alive(const pinned_process& p) { return p.pid > 0 && pid_start_time(p.pid) == p.start; }

std::filesystem::path default_program() {
  auto self = executable_of(getpid());
  if (!self)
    throw std::runtime_error("cannot tell where this program is installed, so swarm-keeper cannot be found");
  return std::filesystem::path{*self}.parent_path() / "swarm-keeper";
}

unique_fd connect_or_start(const state_dir& dir, const std::filesystem::path& program, std::chrono::milliseconds deadline) {
  auto deadline_ms = system_clock_port().boot_ms() + deadline.count();
  auto connect = [&] { return connect_at(dir.keeper_socket(), SOCK_NONBLOCK); };
  if (program.empty()) {
    if (auto fd = connect())
      return fd;
    throw std::runtime_error("no keeper runs in " + dir.root.string());
  }
  prepare(dir);
  // One that is about to end still holds the lock for a moment, one that is about to begin does not answer yet.
  owner_news news{lock_file(dir), dir.keeper_socket()};
  for (;;) {
    if (auto fd = connect())
      return fd;
    auto outcome = start(dir, program, deadline_ms);
    if (auto fd = connect())
      return fd;
    if (!outcome.owned && !outcome.error.empty())
      throw std::runtime_error(outcome.error);
    if (!news.wait(std::chrono::milliseconds{left_ms(deadline_ms)}))
      throw std::runtime_error(outcome.error.empty() ? "the keeper does not accept connections" : outcome.error);
  }
}

} // namespace swarm::keeper
