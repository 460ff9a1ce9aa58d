#include "cli/verbs/pty_attach.hpp"

#include "actors/base/limits.hpp"
#include "gateway/client/failure.hpp"

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

namespace swarm::cli {

namespace {

class raw_terminal {
public:
  raw_terminal() : active_(tcgetattr(STDIN_FILENO, &saved_) == 0) {
    if (!active_)
      return;
    termios raw = saved_;
    cfmakeraw(&raw);
    tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
  }
  ~raw_terminal() {
    if (active_)
      tcsetattr(STDIN_FILENO, TCSADRAIN, &saved_);
  }
  raw_terminal(const raw_terminal&) = delete;
  raw_terminal& operator=(const raw_terminal&) = delete;

private:
  termios saved_{};
  bool active_;
};

// Handlers reach nothing but globals.
int event_pipe[2] = {-1, -1};

void post(char event) {
  auto saved = errno;
  [[maybe_unused]] auto n = write(event_pipe[1], &event, 1);
  errno = saved;
}

constexpr char resized = 'w';
constexpr char told_to_stop = 's';
constexpr char stream_over = 'e';

/// SIGWINCH and the signals that would end us become bytes on the pipe, for as long as this lives.
class signal_events {
public:
  signal_events() {
    if (pipe2(event_pipe, O_CLOEXEC | O_NONBLOCK) != 0)
      throw failure(code::refused, "cannot make a pipe");
    struct sigaction window {};
    window.sa_handler = [](int) { post(resized); };
    struct sigaction stop {};
    stop.sa_handler = [](int) { post(told_to_stop); };
    for (std::size_t i = 0; i < signals.size(); ++i)
      sigaction(signals[i], signals[i] == SIGWINCH ? &window : &stop, &previous_[i]);
  }
  ~signal_events() {
    for (std::size_t i = 0; i < signals.size(); ++i)
      sigaction(signals[i], &previous_[i], nullptr);
    for (auto& fd : event_pipe)
      close(std::exchange(fd, -1));
  }
  signal_events(const signal_events&) = delete;
  signal_events& operator=(const signal_events&) = delete;

private:
  static constexpr std::array signals{SIGWINCH, SIGTERM, SIGHUP, SIGINT, SIGQUIT};
  std::array<struct sigaction, signals.size()> previous_{};
};

void write_out(std::string_view bytes) {
  while (!bytes.empty()) {
    auto n = write(STDOUT_FILENO, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0 && errno == EAGAIN) {
      pollfd p{STDOUT_FILENO, POLLOUT, 0};
      poll(&p, 1, -1);
      continue;
    }
    if (n <= 0)
      return;
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
}

bool send_size(pty_stream& stream) {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0)
    return true;
  v1::AttachFrame frame;
  frame.mutable_size()->set_columns(std::min<std::uint32_t>(size.ws_col, 1000));
  frame.mutable_size()->set_rows(std::min<std::uint32_t>(size.ws_row, 1000));
  return stream.write(frame);
}

enum class typed_end { go_on, leave, input_over, stream_gone };

/// What was typed, up to the detach key.
typed_end send_typed(pty_stream& stream, char detach_key) {
  char buffer[4096];
  auto n = read(STDIN_FILENO, buffer, sizeof buffer);
  if (n < 0 && (errno == EINTR || errno == EAGAIN))
    return typed_end::go_on;
  if (n <= 0)
    return typed_end::input_over;
  std::string_view typed{buffer, static_cast<std::size_t>(n)};
  auto key = typed.find(detach_key);
  v1::AttachFrame frame;
  frame.set_input(std::string{typed.substr(0, key)});
  if (!frame.input().empty() && !stream.write(frame))
    return typed_end::stream_gone;
  return key == std::string_view::npos ? typed_end::go_on : typed_end::leave;
}

/// Until the user leaves or the stream is over. True: the user left. `stay`: the end of the input does not mean that.
bool carry_input(pty_stream& stream, char detach_key, bool stay) {
  std::array<pollfd, 2> fds{pollfd{STDIN_FILENO, POLLIN, 0}, pollfd{event_pipe[0], POLLIN, 0}};
  for (;;) {
    if (poll(fds.data(), fds.size(), -1) < 0)
      continue; // interrupted: the event is in the pipe
    if (fds[1].revents != 0) {
      char event = 0;
      if (read(event_pipe[0], &event, 1) == 1 && event != resized)
        return event == told_to_stop;
      if (event == resized && !send_size(stream))
        return false;
    }
    auto typed = fds[0].revents != 0 ? send_typed(stream, detach_key) : typed_end::go_on;
    if (typed == typed_end::input_over && stay)
      fds[0].fd = -1;
    else if (typed != typed_end::go_on)
      return typed != typed_end::stream_gone;
  }
}

} // namespace

std::optional<char> parse_detach_key(std::string_view text) {
  if (text.size() == 1)
    return text[0];
  if (text.size() != 2 || text[0] != '^')
    return std::nullopt;
  auto c = text[1] >= 'a' && text[1] <= 'z' ? static_cast<char>(text[1] - 'a' + 'A') : text[1];
  if (c < '@' || c > '_')
    return std::nullopt;
  return static_cast<char>(c - '@');
}

attach_end attach_terminal(pty_port& ptys, const std::string& pty_id, char detach_key, bool stay) {
  auto stream = ptys.attach();
  v1::AttachFrame hello;
  hello.set_pty_id(pty_id);
  hello.set_tail(true);
  attach_end end;
  end.detached = true;
  {
    signal_events events;
    raw_terminal raw;
    bool open = stream->write(hello) && send_size(*stream);
    std::atomic<bool> program_ended = false;
    std::thread reader{[&] {
      v1::PtyChunk chunk;
      while (stream->read(chunk)) {
        write_out(chunk.data());
        if (!chunk.ended())
          continue;
        end.exit_status = chunk.exit_status();
        end.signal = chunk.signal();
        program_ended = true;
        break;
      }
      post(stream_over);
    }};
    bool left = open && carry_input(*stream, detach_key, stay);
    // A stream that took no more input is over, and what it still holds is to be read.
    if (left)
      stream->cancel();
    reader.join();
    end.detached = left && !program_ended;
    if (!left && !program_ended) {
      stream->finish();
      throw failure(code::no_node, "the connection to the node was lost; the program goes on: attach again");
    }
  }
  stream->finish();
  return end;
}

} // namespace swarm::cli
