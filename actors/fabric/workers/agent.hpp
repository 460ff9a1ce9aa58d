// An agent on a terminal of ours: what it does, and how it is woken for its mail.
//
// An agent reads no mail by itself. When some has come and the agent waits for input, a line is typed into its terminal that says so; one
// that works is told at its next idle. Whether it is idle its hooks report, and when nobody reports, the silence of its terminal does.
//
// An Enter in a dialog is an answer that only a person may give. So the line is entered only where it can be seen to stand in the program's
// input line, and nowhere while the program asks its user.
#pragma once

#include <map>
#include <optional>
#include <string>

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/base/screen.hpp"
#include "actors/fabric/entity.hpp"
#include "actors/fabric/workers/program_status.hpp"
#include "actors/fabric/workers/waking.hpp"

namespace swarm {

/// Lives as long as the program does; ended by its spawn.
using agent_actor = caf::typed_actor<
  // A timer, by its number.
  caf::reacts_to<tick_atom, std::uint64_t>>;

struct agent_state {
  static inline const char* name = "agent";

  entity_place place; // id: the spawn's
  std::string session;
  bool hooked = false; // its hooks tell what it does
  agent_waking waking;
  v1::Session told; // its reports as heard, nothing else
  v1::AgentReport::State state = v1::AgentReport::UNKNOWN;
  pty_actor terminal;
  std::uint64_t revision = 0; // events heard up to here
  bool reading = false;       // the terminal's output is being read
  std::uint64_t read_to = 0;
  std::uint64_t heard_before = 0; // by a node before this one
  std::uint64_t heeded_from = 0;  // what was written before only shows what stands on the screen
  std::optional<screen> shown;
  pty_change terminal_is;      // as last heard
  std::uint64_t questions = 0; // reports that it asks its user something
  std::int64_t person_typed_ms = 0;
  bool typed_in_question = false;                      // a person has, and the program has said of itself ever since that it asks
  std::optional<v1::AgentReport::State> told_terminal; // what it does, for who types there
  program_status program;                              // since its hooks reported last
  std::uint64_t looked_at = 0;                         // read_to at the last look for silence
  unsigned unchanged = 0;                              // looks that found nothing new
  bool quiet = false;                                  // the terminal is silent
  bool typing = false;
  std::uint64_t tries = 0;         // to wake it
  std::function<void()> on_output; // of a try that waits for its line
  std::uint64_t unseen_mail = 0;   // for which pastes were not shown
  std::uint32_t unseen = 0;        // pastes
  std::uint64_t delivered_to = 0;  // mail it has been told of
  std::uint64_t wakes = 0;
  bool asking = false; // mail is being looked at
  bool again = false;  // something happened meanwhile
  std::map<std::uint64_t, std::function<void()>> timers;
  std::uint64_t next_timer = 1;
};

agent_actor::behavior_type agent(agent_actor::stateful_pointer<agent_state> self, entity_place place, std::string session, bool hooked);

} // namespace swarm
