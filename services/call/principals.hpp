// Who is calling: from the connection's process and the token it shows (docs/architecture.md).
#pragma once

#include <atomic>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include <grpcpp/server_context.h>

#include "actors/fabric/node_environment.hpp"
#include "swarm/v1/common.pb.h"
#include "swarm/v1/state.pb.h"

namespace swarm {

/// The process at the other end of an accepted connection, as it was when it connected.
struct caller_process {
  std::int64_t pid = 0;
  bool in_worker_tree = false;
  v1::Principal worker; // whose tree it is in; without an id for strays
  std::string share;    // whose share of connections and calls it uses
};

inline constexpr std::string_view workers_share = "worker/";
/// A worker, or one other process: `start` is that of the process, 0 = it is gone.
std::string share_of(const caller_process&, std::uint64_t start);

/// Live workers by pid and by token, with the grants that hold at the moment they are asked for. Thread-safe.
class worker_registry final : public worker_table {
public:
  /// `unix_ms`: the clock by which grants end; without one a grant that has an end does not hold.
  explicit worker_registry(std::function<std::int64_t()> unix_ms = nullptr) : unix_ms_(std::move(unix_ms)) {}
  void put(std::int64_t pid, v1::Principal who, std::string token_hash, domain::grant_end_list ends = {}) override;
  void erase(std::int64_t pid) override;
  /// The nearest ancestor (or `pid` itself) that is a worker.
  std::optional<v1::Principal> of_tree(std::int64_t pid) const;
  /// The worker that was given the token with this SHA-256.
  std::optional<v1::Principal> of_token(std::string_view token_hash) const;
  /// The same session with the grants that hold now, and when the first of these ends (0 = none does). Without grants once its worker has ended.
  std::pair<v1::Principal, std::int64_t> current(v1::Principal who) const;

private:
  struct worker {
    v1::Principal who;
    std::string token_hash;
    domain::grant_end_list ends;
  };
  v1::Principal as_of_now(const worker&) const;
  std::int64_t now_ms() const;

  std::function<std::int64_t()> unix_ms_;
  mutable std::mutex mutex_;
  std::unordered_map<std::int64_t, worker> by_pid_;
  std::unordered_map<std::string, worker> by_token_;
};

/// Who bears which token, as the store has said, and what lasts only as long as its session. Thread-safe; outlives the actors.
class token_cache final : public token_cache_port {
public:
  /// `now_ms`: a clock that only goes forward, in milliseconds.
  explicit token_cache(std::function<std::int64_t()> now_ms) : now_ms_(std::move(now_ms)) {}

  /// Grows with every token and session that goes: what was asked of the store at a number that is past may be out of date.
  std::uint64_t invalidations() const noexcept { return invalidations_; }
  /// What has been remembered; bounded, oldest out, and for limits::resolved_token_age only, or until the first of the grants ends.
  std::optional<v1::Principal> resolved(const std::string& token_hash) const;
  /// When that is; 0 = no grant of it ends.
  std::int64_t grants_until(const std::string& token_hash) const;
  /// `asked_at`: invalidations() before the store was asked. `until_ms`: when the first of its grants ends, by the clock that says `unix_ms`; 0 =
  /// none does.
  void remember(const std::string& token_hash, const v1::Principal& who, std::uint64_t asked_at, std::int64_t until_ms = 0, std::int64_t unix_ms = 0);
  /// Calls `gone` once, from any thread, when the session goes, unless what is returned has been dropped before. Null when a session or
  /// token has gone since `asked_at`: this one may have been it.
  std::shared_ptr<void> watch(const std::string& session_id, std::uint64_t asked_at, std::function<void()> gone);

  void token_gone(const std::string& token_hash) override;
  void session_gone(const std::string& session_id) override;

private:
  struct known {
    v1::Principal who;
    std::int64_t at_ms;
    std::int64_t age_max_ms;
    std::int64_t until_ms; // of its grants, by the clock of the wall
  };
  struct attendance {
    std::string session_id;
    std::function<void()> gone;
  };
  std::function<std::int64_t()> now_ms_;
  mutable std::mutex mutex_;
  std::atomic<std::uint64_t> invalidations_ = 0; // changed under the mutex
  std::unordered_map<std::string, known> resolved_;
  std::list<std::string> order_;
  std::uint64_t last_attendance_ = 0;
  std::map<std::uint64_t, attendance> attending_;
};

/// Connection number to process. gRPC names a connection made from a descriptor "fd:N"; N is handed out in rotation, so that it
/// is not reused while a call of the old connection may still be looking.
class caller_table {
public:
  void put(int fd, caller_process p);
  std::optional<caller_process> find(int fd) const;

private:
  mutable std::mutex mutex_;
  std::unordered_map<int, caller_process> table_;
};

/// What the connection and the metadata say, before the store was asked about a token.
struct claim {
  v1::Principal principal;          // final, unless token_hash is set
  std::string token_hash;           // SHA-256 of a token shown that no live worker has: the store decides
  bool refused = false;             // inside a worker's tree, but nobody's
  std::string share;                // whose share of calls it uses
  std::int64_t grants_until_ms = 0; // when the first of the principal's grants ends; 0 = none does
  std::uint64_t at = 0;             // token_cache::invalidations() before anybody was asked
};

/// Tells who calls. Thread-safe.
class principals {
public:
  principals(const caller_table& table, const worker_registry& workers, swarm::token_cache& tokens)
    : table_(table), workers_(workers), tokens_(tokens) {}
  /// By the token shown, else by the place of the connection's process. Asks nobody and does not block.
  claim identify(const grpc::ServerContextBase& ctx) const;
  /// The process of a connection; 0 = unknown.
  std::int64_t process_of(const grpc::ServerContextBase& ctx) const;
  swarm::token_cache& tokens() const noexcept { return tokens_; }

private:
  const caller_table& table_;
  const worker_registry& workers_;
  swarm::token_cache& tokens_;
};

/// Who a session's token makes its bearer at `now_ms`: with those of its grants that have not ended.
v1::Principal principal_of(const v1::Session&, std::int64_t now_ms);

/// Metadata of a call: the hex of a session's 32-byte token.
inline constexpr const char* token_metadata = "swarm-token";

} // namespace swarm
