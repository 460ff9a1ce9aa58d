#include "actors/store/columns.hpp"

#include <limits>

#include <sqlite3.h>

namespace swarm {

std::int64_t to_column(std::uint64_t n) {
  if (n > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
    throw sqlite::error{SQLITE_RANGE, "a number is too big for the store: " + std::to_string(n)};
  return static_cast<std::int64_t>(n);
}

} // namespace swarm
