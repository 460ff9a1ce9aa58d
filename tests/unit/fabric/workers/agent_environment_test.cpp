// What config.toml sets for agents: where values come from, and which variable wins.
#include "actors/fabric/workers/agent_environment.hpp"

#include <algorithm>
#include <fstream>

#include <doctest/doctest.h>
#include <sys/stat.h>

#include "actors/base/secrets.hpp"
#include "actors/fabric/workers/spawn.hpp"
#include "tests/support/fabric_world.hpp"

using namespace swarm;
using swarm::test::scratch_state;

namespace {

using list = std::vector<std::string>;

bool holds(const list& env, const std::string& what) { return std::count(env.begin(), env.end(), what) == 1; }

} // namespace

TEST_CASE("a variable's value is the text itself or a file's or a secret's at that moment") {
  scratch_state state;
  const auto directory = secrets_directory(state.dir.root);
  const secret_store secrets{directory};
  REQUIRE(secrets.set("key", "one").empty());
  const auto file = state.dir.root / "file";
  std::ofstream{file} << "from a file\n";
  const domain::variables wanted{{"A", "text"}, {"B", "secret:key"}, {"C", "path:" + file.string()}};
  CHECK(resolve(wanted, "claude", directory)->list == list{"A=text", "B=one", "C=from a file"});
  REQUIRE(secrets.set("key", "two").empty());
  CHECK(holds(resolve(wanted, "claude", directory)->list, "B=two"));
  REQUIRE(secrets.remove("key").empty());
  CHECK(resolve(wanted, "claude", directory).failure() ==
        "B of [agents.claude.environment]: there is no secret key; set it with: swarmctl secret set key");
}

TEST_CASE("a file that cannot be a value is refused without waiting and without its content") {
  scratch_state state;
  const auto file = (state.dir.root / "file").string();
  const auto resolved = [&] { return resolve({{"C", "path:" + file}}, "codex", state.dir.root / "secrets"); };
  CHECK(resolved().failure().starts_with("C of [agents.codex.environment]: " + file + " cannot be read"));
  REQUIRE(mkfifo(file.c_str(), 0600) == 0);
  CHECK(resolved().failure() == "C of [agents.codex.environment]: " + file + " is no regular file");
  std::filesystem::remove(file);
  std::ofstream{file} << std::string{"hun\0ter", 7};
  CHECK(resolved().failure() == "C of [agents.codex.environment]: the file holds a zero byte, which no variable can hold");
}

TEST_CASE("a configured variable overrides the node's and the caller's overrides it") {
  node_facts facts;
  facts.program_dir = "/opt/swarm/bin";
  facts.token_key = std::string(32, 'k');
  facts.base_environment = {"PATH=/usr/bin", "KEY=node", "ORIGIN=node"};
  v1::Spawn row;
  row.set_harness("exec");
  const list configured{"KEY=configured", "EXTRA=configured"};
  const auto alone = worker_environment(facts, row, "/r", "/r", {}, configured);
  CHECK(holds(alone, "KEY=configured"));
  CHECK(holds(alone, "ORIGIN=node"));
  const auto called = worker_environment(facts, row, "/r", "/r", {"PATH=/bin", "KEY=caller"}, configured);
  CHECK(holds(called, "KEY=caller"));
  CHECK(holds(called, "EXTRA=configured"));
  CHECK_FALSE(holds(called, "KEY=configured"));
}
