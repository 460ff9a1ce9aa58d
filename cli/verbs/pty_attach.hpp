// Connects this terminal to one of a node: raw mode, resizing, a key to leave. This terminal is restored in every case.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "gateway/client/ports.hpp"

namespace swarm::cli {

struct attach_end {
  bool detached = false; // false: the program has ended
  int exit_status = 0;   // the program's, if no signal ended it
  int signal = 0;        // the signal that ended the program, 0 = none
};

struct attach_settings {
  char detach_key = '\x1d'; // Ctrl-]
  /// Stay attached when standard input ends.
  bool stay = false;
  /// A user can press the detach key. Then this waits for an absent node without limit, otherwise for `patience`.
  bool may_leave = true;
  std::chrono::milliseconds patience{0};
  /// Of the window while attached, where the terminal has titles; empty = it stays.
  std::string title;
  /// Text to show when the node stays away for longer than a restart takes.
  std::string away_notice;
  /// When it is not known whether the last keys have arrived.
  std::string unknown_notice;
  /// When keys that were typed while the node was away are not sent.
  std::string dropped_notice;
  /// Ends a wait for the node; called on another thread than the one that waits.
  std::function<void()> give_up;
};

/// Returns when the user presses the detach key, standard input ends (unless `stay`), a signal tells this process to stop, or the program ends. When
/// the node goes away, this waits for it, and the output continues where it was; keys that are typed during a restart are sent after it. At the end
/// the program's changes to this terminal are undone. Throws `failure`.
attach_end attach_terminal(pty_port&, const std::string& pty_id, const attach_settings&);

} // namespace swarm::cli
