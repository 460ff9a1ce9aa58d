#include "actors/store/conversation/open_item.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "actors/base/crc32c.hpp"
#include "actors/base/text.hpp"
#include "actors/store/conversation/numbers.hpp"

namespace swarm {

namespace {

bool continues_character(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

} // namespace

void open_item::start(std::string id, std::uint32_t kind) {
  clear();
  is_open_ = true;
  id_ = std::move(id);
  kind_ = kind;
  std::string name;
  put_number(name, kind);
  before_ = crc32c(id_, crc32c(name));
}

void open_item::clear() { *this = open_item{}; }

void open_item::add(std::uint64_t offset, std::string_view text) {
  if (!is_open_)
    return;
  if (offset < end_)
    text.remove_prefix(static_cast<std::size_t>(std::min<std::uint64_t>(end_ - offset, text.size())));
  if (offset > end_) {
    // What stood in the hole is unknown, so no cursor from elsewhere can be checked against it.
    drop(kept().size());
    std::string hole{"hole"};
    put_number(hole, offset);
    before_ = crc32c(hole, before_);
    end_ = offset;
  }
  text_ += text;
  end_ += text.size();
  if (kept().size() > bytes_max)
    drop(kept().size() - bytes_max);
}

void open_item::drop(std::size_t bytes) {
  const auto text = kept();
  while (bytes < text.size() && continues_character(text[bytes]))
    ++bytes;
  before_ = crc32c(text.substr(0, bytes), before_);
  dropped_ += bytes;
  // Moving the rest for each delta would cost more than the memory is worth.
  if (dropped_ >= bytes_max / 4 || dropped_ == text_.size()) {
    text_.erase(0, dropped_);
    dropped_ = 0;
  }
}

std::string_view open_item::text(std::uint64_t from, std::size_t bytes) const {
  if (from < begin() || from >= end_)
    return {};
  const auto rest = kept().substr(static_cast<std::size_t>(from - begin()));
  auto out = utf8_prefix(rest, bytes);
  // Bytes that are no text must not stop a reader.
  return out.empty() ? rest.substr(0, bytes) : out;
}

log_mark open_item::mark_at(std::uint64_t offset) const { return crc32c(kept().substr(0, static_cast<std::size_t>(offset - begin())), before_); }

log_cursor open_item::mark(log_cursor at, std::uint64_t to) const {
  at.open_bytes = 0;
  at.open_mark = 0;
  if (is_open_ && to > 0 && to >= begin() && to <= end_ && to <= std::numeric_limits<std::uint32_t>::max()) {
    at.open_bytes = static_cast<std::uint32_t>(to);
    at.open_mark = mark_at(to);
  }
  return at;
}

std::optional<std::uint64_t> open_item::continues(const log_cursor& c) const {
  if (!is_open_ || c.open_bytes == 0 || c.open_bytes < begin() || c.open_bytes > end_ || mark_at(c.open_bytes) != c.open_mark)
    return std::nullopt;
  return c.open_bytes;
}

} // namespace swarm
