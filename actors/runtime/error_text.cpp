#include "actors/runtime/error_text.hpp"

#include "actors/runtime/error.hpp"

namespace swarm::runtime {

std::string error_text(const caf::error& e) {
  if (e.context().match_elements<std::string>())
    return e.context().get_as<std::string>(0);
  if (e.category() == caf::detail::error_factory<errc>::category)
    return to_string(static_cast<errc>(e.code()));
  return caf::to_string(e);
}

} // namespace swarm::runtime
