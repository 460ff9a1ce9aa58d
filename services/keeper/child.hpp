// One worker process of the keeper: its streams, its ring and its way from the gate to its exit status.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <sys/resource.h>

#include "actors/base/clock.hpp"
#include "actors/base/event_loop.hpp"
#include "actors/base/ring.hpp"
#include "services/keeper/launch.hpp"
#include "services/keeper/subtree.hpp"

namespace swarm::keeper {

class child;

/// Who hears of a child. Calls come from the event loop or from within the child's own functions.
class child_owner {
public:
  virtual ~child_owner() = default;
  virtual void at_gate(child&) = 0;
  /// The ring has grown; may be called often.
  virtual void output_advanced(child&) = 0;
  /// `bytes` of the ticket's input reached the kernel. 0 and not closed: refused because too much input waits.
  virtual void input_accepted(child&, std::uint64_t ticket, std::uint64_t bytes, bool closed) = 0;
  /// The rest of the output, for which finish_output() had found no room, is in the ring.
  virtual void output_finished(child&) = 0;
};

class child {
public:
  enum class phase { preparing, at_gate, running, exited };

  /// Launches it. Throws std::runtime_error with a text for the user.
  child(event_loop&, const clock_port&, child_owner&, const internal::StartChild&, const rlimit& files);
  ~child();
  child(const child&) = delete;
  child& operator=(const child&) = delete;

  const std::string& id() const noexcept { return id_; }
  std::uint32_t attempt() const noexcept { return attempt_; }
  pid_t pid() const noexcept { return process_.pid; }
  std::uint64_t pid_start() const noexcept { return process_.start; }
  phase now() const noexcept { return phase_; }
  bool is_held() const noexcept { return phase_ == phase::preparing || phase_ == phase::at_gate; }
  bool has_exited() const noexcept { return phase_ == phase::exited; }
  /// Why it never came to the gate; empty while that is not so.
  const std::string& setup_error() const noexcept { return setup_error_; }
  int ring_fd() const noexcept { return ring_.fd(); }
  std::uint64_t output_end() const noexcept { return ring_.end(); }
  int exit_status() const noexcept { return exit_status_; }
  int exit_signal() const noexcept { return exit_signal_; }
  /// Set before its first signal: how it ends then is not its own verdict.
  void end_requested() noexcept { ended_on_request_ = ended_on_request_ || !has_exited(); }
  bool ended_on_request() const noexcept { return ended_on_request_; }
  /// From the opening of the gate to the exit.
  std::int64_t duration_ms() const noexcept { return duration_ms_; }
  const subtree& processes() const noexcept { return subtree_; }
  /// The newest inputs that came with a request, oldest first.
  const std::deque<internal::TakenInput>& taken_inputs() const noexcept { return taken_; }

  /// On: output is read only as far as the ring has room above what was taken, so the program waits, but not for ever while nothing is taken.
  /// Off: the ring keeps the newest.
  void hold_output(bool);
  /// Up to here it is kept elsewhere.
  void output_taken(std::uint64_t end);
  /// Reads what is left after the end of everything. False: there is no room for it; output_finished() follows.
  bool finish_output();

  void open_gate();
  /// Input at most limits::pty_input_bytes_max. No bytes: with pipes stdin ends after what is staged and the ticket is answered closed.
  /// One whose request is among the taken ones is answered as that was, and not typed.
  void write(std::uint64_t ticket, std::string data, const std::string& request);
  /// Their writer is gone: what is staged is written, and nobody is told.
  void forget_tickets();
  void resize(std::uint32_t columns, std::uint32_t rows);
  /// The process was waited for: takes the last output, then is exited.
  void reaped(int wait_status);
  /// It has exited, and so has everything that it had started.
  bool is_over() const noexcept { return over_; }
  void everything_ended() { over_ = true; }

private:
  struct staged {
    std::vector<std::uint64_t> tickets;
    std::string request;
    std::string data;
    std::size_t written = 0;
    bool ends_input = false;
  };

  std::uint64_t room() const noexcept;
  void room_made();
  void wait_for_room();
  void hold_passed();
  void wait_no_more();
  bool read_some();
  void read_output();
  void drain_output();
  void close_output();
  void read_status();
  void close_status();
  void write_staged();
  void close_input();
  void accepted(const std::vector<std::uint64_t>& tickets, std::uint64_t bytes, bool closed);

  event_loop& loop_;
  const clock_port& clock_;
  child_owner& owner_;
  std::string id_;
  std::uint32_t attempt_;
  bool pipes_;
  ring_writer ring_;
  launched process_;
  subtree subtree_;
  phase phase_ = phase::preparing;
  std::string status_text_;
  std::string setup_error_;
  std::deque<staged> input_;
  std::size_t input_bytes_ = 0;
  std::deque<internal::TakenInput> taken_;
  std::int64_t opened_ms_ = -1;
  std::int64_t duration_ms_ = 0;
  int exit_status_ = 0;
  int exit_signal_ = 0;
  bool ended_on_request_ = false;
  bool over_ = false;
  bool holds_output_ = false;
  bool let_go_ = false;            // nothing has been taken for long
  int holds_passed_ = 0;           // since there is no room
  bool finishing_ = false;         // finish_output() waits for room
  std::uint64_t taken_output_ = 0; // bytes since the start
  std::uint64_t drain_end_ = 0;    // how far is read after the end
  event_loop::token output_watch_ = 0;
  event_loop::token room_timer_ = 0;
  event_loop::token input_watch_ = 0;
  event_loop::token status_watch_ = 0;
};

} // namespace swarm::keeper
