#include "actors/store/conversation/log.hpp"

#include <algorithm>

#include "actors/base/text.hpp"
#include "actors/store/conversation/frame_walk.hpp"

namespace swarm {

namespace fs = std::filesystem;

namespace {

constexpr auto cannot_write = "the conversation's log cannot be written";
constexpr auto cannot_sync = "the conversation's log cannot be synced";
constexpr auto cannot_drop = "the conversation's log cannot drop its oldest part";

} // namespace

fs::path conversation_log::path_of(std::uint64_t base) const { return directory_ / concat({hex(base, 16), ".log"}); }

or_failure<log_position> conversation_log::append(const conversation_frame& frame) {
  if (frame.kind == 0 || frame.body.size() > frame_body_bytes_max)
    return failed_to(cannot_write, std::make_error_code(frame.kind == 0 ? std::errc::invalid_argument : std::errc::message_size));
  if (view_.end.offset - view_.segments.back().base.offset >= options_.segment_bytes)
    if (auto failure = rotate(frame.at_ms))
      return *std::move(failure);
  const auto base = view_.segments.back().base.offset;
  const auto at = segment_head_bytes + (view_.end.offset - base);
  if (has_remains_)
    if (auto error = file_->resize(at))
      return failed_to(cannot_write, error);
  const auto bytes = encode_frame(frame, view_.end.mark);
  has_remains_ = false;
  if (auto error = file_->write_at(at, bytes)) {
    // Behind a shorter frame, they would look like the beginning of another.
    has_remains_ = static_cast<bool>(file_->resize(at));
    return failed_to(cannot_write, error);
  }
  newest_ms_ = std::max(newest_ms_, frame.at_ms);
  std::lock_guard hold{mutex_};
  view_.end = {view_.end.offset + bytes.size(), mark_of(bytes)};
  return view_.end;
}

std::optional<disk_failure> conversation_log::sync() {
  if (has_unsynced_name_) {
    if (auto error = disk_->sync_directory(directory_))
      return failed_to(cannot_sync, error);
    has_unsynced_name_ = false;
  }
  if (synced_ == view_.end)
    return std::nullopt;
  if (must_rewrite_)
    if (auto failure = rewrite())
      return failure;
  if (auto error = file_->sync()) {
    must_rewrite_ = true;
    return failed_to(cannot_sync, error);
  }
  must_rewrite_ = false;
  synced_ = view_.end;
  return std::nullopt;
}

/// After a sync that failed, the kernel takes the pages for clean that never reached the disk.
std::optional<disk_failure> conversation_log::rewrite() {
  const auto base = view_.segments.back().base.offset;
  frame_walk frames{*file_, base, synced_, view_.end.offset};
  for (auto at = synced_.offset; frames.next(); at = frames.at().offset)
    if (auto error = file_->write_at(segment_head_bytes + (at - base), frames.frame().bytes))
      return failed_to(cannot_sync, error);
  if (!frames.is_whole())
    return failed_to(cannot_sync, frames.error() ? frames.error() : std::make_error_code(std::errc::io_error));
  return std::nullopt;
}

/// Goes on in a new file.
std::optional<disk_failure> conversation_log::rotate(std::int64_t now_ms) {
  if (auto failure = sync())
    return failure;
  if (auto failure = begin_segment({view_.segments.back().epoch, view_.end, std::max(newest_ms_, now_ms)}))
    return failure;
  // The new file is in use. Whatever cannot be dropped now is dropped by the next one.
  drop_surplus();
  return std::nullopt;
}

std::optional<disk_failure> conversation_log::retain(std::int64_t now_ms) {
  const auto oldest = now_ms - options_.age_ms;
  if (newest_ms_ < oldest && view_.end != view_.segments.back().base)
    if (auto failure = rotate(newest_ms_))
      return failure;
  while (view_.segments.size() > 1 && view_.segments[1].begun_at_ms < oldest)
    if (auto failure = drop_oldest())
      return failure;
  return drop_surplus();
}

std::optional<disk_failure> conversation_log::drop_surplus() {
  while (view_.segments.size() > 1 &&
         (view_.end.offset - view_.segments.front().base.offset > options_.total_bytes || view_.segments.size() > options_.segments))
    if (auto failure = drop_oldest())
      return failure;
  return std::nullopt;
}

std::optional<disk_failure> conversation_log::drop_oldest() {
  const auto oldest = view_.segments.front();
  {
    std::lock_guard hold{mutex_};
    view_.segments.erase(view_.segments.begin());
  }
  // One after the other, so that neither a failure nor a power cut leaves a hole.
  if (auto error = disk_->remove(path_of(oldest.base.offset))) {
    std::lock_guard hold{mutex_};
    view_.segments.insert(view_.segments.begin(), oldest);
    return failed_to(cannot_drop, error);
  }
  if (auto error = disk_->sync_directory(directory_))
    return failed_to(cannot_drop, error);
  return std::nullopt;
}

} // namespace swarm
