// Reading a conversation's log, and finding where a reader goes on.
#include <algorithm>
#include <iterator>

#include "actors/store/conversation/frame_walk.hpp"
#include "actors/store/conversation/log.hpp"

namespace swarm {

namespace {

constexpr auto cannot_read = "the conversation's log cannot be read";
/// Enough for most frames, where one is looked at.
constexpr std::size_t one_frame_bytes = 4 * limits::kib;

} // namespace

conversation_log::view conversation_log::now() const {
  std::lock_guard hold{mutex_};
  return view_;
}

log_position conversation_log::start() const {
  std::lock_guard hold{mutex_};
  return view_.segments.front().base;
}

log_position conversation_log::end() const {
  std::lock_guard hold{mutex_};
  return view_.end;
}

log_cursor conversation_log::cursor(log_position at) const {
  std::lock_guard hold{mutex_};
  return {.epoch = view_.segments.back().epoch, .at = at};
}

/// Nothing at the log's end, and where it has not begun.
std::optional<conversation_log::stretch> conversation_log::stretch_at(const view& v, std::uint64_t offset) {
  auto next = std::ranges::upper_bound(v.segments, offset, {}, [](const segment_head& s) { return s.base.offset; });
  if (next == v.segments.begin() || offset >= v.end.offset)
    return std::nullopt;
  return stretch{*std::prev(next), next == v.segments.end() ? v.end : next->base};
}

or_failure<std::unique_ptr<disk_file>> conversation_log::open_for_reading(const stretch& s) const {
  auto file = disk_->open(path_of(s.head.base.offset), disk::how::read);
  if (!file)
    return failed_to(cannot_read, file.failure());
  return *std::move(file);
}

or_failure<log_batch> conversation_log::read(log_position from, std::size_t bytes) const {
  const auto v = now();
  const auto start = v.segments.front().base;
  if (from.offset < start.offset)
    return log_batch{.entries = {}, .gap = log_gap{from.offset, start.offset, log_gap::why::retention}, .next = start};
  const auto s = stretch_at(v, from.offset);
  if (!s)
    return log_batch{.entries = {}, .gap = {}, .next = v.end};
  log_batch out{.entries = {}, .gap = {}, .next = from};
  auto file = open_for_reading(*s);
  auto error = file ? std::error_code{} : file.failure().code;
  if (file) {
    frame_walk frames{**file, s->head.base.offset, from, s->end.offset, std::min(std::max(bytes, one_frame_bytes), frame_bytes_max)};
    for (std::size_t taken = 0; frames.next();) {
      taken += frames.frame().bytes.size();
      if (!out.entries.empty() && taken > bytes)
        return out;
      // The next file may begin with another mark, if this one was unreadable when the other began.
      const auto next = frames.is_whole() ? s->end : frames.at();
      out.entries.push_back({out.next, next, frames.frame().copy()});
      out.next = next;
    }
    error = frames.error();
    if (out.entries.empty() && out.next != s->end && frames.skip()) {
      out.gap = log_gap{from.offset, frames.at().offset, log_gap::why::damaged};
      out.next = frames.at();
      return out;
    }
  }
  if (!out.entries.empty() || out.next == s->end)
    return out;
  if (error && !is_lost(error))
    return failed_to(cannot_read, error);
  // Its file was dropped in the meantime.
  if (out.next.offset < this->start().offset)
    return read(from, bytes);
  out.gap = log_gap{from.offset, s->end.offset, log_gap::why::damaged};
  out.next = s->end;
  return out;
}

or_failure<log_position> conversation_log::seek(std::uint64_t offset) const {
  const auto v = now();
  if (offset <= v.segments.front().base.offset)
    return v.segments.front().base;
  const auto s = stretch_at(v, offset);
  if (!s)
    return v.end;
  auto file = open_for_reading(*s);
  if (!file)
    return is_lost(file.failure().code) ? or_failure<log_position>{s->end} : file.failure();
  frame_walk frames{**file, s->head.base.offset, s->head.base, s->end.offset};
  while (frames.at().offset < offset && (frames.next() || frames.skip())) {
  }
  if (frames.at().offset >= offset)
    return frames.at();
  if (frames.error() && !is_lost(frames.error()))
    return failed_to(cannot_read, frames.error());
  return s->end;
}

/// Whether a frame begins there with these frames before it.
or_failure<conversation_log::found> conversation_log::look_up(const view& v, log_position at) const {
  auto same = [&at](log_position p) { return p.mark == at.mark ? found::there : found::other; };
  const auto s = stretch_at(v, at.offset);
  if (!s)
    return same(v.end);
  if (at.offset == s->head.base.offset)
    return same(s->head.base);
  auto file = open_for_reading(*s);
  if (!file)
    return is_lost(file.failure().code) ? or_failure<found>{found::damaged} : file.failure();
  frame_walk here{**file, s->head.base.offset, at, s->end.offset, one_frame_bytes};
  if (here.next())
    return found::there;
  frame_walk frames{**file, s->head.base.offset, s->head.base, s->end.offset};
  while (frames.at().offset < at.offset && frames.next()) {
  }
  if (frames.at().offset == at.offset)
    return same(frames.at());
  if (frames.at().offset > at.offset)
    return found::inside;
  if (frames.error() && !is_lost(frames.error()))
    return failed_to(cannot_read, frames.error());
  return found::damaged;
}

or_failure<log_resumed> conversation_log::resume(const log_cursor& c) const {
  const auto v = now();
  if (c.epoch != v.segments.back().epoch)
    return resume_other_epoch(v, c);
  return resume_in_epoch(v, c);
}

or_failure<log_resumed> conversation_log::resume_in_epoch(const view& v, const log_cursor& c) const {
  using why = log_gap::why;
  const auto start = v.segments.front().base;
  auto gap = [&c](why reason, log_position to) { return log_resumed{log_gap{c.at.offset, to.offset, reason}, to}; };
  if (c.at.offset < start.offset)
    return gap(why::retention, start);
  if (c.at.offset > v.end.offset)
    return gap(why::beyond_end, start);
  auto what = look_up(v, c.at);
  if (!what)
    return what.failure();
  switch (*what) {
    case found::there: return log_resumed{std::nullopt, c.at};
    case found::inside: return gap(why::inside_frame, start);
    case found::other: return gap(why::history, start);
    case found::damaged: break;
  }
  return gap(why::damaged, stretch_at(v, c.at.offset)->end);
}

/// A gap in any case, for what had been shown may be lost. A reader that had not come so far misses nothing, and goes on where it was.
or_failure<log_resumed> conversation_log::resume_other_epoch(const view& v, const log_cursor& c) const {
  auto to = v.segments.front().base;
  const auto theirs = std::ranges::find(v.segments.rbegin(), v.segments.rend(), c.epoch, &segment_head::epoch);
  // Of the files of its epoch and the place where the next one begins.
  if (theirs != v.segments.rend() && c.at.offset >= to.offset && c.at.offset <= theirs.base()->base.offset) {
    auto what = look_up(v, c.at);
    if (!what)
      return what.failure();
    if (*what == found::there)
      to = c.at;
  }
  return log_resumed{log_gap{c.at.offset, to.offset, log_gap::why::epoch}, to};
}

} // namespace swarm
