// An agent on a terminal of ours: what it does, and how it is woken for its mail.
//
// An agent reads no mail by itself. When some has come and the agent waits for input, a line is typed into its terminal that says so; one
// that works is told at its next idle. Whether it is idle its hooks report, and when nobody reports, the silence of its terminal does.
#pragma once

#include <map>
#include <optional>
#include <string>

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/fabric/entity.hpp"
#include "actors/fabric/workers/program_status.hpp"

namespace swarm {

/// Lives as long as the program does; ended by its spawn.
using agent_actor = caf::typed_actor<
  // A timer, by its number.
  caf::reacts_to<tick_atom, std::uint64_t>>;

/// Unread mail, as far as waking goes. Message ids count from 1; 0 = there is none.
struct agent_mail {
  std::uint64_t newest = 0;        // that may wake
  std::uint64_t newest_forced = 0; // that may wake in the middle of a turn
  std::string task;                // of the newest, when it is an instruction for a task
};

/// When to wake: no clock, no I/O.
class agent_waking {
public:
  /// What the agent does now. Until it first waits for input it is starting, and what is typed may be lost.
  void on_state(v1::AgentReport::State);
  /// Says whether to wake for this mail now; the caller does so and then calls on_woken.
  bool wants(const agent_mail&) const;
  void on_woken(const agent_mail&);
  /// It has been woken and should have begun to work by now. Whatever was typed may have been lost, so once more will do.
  void on_time_to_begin() { turned_ = true; }
  /// It has been woken and is about to look at its mail.
  bool told() const noexcept { return wakes_ > 0 && !turned_; }

private:
  v1::AgentReport::State state_ = v1::AgentReport::UNKNOWN;
  bool ready_ = false;  // it has waited for input once
  bool turned_ = false; // it has worked, or had the time to, since it was woken last
  std::uint64_t woken_up_to_ = 0;
  std::uint32_t wakes_ = 0; // for the same mail
};

/// The line typed to wake it. Never the message itself: what a terminal shows is not a mailbox.
std::string wake_line(const agent_mail&);

struct agent_state {
  static inline const char* name = "agent";

  entity_place place; // id: the spawn's
  std::string session;
  bool hooked = false; // its hooks tell what it does
  agent_waking waking;
  std::map<std::string, v1::AgentReport> reports; // by source
  v1::AgentReport::State state = v1::AgentReport::UNKNOWN;
  pty_actor terminal;
  std::uint64_t revision = 0; // events heard up to here
  bool reading = false;       // the terminal's output is being read
  std::uint64_t read_to = 0;
  std::uint64_t heard_before = 0; // by a node before this one
  program_status program;         // since its hooks reported last
  std::uint64_t looked_at = 0;    // read_to at the last look for silence
  unsigned unchanged = 0;         // looks that found nothing new
  bool quiet = false;             // the terminal is silent
  bool typing = false;
  std::uint64_t delivered_to = 0; // mail it has been told of
  std::uint64_t wakes = 0;
  bool asking = false; // mail is being looked at
  bool again = false;  // something happened meanwhile
  std::map<std::uint64_t, std::function<void()>> timers;
  std::uint64_t next_timer = 1;
};

agent_actor::behavior_type agent(agent_actor::stateful_pointer<agent_state> self, entity_place place, std::string session, bool hooked);

} // namespace swarm
