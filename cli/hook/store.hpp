// What a hook remembers from one event of an agent's session to the next: one small file per session, in the state directory.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "actors/base/limits.hpp"
#include "actors/base/unique_fd.hpp"
#include "swarm/v1/state.pb.h"

namespace swarm::cli {

namespace v1 = ::swarm::v1;

/// A file's attributes; they change when the file is written.
struct file_stamp {
  bool there = false;
  std::int64_t mtime_ns = 0;
  std::uint64_t inode = 0;
  std::int64_t size = 0;
  bool operator==(const file_stamp&) const = default;
};
file_stamp stamp_of(const std::string& path);

/// A file that somebody else had locked when a shell command began.
struct watched_file {
  std::string path;   // the lock's path
  std::string file;   // the file on disk, in the holder's worktree
  std::string holder; // session id
  file_stamp before;
};

/// A tool call. It is running while `to_ms` is 0.
struct tool_call_seen {
  std::string key; // see tool_use
  std::int64_t from_ms = 0;
  std::int64_t to_ms = 0;
  std::vector<std::string> paths; // paths that it writes; empty for a shell command, which may write anything
  std::vector<watched_file> watched;
  std::vector<std::string> locks; // paths of the locks in `taken` that it writes under
};

/// A lock that hooks of this session took, and will release.
struct taken_lock {
  std::uint64_t fence = 0; // 0 = not granted yet
  std::int64_t users = 0;  // running tool calls that write under it
};

struct hook_memory {
  std::string id; // the session's; empty when it could not be registered
  std::string scope;
  std::string directory;
  std::string root;
  std::string file_root;
  bool registered = false; // by a hook, so that a hook ends the session as well
  bool coordinator = false;
  v1::AgentReport::State state = v1::AgentReport::STATE_UNSPECIFIED; // as last reported
  std::int64_t reported_at_ms = 0;
  std::map<std::string, taken_lock> taken; // by path
  std::vector<tool_call_seen> calls;       // the oldest first
};

/// The file of one session of one agent program. Its name is a hash, because the session's own name comes from outside. Nothing here throws: a
/// file that cannot be read is treated as absent, and a failed write is ignored.
class hook_store {
public:
  /// An empty `session` has no file. `patience`: how long update() waits for other hooks.
  hook_store(const std::filesystem::path& state_directory, std::string_view agent, std::string_view session,
             std::chrono::milliseconds patience = limits::hook_call_deadline());

  std::optional<hook_memory> load() const;
  /// Reads, changes and writes the file under a lock against other hooks. `change` gets the memory as it is, or an empty one, and returns false
  /// to leave the file alone. `create` makes a missing file and its directories (mode 0700). Returns false when nothing was written. If other
  /// hooks held the lock for longer than `patience`, later calls do not wait again.
  bool update(const std::function<bool(hook_memory&)>& change, bool create = false);
  /// update() has waited for other hooks for longer than `patience`.
  bool kept_out() const noexcept { return kept_out_; }
  /// Held while hooks of this session take or give back locks, one hook at a time: an agent runs several tools at once. Nothing when others held
  /// it for longer than `patience`, or when there is no place for it.
  unique_fd turn(std::chrono::milliseconds patience);
  void remove() const;
  /// Whether the hooks of another agent's session remember this session as their own.
  bool is_anothers(const std::string& session_id) const;

  /// Whether the session's hooks remember a tool call that may have written the path since `since_ms`.
  static bool may_have_written(const std::filesystem::path& state_directory, const std::string& session_id, const std::string& path,
                               std::int64_t since_ms);
  /// The memory of the agent program's only session, for events that do not name theirs. Nothing when there are several.
  static std::optional<hook_memory> only_one(const std::filesystem::path& state_directory, std::string_view agent);
  /// Removes files that have not been written for longer than `lease_ms`.
  static void remove_old(const std::filesystem::path& state_directory, std::int64_t lease_ms);

private:
  bool make_place() const;
  std::filesystem::path directory_;
  std::filesystem::path file_; // empty = none
  std::int64_t number_ = 0;    // of the session, among those whose hooks take turns
  std::chrono::milliseconds patience_;
  bool kept_out_ = false;
};

} // namespace swarm::cli
