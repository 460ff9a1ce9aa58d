// What a node lets other nodes do on it.
#include <doctest/doctest.h>

#include "actors/domain/accept.hpp"

using namespace swarm;
using namespace swarm::domain;

namespace {

v1::Spawn worker(v1::Principal::Kind by, const std::string& harness) {
  v1::Spawn s;
  s.mutable_requested_by()->set_kind(by);
  s.set_harness(harness);
  return s;
}

std::string refusal(const accept_policy& p, const v1::Spawn& s, const std::string& directory = "/srv/game") {
  return refused_spawn(p, s, directory).value_or("accepted");
}

v1::Principal who(v1::Principal::Kind kind) {
  v1::Principal p;
  p.set_kind(kind);
  return p;
}

} // namespace

TEST_CASE("without rules, people of other nodes start anything here, and nobody else does") {
  accept_policy p;
  CHECK(refusal(p, worker(v1::Principal::OPERATOR, "exec")) == "accepted");
  CHECK(refusal(p, worker(v1::Principal::GATEWAY, "claude")).find("accept.spawn.principals") == 0);
  CHECK(refusal(p, worker(v1::Principal::SESSION, "claude")).find("accept.spawn.principals") == 0);
  CHECK(refusal(p, worker(v1::Principal::DEVICE, "claude")).find("accept.spawn.principals") == 0);
  CHECK(refusal(p, worker(v1::Principal::KIND_UNSPECIFIED, "claude")).find("accept.spawn.principals") == 0);
}

TEST_CASE("agents of other nodes that may start workers start agents, and commands only if that is said as well") {
  accept_policy p;
  p.spawn.principals = {"session"};
  CHECK(refusal(p, worker(v1::Principal::SESSION, "codex")) == "accepted");
  CHECK(refusal(p, worker(v1::Principal::SESSION, "exec")).find("accept.spawn.session_harnesses") == 0);
  CHECK(refusal(p, worker(v1::Principal::SESSION, "shell")).find("accept.spawn.session_harnesses") == 0);
  p.spawn.session_harnesses = {"exec"};
  CHECK(refusal(p, worker(v1::Principal::SESSION, "exec")) == "accepted");
  CHECK(refusal(p, worker(v1::Principal::OPERATOR, "exec")).find("accept.spawn.principals") == 0);
}

TEST_CASE("harnesses and directories are held to what is listed, the rule is named") {
  accept_policy p;
  p.spawn.harnesses = {"claude"};
  p.spawn.directories = {"/srv", "/home/me/work"};
  CHECK(refusal(p, worker(v1::Principal::OPERATOR, "claude")) == "accepted");
  CHECK(refusal(p, worker(v1::Principal::OPERATOR, "exec")) == "accept.spawn.harnesses of this node's config.toml does not list exec");
  CHECK(refusal(p, worker(v1::Principal::OPERATOR, "claude"), "/srv") == "accepted");
  CHECK(refusal(p, worker(v1::Principal::OPERATOR, "claude"), "/home/me/work/x") == "accepted");
  CHECK(refusal(p, worker(v1::Principal::OPERATOR, "claude"), "/home/me/worker").find("accept.spawn.directories") == 0);
  CHECK(refusal(p, worker(v1::Principal::OPERATOR, "claude"), "/srvx").find("accept.spawn.directories") == 0);
  p.spawn.principals = {};
  CHECK(refusal(p, worker(v1::Principal::OPERATOR, "claude")).find("accept.spawn.principals") == 0);
}

TEST_CASE("terminals are looked at and typed into by different rules") {
  accept_policy p;
  CHECK_FALSE(refused_terminal(p, who(v1::Principal::OPERATOR), true));
  for (auto kind : {v1::Principal::SESSION, v1::Principal::GATEWAY, v1::Principal::DEVICE})
    for (auto writes : {true, false})
      CHECK(refused_terminal(p, who(kind), writes));
  p.terminals.write = {};
  p.terminals.read = {"*"};
  CHECK_FALSE(refused_terminal(p, who(v1::Principal::SESSION), false));
  CHECK(refused_terminal(p, who(v1::Principal::OPERATOR), true)->find("accept.terminals.write") == 0);
  // Where a terminal is, a node asks for itself.
  CHECK(refused_terminal(p, who(v1::Principal::NODE), true));
}

TEST_CASE("who has no name in the rules is let in by none, not even by a star") {
  accept_policy p;
  p.spawn.principals = p.terminals.read = p.terminals.write = {"*"};
  for (auto kind : {v1::Principal::AGENT, v1::Principal::ORPHAN, v1::Principal::NODE, v1::Principal::KIND_UNSPECIFIED}) {
    CHECK(refusal(p, worker(kind, "claude")).find("accept.spawn.principals") == 0);
    CHECK(refused_terminal(p, who(kind), false));
  }
  CHECK(refusal(p, worker(v1::Principal::GATEWAY, "claude")) == "accepted");
}
