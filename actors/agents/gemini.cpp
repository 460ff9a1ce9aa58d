#include "actors/agents/programs.hpp"

namespace swarm::agents {

namespace {

// deploy/agents/gemini/settings.json holds the same hooks for workers; a test compares them.
constexpr hook_spec hooks[] = {
  {"SessionStart", "session-start", nullptr},
  {"BeforeAgent", "prompt-submit", nullptr},
  {"BeforeTool", "pre-tool-use", "write_file|replace|run_shell_command"},
  {"AfterTool", "post-tool-use", nullptr},
  {"AfterAgent", "stop", nullptr},
  {"Notification", "notification", nullptr},
  {"SessionEnd", "session-end", nullptr},
};

constexpr title_mark titles[] = {
  {"\u25C7  Ready", state::idle},
  {"\u270B  Action Required", state::blocked},
  {"\u2726  ", state::working},
  {"\u23F2  ", state::working},
};

constexpr needed_file policy{"agents/gemini/swarm.toml",
                             "Gemini CLI would ask before each of the swarm's tools, and nobody would be there to answer: our policy for it"};

/// A server that its user has set up is not trusted, and takes the place of ours: nobody is there to allow each of its tools. Policies on the
/// command line replace the user's own, so those are named, too.
std::vector<std::string> arguments_of(const start& s) {
  return {"--skip-trust", "--policy", shared_file(s, policy.path), "--policy", "~/.gemini/policies"};
}

std::vector<std::string> environment_of(const start& s) {
  // One process: a signal for the worker must reach the program.
  std::vector<std::string> out{"GEMINI_CLI_NO_RELAUNCH=true"};
  // Gemini CLI takes these settings only from a file of root's, as a package installs it. `swarmctl install` is for all others.
  if (auto settings = shared_file(s, "agents/gemini/settings.json"); !settings.empty())
    out.push_back("GEMINI_CLI_SYSTEM_DEFAULTS_PATH=" + settings);
  return out;
}

constexpr std::string_view scripts[] = {"/@google/gemini-cli/", "/gemini-cli/bundle/"};
constexpr environment_mark marks[] = {{"GEMINI_CLI", "1"}};

} // namespace

constinit const agent gemini{.what = program::gemini,
                             .name = "gemini",
                             .title = "Gemini CLI",
                             .runtime = "gemini",
                             .variables = "GEMINI",
                             .settings = {"GEMINI_CLI_HOME", ".gemini", ".gemini"},
                             .dialect = json_dialect::comments,
                             .has_early_hooks = true,
                             .hooks = hooks,
                             .titles = titles,
                             .needs = &policy,
                             .looks = {.scripts = scripts},
                             .marks = marks,
                             .arguments = arguments_of,
                             .environment = environment_of};

} // namespace swarm::agents
