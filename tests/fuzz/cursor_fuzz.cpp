// A text that claims to be a cursor: refused, or the only text of this cursor. And what a reader of an open item claims to have read: checked.
#include "actors/store/conversation/cursor.hpp"
#include "actors/store/conversation/open_item.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace swarm;

namespace {

void check_text(const std::string& text) {
  const auto c = parse_cursor(text);
  SWARM_HOLDS(!c || to_text(*c) == text);
}

void check_item(fuzz::input& in) {
  open_item item;
  std::string whole; // while there is no hole
  item.start("item", 2);
  const auto with_hole = in.byte() % 4 == 0;
  for (int n = 0; !in.empty() && n < 32; ++n) {
    const std::uint64_t offset = with_hole ? item.end() + in.byte() : whole.size() - std::min<std::size_t>(whole.size(), in.byte());
    auto text = in.piece();
    // What comes again is the same.
    if (!with_hole && offset < whole.size())
      text = whole.substr(offset) + text;
    const auto end = item.end();
    item.add(offset, text);
    whole += text.substr(with_hole ? 0 : end - offset);
    SWARM_HOLDS(item.end() == offset + text.size() || (with_hole && text.empty()));
    SWARM_HOLDS(item.end() - item.begin() <= open_item::bytes_max);
    std::string kept;
    for (std::string_view part; !(part = item.text(item.begin() + kept.size(), 7)).empty();)
      kept += part;
    SWARM_HOLDS(kept.size() == item.end() - item.begin());
    SWARM_HOLDS(whole.ends_with(kept));
    const auto mark = item.mark({}, item.begin() + kept.size() / 2);
    SWARM_HOLDS(mark.open_bytes == 0 || item.continues(mark) == mark.open_bytes);
    auto other = mark;
    other.open_mark ^= 1;
    SWARM_HOLDS(!item.continues(other));
  }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::input in{data, size};
  if (in.byte() % 2 == 0) {
    check_text(in.rest());
    return 0;
  }
  check_item(in);
  return 0;
}
