#include "services/call/local_listener.hpp"

#include <cstring>
#include <filesystem>
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

#include "actors/base/clock.hpp"
#include "actors/base/limits.hpp"
#include "actors/base/log.hpp"
#include "actors/base/process.hpp"

namespace swarm {

namespace {

/// Connection numbers start here, above what the node uses otherwise.
constexpr int first_connection_fd = 512;
constexpr int backlog = 512;

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

/// Of another node, or one that was not seen: it names itself so, and after an upgrade its file is " (deleted)".
bool is_called_keeper(pid_t pid) {
  constexpr std::string_view name = "swarm-keeper";
  return command_name_of(pid) == name || std::filesystem::path{executable_of(pid).value_or("")}.filename().string().starts_with(name);
}

/// By ancestry, whether or not we are attached to the keeper just now, and by the mark every worker is started with, which is
/// left when a keeper was killed and its orphans went elsewhere. A process that vanished meanwhile counts as inside.
bool is_in_worker_tree(pid_t pid, pid_t keeper) {
  if (environment_of(pid, "SWARM_SPAWN_ID"))
    return true;
  for (std::size_t i = 0; i < limits::process_ancestors_max; ++i) {
    if (pid <= 1)
      return false;
    if (pid == keeper || is_called_keeper(pid))
      return true;
    auto parent = parent_of(pid);
    if (!parent)
      return true;
    pid = *parent;
  }
  return true;
}

} // namespace

local_listener::local_listener(const state_dir& dir, grpc::Server& server, caller_table& table, const worker_registry& workers,
                               std::function<std::int64_t()> keeper_pid)
  : dir_(dir), server_(server), table_(table), workers_(workers), keeper_pid_(std::move(keeper_pid)), acceptor_(listen_at(dir.socket(), backlog)),
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
  unlink(dir_.socket().c_str());
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

bool local_listener::has_room(const caller_process& p) {
  using verdict = connection_shares::verdict;
  auto found = shares_.take(p.share, !p.in_worker_tree);
  if (found != verdict::taken) {
    forget_closed();
    found = shares_.take(p.share, !p.in_worker_tree);
  }
  if (found == verdict::taken)
    return true;
  const auto why = found == verdict::caller_full ? "it and what belongs to it have as many as one caller may (connections_per_caller_max)"
                                                 : "as many as there may be are open (connections_max)";
  if (refused_.add(p.share, system_clock_port().boot_ms()))
    log::warn({"a connection of process ", p.pid, " is refused: ", why});
  return false;
}

void local_listener::admit(unique_fd connection) {
  ucred cred{};
  socklen_t size = sizeof cred;
  if (getsockopt(connection.get(), SOL_SOCKET, SO_PEERCRED, &cred, &size) != 0 || cred.uid != geteuid()) {
    log::warn({"a connection of uid ", cred.uid, " is refused"});
    return;
  }
  caller_process p;
  p.pid = cred.pid;
  if (auto worker = workers_.of_tree(cred.pid)) {
    p.in_worker_tree = true;
    p.worker = std::move(*worker);
  } else {
    p.in_worker_tree = is_in_worker_tree(cred.pid, static_cast<pid_t>(keeper_pid_()));
  }
  p.share = share_of(p, pid_start_time(cred.pid).value_or(0));
  std::lock_guard guard{mutex_};
  if (!has_room(p))
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
