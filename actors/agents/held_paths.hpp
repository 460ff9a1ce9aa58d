// What a tool that asks would write, beside what peers hold and what no agent writes.
//
// The driver of an agent looks at the paths that its agent names, and says what it has seen: a file system that hangs holds nobody else. Who compares
// them with locks reads no file system here.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "actors/shell/writes.hpp"
#include "swarm/internal/driver.pb.h"

namespace swarm::agents {

/// What a tool would write.
struct tool_writes {
  std::vector<internal::WrittenPath> paths;
  bool more = false; // it writes more than these, or does not show what it writes
};

/// As far as the tool shows it; of a tool whose paths are not known nothing. `place` is where the agent works: the question's own directory goes
/// before its one. Reads the file system for symbolic links.
tool_writes writes_of(const internal::HookQuestion&, const shell::place&);
/// The first ones, as many as the bounds allow.
void put_writes(const tool_writes&, internal::HookQuestion&);
void put_writes(const tool_writes&, internal::Request&);
/// What put_writes has told.
tool_writes told_writes(const internal::HookQuestion&);

/// Whether peers hold what a tool writes.
struct held_path {
  enum class kind { free, held, perhaps }; // perhaps: peers hold more than is known here, or the tool writes more
  kind what = kind::free;
  std::string path = {}; // the lock's, or with perhaps the one that is written; empty = the tool does not show all that it writes
};
/// A lock: by its name, and by the file that this leads to through symbolic links.
struct held_file {
  std::string name, real;
};

/// `more`: there are more locks than these.
held_path held_against(std::span<const held_file> held, bool more, const tool_writes&);
/// The list has each path under both names.
held_path held_against(const internal::Locks&, const tool_writes&);
/// The same in words, while no node answers; empty when nothing is in its way.
std::string why_held(const held_path&);

/// What no agent writes, and a tool would.
struct kept_out {
  std::string rule;   // for people; empty = it writes nothing of that
  std::string reason; // for the agent
};
/// Also by a member that is no path for a tool that is known here. What is too much to be looked at is kept out as well. Reads the file system.
kept_out kept_out_of(const std::vector<std::string>& directories, const internal::HookQuestion&, const shell::place&);

} // namespace swarm::agents
