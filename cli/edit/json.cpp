#include "cli/edit/json.hpp"

#include <algorithm>
#include <optional>

#include "actors/base/limits.hpp"
#include "actors/base/text.hpp"

namespace swarm::cli {

namespace {

constexpr std::string_view blanks = " \t\r\n";

std::size_t line_of(std::string_view text, std::size_t at) {
  return 1 + static_cast<std::size_t>(std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(std::min(at, text.size())), '\n'));
}

/// Behind the string that begins at `at`; the end of the text if it is not closed.
std::size_t behind_string(std::string_view text, std::size_t at) {
  for (++at; at < text.size() && text[at] != '"'; ++at)
    at += text[at] == '\\';
  return std::min(at + 1, text.size());
}

/// Behind the comment that begins at `at`, or `at` if none does.
std::size_t behind_comment(std::string_view text, std::size_t at) {
  if (text.substr(at, 2) == "//")
    return std::min(text.find('\n', at), text.size());
  if (text.substr(at, 2) != "/*")
    return at;
  auto end = text.find("*/", at + 2);
  if (end == text.npos)
    throw unreadable(line_of(text, at), "a comment that does not end");
  return end + 2;
}

void blank_out(std::string& text, std::size_t begin, std::size_t end) {
  for (; begin < end; ++begin)
    if (text[begin] != '\n' && text[begin] != '\r')
      text[begin] = ' ';
}

std::string without_comments(std::string out) {
  for (std::size_t at = 0; at < out.size();) {
    auto end = out[at] == '"' ? at : behind_comment(out, at);
    if (out[at] == '"') {
      at = behind_string(out, at);
    } else if (end != at) {
      blank_out(out, at, end);
      at = end;
    } else {
      ++at;
    }
  }
  return out;
}

std::string without_trailing_commas(std::string out) {
  for (std::size_t at = 0; at < out.size();) {
    if (out[at] == '"') {
      at = behind_string(out, at);
      continue;
    }
    if (out[at] == ',')
      if (auto next = out.find_first_not_of(blanks, at + 1); next != out.npos && (out[next] == '}' || out[next] == ']'))
        out[at] = ' ';
    ++at;
  }
  return out;
}

/// The line in which `blanked` has blanks that `text` has not; both have one length.
std::optional<std::size_t> first_difference(const std::string& text, const std::string& blanked) {
  auto at = static_cast<std::size_t>(std::mismatch(text.begin(), text.end(), blanked.begin()).first - text.begin());
  return at == text.size() ? std::nullopt : std::optional{line_of(text, at)};
}

bool is_number(const std::string& text) {
  return !text.empty() && text.size() < 9 && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

bool same(const json& a, const json& b) { return nlohmann::json(a) == nlohmann::json(b); }

} // namespace

/// Where a value stands in the text.
struct json_text::node {
  struct element {
    std::string key;
    std::size_t begin = 0; // of the key, or of the value in an array
    std::size_t value = 0;
    std::size_t end = 0;
  };
  char kind = 0; // { or [ or 0 for anything else
  std::size_t begin = 0;
  std::size_t end = 0;
  std::vector<element> elements;

  /// The last one wins, as it does for every reader.
  const element* find(const std::string& key) const {
    if (kind == '[')
      return is_number(key) && std::stoul(key) < elements.size() ? &elements[std::stoul(key)] : nullptr;
    auto i = std::find_if(elements.rbegin(), elements.rend(), [&](const element& e) { return e.key == key; });
    return i == elements.rend() ? nullptr : &*i;
  }

  static std::size_t skip(const std::string& t, std::size_t at) { return std::min(t.find_first_not_of(blanks, at), t.size()); }

  /// Behind the value at `at`. The text is known to be well-formed and not too deep.
  static std::size_t behind(const std::string& t, std::size_t at) {
    if (t[at] == '"')
      return behind_string(t, at);
    if (t[at] != '{' && t[at] != '[')
      return std::min(t.find_first_of(",]} \t\r\n", at), t.size());
    std::size_t depth = 0;
    do {
      if (t[at] == '"') {
        at = behind_string(t, at);
        continue;
      }
      depth += t[at] == '{' || t[at] == '[';
      depth -= t[at] == '}' || t[at] == ']';
      ++at;
    } while (depth > 0);
    return at;
  }

  /// Nothing but blanks and a byte order mark stands before it.
  static node root(const std::string& t) { return at(t, t.find('{')); }

  static node at(const std::string& t, std::size_t position) {
    node out;
    out.begin = position;
    if (t[position] != '{' && t[position] != '[') {
      out.end = behind(t, position);
      return out;
    }
    out.kind = t[position];
    for (auto i = skip(t, position + 1);;) {
      if (t[i] == '}' || t[i] == ']') {
        out.end = i + 1;
        return out;
      }
      element e;
      e.begin = i;
      e.value = i;
      if (out.kind == '{') {
        auto end = behind_string(t, i);
        e.key = json::parse(t.begin() + static_cast<std::ptrdiff_t>(i), t.begin() + static_cast<std::ptrdiff_t>(end)).get<std::string>();
        e.value = skip(t, skip(t, end) + 1);
      }
      e.end = behind(t, e.value);
      out.elements.push_back(e);
      i = skip(t, e.end);
      if (t[i] == ',')
        i = skip(t, i + 1);
    }
  }
};

json_text::json_text(std::string text, json_dialect dialect) : text_(std::move(text)), dialect_(dialect) {
  if (text_.find_first_not_of(blanks) == text_.npos) // what JSON calls blank: a form feed is somebody's text, and an error
    text_ = "{}\n";
  bare_ = without_comments(text_);
  plain_ = without_trailing_commas(bare_);
  std::size_t depth = 0;
  try {
    value_ = json::parse(plain_, [&](int level, json::parse_event_t, json&) {
      depth = std::max(depth, static_cast<std::size_t>(level));
      return true;
    });
  } catch (const json::parse_error& e) {
    throw unreadable(line_of(plain_, e.byte > 0 ? e.byte - 1 : 0), "this is not JSON"); // counted from 1
  } catch (const json::out_of_range&) {
    throw unreadable(1, "there is a number that is too large"); // which line, the parser does not say
  }
  if (!value_.is_object())
    throw unreadable(1, "this is not a JSON object");
  if (auto line = first_difference(text_, bare_); line && dialect_ == json_dialect::plain)
    throw unreadable(*line, "here is a comment, which the program that reads this file takes for an error");
  if (auto line = first_difference(bare_, plain_); line && dialect_ != json_dialect::comments_and_trailing_commas)
    throw unreadable(*line, "here is a comma behind the last item, which the program that reads this file takes for an error");
  if (depth > limits::agent_settings_depth_max)
    throw unreadable(1, "this is nested too deeply");
}

const json* json_text::find(const path& where) const {
  const json* at = &value_;
  for (const auto& key : where) {
    if (at->is_object() && at->contains(key))
      at = &at->at(key);
    else if (at->is_array() && is_number(key) && std::stoul(key) < at->size())
      at = &at->at(std::stoul(key));
    else
      return nullptr;
  }
  return at;
}

void json_text::replace(std::size_t begin, std::size_t end, const std::string& with) {
  auto next = text_;
  next.replace(begin, end - begin, with);
  try {
    *this = json_text{std::move(next), dialect_};
  } catch (const unreadable&) { // of what would have become of it
    throw unreadable(line_of(text_, begin), not_editable);
  }
}

/// The blanks that the line of `at` begins with.
std::string json_text::indent_at(std::size_t at) const {
  auto begin = text_.rfind('\n', at);
  begin = begin == text_.npos ? 0 : begin + 1;
  auto end = text_.find_first_not_of(" \t", begin);
  return text_.substr(begin, std::min(end, text_.size()) - begin);
}

/// One step of indentation: that of the first key.
std::string json_text::unit() const {
  auto root = node::root(plain_);
  auto first = root.elements.empty() ? std::string{} : indent_at(root.elements.front().begin);
  return first.empty() ? "  " : first;
}

std::string json_text::line_break() const {
  auto first = text_.find('\n');
  return first != text_.npos && first > 0 && text_[first - 1] == '\r' ? "\r\n" : "\n";
}

/// Whether its elements stand on lines of their own.
bool json_text::in_lines(const node& n) const {
  return !n.elements.empty() && text_.substr(n.begin, n.elements.front().begin - n.begin).find('\n') != text_.npos;
}

std::string json_text::rendered(const json& value, std::size_t at, bool one_line) const {
  if (one_line)
    return value.dump();
  auto step = unit();
  std::string out;
  for (auto c : value.dump(static_cast<int>(step.size()), step.front()))
    if (c == '\n')
      out += line_break() + indent_at(at);
    else
      out += c;
  return out;
}

void json_text::insert(const node& container, const std::string& key, const json& value) {
  auto name = container.kind == '{' ? json(key).dump() + ": " : std::string{};
  auto root = node::root(plain_);
  auto inner_end = container.end - 1;
  if (container.elements.empty()) {
    if (!root.elements.empty() && !in_lines(root))
      return replace(container.begin + 1, container.begin + 1, name + rendered(value, container.begin, true));
    auto step = unit();
    std::string deeper;
    for (auto c : rendered(value, container.begin, false)) {
      deeper += c;
      if (c == '\n')
        deeper += step;
    }
    auto base = indent_at(container.begin);
    // What is inside is blank or a comment; a comment stays in front of what is new.
    auto inside = text_.substr(container.begin + 1, inner_end - container.begin - 1);
    auto kept = inside.substr(0, inside.find_last_not_of(blanks) + 1);
    return replace(container.begin + 1, inner_end, kept + line_break() + base + step + name + deeper + line_break() + base);
  }
  const auto& last = container.elements.back();
  if (!in_lines(container)) {
    auto shown = text_.substr(container.begin, container.end - container.begin);
    bool spaced = shown.find(": ") != shown.npos || shown.find(", ") != shown.npos;
    if (!spaced && container.kind == '{')
      name.pop_back();
    return replace(last.end, last.end, (spaced ? ", " : ",") + name + rendered(value, last.begin, true));
  }
  // A comment behind the last element stays with it.
  auto tail_end = last.end;
  auto tail = text_.substr(last.end, inner_end - last.end);
  tail_end += tail.find_last_not_of(blanks) + 1;
  auto kept = text_.substr(last.end, tail_end - last.end);
  auto comma = bare_.find_first_not_of(blanks, last.end);
  bool trailing_comma = comma < inner_end && bare_[comma] == ',';
  auto fresh = line_break() + indent_at(last.begin) + name + rendered(value, last.begin, false) + (trailing_comma ? "," : "");
  replace(last.end, tail_end, (trailing_comma ? "" : ",") + kept + fresh);
}

void json_text::set(const path& where, const json& value) {
  if (const auto* now = find(where); now && same(*now, value))
    return;
  auto at = node::root(plain_);
  std::size_t depth = 0;
  for (; depth < where.size(); ++depth) {
    const auto* next = at.find(where[depth]);
    if (!next)
      break;
    at = node::at(plain_, next->value);
  }
  if (depth == where.size()) {
    return replace(at.begin, at.end, rendered(value, at.begin, !in_lines(node::root(plain_))));
  }
  if (at.kind != (where[depth] == "-" ? '[' : '{'))
    throw unreadable(line_of(text_, at.begin),
                     (depth > 0 ? json(where[depth - 1]).dump() : "this") + " is not " + (where[depth] == "-" ? "a list" : "an object"));
  auto fresh = value;
  for (auto i = where.size() - 1; i > depth; --i) {
    json outer = where[i] == "-" ? json::array() : json::object();
    if (where[i] == "-")
      outer.push_back(std::move(fresh));
    else
      outer[where[i]] = std::move(fresh);
    fresh = std::move(outer);
  }
  insert(at, where[depth], fresh);
}

void json_text::erase(const path& where) {
  // Without the last of several keys of one name the one before it would count.
  for (bool object = true; object && !where.empty() && find(where);) {
    auto at = node::root(plain_);
    for (std::size_t i = 0; i + 1 < where.size(); ++i)
      at = node::at(plain_, at.find(where[i])->value);
    object = at.kind == '{';
    take_out(at, static_cast<std::size_t>(at.find(where.back()) - at.elements.data()));
  }
}

void json_text::take_out(const node& container, std::size_t index) {
  const auto& gone = container.elements[index];
  bool last = index + 1 == container.elements.size();
  auto next = last ? bare_.find_first_not_of(blanks, gone.end) : plain_.find(',', gone.end);
  bool followed_by_comma = next < bare_.size() && bare_[next] == ',';
  auto behind = followed_by_comma ? next + 1 : gone.end;
  // Blanks in front of it go with it, back to what stands before: a bracket, a comma, a comment. Of a comment only when the line ends behind
  // it as well: what follows must not become part of the comment.
  auto begin = text_.find_last_not_of(blanks, gone.begin - 1) + 1;
  if (auto rest = text_.find_first_not_of(" \t\r", behind); text_[begin - 1] != plain_[begin - 1] && (rest == text_.npos || text_[rest] != '\n'))
    begin = gone.begin;
  if (container.elements.size() == 1) {
    // A comment between it and its comma stays.
    auto kept = followed_by_comma ? text_.substr(gone.end, next - gone.end) : std::string{};
    kept.resize(kept.find_last_not_of(blanks) == kept.npos ? 0 : kept.size());
    // An empty container closes on the same line, unless a comment stands in it.
    auto close = text_.find_first_not_of(blanks, behind);
    return replace(begin, kept.empty() && close == container.end - 1 && begin == container.begin + 1 ? close : behind, kept);
  }
  if (followed_by_comma)
    return replace(begin, behind, "");
  // The last one: the comma before it goes as well, what stands between (a comment) stays.
  const auto& before = container.elements[index - 1];
  auto comma = plain_.find(',', before.end);
  replace(comma, gone.end, text_.substr(comma + 1, begin - comma - 1));
}

} // namespace swarm::cli
