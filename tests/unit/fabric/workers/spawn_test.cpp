#include "actors/fabric/workers/spawn.hpp"

#include <nlohmann/json.hpp>

#include "tests/support/fabric_world.hpp"

using namespace std::chrono_literals;
using namespace swarm;
using test::fabric_world;

namespace {

bool over(const v1::Spawn& s) { return !domain::is_live(s); }

/// Nothing ran twice, and what the rows say lives is what the keeper runs.
void check_consistent(fabric_world& f) {
  for (const auto& [attempt, times] : f.keeper.gates_opened) {
    CAPTURE(attempt.first);
    CHECK(times == 1);
  }
  for (const auto& s : f.spawns()) {
    CAPTURE(s.ShortDebugString());
    if (over(s))
      CHECK_FALSE(f.keeper.runs(s.id()));
    else
      CHECK(f.keeper.runs(s.id()));
  }
}

template <class List>
std::string value_of(const List& env, const std::string& name) {
  for (const auto& v : env)
    if (v.rfind(name + "=", 0) == 0)
      return v.substr(name.size() + 1);
  return "(unset)";
}

} // namespace

TEST_CASE("a dispatched command runs once, and its task and its spawn end with its status") {
  fabric_world f;
  auto d = f.run(f.dispatch("count")).dispatch();
  auto id = d.spawn().id();
  REQUIRE(f.keeper.runs(id));
  CHECK(f.keeper.gates_opened.at({id, 1}) == 1);
  CHECK(f.spawn_row(id).status() == v1::Spawn::RUNNING);
  CHECK(f.task(d.task().id()).status() == v1::IN_PROGRESS);
  CHECK(f.workers.sessions.at(f.spawn_row(id).pid()) == f.spawn_row(id).session_id());
  f.keeper.print(id, "forty two\n");
  f.keeper.exit(id, 0);
  f.w.settle();
  CHECK(f.spawn_row(id).status() == v1::Spawn::ENDED);
  CHECK(f.task(d.task().id()).status() == v1::DONE);
  CHECK(f.task(d.task().id()).result().find("forty two") != std::string::npos);
  CHECK(f.keeper.forgotten == std::vector{id});
  CHECK(f.workers.sessions.empty());
  CHECK_FALSE(f.awake("scopes/s/spawn/" + id + "#1"));
}

TEST_CASE("a worker that is asked for on pipes gets pipes, and its output is its task's result") {
  fabric_world f;
  auto cmd = f.dispatch("count");
  cmd.mutable_dispatch()->set_pipes(true);
  auto d = f.run(cmd).dispatch();
  const auto id = d.spawn().id();
  CHECK(f.keeper.find(id)->request.pipes());
  CHECK(f.spawn_row(id).pty_id().empty());
  f.keeper.print(id, "forty two\n");
  f.keeper.exit(id, 0);
  f.w.settle();
  CHECK(f.task(d.task().id()).result().find("forty two") != std::string::npos);
  CHECK_FALSE(f.keeper.find(f.run(f.dispatch("other")).dispatch().spawn().id())->request.pipes());
}

TEST_CASE("a program that fails fails its task") {
  fabric_world f;
  auto d = f.run(f.dispatch("count")).dispatch();
  f.keeper.exit(d.spawn().id(), 3);
  f.w.settle();
  CHECK(f.spawn_row(d.spawn().id()).exit_status() == 3);
  CHECK(f.task(d.task().id()).status() == v1::FAILED);
}

TEST_CASE("the gate opens only after pid and start are in the store") {
  fabric_world f{7};
  auto call = f.send(f.dispatch("count"));
  std::string id;
  // One step at a time: whenever the program has been let go, the row already says that it runs.
  while (f.w.step()) {
    if (f.keeper.gates_opened.empty())
      continue;
    id = f.keeper.gates_opened.begin()->first.first;
    break;
  }
  REQUIRE_FALSE(id.empty());
  auto row = f.spawn_row(id);
  CHECK(row.status() == v1::Spawn::RUNNING);
  CHECK(row.pid() == f.keeper.find(id)->info.pid);
}

TEST_CASE("a start that the keeper refuses ends the spawn and the task with its reason") {
  fabric_world f;
  f.keeper.refuse_start = "no memory";
  auto d = f.run(f.dispatch("count")).dispatch();
  auto row = f.spawn_row(d.spawn().id());
  CHECK(row.status() == v1::Spawn::FAILED);
  CHECK(row.reason().find("no memory") != std::string::npos);
  CHECK(f.task(d.task().id()).status() == v1::FAILED);
}

TEST_CASE("a task cancelled while its process stands at the gate never runs") {
  fabric_world f;
  f.keeper.hold_starts = true;
  auto d = f.run(f.dispatch("count")).dispatch();
  auto id = d.spawn().id();
  auto c = f.command();
  c.mutable_update_task()->set_task_id(d.task().id());
  c.mutable_update_task()->set_status(v1::CANCELLED);
  f.run(c);
  f.keeper.hold_starts = false;
  f.keeper.lose();
  f.w.settle();
  f.w.advance_by(2s, 100ms);
  CHECK(f.keeper.gates_opened.empty());
  CHECK_FALSE(f.keeper.runs(id));
  CHECK(over(f.spawn_row(id)));
  check_consistent(f);
}

TEST_CASE("a task cancelled at any step of its start runs nothing afterwards, and its spawn ends") {
  for (std::size_t steps = 0; steps < 120; ++steps) {
    CAPTURE(steps);
    fabric_world f;
    auto call = f.send(f.dispatch("count"));
    for (std::size_t i = 0; i < steps; ++i)
      f.w.step();
    auto rows = f.board->get().front;
    auto cancel = f.command();
    // The id is known from the seed: the first uuids of the store.
    auto q = f.query();
    q.mutable_list_tasks();
    auto pending = f.request<answer_ptr>(rows, query_ptr{std::make_shared<const v1::Query>(q)});
    while (!pending.answered() && f.w.step()) {
    }
    if (pending.get()->tasks().tasks_size() == 0) {
      f.w.settle();
      continue; // not even created at that step
    }
    cancel.mutable_update_task()->set_task_id(pending.get()->tasks().tasks(0).id());
    cancel.mutable_update_task()->set_status(v1::CANCELLED);
    f.run(cancel);
    f.w.advance_by(1s, 100ms);
    auto all = f.spawns();
    REQUIRE(all.size() == 1);
    CHECK(over(all[0]));
    CHECK(f.keeper.running() == 0);
    CHECK(f.task(all[0].task_id()).status() == v1::CANCELLED);
  }
}

TEST_CASE("a cancelled task's program is ended, and so is a shell that was started for it") {
  for (const auto* harness : {"exec", "shell"}) {
    CAPTURE(harness);
    fabric_world f;
    auto line = f.dispatch("count");
    line.mutable_dispatch()->set_harness(harness);
    auto d = f.run(line).dispatch();
    REQUIRE(f.keeper.runs(d.spawn().id()));
    auto c = f.command();
    c.mutable_update_task()->set_task_id(d.task().id());
    c.mutable_update_task()->set_status(v1::CANCELLED);
    f.run(c);
    CHECK(f.keeper.killed == std::vector{d.spawn().id()});
    CHECK(over(f.spawn_row(d.spawn().id())));
  }
}

TEST_CASE("workers go on while the keeper's connection is lost, and their end is told when it is back") {
  fabric_world f;
  auto d = f.run(f.dispatch("count")).dispatch();
  auto id = d.spawn().id();
  f.keeper.reachable = false;
  f.keeper.lose();
  f.w.settle();
  f.w.advance_by(3s, 100ms);
  CHECK(f.spawn_row(id).status() == v1::Spawn::RUNNING);
  {
    // It ends while nobody listens.
    auto away = std::exchange(f.keeper.listener, nullptr);
    f.keeper.exit(id, 4);
    f.keeper.listener = away;
  }
  f.keeper.reachable = true;
  f.w.advance_by(10s, 100ms);
  CHECK(f.spawn_row(id).status() == v1::Spawn::ENDED);
  CHECK(f.spawn_row(id).exit_status() == 4);
  check_consistent(f);
}

TEST_CASE("a command that was ended has failed, although its program cleaned up and exited with 0") {
  fabric_world f;
  auto d = f.run(f.dispatch("count")).dispatch();
  f.keeper.exit(d.spawn().id(), 0, 0, true);
  f.w.settle();
  CHECK(f.spawn_row(d.spawn().id()).reason() == "killed");
  CHECK(f.task(d.task().id()).status() == v1::FAILED);
}

TEST_CASE("how long a program ran that was lost with its keeper is told, if this node saw it") {
  fabric_world f;
  auto d = f.run(f.dispatch("count")).dispatch();
  f.w.advance_by(5s, 100ms);
  f.keeper.die();
  f.w.settle();
  f.w.advance_by(2s, 100ms);
  auto result = nlohmann::json::parse(f.task(d.task().id()).result());
  CHECK(result.at("duration_ms").get<std::int64_t>() >= 5'000);
  CHECK(result.at("duration_ms").get<std::int64_t>() <= 7'000);
}

TEST_CASE("a keeper that died took its programs along: the task fails, or is tried again if that was asked for") {
  fabric_world f;
  std::uint32_t retries = 0;
  SUBCASE("once only") {}
  SUBCASE("again") { retries = 1; }
  auto d = f.run(f.dispatch("count", retries)).dispatch();
  auto id = d.spawn().id();
  f.keeper.die();
  f.w.settle();
  f.w.advance_by(2s, 100ms);
  CHECK(f.keeper.killed == std::vector{id}); // what it had started is left
  auto row = f.spawn_row(id);
  if (retries == 0) {
    CHECK(over(row));
    CHECK(row.reason() == "node_restarted");
    CHECK(f.task(d.task().id()).status() == v1::FAILED);
  } else {
    CHECK(row.status() == v1::Spawn::RUNNING);
    CHECK(row.attempt() == 2);
    CHECK(f.keeper.gates_opened.at({id, 2}) == 1);
    f.keeper.exit(id, 0);
    f.w.settle();
    CHECK(f.task(d.task().id()).status() == v1::DONE);
  }
  check_consistent(f);
}

TEST_CASE("the output of a further attempt is not mixed with that of the first") {
  fabric_world f;
  auto id = f.run(f.dispatch("count", 1)).dispatch().spawn().id();
  f.keeper.print(id, "first attempt, long\n");
  f.w.settle();
  f.keeper.die();
  f.w.settle();
  f.w.advance_by(2s, 100ms);
  REQUIRE(f.keeper.runs(id));
  f.keeper.print(id, "second\n");
  f.keeper.exit(id, 0);
  f.w.settle();
  auto terminal = f.request<pty_actor>(f.board->get().processes, pty_atom_v, id);
  f.w.settle();
  auto read = std::make_shared<pty_read>();
  auto chunk = f.request<pty_chunk_ptr>(terminal.get(), pty_read_ptr{read});
  f.w.settle();
  CHECK(chunk.get()->data() == "second\n");
  CHECK(chunk.get()->ended());
}

TEST_CASE("an attempt that is declared over at any step is ended before the next one begins, which runs once") {
  auto drilled = false;
  SUBCASE("as it goes") {}
  SUBCASE("and its actor dies with it") { drilled = true; }
  std::size_t met = 0;
  for (std::size_t steps = 0; steps < 160; ++steps) {
    CAPTURE(steps);
    fabric_world f{steps};
    auto call = f.send(f.dispatch("count", 1));
    for (std::size_t i = 0; i < steps; ++i)
      f.w.step();
    auto q = f.query();
    q.mutable_list_spawns();
    auto pending = f.request<answer_ptr>(f.board->get().front, query_ptr{std::make_shared<const v1::Query>(q)});
    while (!pending.answered() && f.w.step()) {
    }
    if (pending.get()->spawns().spawns_size() == 0)
      continue; // not even asked for at that step
    ++met;
    auto id = pending.get()->spawns().spawns(0).id();
    // As the home says of what ran on a host that it takes for lost.
    node_environment node;
    node.facts.node_id = "node-1";
    auto ended = internal_command(node, "s", [&](v1::Command& c) {
      c.mutable_spawn_ended()->set_spawn_id(id);
      c.mutable_spawn_ended()->set_attempt(1);
      c.mutable_spawn_ended()->set_reason("node_restarted");
    });
    auto told = f.request<reply_ptr>(f.board->get().writer, ended);
    if (drilled)
      f.drill("scopes/s/spawn/" + id + "#1");
    f.w.settle();
    f.w.advance_by(3s, 100ms);
    REQUIRE_FALSE(told.get()->has_refusal());
    auto row = f.spawn_row(id);
    CHECK(row.attempt() == 2);
    CHECK(row.status() == v1::Spawn::RUNNING);
    REQUIRE(f.keeper.runs(id));
    CHECK(f.keeper.find(id)->info.attempt == 2);
    CHECK(f.keeper.gates_opened[{id, 2}] == 1);
    check_consistent(f);
    f.keeper.print(id, "second\n");
    f.keeper.exit(id, 0);
    f.w.settle();
    CHECK(f.task(row.task_id()).status() == v1::DONE);
    CHECK(f.task(row.task_id()).result().find("second") != std::string::npos);
    CHECK_FALSE(f.keeper.find(id));
    for (const auto* attempt : {"#1", "#2"})
      CHECK_FALSE(f.awake("scopes/s/spawn/" + id + attempt));
  }
  CHECK(met > 40);
}

TEST_CASE("a start that the death of the processes actor interrupts is taken up again, not failed") {
  fabric_world f;
  f.keeper.hold_starts = true;
  auto d = f.run(f.dispatch("count")).dispatch();
  auto id = d.spawn().id();
  REQUIRE_FALSE(f.keeper.runs(id));
  f.keeper.hold_starts = false;
  f.drill("processes");
  f.w.settle();
  f.w.advance_by(3s, 100ms);
  CHECK(f.spawn_row(id).status() == v1::Spawn::RUNNING);
  CHECK(f.task(d.task().id()).status() == v1::IN_PROGRESS);
  check_consistent(f);
}

TEST_CASE("a command whose task was cancelled while nobody could end it is ended by the next activation") {
  fabric_world f;
  auto d = f.run(f.dispatch("count")).dispatch();
  auto id = d.spawn().id();
  REQUIRE(f.keeper.runs(id));
  auto cancel = f.command();
  cancel.mutable_update_task()->set_task_id(d.task().id());
  cancel.mutable_update_task()->set_status(v1::CANCELLED);
  // The kill meets a keeper that is away; then the actor that would repeat it is gone too.
  f.keeper.lose();
  auto told = f.send(cancel);
  f.w.settle();
  REQUIRE_FALSE(told.get()->has_refusal());
  f.drill("scopes/s/spawn/" + id + "#1");
  f.w.settle();
  f.w.advance_by(3s, 100ms);
  CHECK_FALSE(f.keeper.runs(id));
  CHECK(over(f.spawn_row(id)));
}

TEST_CASE("a worker whose end cannot be recorded yet is not tried in a hot loop") {
  fabric_world f;
  auto id = f.run(f.dispatch("count")).dispatch().spawn().id();
  f.drill("scopes/s/spawn/" + id + "#1");
  auto before = f.w.sched.clock().now();
  f.w.settle();
  CHECK(f.w.sched.clock().now() == before);
  CHECK_FALSE(f.awake("scopes/s/spawn/" + id + "#1")); // it waits for its moment
  f.w.advance_by(1s, 100ms);
  CHECK(f.awake("scopes/s/spawn/" + id + "#1"));
}

TEST_CASE("the end of a worker is recorded soon after a full disk has space again, however long it was full") {
  fabric_world f;
  auto d = f.run(f.dispatch("count")).dispatch();
  f.free_disk_bytes = 0;
  f.w.advance_by(2s, 100ms);
  f.keeper.exit(d.spawn().id(), 0);
  f.w.settle();
  CHECK(f.awake("scopes/s/spawn/" + d.spawn().id() + "#1"));
  f.w.advance_by(60s, 500ms);
  CHECK(f.task(d.task().id()).status() == v1::IN_PROGRESS);
  f.free_disk_bytes = std::uint64_t{1} << 40;
  f.w.advance_by(3s, 100ms);
  CHECK(f.task(d.task().id()).status() == v1::DONE);
}

TEST_CASE("the node may end at any step of a start: one run at most, and every spawn ends") {
  std::size_t ran = 0;
  for (std::uint64_t seed = 0; seed < 3; ++seed)
    for (std::size_t steps = 0; steps < 110; ++steps) {
      CAPTURE(seed);
      CAPTURE(steps);
      fabric_world f{seed};
      auto id = f.next_id();
      auto call = f.send(f.dispatch("count"), id);
      for (std::size_t i = 0; i < steps; ++i)
        f.w.step();
      f.restart();
      f.w.advance_by(1s, 100ms);
      // As clients do: the same request again.
      auto again = f.send(f.dispatch("count"), id);
      f.w.settle();
      REQUIRE_FALSE(again.get()->has_refusal());
      auto all = f.spawns();
      REQUIRE(all.size() == 1);
      check_consistent(f);
      if (f.keeper.runs(all[0].id())) {
        ++ran;
        f.keeper.exit(all[0].id(), 0);
        f.w.settle();
      }
      CHECK(over(f.spawn_row(all[0].id())));
      CHECK(f.task(all[0].task_id()).status() >= v1::DONE);
    }
  CHECK(ran > 0);
}

TEST_CASE("a restart of the node keeps its workers, under every interleaving of the start") {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    CAPTURE(seed);
    fabric_world f{seed};
    std::vector<std::string> ids;
    for (int i = 0; i < 4; ++i)
      ids.push_back(f.run(f.dispatch("count " + std::to_string(i))).dispatch().spawn().id());
    f.restart();
    f.w.advance_by(1s, 100ms);
    CHECK(f.keeper.killed.empty());
    for (const auto& id : ids)
      CHECK(f.keeper.runs(id));
    CHECK(f.workers.sessions.size() == 4);
    check_consistent(f);
  }
}

TEST_CASE("children that no spawn explains are ended") {
  fabric_world f;
  f.stop();
  internal::StartChild stray;
  stray.set_attempt(1);
  stray.set_id("held");
  f.keeper.connect(f.keeper.listener);
  f.keeper.start(stray);
  stray.set_id("let-go");
  f.keeper.start(stray);
  f.keeper.open_gate("let-go");
  f.start();
  f.w.settle();
  f.w.advance_by(1s, 100ms);
  CHECK(f.keeper.aborted == std::vector<std::string>{"held"});
  CHECK(f.keeper.killed == std::vector<std::string>{"let-go"});
  CHECK(f.keeper.running() == 0);
}

TEST_CASE("a keeper that cannot be reached for long fails the spawn, and nothing runs when it comes back") {
  fabric_world f;
  f.keeper.reachable = false;
  f.keeper.lose();
  f.w.settle();
  auto d = f.run(f.dispatch("count")).dispatch();
  CHECK(f.spawn_row(d.spawn().id()).status() == v1::Spawn::REQUESTED);
  f.w.advance_by(70s, 1s);
  CHECK(over(f.spawn_row(d.spawn().id())));
  f.keeper.reachable = true;
  f.w.advance_by(10s, 250ms);
  CHECK(f.keeper.running() == 0);
  check_consistent(f);
}

TEST_CASE("a worker's end is recorded although its scope had died") {
  fabric_world f;
  auto d = f.run(f.dispatch("count")).dispatch();
  for (int i = 0; i < 2; ++i) { // after its second death the scope is not back at once
    f.drill("scopes/s");
    f.w.settle();
  }
  REQUIRE_FALSE(f.awake("scopes/s"));
  f.keeper.exit(d.spawn().id(), 0);
  f.w.settle();
  f.w.advance_by(5s, 100ms);
  CHECK(f.spawn_row(d.spawn().id()).status() == v1::Spawn::ENDED);
  CHECK(f.task(d.task().id()).status() == v1::DONE);
}

TEST_CASE("the caller's environment reaches the worker and no file") {
  const std::string secret = "hunter2-very-secret-value";
  fabric_world f;
  auto d = f.run(f.dispatch("count"), {"PATH=/home/ada/bin:/usr/bin", "SWARM_PASSPHRASE=" + secret, "TERM=vt100"}).dispatch();
  const auto& env = f.keeper.find(d.spawn().id())->request.environment();
  CHECK(value_of(env, "SWARM_PASSPHRASE") == secret);
  CHECK(value_of(env, "PATH") == "/opt/swarm/bin:/home/ada/bin:/usr/bin");
  CHECK(value_of(env, "TERM") == "vt100");
  CHECK(value_of(env, "ORIGIN") == "(unset)");
  CHECK(value_of(env, "SWARM_TASK_ID") == d.task().id());
  CHECK(value_of(env, "SWARM_HOME") == f.state.dir.root.string());
  auto token = value_of(env, "SWARM_TOKEN");
  CHECK(token.size() == 64);
  f.keeper.exit(d.spawn().id(), 0);
  f.w.settle();
  auto everything = f.state.contents();
  CHECK(everything.find("count") != std::string::npos); // the search itself works
  CHECK(everything.find(secret) == std::string::npos);
  CHECK(everything.find(token) == std::string::npos);
  CHECK(everything.find(from_hex(token)) == std::string::npos);
}

TEST_CASE("OpenCode is not started without its plugin, and the caller hears what to do") {
  fabric_world f;
  auto wanted = [&](const std::string& title) {
    auto cmd = f.dispatch(title);
    cmd.mutable_dispatch()->set_harness("opencode");
    return cmd;
  };
  auto d = f.run(wanted("without"), {"SWARM_SHARE=/nowhere/share"}).dispatch();
  auto row = f.spawn_row(d.spawn().id());
  CHECK(row.status() == v1::Spawn::FAILED);
  CHECK(row.reason().rfind("spawn_failed: OpenCode would work without looking at locks", 0) == 0);
  CHECK(row.reason().find("its plugin is not there, /nowhere/share/agents/opencode/swarm.js. Install the whole package, or set SWARM_SHARE") !=
        std::string::npos);
  CHECK(f.keeper.running() == 0);
  CHECK(f.task(d.task().id()).status() == v1::OPEN);
  auto beside = f.spawn_row(f.run(wanted("beside")).dispatch().spawn().id());
  CHECK(beside.reason().find("no share/swarm-fabric is beside the directory of /opt/swarm/bin/swarmctl") != std::string::npos);
  const auto share = std::string{std::getenv("SWARM_SOURCE_DIR")} + "/deploy";
  auto started = f.run(wanted("with"), {"SWARM_SHARE=" + share}).dispatch().spawn().id();
  REQUIRE(f.keeper.runs(started));
  CHECK(value_of(f.keeper.find(started)->request.environment(), "OPENCODE_CONFIG_CONTENT").find("file://" + share + "/agents/opencode/swarm.js") !=
        std::string::npos);
}

TEST_CASE("Gemini CLI is not started without our policy, and the caller hears what to do") {
  fabric_world f;
  auto wanted = [&](const std::string& title, const std::string& share) {
    auto cmd = f.dispatch(title);
    cmd.mutable_dispatch()->set_harness("gemini");
    return f.run(cmd, {"SWARM_SHARE=" + share}).dispatch().spawn().id();
  };
  auto row = f.spawn_row(wanted("without", "/nowhere/share"));
  CHECK(row.status() == v1::Spawn::FAILED);
  CHECK(row.reason().rfind("spawn_failed: Gemini CLI would ask before each of the swarm's tools", 0) == 0);
  CHECK(row.reason().find("our policy for it is not there, /nowhere/share/agents/gemini/swarm.toml. Install the whole package, or set SWARM_SHARE to "
                          "the directory that has agents/gemini (") != std::string::npos);
  CHECK(f.keeper.running() == 0);
  CHECK(f.keeper.runs(wanted("with", std::string{std::getenv("SWARM_SOURCE_DIR")} + "/deploy")));
}

TEST_CASE("a worker started after a restart gets the node's environment and the same token") {
  fabric_world f;
  f.keeper.reachable = false;
  f.keeper.lose();
  f.w.settle();
  auto d = f.run(f.dispatch("count"), {"PATH=/home/ada/bin"}).dispatch();
  auto row = f.spawn_row(d.spawn().id());
  f.keeper.reachable = true;
  f.restart();
  f.w.advance_by(1s, 100ms);
  REQUIRE(f.keeper.runs(row.id()));
  const auto& env = f.keeper.find(row.id())->request.environment();
  CHECK(value_of(env, "ORIGIN") == "node");
  node_facts facts;
  facts.token_key = std::string(32, 'k');
  CHECK(value_of(env, "SWARM_TOKEN") == worker_token(facts, row));
  row.set_attempt(2);
  CHECK(value_of(env, "SWARM_TOKEN") != worker_token(facts, row));
}

TEST_CASE("the same spawn key asked for by many at once starts one worker") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    fabric_world f{seed};
    std::vector<test::asked<reply_ptr>> calls;
    for (int i = 0; i < 50; ++i)
      calls.push_back(f.send(f.spawn_command("one")));
    f.w.settle();
    for (const auto& c : calls)
      CHECK(c.get()->spawn().spawn().id() == calls[0].get()->spawn().spawn().id());
    CHECK(f.keeper.children.size() == 1);
    check_consistent(f);
  }
}
