// What the kernel lets no process below another one get rid of, and what keeps other processes of the user out of this one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <sys/types.h>

namespace swarm {

struct restrictions {
  bool no_new_privileges = false;
  std::uint32_t seccomp = 0; // 0 = none, 1 = strict, 2 = filtered
  /// The service of a service manager that it belongs to, whose limits hold for it. Empty = none: a terminal's or a desktop's scope has no limits of
  /// ours, and differs from one terminal to the next.
  std::string unit;

  bool operator==(const restrictions&) const = default;
};

/// From the texts of /proc/<pid>/status and /proc/<pid>/cgroup.
restrictions parse_restrictions(std::string_view status, std::string_view cgroup);
/// Nothing when the process is gone or not to be seen.
std::optional<restrictions> restrictions_of(pid_t);
/// "NoNewPrivs 0, here 1; …", naming `theirs` first; empty when they are equal.
std::string difference_of(const restrictions& theirs, const restrictions& ours);

/// From here on no other process of the user can attach to this one, or read its memory, its environment and its descriptors. Not inherited by a
/// program that is executed. False, and nothing changes, where /proc hides such processes (hidepid): the node, the keeper and their callers must see
/// each other there.
bool forbid_inspection();
/// From the text of /proc/self/mountinfo: the /proc on top hides what its reader may not attach to.
bool is_proc_hiding(std::string_view mounts);
bool is_inspection_forbidden();

} // namespace swarm
