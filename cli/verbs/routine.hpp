// Where the routines of an invocation come from.
#pragma once

#include "cli/invocation.hpp"
#include "gateway/routine/places.hpp"

namespace swarm::cli {

routines::places places_of(const invocation&);

} // namespace swarm::cli
