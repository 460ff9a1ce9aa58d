#include "actors/base/environment.hpp"

#include <algorithm>
#include <cstdlib>

#include <pwd.h>
#include <unistd.h>

namespace swarm {

namespace {

// Words of a list; a star at the end stands for any further characters. docs/security.md shows these very texts, which a test compares.

/// What a shell and its programs need, how programs reach the network, and what tells a worker who it is.
constexpr std::string_view everybodys =
  "PATH HOME USER LOGNAME SHELL LANG LC_* TERM COLORTERM TZ TMPDIR EDITOR SSH_AUTH_SOCK AGENT_IDENTITY XDG_* SWARM_*";
constexpr std::string_view network = "HTTP_PROXY HTTPS_PROXY NO_PROXY http_proxy https_proxy no_proxy SSL_CERT_FILE NODE_EXTRA_CA_CERTS";
/// They belong to one session, or to one worker's process.
constexpr std::string_view nobodys = "SWARM_TOKEN SWARM_WORKTREE";

/// How an agent's program is set up: where its settings are, whose account it uses, how it reaches its models. Its own variables, and those of the
/// makers of models whose names its documentation gives.
struct agents_own {
  std::string_view harness;
  std::string_view names;
};
constexpr agents_own agents[] = {
  {"claude", "ANTHROPIC_* CLAUDE_* GOOGLE_*"},
  {"codex", "CODEX_* OPENAI_*"},
  {"opencode", "OPENCODE_* ANTHROPIC_* OPENAI_* GEMINI_* GOOGLE_*"},
  {"gemini", "GEMINI_* GOOGLE_*"},
  {"hermes", "HERMES_* ANTHROPIC_* OPENAI_* GEMINI_* GOOGLE_*"},
};
/// What else begins so is of one run of Claude Code.
constexpr std::string_view of_one_run = "CLAUDE_CODE_*";
constexpr std::string_view of_the_account = "CLAUDE_CODE_USE_* CLAUDE_CODE_OAUTH_TOKEN";

constexpr bool names(std::string_view list, std::string_view name) {
  while (!list.empty()) {
    auto word = list.substr(0, list.find(' '));
    list.remove_prefix(std::min(list.size(), word.size() + 1));
    if (word.ends_with('*') ? name.starts_with(word.substr(0, word.size() - 1)) : name == word)
      return true;
  }
  return false;
}

} // namespace

bool inheritable(std::string_view name) noexcept { return (names(everybodys, name) || names(network, name)) && !names(nobodys, name); }

bool inheritable(std::string_view name, std::string_view harness) noexcept {
  if (inheritable(name))
    return true;
  if (names(of_one_run, name) && !names(of_the_account, name))
    return false;
  return std::any_of(std::begin(agents), std::end(agents), [&](const auto& a) { return a.harness == harness && names(a.names, name); });
}

std::vector<std::string> clean_environment() {
  std::vector<std::string> out{"PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8"};
  const char* home = std::getenv("HOME");
  const passwd* user = nullptr;
  // The user database may be remote and slow; it is asked only for what the environment does not say.
  const char* name = std::getenv("USER");
  const char* shell = std::getenv("SHELL");
  if (!home || !name || !shell)
    user = getpwuid(geteuid());
  auto add = [&](const char* key, const char* from_environment, const char* from_database) {
    if (const char* value = from_environment ? from_environment : from_database)
      out.push_back(std::string{key} + "=" + value);
  };
  add("HOME", home, user ? user->pw_dir : nullptr);
  add("USER", name, user ? user->pw_name : nullptr);
  add("LOGNAME", name, user ? user->pw_name : nullptr);
  add("SHELL", shell, user ? user->pw_shell : nullptr);
  return out;
}

} // namespace swarm
