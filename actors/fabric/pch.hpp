// Precompiled for fabric: CAF, the messages, and the interfaces of all actors.
#include "actors/runtime/pch.hpp"

#include "actors/domain/rows.hpp"
#include "actors/fabric/entity.hpp"
#include "actors/fabric/node_environment.hpp"
#include "actors/runtime/defaults.hpp"
#include "actors/runtime/directory.hpp"
#include "actors/runtime/scheduling.hpp"
