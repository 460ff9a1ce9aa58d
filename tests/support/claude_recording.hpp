// A recording of Claude Code and of a program that drives it (tests/agents/record_streams.mjs), played to a claude_stream.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "actors/agents/claude_stream.hpp"

namespace swarm::test {

/// The lines of fixtures/claude/streams/<scenario>.jsonl.
std::vector<nlohmann::json> claude_recording(const std::string& scenario);

/// Cuts a text into pieces.
using slicing = std::function<std::vector<std::string>(const std::string&)>;
std::vector<std::string> whole(const std::string&);
std::vector<std::string> byte_by_byte(const std::string&);
/// Pieces of 0 to `most` bytes.
slicing random_slices(std::uint64_t seed, std::size_t most);

/// What comes of a recording.
struct claude_replay {
  std::vector<internal::FromDriver> said;
  std::vector<std::string> lines;        // for the program, in place of those that were recorded
  std::vector<nlohmann::json> differing; // recorded lines that the stream writes otherwise
  std::vector<std::string> refusals;     // of answers and prompts that were recorded
  std::string to_agent;                  // lines that nobody asked for
};
claude_replay replay_claude(const std::vector<nlohmann::json>& recording, const slicing& = whole);

/// SHA-256 of the body of what was asked last under this id: an answer to it repeats it.
std::string digest_of(const std::vector<internal::FromDriver>&, const std::string& id);

/// One line for each body, for people; without deltas, hooks and what the agent says of itself.
std::vector<std::string> story_of(const std::vector<internal::FromDriver>&);

} // namespace swarm::test
