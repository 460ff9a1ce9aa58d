// One worker, from the durable request to the recorded end.
//
//   REQUESTED ── child at the gate ── [SpawnStarting, SpawnRunning committed] ── gate opened ── exited ── [SpawnEnded committed]
//
// Whatever crashes in between, the next activation asks the keeper what exists and goes on from there; the row decides.
#pragma once

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/fabric/workers/agent.hpp"

namespace swarm {

struct spawn_state {
  static inline const char* name = "spawn";
  entity_place place;
  v1::Spawn row;
  std::string directory;                // where it runs, absolute; relative when the scope has no checkout here
  std::vector<std::string> environment; // of the caller; empty after a restart
  child_info child;
  std::string phase;
  bool ending = false;
  bool unwanted = false;            // its task was cancelled
  agent_actor agent;                // while an agent runs
  std::string native_session;       // of a conversation: by which its agent resumes
  bool heard = false;               // of a conversation: all that its driver has told is dealt with
  std::function<void()> once_heard; // its end
  ~spawn_state();
};

spawn_actor::behavior_type spawn(spawn_actor::stateful_pointer<spawn_state> self, entity_place place, v1::Spawn row,
                                 std::vector<std::string> environment);

/// The worker's session token: derived from the node's secret, so that a restart makes the same one again. 64 hex digits.
std::string worker_token(const node_facts&, const v1::Spawn&);

/// The worker's whole environment: the node's, what config.toml sets for the agent (`configured`) and the caller's, of which a later one wins; where
/// there is a caller, the node's is left out. Then those of swarm-mcp and ours.
std::vector<std::string> worker_environment(const node_facts&, const v1::Spawn&, const std::string& directory, const std::string& scope,
                                            const std::vector<std::string>& caller, const std::vector<std::string>& configured = {});

} // namespace swarm
