#include "actors/base/owner.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "actors/base/process.hpp"

namespace swarm {

namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

[[noreturn]] void fail_system(const std::string& what) { throw std::runtime_error(what + ": " + std::strerror(errno)); }

/// Pid and start time of who signed; nothing for an empty or unreadable file.
std::optional<std::pair<pid_t, std::uint64_t>> owner_in(const std::filesystem::path& lock) {
  std::ifstream in{lock};
  pid_t pid = 0;
  std::uint64_t start = 0;
  if (!(in >> pid >> start) || pid <= 0)
    return std::nullopt;
  return std::pair{pid, start};
}

} // namespace

unique_fd take_ownership(const std::filesystem::path& lock) {
  unique_fd fd{open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600)};
  if (!fd)
    fail_system("cannot open " + lock.string());
  if (flock(fd.get(), LOCK_EX | LOCK_NB) == 0)
    return fd;
  if (errno != EWOULDBLOCK)
    fail_system("cannot lock " + lock.string());
  return {};
}

void sign_ownership(int lock_fd) {
  auto text = std::to_string(getpid()) + " " + std::to_string(pid_start_time(getpid()).value_or(0)) + "\n";
  // Unsigned it still is the lock; who waits for this process to end then waits for the next socket only.
  if (ftruncate(lock_fd, 0) == 0)
    (void)!pwrite(lock_fd, text.data(), text.size(), 0);
}

std::optional<pid_t> living_owner(const std::filesystem::path& lock) {
  const auto owner = owner_in(lock);
  const auto process = owner ? read_process(owner->first) : std::nullopt;
  return process && !process->is_dead() && process->start == owner->second ? std::optional{owner->first} : std::nullopt;
}

owner_news::owner_news(std::filesystem::path lock, const std::filesystem::path& socket)
  : lock_(std::move(lock)), socket_file_(socket.filename()), events_(inotify_init1(IN_CLOEXEC | IN_NONBLOCK)) {
  if (events_)
    directory_ = inotify_add_watch(events_.get(), socket.parent_path().c_str(), IN_MOVED_TO | IN_ONLYDIR);
  if (directory_ < 0)
    fail_system("cannot watch " + socket.parent_path().string());
  if (lock_.empty())
    return;
  // Made if there is none yet: only a file can be watched.
  unique_fd made{open(lock_.c_str(), O_RDONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600)};
  if (inotify_add_watch(events_.get(), lock_.c_str(), IN_MODIFY) < 0)
    fail_system("cannot watch " + lock_.string());
}

bool owner_news::take_events() {
  auto news = false;
  alignas(inotify_event) std::array<char, 4096> buffer;
  for (ssize_t n = 0; (n = read(events_.get(), buffer.data(), buffer.size())) > 0;)
    for (ssize_t at = 0; at < n;) {
      const auto* e = reinterpret_cast<const inotify_event*>(buffer.data() + at);
      at += static_cast<ssize_t>(sizeof *e + e->len);
      news = news || e->wd != directory_ || (e->len > 0 && e->name == socket_file_);
    }
  return news;
}

bool owner_news::wait(milliseconds time, int cancel) {
  auto until = steady_clock::now() + time;
  for (;;) {
    unique_fd process;
    if (auto owner = lock_.empty() ? std::nullopt : owner_in(lock_)) {
      // Opened before its start time is compared: then both are of the same process.
      process = open_pidfd(owner->first).value_or(unique_fd{});
      if (!process || pid_start_time(owner->first) != owner->second)
        return true;
    }
    auto left = std::chrono::ceil<milliseconds>(until - steady_clock::now()).count();
    pollfd fds[] = {{events_.get(), POLLIN, 0}, {process.get(), POLLIN, 0}, {cancel, POLLIN, 0}};
    auto n = poll(fds, 3, static_cast<int>(std::clamp<std::int64_t>(left, 0, std::numeric_limits<int>::max())));
    if (n < 0 && errno != EINTR)
      return false;
    if (n > 0 && fds[2].revents != 0)
      return false;
    if (n > 0 && (fds[1].revents != 0 || take_events()))
      return true;
    if (n == 0 && steady_clock::now() >= until)
      return false;
  }
}

} // namespace swarm
