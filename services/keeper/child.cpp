#include "services/keeper/child.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "actors/base/limits.hpp"

namespace swarm::keeper {

namespace {

// More than the kernel holds for one terminal or pipe; a descendant that keeps writing cannot hold the keeper longer than this.
constexpr std::size_t status_text_max = 8 * limits::kib;
constexpr std::string_view spawn_id_variable = "SWARM_SPAWN_ID=";

std::string marker_of(const internal::StartChild& start) {
  for (const auto& e : start.environment())
    if (e.compare(0, spawn_id_variable.size(), spawn_id_variable) == 0)
      return e.substr(spawn_id_variable.size());
  return {};
}

} // namespace

child::child(event_loop& loop, const clock_port& clock, child_owner& owner, const internal::StartChild& start, const rlimit& files)
  : loop_(loop), clock_(clock), owner_(owner), id_(start.id()), attempt_(start.attempt()), pipes_(start.pipes()), ring_(start.ring_bytes()),
    process_(launch(start, files)), subtree_{process_.pid, process_.start, marker_of(start)} {
  output_watch_ = loop_.watch(process_.output.get(), EPOLLIN, [this](std::uint32_t) { read_output(); });
  status_watch_ = loop_.watch(process_.status.get(), EPOLLIN, [this](std::uint32_t) { read_status(); });
}

child::~child() {
  for (auto w : {output_watch_, input_watch_, status_watch_})
    loop_.remove(w);
  loop_.cancel(room_timer_);
}

void child::open_gate() {
  if (!is_held() || !process_.gate)
    return;
  // One byte into an empty pipe cannot fail but when the child is dead, and then it is reaped.
  if (::write(process_.gate.get(), &gate_opened, 1) == 1)
    opened_ms_ = clock_.boot_ms();
  process_.gate.reset();
  if (phase_ == phase::at_gate)
    phase_ = phase::running;
}

// -- output ----------------------------------------------------------------------------

std::uint64_t child::room() const noexcept {
  return holds_output_ && !let_go_ ? ring_.capacity() - std::min(ring_.capacity(), ring_.end() - taken_output_) : ring_.capacity();
}

void child::hold_output(bool on) {
  holds_output_ = on;
  wait_no_more();
  let_go_ = false;
  room_made();
}

void child::output_taken(std::uint64_t end) {
  end = std::min(end, ring_.end());
  if (end <= taken_output_)
    return;
  taken_output_ = end;
  wait_no_more();
  let_go_ = false;
  room_made();
}

void child::room_made() {
  if (room() == 0)
    return wait_for_room();
  if (process_.output && output_watch_ == 0)
    output_watch_ = loop_.watch(process_.output.get(), EPOLLIN, [this](std::uint32_t) { read_output(); });
  if (finishing_ && finish_output())
    owner_.output_finished(*this);
}

void child::wait_for_room() {
  // A watch that waits for nothing would still hear that the program hung up.
  loop_.remove(std::exchange(output_watch_, 0));
  if (process_.output && room_timer_ == 0)
    room_timer_ = loop_.after(limits::keeper_output_hold(), [this] { hold_passed(); });
}

/// One at a time: when the machine has slept, swarmd has its time after that.
void child::hold_passed() {
  room_timer_ = 0;
  let_go_ = ++holds_passed_ >= limits::keeper_stuck_holds;
  room_made();
}

void child::wait_no_more() {
  loop_.cancel(std::exchange(room_timer_, 0));
  holds_passed_ = 0;
}

bool child::finish_output() {
  if (!std::exchange(finishing_, true))
    drain_end_ = ring_.end() + limits::keeper_drain_bytes_max;
  drain_output();
  finishing_ = process_.output && room() == 0 && ring_.end() < drain_end_;
  return !finishing_;
}

/// False when nothing is there now or never again.
bool child::read_some() {
  static std::array<char, limits::pty_chunk_bytes_max> buffer;
  const auto most = std::min<std::uint64_t>(buffer.size(), room());
  if (most == 0) {
    wait_for_room();
    return false;
  }
  auto n = read(process_.output.get(), buffer.data(), most);
  if (n > 0) {
    ring_.append({buffer.data(), static_cast<std::size_t>(n)});
    owner_.output_advanced(*this);
    return true;
  }
  if (n < 0 && errno == EINTR)
    return true;
  if (n == 0 || errno != EAGAIN)
    close_output();
  return false;
}

void child::read_output() { read_some(); }

void child::drain_output() {
  while (process_.output && ring_.end() < drain_end_ && read_some()) {
  }
}

void child::close_output() {
  loop_.remove(std::exchange(output_watch_, 0));
  process_.output.reset();
  wait_no_more();
}

// -- what the child says on its way to the program -----------------------------------------

void child::read_status() {
  char buffer[1024];
  ssize_t n = 0;
  while (process_.status && (n = read(process_.status.get(), buffer, sizeof buffer)) > 0)
    if (status_text_.size() < status_text_max)
      status_text_.append(buffer, static_cast<std::size_t>(n));
  if (n == 0)
    close_status();
  if (phase_ == phase::preparing && !status_text_.empty() && status_text_[0] == gate_reached) {
    phase_ = process_.gate ? phase::at_gate : phase::running;
    owner_.at_gate(*this);
  }
}

void child::close_status() {
  loop_.remove(std::exchange(status_watch_, 0));
  process_.status.reset();
}

// -- input -----------------------------------------------------------------------------

void child::write(std::uint64_t ticket, std::string data, const std::string& request) {
  if (has_exited() || !process_.input)
    return owner_.input_accepted(*this, ticket, 0, true);
  // The last caller may have died with the answer, or while the program did not read.
  if (!request.empty()) {
    for (auto& s : input_)
      if (s.request == request)
        return s.tickets.push_back(ticket);
    for (const auto& taken : taken_)
      if (taken.request() == request)
        return owner_.input_accepted(*this, ticket, taken.bytes(), false);
  }
  if (data.size() > limits::pty_input_bytes_max || input_bytes_ + data.size() > limits::keeper_input_staging_bytes() ||
      input_.size() >= limits::keeper_input_tickets_max())
    return owner_.input_accepted(*this, ticket, 0, false);
  auto ends = data.empty() && pipes_;
  if (!request.empty() && request.size() <= limits::pty_request_bytes_max) {
    auto& taken = taken_.emplace_back();
    taken.set_request(request);
    taken.set_bytes(data.size());
    if (taken_.size() > limits::keeper_inputs_remembered_max)
      taken_.pop_front();
  }
  input_bytes_ += data.size();
  input_.push_back({{ticket}, request, std::move(data), 0, ends});
  write_staged();
}

void child::forget_tickets() {
  for (auto& s : input_)
    s.tickets.clear();
}

void child::accepted(const std::vector<std::uint64_t>& tickets, std::uint64_t bytes, bool closed) {
  for (auto ticket : tickets)
    owner_.input_accepted(*this, ticket, bytes, closed);
}

void child::write_staged() {
  while (!input_.empty()) {
    auto& s = input_.front();
    if (s.ends_input)
      return close_input();
    auto left = s.data.size() - s.written;
    auto n = left == 0 ? 0 : ::write(process_.input.get(), s.data.data() + s.written, left);
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0 && errno == EAGAIN)
      break;
    if (n < 0)
      return close_input();
    s.written += static_cast<std::size_t>(n);
    if (s.written < s.data.size())
      continue;
    auto tickets = std::move(s.tickets);
    auto bytes = s.written;
    input_bytes_ -= bytes;
    input_.pop_front();
    accepted(tickets, bytes, false);
  }
  if (input_.empty())
    loop_.remove(std::exchange(input_watch_, 0));
  else if (input_watch_ == 0)
    input_watch_ = loop_.watch(process_.input.get(), EPOLLOUT, [this](std::uint32_t) { write_staged(); });
}

void child::close_input() {
  loop_.remove(std::exchange(input_watch_, 0));
  process_.input.reset();
  auto unwritten = std::exchange(input_, {});
  input_bytes_ = 0;
  for (const auto& s : unwritten)
    accepted(s.tickets, s.written, true);
}

void child::resize(std::uint32_t columns, std::uint32_t rows) {
  if (!pipes_ && process_.output)
    set_size(process_.output.get(), columns, rows);
}

// -- the end -----------------------------------------------------------------------------

void child::reaped(int wait_status) {
  read_status();
  auto reached_gate = phase_ != phase::preparing;
  drain_end_ = ring_.end() + limits::keeper_drain_bytes_max;
  drain_output();
  if (!reached_gate)
    setup_error_ = status_text_.empty() ? "the process ended before its program could start" : status_text_.substr(1);
  else if (status_text_.size() > 1) {
    ring_.append(std::string_view{status_text_}.substr(1));
    owner_.output_advanced(*this);
  }
  phase_ = phase::exited;
  exit_status_ = WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 0;
  exit_signal_ = WIFSIGNALED(wait_status) ? WTERMSIG(wait_status) : 0;
  duration_ms_ = opened_ms_ < 0 ? 0 : clock_.boot_ms() - opened_ms_;
  close_status();
  close_input();
  process_.gate.reset();
  process_.slave.reset();
}

} // namespace swarm::keeper
