#include "actors/agents/json_view.hpp"

#include <charconv>
#include <cmath>

#include <nlohmann/json.hpp>

#include "actors/base/text.hpp"

namespace swarm::agents {

namespace {

// All of this reads text that has been checked, and still stays within any text.

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

std::size_t skip_blanks(std::string_view text, std::size_t at) {
  while (at < text.size() && is_blank(text[at]))
    ++at;
  return at;
}

/// The end of the text that begins with the quote at `at`.
std::size_t end_of_text(std::string_view text, std::size_t at) {
  for (auto quote = text.find('"', at + 1); quote != text.npos; quote = text.find('"', quote + 1)) {
    std::size_t backslashes = 0;
    while (quote - backslashes > at + 1 && text[quote - backslashes - 1] == '\\')
      ++backslashes;
    if (backslashes % 2 == 0)
      return quote + 1;
  }
  return text.size();
}

std::size_t end_of_value(std::string_view text, std::size_t at) {
  std::size_t depth = 0;
  while (at < text.size()) {
    const char c = text[at];
    if (c == '"') {
      at = end_of_text(text, at);
    } else if (c == '{' || c == '[') {
      ++depth;
      ++at;
      continue;
    } else if (c == '}' || c == ']') {
      if (depth == 0)
        return at;
      --depth;
      ++at;
    } else if (depth == 0) { // a number or a word
      while (at < text.size() && !is_blank(text[at]) && text[at] != ',' && text[at] != '}' && text[at] != ']')
        ++at;
    } else {
      ++at;
      continue;
    }
    if (depth == 0)
      return at;
  }
  return at;
}

/// Calls `on(name, value)` with what an object has, or `on("", value)` with what an array has, until it returns false.
template <class On>
void each_in(std::string_view text, bool has_names, On on) {
  auto at = skip_blanks(text, 1);
  while (at < text.size() && text[at] != '}' && text[at] != ']') {
    std::string_view name;
    if (has_names) {
      auto end = end_of_text(text, at);
      name = text.substr(at, end - at);
      at = skip_blanks(text, end);
      if (at >= text.size() || text[at] != ':')
        return;
      at = skip_blanks(text, at + 1);
    }
    auto end = end_of_value(text, at);
    if (end == at || !on(name, text.substr(at, end - at)))
      return;
    at = skip_blanks(text, end);
    if (at < text.size() && text[at] == ',')
      at = skip_blanks(text, at + 1);
  }
}

} // namespace

json_view json_view::of(std::string_view json) {
  // The parser takes a NUL for the end of the text, whatever follows it.
  const bool is_whole = json.find('\0') == json.npos && nlohmann::json::accept(json);
  return is_whole ? json_view{trimmed(json)} : json_view{};
}

std::string json_view::text() const {
  if (!is_text() || raw_.size() < 2)
    return {};
  auto inner = raw_.substr(1, raw_.size() - 2);
  if (inner.find('\\') == inner.npos)
    return std::string{inner};
  auto value = nlohmann::json::parse(raw_, nullptr, false);
  return value.is_string() ? std::move(value.get_ref<std::string&>()) : std::string{};
}

bool json_view::is(std::string_view what) const {
  if (!is_text())
    return false;
  auto inner = raw_.substr(1, raw_.size() - 2);
  return inner.find('\\') == inner.npos ? inner == what : text() == what;
}

std::optional<double> json_view::number() const {
  double out = 0;
  const auto* end = raw_.data() + raw_.size();
  auto [stopped, error] = std::from_chars(raw_.data(), end, out);
  return exists() && error == std::errc{} && stopped == end && std::isfinite(out) ? std::optional{out} : std::nullopt;
}

std::uint64_t json_view::count() const {
  constexpr double most = 9'007'199'254'740'992.0;
  auto n = number().value_or(0);
  return n > 0 && n <= most ? static_cast<std::uint64_t>(n) : 0;
}

json_view json_view::operator[](std::string_view name) const {
  json_view out;
  if (is_object())
    each_in(raw_, true, [&](std::string_view found, std::string_view value) {
      if (json_view{found}.is(name))
        out = json_view{value};
      return true;
    });
  return out;
}

std::vector<json_view> json_view::elements(std::size_t max) const {
  std::vector<json_view> out;
  if (is_array() && max > 0)
    each_in(raw_, false, [&](std::string_view, std::string_view value) {
      out.push_back(json_view{value});
      return out.size() < max;
    });
  return out;
}

json_view::members::members(const json_view& object, std::size_t max) {
  if (object.is_object() && max > 0)
    each_in(object.raw_, true, [&](std::string_view name, std::string_view value) {
      all_.emplace_back(json_view{name}, json_view{value});
      return all_.size() < max;
    });
}

json_view json_view::members::operator[](std::string_view name) const {
  for (auto i = all_.rbegin(); i != all_.rend(); ++i)
    if (i->first.is(name))
      return i->second;
  return {};
}

std::string json_quoted(std::string_view text) { return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace); }

} // namespace swarm::agents
