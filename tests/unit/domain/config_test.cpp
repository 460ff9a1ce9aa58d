#include "actors/domain/config.hpp"

#include <cstdlib>
#include <fstream>
#include <sstream>

#include <doctest/doctest.h>

#include "actors/base/limits_config.hpp"
#include "actors/base/text.hpp"

using namespace swarm;
using domain::node_config;
using domain::whole_config;

namespace {

config_document read(const std::string& text) { return parse_config(text, whole_config()); }

std::string wrong_with(const std::string& text) {
  const auto document = read(text);
  return document.faults.empty() ? "fine" : document.faults.front().told("");
}

node_config config_of(const std::string& text) {
  const auto document = read(text);
  REQUIRE(document.faults.empty());
  return domain::node_config_of(document);
}

/// The page that people look the file up in.
std::string configuration_page() {
  const auto* sources = std::getenv("SWARM_SOURCE_DIR");
  REQUIRE(sources);
  std::ifstream in{std::string{sources} + "/docs/configuration.md"};
  REQUIRE(in);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

/// The example of the whole file.
std::string toml_block(const std::string& page) {
  const std::string fence = "```toml\n";
  auto from = page.find(fence);
  REQUIRE(from != page.npos);
  from += fence.size();
  return page.substr(from, page.find("```", from) - from);
}

} // namespace

TEST_CASE("labels and rules are taken from the file") {
  const auto c = config_of("[limits]\nhost_lease = 20000\n[labels]\ngpu = \"yes\"\nzone = \"\"\n[accept.spawn]\nprincipals = [\"session\"]\n"
                           "harnesses = [\"claude\", \"exec\"]\ndirectories = [\"/srv\"]\n[accept.terminals]\nwrite = []\n"
                           "[identity]\nboundary = true\n[workers]\nstructured = true\n");
  CHECK(c.labels == std::map<std::string, std::string>{{"gpu", "yes"}, {"zone", ""}});
  CHECK(c.accept.spawn.principals == std::vector<std::string>{"session"});
  CHECK(c.accept.spawn.harnesses == std::vector<std::string>{"claude", "exec"});
  CHECK(c.accept.spawn.directories == std::vector<std::string>{"/srv"});
  CHECK(c.accept.terminals.write.empty());
  CHECK(c.accept.terminals.read == std::vector<std::string>{"operator"});
  CHECK(c.identity_boundary);
  CHECK(c.structured_workers);
}

TEST_CASE("the defaults hold for what is not said") {
  const auto c = config_of("");
  CHECK(c.labels.empty());
  CHECK(c.agent_environment.empty());
  CHECK(c.accept.spawn.principals == std::vector<std::string>{"operator"});
  CHECK_FALSE(c.identity_boundary);
  CHECK_FALSE(c.structured_workers);
}

TEST_CASE("an agent's environment holds texts and files and secrets") {
  const auto c = config_of("[agents.claude]\nenvironment = { ANTHROPIC_API_KEY = \"secret:anthropic\", A = \"\" }\n"
                           "[agents.codex.environment]\nB = \"path:/etc/key\"\n");
  CHECK(c.agent_environment.at("claude") == domain::variables{{"ANTHROPIC_API_KEY", "secret:anthropic"}, {"A", ""}});
  CHECK(c.agent_environment.at("codex") == domain::variables{{"B", "path:/etc/key"}});
  auto wrong = [](const std::string& line) { return wrong_with("[agents.claude.environment]\n" + line + "\n"); };
  CHECK(wrong("SWARM_TOKEN = \"x\"") == "line 2: the node sets the variables SWARM_* of a worker itself, SWARM_TOKEN too");
  CHECK(wrong("\"A=B\" = \"x\"").find("a variable is named by letters") != std::string::npos);
  CHECK(wrong("A = \"secret:../x\"").find("A in [agents.claude.environment] names no secret: a secret is named by") != std::string::npos);
  CHECK(wrong("A = \"path:key\"") == "line 2: A in [agents.claude.environment] must name an absolute file: path:/FILE");
  CHECK(wrong("A = 1").find("must be a text in quotes") != std::string::npos);
  CHECK(wrong_with("[agents.cluade.environment]\nA = \"x\"\n") == "line 1: unknown table or key \"agents.cluade\"; did you mean [agents.claude]?");
  CHECK(wrong_with("[agents.claude]\nenviroment = {}\n").find("did you mean [agents.claude.environment]?") != std::string::npos);
}

TEST_CASE("a secret that the file names and nobody has set is a fault with its line") {
  auto document = read("[agents.claude.environment]\nA = \"secret:one\"\nB = \"secret:two\"\n");
  domain::check_secrets(document, [](std::string_view name) { return name == "one"; });
  REQUIRE(document.faults.size() == 1);
  CHECK(document.faults[0].told("c.toml") ==
        "c.toml:3: agents.claude.environment.B names the secret two, which is not set; set it with: swarmctl secret set two");
}

TEST_CASE("what is wrong is named") {
  CHECK(wrong_with("[labels]\ngpu = 1\n").find("gpu") != std::string::npos);
  CHECK(wrong_with("[labels]\nos = \"mine\"\n").find("finds out itself") != std::string::npos);
  CHECK(wrong_with("[labels]\n\"harness.claude\" = \"x\"\n").find("finds out itself") != std::string::npos);
  CHECK(wrong_with("[accept]\nspwan = 1\n").find("spwan") != std::string::npos);
  CHECK(wrong_with("[accept.spawn]\nprincipal = []\n").find("principal") != std::string::npos);
  CHECK(wrong_with("[accept.spawn]\nprincipals = [\"root\"]\n").find("operator, gateway") != std::string::npos);
  CHECK(wrong_with("[accept.spawn]\nharnesses = [\"vim\"]\n").find("harnesses in [accept.spawn] holds exec, shell") != std::string::npos);
  CHECK(wrong_with("[accept.spawn]\ndirectories = [\"srv\"]\n").find("absolute") != std::string::npos);
  CHECK(wrong_with("[accept]\nspawn = 3\n").find("accept.spawn must be a table") != std::string::npos);
  CHECK(wrong_with("[labels\n").find("line 1") != std::string::npos);
  std::string many = "[labels]\n";
  for (int i = 0; i < 33; ++i)
    many += "l" + std::to_string(i) + " = \"x\"\n";
  CHECK(wrong_with(many).find("more than 32") != std::string::npos);
}

TEST_CASE("limits that contradict each other are a fault of the line that was set") {
  CHECK(wrong_with("[limits]\nsession_stale = 200_000\n") ==
        "line 2: session_stale must not be above session_reclaim, and they are 200000 and 60000");
}

TEST_CASE("the reader of the limits leaves the other sections to the whole registry") {
  CHECK_FALSE(configure_limits_from("[labels]\ngpu = 1\n[lables]\n").has_value());
  CHECK(wrong_with("[lables]\ngpu = \"yes\"\n") == "line 1: unknown table or key \"lables\"; did you mean [labels]?");
}

TEST_CASE("every key says who reads it and when and what it is for") {
  for (const auto& key : whole_config().keys) {
    CAPTURE(key.full_name());
    CHECK_FALSE(key.reader.empty());
    CHECK_FALSE(key.effect.empty());
    CHECK_FALSE(key.help.empty());
    if (!key.fallback.empty())
      CHECK(wrong_with("[" + key.section + "]\n" + key.name + " = " + key.fallback + "\n") == "fine");
  }
}

TEST_CASE("docs/configuration.md has the table of the registry, and its example can be read") {
  const auto page = configuration_page();
  std::string agents_row;
  for (const auto& key : whole_config().keys) {
    if (key.section == "limits")
      continue;
    const bool agents = key.section.starts_with("agents.");
    if (agents && key.section != "agents.claude.environment")
      continue;
    const auto name = agents ? std::string{"agents.NAME.environment.*"} : key.full_name();
    const auto help = agents ? std::string{"a variable for each agent NAME that this node starts: a text, `path:/FILE` or `secret:NAME`"} : key.help;
    const auto row = concat({"| `", name, "` | ", config_kind_text(key), " | ", key.fallback.empty() ? "" : "`", key.fallback,
                             key.fallback.empty() ? "" : "`", " | ", key.effect, " | ", help, " |\n"});
    CHECK_MESSAGE(page.find(row) != page.npos, row);
  }
  const auto example = toml_block(page);
  CHECK(wrong_with(example) == "fine");
  for (const auto& section : whole_config().sections()) {
    CAPTURE(section);
    CHECK((section.starts_with("agents.") || example.find("[" + section + "]") != example.npos));
  }
  // What it shows with a default is the default.
  const auto document = read(example);
  for (const auto& e : document.entries)
    if (!e.key->fallback.empty())
      CHECK(config_text(e.value) == e.key->fallback);
}
