// Opening a conversation's log: what is there, what is cut off, what is lost.
#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

#include "actors/base/text.hpp"
#include "actors/store/conversation/frame_walk.hpp"
#include "actors/store/conversation/log.hpp"

namespace swarm {

namespace fs = std::filesystem;

namespace {

constexpr auto cannot_open = "the conversation's log cannot be opened";
/// Far beyond what any log reaches, and far from where sums overflow.
constexpr std::uint64_t offset_max = 1ull << 60;

/// Nothing for a name that segment_name does not make.
std::optional<std::uint64_t> base_of(std::string_view name) {
  constexpr std::string_view end = ".log";
  if (!name.ends_with(end))
    return std::nullopt;
  auto digits = name.substr(0, name.size() - end.size());
  std::uint64_t base = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), base, 16);
  if (base > offset_max || hex(base, 16) != digits)
    return std::nullopt;
  return base;
}

bool is_no_file(std::error_code why) {
  return why == std::errc::is_a_directory || why == std::errc::too_many_symbolic_link_levels || why == std::errc::no_such_device_or_address;
}

/// A file, or a link that leads nowhere.
bool is_no_directory(std::error_code why) {
  return why == std::errc::not_a_directory || why == std::errc::no_such_file_or_directory || why == std::errc::too_many_symbolic_link_levels;
}

} // namespace

or_failure<std::unique_ptr<conversation_log>> conversation_log::open(disk& d, fs::path directory, log_options options) {
  std::unique_ptr<conversation_log> log{new conversation_log{d, std::move(directory), std::move(options)}};
  if (auto failure = log->load())
    return *std::move(failure);
  return log;
}

std::optional<disk_failure> conversation_log::load() {
  if (auto failure = load_heads())
    return failure;
  if (view_.segments.empty()) {
    opened_.is_new = unreadable_to_ == 0 && options_.synced == 0;
    const auto base = std::max(unreadable_to_, options_.synced);
    if (!opened_.is_new)
      opened_.lost = log_gap{0, base, log_gap::why::damaged};
    return begin_segment({options_.new_epoch(), {base, 0}, options_.now_ms});
  }
  const auto last = view_.segments.back();
  auto file = disk_->open(path_of(last.base.offset), disk::how::write);
  if (!file)
    return failed_to(cannot_open, file.failure());
  file_ = *std::move(file);
  auto size = file_->size();
  if (!size)
    return failed_to(cannot_open, size.failure());
  return go_on_in(last, *size);
}

std::optional<disk_failure> conversation_log::load_heads() {
  if (auto error = disk_->make_directory(directory_))
    return failed_to(cannot_open, error);
  auto names = disk_->list(directory_);
  if (!names && is_no_directory(names.failure())) {
    if (auto failure = set_aside(directory_))
      return failure;
    if (auto error = disk_->make_directory(directory_))
      return failed_to(cannot_open, error);
    names = disk_->list(directory_);
  }
  if (!names)
    return failed_to(cannot_open, names.failure());
  std::ranges::sort(*names);
  std::optional<disk_failure> lost; // a file behind which no readable one has come yet
  for (const auto& name : *names) {
    // A file that was not finished when its writer died.
    if (name.ends_with(".new"))
      if (auto error = disk_->remove(directory_ / name))
        return failed_to(cannot_open, error);
    if (auto base = base_of(name)) {
      auto failure = load_head(*base);
      if (failure && !is_lost(failure->code))
        return failure;
      if (failure)
        lost = std::move(failure);
      else if (!view_.segments.empty() && view_.segments.back().base.offset == *base)
        lost.reset();
    }
  }
  // Nothing says where it ends, and it may be read the next time.
  return lost;
}

std::optional<disk_failure> conversation_log::load_head(std::uint64_t base) {
  auto file = disk_->open(path_of(base), disk::how::read);
  if (!file)
    return is_no_file(file.failure()) ? set_aside(path_of(base)) : failed_to(cannot_open, file.failure());
  std::string bytes(segment_head_bytes, '\0');
  auto n = (*file)->read_at(0, bytes);
  if (!n && is_no_file(n.failure()))
    return set_aside(path_of(base));
  auto size = (*file)->size();
  if (!n || !size)
    return failed_to(cannot_open, !n ? n.failure() : size.failure());
  bytes.resize(*n);
  if (auto head = decode_head(bytes); head && head->base.offset == base)
    view_.segments.push_back(*head);
  else if (base <= unreadable_base_max())
    unreadable_to_ = base + std::min<std::uint64_t>(*size, options_.segment_bytes + frame_bytes_max);
  return std::nullopt;
}

/// What has the name of one of the log's files and is none must not end the conversation; somebody may look at it.
std::optional<disk_failure> conversation_log::set_aside(const fs::path& path) {
  auto aside = path;
  aside += concat({".", hex(options_.new_epoch(), 16), ".aside"});
  if (auto error = disk_->rename(path, aside))
    return failed_to(cannot_open, error);
  return std::nullopt;
}

/// A file begins where the one before ends. One that is farther away is none of this log's, and must not move its end.
std::uint64_t conversation_log::unreadable_base_max() const {
  if (view_.segments.empty())
    return offset_max / 2;
  return std::max(unreadable_to_, view_.segments.back().base.offset + options_.segment_bytes + frame_bytes_max);
}

/// Takes the frames of the last file, which has so many bytes. What stands behind them is cut off by a next file, which begins where they end; the
/// file itself stays as it is. What had been synced leaves a gap.
std::optional<disk_failure> conversation_log::go_on_in(const segment_head& last, std::uint64_t bytes) {
  const auto file_end = last.base.offset + std::clamp<std::uint64_t>(bytes, segment_head_bytes, offset_max) - segment_head_bytes;
  frame_walk frames{*file_, last.base.offset, last.base, file_end};
  synced_ = last.base;
  newest_ms_ = last.begun_at_ms;
  while (frames.next()) {
    newest_ms_ = std::max(newest_ms_, frames.frame().at_ms);
    if (frames.at().offset <= options_.synced)
      synced_ = frames.at();
  }
  // Not damage: it may be read the next time.
  if (frames.error())
    return failed_to(cannot_open, frames.error());
  view_.end = frames.at();
  must_rewrite_ = true;
  // No row vouches for anything in it, so that the last sync of its name may have failed.
  has_unsynced_name_ = options_.synced <= last.base.offset;
  const auto whole = view_.end.offset;
  const auto known_to = std::max(unreadable_to_, options_.synced);
  if (frames.is_whole() && known_to <= whole)
    return std::nullopt;
  if (auto failure = sync())
    return failure;
  auto next = view_.end;
  if (known_to > whole) {
    next = {known_to, 0};
    opened_.lost = log_gap{whole, next.offset, log_gap::why::damaged};
  } else {
    opened_.cut = file_end - whole;
  }
  return begin_segment({options_.new_epoch(), next, std::max(newest_ms_, options_.now_ms)});
}

/// A whole file with that head replaces one of the same base.
std::optional<disk_failure> conversation_log::begin_segment(const segment_head& head) {
  constexpr auto cannot_begin = "the conversation's log cannot begin a file";
  const auto path = path_of(head.base.offset);
  auto fresh = path;
  fresh += ".new";
  auto error = disk_->remove(fresh);
  if (error)
    return failed_to(cannot_begin, error);
  auto file = disk_->open(fresh, disk::how::make);
  if (!file)
    return failed_to(cannot_begin, file.failure());
  error = (*file)->write_at(0, encode_head(head));
  if (!error)
    error = (*file)->sync();
  if (!error)
    error = disk_->rename(fresh, path);
  if (error) {
    disk_->remove(fresh);
    return failed_to(cannot_begin, error);
  }
  // From here on a reader of the directory finds it, so it is in use even if its name may not outlast a power cut yet.
  has_unsynced_name_ = true;
  file_ = *std::move(file);
  must_rewrite_ = has_remains_ = false;
  newest_ms_ = head.begun_at_ms;
  synced_ = head.base;
  {
    std::lock_guard hold{mutex_};
    if (!view_.segments.empty() && view_.segments.back().base.offset == head.base.offset)
      view_.segments.pop_back();
    view_.segments.push_back(head);
    view_.end = head.base;
  }
  return sync();
}

} // namespace swarm
