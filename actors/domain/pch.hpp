// Precompiled for domain: the messages, JSON, and the room's interfaces.
#include "actors/base/pch.hpp"

#include <nlohmann/json.hpp>

#include "actors/base/crypto.hpp"
#include "actors/domain/decide.hpp"
#include "actors/domain/query/rules.hpp"
#include "actors/domain/rules.hpp"
#include "actors/domain/task/rules.hpp"
#include "actors/domain/task/spawn_rules.hpp"
