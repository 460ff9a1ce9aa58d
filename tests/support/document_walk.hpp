// What a document tells people to type, done as it stands there: the lines of its console blocks, and what must come of them.
#pragma once

#include <algorithm>
#include <optional>
#include <regex>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/node_process.hpp"

namespace swarm::testing {

/// A line that a person types, on a host and in a directory where the document names them, and lines that come of it.
struct step {
  char host;             // a, b or 0
  std::string directory; // below the home directory; empty: anywhere
  std::string line;
  std::vector<std::string> output;
};

/// Of the blocks ```console below this headline. Throws where there is something that nobody would do or see.
inline std::vector<step> steps_of(const std::string& document, const std::string& headline) {
  static const std::regex typed{R"((?:([ab])(?::~/(\S+))?)?\$ (.+))"};
  std::vector<step> out;
  auto below = false, inside = false;
  for (const auto& line : lines_of(document)) {
    if (!inside && line.starts_with("## "))
      below = line == "## " + headline;
    if (!below)
      continue;
    std::smatch m;
    if (line.starts_with("```")) {
      if (!inside && line != "```console")
        throw std::runtime_error("a block of the walk that is not done: " + line);
      inside = !inside;
    } else if (inside && std::regex_match(line, m, typed)) {
      out.push_back({m[1].matched ? m[1].str()[0] : '\0', m[2], m[3], {}});
    } else if (inside && out.empty()) {
      throw std::runtime_error("output before anything was typed: " + line);
    } else if (inside) {
      out.back().output.push_back(line);
    }
  }
  return out;
}

inline std::string replaced(std::string text, const std::string& what, const std::string& with) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += with.size())
    text.replace(at, what.size(), with);
  return text;
}

/// Columns are as wide as what is in them.
inline std::string with_single_blanks(const std::string& text) { return std::regex_replace(text, std::regex{" +"}, " "); }

/// "…" stands for anything.
inline bool fits(const std::string& line, const std::string& documented) {
  auto pattern = std::regex_replace(with_single_blanks(documented), std::regex{R"([\^$\\.*+?()\[\]{}|])"}, R"(\$&)");
  return std::regex_match(with_single_blanks(line), std::regex{replaced(pattern, "…", ".*")});
}

/// The first documented line that did not come, in order.
inline std::optional<std::string> missing_in(const run_result& r, const std::vector<std::string>& documented) {
  const auto lines = lines_of(r.out + r.err);
  auto at = lines.begin();
  for (const auto& wanted : documented) {
    at = std::find_if(at, lines.end(), [&](const std::string& line) { return fits(line, wanted); });
    if (at == lines.end())
      return wanted;
    ++at;
  }
  return std::nullopt;
}

inline run_result typed(const std::string& line, const environment& env, const std::string& directory) {
  return child_process({"/bin/bash", "-c", line}, env, directory).finish();
}

} // namespace swarm::testing
