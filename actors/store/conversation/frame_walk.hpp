// Reads the frames of one file of a log, one after the other.
#pragma once

#include <cstdint>
#include <string>
#include <system_error>

#include "actors/store/conversation/disk.hpp"
#include "actors/store/conversation/frame.hpp"

namespace swarm {

class frame_walk {
public:
  /// From a frame's begin to the offset `end`, in a file whose first frame has the offset `base`. Reads `ahead` bytes at once, or a frame that is
  /// longer; keeps no more in memory.
  frame_walk(disk_file& file, std::uint64_t base, log_position from, std::uint64_t end, std::size_t ahead = frame_bytes_max)
    : file_(&file), base_(base), at_(from), end_(end), ahead_(ahead) {}

  /// False at the end, and where no frame follows.
  bool next();
  /// Where a frame is damaged, but not its length: goes behind it, if the next one shows that this is right. False where none does.
  bool skip();
  /// The frame that next() found; valid until the next call.
  const frame_view& frame() const noexcept { return frame_; }
  /// Behind the last frame.
  log_position at() const noexcept { return at_; }
  /// Every frame up to the end was there. Otherwise what stands at at() is damaged, or the file could not be read: error().
  bool is_whole() const noexcept { return at_.offset == end_; }
  std::error_code error() const noexcept { return error_; }

private:
  bool fetch(std::size_t bytes);

  disk_file* file_;
  std::uint64_t base_;
  log_position at_;
  std::uint64_t end_;
  std::size_t ahead_;
  std::string window_;   // of the file, from the offset window_from_
  std::size_t used_ = 0; // of the window
  frame_view frame_;
  std::error_code error_;
};

} // namespace swarm
