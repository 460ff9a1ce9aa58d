// A copy of what was said in all conversations, beside a backup of the store.
#pragma once

#include <cstdint>
#include <filesystem>

#include "actors/base/paths.hpp"
#include "actors/store/conversation/disk.hpp"

namespace swarm {

/// Where the logs and blobs of a node's conversations are.
std::filesystem::path conversations_of(const state_dir&);
/// Where a backup of the store has them.
std::filesystem::path conversations_beside(const std::filesystem::path& backup);

struct copied_conversations {
  std::uint32_t conversations = 0;
  std::uint64_t bytes = 0;
};

/// Copies logs and blobs of all conversations below `from` into `to`, which must not exist. Logs that are written meanwhile are copied up to where
/// they were; a reader cuts what is half a frame. What is removed meanwhile is left out. Durable when it returns without a failure; after one a part
/// of the copy may stand there.
or_failure<copied_conversations> copy_conversations(disk&, const std::filesystem::path& from, const std::filesystem::path& to);

} // namespace swarm
