// A text that claims to be a cursor: refused, or one word. A cursor of any fields: its text gives it back, and one that differs in a character is
// refused. And what a reader of an open item claims to have read: checked.
#include "actors/store/conversation/cursor.hpp"
#include "actors/store/conversation/numbers.hpp"
#include "actors/store/conversation/open_item.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace swarm;

namespace {

bool is_word(std::string_view text) {
  return text.size() == 44 && text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") == std::string_view::npos;
}

void check_text(const std::string& text) { SWARM_HOLDS(!parse_cursor(text) || is_word(text)); }

void check_fields(fuzz::input& in) {
  const std::size_t at = in.byte();
  const auto character = static_cast<char>(in.byte());
  auto bytes = in.rest();
  bytes.resize(28);
  std::string_view rest{bytes};
  log_cursor c;
  c.epoch = take_number<std::uint64_t>(rest);
  c.at.offset = take_number<std::uint64_t>(rest);
  c.at.mark = take_number<log_mark>(rest);
  c.open_bytes = take_number<std::uint32_t>(rest);
  c.open_mark = take_number<log_mark>(rest);
  const auto text = to_text(c);
  SWARM_HOLDS(is_word(text));
  const auto back = parse_cursor(text);
  SWARM_HOLDS(back && *back == c);
  auto other = text;
  other[at % other.size()] = character;
  SWARM_HOLDS(other == text || !parse_cursor(other));
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
  switch (in.byte() % 3) {
    case 0: check_text(in.rest()); break;
    case 1: check_item(in); break;
    default: check_fields(in);
  }
  return 0;
}
