// The log of one conversation: its final items, in files of their own, for readers that come and go.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "actors/base/limits.hpp"
#include "actors/store/conversation/cursor.hpp"
#include "actors/store/conversation/disk.hpp"
#include "actors/store/conversation/frame.hpp"

namespace swarm {

struct log_options {
  std::uint64_t segment_bytes = limits::conversation_segment_bytes(); // of one file; damage hides no more than the rest of a file
  std::uint64_t total_bytes = limits::conversation_log_bytes_max();   // the oldest file goes when there are more
  std::size_t segments = limits::conversation_segments_max;           // so many files at most: each that a power cut ended is shorter
  std::int64_t age_ms = limits::conversation_log_retention().count();
  /// The log is known to have been synced up to this offset, as a row says. What is missing before it is damage; what is cut behind it is not. The
  /// first sync writes again what stands behind it, for nobody knows whether a sync of it had failed.
  std::uint64_t synced = 0;
  std::int64_t now_ms = 0;
  std::function<std::uint64_t()> new_epoch; // random; has to be given
};

/// What a reader does not get, and why.
struct log_gap {
  enum class why {
    epoch,        // the log was opened after a power cut, and what had been shown may have been lost
    history,      // other frames stand before this place than those that the reader has seen
    inside_frame, // no frame begins there
    beyond_end,   // there was never so much, or it was lost
    retention,    // it was too old or too much
    damaged,      // the file is
  };
  std::uint64_t from = 0; // where the reader was
  std::uint64_t to = 0;   // where it goes on: the next readable frame, or where the log is certain that the reader has missed nothing behind
  why reason = why::damaged;

  bool operator==(const log_gap&) const = default;
};

struct log_entry {
  log_position at;   // its begin
  log_position next; // its end, where the next begins
  conversation_frame frame;
};

/// Frames, or a gap before further ones, or nothing: then `next` is the end.
struct log_batch {
  std::vector<log_entry> entries;
  std::optional<log_gap> gap;
  log_position next;
};

struct log_resumed {
  std::optional<log_gap> gap; // none: ok, the reader misses nothing and sees nothing twice
  log_position at;            // to be read from
};

/// What opening it found.
struct log_opened {
  bool is_new = false;
  std::uint64_t cut = 0;       // bytes behind the last whole frame that had not been synced and are dropped
  std::optional<log_gap> lost; // synced frames that are not there any more
};

/// Files `<offset in hex>.log` in a directory of its own; each begins where the one before ends, which is synced by then. A reader opens the files by
/// itself, so that one thread may append while others read.
///
/// A frame that cannot be written is not there; the log can be read and appended to as before. After a sync that failed, the next one writes the same
/// frames again, since the kernel may have forgotten them.
///
/// The epoch changes whenever opening the log cuts something off. What a power cut takes without a trace (a file that is shorter than it was, and
/// ends with a whole frame) is noticed by the cursor's mark.
///
/// Damage hides the frame that it hit, or the rest of its file when nothing says how long that was.
class conversation_log {
public:
  static or_failure<std::unique_ptr<conversation_log>> open(disk&, std::filesystem::path directory, log_options);

  // -- one thread ------------------------------------------------------------------
  /// The place behind it. Not durable yet.
  or_failure<log_position> append(const conversation_frame&);
  /// Everything up to end() is durable when there is no failure.
  std::optional<disk_failure> sync();
  /// Goes on in a new file: damage hides what stands behind it in the same one.
  std::optional<disk_failure> turn_over(std::int64_t now_ms) { return rotate(now_ms); }
  /// Drops files that are too old.
  std::optional<disk_failure> retain(std::int64_t now_ms);
  /// Everything before this is durable.
  std::uint64_t synced() const noexcept { return synced_.offset; }
  const log_opened& opened() const noexcept { return opened_; }

  // -- any thread ------------------------------------------------------------------
  log_position start() const;
  log_position end() const;
  /// For a reader that has read everything before this place.
  log_cursor cursor(log_position at) const;
  /// From a place that resume, seek or read gave. At most `bytes` of frames, but one at least.
  or_failure<log_batch> read(log_position from, std::size_t bytes) const;
  or_failure<log_resumed> resume(const log_cursor&) const;
  /// The begin of the first readable frame at or behind this offset, or the end.
  or_failure<log_position> seek(std::uint64_t offset) const;

private:
  /// The files as they are now, for a reader.
  struct view {
    std::vector<segment_head> segments; // never empty
    log_position end;
  };
  /// Part of the log that lies in one file.
  struct stretch {
    segment_head head;
    log_position end; // where the next file begins, or the log ends
  };
  enum class found { there, inside, other, damaged };

  conversation_log(disk& d, std::filesystem::path directory, log_options options)
    : disk_(&d), directory_(std::move(directory)), options_(std::move(options)) {}

  // log_open.cpp
  std::optional<disk_failure> load();
  std::optional<disk_failure> load_heads();
  std::optional<disk_failure> load_head(std::uint64_t base);
  std::optional<disk_failure> set_aside(const std::filesystem::path&);
  std::uint64_t unreadable_base_max() const;
  std::optional<disk_failure> go_on_in(const segment_head&, std::uint64_t bytes);
  std::optional<disk_failure> begin_segment(const segment_head&);
  // log.cpp
  std::optional<disk_failure> rotate(std::int64_t now_ms);
  std::optional<disk_failure> rewrite();
  std::optional<disk_failure> drop_oldest();
  std::optional<disk_failure> drop_surplus();
  std::filesystem::path path_of(std::uint64_t base) const;
  // log_read.cpp
  view now() const;
  static std::optional<stretch> stretch_at(const view&, std::uint64_t offset);
  or_failure<std::unique_ptr<disk_file>> open_for_reading(const stretch&) const;
  or_failure<found> look_up(const view&, log_position) const;
  or_failure<log_resumed> resume_in_epoch(const view&, const log_cursor&) const;
  or_failure<log_resumed> resume_other_epoch(const view&, const log_cursor&) const;

  disk* disk_;
  std::filesystem::path directory_;
  log_options options_;
  log_opened opened_;
  std::unique_ptr<disk_file> file_; // the last one
  log_position synced_;
  bool must_rewrite_ = false;       // frames behind synced_: the kernel may have forgotten that they are not on the disk
  bool has_unsynced_name_ = false;  // the last file
  bool has_remains_ = false;        // of a frame that could not be written
  std::uint64_t unreadable_to_ = 0; // where files without a readable head end
  std::int64_t newest_ms_ = 0;      // the newest frame's time

  mutable std::mutex mutex_; // readers only copy under it
  view view_;
};

} // namespace swarm
