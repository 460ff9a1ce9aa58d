// Precompiled for store: CAF, the messages, SQLite, and the room's interfaces.
#include "actors/runtime/pch.hpp"

#include <sqlite3.h>

#include "actors/domain/decide.hpp"
#include "actors/store/interfaces.hpp"
#include "actors/store/sqlite.hpp"
