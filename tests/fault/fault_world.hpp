// Clients that lose their node in the middle of a call: they repeat it with the same request id until their deadline, and what they
// then do not know goes into the history as unknown.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/history.hpp"
#include "tests/support/node_client.hpp"

namespace swarm::testing {

/// SWARM_TEST_FULL=1: all rounds instead of a sample.
bool full_run();
/// Printed and given again with SWARM_TEST_SEED to repeat a run.
unsigned run_seed();

class fault_client {
public:
  using milliseconds = std::chrono::milliseconds;
  /// Registers a session that lives as long as this process, on behalf of which it calls. The scope, unless named, is the node's own.
  fault_client(const test_node&, history::recorder&, const std::string& name, const std::string& scope = {});

  const std::string& session() const { return session_; }
  /// The same for other threads, while this one may renew it.
  std::string session_now() const;
  node_client& raw() { return client_; }
  v1::Command command() { return client_.command(session_); }
  /// From now on the operator of that node sends the calls and acts as the session; nullptr: the session sends them itself.
  void speak_through(const test_node*);

  /// The answer, or nullopt when none came by the deadline.
  std::optional<v1::Reply> execute(const v1::Command&, milliseconds deadline);
  /// Sends the last request once more.
  std::optional<v1::Reply> again(milliseconds deadline);
  std::optional<v1::Answer> ask(const v1::Query&, milliseconds deadline);

  // Recorded operations; true when granted.
  bool acquire(const std::string& path, std::int64_t wait_ms, milliseconds deadline);
  /// With the fence of the last grant, or whatever is held when there was none.
  bool release(const std::string& path, milliseconds deadline);
  bool give_up(const std::string& path, milliseconds deadline);
  std::string create_task(const std::string& key, milliseconds deadline);
  bool claim(const std::string& task, milliseconds deadline);
  bool complete(const std::string& task, milliseconds deadline);
  void read_task(const std::string& task, milliseconds deadline);
  void set(const std::string& key, const std::string& value, milliseconds deadline);
  void compare_and_set(const std::string& key, const std::string& value, milliseconds deadline);
  void append(const std::string& key, const std::string& item, milliseconds deadline);
  std::string read_key(const std::string& key, milliseconds deadline);
  /// An exec task that runs `script`, on that node if one is named; its id, empty when unknown or refused.
  std::string dispatch(const std::string& key, const std::string& script, milliseconds deadline, unsigned retries = 0, const std::string& on = {},
                       const std::string& directory = {});
  std::string request_spawn(const std::string& key, const std::string& script, milliseconds deadline, const std::string& on = {});
  /// A question with these options; its id. With a timeout the history knows when it ends by itself.
  std::string request_approval(const std::string& subject, const std::vector<std::string>& options, milliseconds timeout, milliseconds deadline);
  bool decide(const std::string& approval, const std::string& option, const std::string& digest, milliseconds deadline);
  /// From now on its node may withdraw it.
  void may_be_withdrawn(const std::string& approval);
  /// Of the newest that it has asked for: takes it back; looks what has become of that many.
  void withdraw(milliseconds deadline);
  void read_approvals(std::size_t newest, milliseconds deadline);
  /// Repeats the last answered request: it must get the same answer.
  void repeat_last(milliseconds deadline);

  // For a session that ends with its host. In the history it ends at some moment between these two calls, which another thread may make.
  void may_end();
  void has_ended();
  /// It has been told so, and was told so for a reason if the history is right.
  bool is_told_gone() const { return told_gone_; }
  /// A session in place of the one that has ended. False: none by the deadline.
  bool renew(milliseconds deadline);
  /// Calls that are under way or follow have one more attempt.
  void stop_repeating() { no_repeats_ = true; }

  std::atomic<std::size_t> answered{0};
  std::atomic<std::size_t> repeats{0};

private:
  /// `fresh`: it was never sent before.
  std::optional<v1::Reply> send(node_client&, const v1::ExecuteRequest&, milliseconds deadline, bool fresh);
  // A completion takes the locks of its session along.
  /// What became of those nobody heard of is asked before a lock is taken; one that is still not known may release `path` at any time.
  void settle_completions(const std::string& path);
  [[nodiscard]] std::size_t may_release(const std::string& path);

  /// What an operation gives, as the history sees it.
  struct sent {
    std::string text;
    std::uint64_t number = 0;
  };
  /// Executes a command as an operation of the history. `seen(reply)` is what a reply that refuses nothing shows it, or nothing when that
  /// is no grant. The reply if it is one.
  template <class Seen>
  std::optional<v1::Reply> recorded(const char* model, const std::string& object, const char* op, const sent&, const v1::Command&,
                                    milliseconds deadline, Seen seen);

  const test_node& node_;
  const std::string name_;
  const std::string scope_;
  history::recorder& history_;
  std::string token_;
  mutable std::mutex session_mutex_;
  std::string session_;
  node_client client_;
  std::map<const test_node*, std::unique_ptr<node_client>> operators_;
  node_client* speaker_ = &client_;
  node_client* last_speaker_ = &client_; // of last_
  std::string fence_path_;
  std::uint64_t fence_ = 0;
  std::string claimed_;
  std::uint64_t claim_fence_ = 0;
  std::vector<std::string> asked_; // approvals, the newest last
  std::string seen_key_;
  std::uint64_t seen_revision_ = 0;
  v1::ExecuteRequest last_;
  std::optional<v1::Reply> last_reply_;
  struct open_completion {
    v1::ExecuteRequest request;
    std::vector<std::size_t> releases; // what it may release, in the history
  };
  std::vector<open_completion> open_completions_;
  std::set<std::string> doubtful_; // paths that the session may hold without having heard of it
  bool may_be_late_ = false;       // an operator of another host sent one of their acquires, which may be on its way for long
  std::optional<std::size_t> end_; // of the session, in the history
  std::atomic<bool> told_gone_{false};
  std::atomic<bool> no_repeats_{false};
};

/// What the sessions of all clients of this process call with, as hex text.
std::vector<std::string> session_tokens();
/// Asks again while the node or a part of it is away.
v1::Answer ask_patiently(node_client&, const v1::Query&);
/// The rows of a list query, all pages.
std::vector<v1::Spawn> all_spawns(node_client&, bool live_only = false);
std::optional<v1::Task> task_of(node_client&, const std::string& id);
/// Ids of the sessions that the scope has.
std::set<std::string> all_sessions(node_client&);
/// What the home of the scope says happened to that object, one event a line.
std::string events_about(node_client&, const std::string& object);
/// False when there is no such actor now.
bool kill_actor(node_client&, const std::string& path);
v1::ActorGraph graph_of(node_client&);

} // namespace swarm::testing
