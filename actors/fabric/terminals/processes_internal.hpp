// What the files of the keeper's side share.
#pragma once

#include <string>
#include <vector>

#include "actors/fabric/terminals/processes.hpp"

namespace swarm::processes_internal {

using self_ptr = processes_actor::stateful_pointer<processes_state>;

// processes.cpp
/// The program of this child has ended, and that is kept. Beyond the bound the oldest such child is forgotten.
void retire(self_ptr, const std::string& id);

// processes_terminals.cpp
void name_child(processes_state&, processes_state::child&);
v1::PtyInfo describe(const processes_state::child&);
bool is_listed(const processes_state::child&);
void keep(self_ptr, const processes_state::child&);
void make_terminal(self_ptr, processes_state::child&);
void release_untaken(self_ptr, const processes_state::child&);
void terminal_failed(self_ptr, const std::string& id, processes_state::child&);
void wake_due_terminals(self_ptr);
std::vector<pty_info_ptr> list_of(const processes_state&, const std::string& scope);
caf::result<pty_actor> driver_of(self_ptr, const std::string& id);
caf::result<pty_actor> terminal_of(self_ptr, const std::string& id);
caf::result<std::vector<runtime::tree_entry>> tree(self_ptr);

} // namespace swarm::processes_internal
