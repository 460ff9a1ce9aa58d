// What a command prints: plain text in a pipe, colours on a terminal, two-space JSON with --json. Text from agents
// and peers is escaped before it reaches a terminal.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <nlohmann/json.hpp>

namespace swarm::cli {

using json = nlohmann::ordered_json;

enum class colour { none, green, red, yellow, cyan, dim, bold };

class console {
public:
  using sink = std::function<void(std::string_view)>;
  console(sink out, sink err, bool out_is_terminal, bool err_is_terminal, bool colours);
  /// The process's own stdout and stderr; NO_COLOR and TERM=dumb turn colours off. `on_lost_output` gets the error when
  /// stdout accepts no more.
  static console of_process(bool no_color, std::function<void(const std::error_code&)> on_lost_output);

  /// One line on stdout. Control characters and newlines in it are escaped, so that the text of others cannot look like a line of ours.
  void line(std::string_view text);
  /// A text of several lines on stdout. Control characters are escaped, newlines stay.
  void text(std::string_view text);
  /// Unchanged bytes on stdout: the payload of kv get, pty read and completion scripts.
  void raw(std::string_view bytes);
  void print(const json&);
  /// One line of JSON.
  void print_compact(const json&);
  /// An error on stderr. Control characters are escaped, newlines stay: escape the newlines in the text of others first.
  void error(std::string_view text);
  /// A line about progress, on stderr, so that stdout holds the result alone. Escaped as by line(); not printed after be_quiet().
  void note(std::string_view text);
  /// A note() made of paint_note() results.
  void painted_note(std::string_view line);
  /// paint() for stderr.
  std::string paint_note(colour, std::string_view text) const;
  void be_quiet() noexcept { quiet_ = true; }
  /// Unchanged bytes on stderr, for the spinner.
  void raw_error(std::string_view bytes);

  /// The text in that colour when stdout is a terminal. The text is escaped, so call it on parts and join the result with paint().
  std::string paint(colour, std::string_view text) const;
  /// A line made of paint() results.
  void painted_line(std::string_view text);

  bool out_is_terminal() const noexcept { return out_terminal_; }
  bool err_is_terminal() const noexcept { return err_terminal_; }

private:
  sink out_;
  sink err_;
  bool out_terminal_;
  bool err_terminal_;
  bool colours_;
  bool note_colours_;
  bool quiet_ = false;
};

/// Whether the reader of this pipe is gone. A command that follows without end would otherwise notice it only at its next output.
bool is_without_reader(int fd);
/// Whether it is a pipe or a socket.
bool is_pipe(int fd);

/// Left-aligned columns two spaces apart, two spaces of indent, no trailing blanks.
std::string table(const std::vector<std::string>& header, const std::vector<std::vector<std::string>>& rows);
/// The same with a bold header, and the cell in `column` of each row in the row's colour. For painted_line().
std::string table(const console&, const std::vector<std::string>& header, const std::vector<std::vector<std::string>>& rows, std::size_t column,
                  const std::vector<colour>& colours);
/// The escaped text, with four blanks before every line but the first, so that no line looks like a row.
std::string hanging(std::string_view text);
/// UTC, YYYY-MM-DD HH:MM:SS.
std::string utc(std::int64_t unix_ms);
/// The first eight characters of an id, for people; "-" when empty.
std::string short_id(std::string_view id);
/// "1 lock", "2 locks": for nouns whose plural ends in s.
std::string counted(std::uint64_t n, std::string_view noun);
/// 0 B, 12 KiB, 3.4 MiB.
std::string byte_count(std::uint64_t bytes);

} // namespace swarm::cli
