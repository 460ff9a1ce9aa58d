// Unix sockets in the state directory.
#pragma once

#include <filesystem>
#include <functional>

#include "actors/base/unique_fd.hpp"

namespace swarm {

/// Listens, non-blocking, on a socket of mode 0600. It appears under its name, in place of what a dead process left there, when it
/// accepts already. Throws std::runtime_error.
unique_fd listen_at(const std::filesystem::path& socket, int backlog);

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
