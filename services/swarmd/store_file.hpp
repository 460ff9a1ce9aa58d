// The store's file from outside: whether it is still the one that was opened, and putting a backup in its place.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include <sys/types.h>

#include "actors/base/paths.hpp"
#include "actors/base/unique_fd.hpp"
#include "swarm/v1/node.pb.h"

namespace swarm {

/// Tells when somebody moves, removes or replaces the file beneath a node that works on it: what is answered from then on would be in no store.
class store_file {
public:
  /// The file as it is now. Throws std::runtime_error when there is none.
  explicit store_file(std::filesystem::path path);
  /// Whether the path still names it. Costs one stat.
  bool is_same() const;
  /// Readable when something happened in its directory since `take_news`, or to the directory.
  int news_fd() const noexcept { return news_.get(); }
  void take_news() const;

private:
  std::filesystem::path path_;
  dev_t device_ = 0;
  ino_t inode_ = 0;
  unique_fd news_;
};

/// Puts the backup in the place of the store of a node that does not run, whose lock the caller holds. What was there goes into a new directory
/// beside it, whose path is returned; empty when there was nothing. The node that starts next raises the epoch of every scope. Throws
/// std::runtime_error or std::filesystem::filesystem_error, with a text for people: the old store is still there, or the next start of the node
/// puts the backup in its place.
std::filesystem::path restore_store(const state_dir&, const std::filesystem::path& backup);
/// Why the logs of conversations cannot be copied beside that backup; empty = they can.
std::string objection_to_logs(const std::filesystem::path& backup);
/// Copies them. Why it could not, and then nothing of it is left; empty = done.
std::string copy_logs(const state_dir&, const std::filesystem::path& backup, v1::BackupReply&);
/// Ends a restore that was killed after its copy was complete. The caller holds the node's lock, and calls it before it opens the store.
void finish_restore(const state_dir&);
/// A text for people when the database is gone while other files of the store are there: an empty one in its place would give out fences twice. A
/// node that never had a store misses none, and a restore that is under way brings it.
std::optional<std::string> missing_store(const state_dir&);

} // namespace swarm
