// Precompiled for keeper: the messages it speaks.
#include "actors/base/pch.hpp"

#include "services/keeper/event_loop.hpp"
#include "swarm/internal/keeper.pb.h"
