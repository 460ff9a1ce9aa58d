// TOML that somebody else wrote, made fit for toml++ 3.3.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace swarm {

struct toml_objection {
  std::size_t line = 0; // from 1; 0 = the file as a whole
  std::string text;
};

/// toml++ 3.3 is undefined for some letters where white space may stand, and goes one call deeper for each part of a dotted key. So
/// characters beyond ASCII outside of texts in quotes are refused, as TOML has it, but in comments, where they are overwritten; a byte order
/// mark counts as blanks. So are keys of very many parts. Length and lines stay as they are.
std::optional<toml_objection> make_fit_for_toml(std::string& text);

} // namespace swarm
