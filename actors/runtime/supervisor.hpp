// Supervision: CAF has monitors, not supervisors.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <caf/actor.hpp>
#include <caf/actor_clock.hpp>
#include <caf/local_actor.hpp>
#include <caf/typed_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/base/limits.hpp"
#include "actors/runtime/error.hpp"
#include "actors/runtime/parked.hpp"
#include "actors/runtime/registry.hpp"
#include "actors/runtime/restarts.hpp"
#include "actors/runtime/tree.hpp"

namespace swarm::runtime {

/// permanent: always started again; transient: only after an end with an error; temporary: never.
enum class restart_policy { permanent, transient, temporary };

/// one_for_one: only the dead one is started again. rest_for_one: those started after it are stopped first, in reverse order, and
/// started again with it, in order.
enum class restart_strategy { one_for_one, rest_for_one };

struct child_spec {
  /// Unique among its siblings, without '/'.
  std::string name;
  /// Spawns the child (detached, if it blocks); runs inside the supervisor, must not block. A null handle or an exception is a
  /// failed start and is treated like a death. Closures share what must outlive a restart by shared_ptr.
  std::function<caf::actor(caf::local_actor* supervisor)> start;
  restart_policy policy = restart_policy::permanent;
  /// From the exit message to the kill.
  std::chrono::milliseconds stop_grace = limits::child_stop_grace();
  /// For the tree: "writer", "scope", ...
  std::string kind;
  /// The child answers `tree_atom` (see tree.hpp).
  bool shows_tree = false;
  /// It is a parent itself and answers `kill_atom, std::string` for what is below it.
  bool kills_below = false;
};

/// Too many restarts of all children together end the supervisor with errc::unavailable, so that its own supervisor decides.
struct supervisor_options : restart_options {
  restart_strategy strategy = restart_strategy::one_for_one;
  /// How long children may take to show their subtree; a supervisor of supervisors needs more than they do.
  std::chrono::milliseconds tree_patience = limits::tree_patience();
  /// In front of the names published to the registry: "scopes" gives "scopes/NAME".
  std::string path;
};

using supervisor_actor = caf::typed_actor<
  // A child, by name; errc::not_found. `who` is null while it is down.
  caf::replies_to<lookup_atom, std::string>::with<binding>,
  // Appends a child and starts it (under rest_for_one: with the others, if a restart is under way). errc::invalid for a taken or
  // malformed name, errc::overloaded at supervisor_children_max, errc::unavailable while stopping.
  caf::replies_to<add_atom, child_spec>::with<binding>,
  // Ends and forgets a child; answered when it is gone. errc::not_found.
  caf::reacts_to<remove_atom, std::string>,
  // Kills a child ("a"), one below it ("a/b") or the supervisor itself ("") without warning, as a drill; the policy of the supervisor
  // above it then applies. errc::not_found.
  caf::reacts_to<kill_atom, std::string>,
  // Itself with an empty path, then its children, in start order.
  caf::replies_to<tree_atom>::with<std::vector<tree_entry>>,
  // Its own timers: a back-off has passed; a grace has passed.
  caf::reacts_to<restart_atom, std::string, std::uint64_t>, caf::reacts_to<tick_atom, std::string, std::uint64_t>>;

struct supervisor_state {
  static inline const char* name = "swarm.supervisor";

  enum class phase {
    up,
    ending,  // was asked to end, or killed
    waiting, // to be started again
    ended,   // its policy wants no restart
  };

  struct child {
    child_spec spec;
    phase now = phase::ended;
    caf::actor handle;
    std::uint64_t incarnation = 0;
    std::uint64_t starts = 0;
    backoff waits;
    caf::actor_clock::time_point started{};
    std::vector<parked<void>> removers; // not empty: to be forgotten when it is gone
    bool killed = false;
  };

  supervisor_options options;
  std::shared_ptr<registry> names;
  caf::actor_clock::time_point started{};
  std::vector<child> children; // start order
  restart_budget restarts;
  bool rest_ready = false;               // rest_for_one: the back-off of the first waiting child has passed
  std::optional<caf::error> stop_reason; // set: stopping

  /// Runs on every way out of the actor: no orphans.
  ~supervisor_state();
};

/// Starts the children in order. An exit message ends them in reverse order, each with its grace, then the supervisor with the
/// message's reason. `names` may be null: then nothing is published.
supervisor_actor::behavior_type supervisor(supervisor_actor::stateful_pointer<supervisor_state> self, supervisor_options options,
                                           std::vector<child_spec> specs, std::shared_ptr<registry> names);

} // namespace swarm::runtime
