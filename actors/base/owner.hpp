// One process at a time owns a directory: it holds a lock file and answers on a socket beside it. A process that looks for the owner waits for news.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

#include <sys/types.h>

#include "actors/base/unique_fd.hpp"

namespace swarm {

/// The lock, released by the end of the process; empty when another one holds it. Throws std::runtime_error.
unique_fd take_ownership(const std::filesystem::path& lock);
/// Writes into the lock file which process it is; once, by the one that stays.
void sign_ownership(int lock_fd);

/// The process that has signed the lock and has not ended; nothing when none has.
std::optional<pid_t> living_owner(const std::filesystem::path& lock);

/// What a node that was started in the background writes to its starter: one of these, the last with the reason behind it.
namespace start_report {
inline constexpr const char* ready = "1";
inline constexpr const char* owned = "O";   // another one owns the directory
inline constexpr const char* stopped = "S"; // the operator has stopped it, and nobody has asked for it since
inline constexpr const char* failed = "E";
} // namespace start_report

class owner_news {
public:
  /// From now on nothing is missed. With an empty `lock`, only the socket is watched. The directory exists; throws std::runtime_error if not.
  owner_news(std::filesystem::path lock, const std::filesystem::path& socket);

  /// True when a socket has appeared or an owner has signed since the last time, or when the process that signed last is gone, also
  /// if it was gone before. False when the time is over, or when `cancel` is readable.
  bool wait(std::chrono::milliseconds time, int cancel = -1);

private:
  bool take_events();

  std::filesystem::path lock_;
  std::string socket_file_;
  unique_fd events_;
  int directory_ = -1; // its watch
};

} // namespace swarm
