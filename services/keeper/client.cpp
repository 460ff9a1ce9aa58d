#include "services/keeper/client.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "services/keeper/connect.hpp"

namespace swarm {

namespace {

using keeper::frame_stream;

unique_fd attach(const keeper_client_options& o) {
  auto program = !o.may_start ? std::filesystem::path{} : o.program.empty() ? keeper::default_program() : o.program;
  auto socket = keeper::connect_or_start(o.dir, program, o.deadline);
  if (!o.objection)
    return socket;
  auto who = keeper::peer_of(socket.get());
  if (!who)
    throw std::runtime_error("the keeper has just ended");
  if (auto why = o.objection(*who); !why.empty())
    throw std::runtime_error(why);
  return socket;
}

void watch(int epoll, int op, int fd, std::uint32_t events) {
  epoll_event e{};
  e.events = events;
  e.data.fd = fd;
  epoll_ctl(epoll, op, fd, &e);
}

keeper_child to_child(const internal::ChildState& s) {
  keeper_child c;
  c.id = s.id();
  c.attempt = s.attempt();
  c.pid = s.pid();
  c.pid_start = s.pid_start();
  c.at_gate = s.at_gate();
  c.exited = s.exited();
  c.exit_status = s.exit_status();
  c.signal = s.signal();
  c.duration_ms = s.duration_ms();
  c.end = s.end();
  c.ended_on_request = s.ended_on_request();
  for (const auto& taken : s.inputs())
    c.inputs.emplace_back(taken.request(), taken.bytes());
  return c;
}

keeper_exit to_exit(const internal::ChildExited& e) {
  return {e.id(), e.attempt(), e.exit_status(), e.signal(), e.duration_ms(), e.end(), e.ended_on_request()};
}

std::uint32_t to_ms(std::chrono::milliseconds d) { return static_cast<std::uint32_t>(std::clamp<std::int64_t>(d.count(), 0, 0xffffffff)); }

} // namespace

keeper_client::keeper_client(const keeper_client_options& options, keeper_events& events)
  : events_(events), wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), epoll_(epoll_create1(EPOLL_CLOEXEC)), stream_(attach(options)) {
  if (!wake_ || !epoll_)
    throw std::runtime_error("no descriptors left for the keeper's connection");
  watch(epoll_.get(), EPOLL_CTL_ADD, wake_.get(), EPOLLIN);
  watch(epoll_.get(), EPOLL_CTL_ADD, stream_.fd(), EPOLLIN);
  internal::ToKeeper m;
  m.mutable_hello()->set_protocol(keeper::protocol_version);
  m.mutable_hello()->set_swarmd_pid(getpid());
  m.mutable_hello()->set_takes_output(options.takes_output);
  send(m);
  thread_ = std::thread{[this] { run(); }};
}

keeper_client::~keeper_client() {
  stopping_ = true;
  eventfd_write(wake_.get(), 1);
  thread_.join();
}

// -- sending -----------------------------------------------------------------------------

bool keeper_client::send(const internal::ToKeeper& m, bool bounded) {
  auto frame = keeper::encode_frame(m);
  if (frame.empty())
    return false;
  {
    std::lock_guard lock{mutex_};
    if (!connected_ || (bounded && outgoing_bytes_ + frame.size() > limits::keeper_queue_bytes_max()))
      return false;
    outgoing_bytes_ += frame.size();
    outgoing_.push_back(std::move(frame));
  }
  eventfd_write(wake_.get(), 1);
  return true;
}

bool keeper_client::connected() const {
  std::lock_guard lock{mutex_};
  return connected_;
}

bool keeper_client::start(const internal::StartChild& s) {
  internal::ToKeeper m;
  *m.mutable_start() = s;
  return send(m, true);
}

bool keeper_client::open_gate(const std::string& id) {
  internal::ToKeeper m;
  m.mutable_open_gate()->set_id(id);
  return send(m);
}

bool keeper_client::abort(const std::string& id) {
  internal::ToKeeper m;
  m.mutable_abort()->set_id(id);
  return send(m);
}

bool keeper_client::write(const std::string& id, std::uint64_t ticket, std::string_view bytes, const std::string& request) {
  if (bytes.size() > limits::pty_input_bytes_max)
    return false;
  internal::ToKeeper m;
  m.mutable_write()->set_id(id);
  m.mutable_write()->set_ticket(ticket);
  m.mutable_write()->set_data(bytes.data(), bytes.size());
  m.mutable_write()->set_request(request);
  return send(m, true);
}

bool keeper_client::resize(const std::string& id, std::uint32_t columns, std::uint32_t rows) {
  internal::ToKeeper m;
  m.mutable_resize()->set_id(id);
  m.mutable_resize()->set_columns(columns);
  m.mutable_resize()->set_rows(rows);
  return send(m);
}

bool keeper_client::kill(const std::string& id, int signal, std::chrono::milliseconds grace) {
  internal::ToKeeper m;
  m.mutable_kill()->set_id(id);
  m.mutable_kill()->set_signal(signal);
  m.mutable_kill()->set_grace_ms(to_ms(grace));
  return send(m);
}

bool keeper_client::output_taken(const std::string& id, std::uint32_t attempt, std::uint64_t end) {
  if (!holds_output_)
    return false;
  internal::ToKeeper m;
  m.mutable_taken()->set_id(id);
  m.mutable_taken()->set_attempt(attempt);
  m.mutable_taken()->set_end(end);
  return send(m);
}

bool keeper_client::forget(const std::string& id) {
  internal::ToKeeper m;
  m.mutable_forget()->set_id(id);
  return send(m);
}

bool keeper_client::quit(std::chrono::milliseconds grace) {
  internal::ToKeeper m;
  m.mutable_quit()->set_grace_ms(to_ms(grace));
  return send(m);
}

// -- the I/O thread ------------------------------------------------------------------------

void keeper_client::run() {
  std::string reason;
  while (turn(reason)) {
  }
  // What was sent before the destructor is still written, as far as the socket takes it.
  if (stopping_)
    flush(reason);
  {
    std::lock_guard lock{mutex_};
    connected_ = false;
    outgoing_.clear();
  }
  shutdown(stream_.fd(), SHUT_RDWR);
  if (!stopping_)
    events_.disconnected(reason);
}

bool keeper_client::turn(std::string& reason) {
  epoll_event ready[2];
  auto n = epoll_wait(epoll_.get(), ready, 2, -1);
  for (int i = 0; i < n; ++i) {
    if (ready[i].data.fd == wake_.get()) {
      eventfd_t count = 0;
      eventfd_read(wake_.get(), &count);
    } else if ((ready[i].events & ~static_cast<std::uint32_t>(EPOLLOUT)) != 0 && !receive(reason)) {
      return false;
    }
  }
  return flush(reason) && !stopping_;
}

bool keeper_client::flush(std::string& reason) {
  {
    std::lock_guard lock{mutex_};
    for (auto& frame : std::exchange(outgoing_, {}))
      stream_.queue(std::move(frame));
  }
  auto before = stream_.queued_bytes();
  if (stream_.flush() == frame_stream::status::closed) {
    reason = "the keeper closed the connection";
    return false;
  }
  auto left = stream_.queued_bytes();
  {
    std::lock_guard lock{mutex_};
    outgoing_bytes_ -= before - left;
  }
  if (std::exchange(waits_to_write_, left > 0) != (left > 0))
    watch(epoll_.get(), EPOLL_CTL_MOD, stream_.fd(), left > 0 ? EPOLLIN | EPOLLOUT : EPOLLIN);
  return true;
}

bool keeper_client::receive(std::string& reason) {
  auto status = stream_.receive();
  std::string message;
  try {
    while (stream_.next(message)) {
      internal::FromKeeper m;
      if (!m.ParseFromString(message))
        throw std::runtime_error("the keeper sent something that is no message");
      handle(m);
    }
  } catch (const std::runtime_error& e) {
    reason = e.what();
    return false;
  }
  if (status != frame_stream::status::ok)
    reason = status == frame_stream::status::malformed ? "the keeper sent an oversized frame" : "the keeper closed the connection";
  return status == frame_stream::status::ok;
}

std::shared_ptr<const ring_reader> keeper_client::take_ring() {
  auto fd = stream_.take_fd();
  if (!fd)
    throw std::runtime_error("the keeper sent a child without its ring");
  return std::make_shared<const ring_reader>(std::move(fd));
}

void keeper_client::handle(const internal::FromKeeper& m) {
  using internal::FromKeeper;
  if (m.body_case() != FromKeeper::kWelcome && keeper_pid_ == 0)
    throw std::runtime_error("the keeper did not greet");
  switch (m.body_case()) {
    case FromKeeper::kWelcome:
      if (m.welcome().protocol() != keeper::protocol_version)
        throw std::runtime_error("a keeper of another version runs (protocol " + std::to_string(m.welcome().protocol()) +
                                 "); end its programs, then 'swarmctl down' and start again");
      holds_output_ = m.welcome().holds_output();
      keeper_pid_ = m.welcome().keeper_pid();
      return;
    case FromKeeper::kChild:
      listed_.push_back(to_child(m.child()));
      listed_.back().ring = take_ring();
      return;
    case FromKeeper::kWelcomed: return events_.welcome(keeper_pid_, std::exchange(listed_, {}));
    case FromKeeper::kAtGate: {
      const auto& g = m.at_gate();
      return events_.at_gate(g.id(), g.attempt(), g.pid(), g.pid_start(), take_ring());
    }
    case FromKeeper::kStartFailed: return events_.start_failed(m.start_failed().id(), m.start_failed().attempt(), m.start_failed().text());
    case FromKeeper::kOutput: return events_.output_advanced(m.output().id(), m.output().end());
    case FromKeeper::kExited: return events_.exited(to_exit(m.exited()));
    case FromKeeper::kInput: return events_.input_accepted(m.input().id(), m.input().ticket(), m.input().bytes(), m.input().closed());
    case FromKeeper::BODY_NOT_SET: return;
  }
}

} // namespace swarm
