#include "actors/domain/typing.hpp"

#include <doctest/doctest.h>

#include <random>

using namespace swarm;
using namespace swarm::domain;

namespace {

v1::Principal session(std::string id, std::initializer_list<const char*> grants = {}) {
  v1::Principal p;
  p.set_kind(v1::Principal::SESSION);
  p.set_id(std::move(id));
  for (const auto* g : grants)
    p.add_grants(g);
  return p;
}

v1::Principal of_kind(v1::Principal::Kind kind) {
  v1::Principal p;
  p.set_kind(kind);
  return p;
}

v1::PtyInfo a_terminal(std::string session, std::string harness, v1::AgentReport::State does = v1::AgentReport::STATE_UNSPECIFIED) {
  v1::PtyInfo t;
  t.set_id("t1");
  t.set_session_id(std::move(session));
  t.set_harness(std::move(harness));
  t.set_agent_status(does);
  return t;
}

bool may(const v1::Principal& who, const v1::PtyInfo& t, operation use) { return !refused_use(who, t, use); }

using state = v1::AgentReport;
constexpr v1::AgentReport::State all_states[] = {state::STATE_UNSPECIFIED, state::WORKING, state::IDLE, state::BLOCKED, state::DONE, state::UNKNOWN};

} // namespace

TEST_CASE("a session looks at its own terminal and never types into it, whatever runs there and whatever it was granted") {
  for (const auto* harness : {"exec", "shell", "claude", "hermes"})
    for (auto does : all_states) {
      auto me = session("me", {"pty", "pty:agents", "spawn"});
      auto mine = a_terminal("me", harness, does);
      CHECK(may(me, mine, operation::pty_read));
      CHECK(may(me, mine, operation::pty_resize));
      REQUIRE_FALSE(may(me, mine, operation::pty_write));
      CHECK(refused_use(me, mine, operation::pty_write)->find("swarmctl pty attach") != std::string::npos);
    }
}

TEST_CASE("the grant pty is for terminals of programs, pty:agents for those of agents, and neither for the other") {
  const auto program = a_terminal("b", "exec"), agent = a_terminal("b", "codex", state::IDLE);
  for (auto use : {operation::pty_read, operation::pty_resize, operation::pty_write}) {
    CHECK_FALSE(may(session("a"), program, use));
    CHECK_FALSE(may(session("a"), agent, use));
    CHECK(may(session("a", {"pty"}), program, use));
    CHECK_FALSE(may(session("a", {"pty"}), agent, use));
    CHECK(may(session("a", {"pty:agents"}), agent, use));
    CHECK_FALSE(may(session("a", {"pty:agents"}), program, use));
  }
  // A session without an id is nobody's.
  CHECK_FALSE(may(session(""), a_terminal("", "exec"), operation::pty_read));
  // An agent that was started as a program is an agent.
  auto as_program = a_terminal("b", "exec");
  as_program.add_argv("/usr/local/bin/claude");
  CHECK_FALSE(may(session("a", {"pty"}), as_program, operation::pty_write));
}

TEST_CASE("no session types to an agent that waits for a person, or of which nobody knows what it does, and a person does") {
  for (auto does : all_states) {
    CAPTURE(does);
    const auto agent = a_terminal("b", "claude", does);
    const bool known = does == state::WORKING || does == state::IDLE || does == state::DONE;
    CHECK(may(session("a", {"pty", "pty:agents"}), agent, operation::pty_write) == known);
    CHECK(may(session("a", {"pty:agents"}), agent, operation::pty_read));
    CHECK(may(of_kind(v1::Principal::OPERATOR), agent, operation::pty_write));
    CHECK(may(of_kind(v1::Principal::NODE), agent, operation::pty_write));
  }
}

TEST_CASE("who is neither operator nor session types nowhere unless a grant says so, and another node's word is none") {
  const auto agent = a_terminal("b", "claude", state::IDLE), program = a_terminal("b", "exec");
  auto device = of_kind(v1::Principal::DEVICE), gateway = of_kind(v1::Principal::GATEWAY), node = of_kind(v1::Principal::NODE);
  auto later = of_kind(static_cast<v1::Principal::Kind>(9));
  node.set_node("another");
  for (const auto& who : {device, gateway, node, later, of_kind(v1::Principal::KIND_UNSPECIFIED)})
    for (const auto& t : {agent, program})
      CHECK_FALSE(may(who, t, operation::pty_write));
  device.add_grants("terminal");
  CHECK(may(device, agent, operation::pty_write));
  CHECK(is_person(device));
  gateway.add_grants("terminal");
  CHECK_FALSE(may(gateway, agent, operation::pty_write));
  CHECK_FALSE(is_person(session("a", {"terminal"})));
}

TEST_CASE("keys and clicks are input of a person, what the terminal says by itself is not") {
  for (const auto* keys :
       {"\r", "y", "\x1b", "\x1b[A", "\x1bOP", "\x1b[200~text\x1b[201~", "\x1b[<0;3;4M", "\x1b[97;5u", "\x03", "\x1b[I\r", "\x1b[", "\x1b[Z"})
    CHECK_MESSAGE(holds_keys(keys), keys);
  for (const auto* replies :
       {"", "\x1b[I", "\x1b[O", "\x1b[12;40R", "\x1b[?62;22c", "\x1b[>1;10;0c", "\x1b[0n", "\x1b[?2026;2$y", "\x1b[?1u", "\x1b[<35;3;4M",
        "\x1b[<0;3;4m", "\x1b]11;rgb:0000/0000/0000\x1b\\", "\x1b]10;rgb:f/f/f\x07", "\x1bP>|xterm\x1b\\", "\x1b[I\x1b[12;40R"})
    CHECK_MESSAGE(!holds_keys(replies), replies);
  // However the two are mixed.
  const std::vector<std::string> sounds{"\x1b[I", "\x1b[O", "\x1b[3;4R", "\x1b]11;rgb:0/0/0\x07", "\x1b[<35;1;1M"};
  for (unsigned seed = 1; seed <= 100; ++seed) {
    std::mt19937 random{seed};
    std::string input;
    for (int i = 0; i < 6; ++i)
      input += sounds[random() % sounds.size()];
    CHECK_FALSE(holds_keys(input));
    CHECK(holds_keys(input + "y"));
    CHECK(holds_keys("\r" + input));
  }
}
