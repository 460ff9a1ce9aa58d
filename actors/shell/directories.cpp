// Where the commands of a script run: cd, pushd and popd, the lists and subshells around them, and programs that start another one elsewhere.
#include "actors/shell/parser.hpp"

#include "actors/base/limits.hpp"
#include "actors/base/paths.hpp"

#include <algorithm>
#include <filesystem>
#include <utility>

#include <unistd.h>

namespace swarm::shell {

namespace {

namespace fs = std::filesystem;

// A script is followed into as many directories as into shells within shells.
constexpr auto directories_max = static_cast<std::size_t>(limits::hook_script_depth_max);

void unite(directories& to, const directories& more) {
  for (const auto& d : more)
    if (std::find(to.begin(), to.end(), d) == to.end())
      to.push_back(d);
  // The first is where every `cd` succeeded, the last where none did.
  while (to.size() > directories_max)
    to.erase(to.begin() + 1);
}

bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

/// As an argument on a command line.
std::string quoted(const word& w) {
  if (!w.known)
    return "$_";
  std::string out = "'";
  for (auto c : plain(w.pattern))
    out += c == '\'' ? std::string{"'\\''"} : std::string(1, c);
  return out + "'";
}

bool is_shell_option(std::string_view text) {
  return text.size() > 1 && (text[0] == '-' || text[0] == '+') &&
         (text.starts_with("--") || std::all_of(text.begin() + 1, text.end(), is_name_start));
}

struct wrapper {
  std::string_view name;
  std::string_view with_value;
  std::size_t operands; // before the program
  std::vector<std::string_view> long_with_value = {};
};

const wrapper* find_wrapper(const std::string& name) {
  static const wrapper known[] = {
    {"sudo",
     "ughpCDRTUrt",
     0,
     {"--user", "--group", "--host", "--chdir", "--prompt", "--chroot", "--close-from", "--role", "--type", "--other-user", "--command-timeout"}},
    {"doas", "uC", 0},
    {"env", "uCSa", 0, {"--unset", "--chdir", "--split-string", "--argv0"}},
    {"nice", "n", 0, {"--adjustment"}},
    {"ionice", "cnp", 0},
    {"timeout", "ks", 1, {"--kill-after", "--signal"}},
    {"stdbuf", "ioe", 0},
    {"exec", "a", 0},
    {"nohup", "", 0},
    {"command", "", 0},
    {"builtin", "", 0},
    {"setsid", "", 0},
    {"time", "of", 0},
    {"busybox", "", 0},
  };
  auto w = std::find_if(std::begin(known), std::end(known), [&](const auto& k) { return k.name == name; });
  return w == std::end(known) ? nullptr : w;
}

} // namespace

// -- lists and subshells ------------------------------------------------------------------------

void script::begin_list() {
  list_ = {at_, at_, connector::end, {}, {}};
  attempt_ = std::nullopt;
}

void script::end_command(connector c) {
  bool goes_on = list_.last == connector::pipe || list_.last == connector::both || list_.last == connector::either;
  if (c == connector::newline && goes_on && command_.words.empty())
    return finish();
  attempt_ = std::nullopt;
  finish();
  if (c == connector::pipe || list_.last == connector::pipe) {
    // Each program of a pipeline changes its own directory; the last one that of the script, in some shells.
    auto inner = std::exchange(at_, list_.pipeline_start);
    if (c != connector::pipe)
      unite(at_.here, inner.here);
    attempt_ = std::nullopt;
  }
  if (c == connector::background)
    at_ = list_.start;
  if (c != connector::pipe && c != connector::both && c != connector::either) {
    if (c != connector::background) {
      unite(at_.here, list_.passed);
      unite(at_.here, list_.failed);
    }
    return begin_list();
  }
  if (c == connector::both) {
    if (attempt_) {
      at_.here = attempt_->passed;
      unite(list_.failed, attempt_->failed);
    }
    unite(at_.here, std::exchange(list_.passed, {}));
  } else if (c == connector::either) {
    if (attempt_) {
      unite(list_.passed, attempt_->passed);
      at_.here = attempt_->failed;
    } else {
      unite(list_.passed, at_.here);
    }
    unite(at_.here, std::exchange(list_.failed, {}));
  }
  if (c != connector::pipe)
    list_.pipeline_start = at_;
  list_.last = c;
}

void script::begin_subshell() {
  finish();
  if (outer_.size() < limits::hook_script_words_max)
    outer_.emplace_back(at_, list_);
  begin_list();
}

void script::end_subshell() {
  end_command(connector::end);
  if (outer_.empty())
    return;
  std::tie(at_, list_) = std::move(outer_.back());
  outer_.pop_back();
}

// -- cd, pushd, popd ----------------------------------------------------------------------------

bool script::is_there(const std::string& directory) const {
  std::error_code ec;
  auto is_made = [&](const std::string& made) { return is_inside(directory, made) || made == directory; };
  return (fs::is_directory(directory, ec) && access(directory.c_str(), X_OK) == 0) || std::any_of(made_.begin(), made_.end(), is_made);
}

/// Of each directory that the script may be in.
directories script::resolved(const word& target) {
  directories out;
  if (target.known && !is_pattern(target.pattern))
    in_each_directory([&] {
      if (auto full = absolute(plain(target.pattern)))
        unite(out, {*full});
    });
  return out;
}

void script::go(directories to, bool may_fail) {
  auto from = std::exchange(at_.here, to);
  // Of very many only the last directory is kept.
  if (++moves_ > limits::hook_paths_max && !at_.here.empty())
    at_.here.resize(1), to = at_.here;
  if (!may_fail || moves_ > limits::hook_paths_max)
    from.clear();
  attempt_ = attempt{std::move(to), from};
  unite(at_.here, from);
}

void script::change_directory(word_list words) {
  auto args = read_arguments(words, 1, {});
  auto from = at_.here;
  if (args.operands.empty()) {
    go(start_.home.empty() ? directories{} : directories{start_.home}, false);
  } else if (plain(args.operands.front().pattern) == "-" && args.operands.front().known) {
    go(at_.before, false);
  } else {
    auto to = resolved(args.operands.front());
    go(to, !std::all_of(to.begin(), to.end(), [&](const auto& d) { return is_there(d); }));
    if (!attempt_->failed.empty())
      unite(from, at_.before); // it may be as it was
  }
  at_.before = std::move(from);
}

void script::push_directory(word_list words) {
  auto args = read_arguments(words, 1, {});
  if (args.has({"-n"}))
    return;
  auto from = at_.here;
  if (!args.operands.empty() && !plain(args.operands.front().pattern).starts_with('+')) {
    change_directory(words);
  } else if (args.operands.empty() && !at_.pushed.empty()) {
    go(std::move(at_.pushed.back()), false);
    at_.pushed.pop_back();
    at_.before = from;
  } else {
    go({}, false);
  }
  at_.pushed.push_back(std::move(from));
  if (at_.pushed.size() > directories_max)
    at_.pushed.erase(at_.pushed.begin());
}

void script::pop_directory(word_list words) {
  if (words.size() > 1)
    return go({}, false); // another one than the last
  if (at_.pushed.empty())
    return; // it fails
  at_.before = at_.here;
  go(std::move(at_.pushed.back()), false);
  at_.pushed.pop_back();
}

// -- programs that start another one ------------------------------------------------------------

/// True when the option's value is the command line.
bool script::take_wrapper_option(const std::string& name, const std::string& option, const word& value, word_list rest) {
  if ((name == "env" && option == "-C") || (name == "sudo" && option == "-D") || ((name == "env" || name == "sudo") && option == "--chdir")) {
    at_.here = resolved(value);
  } else if (name == "env" && (option == "-S" || option == "--split-string")) {
    auto line = value.known ? "env " + plain(value.pattern) : std::string{};
    for (const auto& w : rest)
      line += " " + quoted(w);
    nested(line);
    return true;
  }
  return false;
}

/// Programs that run the rest of their line; where that begins, or 0.
std::size_t script::skip_wrapper(const std::string& name, word_list words) {
  const auto* w = find_wrapper(name);
  if (!w)
    return 0;
  auto left = w->operands;
  for (std::size_t i = 1; i < words.size(); ++i) {
    auto text = plain(words[i].pattern);
    if (text == "--")
      return i + 1 + left;
    if (text.size() > 1 && text[0] == '-') {
      auto equals = text[1] == '-' ? text.find('=') : text.npos;
      auto option = text.substr(0, equals);
      auto value = text.npos; // where it begins in the word
      bool takes = equals != text.npos;
      if (takes) {
        value = equals + 1;
      } else if (text[1] == '-') {
        takes = std::find(w->long_with_value.begin(), w->long_with_value.end(), text) != w->long_with_value.end();
      } else if (auto letter = text.find_first_of(w->with_value, 1); letter != text.npos) {
        takes = true;
        option = std::string{"-"} + text[letter];
        value = letter + 1 < text.size() ? letter + 1 : text.npos;
      }
      if (!takes)
        continue;
      word given{{}, words[i].known, true};
      if (value == text.npos)
        given = ++i < words.size() ? words[i] : word{{}, false, false};
      else
        for (auto c : text.substr(value))
          add_quoted(given.pattern, c);
      if (take_wrapper_option(name, option, given, words.subspan(std::min(i + 1, words.size()))))
        return words.size();
    } else if (name == "env" && text == "-") {
      continue;
    } else if (text.find('=') != text.npos && is_name_start(text[0]) && (name == "env" || name == "sudo")) {
      continue;
    } else if (left > 0) {
      --left;
    } else {
      return i;
    }
  }
  return words.size();
}

/// The text behind -c is the first word that is no option.
void script::shell(word_list words) {
  bool has_text = false, has_input = false, options = true;
  for (std::size_t i = 1; i < words.size(); ++i) {
    auto text = plain(words[i].pattern);
    if (options && (text == "--" || text == "-")) {
      options = false;
    } else if (options && text.starts_with("--") && is_shell_option(text)) {
      i += text == "--rcfile" || text == "--init-file";
    } else if (options && is_shell_option(text)) {
      auto letters = text.substr(1);
      has_text = has_text || (text[0] == '-' && letters.find('c') != letters.npos);
      has_input = has_input || (text[0] == '-' && letters.find('s') != letters.npos);
      i += static_cast<std::size_t>(std::count_if(letters.begin(), letters.end(), [](char c) { return c == 'o' || c == 'O'; }));
    } else if (has_text) {
      if (words[i].known)
        nested(plain(words[i].pattern));
      return;
    } else if (!has_input) {
      return; // a script's file
    } else {
      break;
    }
  }
  if (!has_text && command_.has_input && command_.input_file.empty())
    nested(command_.input);
}

} // namespace swarm::shell
