// A cluster with its sessions: what members ask of their home over the star, and what the home does for them.
#pragma once

#include <unordered_map>
#include <unordered_set>

#include "tools/simulate.d/home_store.hpp"
#include "tools/simulate.d/star.hpp"

namespace swarm::simulate {

struct agent {
  std::string id, scope, client;
  std::size_t node = 0;
  std::uint64_t seq = 0; // of its requests
  std::uint64_t fence = 0;
};

class cluster {
public:
  /// What came of a question; null: nothing before its deadline.
  using answered = std::function<void(const v1::LinkResponse*)>;

  struct totals {
    std::uint64_t asked = 0, answered = 0, refused = 0, overdue = 0, errors = 0;
    std::uint64_t told = 0; // batches sent to members
  };

  explicit cluster(const settings&);
  cluster(const cluster&) = delete;
  cluster& operator=(const cluster&) = delete;

  // -- before the time begins ----------------------------------------------------------------

  /// Sessions of all nodes in turn, in scopes of settings::scope_sessions.
  void register_sessions(v1::Session::Presence);
  /// Each session gets a lock, and settings::claims_percent of them a task that they have claimed.
  void give_locks_and_tasks();
  void start_workers();
  /// All links are up.
  void connect();

  // -- what members ask ------------------------------------------------------------------------

  void ask(std::size_t node, v1::LinkRequest, answered, micros patience = 30 * one_second);
  /// On behalf of a session, as its agent would.
  void command(agent&, const std::function<void(v1::Command&)>& fill, answered);

  /// The home has committed that: as the federation and its links do.
  void tell_members(const commit_ptr&);

  // -- hooks of scenarios ----------------------------------------------------------------------

  std::function<void(const v1::Batch&)> on_batch; // a commit at the home
  std::function<void(std::size_t node, bool resumed)> on_member_up;
  std::function<void(std::size_t node)> on_gone;

  std::size_t scopes() const { return (setup.sessions + setup.scope_sessions - 1) / setup.scope_sessions; }
  std::string scope(std::size_t i) const { return "scope-" + std::to_string(i); }
  const totals& so_far() const { return totals_; }
  void forget_totals();
  /// Questions that have neither an answer nor failed.
  std::size_t open_questions() const;

  const settings setup;
  schedule time;
  std::vector<agent> agents;
  std::vector<std::pair<std::string, std::size_t>> workers; // spawn id, node
  std::unique_ptr<home_store> store;
  std::unique_ptr<star> links;
  /// Of the processor: choosing who is told of a commit, and copying it for each.
  std::int64_t choosing_ns = 0;

private:
  struct question {
    link_message message;
    answered done;
    bool put = false; // into the link as it is now
  };
  struct node_state {
    std::unordered_map<std::uint64_t, question> asked;
    std::uint64_t next_id = 1;
    std::unordered_set<std::uint64_t> jobs; // asked of the home, under way there
    std::uint64_t epoch = 0;                // at the home: answers to what was asked before a new begin are nobody's
  };

  void prepare(const std::function<void(std::vector<execution_ptr>&)>& make, const std::function<void(std::size_t, const v1::Reply&)>& made);
  void at_home(std::size_t node, const v1::LinkMessage&);
  void execute(std::size_t node, const v1::LinkRequest&);
  void query(std::size_t node, const v1::LinkRequest&);
  void answer(std::size_t node, std::uint64_t epoch, std::uint64_t id, const std::function<void(v1::LinkResponse&)>& fill);
  void at_member(std::size_t node, const v1::LinkMessage&);
  void end_overdue();

  std::vector<node_state> nodes_;
  std::vector<std::string> ids_;
  runtime::deadline_heap<std::uint64_t> overdue_; // of node << 40 | id
  totals totals_;
};

} // namespace swarm::simulate
