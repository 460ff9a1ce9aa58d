// A terminal used from this one: raw mode, resizing, a key to leave. The terminal is restored however it ends.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "gateway/client/ports.hpp"

namespace swarm::cli {

/// "^]" is Ctrl-], "^A" and "^a" are Ctrl-A, any single other character is itself; nullopt if it is none of these.
std::optional<char> parse_detach_key(std::string_view text);

struct attach_end {
  bool detached = false; // else the program has ended
  int exit_status = 0;   // of the program, without a signal
  int signal = 0;        // that ended it, 0 = none
};

struct attach_settings {
  char detach_key = '\x1d'; // Ctrl-]
  /// The end of standard input does not mean to leave.
  bool stay = false;
  /// Somebody can leave: then a node that is away is waited for without end, else for `patience`.
  bool may_leave = true;
  std::chrono::milliseconds patience{0};
  /// Shown when the node is away for longer than a restart takes.
  std::string away_notice;
  /// Ends the waiting for the node, from another thread.
  std::function<void()> give_up;
};

/// Returns when the detach key was pressed, standard input ended (unless `stay`), this process was told to stop, or the program ended. A node that
/// goes away is waited for, and the output goes on where it was. What the program has changed of this terminal is undone. Throws `failure`.
attach_end attach_terminal(pty_port&, const std::string& pty_id, const attach_settings&);

} // namespace swarm::cli
