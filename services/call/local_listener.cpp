#include "services/call/local_listener.hpp"

#include <cstring>
#include <stdexcept>
#include <system_error>

#include <fcntl.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <grpcpp/server_posix.h>

#include "actors/base/limits.hpp"
#include "actors/base/log.hpp"

namespace swarm {

namespace {

/// Connection numbers start here, above what the node uses otherwise.
constexpr int first_connection_fd = 512;
constexpr int backlog = 512;
constexpr auto connecting = "connect";

int highest_fd() {
  rlimit r{};
  getrlimit(RLIMIT_NOFILE, &r);
  return static_cast<int>(std::min<rlim_t>(r.rlim_cur, 1 << 20));
}

/// 0 for a descriptor that is not open.
std::uint64_t inode_of(int fd) {
  struct stat s {};
  return fstat(fd, &s) == 0 ? s.st_ino : 0;
}

} // namespace

local_listener::local_listener(const state_dir& dir, grpc::Server& server, caller_table& table, const principals& callers, refusals& refused)
  : server_(server), table_(table), callers_(callers), refused_(refused), acceptor_(listen_at(dir.socket(), backlog)), file_(dir.socket()),
    next_fd_(first_connection_fd) {
  stop_ = unique_fd{eventfd(0, EFD_CLOEXEC)};
  events_ = unique_fd{epoll_create1(EPOLL_CLOEXEC)};
  epoll_event stopped{EPOLLIN, {.fd = stop_.get()}}, connected{EPOLLIN | EPOLLET, {.fd = acceptor_.fd()}};
  if (!stop_ || !events_ || epoll_ctl(events_.get(), EPOLL_CTL_ADD, stop_.get(), &stopped) != 0 ||
      epoll_ctl(events_.get(), EPOLL_CTL_ADD, acceptor_.fd(), &connected) != 0)
    throw std::runtime_error(std::string{"cannot wait for connections: "} + std::strerror(errno));
  thread_ = std::thread([this] { run(); });
}

local_listener::~local_listener() {
  std::uint64_t one = 1;
  (void)!write(stop_.get(), &one, sizeof one);
  thread_.join();
  file_.remove();
}

void local_listener::run() {
  pthread_setname_np(pthread_self(), "swarm.accept");
  for (;;) {
    epoll_event ready{};
    auto n = epoll_wait(events_.get(), &ready, 1, -1);
    if (n < 0 && errno != EINTR)
      return;
    if (n <= 0)
      continue;
    if (ready.data.fd == stop_.get())
      return;
    acceptor_.accept_all([this](unique_fd connection) { admit(std::move(connection)); },
                         [](int error) {
                           log::error({"a connection is refused: ", std::strerror(error)});
                         });
  }
}

void local_listener::forget_closed() {
  std::erase_if(connections_, [this](const auto& c) {
    const auto closed = inode_of(c.first) != c.second.inode;
    if (closed)
      shares_.give_back(c.second.share);
    return closed;
  });
}

std::size_t local_listener::open_connections() {
  std::lock_guard guard{mutex_};
  forget_closed();
  return shares_.open();
}

bool local_listener::has_room(const caller_process& p, bool is_persons) {
  using verdict = connection_shares::verdict;
  auto found = shares_.take(p.share, is_persons);
  if (found != verdict::taken) {
    forget_closed();
    found = shares_.take(p.share, is_persons);
  }
  if (found == verdict::taken)
    return true;
  const auto why = found == verdict::caller_full ? "it and what belongs to it have as many as one caller may (connections_per_caller_max)"
                                                 : "as many as there may be are open (connections_max)";
  refused_.add(p.place.worker, connecting, concat({"process ", std::to_string(p.pid), ", ", why}));
  return false;
}

void local_listener::admit(unique_fd connection) {
  ucred cred{};
  socklen_t size = sizeof cred;
  if (getsockopt(connection.get(), SOL_SOCKET, SO_PEERCRED, &cred, &size) != 0 || cred.uid != geteuid()) {
    refused_.add({}, connecting, "a process of uid " + std::to_string(cred.uid) + "; only the node's own user connects here");
    return;
  }
  caller_process p;
  p.pid = cred.pid;
  p.looked_at = callers_.places().roots().generation();
  auto seen = callers_.places().look_at(cred.pid);
  if (!seen.line.processes.empty())
    p.start = seen.line.processes.front().start;
  p.place = std::move(seen.place);
  const auto is_logged_in = callers_.is_logged_in(p);
  p.share = is_logged_in ? own_share_of(p) : share_of(p);
  std::lock_guard guard{mutex_};
  if (!has_room(p, is_logged_in || p.place.is == caller_place::kind::user))
    return;
  auto fd = fcntl(connection.get(), F_DUPFD_CLOEXEC, next_fd_);
  if (fd < 0) {
    next_fd_ = first_connection_fd;
    fd = fcntl(connection.get(), F_DUPFD_CLOEXEC, next_fd_);
  }
  if (fd < 0) {
    log::error({"no descriptor for a new connection: ", std::strerror(errno)});
    shares_.give_back(p.share);
    return;
  }
  next_fd_ = fd + 1 >= highest_fd() ? first_connection_fd : fd + 1;
  // The one that had the number before was closed unnoticed.
  if (auto before = connections_.extract(fd); !before.empty())
    shares_.give_back(before.mapped().share);
  connections_[fd] = {inode_of(fd), p.share};
  table_.put(fd, std::move(p));
  grpc::AddInsecureChannelFromFd(&server_, fd); // owns it from here
}

} // namespace swarm
