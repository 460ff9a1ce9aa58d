// The first inputs of every target: well-formed examples of each kind, from which libFuzzer and the replay go on.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace swarm::fuzz {

struct seed {
  std::string name;
  std::string bytes;
};
using seeds = std::map<std::string, std::vector<seed>, std::less<>>; // by target

/// As input::piece() of fuzz.hpp reads it.
inline std::string piece_of(const std::string& bytes) {
  return std::string{static_cast<char>(bytes.size() & 0xff), static_cast<char>(bytes.size() >> 8 & 0xff)} + bytes;
}

seeds all_seeds();
/// Those of what agents' programs and their users write: routines, hooks, commands, settings.
void add_agent_seeds(seeds&);
/// Those of tokens, keys and certificates.
void add_security_seeds(seeds&);

} // namespace swarm::fuzz
