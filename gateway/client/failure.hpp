// Why a call or a command did not succeed, and the exit statuses that scripts rely on. The status is the reason: every program in front of a node
// tells failures apart by it.
#pragma once

#include <optional>
#include <stdexcept>
#include <string>

#include <nlohmann/json.hpp>

namespace swarm::cli {

using json = nlohmann::ordered_json;

namespace code {
inline constexpr int ok = 0;
inline constexpr int refused = 1; // also: not found
inline constexpr int usage = 2;
inline constexpr int no_node = 3;
inline constexpr int deadline = 4;
inline constexpr int not_whole = 74; // sysexits.h: EX_IOERR
inline constexpr int interrupted = 130;
} // namespace code

/// Ends a command. `text` goes to stderr after "swarmctl <command>: "; an empty text says nothing. With --json `body`, or
/// {"error": text} for a refusal without one, goes to stdout.
struct failure : std::runtime_error {
  failure(int exit_code, const std::string& text, std::optional<json> json_body = std::nullopt)
    : std::runtime_error(text), exit_status(exit_code), body(std::move(json_body)) {}
  int exit_status;
  std::optional<json> body;
  /// The text is swarm-mcp's own ("claim failed: …") and gets no prefix.
  bool verbatim = false;
  /// The session whose token was shown is not known.
  bool unknown_token = false;
  /// The operator has stopped the node, which stays so.
  bool node_stopped = false;
  /// With that: its programs go on, so that it is a pause for those who follow them.
  bool programs_go_on = false;
  /// An earlier try may have done what this one was refused.
  bool may_have_arrived = false;
};

/// A call that brought no decision: what the ports throw. what() is for people and says what to do next.
struct call_failed : failure {
  using failure::failure;
  /// The node does not take this call. Other reasons are its absence, a deadline, an interrupt, or a session that is gone.
  bool is_refusal() const noexcept { return exit_status == code::refused && !unknown_token; }
};

} // namespace swarm::cli
