#include "actors/fabric/short_calls.hpp"

#include <exception>

#include <caf/typed_event_based_actor.hpp>

#include "actors/base/log.hpp"
#include "actors/runtime/defaults.hpp"
#include "actors/runtime/tree.hpp"

namespace swarm {

door_actor::behavior_type door(door_ptr self) {
  runtime::install_defaults(self);
  return {
    [self](const door_call_ptr& call) {
      try {
        call->begin(self);
      } catch (const std::exception& e) {
        // The others that are under way have nothing to do with it. Dropped, it answers by itself.
        log::error({"a call failed: ", e.what()});
      }
    },
    [](abort_atom, const door_call_ptr& call) { call->abort(); },
    [self](tree_atom) { return std::vector{runtime::self_row(self, "up")}; },
  };
}

} // namespace swarm
