// What config.toml says of a node to its cluster.
#include <cstdlib>
#include <fstream>
#include <sstream>

#include <doctest/doctest.h>

#include "actors/base/limits_config.hpp"
#include "services/federation/node_config.hpp"

using namespace swarm;

namespace {

std::string wrong_with(const std::string& text) {
  auto read = parse_node_config(text);
  return read ? "fine" : read.failure().text;
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

TEST_CASE("labels and rules are read, limits are left to others") {
  auto read = parse_node_config("[limits]\nhost_lease = 20000\n[labels]\ngpu = \"yes\"\nzone = \"\"\n[accept.spawn]\nprincipals = [\"session\"]\n"
                                "harnesses = [\"claude\", \"exec\"]\ndirectories = [\"/srv\"]\n[accept.terminals]\nwrite = []\n");
  REQUIRE(read);
  CHECK(read->labels == std::map<std::string, std::string>{{"gpu", "yes"}, {"zone", ""}});
  CHECK(read->accept.spawn.principals == std::vector<std::string>{"session"});
  CHECK(read->accept.spawn.harnesses == std::vector<std::string>{"claude", "exec"});
  CHECK(read->accept.spawn.directories == std::vector<std::string>{"/srv"});
  CHECK(read->accept.terminals.write.empty());
  CHECK(read->accept.terminals.read == std::vector<std::string>{"operator"});
}

TEST_CASE("the defaults hold for what is not said") {
  auto read = parse_node_config("");
  REQUIRE(read);
  CHECK(read->labels.empty());
  CHECK(read->accept.spawn.principals == std::vector<std::string>{"operator"});
}

TEST_CASE("what is wrong is named") {
  CHECK(wrong_with("[labels]\ngpu = 1\n").find("gpu") != std::string::npos);
  CHECK(wrong_with("[labels]\nos = \"mine\"\n").find("finds out itself") != std::string::npos);
  CHECK(wrong_with("[labels]\n\"harness.claude\" = \"x\"\n").find("finds out itself") != std::string::npos);
  CHECK(wrong_with("[accept]\nspwan = 1\n").find("spwan") != std::string::npos);
  CHECK(wrong_with("[accept.spawn]\nprincipal = []\n").find("principal") != std::string::npos);
  CHECK(wrong_with("[accept.spawn]\nprincipals = [\"root\"]\n").find("operator, gateway") != std::string::npos);
  CHECK(wrong_with("[accept.spawn]\nharnesses = [\"vim\"]\n").find("accept.spawn.harnesses") != std::string::npos);
  CHECK(wrong_with("[accept.spawn]\ndirectories = [\"srv\"]\n").find("absolute") != std::string::npos);
  CHECK(wrong_with("[accept]\nspawn = 3\n").find("table") != std::string::npos);
  CHECK(wrong_with("[labels\n").find("line 1") != std::string::npos);
  std::string many = "[labels]\n";
  for (int i = 0; i < 33; ++i)
    many += "l" + std::to_string(i) + " = \"x\"\n";
  CHECK(wrong_with(many).find("more than 32") != std::string::npos);
}

TEST_CASE("the tables of the cluster are no mistake to the reader of the limits") {
  CHECK_FALSE(configure_limits_from("[labels]\ngpu = \"yes\"\n[accept.spawn]\nprincipals = []\n").has_value());
  CHECK(configure_limits_from("[lables]\ngpu = \"yes\"\n")->find("[labels]") != std::string::npos);
}

TEST_CASE("docs/configuration.md names every table and key that can be set, and its example can be read") {
  const auto page = configuration_page();
  const auto example = toml_block(page);
  for (auto table : configuration_tables()) {
    CAPTURE(table);
    CHECK(page.find("`[" + std::string{table} + "]`") != page.npos);
    CHECK(example.find("[" + std::string{table}) != example.npos);
  }
  const auto keys = accept_keys();
  CHECK(keys.size() == 6);
  for (const auto& key : keys) {
    CAPTURE(key);
    CHECK(page.find("`" + key + "`") != page.npos);
  }
  const auto before = limit_settings();
  CHECK(configure_limits_from(example).value_or("fine") == "fine");
  const auto after = limit_settings();
  // Limits are the process's own: the example names one with its default.
  CHECK(std::equal(before.begin(), before.end(), after.begin(), [](const auto& a, const auto& b) { return a.value == b.value; }));
  CHECK(wrong_with(example) == "fine");
}
