#include "cli/edit/yaml.hpp"

#include <algorithm>
#include <set>

#include "actors/base/limits.hpp"
#include "actors/base/text.hpp"
#include "cli/edit/json.hpp"

namespace swarm::cli {

namespace {

constexpr auto npos = std::string::npos;
constexpr std::string_view merge_key = "<<";

enum class kind { empty, scalar, flow, block, nested, alias };

std::string_view content_of(std::string_view line) {
  while (!line.empty() && (line.back() == '\n' || line.back() == '\r' || line.back() == ' ' || line.back() == '\t'))
    line.remove_suffix(1);
  return line;
}

bool is_comment_at(std::string_view line, std::size_t at) { return line[at] == '#' && (at == 0 || line[at - 1] == ' ' || line[at - 1] == '\t'); }

bool is_dash(std::string_view text) { return text == "-" || text.starts_with("- "); }

/// Behind the quoted text that begins at `at`; npos when it is not closed on this line.
std::size_t behind_quoted(std::string_view line, std::size_t at, char quote) {
  for (; at < line.size(); ++at) {
    auto escaped = quote == '"' && line[at] == '\\';
    auto doubled = line[at] == quote && quote == '\'' && at + 1 < line.size() && line[at + 1] == quote;
    if (escaped || doubled)
      ++at;
    else if (line[at] == quote)
      return at + 1;
  }
  return npos;
}

/// Behind the colon of `key:`, from the beginning of the text; npos when it begins with no key.
std::size_t behind_key(std::string_view text) {
  std::size_t at = 0;
  // Brackets, and keys with a tag, an anchor or in place of one.
  if (text.empty() || std::string_view{"[{!&*"}.find(text[0]) != npos)
    return npos;
  if (text[0] == '"' || text[0] == '\'') {
    at = behind_quoted(text, 1, text[0]);
    if (at == npos)
      return npos;
    at = text.find_first_not_of(' ', at);
    return at != npos && text[at] == ':' && (at + 1 == text.size() || text[at + 1] == ' ') ? at + 1 : npos;
  }
  for (; at < text.size(); ++at) {
    if (text[at] == ':' && (at + 1 == text.size() || text[at + 1] == ' ' || text[at + 1] == '\t'))
      return at + 1;
    if (is_comment_at(text, at))
      return npos;
  }
  return npos;
}

std::string unquoted(std::string_view text) {
  text = trimmed(text);
  if (text.size() < 2 || text.front() != text.back() || (text.front() != '"' && text.front() != '\''))
    return std::string{text};
  if (text.front() == '"') {
    auto value = json::parse(text, nullptr, false);
    return value.is_string() ? value.get<std::string>() : std::string{text.substr(1, text.size() - 2)};
  }
  std::string out{text.substr(1, text.size() - 2)};
  for (auto at = out.find("''"); at != npos; at = out.find("''", at + 1))
    out.erase(at, 1);
  return out;
}

/// Begin and end of each item of `[a, b]`; `text` is what stands between the brackets.
std::vector<std::pair<std::size_t, std::size_t>> flow_items(std::string_view text) {
  std::vector<std::pair<std::size_t, std::size_t>> out;
  std::size_t depth = 0, begin = 0;
  auto take = [&](std::size_t end) {
    auto from = text.find_first_not_of(" \t", begin);
    if (from != npos && from < end) {
      auto to = end;
      while (text[to - 1] == ' ' || text[to - 1] == '\t')
        --to;
      out.emplace_back(from, to);
    }
    begin = end + 1;
  };
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '"' || text[at] == '\'')
      at = std::min(behind_quoted(text, at + 1, text[at]), text.size()) - 1;
    else if (text[at] == '[' || text[at] == '{')
      ++depth;
    else if (text[at] == ']' || text[at] == '}')
      --depth;
    else if (text[at] == ',' && depth == 0)
      take(at);
  }
  take(text.size());
  return out;
}

/// Of an item in a list; npos for what is no number.
std::size_t index_of(const std::string& key) {
  bool number = !key.empty() && key.size() < 9 && key.find_first_not_of("0123456789") == npos;
  return number ? std::stoul(key) : npos;
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> out;
  for (std::size_t at = 0; at < text.size();) {
    auto end = std::min(text.find('\n', at), text.size() - 1) + 1;
    out.push_back(text.substr(at, end - at));
    at = end;
  }
  return out;
}

/// YAML has more ways to end a line than we look for.
bool has_other_break(std::string_view line) {
  for (auto at = line.find('\r'); at != npos; at = line.find('\r', at + 1))
    if (at + 1 == line.size() || line[at + 1] != '\n')
      return true;
  return line.find("\xc2\x85") != npos || line.find("\xe2\x80\xa8") != npos || line.find("\xe2\x80\xa9") != npos;
}

std::vector<std::string> deeper(std::vector<std::string> lines) {
  for (auto& line : lines)
    line.insert(0, "  ");
  return lines;
}

} // namespace

struct yaml_text::entry {
  std::string key;
  bool item = false;
  std::size_t line = 0;
  std::size_t column = 0; // of the key or the dash
  std::size_t end = 0;    // behind its last line with content
  kind what = kind::empty;
  std::size_t value = 0; // where the value stands in the line, for those on one line
  std::size_t value_end = 0;
  bool one_line = false;
  std::vector<entry> children;

  bool is_list() const { return what == kind::nested && !children.empty() && children.front().item; }
};

struct yaml_text::reader {
  const std::vector<std::string>& lines;
  std::size_t at = 0;
  std::size_t from = 0; // the current line begins at this column
  std::size_t last = 0; // line with content that was read last

  std::string_view line() const { return content_of(lines[at]); }
  [[noreturn]] void refuse(const std::string& why) const { throw unreadable(at + 1, why); }

  /// Goes to the next line with content; false at the end.
  bool more() {
    if (from > 0)
      return true;
    for (; at < lines.size(); ++at) {
      auto text = line();
      auto first = text.find_first_not_of(' ');
      if (first == npos || text[first] == '#')
        continue;
      if (text[first] == '\t') {
        if (trimmed(text).empty() || trimmed(text).front() == '#')
          continue;
        refuse("a tab in the indentation");
      }
      return true;
    }
    return false;
  }

  std::size_t column() const { return from > 0 ? from : line().find_first_not_of(' '); }

  void next_line() {
    last = at++;
    from = 0;
  }

  void head() {
    while (more() && line().starts_with('%'))
      ++at;
    if (more() && line() == "---")
      ++at;
  }

  void children(entry& holder, std::size_t column_wanted, std::size_t depth) {
    if (depth > limits::agent_settings_depth_max)
      refuse("this is nested too deeply");
    std::set<std::string> keys;
    while (more()) {
      auto c = column();
      if (c < column_wanted)
        return;
      auto text = line().substr(c);
      if (c == 0 && (text == "---" || text.starts_with("--- ") || text == "..."))
        refuse("several documents in one file");
      if (c > column_wanted)
        refuse("this is indented more than what stands before it");
      if (!holder.children.empty() && holder.children.front().item != is_dash(text)) {
        // A key beside the dashes of the list before it ends that list.
        if (holder.children.front().item)
          return;
        refuse("a dash where a key is expected");
      }
      entry e;
      e.line = at;
      e.column = c;
      if (is_dash(text))
        item(e, text, depth);
      else
        key(e, text, depth);
      e.end = last + 1;
      // Readers differ on which of two wins, and removing that one would bring the other into effect.
      if (!e.item && !keys.insert(e.key).second && e.key != merge_key)
        throw unreadable(e.line + 1, json(e.key).dump() + " is there twice");
      holder.children.push_back(std::move(e));
    }
  }

  void item(entry& e, std::string_view text, std::size_t depth) {
    e.item = true;
    auto begin = text.find_first_not_of(' ', 1);
    if (begin == npos || text[begin] == '#')
      return nested(e, false, depth);
    auto rest = text.substr(begin);
    if (is_dash(rest) || behind_key(rest) != npos) {
      from = e.column + begin;
      e.what = kind::nested;
      return children(e, from, depth + 1);
    }
    value(e, e.column + begin, depth);
  }

  void key(entry& e, std::string_view text, std::size_t depth) {
    auto colon = behind_key(text);
    if (colon == npos || text.starts_with("? "))
      refuse("this is not understood; a key and a colon are expected");
    e.key = unquoted(text.substr(0, colon - 1));
    auto begin = text.find_first_not_of(" \t", colon);
    if (begin == npos || is_comment_at(text, begin))
      return nested(e, true, depth);
    value(e, e.column + begin, depth);
  }

  /// What follows on the lines below.
  void nested(entry& e, bool dashes_beside, std::size_t depth) {
    next_line();
    if (!more())
      return;
    auto c = column();
    bool beside = dashes_beside && c == e.column && is_dash(line().substr(c));
    if (c <= e.column && !beside)
      return;
    if (auto text = line().substr(c); !is_dash(text) && behind_key(text) == npos)
      return value(e, c, depth);
    e.what = kind::nested;
    children(e, c, depth + 1);
  }

  void value(entry& e, std::size_t begin, std::size_t depth) {
    auto text = line();
    while (begin < text.size() && (text[begin] == '&' || text[begin] == '!')) {
      begin = std::min(text.find(' ', begin), text.size());
      begin = std::min(text.find_first_not_of(' ', begin), text.size());
    }
    if (begin == text.size() || is_comment_at(text, begin))
      return nested(e, !e.item, depth);
    e.value = begin;
    switch (text[begin]) {
      case '|':
      case '>': return block(e);
      case '"':
      case '\'': return quoted(e, text[begin]);
      case '[':
      case '{': return flow(e);
      default: return plain(e);
    }
  }

  void block(entry& e) {
    e.what = kind::block;
    next_line();
    for (; at < lines.size(); ++at) {
      auto text = line();
      auto first = text.find_first_not_of(' ');
      if (first == npos)
        continue;
      if (first <= e.column)
        return;
      last = at;
    }
  }

  void end_of_value(entry& e, std::size_t end) {
    auto rest = line().find_first_not_of(" \t", end);
    if (rest != npos && !is_comment_at(line(), rest))
      refuse("this is not understood");
    e.value_end = end;
    e.one_line = e.line == at;
    next_line();
  }

  void quoted(entry& e, char quote) {
    e.what = kind::scalar;
    auto end = behind_quoted(line(), e.value + 1, quote);
    while (end == npos) {
      if (++at == lines.size())
        throw unreadable(e.line + 1, "a quote that is not closed");
      end = behind_quoted(line(), 0, quote);
    }
    end_of_value(e, end);
  }

  void flow(entry& e) {
    e.what = kind::flow;
    std::size_t depth = 0;
    char quote = 0;
    for (auto i = e.value;; ++i) {
      while (i >= line().size()) {
        if (++at == lines.size())
          throw unreadable(e.line + 1, "a bracket that is not closed");
        i = 0;
      }
      auto text = line();
      auto c = text[i];
      if (quote) {
        auto end = behind_quoted(text, i, quote);
        i = end == npos ? text.size() : end - 1;
        quote = end == npos ? quote : 0;
      } else if (c == '"' || c == '\'') {
        quote = c;
      } else if (is_comment_at(text, i)) {
        i = text.size();
      } else if (c == '[' || c == '{') {
        ++depth;
      } else if ((c == ']' || c == '}') && --depth == 0) {
        return end_of_value(e, i + 1);
      }
    }
  }

  void plain(entry& e) {
    auto text = line();
    e.what = text[e.value] == '*' ? kind::alias : kind::scalar;
    auto end = e.value;
    for (auto i = e.value; i < text.size() && !is_comment_at(text, i); ++i)
      if (text[i] != ' ' && text[i] != '\t')
        end = i + 1;
    if (auto colon = behind_key(text.substr(e.value, end - e.value)); colon != npos)
      refuse("a second colon where a value is expected");
    e.value_end = end;
    e.one_line = e.line == at;
    next_line();
    while (more() && column() > e.column) {
      if (behind_key(line().substr(column())) != npos)
        refuse("this is indented more than what stands before it");
      e.one_line = false;
      next_line();
    }
  }
};

std::string yaml_quoted(const std::string& text) { return json(text).dump(); }

yaml_text::yaml_text(std::string text) : text_(std::move(text)), lines_(split(text_)), root_(std::make_shared<entry>()) {
  if (!is_utf8(text_))
    throw unreadable(1, "this is not UTF-8");
  for (std::size_t i = 0; i < lines_.size(); ++i)
    if (has_other_break(lines_[i]))
      throw unreadable(i + 1, "a line break of another kind than \\n and \\r\\n");
  reader in{lines_};
  in.head();
  if (!in.more())
    return;
  root_->what = kind::nested;
  in.children(*root_, in.column(), 0);
  if (in.more())
    in.refuse("this is indented less than what stands before it");
  if (root_->is_list())
    throw unreadable(root_->children.front().line + 1, "a list where keys are expected");
}

const yaml_text::entry* yaml_text::find(const path& where) const {
  const auto* at = root_.get();
  for (const auto& key : where) {
    const entry* next = nullptr;
    if (at->is_list()) {
      auto index = index_of(key);
      next = index < at->children.size() ? &at->children[index] : nullptr;
    } else {
      for (const auto& child : at->children)
        if (child.key == key)
          next = &child;
    }
    if (!next)
      return nullptr;
    at = next;
  }
  return at;
}

bool yaml_text::has(const path& where) const { return find(where) != nullptr; }

std::optional<std::string> yaml_text::scalar(const path& where) const {
  if (const auto* e = find(where)) {
    if (e->what != kind::scalar || !e->one_line)
      return std::nullopt;
    return unquoted(std::string_view{lines_[e->line]}.substr(e->value, e->value_end - e->value));
  }
  // An item of a list in brackets.
  if (where.empty())
    return std::nullopt;
  const auto* list = find(path(where.begin(), where.end() - 1));
  if (!list || list->what != kind::flow || !list->one_line || lines_[list->line][list->value] != '[')
    return std::nullopt;
  auto inside = std::string_view{lines_[list->line]}.substr(list->value + 1, list->value_end - list->value - 2);
  auto items = flow_items(inside);
  auto index = index_of(where.back());
  return index < items.size() ? std::optional{unquoted(inside.substr(items[index].first, items[index].second - items[index].first))} : std::nullopt;
}

std::size_t yaml_text::size(const path& where) const {
  const auto* e = find(where);
  if (!e)
    return 0;
  if (e->is_list())
    return e->children.size();
  if (e->what != kind::flow || !e->one_line || lines_[e->line][e->value] != '[')
    return 0;
  return flow_items(std::string_view{lines_[e->line]}.substr(e->value + 1, e->value_end - e->value - 2)).size();
}

/// `lines` have no ends.
void yaml_text::splice(std::size_t from, std::size_t to, const std::vector<std::string>& lines) {
  auto end = text_.find("\r\n") == npos ? "\n" : "\r\n";
  std::string out;
  for (std::size_t i = 0; i < from; ++i)
    out += lines_[i];
  if (!lines.empty() && !out.empty() && out.back() != '\n')
    out += end;
  for (const auto& line : lines)
    out += line + end;
  for (auto i = to; i < lines_.size(); ++i)
    out += lines_[i];
  try {
    *this = yaml_text{std::move(out)};
  } catch (const unreadable&) { // of what would have become of it
    throw unreadable(std::clamp<std::size_t>(from, 1, std::max<std::size_t>(lines_.size(), 1)), not_editable);
  }
}

void yaml_text::add(const path& holder, std::vector<std::string> lines, bool item) {
  auto above = holder;
  const auto* e = find(above);
  while (!e) {
    auto outer = std::vector<std::string>{above.back() + ":"};
    for (auto& line : deeper(std::move(lines)))
      outer.push_back(std::move(line));
    lines = std::move(outer);
    item = false;
    above.pop_back();
    e = find(above);
  }
  auto placed = [&](std::size_t column) {
    auto out = lines;
    for (auto& line : out)
      line.insert(0, std::string(column, ' '));
    return out;
  };
  if (e == root_.get())
    return splice(lines_.size(), lines_.size(), placed(e->children.empty() ? 0 : e->children.front().column));
  auto what = json(above.back()).dump();
  auto refuse = [&](const char* why) { throw unreadable(e->line + 1, what + why); };
  if (e->what == kind::nested) {
    if (e->is_list() != item)
      refuse(item ? " is not a list" : " is a list");
    return splice(e->children.back().end, e->children.back().end, placed(e->children.front().column));
  }
  if (e->what == kind::empty)
    return splice(e->line + 1, e->line + 1, placed(e->column + 2));
  if (!e->one_line)
    refuse(" is written over several lines in brackets; write it as a block");
  auto line = std::string{content_of(lines_[e->line])};
  auto value = line.substr(e->value, e->value_end - e->value);
  bool list = e->what == kind::flow && value.front() == '[';
  if (list && item && lines.size() == 1) {
    auto inside = value.substr(1, value.size() - 2);
    auto items = flow_items(inside);
    auto place = items.empty() ? e->value + 1 : e->value + 1 + items.back().second;
    line.insert(place, (items.empty() ? "" : ", ") + lines[0].substr(2));
    return splice(e->line, e->line + 1, {line});
  }
  auto inner = value.size() < 2 ? std::string_view{} : trimmed(std::string_view{value}.substr(1, value.size() - 2));
  bool nothing = (e->what == kind::flow && inner.empty() && list == item) || (e->what == kind::scalar && (value == "null" || value == "~"));
  if (!nothing)
    refuse(e->what == kind::alias ? " is taken from elsewhere in the file; write it out" : " is written in brackets; write it as a block");
  auto rest = line.substr(e->value_end);
  auto first = line.substr(0, e->value);
  first.resize(content_of(first).size());
  auto out = placed(e->column + 2);
  out.insert(out.begin(), first + rest);
  splice(e->line, e->line + 1, out);
}

void yaml_text::add_key(const path& mapping, const std::string& key, const std::vector<std::string>& lines) {
  std::vector<std::string> out{key + ":"};
  for (auto& line : deeper(lines))
    out.push_back(std::move(line));
  add(mapping, std::move(out), false);
}

void yaml_text::add_item(const path& list, const std::vector<std::string>& lines) {
  auto out = deeper(lines);
  out.front()[0] = '-';
  add(list, std::move(out), true);
}

void yaml_text::replace(const path& where, const std::vector<std::string>& lines) {
  const auto* e = find(where);
  if (!e)
    return;
  auto out = deeper(lines);
  if (e->item)
    out.front()[0] = '-';
  else
    out.insert(out.begin(), json(e->key).dump() + ":");
  if (!e->item && e->key.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_") == npos)
    out.front() = e->key + ":";
  for (auto& line : out)
    line.insert(0, std::string(e->column, ' '));
  splice(e->line, e->end, out);
}

void yaml_text::set_scalar(const path& where, const std::string& text) {
  const auto* e = find(where);
  if (!e || e->what != kind::scalar || !e->one_line)
    throw unreadable(e ? e->line + 1 : 1, not_editable);
  auto line = std::string{content_of(lines_[e->line])};
  line.replace(e->value, e->value_end - e->value, text);
  splice(e->line, e->line + 1, {line});
}

void yaml_text::erase(const path& where) {
  if (where.empty())
    return;
  auto above = path(where.begin(), where.end() - 1);
  const auto* holder = find(above);
  if (!holder)
    return;
  if (holder->what == kind::flow && holder->one_line) {
    auto line = std::string{content_of(lines_[holder->line])};
    auto begin = holder->value + 1;
    auto items = flow_items(std::string_view{line}.substr(begin, holder->value_end - begin - 1));
    auto index = index_of(where.back());
    if (index >= items.size())
      return;
    auto from = index == 0 ? items[0].first : items[index - 1].second;
    auto to = index == 0 && items.size() > 1 ? items[1].first : items[index].second;
    line.erase(begin + from, to - from);
    return splice(holder->line, holder->line + 1, {line});
  }
  const auto* e = find(where);
  if (!e)
    return;
  if (holder != root_.get() && holder->children.size() == 1)
    return erase(above);
  if (e->line == holder->line && holder != root_.get())
    throw unreadable(e->line + 1, "this stands behind a dash; take it out by hand");
  // What was a comment below it must not become part of a text above it.
  std::vector<std::string> comments;
  auto to = e->end;
  for (auto i = to; follows_block(*root_, e->line) && i < lines_.size(); ++i) {
    auto text = content_of(lines_[i]);
    auto first = text.find_first_not_of(" \t");
    if (first != npos && (text[first] != '#' || first <= e->column))
      break;
    comments.push_back(first == npos ? std::string{} : std::string(e->column, ' ') + std::string{text.substr(first)});
    to = i + 1;
  }
  splice(e->line, to, comments);
}

/// The last line with content before that one is of a text with | or >.
bool yaml_text::follows_block(const entry& e, std::size_t line) const {
  while (line > 0 && content_of(lines_[line - 1]).empty())
    --line;
  return (e.what == kind::block && e.line < line && e.end == line) ||
         std::any_of(e.children.begin(), e.children.end(), [&](const entry& child) { return follows_block(child, line); });
}

} // namespace swarm::cli
