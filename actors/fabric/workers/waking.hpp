// When an agent is woken for its mail, and by which line.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "swarm/v1/coordination.pb.h"

namespace swarm {

/// Unread mail, as far as waking goes. Message ids count from 1; 0 = there is none.
struct agent_mail {
  std::uint64_t newest = 0;        // that may wake
  std::uint64_t newest_forced = 0; // that may wake in the middle of a turn
  std::string task;                // of the newest, when it is an instruction for a task
  std::uint64_t oldest = 0;        // that may wake
};

/// The newest messages of a mailbox, read or not, as far as waking goes.
agent_mail mail_of(const v1::Messages& newest);

/// When to wake: no clock, no I/O.
class agent_waking {
public:
  /// What the agent does now. Until it first waits for input it is starting, and what is typed may be lost.
  void on_state(v1::AgentReport::State);
  /// Says whether to wake for this mail now; the caller does so and then calls on_woken. Never while the agent asks its user, or nobody knows
  /// whether it does.
  bool wants(const agent_mail&) const;
  /// `at_work`: when it is WORKING, that is a turn, and not the echo of what was typed.
  void on_woken(const agent_mail&, bool at_work = true);
  /// What it was woken for it may have read meanwhile.
  void on_mail(const agent_mail&);
  /// It has been woken and should have begun to work by now. Whatever was typed may have been lost, so once more will do.
  void on_time_to_begin() { turned_ = true; }
  /// It has been woken and is about to look at its mail.
  bool told() const noexcept { return wakes_ > 0 && !turned_; }

private:
  v1::AgentReport::State state_ = v1::AgentReport::UNKNOWN;
  bool ready_ = false;  // it has waited for input once
  bool turned_ = false; // it has worked, read, or had the time to, since it was woken last
  std::uint64_t woken_up_to_ = 0;
  std::uint32_t wakes_ = 0; // for the same mail
};

/// The line typed to wake it. Never the message itself: what a terminal shows is not a mailbox. Programs show a long paste as a mark, in which
/// nobody can read what it is; a task whose id makes the line that long is not named.
std::string wake_line(const agent_mail&);
/// Whether the text, without its blanks, is such a line for whatever mail, or several.
bool is_wake_line(std::string_view without_blanks);

} // namespace swarm
