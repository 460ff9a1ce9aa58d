#include "services/call/refusals.hpp"

#include <doctest/doctest.h>

#include "actors/base/limits.hpp"

using namespace swarm;

namespace {

v1::Principal somebody(v1::Principal::Kind kind, std::string id = {}) {
  v1::Principal p;
  p.set_kind(kind);
  p.set_id(std::move(id));
  return p;
}

struct fixture {
  std::int64_t now = 1000;
  std::vector<std::string> log;
  refusals seen{{[this] { return now; }, [this] { return 1'000'000 + now; }}, [this](const std::string& line) { log.push_back(line); }};
};

} // namespace

TEST_CASE_FIXTURE(fixture, "what a caller is refused again and again is counted each time and logged once") {
  for (int i = 0; i < 5; ++i) {
    now += 10;
    seen.add(somebody(v1::Principal::SESSION, "s1"), "decide_approval", "a session never decides");
  }
  REQUIRE(seen.counts().size() == 1);
  CHECK(seen.counts()[0].who() == "session");
  CHECK(seen.counts()[0].operation() == "decide_approval");
  CHECK(seen.counts()[0].count() == 5);
  CHECK(seen.counts()[0].last_at_ms() == 1'001'050);
  REQUIRE(log.size() == 1);
  CHECK(log[0] == "refused: session s1, decide_approval: a session never decides");
  now += std::chrono::milliseconds{limits::complaint_quiet}.count();
  seen.add(somebody(v1::Principal::SESSION, "s1"), "decide_approval", "a session never decides");
  CHECK(log.size() == 2);
}

TEST_CASE_FIXTURE(fixture, "each kind of caller and each operation has its own count, whoever the caller is") {
  seen.add(somebody(v1::Principal::SESSION, "s1"), "node_shutdown", "x");
  seen.add(somebody(v1::Principal::SESSION, "s2"), "node_shutdown", "x");
  seen.add(somebody(v1::Principal::AGENT, "7.9"), "node_shutdown", "x");
  seen.add({}, "connect", "x");
  auto counts = seen.counts();
  REQUIRE(counts.size() == 3);
  CHECK(counts[0].who() == "agent");
  CHECK(counts[1].count() == 2);
  CHECK(counts[2].who() == "stranger");
  CHECK(log.size() == 4);
}

TEST_CASE_FIXTURE(fixture, "an answer is noted under what was asked, when it says that the caller may not, and not for any other reason") {
  v1::Command command;
  *command.mutable_principal() = somebody(v1::Principal::SESSION, "s1");
  command.mutable_decide_approval();
  v1::Refusal refusal;
  refusal.set_text("no");
  refusal.set_code(v1::Refusal::CONFLICT);
  seen.add_if_forbidden(command, refusal);
  CHECK(seen.counts().empty());
  refusal.set_code(v1::Refusal::FORBIDDEN);
  seen.add_if_forbidden(command, refusal);
  REQUIRE(seen.counts().size() == 1);
  CHECK(seen.counts()[0].who() == "session");
  CHECK(seen.counts()[0].operation() == "decide_approval");
}

TEST_CASE("every operation of the table of rights has a name of its own, under which it is refused") {
  std::map<std::string, domain::operation> names;
  auto has_own = [&](domain::operation what) {
    const auto name = name_of(what);
    CAPTURE(static_cast<int>(what));
    CHECK_FALSE(name.empty());
    CHECK(names.try_emplace(name, what).first->second == what);
  };
  for (const auto& row : domain::operation_rights())
    has_own(row.what);
  for (const auto& row : domain::call_rights())
    has_own(row.what);
  for (const auto& row : domain::link_rights())
    has_own(row.what);
  CHECK(name_of(domain::operation::node_shutdown) == "node_shutdown");
  CHECK(name_of(domain::operation::pty_write) == "pty_send");
  CHECK(name_of(domain::operation::watch_events) == "watch");
  CHECK(name_of(domain::operation::give_grants) == "give_grants");
}
