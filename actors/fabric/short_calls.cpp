#include "actors/fabric/short_calls.hpp"

#include <exception>

#include <caf/typed_event_based_actor.hpp>

#include "actors/base/log.hpp"
#include "actors/runtime/defaults.hpp"
#include "actors/runtime/tree.hpp"

namespace swarm {

short_calls_actor::behavior_type short_calls(short_calls_ptr self) {
  runtime::install_defaults(self);
  return {
    [self](const any_short_call_ptr& call) {
      try {
        call->begin(self);
      } catch (const std::exception& e) {
        // The others that are under way have nothing to do with it. Dropped, it answers by itself.
        log::error({"a call failed: ", e.what()});
      }
    },
    [](abort_atom, const any_short_call_ptr& call) { call->abort(); },
    [self](tree_atom) { return std::vector{runtime::self_row(self, "up")}; },
  };
}

} // namespace swarm
