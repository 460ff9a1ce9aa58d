// swarm::errc inside caf::error, and the first type-id block of the process.
#pragma once

#include <string>

#include <caf/error.hpp>
#include <caf/make_message.hpp>
#include <caf/message.hpp>
#include <caf/meta/type_name.hpp>
#include <caf/type_id.hpp>

#include "actors/base/errc.hpp"
#include "actors/runtime/messages.hpp"

CAF_BEGIN_TYPE_ID_BLOCK(swarm_runtime, first_custom_type_id)
  CAF_ADD_TYPE_ID(swarm_runtime, (swarm::errc))
  CAF_ADD_ATOM(swarm_runtime, swarm, lookup_atom, "lookup")
  CAF_ADD_ATOM(swarm_runtime, swarm, restart_atom, "restart")
  CAF_ADD_ATOM(swarm_runtime, swarm, passivate_atom, "passivate")
  CAF_ADD_ATOM(swarm_runtime, swarm, tick_atom, "tick")
  CAF_ADD_ATOM(swarm_runtime, swarm, tree_atom, "tree")
  CAF_ADD_ATOM(swarm_runtime, swarm, kill_atom, "kill")
  CAF_ADD_ATOM(swarm_runtime, swarm, add_atom, "add")
  CAF_ADD_ATOM(swarm_runtime, swarm, remove_atom, "remove")
  CAF_ADD_TYPE_ID(swarm_runtime, (swarm::runtime::binding))
  CAF_ADD_TYPE_ID(swarm_runtime, (swarm::runtime::tree_entry))
  CAF_ADD_TYPE_ID(swarm_runtime, (std::vector<swarm::runtime::tree_entry>))
CAF_END_TYPE_ID_BLOCK(swarm_runtime)

CAF_ERROR_CODE_ENUM(swarm::errc, "swarm")

namespace swarm {

inline caf::error fail(errc code, std::string context = {}) {
  return context.empty() ? caf::make_error(code) : caf::make_error(code, std::move(context));
}

} // namespace swarm
