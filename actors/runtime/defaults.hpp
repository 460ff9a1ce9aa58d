// What every actor does about messages, deaths, errors and exceptions that its own code does not handle.
#pragma once

#include <caf/fwd.hpp>

namespace swarm::runtime {

/// First line of every behaviour function; handlers set afterwards win. Everything is logged, nothing printed:
/// an unexpected message is answered with caf::sec::unexpected_message, a death and a stray error are survived (CAF's default
/// ends the actor on an error that another actor sent), an exception ends the actor with errc::unavailable and the exception's text.
void install_defaults(caf::scheduled_actor* self);

} // namespace swarm::runtime
