// mcp: the tools of the swarm for an agent, over stdin and stdout.
#include "actors/base/crypto.hpp"
#include "actors/base/limits.hpp"
#include "actors/base/process.hpp"
#include "cli/hook/agent_process.hpp"
#include "cli/profile.hpp"
#include "cli/verb.hpp"
#include "gateway/client/connection.hpp"
#include "gateway/mcp/stdio.hpp"

#include <atomic>
#include <iostream>

#include <unistd.h>

namespace swarm::cli {

namespace {

class process_host final : public mcp::host {
public:
  explicit process_host(const invocation& cli) : cli_(cli) {}

  std::unique_ptr<connection> connect(const std::string& token, start when) const override {
    return connection_over(cli_.node().finder.connect(token, when == start::if_needed));
  }
  std::string variable(std::string_view name) const override { return cli_.env().get(name); }
  v1::Caller caller() const override { return cli_.command().caller(); }
  std::string working_directory() const override { return cli_.directory(); }
  std::string state_directory() const override { return cli_.node().finder.state_directory(); }
  std::int64_t now_ms() const override { return cli_.now_ms(); }
  std::int64_t boot_ms() const override { return cli_.boot_ms(); }
  std::string new_token() const override { return to_hex(random_bytes(32)); }
  std::pair<std::int64_t, std::uint64_t> process() const override { return {getpid(), pid_start_time(getpid()).value_or(0)}; }
  bool is_agent(std::int64_t pid, std::uint64_t began) const override {
    auto starter = starter_of(getpid());
    return starter && starter->pid == pid && starter->start == began;
  }
  void check_directory(const std::string& directory) const override { cli::check_directory(cli_, directory); }
  void check_directories(const std::string& label, const std::string& directory, const std::string& file_root) const override {
    check_identity_roots(cli_, cli_.env(), label, directory, file_root);
  }
  mcp::worker_settings worker(const v1::Session& requester, const std::string& label, const std::string& harness,
                              const std::string& directory) const override {
    auto settings = settings_of_worker(cli_, requester, label, harness, directory);
    return {std::move(settings.harness), std::move(settings.environment)};
  }
  void note(const std::string& text) const override { cli_.io().error("swarmctl mcp: " + text); }

private:
  const invocation& cli_;
};

int run_mcp(invocation& cli) {
  if (!cli.flags.timeout_given)
    cli.node().finder.set_timeout_ms(limits::mcp_restart_wait().count());
  process_host process{cli};
  mcp::tool_table tools;
  mcp::add_tools(tools);
  return mcp::serve_stdio(process, tools, STDIN_FILENO, STDOUT_FILENO);
}

void build_mcp(CLI::App& app, invocation& cli) {
  on_run(app, cli, [&cli] { return run_mcp(cli); });
}

constexpr verb verbs[] = {
  {.name = "mcp",
   .about = subject::agents,
   .summary = "serve the swarm's tools to an agent: an MCP server on stdin and stdout",
   .examples = "  claude mcp add swarm -- swarmctl mcp",
   .build = build_mcp,
   .node = node_choice::told,
   .only_here = agents_are_here},
};

} // namespace

std::span<const verb> mcp_verbs() { return verbs; }

} // namespace swarm::cli
