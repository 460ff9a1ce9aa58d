// What a tool that asks would write, beside what peers hold and what no agent writes. Reads the file system for symbolic links.
#pragma once

#include <string>
#include <vector>

#include "swarm/internal/driver.pb.h"

namespace swarm::agents {

/// Whether peers hold what a tool writes.
struct held_path {
  enum class kind { free, held, perhaps }; // perhaps: peers hold more than is known here
  kind what = kind::free;
  std::string path = {}; // the lock's, or with perhaps the one that is written; empty = the tool does not show what it writes
};

/// A tool whose paths are not known passes, unless it does not show them because they are too long.
held_path held_against(const internal::Locks& held, const internal::HookQuestion& question, const std::string& home);
/// The same in words, while no node answers; empty when nothing is in its way.
std::string why_held(const held_path&);

/// Whether it obviously writes a file, or does not show what it does.
bool writes_files(const internal::HookQuestion& question, const std::string& home);

/// The first of the directories that the tool writes into; empty when it writes into none.
std::string kept_out_of(const std::vector<std::string>& directories, const internal::HookQuestion& question, const std::string& home);
/// Why, for the agent.
std::string no_agent_writes(const std::string& directory);

} // namespace swarm::agents
