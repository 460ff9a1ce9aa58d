// Precompiled for runtime and, through theirs, for the rooms above: CAF, and the room's interfaces.
#include "actors/base/pch.hpp"

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/scoped_actor.hpp>
#include <caf/send.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/runtime/error.hpp"
#include "actors/runtime/parked.hpp"
#include "actors/runtime/restarts.hpp"
#include "actors/runtime/supervisor.hpp"
#include "actors/runtime/tree.hpp"
