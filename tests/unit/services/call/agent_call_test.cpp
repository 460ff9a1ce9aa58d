#include "services/call/agent_call.hpp"

#include <doctest/doctest.h>

#include "tests/support/fabric_world.hpp"
#include "tests/support/process_tree.hpp"

using namespace swarm;
using test::session_named;

namespace {

/// A person's shell with two agents, one of which has started another one.
struct agents_world {
  test::scratch_state state;
  test::fake_process_watch watch;
  testing::process_tree all;
  worker_registry workers;
  std::unique_ptr<agent_roots> roots;
  std::unique_ptr<caller_places> places;

  agents_world() {
    all.add(10, {.session = 10, .executable = "/bin/bash"});
    all.add(20,
            {.parent = 10, .executable = "/opt/claude", .environment = {"AGENT_IDENTITY=work", "SWARM_CC_GRANTS=spawn", "SWARM_MCP_INSTANCE_ID=id"}});
    all.add(21, {.parent = 20, .executable = "/bin/bash", .environment = {"AGENT_IDENTITY=other", "SWARM_ROLE=gateway"}});
    all.add(22, {.parent = 21, .executable = "/opt/codex", .environment = {"AGENT_IDENTITY=other", "SWARM_ROLE=gateway", "SWARM_CODEX_GRANTS=pty"}});
    all.add(23, {.parent = 22, .executable = "/usr/bin/swarmctl"});
    all.add(30, {.parent = 10, .executable = "/opt/codex", .environment = {"SWARM_CODEX_ROLE=gateway", "SWARM_CC_IDENTITY=claude-only"}});
    all.add(31, {.parent = 30, .executable = "/usr/bin/swarmctl"});
    roots = std::make_unique<agent_roots>(state.dir.agents_file(), watch, all, "boot-1");
    places = std::make_unique<caller_places>(workers, *roots, [] { return 0; });
  }
  claim caller(std::int64_t pid, v1::Explanation::Rule rule) const {
    claim out;
    out.place = places->look_at(pid).place;
    out.rule = rule;
    return out;
  }
  std::optional<v1::AgentStart> start_of(std::int64_t pid) const { return agent_start_of(*places, caller(pid, v1::Explanation::AGENT_UNREGISTERED)); }
};

} // namespace

TEST_CASE("what an agent's start gives is that of its program, for the variables of its own") {
  agents_world w;
  const auto start = w.start_of(21);
  REQUIRE(start);
  CHECK(start->root() == "20.20");
  CHECK(start->program() == "claude");
  CHECK(start->identity() == "identity:work");
  CHECK_FALSE(start->coordinator());
  CHECK(start->grants_size() == 1);
  CHECK(start->instance_id() == "id");
  const auto other = w.start_of(31);
  REQUIRE(other);
  CHECK(other->identity().empty());
  CHECK(other->coordinator());
  CHECK_FALSE(w.start_of(10));
  CHECK_FALSE(agent_start_of(*w.places, w.caller(21, v1::Explanation::LOGIN)));
}

TEST_CASE("an agent that an agent has started has the rights of the outer one, and no id that was given to that") {
  agents_world w;
  const auto start = w.start_of(23);
  REQUIRE(start);
  CHECK(start->root() == "22.22");
  CHECK(start->program() == "codex");
  CHECK(start->identity() == "identity:work");
  CHECK_FALSE(start->coordinator());
  REQUIRE(start->grants_size() == 1);
  CHECK(start->grants(0) == "spawn");
  CHECK(start->instance_id().empty());
}

TEST_CASE("who runs below an agent speaks for each session of its program and for no other, a token for one only") {
  agents_world w;
  claim who;
  who.place = w.places->look_at(21).place;
  for (const auto* id : {"a", "b"})
    REQUIRE(w.roots->bind(who.place.root, id, "/repo"));
  w.roots->root_of(31);
  REQUIRE(w.roots->bind({30, 30}, "c", "/repo"));
  auto b = session_named("b");
  b.add_grants("spawn");
  auto speaks = [&](const std::string& named) { return speaker(*w.places, who, b, named).id(); };
  CHECK(speaks("") == "b");
  CHECK(speaks("a") == "a");
  CHECK(speaker(*w.places, who, b, "a").grants().empty());
  CHECK(speaker(*w.places, who, b, "b").grants_size() == 1);
  CHECK(speaks("c") == "b");
  CHECK(speaks("none") == "b");
  who.rule = v1::Explanation::TOKEN;
  CHECK(speaks("a") == "b");
  who.rule = v1::Explanation::AGENT_ROOT;
  who.place.is = caller_place::kind::user;
  CHECK(speaks("a") == "b");
}

TEST_CASE(
  "what is registered below an agent is the agent's, also by whoever shows a token and stays who it says, but not by a person who has logged in") {
  agents_world w;
  caller_table table;
  token_cache tokens{[] { return std::int64_t{0}; }};
  principals callers{table, w.workers, tokens, *w.places};
  auto registers = [&](std::int64_t pid, v1::Explanation::Rule rule, const std::string& id) {
    v1::Session s;
    s.set_id(id);
    s.set_scope("/repo");
    return callers.registered(w.caller(pid, rule), s, 0);
  };
  auto is_agents = [&](const std::string& id) { return w.roots->root_of_session(id) == process_key{20, 20}; };
  auto by_agent = registers(21, v1::Explanation::AGENT_UNREGISTERED, "a");
  REQUIRE(by_agent);
  CHECK(by_agent->who.id() == "a");
  CHECK(is_agents("a"));
  CHECK_FALSE(registers(21, v1::Explanation::TOKEN, "b"));
  CHECK(is_agents("b"));
  CHECK_FALSE(registers(21, v1::Explanation::LOGIN, "c"));
  CHECK_FALSE(is_agents("c"));
  CHECK_FALSE(registers(10, v1::Explanation::USER, "d"));
  CHECK_FALSE(is_agents("d"));
}

TEST_CASE("what a person who has logged in keeps open is no person's any more when the login is over") {
  agents_world w;
  caller_table table;
  token_cache tokens{[] { return std::int64_t{0}; }};
  const login_registry nobody{w.state.dir.login_file(), [] { return std::int64_t{0}; }};
  principals callers{table, w.workers, tokens, *w.places, &nobody};
  auto who = w.caller(21, v1::Explanation::LOGIN);
  who.connection = 7;
  who.looked_at = w.roots->generation();
  table.put(7, {21, 21, who.place, who.looked_at});
  CHECK_FALSE(callers.still_holds(who));
  who.rule = v1::Explanation::AGENT_ROOT;
  CHECK(callers.still_holds(who));
}
