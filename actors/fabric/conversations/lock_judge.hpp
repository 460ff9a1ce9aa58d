// Whether a tool may write what peers hold. Its driver has said what it writes. Only locks' paths are looked at here, for symbolic links and linked
// worktrees. A file system that hangs keeps one looker, and of its scope no more than two: the others go on.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/agents/held_paths.hpp"
#include "actors/fabric/interfaces.hpp"

namespace swarm {

/// The files of a scope's locks on this host. Those of the scope that was asked for last are kept.
class lock_files {
public:
  struct locked {
    const v1::LockView* lock;
    agents::held_file file;
  };
  /// Without the fabric's own names. Reads the file system.
  const std::vector<locked>& of(const scope_locks_ptr&);

private:
  scope_locks_ptr of_;
  std::vector<locked> files_;
};

lock_verdict_ptr judge_locks(const lock_case&, lock_files& known);

struct lock_looker_state {
  static inline const char* name = "lock-looker";
  lock_files known;
};

lock_looker_actor::behavior_type lock_looker(lock_looker_actor::stateful_pointer<lock_looker_state> self);

struct lock_judge_state {
  static inline const char* name = "lock-judge";

  struct job {
    caf::actor_addr asker;
    lock_case_ptr what;
    caf::typed_response_promise<lock_verdict_ptr> promise;
  };
  std::function<lock_looker_actor()> make;
  std::deque<job> waiting;
  std::map<std::string, std::size_t> at_work; // by scopes
  std::vector<lock_looker_actor> idle;
  std::size_t lookers = 0;
};

/// `make` spawns a looker, which ends with the judge.
lock_judge_actor::behavior_type lock_judge(lock_judge_actor::stateful_pointer<lock_judge_state> self, std::function<lock_looker_actor()> make);

} // namespace swarm
