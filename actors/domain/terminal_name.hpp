// What the terminal of a spawn is called.
#pragma once

#include <string>

#include "swarm/v1/state.pb.h"

namespace swarm::domain {

/// True when a person asked for the terminal and gave it its name.
bool is_named_by_person(const v1::Spawn&);
/// As the person called it; of a worker, a short name of its task, else of its role.
std::string terminal_name(const v1::Spawn&);
/// The name of a worker while another one of its scope has its terminal_name(): with the beginning of its id.
std::string distinct_terminal_name(const v1::Spawn&);

} // namespace swarm::domain
