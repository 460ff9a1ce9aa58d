#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>

#include <nlohmann/json.hpp>

#include "actors/base/limits.hpp"
#include "actors/domain/rules.hpp"
#include "tests/support/domain_world.hpp"

using namespace swarm;
using test::domain_world;
using report = v1::AgentReport;

namespace {

/// A session whose agent runs on a terminal of ours.
struct agent_at_terminal : domain_world {
  std::string id;

  explicit agent_at_terminal(const std::string& harness = "claude") {
    id = session("name:agent");
    auto row = *rows.row<v1::Session>(domain::key(id));
    row.set_spawn_id("w1");
    v1::Spawn spawn;
    spawn.set_id("w1");
    spawn.set_scope("s");
    spawn.set_session_id(id);
    spawn.set_pty_id("w1");
    spawn.set_harness(harness);
    spawn.set_status(v1::Spawn::RUNNING);
    rows.put(row);
    rows.put(spawn);
  }
  v1::Command said(report::State state, const std::string& source = "hook", v1::Principal::Kind who = v1::Principal::SESSION) const {
    auto cmd = by(who, who == v1::Principal::SESSION ? id : std::string{});
    cmd.mutable_report_agent()->set_session_id(id);
    cmd.mutable_report_agent()->set_source(source);
    cmd.mutable_report_agent()->set_state(state);
    return cmd;
  }
  v1::Command turn_ended(report::State state = report::IDLE) const {
    auto cmd = said(state);
    cmd.mutable_report_agent()->set_turn_ended(true);
    return cmd;
  }
  v1::Command answered() const {
    auto cmd = by(v1::Principal::NODE, "node-1");
    cmd.mutable_report_agent()->set_session_id(id);
    cmd.mutable_report_agent()->set_answered(true);
    return cmd;
  }
  report::State state() const { return domain::agent_state(*rows.row<v1::Session>(domain::key(id)), in.now_ms); }
  report::State after(const v1::Command& cmd) {
    pass(1);
    auto r = reply(cmd);
    CHECK_MESSAGE(!r.has_refusal(), r.refusal().text());
    return state();
  }
};

/// Takes the reports that are told into the session, the newest last.
void hear(v1::Session& heard, const v1::Batch& told) {
  for (const auto& e : told.events()) {
    const auto payload = nlohmann::json::parse(e.payload());
    const auto source = payload.at("source").get<std::string>();
    auto& reports = *heard.mutable_reports();
    reports.erase(std::remove_if(reports.begin(), reports.end(), [&](const auto& r) { return r.source() == source; }), reports.end());
    auto& r = *reports.Add();
    r.set_source(source);
    r.set_state(domain::agent_state_from(payload.at("reported").get<std::string>()));
    r.set_reported_at_ms(e.at_ms());
    r.set_until_ms(payload.at("until").get<std::int64_t>());
  }
}

} // namespace

TEST_CASE("of two reports in one millisecond the later one counts, whichever source has reported first") {
  agent_at_terminal a;
  a.after(a.said(report::WORKING, "hook"));
  a.after(a.said(report::WORKING, "cli"));
  for (const auto* source : {"hook", "cli", "hook"})
    for (auto claims : {report::IDLE, report::WORKING}) {
      CHECK_FALSE(a.reply(a.said(claims, source)).has_refusal());
      CHECK(a.state() == claims);
    }
}

TEST_CASE("what an agent asks its user is not over because somebody reports so: neither its hooks of another tool nor its own shell") {
  agent_at_terminal a;
  CHECK(a.after(a.said(report::WORKING)) == report::WORKING);
  CHECK(a.after(a.said(report::BLOCKED)) == report::BLOCKED);
  for (const auto* source : {"hook", "cli", "x1", "x2", "x3", "x4", "x5"})
    for (auto claims : {report::IDLE, report::WORKING, report::DONE, report::UNKNOWN})
      CHECK(a.after(a.said(claims, source)) == report::BLOCKED);
  SUBCASE("a person has typed at its terminal, and then a report counts") {
    CHECK(a.after(a.answered()) == report::BLOCKED);
    CHECK(a.after(a.said(report::WORKING)) == report::WORKING);
  }
  SUBCASE("its turn ends") { CHECK(a.after(a.turn_ended()) == report::IDLE); }
  SUBCASE("the program says so itself") { CHECK(a.after(a.said(report::WORKING, "program", v1::Principal::NODE)) == report::WORKING); }
  SUBCASE("a person says so") { CHECK(a.after(a.said(report::IDLE, "cli", v1::Principal::OPERATOR)) == report::IDLE); }
  SUBCASE("a turn that has ended does not work") { CHECK(a.after(a.turn_ended(report::WORKING)) == report::BLOCKED); }
  SUBCASE("silence of its terminal is no answer") { CHECK(a.after(a.said(report::IDLE, "output", v1::Principal::NODE)) == report::BLOCKED); }
  SUBCASE("one answer is for one question") {
    a.after(a.answered());
    CHECK(a.after(a.said(report::BLOCKED)) == report::BLOCKED);
    CHECK(a.after(a.said(report::WORKING)) == report::BLOCKED);
  }
}

TEST_CASE("a question whose report has run out leaves an agent of which nobody knows what it does, whatever was reported before") {
  agent_at_terminal a;
  a.after(a.said(report::IDLE, "plugin"));
  auto asks = a.said(report::BLOCKED);
  asks.mutable_report_agent()->set_ttl_ms(1000);
  CHECK(a.after(asks) == report::BLOCKED);
  a.pass(1000);
  CHECK(a.state() == report::UNKNOWN);
  CHECK_FALSE(domain::takes_typed_text(a.state()));
  CHECK(a.after(a.said(report::IDLE)) == report::UNKNOWN);
  a.after(a.answered());
  CHECK(a.after(a.said(report::WORKING)) == report::WORKING);
}

TEST_CASE("without a terminal of ours nobody can see an answer, so the next report counts") {
  for (const auto* harness : {"exec", "shell"}) {
    agent_at_terminal a{harness};
    CHECK(a.after(a.said(report::BLOCKED)) == report::BLOCKED);
    CHECK(a.after(a.said(report::WORKING)) == report::WORKING);
  }
}

TEST_CASE("only the node reports answers, what the terminal shows and what the program says of itself") {
  agent_at_terminal a;
  a.after(a.said(report::BLOCKED));
  auto refused = [&](v1::Command cmd, v1::Principal::Kind who) {
    cmd.mutable_principal()->set_kind(who);
    cmd.mutable_principal()->set_id(who == v1::Principal::SESSION ? a.id : std::string{});
    return a.reply(cmd).refusal().code() == v1::Refusal::FORBIDDEN;
  };
  for (auto who : {v1::Principal::SESSION, v1::Principal::OPERATOR}) {
    CHECK(refused(a.answered(), who));
    CHECK(refused(a.said(report::IDLE, "program"), who));
    CHECK(refused(a.said(report::IDLE, "output"), who));
  }
  CHECK(a.state() == report::BLOCKED);
}

TEST_CASE("an answer is announced once, and a report that changes nothing is not") {
  agent_at_terminal a;
  CHECK(test::event_types(a.run(a.answered())).empty());
  CHECK(test::has_event(a.run(a.said(report::BLOCKED)), "agent.state"));
  CHECK(test::event_types(a.run(a.said(report::IDLE, "cli"))).empty());
  CHECK(test::event_types(a.run(a.answered())) == std::vector<std::string>{"agent.answered"});
  CHECK(test::event_types(a.run(a.answered())).empty());
  CHECK(test::has_event(a.run(a.said(report::BLOCKED)), "agent.state")); // a new question
}

TEST_CASE("who follows an agent's reports knows what it does as its row says, also when that of one of several sources has run out") {
  const report::State states[] = {report::WORKING, report::IDLE, report::DONE};
  for (unsigned seed = 1; seed <= 200; ++seed) {
    CAPTURE(seed);
    std::mt19937 random{seed};
    agent_at_terminal a;
    v1::Session heard;
    for (int step = 0; step < 40; ++step) {
      CAPTURE(step);
      auto cmd = a.said(states[random() % 3], "source-" + std::to_string(random() % 3));
      cmd.mutable_report_agent()->set_ttl_ms(random() % 3 ? 0 : 300);
      hear(heard, a.run(cmd));
      a.pass(static_cast<std::int64_t>(random() % 200));
      CHECK(a.state() == domain::agent_state(heard, a.in.now_ms));
    }
  }
}

TEST_CASE("whatever is reported in whatever order, an open question ends by a person, the program or the end of the turn only") {
  for (unsigned seed = 1; seed <= 400; ++seed) {
    CAPTURE(seed);
    std::mt19937 random{seed};
    agent_at_terminal a;
    bool asks = false; // somebody waits for an answer that nobody has given
    const report::State states[] = {report::WORKING, report::IDLE, report::DONE, report::UNKNOWN};
    for (int step = 0; step < 80; ++step) {
      CAPTURE(step);
      a.pass(static_cast<std::int64_t>(random() % 400));
      const auto source = "source-" + std::to_string(random() % 7);
      const auto claims = states[random() % 4];
      switch (random() % 10) {
        case 0: {
          auto cmd = a.said(report::BLOCKED, source);
          cmd.mutable_report_agent()->set_ttl_ms(random() % 2 ? 300 : 0);
          a.reply(cmd);
          asks = true;
          break;
        }
        case 1:
          a.reply(a.answered());
          asks = false;
          break;
        case 2:
          a.reply(a.turn_ended());
          asks = false;
          break;
        case 3:
          a.reply(a.said(report::WORKING, "program", v1::Principal::NODE));
          asks = false;
          break;
        case 4:
          a.reply(a.said(claims, source, v1::Principal::OPERATOR));
          asks = false;
          break;
        case 5: a.reply(a.said(report::BLOCKED, "output", v1::Principal::NODE)); break; // how the screen looks is no question
        default: a.reply(a.said(claims, source));
      }
      const auto row = *a.rows.row<v1::Session>(domain::key(a.id));
      CHECK(row.reports_size() <= static_cast<int>(limits::agent_sources_max));
      CHECK(domain::asks_person(row) == asks);
      if (asks) {
        CHECK((a.state() == report::BLOCKED || a.state() == report::UNKNOWN));
        CHECK_FALSE(domain::takes_typed_text(a.state()));
      }
    }
  }
}
