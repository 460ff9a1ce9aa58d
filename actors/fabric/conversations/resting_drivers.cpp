#include "actors/fabric/conversations/resting_drivers.hpp"

#include <caf/send.hpp>

#include "actors/base/limits.hpp"
#include "actors/runtime/defaults.hpp"
#include "actors/runtime/tree.hpp"

namespace swarm {

resting_drivers_actor::behavior_type resting_drivers(resting_drivers_actor::stateful_pointer<resting_drivers_state> self) {
  runtime::install_defaults(self);
  self->set_down_handler([self](caf::down_msg& dm) { self->state.resting.remove_if([&](const auto& who) { return who.address() == dm.source; }); });
  return {
    [self](attach_atom, bool rests) {
      auto& all = self->state.resting;
      auto who = caf::actor_cast<conversation_actor>(self->current_sender());
      if (!who)
        return;
      if (all.remove(who) > 0)
        self->demonitor(who.address());
      if (!rests)
        return;
      self->monitor(who);
      all.push_back(std::move(who));
      if (all.size() > limits::resting_drivers_max())
        caf::anon_send(all.front(), gone_atom_v); // it says that it rests no more
    },
    [self](tree_atom) { return std::vector{runtime::self_row(self, "up", std::to_string(self->state.resting.size()) + " rest")}; },
  };
}

} // namespace swarm
