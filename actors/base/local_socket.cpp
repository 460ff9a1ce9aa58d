#include "actors/base/local_socket.hpp"

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "actors/base/paths.hpp"

namespace swarm {

namespace {

[[noreturn]] void fail_system(const std::string& what) { throw std::runtime_error(what + ": " + std::strerror(errno)); }

sockaddr_un address_of(const socket_name& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  name.text().copy(address.sun_path, sizeof address.sun_path - 1);
  return address;
}

unique_fd spare() { return unique_fd{open("/dev/null", O_RDONLY | O_CLOEXEC)}; }

} // namespace

unique_fd listen_at(const std::filesystem::path& socket, int backlog) {
  auto unnamed = socket;
  unnamed += ".new";
  socket_name name{unnamed};
  auto address = address_of(name);
  unique_fd fd{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  if (!fd)
    fail_system("cannot make a socket");
  unlink(name.text().c_str());
  // Born 0600: the mode of the file comes from the umask, and nobody can connect in between.
  auto old = umask(0177);
  auto bound = bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  umask(old);
  if (bound != 0)
    fail_system("cannot bind " + socket.string());
  if (listen(fd.get(), backlog) != 0 || rename(unnamed.c_str(), socket.c_str()) != 0)
    fail_system("cannot listen on " + socket.string());
  return fd;
}

socket_file::socket_file(std::filesystem::path path) : path_(std::move(path)) {
  struct stat info {};
  if (lstat(path_.c_str(), &info) == 0) {
    device_ = info.st_dev;
    inode_ = info.st_ino;
  }
}

bool socket_file::is_same() const {
  struct stat info {};
  return inode_ != 0 && lstat(path_.c_str(), &info) == 0 && info.st_dev == device_ && info.st_ino == inode_;
}

void socket_file::remove() const {
  if (is_same())
    unlink(path_.c_str());
}

unique_fd connect_at(const std::filesystem::path& socket, int flags) {
  try {
    socket_name name{socket};
    auto address = address_of(name);
    unique_fd fd{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0)};
    if (fd && connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0)
      return fd;
  } catch (const std::exception&) {
    // Its directory does not exist yet.
  }
  return {};
}

acceptor::acceptor(unique_fd listener) : listener_(std::move(listener)), reserve_(spare()) {}

void acceptor::accept_all(const std::function<void(unique_fd)>& take, const std::function<void(int)>& refused) {
  for (;;) {
    auto next = [this] { return unique_fd{accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)}; };
    if (auto connection = next()) {
      take(std::move(connection));
      continue;
    }
    auto error = errno;
    if (error == EINTR || error == ECONNABORTED)
      continue;
    if (error == EAGAIN)
      return;
    // Without a free descriptor the kernel says so even when no connection waits.
    reserve_.reset();
    auto turned_away = next();
    auto done = static_cast<bool>(turned_away);
    if (done || errno != EAGAIN)
      refused(error);
    turned_away.reset();
    reserve_ = spare();
    if (!done)
      return;
  }
}

} // namespace swarm
