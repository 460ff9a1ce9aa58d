#include "actors/store/conversation/frame_walk.hpp"

#include <algorithm>
#include <span>

namespace swarm {

/// Makes sure that the window holds so many bytes from at_ on; false if the file, or what is to be read of it, ends before.
bool frame_walk::fetch(std::size_t bytes) {
  if (window_.size() - used_ >= bytes)
    return true;
  if (end_ - at_.offset < bytes)
    return false;
  window_.erase(0, used_);
  used_ = 0;
  const auto have = window_.size();
  window_.resize(have + static_cast<std::size_t>(std::min<std::uint64_t>(std::max(bytes, ahead_), end_ - at_.offset) - have));
  auto n = file_->read_at(segment_head_bytes + (at_.offset - base_) + have, std::span{window_}.subspan(have));
  if (!n)
    error_ = n.failure();
  window_.resize(have + (n ? *n : 0));
  return window_.size() >= bytes;
}

bool frame_walk::next() {
  if (at_.offset >= end_ || error_ || !fetch(frame_head_bytes))
    return false;
  const auto length = frame_length(std::string_view{window_}.substr(used_));
  if (!length || !fetch(*length))
    return false;
  const auto found = decode_frame(std::string_view{window_}.substr(used_, *length), at_.mark);
  if (!found)
    return false;
  frame_ = *found;
  used_ += *length;
  at_ = {at_.offset + *length, found->mark};
  return true;
}

bool frame_walk::skip() {
  if (error_ || !fetch(frame_head_bytes))
    return false;
  const auto head = std::string_view{window_}.substr(used_, frame_head_bytes);
  const auto length = frame_length(head);
  const auto mark = mark_of(head);
  if (!length || !fetch(*length + frame_head_bytes))
    return false;
  const auto next = frame_length(std::string_view{window_}.substr(used_ + *length));
  if (!next || !fetch(*length + *next) || !decode_frame(std::string_view{window_}.substr(used_ + *length, *next), mark))
    return false;
  used_ += *length;
  at_ = {at_.offset + *length, mark};
  return true;
}

} // namespace swarm
