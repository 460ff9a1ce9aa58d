#include "services/call/explain.hpp"

#include <algorithm>

#include <doctest/doctest.h>

using namespace swarm;

namespace {

v1::Principal somebody(v1::Principal::Kind kind, const std::string& grant = {}) {
  v1::Principal p;
  p.set_kind(kind);
  if (!grant.empty())
    p.add_grants(grant);
  return p;
}

v1::Explanation told(const v1::Principal& who) {
  v1::Explanation e;
  add_rights(e, who);
  return e;
}

bool says(const google::protobuf::RepeatedPtrField<std::string>& lines, const std::string& text) {
  return std::any_of(lines.begin(), lines.end(), [&](const std::string& l) { return l.find(text) != l.npos; });
}

} // namespace

TEST_CASE("what one line says of a caller's rights, every caller has to the same extent by the table of rights") {
  using p = v1::Principal; // a node does not ask itself
  for (auto kind : {p::OPERATOR, p::SESSION, p::DEVICE, p::GATEWAY, p::AGENT, p::ORPHAN})
    for (const auto* grant : {"", "spawn", "pty", "pty:agents", "cross_identity", "terminal", "approve"})
      for (const auto& s : subjects()) {
        const auto who = somebody(kind, grant);
        REQUIRE_FALSE(s.rights.empty());
        for (const auto* r : s.rights) {
          REQUIRE(r);
          CHECK_MESSAGE(extent_of(who, *r) == extent_of(who, *s.rights.front()), s.text, ", ", kind, " ", grant);
        }
      }
}

TEST_CASE("an orphan is told that it works with what sessions do, and that it acts as none") {
  const auto e = told(somebody(v1::Principal::ORPHAN));
  CHECK(says(e.may(), "tasks, locks, messages"));
  CHECK_FALSE(says(e.may(), "act as"));
  for (const auto* text : {"act as another session", "decide approvals", "stop, back up", "terminals of agents", "start programs"})
    CHECK_MESSAGE(says(e.may_not(), text), text);
}

TEST_CASE("a session is told what its grants give it, and by which rule it may what some sessions may") {
  const auto plain = told(somebody(v1::Principal::SESSION)), granted = told(somebody(v1::Principal::SESSION, "pty"));
  CHECK(says(plain.may_not(), "terminals of programs"));
  CHECK(says(granted.may(), "terminals of programs"));
  CHECK(says(granted.may_not(), "terminals of agents"));
  CHECK(says(plain.may(), "decide approvals, only as a session labeled mode:gateway"));
  CHECK(says(plain.may(), "mail and news (its own)"));
  CHECK(says(plain.may_not(), "act as another session"));
}

TEST_CASE("an agent without a session is told to register, the operator that it may everything") {
  const auto e = told(somebody(v1::Principal::AGENT)), person = told(somebody(v1::Principal::OPERATOR));
  REQUIRE(e.may_size() == 1);
  CHECK(e.may(0).find("swarmctl register") != std::string::npos);
  REQUIRE(e.may_not_size() == 1);
  CHECK(e.may_not(0) == "anything else");
  CHECK(person.may(0) == "everything");
  CHECK(person.may_not().empty());
  CHECK(person.ways_out().empty());
}
