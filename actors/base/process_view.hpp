// What can be learned of a process by looking at it. Tests look at processes of their own making.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "actors/base/process.hpp"

namespace swarm {

/// A process as /proc/<pid>/stat shows it, with the name that its program gave it last (at most 15 bytes).
struct named_process : process_stat {
  std::string name;
};

class process_view {
public:
  virtual ~process_view() = default;
  /// Empty: it is gone, or may not be seen.
  virtual std::optional<named_process> process(pid_t) const = 0;
  /// Those of a process group that can be seen, in no particular order.
  virtual std::vector<named_process> group(pid_t) const = 0;
  /// The user with whose rights it runs.
  virtual std::optional<uid_t> user_of(pid_t) const = 0;
  /// Path of its program; empty for a process of another user and for one that nobody may look into.
  virtual std::optional<std::string> executable_of(pid_t) const = 0;
  /// The first 4 KiB of its arguments, with its own name first. Its program may have written something else over them.
  virtual std::vector<std::string> arguments_of(pid_t) const = 0;
  /// NAME=value, each ended by NUL: with what it was started. Empty where its executable is.
  virtual std::optional<std::string> environment_of(pid_t) const = 0;
};

/// The processes of this machine, by /proc.
const process_view& system_processes();

/// The name in a line of /proc/<pid>/stat; it may hold anything.
std::string_view name_in_stat(std::string_view text) noexcept;
/// The effective user id in the text of /proc/<pid>/status.
std::optional<uid_t> user_in_status(std::string_view text) noexcept;

} // namespace swarm
