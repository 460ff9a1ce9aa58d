// Blobs of conversations: what is too large for a row or a frame of the log. Digests are the 32 bytes of the SHA-256.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <caf/allowed_unsafe_message_type.hpp>

#include "actors/fabric/messages/conversations.hpp"

namespace swarm {

/// Bytes to be kept, whole.
struct blob_keeping {
  std::string conversation_id;
  std::string bytes;
};
using blob_keeping_ptr = std::shared_ptr<const blob_keeping>;

/// The next bytes of a blob that comes in parts.
struct blob_upload {
  std::string upload; // chosen by its sender, random
  std::string conversation_id;
  std::string data;
  bool first = false;
  bool last = false;
};
using blob_upload_ptr = std::shared_ptr<const blob_upload>;

/// What stands on the disk; before the last part nothing does.
struct blob_kept {
  std::string digest;
  std::uint64_t bytes = 0;
};
using blob_kept_ptr = std::shared_ptr<const blob_kept>;

struct blob_reading {
  std::string conversation_id;
  std::string digest;
  std::uint64_t offset = 0;
  std::uint64_t max_bytes = 0; // at most limits::conversation_frame_bytes_max come
};
using blob_reading_ptr = std::shared_ptr<const blob_reading>;

struct blob_page {
  std::string data; // shorter only where the blob ends
  std::uint64_t total = 0;
};
using blob_page_ptr = std::shared_ptr<const blob_page>;

/// A log that may hold what is too old.
struct log_ageing {
  conversation_log_name log;
};
using log_ageing_ptr = std::shared_ptr<const log_ageing>;

} // namespace swarm

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(swarm::blob_keeping_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(swarm::blob_upload_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(swarm::blob_kept_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(swarm::blob_reading_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(swarm::blob_page_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(swarm::log_ageing_ptr)
