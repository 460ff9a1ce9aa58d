// Words of a shell command, and what programs make of them: options and operands.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace swarm::shell {

/// A word as a pattern: a special character that was quoted has a backslash before it.
struct word {
  std::string pattern;
  bool known = true;   // nothing in it that only a shell knows
  bool quoted = false; // some part of it
};
using word_list = std::span<const word>;

void add_quoted(std::string& pattern, char c);
/// Without the backslashes.
std::string plain(std::string_view pattern);
bool is_pattern(std::string_view text);
/// The words that {a,b} stands for, 64 at most; one without such a group stands for itself.
void expand_braces(const std::string& text, std::vector<std::string>& out);
/// NAME=value
bool is_assignment(const word&);

/// Options and operands of a program in the usual form.
struct arguments {
  std::vector<std::pair<std::string, word>> options; // "-t" or "--target-directory" with its value, if it has one
  std::vector<word> operands;
  bool dashes = false; // there was a `--`
  std::size_t after_dashes = 0;

  bool has(std::initializer_list<std::string_view> names) const {
    return std::any_of(options.begin(), options.end(), [&](const auto& o) { return std::find(names.begin(), names.end(), o.first) != names.end(); });
  }
  const word* value(std::initializer_list<std::string_view> names) const {
    for (const auto& o : options)
      if (std::find(names.begin(), names.end(), o.first) != names.end())
        return &o.second;
    return nullptr;
  }
};

/// `with_value`: letters of short options that take one, `long_with_value`: long ones that may have theirs in the next word, `attached`:
/// letters whose value, if any, is the rest of the word.
struct option_form {
  std::string_view with_value = "";
  std::vector<std::string_view> long_with_value = {};
  std::string_view attached = "";
};

arguments read_arguments(word_list words, std::size_t from, const option_form&);

/// Names of a unified diff without their first `strip` directories; of a negative number only the last part is left.
std::vector<std::string> paths_in_diff(std::string_view diff, int strip);
/// Text of a file that may be a patch; empty when it is not a patch or too long.
std::string read_patch(const std::string& file);

} // namespace swarm::shell
