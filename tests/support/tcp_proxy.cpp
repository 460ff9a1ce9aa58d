#include "tests/support/tcp_proxy.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <stdexcept>
#include <string_view>
#include <utility>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

namespace swarm::testing {

namespace {

constexpr std::size_t queued_bytes_max = 256 * 1024; // of one direction of a connection; then its sender is not read
constexpr std::size_t read_bytes = 16 * 1024;

sockaddr_in address_of(const std::string& host, int port) {
  sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_port = htons(static_cast<std::uint16_t>(port));
  if (inet_pton(AF_INET, host.c_str(), &a.sin_addr) != 1)
    throw std::runtime_error("no IPv4 address: " + host);
  return a;
}

bool would_block() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

void write_at_once(int fd) {
  int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

/// Closes with RST.
void abort_connection(unique_fd& fd) {
  if (!fd)
    return;
  linger at_once{1, 0};
  setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  fd.reset();
}

} // namespace

struct tcp_proxy::pipe {
  struct piece {
    steady::time_point due;
    std::string bytes;
  };
  std::deque<piece> queue;
  std::size_t queued = 0;
  steady::time_point last_due;
  bool ended = false; // its sender has closed
  bool told = false;  // and its receiver knows
  bool lost = false;  // bytes of it are gone

  bool reads() const { return !ended && queued < queued_bytes_max; }
};

struct tcp_proxy::connection {
  unique_fd client;
  unique_fd server; // none: not called yet
  bool connecting = true;
  bool half_open = false; // one of the two is gone, and the other does not know
  bool over = false;
  std::array<pipe, 2> pipes;

  unique_fd& from(direction d) { return d == to_server ? client : server; }
  unique_fd& to(direction d) { return d == to_server ? server : client; }
  const unique_fd& from(direction d) const { return d == to_server ? client : server; }
  const unique_fd& to(direction d) const { return d == to_server ? server : client; }
};

tcp_proxy::tcp_proxy(const std::string& listen_host, int listen_port, const std::string& server_host, int server_port, unsigned seed)
  : listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)), wakeup_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), rng_(seed) {
  auto server = address_of(server_host, server_port);
  static_assert(sizeof server == sizeof server_);
  std::memcpy(server_.data(), &server, sizeof server);
  auto mine = address_of(listen_host, listen_port);
  socklen_t n = sizeof mine;
  int on = 1;
  setsockopt(listener_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (!wakeup_ || bind(listener_.get(), reinterpret_cast<sockaddr*>(&mine), n) != 0 || listen(listener_.get(), 64) != 0 ||
      getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&mine), &n) != 0)
    throw std::runtime_error("the proxy cannot listen at " + listen_host + ": " + std::strerror(errno));
  port_ = ntohs(mine.sin_port);
  thread_ = std::thread([this] { run(); });
}

tcp_proxy::~tcp_proxy() {
  {
    std::lock_guard guard{mutex_};
    stopping_ = true;
  }
  wake();
  thread_.join();
}

// -- what it is told -----------------------------------------------------------------------

void tcp_proxy::wake() const {
  std::uint64_t one = 1;
  [[maybe_unused]] auto n = write(wakeup_.get(), &one, sizeof one); // full: it is awake
}

tcp_proxy::counts tcp_proxy::so_far() const {
  std::lock_guard guard{mutex_};
  return counts_;
}

std::size_t tcp_proxy::connections() const {
  std::lock_guard guard{mutex_};
  return open_.size();
}

void tcp_proxy::apply(direction d, const proxy_way& way) {
  ways_[d] = way;
  if (way.fate == proxy_way::pass)
    for (auto& c : open_)
      if (c.pipes[d].lost && !c.half_open)
        reset(c);
}

void tcp_proxy::set(direction d, const proxy_way& way) {
  {
    std::lock_guard guard{mutex_};
    apply(d, way);
  }
  wake();
}

void tcp_proxy::set_both(const proxy_way& way) {
  set(to_server, way);
  set(to_client, way);
}

void tcp_proxy::refuse_one_after(std::size_t let_in) {
  std::lock_guard guard{mutex_};
  let_in_ = let_in;
}

void tcp_proxy::refuse(bool on) {
  std::lock_guard guard{mutex_};
  refusing_ = on;
}

void tcp_proxy::reset_all() {
  {
    std::lock_guard guard{mutex_};
    for (auto& c : open_)
      reset(c);
  }
  wake();
}

void tcp_proxy::leave_half_open(direction told) {
  {
    std::lock_guard guard{mutex_};
    for (auto& c : open_) {
      if (c.connecting || c.half_open)
        continue;
      c.half_open = true;
      abort_connection(told == to_client ? c.client : c.server);
    }
  }
  wake();
}

void tcp_proxy::heal() {
  set_both({});
  refuse(false);
}

// -- its thread ----------------------------------------------------------------------------

void tcp_proxy::reset(connection& c) {
  if (c.over)
    return;
  c.over = true;
  ++counts_.resets;
  abort_connection(c.client);
  abort_connection(c.server);
}

void tcp_proxy::accept_all() {
  for (;;) {
    unique_fd fd{accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)};
    if (!fd)
      return;
    auto is_the_one = let_in_ == 0;
    if (let_in_ && (*let_in_)-- == 0)
      let_in_.reset();
    if (refusing_ || is_the_one) {
      ++counts_.refused;
      abort_connection(fd);
      continue;
    }
    ++counts_.accepted;
    write_at_once(fd.get());
    open_.emplace_back().client = std::move(fd);
  }
}

/// Once the way to it is free.
void tcp_proxy::call_server(connection& c) {
  if (!c.server) {
    if (ways_[to_server].fate != proxy_way::pass)
      return;
    c.server.reset(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (connect(c.server.get(), reinterpret_cast<const sockaddr*>(server_.data()), static_cast<socklen_t>(server_.size())) != 0 &&
        errno != EINPROGRESS)
      return reset(c);
    write_at_once(c.server.get());
  }
  pollfd p{c.server.get(), POLLOUT, 0};
  if (poll(&p, 1, 0) <= 0)
    return;
  int failed = 0;
  socklen_t n = sizeof failed;
  getsockopt(c.server.get(), SOL_SOCKET, SO_ERROR, &failed, &n);
  if (failed != 0)
    return reset(c);
  c.connecting = false;
}

void tcp_proxy::take(connection& c, direction d, steady::time_point now) {
  auto& p = c.pipes[d];
  const auto& way = ways_[d];
  auto swallows = c.half_open || way.fate == proxy_way::drop || p.lost;
  if (!c.from(d) || !p.reads() || (way.fate == proxy_way::hold && !c.half_open))
    return;
  char buffer[read_bytes];
  auto n = recv(c.from(d).get(), buffer, sizeof buffer, 0);
  if (n < 0 && would_block())
    return;
  if (n <= 0 && c.half_open) {
    c.over = true; // the end that was never told has given up
    return;
  }
  if (swallows) {
    p.lost = true;
    p.ended = n <= 0;
    counts_.dropped += static_cast<std::uint64_t>(std::max<ssize_t>(n, 0));
    return;
  }
  if (n < 0)
    return reset(c);
  if (n == 0) {
    p.ended = true;
    return;
  }
  auto any = [this](std::size_t least, std::size_t most) { return std::uniform_int_distribution<std::size_t>{least, std::max(least, most)}(rng_); };
  std::bernoulli_distribution stalls{way.stall_chance}, breaks{way.reset_chance};
  for (std::string_view left{buffer, static_cast<std::size_t>(n)}; !left.empty();) {
    auto size = way.slice_most == 0 ? left.size() : std::min(left.size(), any(1, way.slice_most));
    auto delay = std::chrono::milliseconds{any(static_cast<std::size_t>(way.delay_least.count()), static_cast<std::size_t>(way.delay_most.count()))};
    p.last_due = std::max(p.last_due, now + delay);
    if (stalls(rng_)) {
      ++counts_.stalls;
      p.last_due += way.stall;
    }
    p.queue.push_back({p.last_due, std::string{left.substr(0, size)}});
    p.queued += size;
    left.remove_prefix(size);
  }
  if (breaks(rng_))
    reset(c);
}

void tcp_proxy::give(connection& c, direction d, steady::time_point now) {
  auto& p = c.pipes[d];
  if (!c.to(d) || ways_[d].fate != proxy_way::pass || c.half_open)
    return;
  while (!p.queue.empty() && p.queue.front().due <= now) {
    auto& bytes = p.queue.front().bytes;
    auto n = send(c.to(d).get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n < 0 && would_block())
      return;
    if (n < 0) {
      // The receiver is gone. What would tell the sender goes the other way.
      p.lost = true;
      if (ways_[d == to_server ? to_client : to_server].fate == proxy_way::pass)
        reset(c);
      return;
    }
    ++counts_.writes;
    counts_.bytes[d] += static_cast<std::uint64_t>(n);
    p.queued -= static_cast<std::size_t>(n);
    if (static_cast<std::size_t>(n) < bytes.size()) {
      bytes.erase(0, static_cast<std::size_t>(n));
      return;
    }
    p.queue.pop_front();
  }
  if (p.ended && p.queue.empty() && !std::exchange(p.told, true))
    shutdown(c.to(d).get(), SHUT_WR);
}

void tcp_proxy::pump(connection& c, steady::time_point now) {
  if (!c.over && c.connecting)
    call_server(c);
  for (auto d : {to_server, to_client}) {
    if (!c.over && !c.connecting)
      take(c, d, now);
    if (!c.over && !c.connecting)
      give(c, d, now);
  }
  c.over = c.over || (c.pipes[to_server].told && c.pipes[to_client].told);
}

/// What to wait for, and how long at most.
int tcp_proxy::prepare(std::vector<pollfd>& out, steady::time_point now) const {
  out = {{wakeup_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
  auto until = steady::time_point::max();
  for (const auto& c : open_) {
    if (c.connecting) {
      if (c.server)
        out.push_back({c.server.get(), POLLOUT, 0});
      continue;
    }
    for (auto d : {to_server, to_client}) {
      const auto& p = c.pipes[d];
      // What is not wanted is not asked for: an end that is gone would wake us for ever.
      if (c.from(d) && p.reads() && (ways_[d].fate != proxy_way::hold || c.half_open))
        out.push_back({c.from(d).get(), POLLIN, 0});
      if (!c.to(d) || p.queue.empty() || ways_[d].fate != proxy_way::pass || c.half_open)
        continue;
      if (p.queue.front().due <= now)
        out.push_back({c.to(d).get(), POLLOUT, 0});
      else
        until = std::min(until, p.queue.front().due);
    }
  }
  if (until == steady::time_point::max())
    return -1;
  return static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(until - now).count());
}

void tcp_proxy::run() {
  std::vector<pollfd> fds;
  for (;;) {
    int timeout = 0;
    {
      std::lock_guard guard{mutex_};
      timeout = prepare(fds, steady::now());
    }
    poll(fds.data(), fds.size(), timeout);
    std::lock_guard guard{mutex_};
    if (stopping_)
      return;
    std::uint64_t told = 0;
    [[maybe_unused]] auto n = read(wakeup_.get(), &told, sizeof told);
    accept_all();
    auto now = steady::now();
    for (auto& c : open_)
      pump(c, now);
    open_.remove_if([](const connection& c) { return c.over; });
  }
}

} // namespace swarm::testing
