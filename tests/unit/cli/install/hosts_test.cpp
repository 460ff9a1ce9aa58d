// What install puts where, without a program being run.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "actors/agents/agent.hpp"
#include "actors/base/text.hpp"
#include "cli/edit/json.hpp"
#include "cli/install/hosts.hpp"
#include "gateway/client/failure.hpp"
#include "gateway/mcp/tool.hpp"

using namespace swarm::cli;
namespace fs = std::filesystem;

namespace {

std::string text_of(const fs::path& path) {
  std::ifstream in{path};
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

fs::path deploy() { return fs::path{std::getenv("SWARM_SOURCE_DIR")} / "deploy"; }

struct home {
  std::map<fs::path, std::string> files;
  install_options options{.program = "/opt/swarm/bin/swarmctl", .share = deploy()};
  environment env{{{"HOME", "/h"}, {"PATH", ""}}};

  install_host host(const std::string& name) const { return install_host_of(name, env, options); }
  contents now() const {
    return [this](const fs::path& path) {
      auto i = files.find(path);
      return i == files.end() ? std::string{} : i->second;
    };
  }
  /// All of it or, when something is in the way, nothing.
  void put(const std::string& name) {
    auto next = *this;
    for (const auto& s : host(name).settings)
      if (auto text = s.put(next.now()(s.file), next.now()); !text.empty())
        next.files[s.file] = text;
    files = next.files;
  }
  void take(const std::string& name) {
    auto before = *this;
    for (const auto& s : host(name).settings)
      files[s.file] = s.take(now()(s.file), before.now());
    std::erase_if(files, [](const auto& f) { return f.second.empty(); });
  }
  json parsed(const fs::path& path) const { return json::parse(now()(path), nullptr, false); }
};

} // namespace

TEST_CASE("every host: put in twice is put in once, and taken out leaves what was there") {
  for (const auto& name : install_host_names()) {
    CAPTURE(name);
    home h;
    const std::map<fs::path, std::string> mine{
      {"/h/.claude.json", "{\n  \"numStartups\": 3,\n  \"mcpServers\": {\n    \"other\": {\n      \"command\": \"o\"\n    }\n  }\n}\n"},
      {"/h/.claude/settings.json",
       "{\n  \"hooks\": {\n    \"PreToolUse\": [\n      {\n        \"matcher\": \"Bash\",\n        \"hooks\": [{\"type\": \"command\", \"command\": "
       "\"mine\"}]\n      }\n    ]\n  },\n  \"model\": \"x\"\n}\n"},
      {"/h/.codex/config.toml", "# mine\nmodel = \"x\"\n\n[mcp_servers.other] # o\ncommand = \"o\"\n"},
      {"/h/.codex/hooks.json", "{\"hooks\":{\"Stop\":[{\"hooks\":[{\"type\":\"command\",\"command\":\"mine\"}]}]}}"},
      {"/h/.config/opencode/opencode.json", "{\n  // mine\n  \"plugin\": [\"a\"],\n  \"mcp\": {\n    \"other\": {\"type\": \"local\"},\n  },\n}\n"},
      {"/h/.gemini/settings.json",
       "{\n\t\"mcpServers\": {\n\t\t\"other\": {}\n\t},\n\t\"hooks\": {\n\t\t\"AfterAgent\": [\n\t\t\t{ \"hooks\": [] }\n\t\t]\n\t}\n}"},
      {"/h/.hermes/config.yaml",
       "# mine\nmcp_servers:\n  other:\n    command: o\nhooks:\n  pre_tool_call:\n  - command: mine\nplugins:\n  enabled: [a]\n"},
      {"/h/.hermes/shell-hooks-allowlist.json",
       "{\n  \"approvals\": [\n    {\n      \"command\": \"mine\",\n      \"event\": \"pre_tool_call\"\n    }\n  ]\n}\n"},
    };
    h.files = mine;
    h.put(name);
    auto once = h.files;
    CHECK(once.size() > mine.size());
    for (const auto& s : h.host(name).settings)
      if (!s.what.empty())
        CHECK(state_of(s, h.now()(s.file), h.now()) == (s.former ? setting_state::absent : setting_state::current));
    h.put(name);
    CHECK(h.files == once);
    // Other options and another program take the place of what was there.
    h.options.fail_closed = true;
    h.options.program = "/usr/bin/swarmctl";
    for (const auto& s : h.host(name).settings)
      if (s.program)
        CHECK(state_of(s, h.now()(s.file), h.now()) == setting_state::outdated);
    h.put(name);
    for (const auto& [path, text] : h.files)
      CHECK(text.find("/opt/swarm") == text.npos);
    h.take(name);
    CHECK(h.files == mine);
    h.take(name);
    CHECK(h.files == mine);
    for (const auto& s : h.host(name).settings)
      if (!s.what.empty())
        CHECK(state_of(s, h.now()(s.file), h.now()) == setting_state::absent);
  }
}

TEST_CASE("settings that their own program cannot read are refused with the line, and are left by an uninstall all the same") {
  const std::string comma = "{\n  \"a\": 1,\n}\n", comment = "{\n  // mine\n  \"a\": 1\n}\n";
  const std::map<std::string, std::pair<bool, bool>> reads{
    // commas, comments
    {"/h/.claude.json", {false, false}},         {"/h/.claude/settings.json", {false, false}},
    {"/h/.codex/hooks.json", {false, false}},    {"/h/.config/opencode/opencode.json", {true, true}},
    {"/h/.gemini/settings.json", {false, true}},
  };
  for (const auto* name : {"claude", "codex", "opencode", "gemini"}) {
    home h;
    for (const auto& s : h.host(name).settings) {
      auto known = reads.find(s.file.string());
      if (known == reads.end())
        continue;
      CAPTURE(s.file.string());
      auto line_of_refusal = [&](const std::string& text) {
        try {
          s.put(text, h.now());
        } catch (const unreadable& e) {
          return e.line;
        }
        return std::size_t{0};
      };
      CHECK(line_of_refusal(comma) == (known->second.first ? 0 : 2));
      CHECK(line_of_refusal(comment) == (known->second.second ? 0 : 2));
      CHECK(s.take(comma, h.now()) == comma);
      CHECK(s.take(comment, h.now()) == comment);
    }
  }
  auto project = project_setting("/p/.mcp.json", false);
  CHECK_THROWS_AS(project.put(comma, home{}.now()), unreadable);
  CHECK_THROWS_AS(project.put(comment, home{}.now()), unreadable);
}

TEST_CASE("Claude Code: the server is always loaded, a write and a shell are checked, and may be blocked when the check fails") {
  home h;
  h.put("claude");
  auto server = h.parsed("/h/.claude.json").at("mcpServers").at("swarm");
  CHECK(server == json::parse(R"({"type":"stdio","command":"/opt/swarm/bin/swarmctl","args":["mcp"],"alwaysLoad":true})"));
  auto hooks = h.parsed("/h/.claude/settings.json").at("hooks");
  std::set<std::string> events;
  for (const auto& [event, groups] : hooks.items())
    events.insert(event);
  CHECK(events == std::set<std::string>{"SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "PermissionRequest", "Stop", "Notification",
                                        "SessionEnd"});
  CHECK(hooks["PreToolUse"] == json::parse(R"([{"matcher":"Write|Edit|MultiEdit|NotebookEdit|Bash|Monitor|PowerShell|mcp__.*","hooks":[
    {"type":"command","command":"/opt/swarm/bin/swarmctl hook claude pre-tool-use","timeout":20}]}])"));
  h.options.fail_closed = true;
  h.options.enforce = true;
  h.put("claude");
  auto handler = h.parsed("/h/.claude/settings.json").at("hooks").at("PreToolUse").at(0).at("hooks").at(0);
  CHECK(handler.at("onFailure") == "block");
  CHECK(handler.at("command") == "/opt/swarm/bin/swarmctl hook claude pre-tool-use --fail-closed --enforce");
  CHECK(!h.parsed("/h/.claude/settings.json").at("hooks").at("Stop").at(0).at("hooks").at(0).contains("onFailure"));
  h.options.program = "/opt/my swarm/it's/swarmctl";
  h.put("claude");
  CHECK(h.parsed("/h/.claude/settings.json").at("hooks").at("Stop").at(0).at("hooks").at(0).at("command") ==
        "'/opt/my swarm/it'\\''s/swarmctl' hook claude stop");
  CHECK(h.parsed("/h/.claude/settings.json").at("hooks").at("Stop").size() == 1);
  home elsewhere;
  elsewhere.env = environment{{{"HOME", "/h"}, {"CLAUDE_CONFIG_DIR", "/c"}}};
  elsewhere.put("claude");
  CHECK(elsewhere.files.count("/c/.claude.json") == 1);
  CHECK(elsewhere.files.count("/c/settings.json") == 1);
}

TEST_CASE("Codex: hooks are trusted by the hash that Codex computes, under the place they have") {
  // As hooks/list of Codex 0.169.0 gave them.
  CHECK(swarm::agents::codex_hook_hash("pre_tool_use", "Bash|apply_patch", "/bin/true b", 10) ==
        "sha256:7188086c7e8b769051be33efbbc28f3864bbbc6b39bd88c16d50aa3f28eff842");
  CHECK(swarm::agents::codex_hook_hash("permission_request", "", "/bin/true c", 10) ==
        "sha256:fed3c95a55bcb574f14ffb6c0028f731bb46f35b5fdfd2abef5aa66cc44eb475");
  CHECK(swarm::agents::codex_hook_hash("session_start", "", "/bin/true a", 600) ==
        "sha256:d581a3a73c4a001b52c0490b76186f21783996a7523d76de3e002af2b85e84e0");
  home h;
  h.files["/h/.codex/hooks.json"] = R"({"hooks":{"Stop":[{"hooks":[{"type":"command","command":"mine"}]}]}})";
  h.put("codex");
  auto config = h.now()("/h/.codex/config.toml");
  CHECK(config.find("[hooks.state.\"/h/.codex/hooks.json:stop:1:0\"]\ntrusted_hash = \"" +
                    swarm::agents::codex_hook_hash("stop", "", "/opt/swarm/bin/swarmctl hook codex stop", 20) + "\"\n") != config.npos);
  CHECK(config.find("hooks.json:stop:0:0") == config.npos);
  CHECK(config.find("session_end:0:0\"]\ntrusted_hash = \"" +
                    swarm::agents::codex_hook_hash("session_end", "", "/opt/swarm/bin/swarmctl hook codex session-end", 3)) != config.npos);
  CHECK(config.find("TOKEN=") == config.npos);
  // A hook of ours that somebody edited is not what was trusted.
  auto settings = h.host("codex").settings;
  auto trust = std::find_if(settings.begin(), settings.end(), [](const setting& s) { return s.what == "trust in the hooks"; });
  REQUIRE(trust != settings.end());
  CHECK(state_of(*trust, config, h.now()) == setting_state::current);
  auto& hooks = h.files["/h/.codex/hooks.json"];
  hooks.replace(hooks.find("\"timeout\":20"), 12, "\"timeout\":11");
  CHECK(state_of(*trust, config, h.now()) == setting_state::outdated);
}

TEST_CASE("Hermes has a server and a plugin, and blocking on failure is the plugin's own setting") {
  home h;
  h.options.fail_closed = true;
  h.put("hermes");
  CHECK(h.now()("/h/.hermes/config.yaml") == "mcp_servers:\n  swarm:\n    command: \"/opt/swarm/bin/swarmctl\"\n    args: [\"mcp\"]\n"
                                             "plugins:\n  enabled:\n    - swarm\n");
  CHECK(h.files.count("/h/.hermes/shell-hooks-allowlist.json") == 0); // nor is it made
  CHECK(h.parsed("/h/.hermes/plugins/swarm/swarm.json").at("fail_closed") == true);
  CHECK(h.files.count("/h/.hermes/plugins/swarm/__init__.py") == 1);
  CHECK(h.files.count("/h/.hermes/plugins/swarm/plugin.yaml") == 1);
}

TEST_CASE("Hermes: the hook of an earlier install goes with its consent, for the plugin asks") {
  home h;
  h.files["/h/.hermes/config.yaml"] =
    "hooks:\n  pre_tool_call:\n  - matcher: x\n    command: '/old/swarmctl hook hermes pre-tool-use'\n    timeout: 10\n"
    "  - command: mine\n  on_session_end:\n  - command: mine\n";
  h.files["/h/.hermes/shell-hooks-allowlist.json"] =
    R"({"approvals":[{"event":"pre_tool_call","command":"/old/swarmctl hook hermes pre-tool-use"},{"event":"pre_tool_call","command":"mine"}]})";
  auto alone = h;
  h.put("hermes");
  CHECK(h.now()("/h/.hermes/config.yaml").rfind("hooks:\n  pre_tool_call:\n  - command: mine\n  on_session_end:\n  - command: mine\n", 0) == 0);
  CHECK(h.now()("/h/.hermes/shell-hooks-allowlist.json") == R"({"approvals":[{"event":"pre_tool_call","command":"mine"}]})");
  alone.files["/h/.hermes/config.yaml"] = "hooks:\n  pre_tool_call:\n  - command: /old/swarmctl hook hermes pre-tool-use\nmodel: x\n";
  alone.put("hermes");
  CHECK(alone.now()("/h/.hermes/config.yaml").rfind("model: x\n", 0) == 0);
}

TEST_CASE("OpenCode reads the file it has, and a plugin that lies beside its own") {
  home h;
  h.put("opencode");
  auto config = h.parsed("/h/.config/opencode/opencode.json");
  CHECK(config.at("mcp").at("swarm") == json::parse(R"({"type":"local","command":["/opt/swarm/bin/swarmctl","mcp"],"enabled":true})"));
  CHECK(config.at("plugin") == json::array({"file:///h/.config/opencode/swarm-fabric/swarm.js"}));
  CHECK(h.files.count("/h/.config/opencode/swarm-fabric/swarm.js") == 1);
  home spaced;
  spaced.env = environment{{{"HOME", "/h"}, {"XDG_CONFIG_HOME", "/my config"}}};
  spaced.put("opencode");
  CHECK(spaced.parsed("/my config/opencode/opencode.json").at("plugin") == json::array({"file:///my%20config/opencode/swarm-fabric/swarm.js"}));
}

TEST_CASE("another server or skill of our name is refused, and taken over only when told so") {
  const std::string foreign =
    "{\n  \"mcpServers\": {\n    \"swarm\": {\n      \"command\": \"npx\",\n      \"args\": [\"-y\", \"swarm-mcp\"]\n    }\n  }\n}\n";
  home h;
  h.files["/h/.claude.json"] = foreign;
  CHECK_THROWS_WITH_AS(h.put("claude"), doctest::Contains("another MCP server is there under the name swarm (npx)"), failure);
  h.take("claude");
  CHECK(h.now()("/h/.claude.json") == foreign);
  h.options.force = true;
  h.put("claude");
  CHECK(h.parsed("/h/.claude.json").at("mcpServers").at("swarm").at("command") == "/opt/swarm/bin/swarmctl");
  home codex;
  codex.files["/h/.codex/config.toml"] = "[mcp_servers.swarm]\nurl = \"http://x\"\n";
  CHECK_THROWS_AS(codex.put("codex"), const failure&);
  codex.files["/h/.codex/config.toml"] = "[mcp_servers.swarm]\nenabled = false\n";
  CHECK_THROWS_AS(codex.put("codex"), const failure&);
  codex.files["/h/.codex/config.toml"] = "[mcp_servers.swarm]\nurl = \"http://x\"\n";
  codex.options.force = true;
  codex.put("codex");
  CHECK(codex.now()("/h/.codex/config.toml").find("url") == std::string::npos);
  home hermes;
  hermes.files["/h/.hermes/config.yaml"] = "mcp_servers:\n  swarm:\n    url: http://x\n";
  CHECK_THROWS_AS(hermes.put("hermes"), const failure&);
  home skill;
  skill.files["/h/.claude/skills/swarm/SKILL.md"] = "---\nname: swarm\n---\nof somebody else\n";
  CHECK_THROWS_WITH_AS(skill.put("claude"), doctest::Contains("another skill is there"), failure);
  skill.files.erase("/h/.claude.json");
  skill.options.skill = false;
  skill.put("claude");
  CHECK(skill.now()("/h/.claude/skills/swarm/SKILL.md").find("somebody else") != std::string::npos);
}

TEST_CASE("an entry of ours keeps what the user added to it") {
  home h;
  h.files["/h/.claude.json"] = R"({"mcpServers":{"swarm":{"command":"swarmctl","args":["mcp"],"env":{"SWARM_HOME":"/s"}}}})";
  h.put("claude");
  auto entry = h.parsed("/h/.claude.json").at("mcpServers").at("swarm");
  CHECK(entry.at("env") == json{{"SWARM_HOME", "/s"}});
  CHECK(entry.at("command") == "/opt/swarm/bin/swarmctl");
  h.files["/h/.hermes/config.yaml"] = "mcp_servers:\n  swarm:\n    command: '/old/swarmctl' # of mine\n    args: [mcp]\n    env: {A: b}\n";
  h.put("hermes");
  CHECK(h.now()("/h/.hermes/config.yaml")
          .rfind("mcp_servers:\n  swarm:\n    command: \"/opt/swarm/bin/swarmctl\" # of mine\n"
                 "    args: [mcp]\n    env: {A: b}\n",
                 0) == 0);
  // Two of ours become one, one beside a foreign handler moves out, what is foreign stays.
  h.files["/h/.claude/settings.json"] = R"({"hooks":{"Stop":[{"hooks":[{"type":"command","command":"/old/swarmctl hook claude stop"},
    {"type":"command","command":"mine"}]},{"hooks":[{"type":"command","command":"swarmctl hook claude stop --x"}]}]}})";
  h.put("claude");
  auto stop = h.parsed("/h/.claude/settings.json").at("hooks").at("Stop");
  REQUIRE(stop.size() == 2);
  CHECK(stop[0].at("hooks") == json::parse(R"([{"type":"command","command":"mine"}])"));
  CHECK(stop[1].at("hooks").at(0).at("command") == "/opt/swarm/bin/swarmctl hook claude stop");
}

TEST_CASE("of what is there twice one is left, and taken out none is") {
  home h;
  h.options.skill = false;
  h.files["/h/.claude.json"] = R"({"mcpServers":{"swarm":{"command":"/a/swarmctl"},"other":{},"swarm":{"command":"/b/swarmctl"}}})";
  h.take("claude");
  CHECK(h.now()("/h/.claude.json") == R"({"mcpServers":{"other":{}}})");
  const std::string plugin = "file:///h/.config/opencode/swarm-fabric/swarm.js";
  h.files["/h/.config/opencode/opencode.json"] = json{{"plugin", {plugin, "a", plugin}}}.dump();
  h.take("opencode");
  CHECK(h.now()("/h/.config/opencode/opencode.json") == R"({"plugin":["a"]})");
  h.files["/h/.hermes/config.yaml"] = "hooks:\n  pre_tool_call:\n  - command: /a/swarmctl hook hermes pre-tool-use\n  - command: mine\n"
                                      "  - command: /b/swarmctl hook hermes pre-tool-use\nplugins:\n  enabled: [swarm, a, swarm]\n";
  h.put("hermes");
  auto config = h.now()("/h/.hermes/config.yaml");
  CHECK(config.find("/a/swarmctl") == config.npos);
  CHECK(config.find("/b/swarmctl") == config.npos);
  h.take("hermes");
  CHECK(h.now()("/h/.hermes/config.yaml") == "hooks:\n  pre_tool_call:\n  - command: mine\nplugins:\n  enabled: [a]\n");
}

TEST_CASE("Codex: an entry of ours that somebody made something else of is put right, and taken out") {
  home h;
  h.files["/h/.codex/hooks.json"] =
    R"({"hooks":{"Stop":[{"matcher":7,"hooks":[{"type":"command","command":"/a/swarmctl hook codex stop","timeout":"x"}]}]}})";
  auto before = h;
  h.take("codex");
  CHECK(h.now()("/h/.codex/hooks.json").find("swarmctl") == std::string::npos);
  before.put("codex");
  auto stop = before.parsed("/h/.codex/hooks.json").at("hooks").at("Stop");
  REQUIRE(stop.size() == 1);
  CHECK(stop[0].at("hooks")[0].at("timeout") == 20);
}

TEST_CASE("what is in the way is named") {
  for (const auto& [name, file, text] : std::vector<std::tuple<std::string, std::string, std::string>>{
         {"claude", "/h/.claude.json", R"({"mcpServers":[]})"},
         {"claude", "/h/.claude/settings.json", R"({"hooks":{"Stop":{}}})"},
         {"codex", "/h/.codex/hooks.json", R"({"hooks":7})"},
         {"codex", "/h/.codex/config.toml", "mcp_servers = { a = {} }\n"},
         {"opencode", "/h/.config/opencode/opencode.json", R"({"plugin":"x"})"},
         {"hermes", "/h/.hermes/config.yaml", "mcp_servers: {a: {command: x}}\n"},
       }) {
    CAPTURE(file);
    home h;
    h.files[file] = text;
    CHECK_THROWS_AS(h.put(name), const unreadable&);
    CHECK(h.now()(file) == text);
  }
}

TEST_CASE("command lines are split and quoted as a shell does") {
  using words = std::vector<std::string>;
  CHECK(shell_words("a 'b c' \"d\\\" e\" f\\ g ''") == words{"a", "b c", "d\" e", "f g", ""});
  CHECK(shell_words("  ").empty());
  for (const std::string text : {"/a/b", "a b", "it's", "", "$x`y`", "é"})
    CHECK(shell_words(swarm::shell_quoted(text)) == words{text});
  CHECK(swarm::shell_quoted("/usr/bin/swarmctl") == "/usr/bin/swarmctl");
}

TEST_CASE("the skill is in the agentskills format, and names only tools and arguments that there are") {
  std::set<std::string> known;
  namespace mcp = swarm::mcp;
  for (auto family : {mcp::session_tools, mcp::message_tools, mcp::task_tools, mcp::lock_tools, mcp::kv_tools, mcp::status_tools, mcp::dispatch_tools,
                      mcp::pty_tools, mcp::routine_tools, mcp::person_tools})
    for (const auto& tool : family()) {
      known.insert(tool.name);
      for (const auto& [argument, schema] : tool.input_schema.at("properties").items())
        known.insert(argument);
    }
  REQUIRE(known.count("lock_file") == 1);
  auto skill = deploy() / "skills" / "swarm";
  auto main = text_of(skill / "SKILL.md");
  std::smatch front;
  REQUIRE(std::regex_search(main, front, std::regex{"^---\nname: ([a-z0-9-]{1,64})\ndescription: ([^\n]{1,1024})\n"}));
  CHECK(front[1] == "swarm");
  CHECK(std::count(main.begin(), main.end(), '\n') < 500);
  std::size_t files = 0;
  for (const auto& entry : fs::recursive_directory_iterator{skill}) {
    if (!entry.is_regular_file())
      continue;
    ++files;
    auto text = text_of(entry.path());
    CAPTURE(entry.path().string());
    CHECK(text.find("swarm-fabric") != text.npos); // by this install knows its own
    const std::set<std::string> values{"blocked_reason", "next_action",      "planner_owner", "spawn_in_flight",
                                       "no_worker",      "already_terminal", "spawn_failed",  "files_changed"};
    std::regex link{"\\]\\(([^)]+)\\)"};
    std::regex word{"`([a-z]+(_[a-z]+)+)`"};
    for (std::sregex_iterator i{text.begin(), text.end(), word}, end; i != end; ++i) {
      auto name = (*i)[1].str();
      CAPTURE(name);
      CHECK((known.count(name) == 1 || values.count(name) == 1));
    }
    for (std::sregex_iterator i{text.begin(), text.end(), link}, end; i != end; ++i)
      CHECK(fs::exists(entry.path().parent_path() / (*i)[1].str()));
  }
  CHECK(files == 6);
}
