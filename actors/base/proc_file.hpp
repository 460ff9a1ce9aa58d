// Files that the kernel makes up for a process.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include <sys/types.h>

namespace swarm {

/// The first bytes of /proc/<pid>/<name>. Empty when the process is gone, or may not be looked into.
std::optional<std::string> read_proc(pid_t, const char* name, std::size_t bytes_max);

} // namespace swarm
