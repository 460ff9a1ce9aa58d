#include "cli/edit/diff.hpp"

#include <algorithm>
#include <cctype>
#include <string_view>
#include <vector>

#include "actors/base/text.hpp"

namespace swarm::cli {

namespace {

constexpr std::size_t context_lines = 3;
/// More differing lines than this are shown as one replacement: the search takes their square in memory.
constexpr std::size_t search_max = 600;

struct step {
  char sign; // ' ', '-' or '+'
  std::string_view line;
};

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> out;
  for (std::size_t at = 0; at < text.size();) {
    auto end = std::min(text.find('\n', at), text.size());
    out.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

/// Shortest edit from a to b (Myers), or a replacement when it is too long.
void edit(const std::vector<std::string_view>& a, const std::vector<std::string_view>& b, std::vector<step>& out) {
  auto n = static_cast<std::ptrdiff_t>(a.size()), m = static_cast<std::ptrdiff_t>(b.size());
  std::vector<std::vector<std::ptrdiff_t>> trace;
  auto most = std::min<std::ptrdiff_t>(n + m, search_max);
  std::vector<std::ptrdiff_t> v(static_cast<std::size_t>(2 * most + 3), 0);
  auto at = [&](std::vector<std::ptrdiff_t>& row, std::ptrdiff_t k) -> std::ptrdiff_t& { return row[static_cast<std::size_t>(k + most + 1)]; };
  bool found = false;
  for (std::ptrdiff_t d = 0; d <= most && !found; ++d) {
    trace.push_back(v);
    for (std::ptrdiff_t k = -d; k <= d; k += 2) {
      auto x = k == -d || (k != d && at(v, k - 1) < at(v, k + 1)) ? at(v, k + 1) : at(v, k - 1) + 1;
      while (x < n && x - k < m && a[static_cast<std::size_t>(x)] == b[static_cast<std::size_t>(x - k)])
        ++x;
      at(v, k) = x;
      found = found || (x >= n && x - k >= m);
    }
  }
  if (!found) {
    for (auto line : a)
      out.push_back({'-', line});
    for (auto line : b)
      out.push_back({'+', line});
    return;
  }
  std::vector<step> back;
  auto x = n, y = m;
  for (auto d = static_cast<std::ptrdiff_t>(trace.size()) - 1; d >= 0; --d) {
    auto& row = trace[static_cast<std::size_t>(d)];
    auto k = x - y;
    auto before = d == 0 ? k : k == -d || (k != d && at(row, k - 1) < at(row, k + 1)) ? k + 1 : k - 1;
    auto from_x = d == 0 ? 0 : at(row, before);
    auto from_y = d == 0 ? 0 : from_x - before;
    while (x > from_x && y > from_y)
      back.push_back({' ', a[static_cast<std::size_t>(--x)]}), --y;
    if (d > 0) {
      if (x == from_x)
        back.push_back({'+', b[static_cast<std::size_t>(--y)]});
      else
        back.push_back({'-', a[static_cast<std::size_t>(--x)]});
    }
  }
  out.insert(out.end(), back.rbegin(), back.rend());
}

constexpr std::size_t opaque_min = 20;

/// Behind the first `:` or `=` that follows a word which sounds like a secret; npos when there is none.
std::size_t secret_after(std::string_view line) {
  std::string low;
  for (auto c : line)
    low += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  auto first = std::string::npos;
  for (auto word : {"token", "secret", "passw", "apikey", "api_key", "api-key", "auth", "credential", "bearer", "cookie", "private"}) {
    auto at = low.find(word);
    auto sign = at == low.npos ? low.npos : low.find_first_of(":=", at);
    // A key alone, before a block of its own, gives nothing away.
    if (sign != low.npos && low.find_first_not_of(" \t\r,[{", sign + 1) != low.npos)
      first = std::min(first, sign + 1);
  }
  return first;
}

/// A run that reads like a key, not like words: long, letters and digits mixed.
std::string without_opaque(std::string_view line) {
  std::string out;
  for (std::size_t at = 0; at < line.size();) {
    auto end = at;
    std::size_t digits = 0, letters = 0;
    for (; end < line.size() && (std::isalnum(static_cast<unsigned char>(line[end])) || line[end] == '_' || line[end] == '-'); ++end) {
      digits += std::isdigit(static_cast<unsigned char>(line[end])) != 0;
      letters += std::isalpha(static_cast<unsigned char>(line[end])) != 0;
    }
    bool hash = at >= 7 && line.substr(at - 7, 7) == "sha256:";
    if (end - at >= opaque_min && digits > 1 && letters > 1 && !hash)
      out += "***";
    else
      out += line.substr(at, end - at);
    if (end < line.size())
      out += line[end++];
    at = end;
  }
  return out;
}

std::string shown(std::string_view line) {
  auto cut = secret_after(line);
  return cut == line.npos ? without_opaque(line) : without_opaque(line.substr(0, cut)) + " ***";
}

} // namespace

std::string unified_diff(const std::string& before, const std::string& after) {
  if (before == after)
    return {};
  auto a = lines_of(before), b = lines_of(after);
  std::size_t front = 0, back = 0;
  while (front < a.size() && front < b.size() && a[front] == b[front])
    ++front;
  while (back < a.size() - front && back < b.size() - front && a[a.size() - 1 - back] == b[b.size() - 1 - back])
    ++back;
  std::vector<step> steps;
  for (std::size_t i = 0; i < front; ++i)
    steps.push_back({' ', a[i]});
  auto middle = [&](const auto& lines) {
    return std::vector<std::string_view>(lines.begin() + static_cast<std::ptrdiff_t>(front), lines.end() - static_cast<std::ptrdiff_t>(back));
  };
  edit(middle(a), middle(b), steps);
  for (auto i = a.size() - back; i < a.size(); ++i)
    steps.push_back({' ', a[i]});

  std::string out;
  std::size_t line_a = 0, line_b = 0;
  for (std::size_t i = 0; i < steps.size();) {
    auto change = i;
    while (change < steps.size() && steps[change].sign == ' ')
      ++change;
    if (change == steps.size())
      break;
    auto begin = std::max(i, change - std::min(change, context_lines));
    // The hunk goes on while the next change is near.
    auto end = change;
    for (auto quiet = change; quiet < steps.size() && quiet - end <= 2 * context_lines; ++quiet)
      if (steps[quiet].sign != ' ')
        end = quiet + 1;
    auto stop = std::min(end + context_lines, steps.size());
    line_a += begin - i;
    line_b += begin - i;
    std::size_t count_a = 0, count_b = 0;
    std::string body;
    for (auto at = begin; at < stop; ++at) {
      count_a += steps[at].sign != '+';
      count_b += steps[at].sign != '-';
      body += steps[at].sign + shown(steps[at].line) + "\n";
    }
    out += concat({"@@ -", count_a == 0 ? line_a : line_a + 1, ",", count_a, " +", count_b == 0 ? line_b : line_b + 1, ",", count_b, " @@\n"}) + body;
    line_a += count_a;
    line_b += count_b;
    i = stop;
  }
  // Texts that differ only in their last line's end.
  return out.empty() ? "\\ only the end of the last line differs\n" : out;
}

} // namespace swarm::cli
