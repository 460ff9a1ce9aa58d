// context: the block about the swarm that belongs into an agent's prompt. Its commands, about nodes by name, are in cmd_context.cpp.
#include "cli/verb.hpp"
#include "gateway/session/ambient_block.hpp"

namespace swarm::cli {

namespace {

int run_context(context& ctx) {
  auto me = ctx.actor();
  auto query = ctx.query();
  query.set_scope(me.scope());
  query.set_viewer(me.id());
  auto known = mcp::gather_ambient(query, [&](const v1::Query& q) { return ctx.door().coordination.ask(q); });
  if (!known)
    throw failure(code::refused, "instance " + me.id() + " has just ended");
  auto block = mcp::make_context_block(*known);
  if (ctx.json_wanted())
    ctx.io().print(block.value);
  else
    ctx.io().raw(block.text);
  return code::ok;
}

void build_context(CLI::App& app, context& ctx) {
  on_run(app, ctx, [&ctx] { return run_context(ctx); });
  add_context_commands(app, ctx);
}

constexpr verb verbs[] = {
  {"context", "a short block for a prompt: who this instance is, its mail, tasks and locks, its peers; with a command below: nodes by name",
   "  swarmctl context --as 3fa1\n  swarmctl context set gpu --ssh me@gpu-box --scope web\n  swarmctl context use gpu\n"
   "  swarmctl --context gpu status\n  swarmctl context use default",
   build_context},
};

} // namespace

std::span<const verb> ambient_verbs() { return verbs; }

} // namespace swarm::cli
