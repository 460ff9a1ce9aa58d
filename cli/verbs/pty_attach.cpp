#include "cli/verbs/pty_attach.hpp"

#include "actors/base/atomic_file.hpp"
#include "actors/base/limits.hpp"
#include "cli/verbs/terminal_modes.hpp"
#include "cli/verbs/typed_keys.hpp"
#include "gateway/client/failure.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
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

// A global, because a signal handler can reach nothing else.
int event_pipe[2] = {-1, -1};

void post(char event) {
  auto saved = errno;
  [[maybe_unused]] auto n = write(event_pipe[1], &event, 1);
  errno = saved;
}

constexpr char resized = 'w';
constexpr char told_to_stop = 's';
constexpr char stream_over = 'e';
constexpr char node_left = 'l';
constexpr char keys_unknown = 'k'; // and it left
constexpr char node_came = 'c';

/// While this lives, SIGWINCH and the signals that would end the process become bytes on the pipe.
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

/// Errors are ignored: when the terminal is gone, SIGHUP ends the attachment.
void write_out(std::string_view bytes) { write_all(STDOUT_FILENO, bytes); }

/// Not into a file or a pipe, where it would pass for output.
void write_notice(std::string_view text) { write_all(isatty(STDOUT_FILENO) == 1 ? STDOUT_FILENO : STDERR_FILENO, text); }

std::optional<v1::TerminalSize> size_here() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0)
    return std::nullopt;
  v1::TerminalSize out;
  out.set_columns(std::min<std::uint32_t>(size.ws_col, 1000));
  out.set_rows(std::min<std::uint32_t>(size.ws_row, 1000));
  return out;
}

/// The title of the window while this lives: a full-screen program draws over lines, not over this.
class window_title {
public:
  explicit window_title(const std::string& text) : shown_(!text.empty()) {
    if (shown_)
      write_out("\x1b[22;0t\x1b]2;" + text + "\a");
  }
  ~window_title() {
    if (shown_)
      write_out("\x1b[23;0t");
  }
  window_title(const window_title&) = delete;
  window_title& operator=(const window_title&) = delete;

private:
  bool shown_;
};

/// One attachment, until the program ends or the user leaves. It lasts over several streams, so that a restart of the node is only a pause.
class attached_terminal {
public:
  attached_terminal(pty_port& ptys, std::string id, const attach_settings& s) : ptys_(ptys), id_(std::move(id)), settings_(s) {}

  attach_end run() {
    {
      signal_events events;
      raw_terminal raw;
      open(ptys_.attach(), false);
      window_title title{settings_.title};
      std::thread reader{[this] { read_all(); }};
      const bool left = carry_input();
      leave(left);
      reader.join();
      end_.detached = left && !program_ended_;
      // The shell gets this terminal back, and must not find mouse reports or the alternate screen switched on.
      if (isatty(STDOUT_FILENO) == 1)
        write_out(modes_.undo());
    }
    if (failed_)
      std::rethrow_exception(failed_);
    return end_;
  }

private:
  // -- the reader thread: output, and attaching again ---------------------------------------------

  void read_all() {
    try {
      while (!read_stream() && come_back())
        ;
    } catch (...) {
      failed_ = std::current_exception();
    }
    post(stream_over);
  }

  /// True when the program has ended or the user has left; false when the stream broke.
  bool read_stream() {
    auto stream = current();
    for (v1::PtyChunk chunk; stream->read(chunk);) {
      pause_ = {};
      if (is_confirmation(chunk))
        continue;
      next_ = chunk.offset() + chunk.data().size();
      modes_.take(chunk.data());
      write_out(chunk.data());
      if (!chunk.ended())
        continue;
      end_.exit_status = chunk.exit_status();
      end_.signal = chunk.signal();
      program_ended_ = true;
      stream->finish();
      return true;
    }
    lose_stream();
    return stream->finish() || left_;
  }

  /// Whether the node only says that the terminal is attached, or that the oldest input on its way was taken.
  bool is_confirmation(const v1::PtyChunk& chunk) {
    const bool says_nothing = chunk.data().empty() && chunk.gap() == 0 && !chunk.ended();
    if (std::exchange(heard_, true)) {
      std::lock_guard guard{mutex_};
      if (says_nothing)
        keys_.taken();
      return says_nothing;
    }
    confirms_ = confirms_ || says_nothing;
    if (!is_attached())
      be_attached();
    return says_nothing;
  }

  /// Keys may go out, first those that were typed meanwhile.
  void be_attached() {
    {
      std::lock_guard writing{write_mutex_};
      v1::AttachFrame kept;
      {
        std::lock_guard guard{mutex_};
        attached_ = true;
        kept.set_input(keys_.back());
        if (!kept.input().empty())
          keys_.sent();
      }
      if (!kept.input().empty())
        current()->write(kept);
    }
    post(node_came);
  }

  void lose_stream() {
    std::lock_guard writing{write_mutex_};
    std::lock_guard guard{mutex_};
    stream_ = nullptr; // nobody must write to it any more
    // The node may be back without the terminal's node: that is one absence.
    if (std::exchange(attached_, false))
      post(keys_.lost() ? keys_unknown : node_left);
  }

  /// Attaches again as soon as the node is back. False when the user leaves meanwhile.
  bool come_back() {
    auto began = std::chrono::steady_clock::now();
    while (!left_) {
      wait_a_little();
      if (auto fresh = left_ ? nullptr : ptys_.attach_again()) {
        open(std::move(fresh), true);
        return true;
      }
      // Without a user who could leave, the wait needs a limit.
      if (!settings_.may_leave && std::chrono::steady_clock::now() - began > settings_.patience)
        throw failure(code::no_node, "the node went away and did not come back; the program goes on: attach again");
    }
    return false;
  }

  /// At first not at all. A node that is back may not reach the terminal's node yet, and then it ends one stream after the other.
  void wait_a_little() {
    std::unique_lock lock{mutex_};
    changed_.wait_for(lock, pause_, [this] { return left_.load(); });
    pause_ = std::clamp(2 * pause_, limits::pty_reopen_pause_min, limits::pty_reopen_pause_max);
  }

  void open(std::unique_ptr<pty_stream> stream, bool again) {
    v1::AttachFrame hello;
    hello.set_pty_id(id_);
    hello.set_tail(!again || next_ == 0);
    hello.set_from(next_);
    if (auto size = size_here())
      *hello.mutable_size() = *size;
    stream->write(hello); // a failure shows when the stream is read
    heard_ = false;
    {
      std::lock_guard guard{mutex_};
      stream_ = std::move(stream);
      attached_ = !again;
    }
    // Keys may be lost with a stream that does not get as far as to the terminal, so they wait for its first answer; a node of an earlier version
    // gives none.
    if (again && !confirms_)
      be_attached();
  }

  // -- the main thread: input ---------------------------------------------------------------------

  std::shared_ptr<pty_stream> current() {
    std::lock_guard guard{mutex_};
    return stream_;
  }

  bool is_attached() {
    std::lock_guard guard{mutex_};
    return attached_;
  }

  void send(const v1::AttachFrame& frame) {
    std::lock_guard writing{write_mutex_};
    if (auto stream = current())
      stream->write(frame);
  }

  /// Keys that cannot be sent now are kept for as long as a restart takes. Later, the program may be in another state, where the same keys mean
  /// something else. What a stream does not take is lost with it, and may have arrived all the same.
  void send_keys(std::string_view keys) {
    std::lock_guard writing{write_mutex_};
    bool kept = false;
    std::shared_ptr<pty_stream> stream;
    {
      std::lock_guard guard{mutex_};
      if (attached_) {
        stream = stream_;
        keys_.sent();
      } else {
        kept = keys_.keep(keys);
      }
    }
    if (stream) {
      v1::AttachFrame frame;
      frame.set_input(std::string{keys});
      stream->write(frame);
    } else if (!kept) {
      write_out("\a");
      if (!std::exchange(told_, true))
        write_notice(settings_.dropped_notice);
    }
  }

  void leave(bool left) {
    bool dropped = false;
    {
      std::lock_guard guard{mutex_};
      left_ = left;
      dropped = keys_.drop();
      // Only a user who leaves cuts the stream off; otherwise it has ended by itself.
      if (left && stream_)
        stream_->cancel();
    }
    changed_.notify_all();
    if (dropped)
      write_notice(settings_.dropped_notice);
    if (left && settings_.give_up)
      settings_.give_up();
  }

  /// What the input means for the attachment.
  enum class typed_end { go_on, leave, input_over };
  typed_end send_typed() {
    char buffer[4096];
    auto n = ::read(STDIN_FILENO, buffer, sizeof buffer);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
      return typed_end::go_on;
    if (n <= 0)
      return typed_end::input_over;
    std::string_view typed{buffer, static_cast<std::size_t>(n)};
    auto key = typed.find(settings_.detach_key);
    if (auto keys = typed.substr(0, key); !keys.empty())
      send_keys(keys);
    return key == std::string_view::npos ? typed_end::go_on : typed_end::leave;
  }

  void send_size() {
    v1::AttachFrame frame;
    if (auto size = size_here()) {
      *frame.mutable_size() = *size;
      send(frame);
    }
  }

  /// Makes the program redraw its screen by changing the size for a moment.
  void have_it_drawn_again() {
    v1::AttachFrame frame;
    auto size = size_here();
    if (!size || size->rows() < 2)
      return;
    *frame.mutable_size() = *size;
    frame.mutable_size()->set_rows(size->rows() - 1);
    send(frame);
    send_size();
  }

  /// For poll(); typing does not put it off.
  int until_notice() const {
    if (!notice_at_)
      return -1;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*notice_at_ - std::chrono::steady_clock::now());
    return static_cast<int>(std::max<std::int64_t>(left.count(), 0));
  }

  /// The node stays away for longer than a restart takes: what comes now is not kept, nor what came since it went.
  void tell_of_absence() {
    notice_at_.reset();
    bool dropped = false;
    {
      std::lock_guard guard{mutex_};
      if (attached_)
        return; // it has just come
      dropped = keys_.drop();
    }
    const bool shown = isatty(STDOUT_FILENO) == 1;
    if (dropped)
      write_notice(settings_.dropped_notice);
    if (shown)
      write_out(settings_.away_notice);
    told_ = told_ || dropped || shown;
  }

  void take_event(char event) {
    switch (event) {
      case resized: send_size(); break;
      case node_left: notice_at_ = std::chrono::steady_clock::now() + limits::pty_away_notice; break;
      case keys_unknown:
        write_notice(settings_.unknown_notice);
        told_ = true;
        notice_at_.reset();
        break;
      case node_came:
        if (std::exchange(told_, false))
          have_it_drawn_again();
        notice_at_.reset();
        break;
      default: break;
    }
  }

  /// Passes input and sizes on until the user leaves (true) or the output is over (false).
  bool carry_input() {
    std::array<pollfd, 2> fds{pollfd{STDIN_FILENO, POLLIN, 0}, pollfd{event_pipe[0], POLLIN, 0}};
    for (;;) {
      if (poll(fds.data(), fds.size(), until_notice()) < 0)
        continue; // interrupted by a signal: its event is in the pipe
      if (until_notice() == 0)
        tell_of_absence();
      char event = 0;
      if (fds[1].revents != 0 && ::read(event_pipe[0], &event, 1) == 1) {
        if (event == told_to_stop || event == stream_over)
          return event == told_to_stop;
        take_event(event);
      }
      auto typed = fds[0].revents != 0 ? send_typed() : typed_end::go_on;
      if (typed == typed_end::input_over && settings_.stay)
        fds[0].fd = -1;
      else if (typed != typed_end::go_on)
        return true;
    }
  }

  pty_port& ptys_;
  const std::string id_;
  const attach_settings& settings_;
  std::mutex write_mutex_; // held while one writes, which may last until the node takes it; before the other
  std::mutex mutex_;
  std::condition_variable changed_;
  std::shared_ptr<pty_stream> stream_; // null while the node is away
  typed_keys keys_;
  bool attached_ = false; // keys may go out
  // Only the main thread uses these.
  bool told_ = false; // the user knows that keys are lost
  std::optional<std::chrono::steady_clock::time_point> notice_at_;
  std::atomic<bool> left_ = false;
  // Only the reader thread uses these until it has ended, and `open` before it begins.
  bool heard_ = false;    // something came on this stream
  bool confirms_ = false; // the node says what it has taken
  std::uint64_t next_ = 0;
  terminal_modes modes_;
  attach_end end_;
  bool program_ended_ = false;
  std::chrono::milliseconds pause_{0}; // before the next attempt
  std::exception_ptr failed_;
};

} // namespace

attach_end attach_terminal(pty_port& ptys, const std::string& pty_id, const attach_settings& settings) {
  return attached_terminal{ptys, pty_id, settings}.run();
}

} // namespace swarm::cli
