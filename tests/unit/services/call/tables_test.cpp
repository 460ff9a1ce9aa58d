#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include <caf/sec.hpp>

#include "actors/base/crypto.hpp"
#include "actors/base/program.hpp"
#include "actors/domain/harness.hpp"
#include "services/api/pty_service.hpp"
#include "services/call/principals.hpp"
#include "services/call/status.hpp"
#include "services/host/harness.hpp"
#include "tests/support/fabric_world.hpp"
#include "tests/support/process_tree.hpp"

using namespace swarm;
using test::session_named;

namespace {

void program(const std::filesystem::path& p, bool runnable = true) {
  std::filesystem::create_directories(p.parent_path());
  std::ofstream(p) << "#!/bin/sh\n";
  std::filesystem::permissions(p, runnable ? std::filesystem::perms::owner_all : std::filesystem::perms::owner_read);
}

v1::Command spawn_of(const std::string& harness, std::vector<std::string> argv, const std::string& directory) {
  v1::Command c;
  auto& r = *c.mutable_request_spawn();
  r.set_harness(harness);
  for (auto& a : argv)
    r.add_argv(a);
  r.set_directory(directory);
  return c;
}

} // namespace

TEST_CASE("every error of the fabric has its gRPC code and a text") {
  using enum grpc::StatusCode;
  const std::vector<std::pair<errc, grpc::StatusCode>> table{
    {errc::unknown_outcome, UNAVAILABLE},      {errc::unavailable, UNAVAILABLE},
    {errc::overloaded, RESOURCE_EXHAUSTED},    {errc::deadline, DEADLINE_EXCEEDED},
    {errc::low_disk, FAILED_PRECONDITION},     {errc::store_failed, UNAVAILABLE},
    {errc::newer_schema, FAILED_PRECONDITION}, {errc::invalid, INVALID_ARGUMENT},
    {errc::forbidden, PERMISSION_DENIED},      {errc::not_found, NOT_FOUND},
    {errc::out_of_range, OUT_OF_RANGE},        {errc::keeper_failed, UNAVAILABLE},
    {errc::state_dir, FAILED_PRECONDITION},    {errc::already_running, FAILED_PRECONDITION},
    {errc::stale, FAILED_PRECONDITION},        {errc::away, FAILED_PRECONDITION},
  };
  CHECK(table.size() == static_cast<std::size_t>(errc::away));
  for (const auto& [e, code] : table) {
    CAPTURE(to_string(e));
    CHECK(to_status(e).error_code() == code);
    CHECK_FALSE(to_status(e).error_message().empty());
    CHECK(to_status(fail(e, "a reason")).error_code() == code);
    CHECK(to_status(fail(e, "a reason")).error_message().find("a reason") != std::string::npos);
  }
}

TEST_CASE("an actor that died in the middle leaves the outcome open, a timeout is a deadline") {
  CHECK(to_status(caf::make_error(caf::sec::request_receiver_down)).error_code() == grpc::StatusCode::UNAVAILABLE);
  CHECK(to_status(caf::make_error(caf::sec::request_timeout)).error_code() == grpc::StatusCode::DEADLINE_EXCEEDED);
}

TEST_CASE("workers are known by token, by the processes below theirs and by what is left of their kernel sessions, until they end") {
  worker_registry workers;
  testing::process_tree all;
  all.add(10, {.session = 10, .executable = "/bin/sh"});
  all.add(11, {.parent = 10, .session = 11, .executable = "/bin/sh"});
  all.add(12, {.parent = 11, .executable = "/bin/sh"});
  auto worker_of = [&](pid_t pid) {
    auto who = workers.of_lineage(agents::lineage_of(all, pid).value().processes);
    return who ? who->id() : std::string{};
  };
  CHECK(worker_of(12).empty());
  workers.put(11, session_named("session-1", {"pty"}), "hash-1");
  CHECK(worker_of(12) == "session-1");
  CHECK(worker_of(10).empty());
  CHECK(workers.has_session("session-1"));
  CHECK(workers.of_token("hash-1")->id() == "session-1");
  CHECK(workers.of_token("hash-1")->grants(0) == "pty");
  CHECK_FALSE(workers.of_token("hash-2"));
  workers.put(10, session_named("session-0"), "hash-0");
  CHECK(worker_of(12) == "session-1");                                // the nearest
  all.add(13, {.parent = 1, .session = 11, .executable = "/bin/sh"}); // its shell left it behind
  CHECK(worker_of(13) == "session-1");
  workers.erase(11);
  CHECK(worker_of(12) == "session-0");
  CHECK(worker_of(13).empty());
  CHECK_FALSE(workers.of_token("hash-1"));
  CHECK_FALSE(workers.has_session("session-1"));
  workers.erase(10);
  CHECK(worker_of(12).empty());
}

TEST_CASE("a connection number means the process that connected last under it") {
  caller_table peers;
  CHECK_FALSE(peers.find(7));
  peers.put(7, {100, 1, {}, 1});
  peers.put(7, {200, 2, {.is = caller_place::kind::worker, .worker = session_named("s")}, 1});
  REQUIRE(peers.find(7));
  CHECK(peers.find(7)->pid == 200);
  CHECK(peers.find(7)->place.is == caller_place::kind::worker);
}

TEST_CASE("tokens that the store has resolved are remembered, a bounded number of them") {
  std::int64_t now = 0;
  token_cache callers{[&now] { return now; }};
  CHECK_FALSE(callers.resolved("h0"));
  for (int i = 0; i < 12'000; ++i)
    callers.remember("h" + std::to_string(i), bearer{session_named("s" + std::to_string(i)), {}, {}}, callers.invalidations());
  CHECK_FALSE(callers.resolved("h0"));
  CHECK(callers.resolved("h11999")->who.id() == "s11999");
  // A token may be replaced and its session end: before long the store is asked again.
  now += limits::resolved_token_age.count();
  CHECK(callers.resolved("h11999"));
  now += 1;
  CHECK_FALSE(callers.resolved("h11999"));
  callers.remember("h11999", {session_named("other"), {}, {}}, callers.invalidations());
  CHECK(callers.resolved("h11999")->who.id() == "other");
}

TEST_CASE("a token that is nobody's any more is forgotten at once, also when the store was asked just before") {
  token_cache callers{[] { return std::int64_t{0}; }};
  callers.remember("h1", {session_named("a"), {}, {}}, callers.invalidations());
  callers.remember("h2", {session_named("b"), {}, {}}, callers.invalidations());
  auto before = callers.invalidations();
  callers.token_gone("h1");
  CHECK_FALSE(callers.resolved("h1"));
  CHECK(callers.resolved("h2"));
  callers.remember("h1", {session_named("a"), {}, {}}, before);
  CHECK_FALSE(callers.resolved("h1"));
}

TEST_CASE("what lasts ends with its session, once, unless it is over before") {
  token_cache callers{[] { return std::int64_t{0}; }};
  int a = 0, b = 0, over = 0;
  auto of_a = callers.watch("a", callers.invalidations(), [&] { ++a; });
  auto of_b = callers.watch("b", callers.invalidations(), [&] { ++b; });
  callers.watch("a", callers.invalidations(), [&] { ++over; }).reset();
  auto before = callers.invalidations();
  callers.session_gone("a");
  callers.session_gone("a");
  CHECK(a == 1);
  CHECK(b == 0);
  CHECK(over == 0);
  // It may have been this one that went.
  CHECK_FALSE(callers.watch("b", before, [] {}));
}

TEST_CASE("a terminal is for people, for its own session to look at, and for sessions that were granted its sort") {
  v1::PtyInfo program, agent;
  program.set_session_id("a");
  program.set_harness("exec");
  agent.set_session_id("b");
  agent.set_harness("claude");
  agent.set_agent_status(v1::AgentReport::IDLE);
  const auto may = [](const v1::Principal& p, domain::operation what, const v1::PtyInfo& info) { return may_use_terminal(p, what, info).ok(); };
  using enum domain::operation;
  v1::Principal p;
  p.set_kind(v1::Principal::OPERATOR);
  CHECK(may(p, pty_write, program));
  CHECK(may(p, pty_write, agent));
  for (auto kind : {v1::Principal::DEVICE, v1::Principal::GATEWAY, v1::Principal::NODE, v1::Principal::AGENT, v1::Principal::ORPHAN,
                    v1::Principal::KIND_UNSPECIFIED}) {
    p.set_kind(kind);
    p.set_node(kind == v1::Principal::NODE ? "another" : "");
    CHECK_FALSE(may(p, pty_read, program));
    CHECK_FALSE(may(p, pty_write, agent));
  }
  p.set_kind(v1::Principal::SESSION);
  p.set_id("c");
  CHECK(may_use_terminal(p, pty_read, program).error_code() == grpc::StatusCode::PERMISSION_DENIED);
  p.add_grants("pty");
  CHECK(may(p, pty_write, program));
  CHECK_FALSE(may(p, pty_write, agent));
  CHECK_FALSE(may(p, pty_read, agent));
  p.set_grants(0, "pty:agents");
  CHECK(may(p, pty_write, agent));
  CHECK_FALSE(may(p, pty_read, program));
  for (const auto* grant : {"pty", "pty:agents"}) {
    p.set_grants(0, grant);
    for (const auto* id : {"a", "b"}) {
      p.set_id(id);
      const auto& own = *id == 'a' ? program : agent;
      CHECK(may(p, pty_read, own));
      CHECK(may(p, pty_resize, own));
      CHECK_FALSE(may(p, pty_write, own));
    }
  }
  p.set_id("");
  p.clear_grants();
  program.clear_session_id();
  CHECK_FALSE(may(p, pty_read, program));
}

TEST_CASE("a worker's grant that has an end is gone by then, and one without a clock holds nothing that ends") {
  std::int64_t now = 1'000;
  worker_registry workers{[&now] { return now; }}, clockless;
  domain::grant_end_list ends;
  ends.Add()->set_grant("pty");
  ends.Mutable(0)->set_until_ms(2'000);
  for (auto* w : {&workers, &clockless})
    w->put(getpid(), session_named("s", {"pty", "spawn"}), "hash", ends);
  CHECK(clockless.of_token("hash")->grants_size() == 1);
  named_process worker;
  worker.pid = getpid();
  const auto at_connect = *workers.of_lineage({worker});
  CHECK(at_connect.grants_size() == 2);
  CHECK(workers.current(at_connect).second == 2'000);
  now = 1'999;
  CHECK(workers.of_token("hash")->grants_size() == 2);
  now = 2'000;
  REQUIRE(workers.of_token("hash")->grants_size() == 1);
  CHECK(workers.of_token("hash")->grants(0) == "spawn");
  // A connection that was made before is judged at each call.
  auto [who, until] = workers.current(at_connect);
  CHECK(who.grants_size() == 1);
  CHECK(until == 0);
  workers.erase(getpid());
  CHECK(workers.current(at_connect).first.grants().empty());
}

TEST_CASE("a token is remembered no longer than the grants hold that it was resolved with") {
  std::int64_t boot = 0;
  token_cache callers{[&boot] { return boot; }};
  v1::Session s;
  s.set_id("s");
  s.add_grants("pty");
  auto& end = *s.add_grant_ends();
  end.set_grant("pty");
  end.set_until_ms(10'100);
  CHECK(principal_of(s, 10'099).grants_size() == 1);
  CHECK(principal_of(s, 10'100).grants().empty());
  callers.remember("h", bearer_of(s, 10'000), callers.invalidations(), 10'000);
  REQUIRE(callers.resolved("h"));
  CHECK(callers.resolved("h")->until_ms == 10'100);
  boot += 99;
  CHECK(callers.resolved("h"));
  boot += 1;
  CHECK_FALSE(callers.resolved("h"));
}

TEST_CASE("programs are found on the caller's PATH") {
  test::scratch_state s;
  auto dir = s.dir.root.string();
  program(s.dir.root / "bin/tool");
  program(s.dir.root / "other/tool");
  program(s.dir.root / "bin/data", false);
  std::filesystem::create_directories(s.dir.root / "bin/folder");
  CHECK(find_program("tool", dir + "/none:" + dir + "/bin:" + dir + "/other", "/") == dir + "/bin/tool");
  CHECK_FALSE(find_program("tool", dir + "/none", "/"));
  CHECK_FALSE(find_program("tool", "", "/"));
  CHECK_FALSE(find_program("data", dir + "/bin", "/"));
  CHECK_FALSE(find_program("folder", dir + "/bin", "/"));
  CHECK_FALSE(find_program("", dir + "/bin", "/"));
}

TEST_CASE("a program named by a relative path is looked for where the worker starts, not where swarmd runs") {
  test::scratch_state s;
  auto dir = s.dir.root.string();
  program(s.dir.root / "work/run.sh");
  program(s.dir.root / "work/sub/run.sh");
  CHECK(find_program("./run.sh", "/usr/bin", dir + "/work"));
  CHECK(find_program("sub/run.sh", "/usr/bin", dir + "/work"));
  CHECK_FALSE(find_program("./run.sh", "/usr/bin", dir));
  CHECK_FALSE(find_program("./run.sh", "/usr/bin", ""));
  CHECK(find_program(dir + "/work/run.sh", "", ""));
  CHECK(find_program("run.sh", ".:sub", dir + "/work"));
  // In our own directory there is something of that name: no help.
  auto before = std::filesystem::current_path();
  std::filesystem::current_path(s.dir.root / "work");
  CHECK_FALSE(find_program("./run.sh", "/usr/bin", dir));
  auto c = spawn_of("exec", {"./run.sh"}, dir);
  REQUIRE(check_harness(c, {"PATH=/usr/bin"}));
  CHECK(check_harness(c, {"PATH=/usr/bin"})->code() == v1::Refusal::NOT_FOUND);
  std::filesystem::current_path(before);
  auto good = spawn_of("exec", {"./run.sh"}, dir + "/work");
  CHECK_FALSE(check_harness(good, {"PATH=/usr/bin"}));
}

TEST_CASE("SWARM_HARNESS_<NAME> of the caller names the agent's program, and that name means the agent") {
  test::scratch_state s;
  auto dir = s.dir.root.string();
  program(s.dir.root / "bin/claude");
  program(s.dir.root / "bin/claude-work");
  auto argv_for = [&](const std::string& harness, const std::string& alias) {
    auto c = spawn_of(harness, {}, dir);
    auto r = check_harness(c, {"PATH=" + dir + "/bin", "SWARM_HARNESS_CLAUDE=" + alias});
    std::string out = r ? v1::Refusal::Code_Name(r->code()) : c.request_spawn().harness();
    for (const auto& word : c.request_spawn().argv())
      out += " " + word;
    return out;
  };
  CHECK(argv_for("claude", "") == "claude " + dir + "/bin/claude");
  CHECK(argv_for("claude", "claude-work") == "claude " + dir + "/bin/claude-work");
  CHECK(argv_for("claude-work", "claude-work") == "claude " + dir + "/bin/claude-work");
  CHECK(argv_for("claude", " claude-work  --fast ") == "claude " + dir + "/bin/claude-work --fast");
  CHECK(argv_for("claude", "absent") == "NOT_INSTALLED");
  CHECK(argv_for("claude-work", "") == "INVALID");
  CHECK(argv_for("codex", "claude-work") == "NOT_INSTALLED");
}

TEST_CASE("a harness that is unknown, not installed or has nothing to run is refused with what to do") {
  test::scratch_state s;
  auto dir = s.dir.root.string();
  std::vector<std::string> env{"PATH=" + dir + "/bin"};
  auto refusal = [&](const std::string& harness, std::vector<std::string> argv = {}) {
    auto c = spawn_of(harness, std::move(argv), dir);
    auto r = check_harness(c, env);
    return r ? r->code() : v1::Refusal::CODE_UNSPECIFIED;
  };
  CHECK(refusal("vim") == v1::Refusal::INVALID);
  CHECK(refusal("exec") == v1::Refusal::INVALID);
  CHECK(refusal("exec", {"no-such-program"}) == v1::Refusal::NOT_FOUND);
  for (auto agent : domain::agents)
    CHECK(refusal(std::string{agent}) == v1::Refusal::NOT_INSTALLED);
  program(s.dir.root / "bin/claude");
  auto c = spawn_of("claude", {"ignored"}, dir);
  CHECK_FALSE(check_harness(c, env));
  REQUIRE(c.request_spawn().argv_size() == 1);
  CHECK(c.request_spawn().argv(0) == dir + "/bin/claude");
  auto nowhere = spawn_of("exec", {"/bin/sh"}, dir + "/none");
  CHECK(check_harness(nowhere, env)->code() == v1::Refusal::NOT_FOUND);
  std::ofstream{s.dir.root / "plain.sh"} << "echo\n";
  auto text = [&](const std::string& what) {
    auto command = spawn_of("exec", {what}, dir);
    return check_harness(command, env)->text();
  };
  CHECK(text("./plain.sh") == "./plain.sh cannot be executed: chmod +x it, or name its interpreter (sh ./plain.sh)");
  CHECK(text("./bin") == "./bin is a directory, not a program");
  CHECK(text("./none") == "There is no program ./none in " + dir);
}

TEST_CASE("a shell is the caller's own, else sh") {
  auto c = spawn_of("shell", {}, "/");
  CHECK_FALSE(check_harness(c, {"SHELL=/bin/sh", "PATH=/bin"}));
  CHECK(c.request_spawn().argv(0) == "/bin/sh");
  auto d = spawn_of("shell", {}, "/");
  CHECK_FALSE(check_harness(d, {}));
  CHECK(d.request_spawn().argv(0) == "/bin/sh");
}

TEST_CASE("variables are found by their whole name") {
  std::vector<std::string> env{"PATHS=x", "PATH=y", "EMPTY="};
  CHECK(variable(env, "PATH") == "y");
  CHECK(variable(env, "PAT").empty());
  CHECK(variable(env, "EMPTY").empty());
}
