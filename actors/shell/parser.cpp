#include "actors/shell/parser.hpp"

#include "actors/base/limits.hpp"

#include <algorithm>
#include <utility>

namespace swarm::shell {

namespace {

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }
bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_char(char c) { return is_name_start(c) || is_digit(c); }

} // namespace

// -- reading ------------------------------------------------------------------------------------

void script::skip_blanks() {
  for (;;) {
    while (is_blank(now()) && !done())
      ++pos_;
    if (now() == '\\' && at(pos_ + 1) == '\n')
      pos_ += 2;
    else
      return;
  }
}

void script::read_single_quotes(word& w) {
  w.quoted = true;
  for (++pos_; !done() && now() != '\''; ++pos_)
    add_quoted(w.pattern, now());
  ++pos_;
}

void script::read_ansi_quotes(word& w) {
  w.quoted = true;
  for (++pos_; !done() && now() != '\''; ++pos_) {
    if (now() != '\\') {
      add_quoted(w.pattern, now());
      continue;
    }
    ++pos_;
    if (now() == '\'' || now() == '"' || now() == '\\')
      add_quoted(w.pattern, now());
    else
      w.known = false;
  }
  ++pos_;
}

void script::read_double_quotes(word& w) {
  w.quoted = true;
  for (++pos_; !done() && now() != '"';) {
    auto c = now();
    if (c == '\\' && (at(pos_ + 1) == '"' || at(pos_ + 1) == '\\' || at(pos_ + 1) == '$' || at(pos_ + 1) == '`')) {
      add_quoted(w.pattern, at(pos_ + 1));
      pos_ += 2;
    } else if (c == '\\' && at(pos_ + 1) == '\n') {
      pos_ += 2;
    } else if (c == '$') {
      read_dollar(w, true);
    } else if (c == '`') {
      w.known = false;
      nested(read_backquoted());
    } else {
      add_quoted(w.pattern, c);
      ++pos_;
    }
  }
  ++pos_;
}

/// From behind `<<`: the delimiter, and whether tabs go before it; `pos` stands behind it then.
std::string here_delimiter(std::string_view text, std::size_t& pos, bool& tabs) {
  tabs = pos < text.size() && text[pos] == '-';
  pos += tabs;
  while (pos < text.size() && is_blank(text[pos]))
    ++pos;
  std::string out;
  for (char quote = 0; pos < text.size(); ++pos) {
    auto c = text[pos];
    if (quote != 0 ? c == quote : c == '\'' || c == '"')
      quote = quote != 0 ? '\0' : c;
    else if (c == '\\' && quote == 0)
      continue;
    else if (quote == 0 && std::string_view{" \t\r\n;&|()<>"}.find(c) != std::string_view::npos)
      break;
    else
      out += c;
  }
  return out;
}

/// The text of a here-document that begins at `pos`, which stands behind its end then.
std::string here_text(std::string_view text, std::size_t& pos, const std::string& delimiter, bool tabs) {
  std::string body;
  while (pos < text.size()) {
    auto end = std::min(text.find('\n', pos), text.size());
    auto line = text.substr(pos, end - pos);
    pos = std::min(end + 1, text.size());
    if (tabs)
      line.remove_prefix(std::min(line.find_first_not_of('\t'), line.size()));
    if (line == delimiter)
      break;
    body += line;
    body += '\n';
  }
  return body;
}

/// From an opening parenthesis to behind its closing one; what lies between.
std::string_view script::read_parenthesised() {
  auto start = ++pos_;
  int open = 1;
  std::vector<std::pair<std::string, bool>> documents; // that begin after this line
  for (; !done(); ++pos_) {
    auto c = now();
    if (c == '\\') {
      ++pos_;
    } else if (c == '\'') {
      auto end = text_.find('\'', pos_ + 1);
      pos_ = end == text_.npos ? text_.size() : end;
    } else if (c == '"') {
      for (++pos_; !done() && now() != '"'; ++pos_)
        if (now() == '\\')
          ++pos_;
    } else if (c == '<' && at(pos_ + 1) == '<' && at(pos_ + 2) == '<') {
      pos_ += 2;
    } else if (c == '<' && at(pos_ + 1) == '<') {
      pos_ += 2;
      bool tabs = false;
      auto delimiter = here_delimiter(text_, pos_, tabs);
      documents.emplace_back(std::move(delimiter), tabs);
      --pos_;
    } else if (c == '\n' && !documents.empty()) {
      ++pos_;
      for (const auto& [delimiter, tabs] : documents)
        here_text(text_, pos_, delimiter, tabs);
      documents.clear();
      --pos_;
    } else if (c == '(') {
      ++open;
    } else if (c == ')' && --open == 0) {
      break;
    }
  }
  pos_ = std::min(pos_, text_.size());
  auto inner = text_.substr(start, pos_ - start);
  ++pos_;
  return inner;
}

std::string_view script::read_backquoted() {
  auto start = ++pos_;
  while (!done() && now() != '`')
    pos_ += now() == '\\' ? 2 : 1;
  pos_ = std::min(pos_, text_.size());
  auto inner = text_.substr(start, pos_ - start);
  ++pos_;
  return inner;
}

void script::read_dollar(word& w, bool quoted) {
  ++pos_;
  if (now() == '(') {
    w.known = false;
    bool arithmetic = at(pos_ + 1) == '(';
    auto inner = read_parenthesised();
    if (!arithmetic)
      nested(inner);
    return;
  }
  if (!quoted && now() == '\'')
    return read_ansi_quotes(w);
  if (!quoted && now() == '"')
    return read_double_quotes(w);
  bool braces = now() == '{';
  auto start = pos_ + (braces ? 1 : 0);
  auto end = start;
  while (is_name_char(at(end)))
    ++end;
  auto name = std::string{text_.substr(start, end - start)};
  if (braces) {
    bool simple = at(end) == '}';
    int open = 1;
    for (++pos_; !done() && open > 0; ++pos_)
      open += now() == '{' ? 1 : now() == '}' ? -1 : 0;
    if (!simple)
      name.clear();
  } else if (name.empty()) {
    if (std::string_view{"?!#$*@-"}.find(now()) == std::string_view::npos || done()) {
      w.pattern += '$';
      return;
    }
    ++pos_;
  } else {
    pos_ = end;
  }
  auto known = variables_.find(name);
  std::optional<std::string> value;
  if (known != variables_.end()) {
    value = known->second;
  } else if (name == "HOME" && !start_.home.empty()) {
    value = start_.home;
  } else if (name == "PWD" || name == "OLDPWD") {
    // Of several it is rather the last one: where the script is without the `cd` that may fail.
    if (const auto& all = name == "PWD" ? at_.here : at_.before; !all.empty())
      value = all.back();
  } else if (auto given = start_.variables.find(name); given != start_.variables.end()) {
    value = given->second;
  }
  // A few bytes of a script can double a value as often as they like.
  expanded_ += value ? value->size() : 0;
  if (!value || name.empty() || expanded_ > limits::hook_script_bytes_max) {
    w.known = false;
    return;
  }
  if (known != variables_.end())
    w.pattern += *value;
  else
    for (auto c : *value)
      add_quoted(w.pattern, c);
}

word script::read_word() {
  word w;
  if (now() == '~' && (at(pos_ + 1) == '/' || is_blank(at(pos_ + 1)) || at(pos_ + 1) == '\n' || at(pos_ + 1) == ';' || pos_ + 1 >= text_.size())) {
    ++pos_;
    if (start_.home.empty())
      w.known = false;
    for (auto c : start_.home)
      add_quoted(w.pattern, c);
  } else if (now() == '~') {
    w.known = false;
  }
  while (!done()) {
    auto c = now();
    if (is_blank(c) || c == '\n' || c == ';' || c == '&' || c == '|' || c == '(' || c == ')' || c == '<' || c == '>')
      break;
    if (c == '\'') {
      read_single_quotes(w);
    } else if (c == '"') {
      read_double_quotes(w);
    } else if (c == '$') {
      read_dollar(w, false);
    } else if (c == '`') {
      w.known = false;
      nested(read_backquoted());
    } else if (c == '\\') {
      if (at(pos_ + 1) != '\n') {
        w.quoted = true;
        if (pos_ + 1 < text_.size())
          add_quoted(w.pattern, at(pos_ + 1));
      }
      pos_ += 2;
    } else {
      w.pattern += c;
      ++pos_;
    }
  }
  pos_ = std::min(pos_, text_.size());
  return w;
}

/// Behind `<<` or `<<-`: the text begins after the line this stands in, or behind the one before it.
void script::read_here_document() {
  bool tabs = false;
  auto delimiter = here_delimiter(text_, pos_, tabs);
  auto start = line_resume_;
  if (start == 0) {
    for (start = pos_; start < text_.size() && text_[start] != '\n'; ++start) {
      if (text_[start] == '\\') {
        ++start;
      } else if (text_[start] == '\'' || text_[start] == '"') {
        auto end = text_.find(text_[start], start + 1);
        if (end == text_.npos)
          break;
        start = end;
      }
    }
    start = std::min(start + 1, text_.size());
  }
  command_.input = here_text(text_, start, delimiter, tabs);
  line_resume_ = std::max<std::size_t>(start, 1);
  command_.has_input = true;
}

/// At < or >, behind the number of a descriptor.
void script::read_redirection(bool both) {
  if (now() == '<') {
    ++pos_;
    if (now() == '<' && at(pos_ + 1) == '<') {
      pos_ += 2;
      skip_blanks();
      read_word();
    } else if (now() == '<') {
      ++pos_;
      read_here_document();
    } else if (now() == '(') {
      nested(read_parenthesised());
    } else if (now() == '&') {
      ++pos_;
      read_word();
    } else {
      bool writes = now() == '>';
      pos_ += writes;
      skip_blanks();
      auto file = read_word();
      in_each_directory([&] {
        if (writes)
          add(file);
        else if (auto path = file.known ? absolute(plain(file.pattern)) : std::nullopt)
          command_.input_file = *path, command_.has_input = true;
      });
    }
    return;
  }
  ++pos_;
  if (now() == '(') {
    nested(read_parenthesised());
    return;
  }
  bool duplicate = now() == '&' && !both;
  if (now() == '>' || now() == '|' || duplicate)
    ++pos_;
  skip_blanks();
  auto file = read_word();
  auto text = plain(file.pattern);
  bool descriptor = duplicate && (text == "-" || (!text.empty() && text.find_first_not_of("0123456789-") == text.npos));
  if (!text.empty() && !descriptor)
    in_each_directory([&] { add(file); });
}

/// True when an operator stood here, which then is behind us.
bool script::read_operator() {
  auto c = now();
  if (c == '\n') {
    ++pos_;
    if (line_resume_ != 0)
      pos_ = std::exchange(line_resume_, 0);
    in_test_ = false;
    end_command(connector::newline);
    return true;
  }
  if (in_test_ && (c == '<' || c == '>' || c == '&' || c == '|' || c == '(' || c == ')' || c == ';')) {
    ++pos_;
    return true;
  }
  if (c == '&' && at(pos_ + 1) == '>') {
    ++pos_;
    read_redirection(true);
    return true;
  }
  if (c == '<' || c == '>') {
    read_redirection(false);
    return true;
  }
  if (c == ';' || c == '&' || c == '|') {
    ++pos_;
    bool twice = now() == c && c != ';';
    pos_ += twice || (c == '|' && now() == '&');
    end_command(c == ';'   ? connector::end
                : c == '&' ? (twice ? connector::both : connector::background)
                : twice    ? connector::either
                           : connector::pipe);
    return true;
  }
  if (c == '(') {
    if (command_.words.empty() && at(pos_ + 1) == '(') {
      read_parenthesised(); // ((arithmetic))
      return true;
    }
    if (!command_.words.empty() && command_.words.back().pattern.ends_with('=')) {
      command_.words.back().known = false; // an array
      read_parenthesised();
      return true;
    }
    ++pos_;
    begin_subshell();
    return true;
  }
  if (c == ')') {
    ++pos_;
    end_subshell();
    return true;
  }
  return false;
}

void script::run() {
  while (!done() && out_.size() <= limits::hook_paths_max) {
    skip_blanks();
    if (done())
      break;
    if (now() == '#') {
      while (!done() && now() != '\n')
        ++pos_;
      continue;
    }
    // The number of a descriptor belongs to the redirection.
    auto digits = pos_;
    while (is_digit(at(digits)))
      ++digits;
    if (digits > pos_ && !in_test_ && (at(digits) == '<' || at(digits) == '>'))
      pos_ = digits;
    if (read_operator())
      continue;
    auto before = pos_;
    auto w = read_word();
    if (pos_ == before)
      ++pos_; // nothing that could stand here; go on
    if (!w.quoted && w.pattern == (in_test_ ? "]]" : "[["))
      in_test_ = !in_test_;
    if (command_.words.size() < limits::hook_script_words_max)
      command_.words.push_back(std::move(w));
  }
  finish();
}

} // namespace swarm::shell
