// Which work tracker is configured, and does a task's text name a ticket? Scanned by hand: std::regex recurses per character and
// overflows on long descriptions.
#include <algorithm>

#include "actors/base/limits.hpp"
#include "actors/base/text.hpp"
#include "actors/domain/json_text.hpp"
#include "actors/domain/task/rules.hpp"

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

std::string_view word_before(std::string_view text, std::size_t end) {
  auto begin = end;
  while (begin > 0 && word(text[begin - 1]))
    --begin;
  return text.substr(begin, end - begin);
}

bool capitals(std::string_view name) {
  return !name.empty() && upper(name.front()) && std::all_of(name.begin(), name.end(), [](char c) { return upper(c) || digit(c); });
}

bool key_at(std::string_view text, std::size_t dash) {
  const auto name = word_before(text, dash);
  if (capitals(name))
    return true;
  return !name.empty() && letter(name.front()) && name.find('_') == name.npos && ends_with_linear(text.substr(0, dash - name.size()));
}

bool names_ticket(std::string_view text) {
  for (auto dash = text.find('-'); dash != text.npos; dash = text.find('-', dash + 1))
    if (number_follows(text, dash + 1) && key_at(text, dash))
      return true;
  return false;
}

std::string in_lower_case(std::string_view text) {
  std::string out;
  for (char c : text)
    out += lower(c);
  return out;
}

/// Anything but an object is a tracker of which nothing is said.
tracker_config tracker_of(const std::string& value) {
  const auto settings = parse_json(value);
  const auto field = [&](const char* name) {
    if (!settings || !settings->is_object() || !settings->contains(name) || !(*settings)[name].is_string())
      return std::string_view{};
    return trimmed((*settings)[name].get_ref<const std::string&>());
  };
  tracker_config out{in_lower_case(field("provider")), std::string(field("identity")), in_lower_case(field("default_promotion"))};
  if (!is_name(out.provider) || out.provider.size() > limits::id_bytes_max)
    out.provider = default_tracker_provider;
  std::replace(out.default_promotion.begin(), out.default_promotion.end(), '_', '-');
  return out;
}

} // namespace

bool names_ticket(std::string_view idempotency_key, std::string_view title, std::string_view description) {
  return names_ticket(idempotency_key) || names_ticket(title) || names_ticket(description);
}

std::string_view first_ticket(std::string_view text) {
  constexpr std::size_t name_bytes_max = 10;
  for (auto dash = text.find('-'); dash != text.npos; dash = text.find('-', dash + 1)) {
    const auto name = word_before(text, dash);
    if (name.size() < 2 || name.size() > name_bytes_max || !capitals(name) || !number_follows(text, dash + 1))
      continue;
    const auto end = std::min(text.find_first_not_of("0123456789", dash + 1), text.size());
    if (const auto begin = dash - name.size(); end - begin <= limits::id_bytes_max)
      return text.substr(begin, end - begin);
  }
  return {};
}

std::optional<tracker_config> configured_tracker(const transaction& tx, std::string_view identity_token) {
  const auto configured = [&](const std::string& name) { return live_kv(tx, "config/work_tracker/" + name); };
  std::optional<v1::KvEntry> entry;
  if (const auto name = identity_name(identity_token); !name.empty())
    entry = configured(name);
  if (!entry)
    entry = configured("default");
  if (entry)
    return tracker_of(entry->value());
  if (const auto& own = tx.command().caller().work_tracker(); !own.empty())
    return tracker_config{own, {}, {}};
  return std::nullopt;
}

void detect_tracker(v1::TaskSpec& spec, const transaction& tx) {
  if (!names_ticket(spec.idempotency_key(), spec.title(), spec.description()))
    return;
  const auto tracker = configured_tracker(tx, actor_identity_token(tx));
  if (!tracker)
    return;
  spec.set_tracker_required(true);
  if (spec.tracker_provider().empty())
    spec.set_tracker_provider(tracker->provider);
}

} // namespace swarm::domain
