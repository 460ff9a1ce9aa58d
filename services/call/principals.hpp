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
#include <vector>

#include <grpcpp/server_context.h>

#include "actors/domain/rights.hpp"
#include "actors/fabric/node_environment.hpp"
#include "services/call/caller_place.hpp"
#include "services/call/logins.hpp"
#include "swarm/v1/common.pb.h"
#include "swarm/v1/node.pb.h"
#include "swarm/v1/state.pb.h"

namespace swarm {

/// The process at the other end of an accepted connection.
struct caller_process {
  std::int64_t pid = 0;
  std::uint64_t start = 0;     // 0 = it was gone already
  caller_place place;          // where it stood when it was looked at last
  std::uint64_t looked_at = 0; // agent_roots::generation() before that
  std::string share = {};      // whose share of connections and calls it uses
};

inline constexpr std::string_view workers_share = "worker/";
/// Whose share of connections and calls it uses by its place: a worker's or an agent's with all below it, or that of one other process.
std::string share_of(const caller_process&);
/// That of this process alone.
std::string own_share_of(const caller_process&);

/// Live workers by pid and by token, with the grants that hold at the moment they are asked for. Thread-safe.
class worker_registry final : public worker_table {
public:
  /// `unix_ms`: the clock by which grants end; without one a grant that has an end does not hold.
  explicit worker_registry(std::function<std::int64_t()> unix_ms = nullptr) : unix_ms_(std::move(unix_ms)) {}
  void put(std::int64_t pid, v1::Principal who, std::string token_hash, domain::grant_end_list ends = {}) override;
  void erase(std::int64_t pid) override;
  /// The nearest of a process and its ancestors that is a worker; else the worker in whose kernel session one of them is.
  std::optional<v1::Principal> of_lineage(const std::vector<named_process>&) const;
  /// The session is that of a live worker.
  bool has_session(std::string_view id) const;
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

/// A session as its row says who it is, and who made it.
struct bearer {
  v1::Principal who;
  std::string agent_root = {}; // as in Session
  std::string made_by = {};    // as in Session
  std::int64_t until_ms = 0;   // when the first of its grants ends; 0 = none does
};
bearer bearer_of(const v1::Session&, std::int64_t now_ms);

/// Who bears which token, as the store has said, and what lasts only as long as its session. Thread-safe; outlives the actors.
class token_cache final : public token_cache_port {
public:
  /// `now_ms`: a clock that only goes forward, in milliseconds.
  explicit token_cache(std::function<std::int64_t()> now_ms) : now_ms_(std::move(now_ms)) {}

  /// Grows with every token and session that goes: what was asked of the store at a number that is past may be out of date.
  std::uint64_t invalidations() const noexcept { return invalidations_; }
  /// What has been remembered; bounded, oldest out, and for limits::resolved_token_age only, or until the first of its grants ends.
  std::optional<bearer> resolved(const std::string& token_hash) const;
  /// `asked_at`: invalidations() before the store was asked. `unix_ms`: now, by the clock by which grants end.
  void remember(const std::string& token_hash, const bearer& who, std::uint64_t asked_at, std::int64_t unix_ms = 0);
  /// The same for a session that is known by its id.
  static std::string key_of_session(const std::string& id) { return "session/" + id; }
  /// Hears of each session that goes, from any thread; set before there is a second one. Null = nobody.
  void on_session_gone(std::function<void(const std::string&)> heard) { heard_ = std::move(heard); }
  /// Calls `gone` once, from any thread, when the session goes, unless what is returned has been dropped before. Null when a session or
  /// token has gone since `asked_at`: this one may have been it.
  std::shared_ptr<void> watch(const std::string& session_id, std::uint64_t asked_at, std::function<void()> gone);

  void token_gone(const std::string& token_hash) override;
  void session_gone(const std::string& session_id) override;

private:
  struct known {
    bearer who;
    std::int64_t at_ms;
    std::int64_t age_max_ms;
  };
  struct attendance {
    std::string session_id;
    std::function<void()> gone;
  };
  std::function<std::int64_t()> now_ms_;
  std::function<void(const std::string&)> heard_;
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

/// What the connection and the metadata say, before the store was asked about a token or a session.
struct claim {
  v1::Principal principal;             // who it is, when it is final; for an agent before: AGENT
  std::string token_hash;              // SHA-256 of a token shown that no live worker has: the store decides
  std::vector<bound_session> sessions; // of the agent, newest first: the first one that the store knows is who calls
  std::string refused;                 // why nobody calls, and what to do; empty = somebody does
  v1::Explanation::Rule rule = v1::Explanation::RULE_UNSPECIFIED;
  caller_place place;
  std::string share;                // whose share of calls it uses
  std::int64_t grants_until_ms = 0; // when the first of the principal's grants ends; 0 = none does
  int connection = -1;
  std::uint64_t looked_at = 0; // agent_roots::generation() before the caller was looked at
  std::uint64_t at = 0;        // token_cache::invalidations() before anybody was asked
  domain::operation asks = {}; // what for, of the calls; whoever admits the caller says it

  bool is_final() const noexcept { return token_hash.empty() && sessions.empty(); }
  /// An agent's program above the caller has part in what the call makes. Not so for a person who has logged in below it.
  bool is_below_agent() const noexcept { return place.is == caller_place::kind::agent && rule != v1::Explanation::LOGIN; }
};

/// Whether the caller is looked at anew also when no agent was found since.
enum class look_again { if_needed, always };

/// Tells who calls. Thread-safe.
class principals {
public:
  principals(caller_table& table, const worker_registry& workers, swarm::token_cache& tokens, const caller_places& places,
             const login_registry* logins = nullptr)
    : table_(table), workers_(workers), tokens_(tokens), places_(places), logins_(logins) {}
  /// By the token shown, else by the place of the connection's process. Asks nobody and does not block.
  claim identify(const grpc::ServerContextBase& ctx, look_again = look_again::if_needed) const;
  /// The same for a call that lasts: whether it is still made by whom the claim says. A claim that is out of date but true is renewed.
  bool still_holds(claim&) const;
  /// Why the bearer of a token may not be who calls from this place; empty = nothing speaks against it.
  std::string objection_to_token(const caller_place&, const bearer&) const;
  /// A registration of this caller has made a session: with an agent above it, that is the agent's from now on, and who calls. Nothing otherwise.
  std::optional<bearer> registered(const claim&, const v1::Session&, std::int64_t now_ms) const;
  /// Below an agent or marked as one, but of a person who has logged in at the terminal.
  bool is_logged_in(const caller_process&) const;
  /// The kernel sessions of terminals, with the agents that the node knows.
  session_view sessions() const;
  swarm::token_cache& tokens() const noexcept { return tokens_; }
  const caller_places& places() const noexcept { return places_; }
  /// The process of a connection; 0 = unknown.
  std::int64_t process_of(const grpc::ServerContextBase& ctx) const;

private:
  std::optional<caller_process> look(int connection, look_again) const;
  void identify_by_token(claim&, std::string_view hex) const;
  bool identify_by_login(claim&, const caller_process&) const;
  void identify_by_place(claim&) const;

  caller_table& table_;
  const worker_registry& workers_;
  swarm::token_cache& tokens_;
  const caller_places& places_;
  const login_registry* logins_; // null = nobody logs in here
};

/// Who a session's token makes its bearer at `now_ms`: with those of its grants that have not ended.
v1::Principal principal_of(const v1::Session&, std::int64_t now_ms);

/// Metadata of a call: the hex of a session's 32-byte token.
inline constexpr const char* token_metadata = "swarm-token";

} // namespace swarm
