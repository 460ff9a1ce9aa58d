// What a hook remembers from one event of an agent's session to the next: one small file per session, below the state directory.
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
#include "swarm/v1/state.pb.h"

namespace swarm::cli {

namespace v1 = ::swarm::v1;

/// What shows that a file was written.
struct file_stamp {
  bool there = false;
  std::int64_t mtime_ns = 0;
  std::uint64_t inode = 0;
  std::int64_t size = 0;
  bool operator==(const file_stamp&) const = default;
};
file_stamp stamp_of(const std::string& path);

/// A file somebody else had locked when a command began.
struct watched_file {
  std::string path;   // as it is locked
  std::string file;   // where it lies
  std::string holder; // session id
  file_stamp before;
};

/// A tool call under way, or over when `to_ms` is not 0.
struct tool_call_seen {
  std::string key; // names the call
  std::int64_t from_ms = 0;
  std::int64_t to_ms = 0;
  std::vector<std::string> paths; // that it writes, as far as is known; empty: a command, which may write anything
  std::vector<watched_file> watched;
  std::vector<std::string> locks; // that it writes under, among those of `taken`
};

/// A lock that hooks of this session took and give back.
struct taken_lock {
  std::uint64_t fence = 0; // 0 = not granted yet
  std::int64_t users = 0;  // tool calls that write under it
};

struct hook_memory {
  std::string id; // of the session; empty: it could not be registered
  std::string scope;
  std::string directory;
  std::string root;
  std::string file_root;
  bool registered = false; // by this hook, which then ends it as well
  bool coordinator = false;
  v1::AgentReport::State state = v1::AgentReport::STATE_UNSPECIFIED; // as last reported
  std::int64_t reported_at_ms = 0;
  std::map<std::string, taken_lock> taken; // by path
  std::vector<tool_call_seen> calls;       // the oldest first
};

/// The file of one session of one host. The session's name comes from outside and is no part of a file's name. Nothing here throws: a file
/// that cannot be read counts as absent, one that cannot be written is given up.
class hook_store {
public:
  /// An empty `session` has no file. `patience`: how long other hooks may keep it from us.
  hook_store(const std::filesystem::path& state_directory, std::string_view agent, std::string_view session,
             std::chrono::milliseconds patience = limits::hook_call_deadline());

  std::optional<hook_memory> load() const;
  /// Reads, changes and writes it with no other hook in between; `change` is given what is there, or nothing when it is new, and returns
  /// false to leave it as it was. With `create` directories are made, mode 0700. False when it was not written, also because other hooks kept
  /// it from us for too long; then later calls do not wait again.
  bool update(const std::function<bool(hook_memory&)>& change, bool create = false);
  /// Other hooks have kept update() from the file for longer than `patience`.
  bool kept_out() const noexcept { return kept_out_; }
  void remove() const;
  /// Whether the session belongs to the hooks of another agent's session.
  bool is_anothers(const std::string& session_id) const;

  /// Whether a session's own hooks show a tool call that may have written the path since then.
  static bool may_have_written(const std::filesystem::path& state_directory, const std::string& session_id, const std::string& path,
                               std::int64_t since_ms);
  /// The memory of the host's only session, for hosts that do not say which one it is.
  static std::optional<hook_memory> only_one(const std::filesystem::path& state_directory, std::string_view agent);
  /// Files that nobody has written for longer than a lease lasts.
  static void remove_old(const std::filesystem::path& state_directory, std::int64_t lease_ms);

private:
  std::filesystem::path directory_;
  std::filesystem::path file_; // empty = none
  std::chrono::milliseconds patience_;
  bool kept_out_ = false; // by other hooks
};

} // namespace swarm::cli
