// mcp: the tools of the swarm for an agent, over stdin and stdout.
#include "actors/base/crypto.hpp"
#include "actors/base/limits.hpp"
#include "actors/base/process.hpp"
#include "cli/hook/agent_process.hpp"
#include "cli/profile.hpp"
#include "cli/verb.hpp"
#include "cli/verbs/follow.hpp"
#include "gateway/mcp/stdio.hpp"

#include <atomic>
#include <iostream>

#include <unistd.h>

namespace swarm::cli {

namespace {

mcp::call_failed as_call_failed(const failure& f) {
  using why = mcp::call_failed::why;
  auto reason = why::refused;
  if (f.unknown_token)
    reason = why::unknown_session;
  else if (f.exit_status == code::no_node)
    reason = why::no_node;
  else if (f.exit_status == code::deadline)
    reason = why::deadline;
  else if (f.exit_status == code::interrupted)
    reason = why::cancelled;
  return {reason, reason == why::cancelled ? "cancelled" : f.what()};
}

class port_connection final : public mcp::connection {
  template <class Call>
  static auto told(Call call) {
    try {
      return call();
    } catch (const failure& f) {
      throw as_call_failed(f);
    }
  }

public:
  explicit port_connection(std::unique_ptr<node_line> port) : port_(std::move(port)) {}

  v1::Reply execute(const v1::Command& command, const mcp::environment_list& environment, std::int64_t extra_ms) override {
    return told([&] { return port_->execute(command, environment, extra_ms); });
  }
  v1::Answer ask(const v1::Query& query) override {
    return told([&] { return port_->ask(query); });
  }
  v1::Activity wait_for_activity(const v1::WaitRequest& request) override {
    return told([&] { return port_->wait_for_activity(request); });
  }
  void watch(v1::WatchRequest request, std::int64_t timeout_ms, const std::function<bool(const v1::WatchReply&)>& on) override {
    std::atomic<bool> late = false;
    ticker timer{0, nullptr, timeout_ms, [&] {
                   late = true;
                   port_->cancel();
                 }};
    told([&] {
      for (bool go_on = true; go_on && !late && !cancelled_;) {
        auto end = port_->watch(request, [&](const v1::WatchReply& reply) {
          if (reply.revision() > request.after()) {
            request.set_after(reply.revision());
            request.set_from_now(false);
          }
          return go_on = on(reply);
        });
        if (end == stream_end::not_kept) {
          request.set_after(0);
          request.set_from_now(true);
          go_on = on({});
        } else if (end == stream_end::stopped || end == stream_end::complete) {
          break;
        }
      }
      if (cancelled_)
        throw failure(code::interrupted, "");
      return 0;
    });
  }
  v1::PtyList list_ptys(const v1::ListPtysRequest& request) override {
    return told([&] { return port_->list(request); });
  }
  void read_pty(v1::ReadPtyRequest request, std::int64_t timeout_ms, const std::function<bool(const v1::PtyChunk&)>& on) override {
    std::atomic<bool> late = false;
    ticker timer{0, nullptr, timeout_ms, [&] {
                   late = true;
                   port_->cancel();
                 }};
    told([&] {
      for (auto end = stream_end::lost; !late && !cancelled_ && (end == stream_end::lost || end == stream_end::too_slow);)
        end = port_->read(request, [&](const v1::PtyChunk& chunk) {
          // A stream that was cut goes on at the next offset: every byte is told once.
          request.set_from(chunk.offset() + chunk.data().size());
          request.set_tail(false);
          return on(chunk) && !chunk.ended();
        });
      if (cancelled_)
        throw failure(code::interrupted, "");
      return 0;
    });
  }
  v1::SendPtyReply send_to_pty(const v1::SendPtyRequest& request) override {
    return told([&] { return port_->send(request); });
  }
  void cancel() override {
    cancelled_ = true;
    port_->cancel();
  }

private:
  std::unique_ptr<node_line> port_;
  std::atomic<bool> cancelled_ = false;
};

class process_host final : public mcp::host {
public:
  explicit process_host(const invocation& cli) : cli_(cli) {}

  std::unique_ptr<mcp::connection> connect(const std::string& token, start when) const override {
    return std::make_unique<port_connection>(cli_.node().finder.connect(token, when == start::if_needed));
  }
  std::string variable(std::string_view name) const override { return cli_.env().get(name); }
  v1::Caller caller() const override { return cli_.command().caller(); }
  std::string working_directory() const override { return cli_.directory(); }
  std::string state_directory() const override { return cli_.node().finder.state_directory(); }
  std::int64_t now_ms() const override { return cli_.now_ms(); }
  std::int64_t boot_ms() const override { return cli_.boot_ms(); }
  std::string new_token() const override { return to_hex(random_bytes(32)); }
  std::pair<std::int64_t, std::uint64_t> process() const override { return {getpid(), pid_start_time(getpid()).value_or(0)}; }
  kinship kin_of(std::int64_t pid, std::uint64_t began) const override {
    if (pid <= 0 || pid_start_time(static_cast<pid_t>(pid)) != began)
      return kinship::unclear;
    if (auto starter = starter_of(getpid()); starter && starter->pid == pid)
      return kinship::agent;
    return is_descendant(getpid(), static_cast<pid_t>(pid)) == false ? kinship::stranger : kinship::unclear;
  }
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
