// Accepts on the node's Unix socket, notes which process connected, and hands the connection to gRPC.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>

#include <grpcpp/server.h>

#include "actors/base/local_socket.hpp"
#include "actors/base/paths.hpp"
#include "actors/base/unique_fd.hpp"
#include "services/call/connection_shares.hpp"
#include "services/call/principals.hpp"
#include "services/call/refusals.hpp"

namespace swarm {

class local_listener {
public:
  /// Binds <state>/swarmd.sock (0600), replacing a stale one: the caller holds the state directory's lock. Throws
  /// std::runtime_error.
  local_listener(const state_dir& dir, grpc::Server& server, caller_table& table, const principals& callers, refusals& refused);
  /// Stops accepting and removes its socket file; connections stay with gRPC.
  ~local_listener();

  /// Thread-safe.
  std::size_t open_connections();
  /// Whether its socket is still the one that new callers find.
  bool can_be_found() const { return file_.is_same(); }

private:
  void run();
  void admit(unique_fd connection);
  /// Whether the caller's share has room for one more, which is then taken.
  bool has_room(const caller_process&, bool is_persons);
  /// Those that gRPC has closed.
  void forget_closed();

  grpc::Server& server_;
  caller_table& table_;
  const principals& callers_;
  refusals& refused_;
  acceptor acceptor_;
  socket_file file_;
  unique_fd stop_;
  unique_fd events_;
  int next_fd_ = 0;
  struct connection {
    std::uint64_t inode = 0; // of the socket
    std::string share;
  };
  std::mutex mutex_; // guards the next two
  /// Open ones by descriptor: gRPC does not tell when it closes one, but its number then means nothing or something else.
  std::unordered_map<int, connection> connections_;
  connection_shares shares_;
  std::thread thread_;
};

} // namespace swarm
