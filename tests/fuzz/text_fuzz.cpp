// Helpers that take anybody's bytes: paths, scopes, terminal text, hex, names of files, variables.
#include <algorithm>
#include <filesystem>

#include "actors/base/environment.hpp"
#include "actors/base/limits.hpp"
#include "actors/base/paths.hpp"
#include "actors/base/text.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace swarm;

namespace {

bool is_normal(const std::string& p) {
  if (p.empty() || p.front() != '/')
    return false;
  if (p == "/")
    return true;
  auto around = p + "/";
  return p.back() != '/' && around.find("//") == std::string::npos && around.find("/./") == std::string::npos &&
         around.find("/../") == std::string::npos;
}

void check_paths(const std::string& a, const std::string& b) {
  auto directory = normalize_path(b, "/work");
  SWARM_HOLDS(is_normal(directory));
  SWARM_HOLDS(normalize_path(directory, "/elsewhere") == directory);
  auto path = normalize_path(a, directory);
  SWARM_HOLDS(is_normal(path));
  SWARM_HOLDS(is_inside(path, path));
  SWARM_HOLDS(is_inside("/", path));
  SWARM_HOLDS(is_inside(directory, normalize_path("x", directory)));
  if (directory != "/")
    SWARM_HOLDS(!is_inside(directory, directory + "x"));
  for (const auto& root : {std::string{"/"}, std::string{"/work"}, directory}) {
    auto file = resolve_file(a, directory, root, "/work");
    SWARM_HOLDS(is_normal(file));
    // What is resolved stays what it is, also where the machine has a repository by chance.
    SWARM_HOLDS(resolve_file(file, directory, directory, git_root(directory)) == file);
  }
  auto scope = resolve_scope(a, directory);
  SWARM_HOLDS(is_named_scope(scope) || is_normal(scope));
}

void check_text(const std::string& a, std::uint8_t n) {
  for (bool newlines : {false, true}) {
    auto shown = escape_control(a, newlines);
    SWARM_HOLDS(is_utf8(shown));
    for (unsigned char c : shown)
      SWARM_HOLDS((c >= 0x20 && c != 0x7f) || c == '\t' || (c == '\n' && newlines));
    for (std::size_t i = 0; i + 1 < shown.size(); ++i)
      SWARM_HOLDS(!(static_cast<unsigned char>(shown[i]) == 0xc2 && static_cast<unsigned char>(shown[i + 1]) < 0xa0));
    SWARM_HOLDS(escape_control(shown, newlines) == shown);
  }
  auto clean = to_utf8(a);
  SWARM_HOLDS(is_utf8(clean));
  SWARM_HOLDS(!is_utf8(a) || clean == a);
  auto head = utf8_prefix(clean, n);
  SWARM_HOLDS(head.size() <= n && clean.compare(0, head.size(), head) == 0);
  SWARM_HOLDS(is_utf8(head));
  SWARM_HOLDS(clean.size() <= n || head.size() + 3 >= n);
  SWARM_HOLDS(utf16_length(clean) <= clean.size());
}

void check_names(const std::string& a) {
  SWARM_HOLDS(from_hex(to_hex(a)) == a);
  if (auto raw = from_hex(a); !raw.empty()) {
    auto lower = a;
    std::transform(lower.begin(), lower.end(), lower.begin(),
                   [](unsigned char c) { return c >= 'A' && c <= 'F' ? static_cast<char>(c + 32) : static_cast<char>(c); });
    SWARM_HOLDS(to_hex(raw) == lower);
  }
  if (is_plain_name(a)) {
    auto inside = normalize_path(a, "/state/pty");
    SWARM_HOLDS(inside == "/state/pty/" + a);
    SWARM_HOLDS(a.size() <= limits::id_bytes_max);
  }
  SWARM_HOLDS(!(inheritable(a) && a == "SWARM_TOKEN"));
  SWARM_HOLDS(domain::like(a, "%"));
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::input in{data, size};
  auto n = in.byte();
  auto b = in.piece();
  auto a = in.rest();
  // The file system's own limit; longer ones are refused before.
  if (a.size() > limits::path_bytes_max() || b.size() > limits::path_bytes_max())
    return 0;
  check_text(a, n);
  check_names(a);
  if (a.find('\0') == std::string::npos && b.find('\0') == std::string::npos)
    check_paths(a, b);
  return 0;
}
