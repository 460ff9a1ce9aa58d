// What the files of a dialogue share.
#pragma once

#include <string>
#include <string_view>

#include "actors/base/text.hpp"

namespace swarm {

/// The begin of a text, of at most so many bytes.
inline std::string head(std::string_view text, std::size_t bytes) { return std::string{utf8_prefix(text, bytes)}; }

} // namespace swarm
