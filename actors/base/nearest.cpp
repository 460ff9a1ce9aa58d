#include "actors/base/nearest.hpp"

#include <algorithm>
#include <cstddef>

namespace swarm {

namespace {

/// How many letters must be changed, added or taken away, or change places with their neighbour.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> d(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i)
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        d[i][j] = i + j;
        continue;
      }
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  return d[a.size()][b.size()];
}

} // namespace

std::string nearest(std::string_view word, const std::vector<std::string>& names) {
  constexpr std::size_t far = 3;
  std::string best;
  std::size_t least = far;
  for (const auto& name : names) {
    // The distance is at least the difference of the lengths, and a word of a file may be very long.
    if (std::max(name.size(), word.size()) - std::min(name.size(), word.size()) >= far)
      continue;
    if (auto n = distance(word, name); n < least && n < std::max(name.size(), word.size()) / 2 + 1) {
      least = n;
      best = name;
    }
  }
  return best;
}

std::string meant(std::string_view word, const std::vector<std::string>& names) {
  auto name = nearest(word, names);
  return name.empty() ? std::string{} : "; did you mean " + name + "?";
}

} // namespace swarm
