#include "services/local_listener.hpp"

#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <system_error>

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <grpcpp/server_posix.h>
#include <spdlog/spdlog.h>

#include "actors/base/limits.hpp"
#include "actors/base/process.hpp"

namespace swarm {

namespace {

/// Connection numbers start here, above what the node uses otherwise.
constexpr int first_connection_fd = 512;
constexpr int backlog = 512;

[[noreturn]] void fail_system(const std::string& what) { throw std::runtime_error(what + ": " + std::strerror(errno)); }

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

/// By ancestry, whether or not we are attached to the keeper just now, and by the mark every worker is started with, which is
/// left when a keeper was killed and its orphans went elsewhere. A process that vanished meanwhile counts as inside.
bool is_in_worker_tree(pid_t pid, pid_t keeper) {
  if (environment_of(pid, "SWARM_SPAWN_ID"))
    return true;
  for (std::size_t i = 0; i < limits::process_ancestors_max; ++i) {
    if (pid <= 1)
      return false;
    if (pid == keeper || std::filesystem::path{executable_of(pid).value_or("")}.filename() == "swarm-keeper")
      return true;
    auto parent = parent_of(pid);
    if (!parent)
      return true;
    pid = *parent;
  }
  return true;
}

} // namespace

local_listener::local_listener(const state_dir& dir, grpc::Server& server, peer_table& peers, const worker_registry& workers,
                               std::function<std::int64_t()> keeper_pid)
  : dir_(dir), server_(server), peers_(peers), workers_(workers), keeper_pid_(std::move(keeper_pid)), next_fd_(first_connection_fd) {
  socket_name name{dir_.socket()};
  unlink(dir_.socket().c_str());
  socket_ = unique_fd{socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  if (!socket_)
    fail_system("cannot make a socket");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, name.text().c_str(), name.text().size() + 1);
  // Born 0600: the mode of the file comes from the umask, and nobody can connect in between.
  auto old = umask(0177);
  auto bound = bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  umask(old);
  if (bound != 0)
    fail_system("cannot bind " + dir_.socket().string());
  if (listen(socket_.get(), backlog) != 0)
    fail_system("cannot listen on " + dir_.socket().string());
  stop_ = unique_fd{eventfd(0, EFD_CLOEXEC)};
  if (!stop_)
    fail_system("cannot make an eventfd");
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
  pollfd waiting[] = {{socket_.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}};
  for (;;) {
    if (poll(waiting, 2, -1) < 0 && errno != EINTR)
      return;
    if (waiting[1].revents != 0)
      return;
    if (waiting[0].revents == 0)
      continue;
    unique_fd connection{accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)};
    if (connection)
      admit(std::move(connection));
    else if (errno == EMFILE || errno == ENFILE) {
      spdlog::error("out of file descriptors: new connections wait");
      // The descriptor that frees up makes no event; look again when somebody leaves or after a second.
      pollfd stop{stop_.get(), POLLIN, 0};
      if (poll(&stop, 1, 1000) > 0)
        return;
    }
  }
}

bool local_listener::has_room() {
  auto most = limits::connections_max();
  if (connections_.size() >= most)
    std::erase_if(connections_, [](const auto& c) { return inode_of(c.first) != c.second; });
  return connections_.size() < most;
}

void local_listener::admit(unique_fd connection) {
  ucred cred{};
  socklen_t size = sizeof cred;
  if (getsockopt(connection.get(), SOL_SOCKET, SO_PEERCRED, &cred, &size) != 0 || cred.uid != geteuid()) {
    spdlog::warn("a connection of uid {} is refused", cred.uid);
    return;
  }
  if (!has_room()) {
    spdlog::warn("a connection of process {} is refused: {} are open (connections_max)", cred.pid, connections_.size());
    return;
  }
  peer p;
  p.pid = cred.pid;
  if (auto worker = workers_.of_tree(cred.pid)) {
    p.in_worker_tree = true;
    p.worker = std::move(*worker);
  } else {
    p.in_worker_tree = is_in_worker_tree(cred.pid, static_cast<pid_t>(keeper_pid_()));
  }
  auto fd = fcntl(connection.get(), F_DUPFD_CLOEXEC, next_fd_);
  if (fd < 0) {
    next_fd_ = first_connection_fd;
    fd = fcntl(connection.get(), F_DUPFD_CLOEXEC, next_fd_);
  }
  if (fd < 0) {
    spdlog::error("no descriptor for a new connection: {}", std::strerror(errno));
    return;
  }
  next_fd_ = fd + 1 >= highest_fd() ? first_connection_fd : fd + 1;
  connections_[fd] = inode_of(fd);
  peers_.put(fd, std::move(p));
  grpc::AddInsecureChannelFromFd(&server_, fd); // owns it from here
}

} // namespace swarm
