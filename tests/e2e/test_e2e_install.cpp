// swarmctl install, init and doctor's lines, in homes of their own.
#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <set>

#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/node_process.hpp"

using namespace swarm::testing;

namespace {

/// Every file below a directory, symbolic links followed.
std::map<std::string, std::string> files_of(const fs::path& directory) {
  std::map<std::string, std::string> out;
  for (const auto& entry : fs::recursive_directory_iterator{directory, fs::directory_options::follow_directory_symlink})
    if (entry.is_regular_file())
      out[fs::relative(entry.path(), directory)] = file_text(entry.path());
  return out;
}

std::map<std::string, std::string> without_backups(std::map<std::string, std::string> files) {
  std::erase_if(files, [](const auto& f) { return f.first.find(".swarm-backup-") != std::string::npos; });
  return files;
}

mode_t mode_of(const fs::path& path) {
  struct stat s {};
  return lstat(path.c_str(), &s) == 0 ? s.st_mode & 07777 : 0;
}

void write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream{path, std::ios::binary} << text;
}

/// What shows that nothing was written: bytes and modes, symbolic links as they are, and when a file was written last.
std::map<std::string, std::string> state_of(const fs::path& directory) {
  std::map<std::string, std::string> out;
  for (const auto& entry : fs::recursive_directory_iterator{directory}) {
    auto& seen = out[fs::relative(entry.path(), directory)];
    seen = std::to_string(mode_of(entry.path()));
    if (entry.is_symlink())
      seen += " to " + fs::read_symlink(entry.path()).string();
    else if (entry.is_regular_file())
      seen += " " + std::to_string(entry.last_write_time().time_since_epoch().count()) + " " + file_text(entry.path());
  }
  return out;
}

/// A home beside the node's things, so that nothing else is in it.
struct fresh_home {
  test_node node;
  temp_dir base;
  fs::path path = base.path() / "home";

  fresh_home() { fs::create_directory(path); }
  environment env(const environment& more = {}) const {
    auto out = more;
    out["HOME"] = path.string();
    return out;
  }
  run_result ctl(const std::vector<std::string>& arguments, const environment& more = {}) const { return node.ctl(arguments, {.env = env(more)}); }
  run_result install(std::vector<std::string> arguments, const environment& more = {}) const {
    arguments.insert(arguments.begin(), "install");
    return ctl(arguments, more);
  }
  std::map<std::string, std::string> files() const { return files_of(path); }
  json parsed(const std::string& name) const { return json::parse(file_text(path / name), nullptr, false); }
};

/// What doctor says of that host; null when it does not speak of it.
json checked(const fresh_home& home, const std::string& host) {
  auto all = home.ctl({"doctor", "--json"}).parsed().at("checks");
  for (const auto& check : all)
    if (check.at("name") == "host_" + host)
      return check;
  return nullptr;
}

/// Settings as people have them: comments, foreign entries, styles of their own.
const std::map<std::string, std::string> lived_in{
  {".claude.json", "{\n  \"numStartups\": 12,\n  \"oauth_token\": \"tok-1\",\n  \"mcpServers\": {\n    \"github\": {\n      \"command\": \"gh\",\n"
                   "      \"env\": {\"GITHUB_TOKEN\": \"ghp_secret\"}\n    }\n  },\n  \"projects\": {}\n}"},
  {".claude/settings.json", "{\n    \"hooks\": {},\n    \"model\": \"x\"\n}\n"},
  {".codex/config.toml", "# my settings\nmodel = \"x\" # best\n\n[mcp_servers.other]\ncommand = \"o\"\nargs = [\n  \"a\", # one\n]\n# the end"},
  {".codex/hooks.json", "{}\n"},
  {".config/opencode/opencode.jsonc", "{\n  // my settings\n  \"$schema\": \"https://opencode.ai/config.json\",\n  \"plugin\": [],\n  \"mcp\": {\n"
                                      "    /* none */\n  }, // yet\n}\n"},
  {".gemini/settings.json", "{\"theme\":\"dark\",\"mcpServers\":{}}"},
  {".hermes/config.yaml", "# my settings\r\nmodel: x # best\r\nmcp_servers: {}\r\nhooks:\r\n  # none\r\nplugins:\r\n  enabled: [] # none\r\n"},
};

std::string host_of(const std::string& file) {
  for (auto [directory, host] :
       {std::pair{".claude", "claude"}, {".codex", "codex"}, {".config", "opencode"}, {".gemini", "gemini"}, {".hermes", "hermes"}})
    if (file.rfind(directory, 0) == 0)
      return host;
  return {};
}

void comes_and_goes(const std::string& host) {
  fresh_home home;
  auto dry = home.install({"--host", host, "--dry-run"});
  CHECK(dry.status == 0);
  CHECK(dry.out.find("+++ ~/.") != dry.out.npos);
  CHECK(fs::is_empty(home.path));
  auto first = home.install({"--host", host});
  CAPTURE(first.err);
  REQUIRE(first.status == 0);
  auto installed = home.files();
  CHECK(!installed.empty());
  for (const auto& [name, text] : installed) {
    CAPTURE(name);
    CHECK(mode_of(home.path / name) == 0600);
    CHECK(name.find("backup") == name.npos);
  }
  auto again = home.install({"--host", host});
  CHECK(again.status == 0);
  CHECK(again.out.find("nothing to do, it is set up") != again.out.npos);
  CHECK(home.files() == installed);
  auto check = home.ctl({"doctor"});
  CHECK(check.out.find("[OK  ] host_" + host) != check.out.npos);
  REQUIRE(home.install({"--host", host, "--uninstall"}).status == 0);
  CHECK(home.files().empty());
  auto gone = home.install({"--host", host, "--uninstall"});
  CHECK(gone.status == 0);
  CHECK(gone.out.find("nothing of ours is there") != gone.out.npos);
}

} // namespace

TEST_CASE("in a fresh home Claude Code is set up once, and taken out without a trace") { comes_and_goes("claude"); }
TEST_CASE("in a fresh home Codex is set up once, and taken out without a trace") { comes_and_goes("codex"); }
TEST_CASE("in a fresh home OpenCode is set up once, and taken out without a trace") { comes_and_goes("opencode"); }
TEST_CASE("in a fresh home Gemini CLI is set up once, and taken out without a trace") { comes_and_goes("gemini"); }
TEST_CASE("in a fresh home Hermes is set up once, and taken out without a trace") { comes_and_goes("hermes"); }

TEST_CASE("settings that are lived in keep everything, and are given back to the byte") {
  fresh_home home;
  for (const auto& [name, text] : lived_in)
    write(home.path / name, text);
  REQUIRE(home.install({"--fail-closed"}).status == 0); // those that are found: all
  CHECK(home.parsed(".claude.json").at("mcpServers").size() == 2);
  CHECK(file_text(home.path / ".claude.json").find("\"env\": {\"GITHUB_TOKEN\": \"ghp_secret\"}") != std::string::npos);
  CHECK(home.parsed(".claude/settings.json").at("hooks").at("PreToolUse").at(0).at("hooks").at(0).at("onFailure") == "block");
  CHECK(file_text(home.path / ".codex/config.toml").rfind("# my settings\nmodel = \"x\" # best\n\n[mcp_servers.other]\n", 0) == 0);
  CHECK(file_text(home.path / ".hermes/config.yaml").find("model: x # best\r\n") != std::string::npos);
  CHECK(home.parsed(".hermes/plugins/swarm/swarm.json").at("fail_closed") == true);
  CHECK(file_text(home.path / ".config/opencode/opencode.jsonc").find("// my settings") != std::string::npos);
  for (const auto& [name, text] : lived_in) {
    CAPTURE(name);
    CHECK(mode_of(home.path / name) == 0600);
    CHECK(file_text(home.path / (name + ".swarm-backup-1")) == text);
    CHECK(mode_of(home.path / (name + ".swarm-backup-1")) == 0600);
    CHECK_FALSE(fs::exists(home.path / (name + ".swarm-backup-2")));
  }
  auto installed = home.files();
  CHECK(home.install({"--fail-closed"}).status == 0);
  CHECK(home.files() == installed);
  // Without the flag the hooks are the plain ones again.
  REQUIRE(home.install({}).status == 0);
  CHECK(file_text(home.path / ".claude/settings.json").find("onFailure") == std::string::npos);
  CHECK(home.ctl({"doctor"}).out.find("WARN] host_") == std::string::npos);
  REQUIRE(home.install({"--uninstall"}).status == 0);
  auto left = without_backups(home.files());
  for (const auto& [name, text] : lived_in) {
    CAPTURE(name);
    CHECK(left[name] == text);
  }
  CHECK(left.size() == lived_in.size());
}

TEST_CASE("with --dry-run nothing is written, whatever is there and whatever is asked for") {
  fresh_home home;
  for (const auto& [name, text] : lived_in)
    write(home.path / name, text);
  auto before = state_of(home.path);
  auto shown = home.install({"--host", "all", "--dry-run"});
  CHECK(shown.status == 0);
  for (const auto& [name, text] : lived_in)
    CHECK_MESSAGE(shown.out.find("+++ ~/" + name) != shown.out.npos, name);
  CHECK(home.install({"--host", "all", "--uninstall", "--dry-run"}).status == 0);
  CHECK(state_of(home.path) == before);
  REQUIRE(home.install({"--host", "all"}).status == 0);
  auto installed = state_of(home.path);
  CHECK(home.install({"--host", "all", "--fail-closed", "--enforce", "--dry-run"}).status == 0);
  auto leaving = home.install({"--host", "all", "--uninstall", "--dry-run", "--json"}).parsed();
  for (const auto& host : leaving.at("hosts")) {
    CHECK(host.at("status") == "planned");
    CHECK_FALSE(host.at("files").empty());
  }
  CHECK(state_of(home.path) == installed);
}

TEST_CASE("each file that cannot be read is refused by name and line, and nothing of its host is written") {
  for (const auto& [name, text] : lived_in) {
    CAPTURE(name);
    auto host = host_of(name);
    fresh_home home;
    for (const auto& [other, good] : lived_in)
      if (host_of(other) == host)
        write(home.path / other, good);
    // Half a file, as a full disk or a crash of its program leaves it; neither JSON nor TOML nor YAML.
    write(home.path / name, "{\n  \"a\": [\n");
    auto before = state_of(home.path);
    for (const auto& more : {std::vector<std::string>{}, {"--force"}, {"--uninstall"}}) {
      auto arguments = more;
      arguments.insert(arguments.end(), {"--host", host});
      auto r = home.install(arguments);
      CAPTURE(r.err);
      CHECK(r.status == 1);
      CHECK(r.err.find("swarmctl install: " + host + ": ~/" + name + ", line ") == 0);
      CHECK(state_of(home.path) == before);
    }
    auto check = checked(home, host);
    CHECK(check.at("status") == "warn");
    CHECK(check.at("message").get<std::string>().find("cannot be read") != std::string::npos);
  }
  // The line is that of the file, not of what install would write by then.
  fresh_home home;
  write(home.path / ".hermes/config.yaml", "mcp_servers:\n  other:\n    command: o\nplugins: 7\n");
  CHECK(home.install({"--host", "hermes"}).err.find("~/.hermes/config.yaml, line 4: ") != std::string::npos);
}

TEST_CASE("taking out needs no flags, whatever it was put in with, and brings back what made way") {
  const std::string foreign = "{\n  \"mcpServers\": {\n    \"swarm\": {\"command\": \"npx\", \"args\": [\"-y\", \"swarm-mcp\"]}\n  }\n}\n";
  fresh_home home;
  write(home.path / ".claude.json", foreign);
  write(home.path / ".claude/settings.json", "{}");
  auto refused = home.install({"--host", "claude"});
  CHECK(refused.status == 1);
  CHECK(refused.err.find("another MCP server is there under the name swarm (npx)") != refused.err.npos);
  CHECK(home.files().size() == 2);
  REQUIRE(home.install({"--host", "claude", "--force", "--enforce", "--fail-closed"}).status == 0);
  CHECK(home.install({"--host", "claude", "--uninstall"}).status == 0);
  CHECK(file_text(home.path / ".claude.json") == foreign);
  CHECK(file_text(home.path / ".claude/settings.json") == "{}");
}

TEST_CASE("an entry that was made by hand before us is there again when we go") {
  const std::map<std::string, std::string> by_hand{
    {".claude.json", "{\n  \"mcpServers\": {\n    \"swarm\": {\n      \"type\": \"stdio\",\n      \"command\": \"swarmctl\",\n      \"args\": [\n"
                     "        \"mcp\"\n      ],\n      \"env\": {}\n    }\n  }\n}\n"},
    {".codex/config.toml", "[mcp_servers.swarm]\ncommand = \"swarmctl\"\nargs = [\"mcp\"]\n"},
    {".config/opencode/opencode.json", "{\"mcp\": {\"swarm\": {\"type\": \"local\", \"command\": [\"swarmctl\", \"mcp\"]}}}\n"},
    {".gemini/settings.json", "{\"mcpServers\": {\"swarm\": {\"command\": \"swarmctl\", \"args\": [\"mcp\"]}}}\n"},
    {".hermes/config.yaml", "mcp_servers:\n  swarm:\n    command: swarmctl\n    args: [mcp]\n"},
  };
  fresh_home home;
  for (const auto& [name, text] : by_hand)
    write(home.path / name, text);
  REQUIRE(home.install({"--host", "all"}).status == 0);
  REQUIRE(home.install({"--host", "all", "--enforce"}).status == 0);
  for (auto again : {false, true}) {
    CAPTURE(again);
    REQUIRE(home.install({"--host", "all", "--uninstall"}).status == 0);
    for (const auto& [name, text] : by_hand) {
      CAPTURE(name);
      CHECK(file_text(home.path / name) == text);
    }
  }
}

TEST_CASE("an entry that was made by hand comes back also into a file that its program has written since, until it is taken out by hand") {
  fresh_home home;
  const auto entry = json::parse(R"({"type": "stdio", "command": "swarmctl", "args": ["mcp"], "env": {"A": "b"}})");
  write(home.path / ".claude.json", json{{"mcpServers", {{"swarm", entry}}}}.dump(2));
  auto comes_and_goes_beside_claude = [&](int startups) {
    REQUIRE(home.install({"--host", "claude"}).status == 0);
    auto claude = home.parsed(".claude.json");
    CHECK(claude.at("mcpServers").at("swarm").at("alwaysLoad") == true);
    claude["numStartups"] = startups;
    write(home.path / ".claude.json", claude.dump(2));
    REQUIRE(home.install({"--host", "claude", "--uninstall"}).status == 0);
    claude = home.parsed(".claude.json");
    CHECK(claude.at("numStartups") == startups);
    return claude;
  };
  CHECK(comes_and_goes_beside_claude(1).at("mcpServers").at("swarm") == entry);
  auto without = home.parsed(".claude.json");
  without["mcpServers"].erase("swarm");
  write(home.path / ".claude.json", without.dump(2));
  CHECK_FALSE(comes_and_goes_beside_claude(2).contains("mcpServers"));
}

TEST_CASE("what others wrote after us stays when we go") {
  fresh_home home;
  for (const auto& [name, text] : lived_in)
    write(home.path / name, text);
  REQUIRE(home.install({"--host", "all"}).status == 0);
  auto claude = home.parsed(".claude.json");
  claude["numStartups"] = 13;
  write(home.path / ".claude.json", claude.dump(2));
  auto config = file_text(home.path / ".codex/config.toml");
  write(home.path / ".codex/config.toml", config + "\n[projects.\"/r\"]\ntrust_level = \"trusted\"\n");
  write(home.path / ".hermes/config.yaml", file_text(home.path / ".hermes/config.yaml") + "last: 1\r\n");
  auto gemini = home.parsed(".gemini/settings.json");
  gemini["hooks"]["Notification"].push_back({{"hooks", json::array({{{"type", "command"}, {"command", "mine"}}})}});
  write(home.path / ".gemini/settings.json", gemini.dump());
  auto opencode = file_text(home.path / ".config/opencode/opencode.jsonc");
  write(home.path / ".config/opencode/opencode.jsonc", opencode.insert(opencode.find("// my settings"), "\"theme\": \"dark\",\n  "));
  REQUIRE(home.install({"--host", "all", "--uninstall"}).status == 0);
  claude["mcpServers"].erase("swarm");
  CHECK(home.parsed(".claude.json") == claude);
  config = file_text(home.path / ".codex/config.toml");
  CHECK(config.find("swarm") == config.npos);
  CHECK(config.find("[projects.\"/r\"]\ntrust_level = \"trusted\"\n") != config.npos);
  CHECK(config.find("[mcp_servers.other]") != config.npos);
  auto yaml = file_text(home.path / ".hermes/config.yaml");
  CHECK(yaml.find("swarm") == yaml.npos);
  CHECK(yaml.find("last: 1") != yaml.npos);
  gemini = home.parsed(".gemini/settings.json");
  CHECK(gemini.at("theme") == "dark");
  CHECK(gemini.at("hooks").size() == 1);
  CHECK(gemini["hooks"].at("Notification").size() == 1);
  CHECK(gemini["hooks"]["Notification"][0].at("hooks")[0].at("command") == "mine");
  opencode = file_text(home.path / ".config/opencode/opencode.jsonc");
  CHECK(opencode.find("swarm") == opencode.npos);
  CHECK(opencode.find("\"theme\": \"dark\",\n  // my settings\n") != opencode.npos);
}

TEST_CASE("the diff is shown, secrets in it are not, and --json says the same") {
  fresh_home home;
  write(home.path / ".claude.json", lived_in.at(".claude.json"));
  auto shown = home.install({"--dry-run"});
  CHECK(shown.status == 0);
  CHECK(shown.out.find("--- ~/.claude.json\n+++ ~/.claude.json\n@@ ") != shown.out.npos);
  CHECK(shown.out.find("+    \"swarm\": {\n") != shown.out.npos);
  CHECK(shown.out.find("ghp_secret") == shown.out.npos);
  CHECK(shown.out.find("Claude Code: not written") != shown.out.npos);
  CHECK(files_of(home.path).size() == 1);
  auto planned = home.install({"--dry-run", "--json"}).parsed();
  CHECK(planned.at("ok") == true);
  CHECK(planned.at("dry_run") == true);
  REQUIRE(planned.at("hosts").size() == 1);
  CHECK(planned["hosts"][0].at("host") == "claude");
  CHECK(planned["hosts"][0].at("status") == "planned");
  CHECK(planned["hosts"][0].at("files")[0].at("action") == "change");
  CHECK(planned.dump().find("ghp_secret") == std::string::npos);
  auto written = home.install({"--json"}).parsed();
  CHECK(written["hosts"][0].at("status") == "written");
  CHECK(written["hosts"][0].at("files")[0].at("backup") == (home.path / ".claude.json.swarm-backup-1").string());
  CHECK(home.install({"--json"}).parsed()["hosts"][0].at("status") == "current");
}

TEST_CASE("on a terminal it asks first") {
  fresh_home home;
  auto run = [&](const std::string& answer) {
    terminal_process t{{program("swarmctl").string(), "install", "--host", "gemini"}, home.node.env(home.env()), home.node.work(), 200, 50};
    REQUIRE(t.read_until("Apply this? [y/N]"));
    t.type(answer + "\n");
    auto status = t.finish();
    CHECK(status == 0);
    return t.screen();
  };
  CHECK(run("n").find("not written") != std::string::npos);
  CHECK(fs::is_empty(home.path));
  CHECK(run("y").find("Gemini CLI: set up") != std::string::npos);
  CHECK(fs::exists(home.path / ".gemini/settings.json"));
  terminal_process sure{
    {program("swarmctl").string(), "install", "--host", "gemini", "--uninstall", "--yes"}, home.node.env(home.env()), home.node.work()};
  CHECK(sure.finish() == 0);
  CHECK_FALSE(fs::exists(home.path / ".gemini/settings.json"));
}

TEST_CASE("a file that cannot be read is named with its line, left alone, and does not stop the others") {
  fresh_home home;
  write(home.path / ".claude/settings.json", "{\n  \"hooks\": {\n    \"Stop\": oops\n  }\n}\n");
  write(home.path / ".codex/config.toml", "model = \"x\"\n[broken\n");
  write(home.path / ".hermes/config.yaml", "a: 1\n\tb: 2\n");
  write(home.path / ".config/opencode/opencode.json", std::string(5 * 1024 * 1024, ' '));
  auto before = home.files();
  auto r = home.install({"--host", "all"});
  CHECK(r.status == 1);
  CHECK(r.err.find("claude: ~/.claude/settings.json, line 3: this is not JSON") != r.err.npos);
  CHECK(r.err.find("codex: ~/.codex/config.toml, line 2: this is not TOML") != r.err.npos);
  CHECK(r.err.find("hermes: ~/.hermes/config.yaml, line 2: a tab in the indentation") != r.err.npos);
  CHECK(r.err.find("opencode: ") != r.err.npos);
  CHECK(r.err.find("longer than 4194304 bytes") != r.err.npos);
  CHECK(r.out.find("Gemini CLI: set up") != r.out.npos);
  auto after = home.files();
  std::erase_if(after, [](const auto& f) { return f.first.rfind(".gemini/", 0) == 0; });
  CHECK(after == before);
  auto checked = home.ctl({"doctor"});
  CHECK(checked.out.find("[WARN] host_claude") != checked.out.npos);
  CHECK(checked.out.find("[WARN] host_codex") != checked.out.npos);
  CHECK(checked.out.find("[OK  ] host_gemini") != checked.out.npos);
}

TEST_CASE("symbolic links of dotfiles are followed, other things than files are not") {
  fresh_home home;
  auto dotfiles = home.base.path() / "dotfiles";
  write(dotfiles / "claude.json", "{\n  \"a\": 1\n}\n");
  write(dotfiles / "claude/settings.json", "{}\n");
  fs::create_symlink("../dotfiles/claude.json", home.path / ".claude.json");
  fs::create_directory_symlink(dotfiles / "claude", home.path / ".claude");
  fs::create_directories(home.path / ".gemini");
  fs::create_symlink("settings-real.json", home.path / ".gemini/settings.json"); // leads nowhere yet
  fs::create_directories(home.path / ".codex/config.toml");
  auto r = home.install({"--host", "claude,gemini"});
  CAPTURE(r.err);
  REQUIRE(r.status == 0);
  CHECK(fs::is_symlink(home.path / ".claude.json"));
  CHECK(fs::is_symlink(home.path / ".claude"));
  CHECK(file_text(dotfiles / "claude.json").find("swarm") != std::string::npos);
  CHECK(file_text(dotfiles / "claude/settings.json").find("swarm") != std::string::npos);
  CHECK(fs::exists(dotfiles / "claude.json.swarm-backup-1"));
  CHECK(fs::is_symlink(home.path / ".gemini/settings.json"));
  CHECK(fs::is_regular_file(home.path / ".gemini/settings-real.json"));
  auto directory = home.install({"--host", "codex"});
  CHECK(directory.status == 1);
  CHECK(directory.err.find("config.toml: this is not a file") != directory.err.npos);
  REQUIRE(home.install({"--host", "claude", "--uninstall"}).status == 0);
  CHECK(file_text(dotfiles / "claude.json") == "{\n  \"a\": 1\n}\n");
  CHECK(file_text(dotfiles / "claude/settings.json") == "{}\n");
  fs::remove(home.path / ".claude.json");
  fs::create_symlink(".claude.json", home.path / ".claude.json");
  auto loop = home.install({"--host", "claude"});
  CHECK(loop.status == 1);
  CHECK(loop.err.find("too many symbolic links") != loop.err.npos);
}

TEST_CASE("each settings file may be a symbolic link, and stays one") {
  fresh_home home;
  auto dotfiles = home.base.path() / "dotfiles";
  std::map<std::string, fs::path> real;
  for (const auto& [name, text] : lived_in) {
    real[name] = dotfiles / std::to_string(real.size()) / fs::path{name}.filename();
    write(real[name], text);
    fs::create_directories((home.path / name).parent_path());
    fs::create_symlink(real[name], home.path / name);
  }
  REQUIRE(home.install({"--host", "all"}).status == 0);
  for (const auto& [name, text] : lived_in) {
    CAPTURE(name);
    CHECK(fs::read_symlink(home.path / name) == real[name]);
    CHECK(file_text(real[name]) != text);
    CHECK(mode_of(real[name]) == 0600);
    CHECK(file_text(real[name].string() + ".swarm-backup-1") == text);
    CHECK_FALSE(fs::exists(home.path / (name + ".swarm-backup-1")));
  }
  auto installed = state_of(home.base.path());
  CHECK(home.install({"--host", "all"}).status == 0);
  CHECK(state_of(home.base.path()) == installed);
  REQUIRE(home.install({"--host", "all", "--uninstall"}).status == 0);
  for (const auto& [name, text] : lived_in) {
    CAPTURE(name);
    CHECK(fs::read_symlink(home.path / name) == real[name]);
    CHECK(file_text(real[name]) == text);
  }
}

TEST_CASE("settings in a Git repository are refused unless told otherwise") {
  fresh_home home;
  fs::create_directories(home.path / ".git");
  auto refused = home.install({"--host", "gemini"});
  CHECK(refused.status == 1);
  CHECK(refused.err.find("lies in the Git repository") != refused.err.npos);
  CHECK_FALSE(fs::exists(home.path / ".gemini"));
  CHECK(home.install({"--host", "gemini", "--in-repository"}).status == 0);
  // Also one that a symbolic link leads to, and one that a variable names.
  fresh_home other;
  auto repository = other.base.path() / "repository";
  fs::create_directories(repository / ".git");
  write(repository / "settings.json", "{}\n");
  fs::create_directories(other.path / ".gemini");
  fs::create_symlink(repository / "settings.json", other.path / ".gemini/settings.json");
  CHECK(other.install({"--host", "gemini"}).status == 1);
  CHECK(file_text(repository / "settings.json") == "{}\n");
  CHECK(other.install({"--host", "codex"}, {{"CODEX_HOME", (repository / ".codex").string()}}).status == 1);
  CHECK_FALSE(fs::exists(repository / ".codex"));
}

TEST_CASE("where nothing can be written, nothing of that host is") {
  fresh_home home;
  fs::create_directories(home.path / ".claude");
  write(home.path / ".hermes", "a file in the way\n");
  auto in_the_way = home.install({"--host", "hermes"});
  CHECK(in_the_way.status == 1);
  CHECK(in_the_way.err.find("hermes: ") != in_the_way.err.npos);
  CHECK(file_text(home.path / ".hermes") == "a file in the way\n");
  // Root may write everywhere, unless it gives that right away.
  std::vector<std::string> argv;
  const std::string setpriv = "/usr/bin/setpriv";
  if (geteuid() == 0 && !fs::exists(setpriv)) {
    MESSAGE("a directory that only root may write to is not tested: there is no " << setpriv);
    return;
  }
  if (geteuid() == 0)
    argv = {setpriv, "--bounding-set", "-dac_override,-dac_read_search", "--inh-caps", "-all"};
  fs::permissions(home.path / ".claude", fs::perms::owner_read | fs::perms::owner_exec);
  argv.insert(argv.end(), {program("swarmctl").string(), "install", "--host", "claude"});
  child_process child{argv, home.node.env(home.env()), "/"};
  auto r = child.finish();
  INFO(r.err);
  CHECK(r.status == 1);
  CHECK(r.err.find("nothing can be written into") != r.err.npos);
  CHECK_FALSE(fs::exists(home.path / ".claude.json"));
  fs::permissions(home.path / ".claude", fs::perms::owner_all);
}

TEST_CASE("two that run at once end as one that ran alone") {
  fresh_home home;
  for (const auto& [name, text] : lived_in)
    write(home.path / name, text);
  std::vector<child_process> children;
  for (int i = 0; i < 4; ++i)
    children.push_back(home.node.ctl_start({"install", "--host", "all"}, {.env = home.env()}));
  for (auto& child : children)
    CHECK(child.finish().status == 0);
  auto after = home.install({"--host", "all", "--json"}).parsed();
  for (const auto& host : after.at("hosts"))
    CHECK(host.at("status") == "current");
  for (const auto& [name, text] : lived_in) {
    CAPTURE(name);
    CHECK(file_text(home.path / (name + ".swarm-backup-1")) == text);
    CHECK_FALSE(fs::exists(home.path / (name + ".swarm-backup-2")));
  }
  for (const auto& [name, text] : home.files())
    CHECK(name.find(".swarm-") == name.find(".swarm-backup-")); // no temporary file is left
  CHECK(home.parsed(".claude.json").at("mcpServers").size() == 2);
}

TEST_CASE("hosts are found by their settings or their programs, and others are refused by name") {
  fresh_home home;
  auto none = home.install({}, {{"PATH", "/nowhere"}});
  CHECK(none.status == 1);
  CHECK(none.err.find("name one with --host") != none.err.npos);
  CHECK(home.install({"--host", "cursor"}).status == 2);
  auto bin = home.base.path() / "bin";
  write(bin / "codex", "#!/bin/sh\n");
  fs::permissions(bin / "codex", fs::perms::owner_all);
  fs::create_directories(home.path / ".gemini");
  auto found = home.install({"--dry-run", "--json"}, {{"PATH", bin.string()}}).parsed();
  std::set<std::string> names;
  for (const auto& host : found.at("hosts"))
    names.insert(host.at("host"));
  CHECK(names == std::set<std::string>{"codex", "gemini"});
  // A symbolic link to this program on the path is named as it stands there.
  fs::create_symlink(program("swarmctl"), bin / "swarmctl");
  CHECK(home.install({"--dry-run", "--json"}, {{"PATH", bin.string()}}).parsed().at("program") == (bin / "swarmctl").string());
  CHECK(home.install({"--host", "claude-code", "--dry-run", "--json"}).parsed().at("hosts")[0].at("host") == "claude");
  auto homeless = home.node.ctl({"install", "--host", "claude"}, {.env = {{"HOME", ""}}});
  CHECK(homeless.status == 1);
  CHECK(homeless.err.find("$HOME names no directory") != homeless.err.npos);
  auto lost = home.install({"--host", "claude"}, {{"SWARM_SHARE", "/nowhere"}});
  CHECK(lost.status == 1);
  CHECK(lost.err.find("there is nothing in /nowhere/skills/swarm") != lost.err.npos);
}

TEST_CASE("doctor sees that Codex no longer trusts a hook, and what mends it") {
  fresh_home home;
  fs::create_directories(home.path / ".codex");
  CHECK(checked(home, "claude").is_null());
  auto here = checked(home, "codex");
  CHECK(here.at("status") == "info");
  CHECK(here.at("message") == "Codex is here, but not set up: swarmctl install --host codex");
  REQUIRE(home.install({"--host", "codex", "--fail-closed"}).status == 0);
  CHECK(checked(home, "codex").at("status") == "ok");
  // A hook before ours takes its number: what Codex trusts is another one.
  auto hooks = home.parsed(".codex/hooks.json");
  hooks["hooks"]["Stop"].insert(hooks["hooks"]["Stop"].begin(), json::parse(R"({"hooks":[{"type":"command","command":"mine"}]})"));
  write(home.path / ".codex/hooks.json", hooks.dump());
  auto untrusted = checked(home, "codex");
  CHECK(untrusted.at("status") == "warn");
  CHECK(untrusted.at("message") == "Codex: trust in the hooks is not current: swarmctl install --host codex");
  CHECK(untrusted.at("details").at("hooks") == "is set up");
  REQUIRE(home.install({"--host", "codex", "--fail-closed"}).status == 0);
  CHECK(checked(home, "codex").at("status") == "ok");
}

TEST_CASE("doctor sees hooks, a skill or a program that is gone") {
  fresh_home home;
  REQUIRE(home.install({"--host", "claude"}).status == 0);
  fs::remove(home.path / ".claude/settings.json");
  CHECK(checked(home, "claude").at("message") == "Claude Code: hooks is missing: swarmctl install --host claude");
  REQUIRE(home.install({"--host", "claude"}).status == 0);
  write(home.path / ".claude/skills/swarm/SKILL.md", "---\nname: swarm\nmetadata:\n  origin: swarm-fabric\n---\nolder\n");
  CHECK(checked(home, "claude").at("message") == "Claude Code: skill is not current: swarmctl install --host claude");
  auto text = file_text(home.path / ".claude.json");
  auto at = text.find(program("swarmctl").string());
  REQUIRE(at != text.npos);
  write(home.path / ".claude.json", text.replace(at, program("swarmctl").string().size(), "/gone/swarmctl"));
  CHECK(checked(home, "claude").at("message") ==
        "Claude Code: its settings start /gone/swarmctl, which is not there: swarmctl install --host claude");
  REQUIRE(home.install({"--host", "claude"}).status == 0);
  CHECK(checked(home, "claude").at("status") == "ok");
  CHECK(fs::exists(home.path / ".claude/skills/swarm/SKILL.md.swarm-backup-1"));
}

TEST_CASE("doctor sees what an earlier install has left in Hermes' settings, and what takes it away") {
  fresh_home home;
  const fs::path config = home.path / ".hermes/config.yaml", consent = home.path / ".hermes/shell-hooks-allowlist.json";
  const std::string said = "Hermes: shell hook of an earlier install is still there: swarmctl install --host hermes";
  auto is_told = [&] {
    auto found = checked(home, "hermes");
    CHECK(found.at("status") == "warn");
    CHECK(found.at("message") == said);
    CHECK(found.at("details").at("plugin") == "is set up");
    REQUIRE(home.install({"--host", "hermes"}).status == 0);
    CHECK(checked(home, "hermes").at("status") == "ok");
  };
  REQUIRE(home.install({"--host", "hermes"}).status == 0);
  const auto clean = file_text(config);
  write(config, clean + "hooks:\n  pre_tool_call:\n  - command: /old/swarmctl hook hermes pre-tool-use\n");
  is_told();
  CHECK(file_text(config) == clean);
  write(consent, R"({"approvals":[{"event":"pre_tool_call","command":"/old/swarmctl hook hermes pre-tool-use"},{"command":"mine"}]})");
  is_told();
  CHECK(file_text(consent).find("swarmctl") == std::string::npos);
  // Those of somebody else are no matter of ours.
  write(config, clean + "hooks:\n  pre_tool_call:\n  - command: mine\n");
  CHECK(checked(home, "hermes").at("status") == "ok");
}

TEST_CASE("init names the server in a project, by name only") {
  fresh_home home;
  fs::create_directories(home.path / "project/.git");
  auto run = [&](std::vector<std::string> more = {}) {
    std::vector<std::string> all{"init", "--dir", (home.path / "project").string()};
    all.insert(all.end(), more.begin(), more.end());
    return home.ctl(all);
  };
  CHECK(run({"--dry-run"}).status == 0);
  CHECK_FALSE(fs::exists(home.path / "project/.mcp.json"));
  REQUIRE(run({"--no-skills"}).status == 0);
  CHECK(home.parsed("project/.mcp.json") == json::parse(R"({"mcpServers":{"swarm":{"command":"swarmctl","args":["mcp"]}}})"));
  CHECK(run().out.find("nothing to do") == 0);
  write(home.path / "project/.mcp.json", "{\"mcpServers\":{\"swarm\":{\"command\":\"npx\"}}}\n");
  CHECK(run().status == 1);
  CHECK(run({"--force"}).status == 0);
  CHECK(home.parsed("project/.mcp.json").at("mcpServers").at("swarm").at("command") == "swarmctl");
  CHECK(home.ctl({"init", "--dir", "/nowhere"}).status == 1);
  // The server has the name it has in swarm-mcp, too.
  auto served = home.node.ctl({"serve"}, {.input = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n", .env = home.env()});
  CHECK(served.status == 0);
  CHECK(served.out.find("\"id\":1") != served.out.npos);
}
