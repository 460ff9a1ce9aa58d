#include "cli/verbs/output_filter.hpp"

#include <algorithm>
#include <utility>

#include "actors/base/text.hpp"

namespace swarm::cli {

namespace {

constexpr char esc = '\x1b';
constexpr std::size_t sequence_max = 64; // a longer one is treated as text

bool is_parameter(char c) { return c >= 0x20 && c <= 0x3f; }

/// Length of the control sequence at the beginning; 0 when there is none, npos when it is incomplete.
std::size_t sequence_at(std::string_view text) {
  if (text.empty() || text.front() != esc)
    return 0;
  if (text.size() == 1)
    return text.npos;
  if (text[1] != '[')
    return 0;
  auto end = std::find_if_not(text.begin() + 2, text.end(), is_parameter);
  auto length = static_cast<std::size_t>(end - text.begin());
  if (end == text.end())
    return length < sequence_max ? text.npos : 0;
  return *end >= 0x40 && *end <= 0x7e ? length + 1 : 0;
}

bool is_colour(std::string_view sequence) {
  return sequence.back() == 'm' &&
         std::all_of(sequence.begin() + 2, sequence.end() - 1, [](char c) { return (c >= '0' && c <= '9') || c == ';' || c == ':'; });
}

/// Whether the sequence erases a part of the cursor's line.
bool is_erasure(std::string_view sequence) {
  auto parameters = sequence.substr(2, sequence.size() - 3);
  return sequence.back() == 'K' && (parameters.empty() || parameters == "0" || parameters == "1" || parameters == "2");
}

/// How many bytes at the end belong to an incomplete character, sequence or line end.
std::size_t unfinished(std::string_view text) {
  if (auto last = text.rfind(esc); last != text.npos && sequence_at(text.substr(last)) == text.npos)
    return text.size() - last;
  if (text.ends_with('\r'))
    return 1;
  for (std::size_t n = 1; n <= 3 && n <= text.size(); ++n) {
    auto c = static_cast<unsigned char>(text[text.size() - n]);
    if (c >= 0xc0u)
      return c >= (n == 1 ? 0xc0u : n == 2 ? 0xe0u : 0xf0u) ? n : 0;
    if (c < 0x80u)
      return 0;
  }
  return 0;
}

} // namespace

std::string output_filter::take(std::string_view more) {
  if (target_ == target::bytes)
    return std::string{more};
  held_ += more;
  auto rest = held_.substr(held_.size() - unfinished(held_));
  held_.resize(held_.size() - rest.size());
  return cleaned(std::exchange(held_, std::move(rest)));
}

std::string output_filter::finish() { return cleaned(std::exchange(held_, {})); }

std::string output_filter::cleaned(std::string_view whole) const {
  const bool to_terminal = target_ == target::terminal;
  std::string out;
  auto plain = [&](std::string_view piece) { out += to_terminal ? escape_control(piece) : std::string{piece}; };
  while (!whole.empty()) {
    auto special = whole.find_first_of("\x1b\r");
    plain(whole.substr(0, special));
    if (special == whole.npos)
      break;
    whole.remove_prefix(special);
    if (whole.starts_with("\r\n")) {
      whole.remove_prefix(1);
    } else if (whole.front() == '\r') {
      out += '\r';
      whole.remove_prefix(1);
    } else {
      auto length = sequence_at(whole);
      length = length == whole.npos ? 0 : length;
      auto sequence = whole.substr(0, length);
      // Programs erase the rest of a line together with its colours.
      if (length != 0 && (is_colour(sequence) || is_erasure(sequence)))
        out += to_terminal ? sequence : std::string_view{};
      else
        plain(whole.substr(0, std::max<std::size_t>(length, 1)));
      whole.remove_prefix(std::max<std::size_t>(length, 1));
    }
  }
  return out;
}

} // namespace swarm::cli
