// Shell commands, programs with arguments and patches, looked at for the files they write: the paths are absolute and few, what is only said is
// not written, and quoting a word changes nothing about it. Input: a byte for the kind, then the text, or pieces for the words.
#include <algorithm>

#include "actors/base/limits.hpp"
#include "actors/base/paths.hpp"
#include "actors/base/text.hpp"
#include "actors/shell/words.hpp"
#include "actors/shell/writes.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace swarm;

namespace {

using paths = std::vector<shell::written_path>;

// Where nothing is: what lies on the disk plays no part.
const shell::place place{"/nowhere/r", "/nowhere/home"};

bool same(const paths& a, const paths& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& x, const auto& y) { return x.path == y.path && x.tree == y.tree && x.pattern == y.pattern; });
}

void check_paths(const paths& all) {
  SWARM_HOLDS(all.size() <= limits::hook_paths_max + 1);
  for (const auto& w : all) {
    SWARM_HOLDS(!w.path.empty() && w.path.front() == '/');
    SWARM_HOLDS(normalize_path(w.path, "/elsewhere") == w.path);
    SWARM_HOLDS(w.path.find('\0') == w.path.npos);
    SWARM_HOLDS(w.path.size() <= 2 * limits::path_bytes_max() + 1);
  }
}

std::string quoted(const std::string& word) {
  std::string out = "'";
  for (auto c : word)
    out += c == '\'' ? std::string{"'\\''"} : std::string(1, c);
  return out + "'";
}

std::size_t count_of(std::string_view text, std::string_view what) {
  std::size_t out = 0;
  for (auto at = text.find(what); at != text.npos; at = text.find(what, at + 1))
    ++out;
  return out;
}

void check_script(const std::string& script) {
  auto all = shell::paths_written_by(script, place);
  check_paths(all);
  SWARM_HOLDS(same(all, shell::paths_written_by(script, place)));
  // One more before it is met first, and what follows is what followed.
  auto more = shell::paths_written_by("rm -- /first\n" + script, place);
  paths wanted{{"/first", false, false}};
  wanted.insert(wanted.end(), all.begin(), all.end());
  wanted.resize(std::min(wanted.size(), limits::hook_paths_max + 1));
  SWARM_HOLDS(same(more, wanted));
  SWARM_HOLDS(shell::paths_written_by("echo " + quoted(script), place).empty());
  SWARM_HOLDS(shell::paths_written_by("cat <<'no such line'\n" + script, place).empty() || script.find("no such line") != script.npos);
  // A shell in the shell, as long as there are not too many of them.
  if (count_of(script, "(") + count_of(script, "`") + count_of(script, "sh") + count_of(script, "eval") < limits::hook_script_depth_max)
    SWARM_HOLDS(same(all, shell::paths_written_by("bash -c " + quoted(script), place)));
}

void check_words(const std::vector<std::string>& words) {
  auto all = shell::paths_written_by(words, place);
  check_paths(all);
  std::string script;
  for (const auto& word : words)
    script += quoted(word) + " ";
  SWARM_HOLDS(same(all, shell::paths_written_by(script, place)));
  for (const auto& word : words) {
    std::string pattern;
    for (auto c : word)
      shell::add_quoted(pattern, c);
    SWARM_HOLDS(shell::plain(pattern) == word && !shell::is_pattern(pattern));
    std::vector<std::string> expanded;
    shell::expand_braces(pattern, expanded);
    SWARM_HOLDS(expanded == std::vector{pattern});
    shell::expand_braces(word, expanded);
    SWARM_HOLDS(expanded.size() >= 2 && expanded.size() <= limits::hook_paths_max + 1);
  }
  // The usual programs, with a name that is nothing but a name.
  if (words.empty() || words[0].empty() || words[0].size() > limits::path_bytes_max() || words[0].find('\0') != words[0].npos)
    return;
  auto file = normalize_path(words[0], place.directory);
  for (const auto& text :
       {"rm -- " + quoted(words[0]), ": >" + quoted(words[0]), "tee -- " + quoted(words[0]), "sed -i s/a/b/ -- " + quoted(words[0])}) {
    auto found = shell::paths_written_by(text, place);
    SWARM_HOLDS(found.size() == 1 && found[0].path == file && !found[0].pattern);
  }
}

void check_patch(const std::string& text, int strip) {
  auto names = shell::paths_in_envelope(text);
  SWARM_HOLDS(names.size() <= limits::hook_paths_max + 1);
  for (const auto& name : names)
    SWARM_HOLDS(!name.empty() && trimmed(name) == name && name.find('\n') == name.npos && text.find(name) != text.npos);
  for (const auto& name : shell::paths_in_diff(text, strip))
    SWARM_HOLDS(name.find('\n') == name.npos && text.find(name) != text.npos);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::input in{data, size};
  auto which = in.byte();
  switch (which % 3) {
    case 0: check_script(in.rest()); break;
    case 1: {
      std::vector<std::string> words;
      while (!in.empty() && words.size() < 32)
        words.push_back(in.piece());
      check_words(words);
      break;
    }
    default: check_patch(in.rest(), which / 3 % 4 - 1);
  }
  return 0;
}
