// Other processes: what /proc says of them, and signals to them. Processes vanish while one looks: an empty answer means "not there (any
// more) or not readable", and nothing here throws because of that.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "actors/base/unique_fd.hpp"

namespace swarm {

/// A line of /proc/<pid>/stat.
struct process_stat {
  pid_t pid = 0;
  char state = '?'; // as ps shows it: R S D T t Z X I
  pid_t parent = 0;
  pid_t group = 0;
  pid_t session = 0;
  int terminal = 0;        // device number of the controlling terminal; 0 = none
  std::uint64_t start = 0; // field 22, clock ticks since boot; pid and start together identify one process for ever

  bool is_dead() const noexcept { return state == 'Z' || state == 'X'; }
};

std::optional<process_stat> read_process(pid_t);
/// The same from the file's text; empty for a malformed text.
std::optional<process_stat> parse_process_stat(pid_t, std::string_view text);
/// Every process that can be seen, in no particular order. Not a snapshot: it is read one by one.
std::vector<process_stat> list_processes();

std::optional<std::uint64_t> pid_start_time(pid_t);
std::optional<pid_t> parent_of(pid_t);
/// Whether `ancestor` is `pid` itself or one of its ancestors. Empty when the chain kept changing under our eyes, `pid` is gone, or a process of our
/// own user in it hides itself (hidepid). A hidden one of another user is nobody's descendant.
std::optional<bool> is_descendant(pid_t pid, pid_t ancestor);
/// The nearest of `pid` and its ancestors that is in `set`. Empty when none is, `pid` is gone, or the chain kept changing.
std::optional<pid_t> ancestor_in(pid_t pid, const std::set<pid_t>& set);
/// What /proc/<pid>/exe points to; " (deleted)" stays at the end of a replaced file's name.
std::optional<std::string> executable_of(pid_t);
/// The name that the process has given itself, at most 15 bytes, or that of its file: of any process, also of one that lets nobody look into it.
std::optional<std::string> command_name_of(pid_t);
/// The value of a variable with which the process started; wrong if the process has overwritten that memory.
std::optional<std::string> environment_of(pid_t, std::string_view name);
/// The same from the text of /proc/<pid>/environ.
std::optional<std::string> variable_in(std::string_view block, std::string_view name);
/// What a process does with signals, other than the default.
struct signal_actions {
  std::uint64_t ignored = 0; // bit n - 1 stands for signal n
  std::uint64_t caught = 0;

  bool ignores(int signal) const noexcept { return (ignored >> (signal - 1) & 1) != 0; }
  bool catches(int signal) const noexcept { return (caught >> (signal - 1) & 1) != 0; }
};
std::optional<signal_actions> signal_actions_of(pid_t);
/// A descriptor that becomes readable when the process ends (close-on-exec).
std::optional<unique_fd> open_pidfd(pid_t);
/// Sends to exactly the process that had this start time, never to a later user of its number. False when it is gone, or may
/// not be signalled.
bool signal_process(pid_t pid, std::uint64_t start, int signal);

} // namespace swarm
