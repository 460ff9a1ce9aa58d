// hook: the command that an agent runs at its events.
#include "actors/base/limits.hpp"
#include "cli/hook/run.hpp"
#include "cli/verb.hpp"

#include <array>

#include <unistd.h>

namespace swarm::cli {

namespace {

struct options {
  std::string agent;
  std::string event;
  hook_options how;
};

/// Reads to the end, so that the writer never meets a closed pipe. Returns nothing for more than is allowed.
std::string read_input(int fd) {
  std::string out;
  if (isatty(fd) != 0)
    return out;
  std::array<char, 64 * limits::kib> buffer;
  bool too_long = false;
  for (;;) {
    auto n = read(fd, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      return too_long ? std::string{} : out;
    too_long = too_long || out.size() + static_cast<std::size_t>(n) > limits::hook_input_bytes_max;
    if (!too_long)
      out.append(buffer.data(), static_cast<std::size_t>(n));
  }
}

/// Unknown agents and events end with status 0, too: a newer agent must not be stopped by them.
int run(invocation& cli, const options& o) {
  const auto* agent = agents::find(o.agent);
  auto event = find_hook_event(o.event);
  if (agent && event)
    run_hook(cli, *agent, *event, o.how, read_input(STDIN_FILENO));
  else
    cli.io().error("swarmctl hook: there is no " + (agent ? "event " + o.event : "host " + o.agent) + "; see: swarmctl hook --help");
  return code::ok;
}

void build_hook(CLI::App& app, invocation& cli) {
  auto o = std::make_shared<options>();
  option(app, "host", o->agent, "claude, codex, opencode, hermes or gemini", argument::agent)->required();
  option(app, "event", o->event, "session-start, pre-tool-use, post-tool-use, session-end, prompt-submit, stop or notification")->required();
  flag(app, "--enforce", o->how.enforce, "a write takes the lock of its file until the tool has ended");
  flag(app, "--fail-closed", o->how.fail_closed, "deny what cannot be checked, instead of letting it pass");
  on_run(app, cli, [o, &cli] { return run(cli, *o); });
}

constexpr verb verbs[] = {
  {.name = "hook",
   .about = subject::agents,
   .summary = "handle an event of an agent's program: the event as JSON on stdin, the answer on stdout",
   .examples = "  echo '{\"session_id\":\"s1\",\"source\":\"startup\"}' | swarmctl hook claude session-start",
   .build = build_hook,
   .node = node_choice::told,
   .only_here = agents_are_here},
};

} // namespace

std::span<const verb> hook_verbs() { return verbs; }

} // namespace swarm::cli
