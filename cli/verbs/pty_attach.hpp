// A terminal used from this one: raw mode, resizing, a key to leave. The terminal is restored however it ends.
#pragma once

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

/// Returns when the detach key was pressed, standard input ended (unless `stay`), this process was told to stop, or the program
/// ended. Throws `failure` when the connection was lost.
attach_end attach_terminal(pty_port&, const std::string& pty_id, char detach_key, bool stay);

} // namespace swarm::cli
