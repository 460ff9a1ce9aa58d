#include "actors/shell/writes.hpp"

#include "actors/base/limits.hpp"
#include "actors/base/paths.hpp"
#include "actors/base/text.hpp"
#include "actors/shell/parser.hpp"

#include <algorithm>
#include <filesystem>
#include <utility>

namespace swarm::shell {

namespace {

namespace fs = std::filesystem;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

} // namespace

std::optional<std::string> script::absolute(const std::string& path) const {
  if (path.empty() || path.size() > limits::path_bytes_max() || path.find('\0') != path.npos)
    return std::nullopt;
  if (path.front() != '/' && !directory_)
    return std::nullopt;
  return normalize_path(path, directory_.value_or("/"));
}

/// An absolute path is the same in each directory.
void script::put(const std::string& path, bool tree, bool pattern, bool relative) {
  if (out_.size() > limits::hook_paths_max)
    return;
  bool several = at_.here.size() > 1;
  auto same = [&](const written_path& w) { return w.path == path && w.tree == tree && w.pattern == pattern; };
  if (several && std::any_of(out_.begin() + static_cast<std::ptrdiff_t>(std::min(round_, out_.size())), out_.end(), same))
    return;
  bool below = directory_ && (relative || is_inside(*directory_, path));
  out_.push_back({path, tree, pattern, several && below && !is_there(*directory_)});
}

void script::add_path(const std::string& path, bool tree) {
  if (auto full = absolute(path))
    put(*full, tree, false, path.front() != '/');
}

void script::add(const word& w, bool tree) {
  if (!w.known || w.pattern.empty() || w.pattern.size() > limits::path_bytes_max() || w.pattern.find('\0') != w.pattern.npos)
    return;
  std::vector<std::string> each;
  expand_braces(w.pattern, each);
  for (const auto& pattern : each) {
    if (!is_pattern(pattern)) {
      add_path(plain(pattern), tree);
      continue;
    }
    // The directory is literal.
    std::string full = pattern;
    if (pattern.front() != '/') {
      if (!directory_)
        continue;
      full.clear();
      for (auto c : *directory_)
        add_quoted(full, c);
      full += "/" + pattern;
    }
    if (full.size() <= limits::path_bytes_max())
      put(normalize_path(full, "/"), tree, true, pattern.front() != '/');
  }
}

void script::finish() {
  auto done = std::exchange(command_, {});
  in_test_ = false;
  constexpr std::string_view openers[] = {"if", "then", "else", "elif", "do", "while", "until", "!", "{", "time", "coproc"};
  auto opens = [&](const word& w) { return !w.quoted && std::find(std::begin(openers), std::end(openers), w.pattern) != std::end(openers); };
  auto first = std::find_if_not(done.words.begin(), done.words.end(), opens);
  auto program = std::find_if_not(first, done.words.end(), is_assignment);
  if (program == done.words.end()) {
    assign({first, program});
    return;
  }
  command_.input = std::move(done.input);
  command_.input_file = std::move(done.input_file);
  command_.has_input = done.has_input;
  perform({program, done.words.end()});
  command_ = {};
}

void script::assign(word_list words) {
  for (const auto& w : words) {
    auto equals = w.pattern.find('=');
    auto& value = variables_[w.pattern.substr(0, equals)];
    if (!w.known || equals == w.pattern.npos) {
      value = std::nullopt;
      continue;
    }
    value = w.pattern.substr(equals + 1);
    // As at the beginning of a word.
    if (!w.quoted && (*value == "~" || value->starts_with("~/"))) {
      std::string home;
      for (auto c : start_.home)
        add_quoted(home, c);
      value = home.empty() ? std::nullopt : std::optional{home + value->substr(1)};
    }
  }
}

/// cp, mv and their like: the last operand, or -t, is where the others go.
void script::copy(const arguments& args, bool sources_too, bool tree) {
  auto sources = args.operands;
  const auto* directory = args.value({"-t", "--target-directory"});
  word target;
  if (directory)
    target = *directory;
  else if (sources.size() >= 2)
    target = sources.back(), sources.pop_back();
  else
    return;
  if (sources_too)
    add_all(sources, 0, true);
  if (!target.known || is_pattern(target.pattern))
    return;
  auto text = plain(target.pattern);
  auto full = absolute(text);
  if (!full)
    return;
  std::error_code ec;
  bool into = !args.has({"-T", "--no-target-directory"}) && (directory || sources.size() > 1 || text.back() == '/' || fs::is_directory(*full, ec));
  if (!into) {
    add_path(*full, tree);
    return;
  }
  for (const auto& source : sources) {
    if (!source.known)
      continue;
    auto name = plain(source.pattern);
    while (name.size() > 1 && name.back() == '/')
      name.pop_back();
    auto last = name.substr(name.rfind('/') + 1);
    if (is_pattern(source.pattern)) {
      auto slash = source.pattern.rfind('/');
      word inside;
      for (auto c : *full)
        add_quoted(inside.pattern, c);
      inside.pattern += "/" + (slash == source.pattern.npos ? source.pattern : source.pattern.substr(slash + 1));
      add(inside, tree);
    } else if (!last.empty() && last != "." && last != "..") {
      add_path(*full + "/" + last, tree);
    } else {
      add_path(*full, true);
    }
  }
}

/// Without a target the link has its file's name.
void script::link(word_list words) {
  auto args = read_arguments(words, 1, {.with_value = "tS", .long_with_value = {"--target-directory", "--suffix"}});
  if (args.operands.size() == 1 && !args.has({"-t", "--target-directory"}))
    args.operands.push_back({.pattern = "./"});
  // -n: a link to a directory is replaced, not followed.
  auto target = args.operands.empty() || !args.operands.back().known ? std::nullopt : absolute(plain(args.operands.back().pattern));
  std::error_code ec;
  if (target && args.has({"-n", "--no-dereference", "-h"}) && fs::is_symlink(*target, ec))
    args.options.emplace_back("-T", word{});
  copy(args, false, false);
}

void script::patch(const arguments& args, int strip, const word* file, const std::string& base) {
  std::vector<std::string> texts;
  if (file) {
    if (auto full = file->known ? absolute(plain(file->pattern)) : std::nullopt)
      texts.push_back(read_patch(*full));
  } else if (command_.has_input) {
    texts.push_back(command_.input_file.empty() ? command_.input : read_patch(command_.input_file));
  }
  if (const auto* under = args.value({"--directory"}); under && !under->known)
    return;
  for (const auto& text : texts)
    for (const auto& path : paths_in_diff(text, strip))
      add_path(base.empty() ? path : concat({base, "/", path}));
}

/// :/x is x in the root of the repository.
void script::add_pathspecs(word_list list, std::size_t from) {
  for (auto i = from; i < list.size(); ++i) {
    auto text = plain(list[i].pattern);
    if (list[i].known && text.starts_with(":/") && directory_)
      add_path(concat({git_root(*directory_), "/", text.substr(2)}), true);
    else
      add(list[i], true);
  }
}

void script::git_checkout(word_list words, std::size_t from) {
  auto args = read_arguments(words, from, {.with_value = "bB", .long_with_value = {"--orphan", "--conflict", "--pathspec-from-file"}});
  if (args.dashes)
    return add_pathspecs(args.operands, args.after_dashes);
  if (args.has({"-b", "-B", "--orphan"}))
    return;
  // A branch is no file, or git asks for `--`.
  for (const auto& operand : args.operands) {
    auto full = operand.known && !is_pattern(operand.pattern) ? absolute(plain(operand.pattern)) : std::nullopt;
    std::error_code ec;
    if (full && fs::symlink_status(*full, ec).type() != fs::file_type::not_found)
      add(operand, true);
  }
}

void script::git(word_list words) {
  auto here = directory_;
  std::size_t i = 1;
  for (; i < words.size(); ++i) {
    auto text = plain(words[i].pattern);
    if (text == "-C" && i + 1 < words.size()) {
      ++i;
      directory_ = words[i].known ? absolute(plain(words[i].pattern)) : std::nullopt;
    } else if (text == "-c" || text == "--git-dir" || text == "--work-tree" || text == "--namespace" || text == "--exec-path") {
      ++i;
    } else if (text.empty() || text[0] != '-') {
      break;
    }
  }
  auto verb = i < words.size() ? plain(words[i].pattern) : std::string{};
  ++i;
  if (verb == "checkout") {
    git_checkout(words, i);
  } else if (verb == "restore") {
    auto args = read_arguments(words, i, {.with_value = "s", .long_with_value = {"--source", "--conflict", "--pathspec-from-file"}});
    if (!args.has({"-S", "--staged"}) || args.has({"-W", "--worktree"}))
      add_pathspecs(args.operands, 0);
  } else if (verb == "rm") {
    auto args = read_arguments(words, i, {});
    if (!args.has({"--cached", "-n", "--dry-run"}))
      add_all(args.operands, 0, true);
  } else if (verb == "mv") {
    auto args = read_arguments(words, i, {});
    if (!args.has({"-n", "--dry-run"}))
      copy(args, true, true);
  } else if (verb == "apply" && directory_) {
    auto args = read_arguments(words, i, {.with_value = "pC", .long_with_value = {"--directory", "--exclude", "--include", "--whitespace"}});
    if (!args.has({"--check", "--stat", "--numstat", "--summary", "--cached"})) {
      const auto* strip = args.value({"-p"});
      int n = strip && !strip->pattern.empty() && is_digit(strip->pattern[0]) ? strip->pattern[0] - '0' : 1;
      auto base = git_root(*directory_);
      if (const auto* under = args.value({"--directory"}))
        base += "/" + plain(under->pattern);
      if (args.operands.empty())
        patch(args, n, nullptr, base);
      for (const auto& file : args.operands)
        patch(args, n, plain(file.pattern) == "-" ? nullptr : &file, base);
    }
  }
  directory_ = here;
}

void script::perform(word_list words) {
  std::optional<standing> outside; // of a program that another one starts elsewhere
  for (;;) {
    if (words.empty() || !words.front().known)
      break;
    auto text = plain(words.front().pattern);
    auto shell_is_at = at_;
    auto from = skip_wrapper(text.substr(text.rfind('/') + 1), words);
    if (from == 0) {
      perform_here(words);
      break;
    }
    if (!outside && at_.here != shell_is_at.here)
      outside = std::move(shell_is_at);
    words = words.subspan(std::min(from, words.size()));
  }
  if (outside) {
    at_ = std::move(*outside);
    attempt_ = std::nullopt;
  }
}

void script::perform_here(word_list words) {
  auto full = plain(words.front().pattern);
  auto name = full.substr(full.rfind('/') + 1);
  if (name == "for" || name == "select" || name == "read") {
    for (const auto& w : words.subspan(1))
      variables_[w.pattern] = std::nullopt;
  } else if (name == "export" || name == "local" || name == "declare" || name == "readonly" || name == "typeset") {
    for (const auto& w : words.subspan(1))
      if (is_assignment(w))
        assign({&w, 1});
  } else if (name == "cd") {
    change_directory(words);
  } else if (name == "pushd") {
    push_directory(words);
  } else if (name == "popd") {
    pop_directory(words);
  } else if (name == "exit" || name == "return") {
    // Nothing comes behind `cd there || exit` but with that `cd`.
    if (list_.last == connector::either)
      at_.here.clear();
  } else if (name == "sh" || name == "bash" || name == "zsh" || name == "dash" || name == "ksh") {
    shell(words);
  } else if (name == "eval") {
    std::string all;
    for (std::size_t i = 1; i < words.size(); ++i)
      all += (words[i].known ? plain(words[i].pattern) : "$_") + " ";
    nested(all);
  } else {
    in_each_directory([&] { run_program(name, words); });
  }
}

void script::run_program(const std::string& name, word_list words) {
  auto args_of = [&](const option_form& form) { return read_arguments(words, 1, form); };
  if (run_file_program(name, words))
    return;
  if (name == "tee") {
    add_all(args_of({}).operands, 0);
  } else if (name == "rm" || name == "unlink" || name == "shred") {
    auto args = args_of({.with_value = name == "shred" ? "ns" : ""});
    add_all(args.operands, 0, args.has({"-r", "-R", "--recursive"}));
  } else if (name == "mv") {
    copy(args_of({.with_value = "tS", .long_with_value = {"--target-directory", "--suffix"}}), true, true);
  } else if (name == "cp") {
    auto args = args_of({.with_value = "tS", .long_with_value = {"--target-directory", "--suffix"}});
    copy(args, false, args.has({"-r", "-R", "-a", "--recursive", "--archive"}));
  } else if (name == "install") {
    auto args = args_of({.with_value = "tSmog", .long_with_value = {"--target-directory", "--suffix", "--mode", "--owner", "--group"}});
    if (args.has({"-d", "--directory"}))
      make_directories(args.operands);
    else
      copy(args, false, false);
  } else if (name == "ln") {
    link(words);
  } else if (name == "truncate") {
    add_all(args_of({.with_value = "sr", .long_with_value = {"--size", "--reference"}}).operands, 0);
  } else if (name == "dd") {
    for (const auto& w : words)
      if (w.pattern.starts_with("of="))
        add({w.pattern.substr(3), w.known, w.quoted});
  } else if (name == "sed" || name == "gsed") {
    auto args = args_of({.with_value = "efl", .long_with_value = {"--expression", "--file", "--line-length"}, .attached = "i"});
    std::erase_if(args.operands, [](const word& w) { return w.known && w.pattern.empty(); }); // sed -i '' of BSD
    if (args.has({"-i", "--in-place"}))
      add_all(args.operands, args.has({"-e", "-f", "--expression", "--file"}) ? 0 : 1);
  } else if (name == "perl" || name == "ruby") {
    auto args = args_of({.with_value = "eEI", .long_with_value = {}, .attached = "iMmF"});
    if (args.has({"-i"}))
      add_all(args.operands, args.has({"-e", "-E"}) ? 0 : 1);
  } else if (name == "git") {
    git(words);
  } else if (name == "patch") {
    run_patch(words);
  } else if (name == "apply_patch" || name == "applypatch") {
    auto envelope = words.size() > 1 && words[1].known ? plain(words[1].pattern) : command_.input;
    for (const auto& path : paths_in_envelope(envelope))
      add_path(path);
  }
}

void script::run_patch(word_list words) {
  auto args = read_arguments(words, 1, {.with_value = "pidoBVDFgrYz", .long_with_value = {"--strip", "--input", "--directory", "--output"}});
  if (args.has({"--dry-run"}))
    return;
  const auto* strip = args.value({"-p", "--strip"});
  int n = strip && !strip->pattern.empty() && is_digit(strip->pattern[0]) ? strip->pattern[0] - '0' : -1;
  const auto* base = args.value({"-d", "--directory"});
  if (!args.operands.empty())
    add(args.operands.front());
  else
    patch({}, n, args.value({"-i", "--input"}), base && base->known ? plain(base->pattern) : "");
}

std::vector<written_path> paths_written_by(std::string_view text, const place& where) {
  std::vector<written_path> out;
  script{text.substr(0, limits::hook_script_bytes_max), {{where.directory}, {}}, where, out, 0}.run();
  return out;
}

std::vector<written_path> paths_written_by(const std::vector<std::string>& argv, const place& where) {
  std::vector<written_path> out;
  command c;
  for (const auto& arg : argv) {
    word w;
    w.quoted = true;
    for (auto letter : arg)
      add_quoted(w.pattern, letter);
    c.words.push_back(std::move(w));
  }
  script{"", {{where.directory}, {}}, where, out, 0}.run(std::move(c));
  return out;
}

std::vector<std::string> paths_in_envelope(std::string_view patch) {
  std::vector<std::string> out;
  auto take = [&](std::string_view path) {
    if (path = trimmed(path); !path.empty() && out.size() <= limits::hook_paths_max)
      out.emplace_back(path);
  };
  for (std::size_t at = 0; at < patch.size();) {
    auto end = std::min(patch.find('\n', at), patch.size());
    auto line = trimmed(patch.substr(at, end - at));
    at = end + 1;
    if (!line.starts_with("*** "))
      continue;
    line.remove_prefix(4);
    for (std::string_view head : {"Add File:", "Update File:", "Delete File:", "Move to:"})
      if (line.starts_with(head))
        take(line.substr(head.size()));
    if (constexpr std::string_view move = "Move File:"; line.starts_with(move)) {
      auto names = line.substr(move.size());
      auto arrow = names.find("->");
      take(names.substr(0, arrow));
      if (arrow != names.npos)
        take(names.substr(arrow + 2));
    }
  }
  return out;
}

} // namespace swarm::shell
