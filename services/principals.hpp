// Who is calling: from the connection's process and the token it shows (architecture, decision 5).
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include <grpcpp/server_context.h>

#include "actors/fabric/context.hpp"
#include "swarm/v1/common.pb.h"

namespace swarm {

/// The process at the other end of an accepted connection, as it was when it connected.
struct peer {
  std::int64_t pid = 0;
  bool in_worker_tree = false;
  std::string session_id; // of the worker whose tree it is in; empty for strays
};

/// Live workers by pid and by token. Thread-safe.
class worker_registry final : public worker_table {
public:
  void put(std::int64_t pid, std::string session_id, std::string token_hash) override;
  void erase(std::int64_t pid) override;
  /// The session of the nearest ancestor (or `pid` itself) that is a worker.
  std::optional<std::string> session_of_tree(std::int64_t pid) const;
  std::optional<std::string> session_of_token(std::string_view token_hash) const;

private:
  struct worker {
    std::string session_id;
    std::string token_hash;
  };
  mutable std::mutex mutex_;
  std::unordered_map<std::int64_t, worker> by_pid_;
  std::unordered_map<std::string, std::string> by_token_;
};

/// Connection number to process. gRPC names a connection made from a descriptor "fd:N"; N is handed out in rotation, so that it
/// is not reused while a call of the old connection may still be looking.
class peer_table {
public:
  void put(int fd, peer p);
  std::optional<peer> find(int fd) const;

private:
  mutable std::mutex mutex_;
  std::unordered_map<int, peer> peers_;
};

/// What the connection and the metadata say, before the store was asked about a token.
struct claim {
  v1::Principal principal; // final, unless token_hash is set
  std::string token_hash;  // SHA-256 of a token shown that no live worker has: the store decides
  bool refused = false;    // inside a worker's tree, but nobody's
};

class principals {
public:
  principals(const peer_table& peers, const worker_registry& workers) : peers_(peers), workers_(workers) {}
  claim identify(const grpc::ServerContextBase& ctx) const;

  /// Tokens the store has resolved; bounded, oldest out.
  std::optional<std::string> resolved(const std::string& token_hash) const;
  void remember(const std::string& token_hash, const std::string& session_id);

private:
  const peer_table& peers_;
  const worker_registry& workers_;
  mutable std::mutex mutex_;
  std::unordered_map<std::string, std::string> resolved_;
  std::list<std::string> order_;
};

/// "operator" metadata constant names.
inline constexpr const char* token_metadata = "swarm-token";

} // namespace swarm
