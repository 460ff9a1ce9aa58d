// A shell script read command by command, for the files it writes. parser.cpp reads, writes.cpp knows what the usual programs write.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "actors/base/limits.hpp"
#include "actors/shell/words.hpp"
#include "actors/shell/writes.hpp"

namespace swarm::shell {

/// One simple command.
struct command {
  std::vector<word> words;
  std::string input;      // of its here-document
  std::string input_file; // absolute
  bool has_input = false;
};

/// A script is in one of them: a `cd` may fail. None = not known.
using directories = std::vector<std::string>;

/// What `cd`, `pushd` and `popd` change.
struct standing {
  directories here;
  directories before; // $OLDPWD
  std::vector<directories> pushed = {};
};

/// What stands behind a command.
enum class connector { end, newline, background, pipe, both, either };

/// A list of commands that && and || connect, up to where it is read.
struct command_list {
  standing start;          // of the list
  standing pipeline_start; // of its pipeline
  connector last = connector::end;
  directories passed; // where it goes on after a `cd` before ||
  directories failed; // and without the `cd` before &&
};

/// What the files of a script are is added to `out`.
class script {
public:
  /// `start` is what the script is told by its environment, and outlives it.
  script(std::string_view text, standing at, const place& start, std::vector<written_path>& out, int depth)
    : text_(text), at_(std::move(at)), start_(start), out_(out), depth_(depth) {
    begin_list();
  }

  void run();
  void run(command c) {
    command_ = std::move(c);
    finish();
  }

private:
  // -- reading --------------------------------------------------------------------------------
  char at(std::size_t i) const { return i < text_.size() ? text_[i] : '\0'; }
  char now() const { return at(pos_); }
  bool done() const { return pos_ >= text_.size(); }
  void skip_blanks();
  bool read_operator();
  void read_redirection(bool both);
  word read_word();
  void read_single_quotes(word&);
  void read_double_quotes(word&);
  void read_ansi_quotes(word&);
  void read_dollar(word&, bool quoted);
  std::string_view read_parenthesised();
  std::string_view read_backquoted();
  void read_here_document();
  void nested(std::string_view inner) {
    if (depth_ < limits::hook_script_depth_max)
      script{inner, at_, start_, out_, depth_ + 1}.run();
  }

  // -- meaning --------------------------------------------------------------------------------
  void finish();
  void end_command(connector);
  void begin_list();
  void begin_subshell();
  void end_subshell();
  /// `directory_` is each of those that the script may be in, one after the other.
  template <class F>
  void in_each_directory(F&& f) {
    round_ = out_.size();
    directory_ = std::nullopt;
    if (at_.here.empty())
      f();
    for (const auto& d : directories{at_.here}) {
      directory_ = d;
      f();
    }
    directory_ = std::nullopt;
  }
  directories resolved(const word& target);
  bool is_there(const std::string& directory) const;
  void go(directories to, bool may_fail);
  void assign(word_list words);
  void perform(word_list words);
  void perform_here(word_list words);
  void run_program(const std::string& name, word_list words);
  void run_patch(word_list words);
  // programs.cpp
  bool run_file_program(const std::string& name, word_list words);
  bool format(const std::string& name, word_list words);
  void add_below(const std::string& directory, const std::string& name);
  void make_directories(word_list operands);
  void mark(word_list words);
  void curl(word_list words);
  void wget(word_list words);
  void tar(word_list words);
  void rsync(word_list words);
  std::size_t skip_wrapper(const std::string& name, word_list words);
  bool take_wrapper_option(const std::string& name, const std::string& option, const word& value, word_list rest);
  void change_directory(word_list words);
  void push_directory(word_list words);
  void pop_directory(word_list words);
  void git(word_list words);
  void git_checkout(word_list words, std::size_t from);
  void add_pathspecs(word_list list, std::size_t from);
  void patch(const arguments&, int strip, const word* file, const std::string& base);
  void copy(const arguments&, bool sources_too, bool tree);
  void link(word_list words);
  void shell(word_list words);

  std::optional<std::string> absolute(const std::string& path) const;
  void put(const std::string& path, bool tree, bool pattern, bool relative);
  void add(const word&, bool tree = false);
  void add_path(const std::string& path, bool tree = false);
  void add_all(word_list list, std::size_t from, bool tree = false) {
    for (auto i = from; i < list.size(); ++i)
      add(list[i], tree);
  }

  std::string_view text_;
  std::size_t pos_ = 0;
  std::size_t line_resume_ = 0; // behind the here-documents that begin after this line; 0 = there are none
  standing at_;
  command_list list_;
  /// Of the `cd` just read: where one is after it, and where one is without it.
  struct attempt {
    directories passed, failed;
  };
  std::optional<attempt> attempt_;
  std::size_t moves_ = 0;                // from one directory to another
  std::set<std::string> made_;           // by mkdir
  std::optional<std::string> directory_; // see in_each_directory
  std::size_t round_ = 0;                // how many paths there were before it
  const place& start_;
  std::vector<written_path>& out_;
  int depth_;
  command command_;
  bool in_test_ = false;                                        // inside [[ ]]
  std::vector<std::pair<standing, command_list>> outer_;        // of the enclosing subshells
  std::map<std::string, std::optional<std::string>> variables_; // patterns; nothing = not known
  std::size_t expanded_ = 0;                                    // bytes that variables were replaced by
};

} // namespace swarm::shell
