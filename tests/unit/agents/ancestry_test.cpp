#include "actors/agents/ancestry.hpp"

#include <algorithm>
#include <map>
#include <random>
#include <tuple>

#include <doctest/doctest.h>

#include "tests/support/process_tree.hpp"

using namespace swarm;
using namespace swarm::agents;
using testing::process_tree;

namespace {

constexpr uid_t us = 1000;

standing stands(const process_tree& all, pid_t pid) {
  auto line = lineage_of(all, pid);
  REQUIRE(line);
  return standing_of(all, *line, us);
}

/// "claude 20", "mark", "orphan" or "user".
std::string verdict(const process_tree& all, pid_t pid) {
  auto s = stands(all, pid);
  if (s.root)
    return s.chain[*s.root].agent->name + std::string{" "} + std::to_string(s.chain[*s.root].pid);
  return !s.mark.empty() ? "mark" : s.is_orphan ? "orphan" : "user";
}

/// sshd of root's, a person's shell 10 that leads its kernel session.
process_tree with_shell() {
  process_tree all;
  all.add(5, {.executable = "/usr/sbin/sshd", .user = 0, .is_closed = true});
  all.add(10, {.parent = 5, .session = 10, .executable = "/bin/bash"});
  return all;
}

/// Below it claude 20, whose shell 30 leads a kernel session of its own, as Claude Code's does.
process_tree with_claude() {
  auto all = with_shell();
  all.add(20, {.parent = 10, .executable = "/home/u/.local/share/claude/versions/2.1.0", .name = "claude"});
  all.add(30, {.parent = 20, .session = 30, .executable = "/bin/bash", .environment = {"CLAUDECODE=1"}});
  return all;
}

} // namespace

TEST_CASE("the programs of agents are told by their executable, or by the script that an interpreter runs") {
  const std::vector<std::tuple<look, const char*>> table{
    {{"/home/u/.local/share/claude/versions/2.1.332", "claude", {}}, "claude"},
    {{"/home/u/.local/share/claude/versions/2.1.332", "claude daemon", {}}, "claude"},
    {{"/usr/lib/node_modules/@anthropic-ai/claude-code/bin/claude.exe", "claude", {}}, "claude"},
    {{"/home/u/.vscode/extensions/anthropic.claude-code-2/resources/native-binary/claude", "claude", {}}, "claude"},
    {{"/opt/claude (deleted)", "claude", {}}, "claude"},
    {{"/usr/bin/node", "claude", {"claude"}}, "claude"},
    {{"/usr/bin/node", "node", {"node", "--no-warnings", "/usr/lib/node_modules/@anthropic-ai/claude-code/cli.js"}}, "claude"},
    {{"/usr/bin/bash", "claude", {}}, "claude"},
    {{"/x/vendor/x86_64-unknown-linux-musl/bin/codex", "codex", {}}, "codex"},
    {{"/usr/bin/node", "node", {"node", "/usr/bin/codex", "exec"}}, "codex"},
    {{"", "codex", {"/opt/codex", "exec"}}, "codex"}, // it lets nobody look into it
    {{"/usr/bin/node", "node", {"/usr/bin/node", "--max-old-space-size=4096", "/x/@google/gemini-cli/bundle/gemini.js"}}, "gemini"},
    {{"/usr/bin/node", "node-MainThread", {"node", "-r", "/x/hook.js", "/usr/bin/gemini"}}, "gemini"},
    {{"/x/node_modules/opencode-ai/bin/opencode.exe", "opencode", {}}, "opencode"},
    {{"/x/node_modules/opencode-ai/bin/.opencode", ".opencode", {}}, "opencode"},
    {{"/home/u/.bun/bin/bun", "bun", {"bun", "run", "/x/opencode-ai/src/index.ts"}}, "opencode"},
    {{"/home/u/.hermes/hermes-agent/venv/bin/python3.12", "hermes", {"python3", "/home/u/.local/bin/hermes"}}, "hermes"},
    {{"/usr/bin/python3.11", "python3", {"python3", "-X", "dev", "-m", "hermes_cli.main", "gateway"}}, "hermes"},
  };
  for (const auto& [seen, name] : table) {
    CAPTURE(seen.executable);
    CAPTURE(seen.name);
    REQUIRE(recognise(seen));
    CHECK(recognise(seen)->name == std::string{name});
  }
}

TEST_CASE("editors, terminals, shells and other programs of the same interpreters are no agents") {
  const std::vector<look> table{
    {"/usr/share/code/code", "code", {}},
    {"/usr/bin/node", "node", {"node", "/home/u/.vscode-server/bin/1/out/server-main.js"}},
    {"/usr/bin/node", "node", {"node", "/home/u/claude-notes/server.js", "claude"}},
    {"/usr/bin/node", "node", {"node", "-e", "claude"}},
    {"/usr/bin/node", "node", {"node"}},
    {"/usr/bin/python3", "python3", {"python3", "-c", "hermes"}},
    {"/usr/bin/python3", "python3", {"python3", "-m", "hermes_client"}},
    {"/usr/bin/bash", "bash", {"bash", "/home/u/bin/claude"}},
    {"/usr/bin/tmux", "tmux: server", {"tmux", "new", "-s", "claude"}},
    {"/usr/bin/vim", "vim", {"vim", "claude"}},
    {"/opt/codex", "codex-linux-san", {"codex-linux-sandbox"}}, // becomes the command
    {"/opt/codex-code-mode-host", "codex-code-mode", {}},
    {"", "", {}},
  };
  for (const auto& seen : table) {
    CAPTURE(seen.executable);
    CAPTURE(seen.name);
    CHECK_FALSE(recognise(seen));
  }
}

TEST_CASE("whoever is below an agent is the agent's, the nearest one's") {
  auto all = with_claude();
  all.add(40, {.parent = 30, .executable = "/usr/bin/swarmctl"});
  CHECK(verdict(all, 40) == "claude 20");
  CHECK(verdict(all, 20) == "claude 20");
  CHECK(verdict(all, 10) == "user");
  all.add(50, {.parent = 30, .executable = "/opt/codex"});
  all.add(51, {.parent = 50, .executable = "/usr/bin/swarmctl"});
  CHECK(verdict(all, 51) == "codex 50");
}

TEST_CASE("what a person types into an agent's own prompt for commands is the agent's") {
  auto all = with_claude();
  all.add(60, {.parent = 20, .executable = "/bin/bash"}); // ! swarmctl
  all.add(61, {.parent = 60, .executable = "/usr/bin/swarmctl"});
  CHECK(verdict(all, 61) == "claude 20");
}

TEST_CASE("a background job that an agent's shell has left behind is an orphan, or marked where it keeps the environment") {
  auto all = with_claude();
  all.add(40, {.parent = 30, .executable = "/bin/bash"});
  all.add(41, {.parent = 40, .executable = "/usr/bin/swarmctl", .environment = {"CLAUDECODE=1"}});
  all.add(42, {.parent = 40, .executable = "/usr/bin/swarmctl"}); // env -u CLAUDECODE
  all.end(30);                                                    // (sleep 1; swarmctl decide …) &
  CHECK(verdict(all, 41) == "mark");
  CHECK(verdict(all, 42) == "orphan");
  CHECK(stands(all, 41).mark == "CLAUDECODE=1");
}

TEST_CASE("the user's service manager takes orphans as the first process does") {
  auto all = with_claude();
  all.add(7, {.session = 7, .executable = "/usr/lib/systemd/systemd"});
  all.add(42, {.parent = 30, .executable = "/usr/bin/swarmctl"});
  all.end(30, 7);
  CHECK(verdict(all, 42) == "orphan");
}

TEST_CASE("people are no orphans: terminals, ssh, cron, units and what these started") {
  auto all = with_shell();
  all.add(11, {.parent = 10, .executable = "/usr/bin/swarmctl"});
  CHECK(verdict(all, 11) == "user"); // ssh
  CHECK(stands(all, 11).end == walk_end::stranger);
  all.add(12, {.parent = 5, .session = 12, .executable = "/usr/bin/swarmctl"});
  CHECK(verdict(all, 12) == "user"); // ssh host swarmctl
  all.add(13, {.executable = "/usr/sbin/cron", .user = 0, .is_closed = true});
  all.add(14, {.parent = 13, .session = 14, .executable = "/bin/sh"});
  all.add(15, {.parent = 14, .executable = "/usr/bin/swarmctl"});
  CHECK(verdict(all, 15) == "user"); // cron
  all.add(7, {.session = 7, .executable = "/usr/lib/systemd/systemd"});
  all.add(16, {.parent = 7, .session = 16, .executable = "/home/u/bin/nightly"});
  all.add(17, {.parent = 16, .executable = "/usr/bin/swarmctl"});
  CHECK(verdict(all, 16) == "user"); // a unit of the user's
  CHECK(verdict(all, 17) == "user");
  all.add(18, {.session = 18, .executable = "/usr/bin/swarmctl"});
  CHECK(verdict(all, 18) == "user"); // a unit of the machine's, with User=
  // i3 starts a terminal in a kernel session whose leader has ended; the shell in it leads one of its own.
  all.add(19, {.session = 9999, .executable = "/usr/bin/alacritty"});
  all.add(21, {.parent = 19, .session = 21, .executable = "/bin/zsh"});
  all.add(22, {.parent = 21, .executable = "/usr/bin/swarmctl"});
  CHECK(verdict(all, 22) == "user");
}

TEST_CASE("a job that a person has put behind with nohup is his while its terminal is there, and an orphan afterwards") {
  auto all = with_shell();
  all.add(11, {.parent = 10, .executable = "/bin/sh"});
  all.add(12, {.parent = 11, .executable = "/usr/bin/swarmctl"});
  CHECK(verdict(all, 12) == "user");
  all.end(10);
  CHECK(verdict(all, 12) == "orphan");
}

TEST_CASE("an editor with a terminal and a tool server is no agent") {
  auto all = with_shell();
  all.add(20, {.session = 20, .executable = "/usr/share/code/code"});
  all.add(21, {.parent = 20, .executable = "/usr/bin/swarmctl"}); // mcp
  all.add(22, {.parent = 20, .session = 22, .executable = "/bin/bash", .environment = {"TERM_PROGRAM=vscode", "CLAUDE_CODE_SSE_PORT=1234"}});
  all.add(23, {.parent = 22, .executable = "/usr/bin/swarmctl", .environment = {"CLAUDE_CODE_SSE_PORT=1234", "CODEX_HOME=/x", "OPENCODE_CONFIG=/y"}});
  CHECK(verdict(all, 21) == "user");
  CHECK(verdict(all, 23) == "user");
  CHECK(stands(all, 23).chain[2].is == role::editor);
  // An agent that the editor starts is one.
  all.add(24, {.parent = 20, .executable = "/x/native-binary/claude"});
  all.add(25, {.parent = 24, .executable = "/usr/bin/swarmctl"});
  CHECK(verdict(all, 25) == "claude 24");
}

TEST_CASE("a server of terminals ends the walk, and what it has from an agent's environment does not count in its panes") {
  auto all = with_claude();
  all.add(40, {.parent = 30, .executable = "/usr/bin/tmux", .environment = {"CLAUDECODE=1"}, .name = "tmux: server"});
  all.add(41, {.parent = 40, .session = 41, .executable = "/bin/bash", .environment = {"CLAUDECODE=1"}});
  all.add(42, {.parent = 41, .executable = "/usr/bin/swarmctl", .environment = {"CLAUDECODE=1"}});
  all.change(40, [](auto& p) { p.parent = 1, p.session = 40; });
  CHECK(verdict(all, 42) == "user");
  CHECK(stands(all, 42).end == walk_end::multiplexer);
  // A mark that came later is another one.
  all.add(43, {.parent = 41, .executable = "/usr/bin/swarmctl", .environment = {"GEMINI_CLI=1"}});
  CHECK(verdict(all, 43) == "mark");
  // An agent in a pane is one.
  all.add(44, {.parent = 41, .executable = "/opt/codex"});
  all.add(45, {.parent = 44, .executable = "/usr/bin/swarmctl"});
  CHECK(verdict(all, 45) == "codex 44");
  // screen of Debian has a group of its own, so that nobody may look into it.
  all.add(46, {.session = 46, .executable = "/usr/bin/screen", .arguments = {"SCREEN", "-S", "x"}, .is_closed = true, .name = "screen"});
  all.add(47, {.parent = 46, .session = 47, .executable = "/bin/bash"});
  CHECK(stands(all, 47).end == walk_end::multiplexer);
}

TEST_CASE("a program that is only called like a server of terminals or a service manager hides no agent") {
  auto all = with_claude();
  all.add(40, {.parent = 30, .executable = "/tmp/tmux"});
  all.add(41, {.parent = 40, .session = 41, .executable = "/usr/bin/swarmctl"});
  CHECK(verdict(all, 41) == "claude 20");
  all.add(42, {.parent = 30, .executable = "/tmp/systemd"});
  all.add(43, {.parent = 42, .session = 43, .executable = "/usr/bin/swarmctl"});
  CHECK(verdict(all, 43) == "claude 20");
}

TEST_CASE("a process of another user that cannot be looked into ends the walk: sudo -u, su, login") {
  auto all = with_claude();
  all.add(40, {.parent = 30, .executable = "/usr/bin/sudo", .user = 0, .is_closed = true});
  all.add(41, {.parent = 40, .executable = "/usr/bin/swarmctl"});
  auto s = stands(all, 41);
  CHECK(s.end == walk_end::stranger);
  CHECK_FALSE(s.root);
  CHECK_FALSE(s.is_orphan);
  // Who may look into it goes on, as root does.
  all.change(40, [](auto& p) { p.is_closed = false; });
  CHECK(verdict(all, 41) == "claude 20");
  // One of our own that nobody may look into does not end it.
  all.add(42, {.parent = 30, .executable = "/usr/bin/ssh-agent", .is_closed = true});
  all.add(43, {.parent = 42, .executable = "/usr/bin/swarmctl"});
  CHECK(verdict(all, 43) == "claude 20");
}

TEST_CASE("with hidepid the walk ends where nothing is seen, and an orphan still is one") {
  auto all = with_shell();
  all.change(5, [](auto& p) { p.is_hidden = true; });
  all.change(1, [](auto& p) { p.is_hidden = true; });
  all.add(11, {.parent = 10, .executable = "/usr/bin/swarmctl"});
  CHECK(verdict(all, 11) == "user");
  CHECK(stands(all, 11).end == walk_end::hidden);
  all.add(12, {.parent = 10, .executable = "/usr/bin/swarmctl"});
  all.end(10);
  CHECK(verdict(all, 12) == "orphan");
}

TEST_CASE("in a container the first process may be a person's shell, or the agent itself") {
  process_tree all;
  all.add(1, {.parent = 0, .session = 1, .executable = "/bin/bash"});
  all.add(2, {.parent = 1, .executable = "/usr/bin/swarmctl"});
  CHECK(verdict(all, 2) == "user");
  CHECK(verdict(all, 1) == "user");
  all.add(3, {.parent = 0, .session = 3, .executable = "/bin/sh"}); // docker exec
  all.add(4, {.parent = 3, .executable = "/usr/bin/swarmctl"});
  CHECK(verdict(all, 4) == "user");
  all.add(5, {.parent = 1, .session = 777, .executable = "/usr/bin/swarmctl"}); // left behind by a shell that led session 777
  CHECK(verdict(all, 5) == "orphan");
  all.add(1, {.parent = 0, .session = 1, .executable = "/usr/local/bin/claude"});
  CHECK(verdict(all, 5) == "claude 1");
  CHECK(verdict(all, 4) == "user");
}

TEST_CASE(
  "what an agent leaves behind in a container whose first process leads its session is an orphan, and what is older than the agent is a person's") {
  process_tree all;
  all.add(1, {.parent = 0, .session = 1, .executable = "/bin/sh", .group = 1});
  all.add(2, {.parent = 1, .executable = "/usr/bin/make", .group = 1});
  all.add(3, {.parent = 2, .executable = "/usr/bin/swarmctl", .group = 1});
  CHECK(verdict(all, 3) == "user");
  all.add(4, {.parent = 2, .executable = "/usr/local/bin/claude", .group = 1});
  all.add(5, {.parent = 4, .executable = "/bin/bash", .group = 1});
  all.add(6, {.parent = 5, .executable = "/usr/bin/swarmctl", .group = 1});
  all.end(5);
  CHECK(verdict(all, 6) == "orphan");
  all.add(7, {.parent = 2, .executable = "/usr/bin/swarmctl", .group = 1}); // make's, which is older than the agent
  CHECK(verdict(all, 7) == "user");
  // At a terminal each job of the shell has a process group of its own.
  all.add(8, {.parent = 1, .executable = "/usr/bin/swarmctl"});
  CHECK(verdict(all, 8) == "user");
  // Nobody could have left it behind.
  all.end(4);
  CHECK(verdict(all, 6) == "user");
  // What has been known as an agent's process is one, whatever it runs by now.
  all.add(4, {.parent = 2, .executable = "/bin/bash", .group = 1});
  auto line = lineage_of(all, 6);
  REQUIRE(line);
  CHECK(standing_of(all, *line, us, [](const process_stat& p) { return p.pid == 4 ? find("codex") : nullptr; }).is_orphan);
}

TEST_CASE("a process outside of our namespace, or that is gone, has no lineage, nor has one whose ancestors go in circles") {
  process_tree all;
  CHECK_FALSE(lineage_of(all, 0));
  CHECK_FALSE(lineage_of(all, -3));
  CHECK_FALSE(lineage_of(all, 99));
  all.add(20, {.parent = 21, .executable = "/a", .start = 5});
  all.add(21, {.parent = 20, .executable = "/b", .start = 5});
  CHECK_FALSE(lineage_of(all, 20));
  all.add(30, {.parent = 31, .executable = "/a", .start = 5});
  all.add(31, {.parent = 1, .executable = "/b", .start = 6}); // a recycled number
  CHECK_FALSE(lineage_of(all, 30));
}

TEST_CASE("what was an agent's process stays one, whatever it runs by now") {
  auto all = with_shell();
  all.add(20, {.parent = 10, .executable = "/bin/bash"});
  all.add(21, {.parent = 20, .executable = "/usr/bin/swarmctl"});
  auto line = lineage_of(all, 21);
  REQUIRE(line);
  auto s = standing_of(all, *line, us, [](const process_stat& p) { return p.pid == 20 && p.start == 20 ? find("codex") : nullptr; });
  REQUIRE(s.root);
  CHECK(s.chain[*s.root].pid == 20);
  CHECK(s.chain[*s.root].agent == find("codex"));
}

TEST_CASE("a mark is an exact name with its exact value") {
  auto all = with_shell();
  auto with = [&](const char* variable) {
    all.add(11, {.parent = 10, .executable = "/usr/bin/swarmctl", .environment = {"A=b", variable}});
    return verdict(all, 11);
  };
  for (const auto* mark :
       {"CLAUDECODE=1", "GEMINI_CLI=1", "OPENCODE=1", "CODEX_THREAD_ID=0199", "CODEX_SANDBOX=seatbelt", "CODEX_SANDBOX_NETWORK_DISABLED=1"})
    CHECK_MESSAGE(with(mark) == "mark", mark);
  for (const auto* no :
       {"CLAUDECODE=", "CLAUDECODE=0", "CLAUDECODE_X=1", "XCLAUDECODE=1", "GEMINI_CLI=", "CODEX_HOME=/x", "OPENCODE_CONFIG=/x", "CODEX_SANDBOX="})
    CHECK_MESSAGE(with(no) == "user", no);
}

TEST_CASE("what is said of a process from outside of a node is what its place says") {
  auto all = with_claude();
  all.add(40, {.parent = 30, .executable = "/usr/bin/swarmctl"});
  CHECK(reason_for_suspicion(all, 40, us) == "this process was started by the agent claude (process 20)");
  CHECK(reason_for_suspicion(all, 10, us).empty());
  CHECK(reason_for_suspicion(all, 99, us).empty());
}

TEST_CASE("random trees are judged as a naive reading of the rules judges them") {
  std::mt19937 random{20'261'126};
  auto any = [&](int below) { return static_cast<int>(random() % static_cast<unsigned>(below)); };
  for (int round = 0; round < 2'000; ++round) {
    process_tree all;
    struct node {
      pid_t parent;
      std::string kind;
      pid_t session;
      bool marked;
      pid_t group;
    };
    std::map<pid_t, node> made{{1, {0, "init", 1, false, 1}}};
    const int count = 3 + any(12);
    for (pid_t pid = 2; pid < 2 + count; ++pid) {
      static const char* kinds[] = {"bash", "bash", "bash", "claude", "codex", "tmux", "sudo", "systemd", "code"};
      node n{1 + any(pid - 1), kinds[any(9)], 0, any(4) == 0, pid};
      n.session = any(3) == 0 ? pid : any(5) == 0 ? 500 + pid : made.at(n.parent).session;
      if (any(2) == 0)
        n.group = made.at(n.parent).group;
      made.emplace(pid, n);
      testing::made_process p{.parent = n.parent, .session = n.session, .executable = "/bin/" + n.kind, .group = n.group};
      if (n.marked)
        p.environment = {"CLAUDECODE=1"};
      if (n.kind == "sudo")
        p.user = 0, p.is_closed = true;
      all.add(pid, p);
    }
    auto naive = [&](pid_t pid) -> std::string {
      std::vector<pid_t> up;
      for (pid_t at = pid; at > 0; at = made.at(at).parent)
        up.push_back(at);
      auto is_manager = [&](pid_t at) { return at == 1 || made.at(at).kind == "systemd"; };
      // Nobody sees the environment of another user's process.
      bool reaches_top = true, marked = made.at(pid).marked && made.at(pid).kind != "sudo";
      for (auto at : up) {
        const auto& n = made.at(at);
        if (n.kind == "claude" || n.kind == "codex")
          return n.kind + " " + std::to_string(at);
        if (n.kind == "sudo") {
          reaches_top = false;
          break;
        }
        if (n.kind == "tmux" && is_manager(n.parent)) {
          reaches_top = false;
          marked = marked && !n.marked;
          break;
        }
      }
      if (marked)
        return "mark";
      if (!reaches_top)
        return "user";
      for (std::size_t i = 0; i + 1 < up.size(); ++i) {
        if (made.at(up[i]).session == up[i])
          return "user";
        if (!is_manager(up[i + 1]))
          continue;
        const auto is_beside_agent = std::any_of(made.begin(), made.end(), [&](const auto& other) {
          return other.second.group == made.at(up[i]).group && other.first < up[i] && (other.second.kind == "claude" || other.second.kind == "codex");
        });
        return made.at(up[i + 1]).session == made.at(up[i]).session && !is_beside_agent ? "user" : "orphan";
      }
      return "user";
    };
    for (const auto& [pid, n] : made)
      if (pid != 1)
        CHECK_MESSAGE(verdict(all, pid) == naive(pid), "round ", round, ", process ", pid);
  }
}

TEST_CASE("a process runs for the agent that it is below, and not for one above that") {
  auto all = with_claude();
  CHECK(runs_for(all, 30, 20));
  all.add(40, {.parent = 30, .executable = "/home/u/.local/share/claude/versions/2.1.0", .name = "claude"});
  all.add(50, {.parent = 40, .executable = "/bin/sh"});
  CHECK(runs_for(all, 50, 40));
  CHECK_FALSE(runs_for(all, 50, 20));
  CHECK_FALSE(runs_for(all, 10, 20));
  CHECK_FALSE(runs_for(all, 999, 20));
  // A program that is known as no agent's is one when its driver says so.
  all.add(60, {.parent = 10, .executable = "/opt/own-agent"});
  all.add(70, {.parent = 60, .executable = "/bin/sh"});
  CHECK(runs_for(all, 70, 60));
}
