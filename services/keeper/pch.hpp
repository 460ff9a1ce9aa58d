// Precompiled for keeper: the messages it speaks.
#include "actors/base/event_loop.hpp"
#include "actors/base/pch.hpp"

#include "swarm/internal/keeper.pb.h"
