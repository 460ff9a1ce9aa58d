// The item of a conversation that is not final yet, as it streams in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "actors/base/limits.hpp"
#include "actors/store/conversation/cursor.hpp"

namespace swarm {

/// The newest bytes of the open item, in memory only. All of it stands in the log once it is final.
class open_item {
public:
  static constexpr std::size_t bytes_max = limits::open_item_bytes_max;

  /// Another item is open, of which nothing is known yet.
  void start(std::string id, std::uint32_t kind);
  /// More of it, `offset` bytes from its beginning. What was there already is passed over; behind a hole, only what follows the hole is kept.
  void add(std::uint64_t offset, std::string_view text);
  /// It is final, or nobody will finish it.
  void clear();

  bool is_open() const noexcept { return is_open_; }
  const std::string& id() const noexcept { return id_; }
  std::uint32_t kind() const noexcept { return kind_; }
  /// Of what is kept.
  std::uint64_t begin() const noexcept { return end_ - kept().size(); }
  /// How long the item is so far.
  std::uint64_t end() const noexcept { return end_; }
  /// At most `bytes` from there on, cut between characters. Nothing before begin() or behind the end.
  std::string_view text(std::uint64_t from, std::size_t bytes) const;

  /// The same place in the log for a reader that has read the open item up to `to`.
  log_cursor mark(log_cursor at, std::uint64_t to) const;
  /// From where on a reader with this cursor, at the log's end, misses the item; nothing if what it has read is none of this item: it begins with
  /// begin().
  std::optional<std::uint64_t> continues(const log_cursor&) const;

private:
  std::string_view kept() const noexcept { return std::string_view{text_}.substr(dropped_); }
  log_mark mark_at(std::uint64_t offset) const;
  void drop(std::size_t bytes);

  bool is_open_ = false;
  std::string id_;
  std::uint32_t kind_ = 0;
  std::string text_;        // the newest of it
  std::size_t dropped_ = 0; // of text_: no longer kept
  std::uint64_t end_ = 0;
  log_mark before_ = 0; // of what it is and of all before begin()
};

} // namespace swarm
