// What scripted_agent says, for it and for those who look whether all of it has come.
#pragma once

#include <string>

namespace swarm::testing {

/// Its n-th text of that prompt. Every third one is larger than a frame between driver and node.
inline std::string said_by(const std::string& name, int n) {
  constexpr std::size_t large = 130'000;
  auto out = name + "." + std::to_string(n);
  return n % 3 == 0 ? out + " " + std::string(large, static_cast<char>('a' + n % 26)) : out;
}

} // namespace swarm::testing
