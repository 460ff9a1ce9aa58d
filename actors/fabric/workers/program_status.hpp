// What a program says of itself in the output of its terminal: the Program Status Protocol (OSC 7501), as Codex and, once somebody listens,
// Claude Code speak it, and the titles with which Gemini CLI says the same.
//
// A hook is called when something begins. That a person has said No, or has broken off a turn, no hook tells; this does.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "swarm/v1/coordination.pb.h"

namespace swarm {

/// Reads a terminal's output in the order in which it comes: no clock, no I/O.
class program_status {
public:
  /// What a terminal that listens answers to the question whether anybody does.
  static constexpr std::string_view answer = "\x1b]7501;?\x1b\\";

  /// Pieces may end anywhere, also within a sequence.
  void read(std::string_view output);
  /// What was said so far is no longer valid.
  void forget();
  /// IDLE, WORKING or BLOCKED, whichever it said last; UNKNOWN when it has said nothing valid.
  v1::AgentReport::State said() const noexcept { return blocked_.empty() ? own_ : v1::AgentReport::BLOCKED; }
  /// Whether it has asked since the last call if anybody listens.
  bool asked() noexcept { return std::exchange(asked_, false); }

private:
  enum class place { text, escape, sequence, sequence_escape };

  void take(char c);
  void finish();
  void take_status(std::string_view pairs);
  void take_title(std::string_view title);

  place place_ = place::text;
  std::string sequence_;
  bool too_long_ = false;
  v1::AgentReport::State own_ = v1::AgentReport::UNKNOWN;
  std::set<std::string, std::less<>> blocked_; // parts of it, such as a subagent, that wait for the user
  bool asked_ = false;
};

} // namespace swarm
