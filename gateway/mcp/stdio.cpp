#include "gateway/mcp/stdio.hpp"

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "actors/base/limits.hpp"
#include "actors/base/unique_fd.hpp"
#include "gateway/mcp/server.hpp"

namespace swarm::mcp {

namespace {

/// Cuts what comes into lines. One that is too long is passed over whole.
class line_reader {
public:
  /// Calls `line` for each whole line and `too_long` once for each that is not taken.
  template <class Line, class TooLong>
  void take(std::string_view bytes, Line line, TooLong too_long) {
    while (!bytes.empty()) {
      auto end = bytes.find('\n');
      auto part = bytes.substr(0, end);
      bytes.remove_prefix(end == bytes.npos ? bytes.size() : end + 1);
      if (!skipping_ && pending_.size() + part.size() > limits::mcp_line_bytes_max) {
        skipping_ = true;
        pending_ = {};
        too_long();
      }
      if (!skipping_)
        pending_.append(part);
      if (end == std::string_view::npos)
        continue;
      if (!skipping_ && pending_.find_first_not_of(" \t\r") != pending_.npos)
        line(std::string_view{pending_});
      skipping_ = false;
      // One long line must not be kept for ever.
      if (pending_.capacity() > kept_bytes)
        pending_ = {};
      pending_.clear();
    }
  }

private:
  static constexpr std::size_t kept_bytes = 64 * 1024;
  std::string pending_;
  bool skipping_ = false;
};

/// Writes whole lines; gives up when the reader has gone or close() was called.
class line_writer {
public:
  /// `signals`: readable when the process is to end.
  line_writer(int fd, int signals) : fd_(fd), signals_(signals), closing_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

  void write(std::string line) {
    line += '\n';
    for (std::string_view rest = line; !rest.empty() && !gone_;) {
      pollfd ready[] = {{fd_, POLLOUT, 0}, {closing_.get(), POLLIN, 0}, {signals_, POLLIN, 0}};
      if (poll(ready, 3, -1) < 0 && errno != EINTR)
        break;
      if (ready[1].revents != 0 || ready[2].revents != 0) {
        gone_ = true;
        return;
      }
      if (ready[0].revents == 0)
        continue;
      // A pipe that is ready takes so much without blocking. It may be shared with others, so it is not made non-blocking.
      auto n = ::write(fd_, rest.data(), std::min<std::size_t>(rest.size(), PIPE_BUF));
      if (n > 0)
        rest.remove_prefix(static_cast<std::size_t>(n));
      else if (n < 0 && errno != EINTR && errno != EAGAIN)
        gone_ = true;
    }
  }
  void close() {
    std::uint64_t one = 1;
    (void)!::write(closing_.get(), &one, sizeof one);
  }
  bool gone() const noexcept { return gone_; }

private:
  int fd_;
  int signals_;
  unique_fd closing_;
  std::atomic<bool> gone_{false};
};

unique_fd take_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (auto s : {SIGINT, SIGTERM, SIGHUP})
    sigaddset(&set, s);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  return unique_fd{signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK)};
}

} // namespace

int serve_stdio(const host& process, tool_table& tools, int in, int out) {
  auto signals = take_signals();
  line_writer writer{out, signals.get()};
  unique_fd room{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  server mcp{process, tools, [&](const std::string& line) { writer.write(line); },
             [&] {
               std::uint64_t one = 1;
               (void)!::write(room.get(), &one, sizeof one);
             }};
  line_reader lines;
  std::array<char, limits::mcp_read_bytes> buffer; // NOLINT: filled before it is read
  for (;;) {
    auto next_word = mcp.tell_progress();
    // A client that asks faster than is answered waits; signals are heard all the same.
    pollfd ready[] = {{mcp.is_full() ? -1 : in, POLLIN, 0}, {signals.get(), POLLIN, 0}, {out, 0, 0}, {room.get(), POLLIN, 0}};
    if (poll(ready, 4, next_word ? static_cast<int>(next_word->count()) : -1) < 0) {
      if (errno == EINTR)
        continue;
      break;
    }
    // Nobody is left to answer, or somebody wants it to end.
    if (ready[1].revents != 0 || (ready[2].revents & (POLLERR | POLLNVAL)) != 0 || writer.gone())
      break;
    if (std::uint64_t count = 0; ready[3].revents != 0)
      (void)!read(room.get(), &count, sizeof count);
    if (ready[0].revents == 0)
      continue;
    auto n = read(in, buffer.data(), buffer.size());
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
      continue;
    if (n <= 0) {
      mcp.finish_queue(limits::mcp_finish_deadline());
      break;
    }
    lines.take(
      {buffer.data(), static_cast<std::size_t>(n)},
      [&](std::string_view line) {
        if (!writer.gone())
          mcp.receive(line);
      },
      [&] { mcp.refuse_line("A line is at most " + std::to_string(limits::mcp_line_bytes_max) + " bytes long"); });
  }
  writer.close();
  mcp.stop();
  return 0;
}

} // namespace swarm::mcp
