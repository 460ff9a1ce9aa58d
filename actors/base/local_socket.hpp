// Unix sockets in the state directory.
#pragma once

#include <filesystem>
#include <functional>

#include <sys/types.h>

#include "actors/base/unique_fd.hpp"

namespace swarm {

/// Listens, non-blocking, on a socket of mode 0600. It appears under its name, in place of what a dead process left there, when it
/// accepts already. Throws std::runtime_error.
unique_fd listen_at(const std::filesystem::path& socket, int backlog);

/// The file of a socket that this process listens at: its directory may be moved, and another process may listen at the same path then.
class socket_file {
public:
  /// As it is now, right after listen_at().
  explicit socket_file(std::filesystem::path);
  /// Whether who connects at the path comes to us. Costs one stat.
  bool is_same() const;
  /// Unless it is another one's.
  void remove() const;

private:
  std::filesystem::path path_;
  dev_t device_ = 0;
  ino_t inode_ = 0; // 0 = there was none
};

/// A connected socket (close-on-exec), empty when nobody listens there. `flags`: SOCK_NONBLOCK or nothing.
unique_fd connect_at(const std::filesystem::path& socket, int flags = 0);

/// Takes the connections of a listening socket. One for which the process has no descriptor left is closed at once, by means of a
/// descriptor kept in reserve: it could only wait for another to leave, and nobody tells when that happens.
class acceptor {
public:
  explicit acceptor(unique_fd listener);

  /// To be watched edge-triggered: what accept_all() could not take is tried again when the next one connects.
  int fd() const noexcept { return listener_.get(); }
  /// Until none waits. `refused` hears the errno of each that was turned away or could not be.
  void accept_all(const std::function<void(unique_fd)>& take, const std::function<void(int)>& refused);

private:
  unique_fd listener_;
  unique_fd reserve_;
};

} // namespace swarm
