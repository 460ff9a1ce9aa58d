// What a conversation's log is made of, as bytes: frames, and the header of each of its files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "actors/base/limits.hpp"

namespace swarm {

/// A final item, or a part of one, as it stands in the log.
struct conversation_frame {
  std::uint64_t generation = 0; // attempt of the spawn that said it
  std::uint64_t driver_seq = 0; // of the driver; 0 = the node wrote it
  std::int64_t at_ms = 0;       // Unix time
  std::uint32_t kind = 0;       // what the body is, never 0; the log does not look at it
  std::string body;

  bool operator==(const conversation_frame&) const = default;
};

/// Parts of items are far smaller; a length that says more is damage.
inline constexpr std::size_t frame_body_bytes_max = limits::conversation_frame_bytes_max;
/// Length of the body (4 bytes, little-endian as all of them), crc32c (4), generation (8), driver_seq (8), at_ms (8), kind (4); the body follows.
inline constexpr std::size_t frame_head_bytes = 36;
inline constexpr std::size_t frame_bytes_max = frame_head_bytes + frame_body_bytes_max;

/// The checksum of a frame goes on from that of the frame before it, so it stands for everything up to here: a *mark*. Two logs that have the same
/// mark at the same offset have the same frames before it.
using log_mark = std::uint32_t;

/// Where a frame begins or will begin: how many bytes of frames precede it, ever, and the mark of the last one.
struct log_position {
  std::uint64_t offset = 0;
  log_mark mark = 0;

  bool operator==(const log_position&) const = default;
};

/// A frame where it was read; refers to the bytes.
struct frame_view {
  std::string_view bytes; // all of it
  std::string_view body;
  std::uint64_t generation = 0;
  std::uint64_t driver_seq = 0;
  std::int64_t at_ms = 0;
  std::uint32_t kind = 0;
  log_mark mark = 0; // behind it

  conversation_frame copy() const;
};

/// The bytes of a frame that follows one with the mark `before`.
std::string encode_frame(const conversation_frame&, log_mark before);
/// How many bytes the frame with this head has (frame_head_bytes of it); nothing if no frame is as long as it says.
std::optional<std::size_t> frame_length(std::string_view head);
/// The frame at the beginning of these bytes; nothing if it is incomplete, damaged, or does not follow `before`.
std::optional<frame_view> decode_frame(std::string_view bytes, log_mark before);
/// The mark behind a frame of encode_frame.
log_mark mark_of(std::string_view encoded);

/// The head of one of the log's files.
struct segment_head {
  std::uint64_t epoch = 0;
  log_position base;            // of its first frame
  std::int64_t begun_at_ms = 0; // no frame of the files before is newer

  bool operator==(const segment_head&) const = default;
};

inline constexpr std::size_t segment_head_bytes = 40;

std::string encode_head(const segment_head&);
/// Nothing for bytes that are none.
std::optional<segment_head> decode_head(std::string_view bytes);

} // namespace swarm
