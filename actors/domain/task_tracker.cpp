// Does a task's text name a ticket? Scanned by hand: std::regex recurses per character and overflows on long descriptions.
#include <algorithm>

#include "actors/domain/task_rules.hpp"

namespace swarm::domain {

namespace {

constexpr bool digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool upper(char c) { return c >= 'A' && c <= 'Z'; }
constexpr char lower(char c) { return upper(c) ? static_cast<char>(c + ('a' - 'A')) : c; }
constexpr bool letter(char c) { return lower(c) >= 'a' && lower(c) <= 'z'; }
constexpr bool word(char c) { return letter(c) || digit(c) || c == '_'; }

bool ends_with_nocase(std::string_view text, std::string_view lower_suffix) {
  if (text.size() < lower_suffix.size())
    return false;
  text.remove_prefix(text.size() - lower_suffix.size());
  return std::equal(text.begin(), text.end(), lower_suffix.begin(), [](char a, char b) { return lower(a) == b; });
}

// `linear:` at a word boundary, or `linear.app/<workspace>/issue/`.
bool ends_with_linear(std::string_view before) {
  constexpr std::string_view scheme = "linear:";
  if (ends_with_nocase(before, scheme))
    return before.size() == scheme.size() || !word(before[before.size() - scheme.size() - 1]);
  constexpr std::string_view issue = "/issue/";
  if (!ends_with_nocase(before, issue))
    return false;
  before.remove_suffix(issue.size());
  const auto slash = before.find_last_of("/ \t\r\n");
  return slash != before.npos && slash + 1 < before.size() && ends_with_nocase(before.substr(0, slash + 1), "linear.app/");
}

bool number_follows(std::string_view text, std::size_t at) {
  auto end = at;
  while (end < text.size() && digit(text[end]))
    ++end;
  return end > at && (end == text.size() || !word(text[end]));
}

bool key_at(std::string_view text, std::size_t dash) {
  auto begin = dash;
  while (begin > 0 && word(text[begin - 1]))
    --begin;
  const auto name = text.substr(begin, dash - begin);
  if (name.empty() || !letter(name.front()) || name.find('_') != name.npos)
    return false;
  const bool capitals = std::all_of(name.begin(), name.end(), [](char c) { return upper(c) || digit(c); });
  return capitals || ends_with_linear(text.substr(0, begin));
}

bool names_ticket(std::string_view text) {
  for (auto dash = text.find('-'); dash != text.npos; dash = text.find('-', dash + 1))
    if (number_follows(text, dash + 1) && key_at(text, dash))
      return true;
  return false;
}

} // namespace

bool names_ticket(std::string_view idempotency_key, std::string_view title, std::string_view description) {
  return names_ticket(idempotency_key) || names_ticket(title) || names_ticket(description);
}

void detect_tracker(v1::TaskSpec& spec, const v1::Caller& caller) {
  if (caller.work_tracker().empty() || !names_ticket(spec.idempotency_key(), spec.title(), spec.description()))
    return;
  spec.set_tracker_required(true);
  if (spec.tracker_provider().empty())
    spec.set_tracker_provider(caller.work_tracker());
}

} // namespace swarm::domain
