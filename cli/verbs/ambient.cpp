// context: the block about the swarm that belongs into an agent's prompt. Its commands, about nodes by name, are in cmd_context.cpp.
#include "cli/verb.hpp"
#include "gateway/session/ambient_block.hpp"

namespace swarm::cli {

namespace {

int run_context(invocation& cli) {
  auto me = cli.actor();
  auto query = cli.query();
  query.set_scope(me.scope());
  query.set_viewer(me.id());
  auto known = mcp::gather_ambient(query, [&](const v1::Query& q) { return cli.node().coordination.ask(q); });
  if (!known)
    throw failure(code::refused, "instance " + me.id() + " has just ended");
  auto block = mcp::make_ambient_block(*known);
  if (cli.json_wanted())
    cli.io().print(block.value);
  else
    cli.io().raw(block.text);
  return code::ok;
}

void build_context(CLI::App& app, invocation& cli) {
  on_run(app, cli, [&cli] { return run_context(cli); });
  add_context_commands(app, cli);
}

constexpr verb verbs[] = {
  {"context", subject::agents, "print the block for a prompt: this session, its mail, tasks, locks and peers; with a command below: nodes by name",
   "  swarmctl context --as 3fa1\n  swarmctl context set gpu --ssh me@gpu-box --scope web\n  swarmctl context use gpu\n"
   "  swarmctl --context gpu status\n  swarmctl context use default",
   build_context},
};

} // namespace

std::span<const verb> ambient_verbs() { return verbs; }

} // namespace swarm::cli
