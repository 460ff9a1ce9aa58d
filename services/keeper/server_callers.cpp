#include "services/keeper/server.hpp"

#include <system_error>

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "actors/base/limits.hpp"
#include "actors/base/process.hpp"

namespace swarm::keeper {

void server::accept_all() {
  listener_.accept_all([this](unique_fd socket) { on_connection(std::move(socket)); },
                       [this](int error) { log_.line("refused a connection: " + std::generic_category().message(error)); });
}

void server::on_connection(unique_fd socket) {
  if (!may_connect(socket.get()))
    return log_.line("refused a connection");
  // Of those that have not said hello yet the oldest gives way.
  if (callers_.size() > limits::keeper_strangers_max)
    for (const auto& [id, p] : callers_)
      if (id != client_) {
        drop(id, "too many connections");
        break;
      }
  auto id = ++last_caller_;
  auto p = std::make_unique<caller>(caller{frame_stream{std::move(socket)}});
  p->watch = loop_.watch(p->stream.fd(), EPOLLIN, [this, id](std::uint32_t events) { on_caller(id, events); });
  if (p->watch != 0)
    callers_.emplace(id, std::move(p));
}

/// Our own user, and no program that we run: a worker must not command its own parent.
bool server::may_connect(int socket) const {
  ucred who{};
  socklen_t size = sizeof who;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &who, &size) != 0 || who.uid != geteuid() || who.pid <= 0)
    return false;
  return is_descendant(who.pid, getpid()) == false;
}

void server::on_caller(caller_id id, std::uint32_t events) {
  auto i = callers_.find(id);
  if (i == callers_.end())
    return;
  auto& stream = i->second->stream;
  if ((events & ~static_cast<std::uint32_t>(EPOLLOUT)) == 0)
    return;
  auto status = stream.receive();
  while (stream.take_fd()) {
  }
  std::string message;
  while (stream.next(message)) {
    if (!handle(id, message))
      return drop(id, "a malformed or unexpected frame");
    if (callers_.count(id) == 0)
      return;
  }
  if (status == frame_stream::status::malformed)
    drop(id, "an oversized frame");
  else if (status == frame_stream::status::closed)
    drop(id, "closed");
}

bool server::handle(caller_id id, const std::string& message) {
  internal::ToKeeper m;
  if (!m.ParseFromString(message) || m.body_case() == internal::ToKeeper::BODY_NOT_SET)
    return false;
  if (m.has_hello())
    return id != client_ && greet(id, m.hello());
  if (id != client_)
    return false;
  dispatch(m);
  return true;
}

bool server::greet(caller_id id, const internal::Hello& hello) {
  internal::FromKeeper m;
  auto& w = *m.mutable_welcome();
  w.set_protocol(protocol_version);
  w.set_keeper_pid(getpid());
  w.set_holds_output(true);
  w.set_children(static_cast<std::uint32_t>(children_.size()));
  if (hello.protocol() != protocol_version) {
    auto& stream = callers_.at(id)->stream;
    stream.queue(encode_frame(m));
    stream.flush();
    return false;
  }
  // What the old one had sent is accepted, and is in the list that the new one gets.
  if (client_ != 0)
    on_caller(client_, EPOLLIN);
  if (client_ != 0)
    drop(client_, "replaced by a new client");
  client_ = id;
  next_.clear(); // the new one asks again for what it still wants
  log_.line("client " + std::to_string(hello.swarmd_pid()) + " attached");
  review_idleness();
  send(m);
  for (const auto& [_, c] : children_) {
    c->forget_tickets(); // the new one counts its own
    if (client_ == id)
      send_state(*c);
  }
  internal::FromKeeper end;
  end.mutable_welcomed();
  send(end);
  // Not before: what it releases is told. Who takes no output may only look, and then the next one finds it whole.
  if (client_ == id && hello.takes_output())
    hold_output(true);
  return true;
}

void server::hold_output(bool on) {
  loop_.cancel(std::exchange(release_timer_, 0));
  holds_output_ = on;
  for (const auto& [_, c] : children_)
    c->hold_output(on);
}

void server::drop(caller_id id, std::string_view why) {
  auto i = callers_.find(id);
  if (i == callers_.end())
    return;
  log_.line((id == client_ ? "client dropped: " : "connection dropped: ") + std::string{why});
  loop_.remove(i->second->watch);
  callers_.erase(i);
  if (id != client_)
    return;
  client_ = 0;
  // A swarmd that starts again finds the output whole; a node that is down does not stop a program.
  if (holds_output_ && release_timer_ == 0)
    release_timer_ = loop_.after(limits::keeper_output_hold(), [this] { hold_output(false); });
  review_idleness();
}

void server::send(const internal::FromKeeper& m, int fd) {
  auto i = callers_.find(client_);
  if (client_ == 0 || i == callers_.end())
    return;
  auto& stream = i->second->stream;
  unique_fd attached;
  if (fd >= 0) {
    attached.reset(fcntl(fd, F_DUPFD_CLOEXEC, 0));
    if (!attached)
      return drop(client_, "no descriptor for a ring");
  }
  stream.queue(encode_frame(m), std::move(attached));
  if (stream.queued_bytes() > limits::keeper_queue_bytes_max())
    drop(client_, "it does not read");
}

void server::flush_client() {
  auto i = callers_.find(client_);
  if (client_ == 0 || i == callers_.end())
    return;
  auto& p = *i->second;
  if (p.stream.flush() == frame_stream::status::closed)
    return drop(client_, "closed");
  loop_.change(p.watch, p.stream.queued_bytes() > 0 ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

} // namespace swarm::keeper
