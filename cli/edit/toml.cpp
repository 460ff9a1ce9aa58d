#include "cli/edit/toml.hpp"

#include <algorithm>
#include <map>
#include <sstream>

#include <nlohmann/json.hpp>

// As in actors/base/limits_config.cpp: a malformed file is refused, not asserted.
#define TOML_ASSERT(condition) static_assert(true)
#include <toml++/toml.h>

#include "actors/base/text.hpp"
#include "actors/base/toml_text.hpp"
#include "cli/edit/json.hpp"

namespace swarm::cli {

namespace {

toml::table parsed(std::string text) {
  // The lines stay as they are, and of the characters nothing but their places is used.
  if (auto wrong = make_fit_for_toml(text))
    throw unreadable(std::max<std::size_t>(wrong->line, 1), wrong->text);
  try {
    return toml::parse(text);
  } catch (const toml::parse_error& e) {
    throw unreadable(e.source().begin.line, "this is not TOML: " + std::string{e.description()});
  }
}

const toml::node* node_at(const toml::table& root, const toml_path& path) {
  const toml::node* at = &root;
  for (const auto& key : path) {
    const auto* table = at->as_table();
    at = table ? table->get(key) : nullptr;
    if (!at)
      return nullptr;
  }
  return at;
}

std::size_t line_of(const toml::node& node) { return std::max<std::size_t>(node.source().begin.line, 1); }

std::vector<std::string> split_lines(const std::string& text) {
  std::vector<std::string> out;
  for (std::size_t at = 0; at < text.size();) {
    auto end = std::min(text.find('\n', at), text.size() - 1) + 1;
    out.push_back(text.substr(at, end - at));
    at = end;
  }
  return out;
}

std::string joined_lines(const std::vector<std::string>& lines) {
  std::string out;
  for (const auto& line : lines)
    out += line;
  return out;
}

bool is_header(const std::string& line) { return trimmed(line).substr(0, 1) == "["; }

/// Line (from 0) of every [header] to the path it names; an index stands for an element of [[such]].
using headers = std::map<std::size_t, toml_path>;

void collect(const toml::table& table, const toml_path& path, const std::vector<std::string>& lines, headers& out) {
  if (table.is_inline())
    return;
  auto line = table.source().begin.line;
  if (!path.empty() && line >= 1 && line <= lines.size() && is_header(lines[line - 1]))
    if (auto& known = out[line - 1]; known.size() < path.size())
      known = path;
  for (const auto& [key, value] : table) {
    auto deeper = path;
    deeper.emplace_back(key.str());
    if (const auto* below = value.as_table()) {
      collect(*below, deeper, lines, out);
    } else if (const auto* array = value.as_array()) {
      for (std::size_t i = 0; i < array->size(); ++i)
        if (const auto* element = array->get(i)->as_table()) {
          auto indexed = deeper;
          indexed.push_back(std::to_string(i));
          collect(*element, indexed, lines, out);
        }
    }
  }
}

headers headers_of(const toml::table& root, const std::vector<std::string>& lines) {
  headers out;
  collect(root, {}, lines, out);
  return out;
}

bool is_empty_or_comment(const std::string& line) {
  auto t = trimmed(line);
  return t.empty() || t.front() == '#';
}

/// Behind the last line with content of the table whose header is there.
std::size_t end_of(const headers& all, headers::const_iterator header, const std::vector<std::string>& lines) {
  auto next = std::next(header);
  auto end = next == all.end() ? lines.size() : next->first;
  while (end > header->first + 1 && is_empty_or_comment(lines[end - 1]))
    --end;
  return end;
}

std::string newline_of(const std::string& text) { return text.find("\r\n") == text.npos ? "\n" : "\r\n"; }

std::string header_text(const toml_path& path) {
  std::string out;
  for (const auto& key : path) {
    bool bare =
      !key.empty() && std::all_of(key.begin(), key.end(), [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-'; });
    out += (out.empty() ? "" : ".") + (bare ? key : toml_quoted(key));
  }
  return "[" + out + "]";
}

toml::table with_values(toml::table root, const toml_path& path, const toml_values& values) {
  auto* at = &root;
  for (const auto& key : path) {
    if (!at->contains(key))
      at->insert(key, toml::table{});
    at = at->get(key)->as_table();
    if (!at)
      return root;
  }
  for (const auto& [key, value] : values) {
    auto one = parsed("v = " + value);
    at->insert_or_assign(key, *one.get("v"));
  }
  return root;
}

bool has_values(const toml::table& table, const toml_values& values) {
  return std::all_of(values.begin(), values.end(), [&](const auto& v) {
    auto one = parsed("v = " + v.second);
    toml::table mine;
    if (const auto* now = table.get(v.first))
      mine.insert("v", *now);
    return mine == one;
  });
}

std::string with_lines_in(const std::string& text, const toml::table& table, std::size_t header, const toml_values& values) {
  auto lines = split_lines(text);
  auto end = newline_of(text);
  // From the last line to the first, so that the numbers stay right.
  std::map<std::size_t, std::pair<std::size_t, std::string>, std::greater<>> edits;
  std::string fresh;
  for (const auto& [key, value] : values) {
    const auto* now = table.get(key);
    if (!now) {
      fresh += concat({key, " = ", value, end});
    } else if (toml_values one{{key, value}}; !has_values(table, one)) {
      auto from = now->source().begin.line - 1;
      edits[from] = {now->source().end.line - from, concat({key, " = ", value, end})};
    }
  }
  for (const auto& [from, edit] : edits) {
    lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(from), lines.begin() + static_cast<std::ptrdiff_t>(from + edit.first));
    lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(from), edit.second);
  }
  if (lines[header].back() != '\n')
    lines[header] += end;
  lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(header) + 1, fresh);
  return joined_lines(lines);
}

std::string with_new_table(const std::string& text, const toml_path& path, const toml_values& values, const std::string& comment) {
  auto end = newline_of(text);
  auto out = text;
  if (!out.empty() && out.back() != '\n')
    out += end;
  if (!out.empty() && !trimmed(split_lines(out).back()).empty())
    out += end;
  if (!comment.empty())
    out += comment + end;
  out += header_text(path) + end;
  for (const auto& [key, value] : values)
    out += concat({key, " = ", value, end});
  return out;
}

} // namespace

std::string toml_quoted(const std::string& text) {
  // A JSON string is a TOML basic string but for DEL, which both JSON and paths may hold raw.
  auto out = nlohmann::json(text).dump();
  for (auto at = out.find('\x7f'); at != out.npos; at = out.find('\x7f'))
    out.replace(at, 1, "\\u007f");
  return out;
}

std::string toml_with_table(const std::string& text, const toml_path& path, const toml_values& values, const std::string& comment) {
  auto root = parsed(text);
  const auto* node = node_at(root, path);
  const auto* table = node ? node->as_table() : nullptr;
  if (table && has_values(*table, values))
    return text;
  std::string out;
  auto all = headers_of(root, split_lines(text));
  auto header = std::find_if(all.begin(), all.end(), [&](const auto& h) { return h.second == path; });
  if (header != all.end() && table)
    out = with_lines_in(text, *table, header->first, values);
  else
    out = with_new_table(text, path, values, comment);
  // What was asked for, and nothing else.
  toml::table result;
  try {
    result = parsed(out);
  } catch (const unreadable&) {
  }
  if (result != with_values(root, path, values)) {
    for (auto above = path; !node; above.pop_back())
      node = node_at(root, above);
    throw unreadable(line_of(*node), header_text(path) + " cannot be added to a table that is written this way; write it as a [table] of its own");
  }
  return out;
}

std::string toml_without_table(const std::string& text, const toml_path& path, const std::string& comment) {
  auto root = parsed(text);
  const auto* node = node_at(root, path);
  if (!node)
    return text;
  auto lines = split_lines(text);
  auto all = headers_of(root, lines);
  auto below = [&](const toml_path& p) { return p.size() >= path.size() && std::equal(path.begin(), path.end(), p.begin()); };
  std::vector<std::pair<std::size_t, std::size_t>> regions;
  for (auto i = all.begin(); i != all.end(); ++i)
    if (below(i->second)) {
      auto from = i->first;
      if (from > 0 && !comment.empty() && trimmed(lines[from - 1]) == comment)
        --from;
      if (from > 0 && trimmed(lines[from - 1]).empty())
        --from;
      regions.emplace_back(from, end_of(all, i, lines));
    }
  for (auto i = regions.rbegin(); i != regions.rend(); ++i)
    lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(i->first), lines.begin() + static_cast<std::ptrdiff_t>(i->second));
  auto out = joined_lines(lines);
  auto wanted = root;
  auto* outer = &wanted;
  for (std::size_t i = 0; i + 1 < path.size(); ++i)
    outer = outer->get(path[i])->as_table();
  outer->erase(path.back());
  auto result = parsed(out);
  // Tables that only led there go with it.
  for (auto above = path; above.size() > 1;) {
    above.pop_back();
    const auto* left = node_at(wanted, above);
    if (!left || !left->as_table() || !left->as_table()->empty() || node_at(result, above))
      break;
    auto* holder = &wanted;
    for (std::size_t i = 0; i + 1 < above.size(); ++i)
      holder = holder->get(above[i])->as_table();
    holder->erase(above.back());
  }
  if (result != wanted)
    throw unreadable(line_of(*node), header_text(path) + " cannot be taken out of a table that is written this way");
  return out;
}

bool toml_has(const std::string& text, const toml_path& path) {
  auto root = parsed(text);
  return node_at(root, path) != nullptr;
}

std::optional<std::string> toml_text_at(const std::string& text, const toml_path& path) {
  auto root = parsed(text);
  const auto* node = node_at(root, path);
  return node ? node->value<std::string>() : std::nullopt;
}

} // namespace swarm::cli
