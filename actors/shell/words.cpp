#include "actors/shell/words.hpp"

#include "actors/base/limits.hpp"
#include "actors/base/text.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace swarm::shell {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view special = "\\*?[]{},";

bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_name_char(char c) { return is_name_start(c) || (c >= '0' && c <= '9'); }

} // namespace

void add_quoted(std::string& pattern, char c) {
  if (special.find(c) != special.npos)
    pattern += '\\';
  pattern += c;
}

std::string plain(std::string_view pattern) {
  std::string out;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] == '\\' && i + 1 < pattern.size())
      ++i;
    out += pattern[i];
  }
  return out;
}

bool is_pattern(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\')
      ++i;
    else if (text[i] == '*' || text[i] == '?' || text[i] == '[')
      return true;
  }
  return false;
}

void expand_braces(const std::string& text, std::vector<std::string>& out) {
  // One more than are looked at, so that it shows.
  if (out.size() > limits::hook_paths_max)
    return;
  std::vector<std::size_t> cuts; // the opening brace, the commas of its level, the closing one
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\') {
      ++i;
    } else if (text[i] == '{') {
      if (depth++ == 0)
        cuts = {i};
    } else if (text[i] == ',' && depth == 1) {
      cuts.push_back(i);
    } else if (text[i] == '}' && depth > 0 && --depth == 0) {
      cuts.push_back(i);
      if (cuts.size() > 2)
        break;
      cuts.clear();
    }
  }
  if (depth != 0 || cuts.size() < 3) {
    out.push_back(text);
    return;
  }
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i)
    expand_braces(text.substr(0, cuts.front()) + text.substr(cuts[i] + 1, cuts[i + 1] - cuts[i] - 1) + text.substr(cuts.back() + 1), out);
}

bool is_assignment(const word& w) {
  auto equals = w.pattern.find('=');
  if (equals == w.pattern.npos || equals == 0 || !is_name_start(w.pattern[0]))
    return false;
  auto name = std::string_view{w.pattern}.substr(0, equals);
  return std::all_of(name.begin(), name.end(), is_name_char);
}

arguments read_arguments(word_list words, std::size_t from, const option_form& form) {
  arguments out;
  for (auto i = from; i < words.size(); ++i) {
    auto text = plain(words[i].pattern);
    if (out.dashes || text.size() < 2 || text.front() != '-' || !words[i].known) {
      out.operands.push_back(words[i]);
    } else if (text == "--") {
      out.dashes = true;
      out.after_dashes = out.operands.size();
    } else if (text[1] == '-') {
      auto equals = text.find('=');
      auto name = text.substr(0, equals);
      word value;
      if (equals != text.npos)
        value.pattern = words[i].pattern.substr(words[i].pattern.find('=') + 1);
      else if (std::find(form.long_with_value.begin(), form.long_with_value.end(), name) != form.long_with_value.end() && i + 1 < words.size())
        value = words[++i];
      out.options.emplace_back(name, value);
    } else {
      for (std::size_t k = 1; k < text.size(); ++k) {
        word value;
        auto name = std::string{"-"} + text[k];
        bool takes = form.with_value.find(text[k]) != form.with_value.npos;
        if (takes && k + 1 == text.size() && i + 1 < words.size())
          value = words[++i];
        else if (takes || form.attached.find(text[k]) != form.attached.npos)
          for (auto c : text.substr(k + 1))
            add_quoted(value.pattern, c);
        else {
          out.options.emplace_back(name, word{});
          continue;
        }
        out.options.emplace_back(name, value);
        break;
      }
    }
  }
  return out;
}

std::string read_patch(const std::string& file) {
  std::error_code ec;
  if (!fs::is_regular_file(file, ec) || fs::file_size(file, ec) > limits::hook_patch_bytes_max || ec)
    return {};
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<std::string> paths_in_diff(std::string_view diff, int strip) {
  std::vector<std::string> out;
  auto take = [&](std::string_view name) {
    name = name.substr(0, name.find('\t'));
    name = trimmed(name);
    if (name.empty() || name == "/dev/null" || name.front() == '"')
      return;
    if (strip < 0)
      name = name.substr(name.rfind('/') + 1);
    for (int i = 0; i < strip; ++i) {
      auto slash = name.find('/');
      if (slash == name.npos)
        return;
      name.remove_prefix(slash + 1);
    }
    out.emplace_back(name);
  };
  for (std::size_t at = 0; at < diff.size();) {
    auto end = std::min(diff.find('\n', at), diff.size());
    auto line = diff.substr(at, end - at);
    at = end + 1;
    if (line.starts_with("--- ") || line.starts_with("+++ "))
      take(line.substr(4));
    else if (line.starts_with("rename from ") || line.starts_with("rename to "))
      out.emplace_back(trimmed(line.substr(line.find(' ', 7) + 1)));
  }
  return out;
}

} // namespace swarm::shell
