#include "cli/output.hpp"

#include "actors/base/text.hpp"
#include "gateway/json/shapes.hpp"

#include <cerrno>
#include <ctime>

#include <unistd.h>

namespace swarm::cli {

namespace {

void write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    auto n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR)
      continue;
    // The reader has gone (head, less): nothing more can be said to it.
    if (n <= 0)
      return;
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
}

std::size_t display_width(std::string_view text) {
  std::size_t n = 0;
  for (auto c : text)
    n += (static_cast<unsigned char>(c) & 0xc0u) != 0x80u;
  return n;
}

} // namespace

console::console(sink out, sink err, bool out_is_terminal, bool err_is_terminal, bool colours)
  : out_(std::move(out)), err_(std::move(err)), out_terminal_(out_is_terminal), err_terminal_(err_is_terminal), colours_(colours) {}

console console::of_process(bool no_color) {
  bool out = isatty(STDOUT_FILENO) == 1;
  bool err = isatty(STDERR_FILENO) == 1;
  return {[](std::string_view b) { write_all(STDOUT_FILENO, b); }, [](std::string_view b) { write_all(STDERR_FILENO, b); }, out, err,
          out && !no_color};
}

void console::line(std::string_view text) { out_(escape_control(text, false) + "\n"); }

void console::text(std::string_view text) { out_(escape_control(text) + "\n"); }

void console::raw(std::string_view bytes) { out_(bytes); }

void console::print(const json& value) { out_(mcp::dump(value) + "\n"); }

void console::print_compact(const json& value) { out_(mcp::dump(value, -1) + "\n"); }

void console::error(std::string_view text) { err_(escape_control(text) + "\n"); }

void console::raw_error(std::string_view bytes) { err_(bytes); }

std::string console::paint(colour c, std::string_view text) const {
  auto safe = escape_control(text, false);
  if (!colours_ || c == colour::none)
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

void console::painted_line(std::string_view text) { out_(std::string{text} + "\n"); }

std::string table(const std::vector<std::string>& header, const std::vector<std::vector<std::string>>& rows) {
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
  for (const auto& row : all) {
    std::string text;
    for (std::size_t i = 0; i < row.size() && i < widths.size(); ++i)
      text += "  " + row[i] + std::string(widths[i] - display_width(row[i]), ' ');
    text.erase(text.find_last_not_of(' ') + 1);
    out += (out.empty() ? "" : "\n") + text;
  }
  return out;
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

std::string duration(std::int64_t ms) {
  if (ms < 1000)
    return concat({ms, " ms"});
  if (ms < 60'000)
    return concat({ms / 1000, ".", ms % 1000 / 100, " s"});
  auto s = ms / 1000;
  if (s < 3600)
    return concat({s / 60, " min ", s % 60, " s"});
  if (s < 86'400)
    return concat({s / 3600, " h ", s % 3600 / 60, " min"});
  return concat({s / 86'400, " d ", s % 86'400 / 3600, " h"});
}

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
