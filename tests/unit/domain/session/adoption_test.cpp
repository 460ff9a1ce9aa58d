// Which rows an agent's hooks and tool servers take over, and what of a registration is theirs to say.
#include <doctest/doctest.h>

#include "actors/domain/agent_start.hpp"
#include "actors/domain/rules.hpp"
#include "tests/support/domain_world.hpp"

using namespace swarm;
using test::domain_world;
namespace v1 = swarm::v1;

namespace {

/// What runs below an agent's program: without a session of its own while `session` is empty.
struct agent_caller {
  std::string root = "70.7";
  std::string session = {};
  v1::AgentStart start = {};
  std::string node = "node-1";

  v1::Command registration(const std::string& label = {}, std::int64_t pid = 0) const {
    auto cmd = domain_world::registration(label, pid);
    cmd.mutable_principal()->set_kind(session.empty() ? v1::Principal::AGENT : v1::Principal::SESSION);
    cmd.mutable_principal()->set_id(session.empty() ? root : session);
    auto& r = *cmd.mutable_register_session();
    *r.mutable_agent() = start;
    r.mutable_agent()->set_root(root);
    r.mutable_agent()->set_program("claude");
    r.set_node_id(node);
    return cmd;
  }
  v1::Command leased(const std::string& label, const std::string& name = {}) const {
    auto cmd = registration(label);
    cmd.mutable_register_session()->set_lease_ms(600'000);
    cmd.mutable_register_session()->set_agent_session(name);
    return cmd;
  }
};

/// A row that a person has made, which lives by its lease.
std::string leased_by_person(domain_world& w, const std::string& label) {
  auto cmd = domain_world::registration(label);
  cmd.mutable_register_session()->set_lease_ms(600'000);
  return w.reply(cmd).session().session().id();
}

std::string id_in(const v1::Reply& r) { return r.has_refusal() ? "refused: " + r.refusal().text() : r.session().session().id(); }

v1::Session row(const domain_world& w, const std::string& id) { return *w.rows.row<v1::Session>(domain::key(id)); }

/// The ways in which a registration names a row.
enum class by { adoption, adoption_only, preassigned, label };

v1::Command naming(v1::Command cmd, by way, const std::string& id, const std::string& label) {
  auto& r = *cmd.mutable_register_session();
  switch (way) {
    case by::adoption_only: r.set_adopt_only(true); [[fallthrough]];
    case by::adoption: r.set_adopt_session_id(id); break;
    case by::preassigned: r.set_preassigned_id(id); break;
    case by::label: r.set_label(label); break;
  }
  return cmd;
}

} // namespace

TEST_CASE("an agent takes over no row of a stranger, with or without a session of its own, and the stranger keeps its locks") {
  for (const bool registered : {false, true})
    for (const auto way : {by::adoption, by::adoption_only, by::preassigned, by::label}) {
      CAPTURE(registered);
      CAPTURE(static_cast<int>(way));
      domain_world w;
      const auto peer = leased_by_person(w, "session:peer");
      auto lock = domain_world::command(peer);
      lock.mutable_acquire_lock()->set_path("/repo/a");
      REQUIRE_FALSE(w.reply(lock).has_refusal());
      agent_caller me;
      if (registered)
        me.session = w.reply(me.leased("session:me")).session().session().id();
      auto cmd = naming(me.registration({}, 8), way, peer, "session:peer");
      cmd.mutable_register_session()->set_of_agent(way != by::preassigned);
      cmd.mutable_register_session()->set_token_hash(std::string(32, 't'));
      const auto reply = w.reply(cmd);
      CHECK(id_in(reply) != peer);
      CHECK(row(w, peer).presence() == v1::Session::LEASE);
      CHECK_FALSE(row(w, peer).adopted());
      REQUIRE(w.rows.all<v1::Lock>().size() == 1);
      CHECK(w.rows.all<v1::Lock>().begin()->second.session_id() == peer);
      for (const auto& [key, credential] : w.rows.all<v1::Credential>())
        CHECK(credential.session_id() != peer);
    }
}

TEST_CASE("who is refused a row of somebody else is told what to do") {
  domain_world w;
  const auto peer = leased_by_person(w, "session:peer");
  const auto reply = w.reply(naming(agent_caller{}.registration(), by::preassigned, peer, {}));
  CHECK(reply.refusal().code() == v1::Refusal::FORBIDDEN);
  CHECK(reply.refusal().text() == "Could not adopt instance " + peer);
  CHECK(reply.refusal().explanation().find("SWARM_MCP_INSTANCE_ID=" + peer) != std::string::npos);
}

TEST_CASE("a tool server takes over what a hook of the same agent has registered, and of two agents each its own") {
  domain_world w;
  agent_caller one{"70.7"}, two{"80.8"};
  const auto first = id_in(w.reply(one.leased("session:one"))), second = id_in(w.reply(two.leased("session:two")));
  REQUIRE(first != second);
  for (auto* agent : {&one, &two}) {
    auto cmd = agent->registration("role:tester", 9);
    cmd.mutable_register_session()->set_of_agent(true);
    cmd.mutable_register_session()->set_adopt_only(true);
    const auto taken = w.reply(cmd);
    CHECK(id_in(taken) == (agent == &one ? first : second));
    CHECK(taken.session().session().presence() == v1::Session::PROCESS);
    // It is held from now on: a second tool server finds nothing.
    cmd.mutable_register_session()->set_pid(10);
    CHECK(w.reply(cmd).refusal().code() == v1::Refusal::NOT_FOUND);
    cmd.mutable_register_session()->set_adopt_only(false);
    CHECK(id_in(w.reply(cmd)) != id_in(taken));
  }
}

TEST_CASE("of several rows of one agent the one that its caller is taken for is meant, else none") {
  domain_world w;
  agent_caller me;
  const auto first = id_in(w.reply(me.leased("session:one"))), second = id_in(w.reply(me.leased("session:two")));
  auto cmd = [&](const std::string& session) {
    auto as = me;
    as.session = session;
    auto out = as.registration({}, 9);
    out.mutable_register_session()->set_of_agent(true);
    out.mutable_register_session()->set_adopt_only(true);
    return out;
  };
  CHECK(w.reply(cmd({})).refusal().code() == v1::Refusal::NOT_FOUND);
  CHECK(id_in(w.reply(cmd(second))) == second);
  CHECK(id_in(w.reply(cmd(first))) == first);
}

TEST_CASE("a program of another host with the same number is another agent") {
  domain_world w;
  agent_caller here, there;
  there.node = "node-2";
  const auto id = id_in(w.reply(here.leased("session:one")));
  CHECK(id_in(w.reply(naming(there.registration(), by::preassigned, id, {}))) != id);
  CHECK(id_in(w.reply(naming(here.registration(), by::preassigned, id, {}))) == id);
}

TEST_CASE("an id that a person started the agent with may be taken over, one that the call names may not") {
  domain_world w;
  const auto made = leased_by_person(w, "identity:x mode:gateway name:lead"), other = leased_by_person(w, "identity:x name:other");
  agent_caller me;
  me.start.set_instance_id(made);
  CHECK(w.reply(naming(me.registration(), by::preassigned, other, {})).refusal().code() == v1::Refusal::FORBIDDEN);
  const auto taken = w.reply(naming(me.registration({}, 8), by::preassigned, made, {}));
  REQUIRE(id_in(taken) == made);
  CHECK(taken.session().session().label() == "identity:x mode:gateway name:lead");
  // What a person has made it, it may say of itself.
  auto again = me;
  again.session = made;
  const auto renamed = w.reply(naming(again.registration("identity:x mode:gateway name:boss", 8), by::preassigned, made, {}));
  CHECK(renamed.session().session().label() == "identity:x mode:gateway name:boss");
  CHECK(renamed.session().note().empty());
}

TEST_CASE("a program that goes on with a session of before takes over its row, by the agent's own name for it and no shorter one") {
  domain_world w;
  const std::string name = "12345678-9abc-4def-8123-456789abcdef";
  agent_caller before{"70.7"}, after{"80.8"};
  const auto id = id_in(w.reply(before.leased("session:12345678", name)));
  CHECK(row(w, id).agent_session().size() == 32);
  // The label shows the beginning of the name to everybody.
  CHECK(id_in(w.reply(agent_caller{"90.9"}.leased("session:12345678"))) != id);
  CHECK(id_in(w.reply(agent_caller{"90.9"}.leased("session:12345678", "12345678"))) != id);
  CHECK(id_in(w.reply(after.leased("session:12345678", name))) == id);
  CHECK(row(w, id).agent_root() == "80.8");
}

TEST_CASE("a session that a process holds is not taken over by naming that process") {
  domain_world w;
  agent_caller holder{"70.7"}, thief{"80.8"};
  const auto id = id_in(w.reply(holder.registration("session:one", 9)));
  for (auto way : {by::adoption, by::preassigned, by::label}) {
    auto cmd = naming(thief.registration({}, 9), way, id, "session:one");
    cmd.mutable_register_session()->set_token_hash(std::string(32, 't'));
    CHECK(id_in(w.reply(cmd)) != id);
    auto with_session = thief;
    with_session.session = id_in(w.reply(thief.registration("name:thief")));
    CHECK(id_in(w.reply(naming(with_session.registration({}, 9), way, id, "session:one"))) != id);
  }
  for (const auto& [key, credential] : w.rows.all<v1::Credential>())
    CHECK(credential.session_id() != id);
}

TEST_CASE("a session takes over the rows that it has registered itself, and no others") {
  domain_world w;
  const auto me = w.session("identity:x", 7), peer = w.session("identity:x", 8);
  auto as = [&](const std::string& who, v1::Command cmd) {
    cmd.mutable_principal()->set_kind(v1::Principal::SESSION);
    cmd.mutable_principal()->set_id(who);
    return cmd;
  };
  auto helper = domain_world::registration("identity:x name:helper");
  helper.mutable_register_session()->set_lease_ms(60'000);
  const auto id = id_in(w.reply(as(me, helper)));
  CHECK(row(w, id).made_by() == me);
  const auto take = naming(domain_world::registration({}, 9), by::preassigned, id, {});
  CHECK(w.reply(as(peer, take)).refusal().code() == v1::Refusal::FORBIDDEN);
  CHECK(id_in(w.reply(as(me, take))) == id);
}

TEST_CASE("to a person every row may be made that nobody holds") {
  domain_world w;
  const auto id = id_in(w.reply(agent_caller{}.leased("session:one")));
  CHECK(id_in(w.reply(naming(domain_world::registration({}, 8), by::preassigned, id, {}))) == id);
}

TEST_CASE("identity, coordination and grants of an agent's session come from its start, whatever the call says") {
  struct line {
    const char* label;
    const char* identity;
    bool coordinator;
    const char* becomes;
    bool noted;
  };
  const line table[] = {
    {"name:a", "", false, "name:a", false},
    {"name:a", "identity:x", false, "identity:x name:a", false},
    {"", "identity:x", false, "identity:x", false},
    {"identity:x name:a", "identity:x", false, "identity:x name:a", false},
    {"identity:y name:a", "identity:x", false, "identity:x name:a", true},
    {"name:a  identity:y", "", false, "name:a", true},
    {"name:a identity:x identity:y", "identity:x", false, "name:a identity:x", true},
    {"mode:gateway\trole:planner", "", false, "role:planner", true},
    {"mode:gateway", "", false, "", true},
    {"identity:x mode:gateway", "identity:x", true, "identity:x mode:gateway", false},
    {"name:a", "", true, "name:a", false},
  };
  for (const auto& l : table)
    for (const bool registered : {false, true}) {
      CAPTURE(l.label);
      CAPTURE(registered);
      domain_world w;
      agent_caller me;
      me.start.set_identity(l.identity);
      me.start.set_coordinator(l.coordinator);
      if (registered)
        me.session = id_in(w.reply(me.leased(std::string{l.coordinator ? "mode:gateway " : ""} + "session:me")));
      const auto reply = w.reply(me.registration(l.label));
      REQUIRE_FALSE(reply.has_refusal());
      CHECK(reply.session().session().label() == l.becomes);
      CHECK(reply.session().note().empty() != l.noted);
    }
}

TEST_CASE("an agent's session has the grants that a person started its program with, and none that a call names") {
  domain_world w;
  agent_caller me;
  me.start.add_grants("spawn");
  me.start.add_grants("no-such-grant");
  const auto session = w.reply(me.leased("session:me")).session().session();
  REQUIRE(session.grants_size() == 1);
  CHECK(session.grants(0) == "spawn");
  auto more = agent_caller{"80.8"}.registration("name:b");
  more.mutable_register_session()->add_grants("pty");
  CHECK(w.reply(more).has_refusal());
}

TEST_CASE("an agent without a session is told to register, whatever it asks for") {
  domain_world w;
  auto lock = domain_world::by(v1::Principal::AGENT, "70.7");
  lock.mutable_acquire_lock()->set_path("/repo/a");
  auto as_somebody = lock;
  as_somebody.set_actor(w.session("session:peer"));
  for (const auto& cmd : {lock, as_somebody}) {
    const auto refused = w.reply(cmd).refusal();
    CHECK(refused.code() == v1::Refusal::NOT_REGISTERED);
    CHECK(refused.text() == "Not registered. Call register first.");
    CHECK_FALSE(refused.explanation().empty());
  }
}

TEST_CASE("what an agent's start says is read from its environment, its own variables first") {
  using variables = std::map<std::string, std::string, std::less<>>;
  const auto start = [](variables v) {
    return domain::agent_start("CC", [v = std::move(v)](std::string_view name) {
      const auto i = v.find(name);
      return i == v.end() ? std::string{} : i->second;
    });
  };
  CHECK(start({}).identity().empty());
  CHECK_FALSE(start({}).coordinator());
  CHECK(start({{"AGENT_IDENTITY", "work"}}).identity() == "identity:work");
  CHECK(start({{"AGENT_IDENTITY", "work"}, {"SWARM_CC_IDENTITY", "mine"}}).identity() == "identity:mine");
  CHECK(start({{"AGENT_IDENTITY", "two words"}}).identity().empty());
  CHECK(start({{"SWARM_CC_LABEL", "identity:label role:x"}, {"AGENT_IDENTITY", "work"}}).identity() == "identity:label");
  CHECK(start({{"SWARM_MCP_LABEL", "identity:label mode:gateway"}}).identity() == "identity:label");
  CHECK(start({{"SWARM_MCP_LABEL", "identity:label mode:gateway"}}).coordinator());
  CHECK(start({{"SWARM_CC_ROLE", " Gateway "}}).coordinator());
  CHECK(start({{"SWARM_ROLE", "gateway"}}).coordinator());
  CHECK_FALSE(start({{"SWARM_ROLE", "gateway"}, {"SWARM_CC_ROLE", "worker"}}).coordinator());
  CHECK_FALSE(start({{"SWARM_CODEX_ROLE", "gateway"}}).coordinator());
  const auto granted = start({{"SWARM_GRANTS", "spawn, pty spawn"}});
  REQUIRE(granted.grants_size() == 2);
  CHECK(granted.grants(0) == "spawn");
  CHECK(granted.grants(1) == "pty");
  CHECK(start({{"SWARM_MCP_INSTANCE_ID", " id-1 "}}).instance_id() == "id-1");
  CHECK(start({{"SWARM_MCP_INSTANCE_ID", std::string(1000, 'x')}}).instance_id().empty());
}
