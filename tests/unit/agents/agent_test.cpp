#include "actors/agents/agent.hpp"

#include <cstdlib>
#include <fstream>
#include <map>
#include <set>

#include <doctest/doctest.h>

#include "actors/base/crypto.hpp"

using namespace swarm;
using namespace swarm::agents;
using json = nlohmann::json;

TEST_CASE("each agent with hooks has all of ours, with 20 s for each and 3 s at the end of a Codex session") {
  const std::set<std::string> verbs{"session-start", "prompt-submit", "pre-tool-use", "post-tool-use", "stop", "notification", "session-end"};
  for (const auto* name : {"claude", "codex", "gemini"}) {
    CAPTURE(name);
    const auto& agent = *find(name);
    std::set<std::string> of_agent;
    std::set<std::string> events;
    for (const auto& hook : agent.hooks) {
      CAPTURE(hook.event);
      of_agent.insert(hook.verb);
      CHECK(events.insert(hook.event).second);
      CHECK(hook.timeout_s == (agent.what == program::codex && std::string{hook.verb} == "session-end" ? 3 : 20));
      CHECK((hook.matcher != nullptr) == (std::string{hook.verb} == "pre-tool-use"));
    }
    CHECK(of_agent == verbs);
  }
  // A person's answer to a question comes first as this event, seconds before the notification.
  CHECK(std::string{find("claude")->hooks[5].event} == "PermissionRequest");
  CHECK(find("opencode")->hooks.empty());
  CHECK(find("vim") == nullptr);
}

TEST_CASE("what a Gemini CLI worker is given has the hooks of the table") {
  std::ifstream in{std::string{std::getenv("SWARM_SOURCE_DIR")} + "/deploy/agents/gemini/settings.json"};
  const auto settings = json::parse(in);
  json wanted = json::object();
  for (const auto& hook : find("gemini")->hooks) {
    auto entry = json(hook_entry(*find("gemini"), hook, std::string{"swarmctl hook gemini "} + hook.verb));
    if (!hook.matcher)
      entry["matcher"] = "*";
    wanted[hook.event] = json::array({entry});
  }
  CHECK(settings.at("hooks") == wanted);
}

TEST_CASE("what starts an agent names our server and hooks, quotes paths, and carries no secret") {
  const start odd{"/opt/o'x/swarmctl", "/repo", ""};
  for (auto harness : {"claude", "codex", "opencode", "gemini", "hermes", "exec", "shell"}) {
    CAPTURE(harness);
    auto words = arguments(harness, odd);
    auto variables = environment(harness, odd);
    std::string all;
    for (const auto& w : words)
      all += w + "\n";
    for (const auto& v : variables)
      all += v + "\n";
    if (std::string{harness} == "exec" || std::string{harness} == "shell")
      CHECK(all.empty());
    CHECK(all.find("SWARM_TOKEN=") == std::string::npos);
  }
  auto claude = arguments("claude", odd);
  CHECK(claude[1] == R"({"mcpServers":{"swarm":{"command":"/opt/o'x/swarmctl","args":["mcp"],"alwaysLoad":true}}})");
  CHECK(claude[3].find(R"('/opt/o'\\''x/swarmctl' hook claude pre-tool-use)") != std::string::npos);
}

TEST_CASE("Claude Code that a program of ours drives has our server and no hook") {
  const start driven{"/opt/bin/swarmctl", "/repo", "", true};
  const auto words = arguments("claude", driven);
  REQUIRE(words.size() == 4);
  CHECK(words[1] == arguments("claude", {"/opt/bin/swarmctl", "/repo", ""})[1]);
  CHECK(json::parse(words[3]) == json{{"permissions", {{"allow", json::array({"mcp__swarm"})}}}});
}

TEST_CASE("Gemini CLI is allowed the swarm's tools by a policy of ours, and keeps its user's") {
  using words = std::vector<std::string>;
  const auto share = std::string{std::getenv("SWARM_SOURCE_DIR")} + "/deploy";
  CHECK(arguments("gemini", {"/opt/bin/swarmctl", "/repo", share}) ==
        words{"--skip-trust", "--policy", share + "/agents/gemini/swarm.toml", "--policy", "~/.gemini/policies"});
}

TEST_CASE("Codex is started without its daemon, trusts the directory and our hooks for this process only") {
  auto words = arguments("codex", {"/opt/bin/swarmctl", "/repo", ""});
  CHECK(words[0] == "--no-daemon");
  std::string all;
  for (const auto& w : words)
    all += w + "\n";
  CHECK(all.find(R"(mcp_servers.swarm={command="/opt/bin/swarmctl",args=["mcp"],env_vars=["SWARM_HOME",)") != std::string::npos);
  CHECK(all.find(R"(default_tools_approval_mode="approve"})") != std::string::npos);
  CHECK(all.find(R"(projects={"/repo"={trust_level="trusted"}})") != std::string::npos);
  CHECK(
    all.find(
      R"(hooks.PreToolUse=[{matcher="Bash|apply_patch",hooks=[{type="command",command="/opt/bin/swarmctl hook codex pre-tool-use",timeout=20}]}])") !=
    std::string::npos);
  // The digest of the hook's canonical form is what Codex itself records when its user trusts it.
  auto canonical =
    R"({"event_name":"pre_tool_use","hooks":[{"async":false,"command":"/opt/bin/swarmctl hook codex pre-tool-use","timeout":20,"type":"command"}],"matcher":"Bash|apply_patch"})";
  CHECK(all.find(R"("/<session-flags>/config.toml:pre_tool_use:0:0"={trusted_hash="sha256:)" + to_hex(sha256(canonical)) + "\"}") !=
        std::string::npos);
}
