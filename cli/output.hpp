// What a command prints: plain text in a pipe, colours on a terminal, two-space JSON with --json. Everything an agent or a
// peer may have written is escaped before it reaches a terminal.
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
  /// The process's own stdout and stderr; NO_COLOR and TERM=dumb turn colours off. `on_lost_output` is told why stdout takes no more.
  static console of_process(bool no_color, std::function<void(const std::error_code&)> on_lost_output);

  /// One line on stdout, control characters and newlines inside escaped: what somebody wrote cannot pass for a line of ours.
  void line(std::string_view text);
  /// A text of several lines on stdout, for what is shown whole: control characters escaped, newlines kept.
  void text(std::string_view text);
  /// Bytes on stdout as they are: the payload of kv get, pty read and completion scripts.
  void raw(std::string_view bytes);
  void print(const json&);
  /// One line of JSON.
  void print_compact(const json&);
  /// What went wrong, on stderr, control characters escaped. It may have several lines: escape newlines in what others wrote.
  void error(std::string_view text);
  /// A line about what happens, on stderr, so that stdout has the result alone; escaped as by line(). Nothing when it is to be quiet.
  void note(std::string_view text);
  /// The same, made of paint_note() results.
  void painted_note(std::string_view line);
  /// As paint(), for stderr.
  std::string paint_note(colour, std::string_view text) const;
  void be_quiet() noexcept { quiet_ = true; }
  /// Bytes on stderr as they are, for the spinner.
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

/// Whether whoever read from this pipe is gone: what follows without end would otherwise learn it only when it has something to say.
bool is_without_reader(int fd);
/// A pipe or a socket.
bool is_pipe(int fd);

/// Left-aligned columns two spaces apart, two spaces of indent, no trailing blanks.
std::string table(const std::vector<std::string>& header, const std::vector<std::vector<std::string>>& rows);
/// The same with a bold header, and each row's cell of that column in its colour; for painted_line().
std::string table(const console&, const std::vector<std::string>& header, const std::vector<std::vector<std::string>>& rows, std::size_t column,
                  const std::vector<colour>& colours);
/// Escaped, with four blanks before every line but the first, so that none of them passes for a row.
std::string hanging(std::string_view text);
/// UTC, YYYY-MM-DD HH:MM:SS.
std::string utc(std::int64_t unix_ms);
/// First eight characters of an id, which is how people read them; "-" when empty.
std::string short_id(std::string_view id);
/// 950 ms, 12.3 s, 4 min 10 s, 2 h 5 min, 3 d 4 h.
std::string duration(std::int64_t ms);
/// 0 B, 12 KiB, 3.4 MiB.
std::string byte_count(std::uint64_t bytes);

} // namespace swarm::cli
