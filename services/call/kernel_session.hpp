// The kernel's session of a terminal, and whether a process in it is the person's who sits there.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "actors/base/process.hpp"

namespace swarm {

/// By its leader (the shell of a terminal) and the boot: it is never taken for a later one of the same number.
struct kernel_session {
  pid_t leader = 0;
  std::uint64_t leader_start = 0; // clock ticks since boot
  std::string boot_id;

  auto operator<=>(const kernel_session&) const = default;
};

/// What is looked at; a test has its own.
struct session_view {
  std::function<std::optional<process_stat>(pid_t)> process = read_process;
  /// Whether a process between a terminal's leader and the caller, or one of these two, is an agent's: its program, or a mark in its environment that
  /// the leader's does not have.
  std::function<bool(const process_stat&, const process_stat& leader)> is_agents = {};
  std::string boot_id = {};
};
/// Of this machine. An agent's program is one whose name, executable or script is called like one of the table.
session_view machines_sessions();

/// The session with a terminal in which the process runs, if it is the person's: the chain of parents up to the leader is whole, so that nobody is
/// meant who was left behind, and no agent is in it, the leader included. An agent above the leader does not matter: the person's word does.
std::optional<kernel_session> person_session_of(pid_t, const session_view&);

} // namespace swarm
