// What the actors of a node share: facts, ports to the outside, and the handles of the parts below them.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "actors/base/clock.hpp"
#include "actors/base/paths.hpp"
#include "actors/domain/accept.hpp"
#include "actors/domain/config.hpp"
#include "actors/domain/rights.hpp"
#include "actors/fabric/interfaces.hpp"
#include "actors/runtime/restarts.hpp"
#include "actors/runtime/supervisor.hpp"

namespace swarm {

/// Hears the keeper's news, one after the other, from any thread; must not block.
using keeper_listener = std::function<void(keeper_news_ptr)>;

/// Way to the keeper; every function posts and returns, news go to the listener of the last connect().
class process_port {
public:
  virtual ~process_port() = default;
  /// Connects (starting the keeper if there is none) in the background; `attached` … `list_complete` or `lost` follows. The
  /// listener of an earlier connection hears nothing of this one, and this one's nothing of an earlier.
  virtual void connect(keeper_listener) = 0;
  // Asking for something gives no answer here: the listener hears what became of it, or that the connection was lost with it.
  /// The process is made and held at its gate.
  virtual void start(const internal::StartChild&) = 0;
  /// The program of the process at the gate begins.
  virtual void open_gate(const std::string& id) = 0;
  /// The process at the gate ends without having run its program.
  virtual void abort(const std::string& id) = 0;
  /// Types into the terminal; the listener hears of this ticket when the keeper has it, which the program may read later. Who connects
  /// next hears of the request (child_info::inputs).
  virtual void write(const std::string& id, std::uint64_t ticket, std::string data, const std::string& request) = 0;
  virtual void resize(const std::string& id, std::uint32_t columns, std::uint32_t rows) = 0;
  /// False: there is no connection just now, nothing was asked.
  virtual bool kill(const std::string& id, std::int32_t signal, std::uint32_t grace_ms) = 0;
  /// The output of this attempt is kept up to here: the program may go on to write as much more as its ring holds.
  virtual void output_taken(const std::string& id, std::uint32_t attempt, std::uint64_t end) = 0;
  /// What the keeper remembers of the child is not needed any more.
  virtual void forget(const std::string& id) = 0;
};

/// Tells when a process that is not a child of ours has ended, by pidfd.
class process_watch_port {
public:
  virtual ~process_watch_port() = default;
  /// Calls `gone` once, from another thread, when the process with this start time is gone (at once if it already is).
  /// Returns a number for forget().
  virtual std::uint64_t watch(std::int64_t pid, std::uint64_t pid_start, std::function<void()> gone) = 0;
  /// `gone` is not called any more, unless it is being called just now.
  virtual void forget(std::uint64_t) = 0;
};

/// Which live process belongs to which session: what the services ask when a caller shows no token. Thread-safe.
class worker_table {
public:
  virtual ~worker_table() = default;
  /// `who` has all the grants of its session, `ends` says when some of them end. `token_hash`: SHA-256 of the worker's token, 32 bytes; empty = it
  /// has none.
  virtual void put(std::int64_t pid, v1::Principal who, std::string token_hash, domain::grant_end_list ends = {}) = 0;
  virtual void erase(std::int64_t pid) = 0;
};

/// Hears what ends a caller's rights once it is committed. Thread-safe.
class token_cache_port {
public:
  virtual ~token_cache_port() = default;
  /// The token with this SHA-256 is no longer valid.
  virtual void token_gone(const std::string& token_hash) = 0;
  virtual void session_gone(const std::string& session_id) = 0;
};

/// Hears the news of links, one after the other for each connection, from any thread; must not block.
using link_listener = std::function<void(link_news_ptr)>;

/// Way to the other nodes; every function posts and returns.
class link_port {
public:
  virtual ~link_port() = default;
  /// News of every connection made from now on go here.
  virtual void listen(link_listener) = 0;
  /// Connects to a node; `connected` or `not_reached` follows.
  virtual void dial(const v1::NodeAddress&, link_lane) = 0;
  /// Gives up the dial to the node; `not_reached` follows.
  virtual void cancel_dial(const std::string& node_id, link_lane) = 0;
};

/// The cluster this node is in, as its files say. Thread-safe.
class cluster_port {
public:
  virtual ~cluster_port() = default;
  /// The node that is home of the scope, or of all shared scopes; empty = this one.
  virtual std::string home_of(std::string_view scope) const = 0;
  virtual std::string shared_home() const = 0;
  /// Open to the other nodes of the cluster.
  virtual bool is_shared(std::string_view scope) const = 0;
  /// The nodes; without a cluster id when there is no cluster.
  virtual v1::ClusterView view() const = 0;
  /// Keeps what the home says of the cluster.
  virtual void keep(const v1::ClusterView&) = 0;
  /// So many programs run on terminals here.
  virtual void busy(std::uint32_t workers) = 0;
  /// At the home: a worker has just been given to the node; it is counted until the node says how busy it is.
  virtual void placed(const std::string& node_id) = 0;
  /// `changed` is called, from any thread, when this node has something new to say of itself; must not block.
  virtual void listen(std::function<void()> changed) = 0;
  /// The directory of this node that is a checkout of the scope; empty = there is none.
  virtual std::string checkout_of(std::string_view scope) const = 0;
  /// What other nodes may do here.
  virtual const domain::accept_policy& accepts() const = 0;
};

/// Where the live tree begins. Thread-safe; set once the top supervisor is there.
class tree_root {
public:
  void set(const runtime::supervisor_actor& root) {
    std::lock_guard guard{mutex_};
    root_ = root.address();
  }
  /// Null before and after its life.
  runtime::supervisor_actor get() const {
    std::lock_guard guard{mutex_};
    return root_ ? caf::actor_cast<runtime::supervisor_actor>(root_) : runtime::supervisor_actor{};
  }

private:
  mutable std::mutex mutex_;
  caf::actor_addr root_;
};

/// What does not change while the node runs.
struct node_facts {
  std::string node_id;
  std::string node_name;
  std::string user_identity;
  std::string version;
  std::uint64_t incarnation = 1; // random, of this run of the node; not 0
  state_dir dir;
  std::string program_dir;                   // holds swarmctl and the others
  std::string token_key;                     // 32 bytes: workers' tokens are derived from it, so that a restart makes the same ones
  std::vector<std::string> base_environment; // of workers whose caller's environment was lost with a restart
  /// What config.toml sets for agents, by agent.
  std::map<std::string, domain::variables> agent_environment;
  /// config.toml: an agent that is dispatched works in a conversation where it can.
  bool structured_workers = false;
};

/// The node's facts and its ports to the world, which outlive every actor.
struct node_environment {
  node_facts facts;
  const clock_port* clock = nullptr;
  process_port* processes = nullptr;
  process_watch_port* watch = nullptr;
  worker_table* workers = nullptr;
  token_cache_port* tokens = nullptr; // may be null
  link_port* links = nullptr;         // null: there are no other nodes
  cluster_port* cluster = nullptr;    // null: likewise
  std::shared_ptr<tree_root> root = std::make_shared<tree_root>();
  /// For everything below the top supervisor: scopes, their entities, workers' actors, terminals.
  runtime::restart_options restarts;
};
using node_environment_ptr = std::shared_ptr<const node_environment>;

/// Handles of the parts started before; replaced by the supervisor when it restarts them and everything after.
struct node_links {
  node_environment_ptr node;
  /// Of a scope's entities: the node that is home of the scope, whose writer and readers these are; empty = this one.
  std::string home;
  watch_hub_actor watch;
  writer_actor writer;
  std::vector<reader_actor> readers;
  pty_log_actor pty_log;
  conversation_logs_actor conversation_logs;
  conversation_blobs_actor conversation_blobs;
  lock_judge_actor lock_judge;
  resting_drivers_actor resting_drivers;
  processes_actor processes;
  federation_actor federation;
};

/// A command the node itself sends: principal NODE, not remembered (such commands check the state they apply to).
execution_ptr internal_command(const node_environment&, const std::string& scope, std::function<void(v1::Command&)> fill);
/// A question the node itself asks: it sees everything.
query_ptr internal_query(const node_environment&, const std::string& scope, std::function<void(v1::Query&)> fill);

} // namespace swarm
