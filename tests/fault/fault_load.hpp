// Many clients at once on locks, tasks, keys and workers, while somebody harms the node.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/fault/fault_world.hpp"

namespace swarm::testing {

struct load_figures {
  std::size_t operations = 0; // recorded
  std::size_t unknown = 0;
  std::size_t answered = 0;
  std::size_t repeats = 0;              // calls sent again with the same id
  std::size_t decided = 0, expired = 0; // approvals: granted decisions, and ends that somebody has seen
  history::report checked;
};

/// Where the clients are, and on what they work.
struct load_setting {
  std::vector<const test_node*> nodes; // each has the next client by turns
  std::size_t clients = 8;
  std::string scope = {};                   // empty: that of the first node
  std::vector<std::string> workers_on = {}; // names of nodes, one by chance for each worker; empty: not named
  bool workers_get_lost = false;            // with their keepers: their tasks may fail then
  unsigned retries_most = 0;                // of workers
  bool comes_back = false;                  // a client whose session has ended with its host takes a new one
};

class load {
public:
  load(const test_node&, std::size_t clients, unsigned seed);
  load(load_setting, unsigned seed);
  ~load();

  /// Runs the clients on fresh objects while `harm` does its work, and waits for them.
  void round(const std::function<void()>& harm);
  /// After everything has healed: each client gets rid of what it may hold, then must make progress on every kind of object. Then all
  /// that was acknowledged is read again. Empty, or what is wrong.
  std::string settle();
  load_figures check() const;
  /// The sessions of that node's clients end between these two calls. Unless clients come back they go on calling to the end of the round,
  /// and never again; `settle` is about the others.
  void may_lose(std::size_t node);
  void has_lost(std::size_t node);
  /// Of the clients on that node.
  std::vector<std::string> sessions(std::size_t node) const;
  history::recorder& history() { return history_; }
  /// Where every worker wrote "<spawn id> <pid> <key> <session id>".
  std::string worker_log() const { return worker_log_; }

private:
  struct objects;
  void work(std::size_t client);
  /// In a scope that hosts share it is a file of the checkout, whichever host names it.
  std::string lock_path(const std::string& name) const;
  void speak(fault_client&, std::mt19937&) const;
  void approvals(fault_client&, std::mt19937&, const std::string& subject, std::chrono::milliseconds deadline);
  bool is_out(std::size_t client) const { return out_.contains(client % where_.nodes.size()); }
  std::string progress(fault_client&, std::size_t index);

  const load_setting where_;
  const std::string dir_; // of the first node, which all can reach
  history::recorder history_;
  unsigned seed_;
  std::size_t rounds_ = 0;
  std::string worker_log_;
  std::vector<std::unique_ptr<fault_client>> clients_;
  std::unique_ptr<objects> shared_;
  std::set<std::size_t> out_;            // nodes
  std::atomic<std::uint32_t> silent_{0}; // a bit for each node whose operator no longer speaks for sessions of other nodes
};

/// What the workers wrote, against the rows: no spawn id ran twice, none without a row, and each as the process the row names.
std::string check_workers(const std::string& log, const std::vector<v1::Spawn>& rows);
/// The same of workers that have several attempts, each of which is a session of its own: no attempt ran twice, and none but as the process
/// that was committed for it.
std::string check_attempts(const std::string& log, node_client& home);

} // namespace swarm::testing
