#include "cli/output.hpp"

#include "actors/base/atomic_file.hpp"
#include "actors/base/text.hpp"
#include "gateway/json/shapes.hpp"

#include <ctime>

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

namespace swarm::cli {

namespace {

std::size_t display_width(std::string_view text) {
  std::size_t n = 0;
  for (auto c : text)
    n += (static_cast<unsigned char>(c) & 0xc0u) != 0x80u;
  return n;
}

} // namespace

console::console(sink out, sink err, bool out_is_terminal, bool err_is_terminal, bool colours)
  : out_(std::move(out)), err_(std::move(err)), out_terminal_(out_is_terminal), err_terminal_(err_is_terminal), colours_(colours && out_is_terminal),
    note_colours_(colours && err_is_terminal) {}

console console::of_process(bool no_color, std::function<void(const std::error_code&)> on_lost_output) {
  bool out = isatty(STDOUT_FILENO) == 1;
  bool err = isatty(STDERR_FILENO) == 1;
  auto print = [on_lost_output = std::move(on_lost_output)](std::string_view b) {
    if (auto error = write_all(STDOUT_FILENO, b))
      on_lost_output(error);
  };
  return {print, [](std::string_view b) { write_all(STDERR_FILENO, b); }, out, err, !no_color};
}

bool is_pipe(int fd) {
  struct stat info {};
  return fstat(fd, &info) == 0 && (S_ISFIFO(info.st_mode) || S_ISSOCK(info.st_mode));
}

bool is_without_reader(int fd) {
  pollfd p{fd, 0, 0};
  return is_pipe(fd) && poll(&p, 1, 0) == 1 && (p.revents & (POLLERR | POLLHUP)) != 0;
}

void console::line(std::string_view text) { out_(escape_control(text, false) + "\n"); }

void console::text(std::string_view text) { out_(escape_control(text) + "\n"); }

void console::raw(std::string_view bytes) { out_(bytes); }

void console::print(const json& value) { out_(mcp::dump(value) + "\n"); }

void console::print_compact(const json& value) { out_(mcp::dump(value, -1) + "\n"); }

void console::error(std::string_view text) { err_(escape_control(text) + "\n"); }

void console::raw_error(std::string_view bytes) { err_(bytes); }

namespace {

std::string painted(bool colours, colour c, std::string_view text) {
  auto safe = escape_control(text, false);
  if (!colours || c == colour::none)
    return safe;
  const char* code = "";
  switch (c) {
    case colour::none: break;
    case colour::green: code = "32"; break;
    case colour::red: code = "31"; break;
    case colour::yellow: code = "33"; break;
    case colour::cyan: code = "36"; break;
    case colour::dim: code = "2"; break;
    case colour::bold: code = "1"; break;
  }
  return concat({"\x1b[", code, "m", safe, "\x1b[0m"});
}

} // namespace

std::string console::paint(colour c, std::string_view text) const { return painted(colours_, c, text); }

std::string console::paint_note(colour c, std::string_view text) const { return painted(note_colours_, c, text); }

void console::note(std::string_view text) { painted_note(escape_control(text, false)); }

void console::painted_note(std::string_view line) {
  if (!quiet_)
    err_(std::string{line} + "\n");
}

void console::painted_line(std::string_view text) { out_(std::string{text} + "\n"); }

namespace {

/// `paint`: how the padded cell of that row (0 = the header) and column is shown.
std::string laid_out(const std::vector<std::string>& header, const std::vector<std::vector<std::string>>& rows,
                     const std::function<std::string(std::size_t row, std::size_t column, std::string cell)>& paint) {
  std::vector<std::vector<std::string>> all{header};
  for (const auto& row : rows) {
    auto& cells = all.emplace_back();
    for (const auto& cell : row)
      cells.push_back(escape_control(cell, false));
  }
  std::vector<std::size_t> widths(header.size());
  for (const auto& row : all)
    for (std::size_t i = 0; i < row.size() && i < widths.size(); ++i)
      widths[i] = std::max(widths[i], display_width(row[i]));
  std::string out;
  for (std::size_t r = 0; r < all.size(); ++r) {
    const auto& row = all[r];
    const auto cells = std::min(row.size(), widths.size());
    std::string text;
    for (std::size_t i = 0; i < cells; ++i)
      text += "  " + paint(r, i, row[i] + (i + 1 == cells ? "" : std::string(widths[i] - display_width(row[i]), ' ')));
    text.erase(text.find_last_not_of(' ') + 1);
    out += (out.empty() ? "" : "\n") + text;
  }
  return out;
}

} // namespace

std::string table(const std::vector<std::string>& header, const std::vector<std::vector<std::string>>& rows) {
  return laid_out(header, rows, [](std::size_t, std::size_t, std::string cell) { return cell; });
}

std::string table(const console& io, const std::vector<std::string>& header, const std::vector<std::vector<std::string>>& rows, std::size_t column,
                  const std::vector<colour>& colours) {
  return laid_out(header, rows, [&](std::size_t r, std::size_t c, std::string cell) {
    if (r == 0)
      return io.paint(colour::bold, cell);
    return c == column ? io.paint(colours[r - 1], cell) : cell;
  });
}

std::string hanging(std::string_view text) {
  std::string out;
  for (auto c : escape_control(text))
    out += c == '\n' ? std::string{"\n    "} : std::string(1, c);
  return out;
}

std::string utc(std::int64_t unix_ms) {
  auto t = static_cast<std::time_t>(unix_ms / 1000);
  std::tm parts{};
  gmtime_r(&t, &parts);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &parts)};
}

std::string short_id(std::string_view id) { return id.empty() ? "-" : std::string{id.substr(0, 8)}; }

std::string counted(std::uint64_t n, std::string_view noun) { return concat({n, " ", noun, n == 1 ? "" : "s"}); }

std::string byte_count(std::uint64_t bytes) {
  if (bytes < 1024)
    return concat({bytes, " B"});
  double value = static_cast<double>(bytes) / 1024;
  const char* unit = "KiB";
  for (auto next : {"MiB", "GiB", "TiB"}) {
    if (value < 1024)
      break;
    value /= 1024;
    unit = next;
  }
  return concat({fixed(value, 1), " ", unit});
}

} // namespace swarm::cli
