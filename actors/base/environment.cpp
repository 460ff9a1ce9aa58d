#include "actors/base/environment.hpp"

#include <array>
#include <cstdlib>

#include <pwd.h>
#include <unistd.h>

namespace swarm {

bool inheritable(std::string_view name) noexcept {
  constexpr std::array<std::string_view, 13> names{"PATH",      "HOME", "USER",   "LOGNAME", "SHELL",         "LANG",          "TERM",
                                                   "COLORTERM", "TZ",   "TMPDIR", "EDITOR",  "SSH_AUTH_SOCK", "AGENT_IDENTITY"};
  for (auto n : names)
    if (n == name)
      return true;
  // How the agents' own programs are set up: where their settings are, whose account they use, how they reach it.
  constexpr std::array<std::string_view, 9> agents{"ANTHROPIC_", "CLAUDE_",   "OPENAI_", "CODEX_", "GEMINI_",
                                                   "GOOGLE_",    "OPENCODE_", "HERMES_", "XDG_"};
  for (auto prefix : agents)
    if (name.substr(0, prefix.size()) == prefix)
      return !name.starts_with("CLAUDE_CODE_") || name.starts_with("CLAUDE_CODE_USE_") || name == "CLAUDE_CODE_OAUTH_TOKEN";
  constexpr std::array<std::string_view, 8> network{"HTTP_PROXY",  "HTTPS_PROXY", "NO_PROXY",      "http_proxy",
                                                    "https_proxy", "no_proxy",    "SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS"};
  for (auto n : network)
    if (n == name)
      return true;
  return name.substr(0, 3) == "LC_" || (name.substr(0, 6) == "SWARM_" && name != "SWARM_TOKEN" && name != "SWARM_WORKTREE");
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
