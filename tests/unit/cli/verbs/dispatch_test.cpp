#include "actors/base/limits.hpp"
#include "cli/verbs/follow.hpp"
#include "cli/verbs/program_io.hpp"
#include "tests/unit/cli/fake_node.hpp"

#include <doctest/doctest.h>

#include <csignal>
#include <future>

#include <fcntl.h>
#include <unistd.h>

using namespace swarm;
using namespace swarm::cli;
using test::fake_node;

namespace {

// The tests' own standard input must not matter.
[[maybe_unused]] const int no_input = dup2(open("/dev/null", O_RDONLY | O_CLOEXEC), STDIN_FILENO);

v1::Task task_in(v1::TaskStatus status, const std::string& result = {}) {
  v1::Task t;
  t.set_id("T1");
  t.set_scope("/r");
  t.set_title("count");
  t.set_harness("exec");
  t.set_status(status);
  t.set_result(result);
  t.set_has_result(!result.empty());
  return t;
}

v1::Event event(std::uint64_t revision, const std::string& type, const std::string& subject, const std::string& payload) {
  v1::Event e;
  e.set_revision(revision);
  e.set_type(type);
  e.set_subject(subject);
  e.set_actor("worker-session");
  e.set_payload(payload);
  return e;
}

v1::WatchReply reply_of(std::vector<v1::Event> events) {
  v1::WatchReply r;
  for (auto& e : events) {
    r.set_revision(e.revision());
    *r.add_events() = e;
  }
  return r;
}

v1::Reply dispatched(v1::DispatchReply::Status status, const v1::Task& task, std::uint64_t revision) {
  v1::Reply r;
  r.set_revision(revision);
  r.mutable_dispatch()->set_status(status);
  *r.mutable_dispatch()->mutable_task() = task;
  r.mutable_dispatch()->set_role("implementer");
  return r;
}

/// The task's row as GetTask gives it.
void row_is(test::cli& ctl, const v1::Task& task) {
  ctl.node.on_query = [task](const v1::Query&) {
    v1::Answer a;
    *a.mutable_task() = task;
    return a;
  };
}

const std::vector<std::string> command{"dispatch", "count", "--harness", "exec", "--", "wc", "-l"};
const char* success = R"({"exit_status":0,"duration_ms":1200,"output_tail":"12 lines\r\n"})";

} // namespace

TEST_CASE("an empty word is no task and no instance, and is not taken for an option that was left out") {
  test::cli ctl;
  row_is(ctl, task_in(v1::OPEN));
  for (const auto& line : std::vector<std::vector<std::string>>{{"dispatch", "t", "--depends-on", "", "--", "true"},
                                                                {"dispatch", "t", "--depends-on", ",", "--", "true"},
                                                                {"dispatch", "t", "--depends-on", "@last,", "--", "true"},
                                                                {"dispatch", "t", "--depends-on", "T1", "--depends-on", "", "--", "true"},
                                                                {"dispatch", "t", "--parent-task", ""},
                                                                {"request-task", "fix", "t", "--depends-on", "T1,,T2"},
                                                                {"request-task", "fix", "t", "--assignee", ""},
                                                                {"lock", "a", "--task", ""},
                                                                {"spawns", "--task", ""},
                                                                {"prompt-peer", "--to", "", "who", "text"}}) {
    CAPTURE(line[2]);
    CHECK(ctl(line) == code::usage);
    CHECK_MESSAGE(ctl.screen.err.find(" has an empty word, which names no ") != std::string::npos, ctl.screen.err);
  }
  CHECK(ctl.node.commands.empty());
}

TEST_CASE("an option with an empty value is not taken for one that was left out, nor for the word behind it") {
  test::cli ctl;
  row_is(ctl, task_in(v1::OPEN));
  for (const auto& line : std::vector<std::vector<std::string>>{
         {"down", "--context", ""},
         {"--context", "", "down"},
         {"tasks", "--scope", ""},
         {"tasks", "--scope", " "},
         {"--scope=", "tasks"},
         {"kv", "get", "--scope=", "plan"},
         {"tasks", "--status", ","},
         {"dispatch", "t", "--on", "", "--", "true"},
         {"dispatch", "t", "--where", "", "--", "true"},
         {"dispatch", "t", "--identity", "", "--", "true"},
         {"dispatch", "t", "--label", "", "--", "true"},
         {"dispatch", "t", "--harness", ""},
         {"dispatch", "t", "--message", "", "--harness", "claude"},
         {"dispatch", "t", "--idempotency-key", "", "--", "true"},
         {"dispatch", "t", "--env", "", "--", "true"},
         {"dispatch", "t", "--directory", "", "--", "true"},
         {"dispatch", "t", "--file", "", "--", "true"},
         {"spawn", "--key", "", "--", "true"},
         {"register", "--label", ""},
         {"register", "--identity", ""},
         {"lock", "a", "--wait", ""},
         {"lock", "a", "--ttl="},
         {"kv", "list", "--prefix", ""},
       }) {
    CAPTURE(joined(line));
    CHECK(ctl(line) == code::usage);
    CHECK_MESSAGE(ctl.screen.err.find(" has an empty value; leave it out, or give one") != std::string::npos, ctl.screen.err);
  }
  for (const auto& line : std::vector<std::vector<std::string>>{{"register", ""}, {"unlock", ""}, {"pty", "kill", ""}, {"context", "use", ""}}) {
    CAPTURE(joined(line));
    CHECK(ctl(line) == code::usage);
    CHECK_MESSAGE(ctl.screen.err.find(" is empty; ") != std::string::npos, ctl.screen.err);
  }
  CHECK(ctl.node.commands.empty());
  CHECK(ctl.node.is_running);
  // What is empty for people is only that; and swarm-mcp takes it all.
  CHECK(ctl({"lock", "a", "--note", ""}) != code::usage);
  ctl.program = "swarm-mcp";
  CHECK(ctl({"--scope", "", "tasks"}) == code::ok);
}

TEST_CASE("dispatch follows its task across a lost connection and prints each step once") {
  test::cli ctl;
  ctl.node.on_command = [](const v1::Command&) { return dispatched(v1::DispatchReply::SPAWNING, task_in(v1::OPEN), 10); };
  row_is(ctl, task_in(v1::DONE, success));
  ctl.node.watches.push_back(
    {{reply_of({event(11, "spawn.starting", "S1", R"({"pid":77,"task_id":"T1"})"), event(12, "task.updated", "other", R"({"status":"done"})")})},
     stream_end::lost});
  ctl.node.watches.push_back({{reply_of({event(13, "task.claimed", "T1", "{}"), event(14, "task.progress", "T1", R"({"summary":"half"})"),
                                         event(15, "task.updated", "T1", R"({"status":"done"})")})},
                              stream_end::lost});
  CHECK(ctl(command) == 0);
  REQUIRE(ctl.node.watch_requests.size() == 2);
  CHECK(ctl.node.watch_requests[0].after() == 10);
  CHECK(ctl.node.watch_requests[1].after() == 12);
  for (auto text :
       {"created task T1", "spawned worker S1 (pid 77)", "claimed by worker-s", "progress: half", "done", "task T1 done: exit status 0, 1.2 s"})
    CHECK_MESSAGE(ctl.screen.err.find(text) != std::string::npos, text);
  CHECK(ctl.screen.out == "12 lines\n");
}

namespace {

/// A task is followed, its node goes away, and `outage` has passed by the time at which the stream is lost again.
struct cli_with_outage : test::cli {
  explicit cli_with_outage(std::chrono::milliseconds outage) {
    node.on_command = [](const v1::Command&) { return dispatched(v1::DispatchReply::SPAWNING, task_in(v1::OPEN), 10); };
    node.on_query = [this, outage](const v1::Query& q) {
      if (q.has_get_totals()) {
        ++asked_whether_there;
        return is_there();
      }
      const bool is_over = node.watches.empty();
      if (node.watch_requests.size() == 1 && !std::exchange(is_away, true))
        clock.advance(outage);
      v1::Answer a;
      if (asked_whether_there > 0 && forgets) {
        a.mutable_refusal()->set_code(v1::Refusal::NOT_FOUND);
        a.mutable_refusal()->set_text("Task not found");
        return a;
      }
      *a.mutable_task() = task_in(is_over ? v1::DONE : v1::IN_PROGRESS, is_over ? success : "");
      return a;
    };
    node.watches.push_back({{}, stream_end::lost});
    node.watches.push_back({{}, stream_end::lost});
    node.watches.push_back({{reply_of({event(11, "task.updated", "T1", R"({"status":"done"})")})}, stream_end::lost});
  }
  std::function<v1::Answer()> is_there = [] { return v1::Answer{}; };
  int asked_whether_there = 0;
  bool is_away = false;
  bool forgets = false; // it comes back with a store that does not know the task
};

} // namespace

TEST_CASE("who follows waits over a short outage without asking whether the node is there") {
  cli_with_outage ctl{std::chrono::seconds{29}};
  CHECK(ctl(command) == 0);
  CHECK(ctl.asked_whether_there == 0);
  CHECK(ctl.node.watch_requests.size() == 3);
}

TEST_CASE("who follows asks a node that was away for longer than --timeout once more, and goes on when it answers") {
  cli_with_outage ctl{std::chrono::seconds{31}};
  CHECK(ctl(command) == 0);
  CHECK(ctl.asked_whether_there == 1);
  CHECK(ctl.node.watch_requests.size() == 3);
  cli_with_outage patient{std::chrono::seconds{31}};
  auto words = command;
  words.insert(words.begin(), {"--timeout", "60"});
  CHECK(patient(words) == 0);
  CHECK(patient.asked_whether_there == 0);
}

TEST_CASE("a node that was away for longer than --timeout and does not answer by another deadline is missing") {
  cli_with_outage ctl{std::chrono::seconds{31}};
  ctl.is_there = []() -> v1::Answer { throw call_failed(code::deadline, "no answer in time"); };
  CHECK(ctl(command) == code::deadline);
  CHECK_MESSAGE(ctl.screen.err.find("the node went away and did not come back by the deadline; see: swarmctl status") != std::string::npos,
                ctl.screen.err);
  CHECK(ctl.node.watch_requests.size() == 2);
}

TEST_CASE("a node that comes back after a long outage and does not know the task is told as such") {
  cli_with_outage ctl{std::chrono::seconds{31}};
  ctl.forgets = true;
  CHECK(ctl(command) == code::refused);
  CHECK_MESSAGE(ctl.screen.err.find("Task not found") != std::string::npos, ctl.screen.err);
  CHECK(ctl.node.watch_requests.size() == 2);
}

TEST_CASE("a node that was stopped meanwhile is told as such, and not as missing") {
  cli_with_outage ctl{std::chrono::seconds{31}};
  ctl.is_there = []() -> v1::Answer { throw call_failed(code::no_node, "the node was stopped with swarmctl down"); };
  CHECK(ctl(command) == code::no_node);
  CHECK(ctl.screen.err.find("the node was stopped with swarmctl down") != std::string::npos);
  CHECK(ctl.screen.err.find("by the deadline") == std::string::npos);
}

TEST_CASE("a Ctrl-C that meets the look at the task ends the following as any other does, and the task goes on") {
  test::cli ctl;
  ctl.node.on_command = [](const v1::Command&) { return dispatched(v1::DispatchReply::SPAWNING, task_in(v1::OPEN), 10); };
  ctl.node.watches.push_back({{reply_of({event(11, "task.updated", "T1", R"({"status":"done"})")})}, stream_end::lost});
  std::promise<void> cancelled;
  ctl.node.on_cancel = [&] { cancelled.set_value(); };
  bool first = true;
  ctl.node.on_query = [&](const v1::Query&) {
    if (std::exchange(first, false)) {
      raise(SIGINT);
      CHECK(cancelled.get_future().wait_for(std::chrono::seconds{20}) == std::future_status::ready);
      throw failure(code::interrupted, "");
    }
    v1::Answer a;
    *a.mutable_task() = task_in(v1::IN_PROGRESS);
    return a;
  };
  CHECK(ctl(command) == code::interrupted);
  CHECK(ctl.screen.err.find("stopped following; task T1 goes on") != std::string::npos);
}

TEST_CASE("dispatch ends with the worker's exit status, and 128 more than a signal") {
  test::cli ctl;
  auto ends_with = [&](const char* result) {
    ctl.node.on_command = [](const v1::Command&) { return dispatched(v1::DispatchReply::SPAWNING, task_in(v1::OPEN), 10); };
    row_is(ctl, task_in(v1::FAILED, result));
    ctl.node.watches.push_back({{reply_of({event(11, "task.updated", "T1", R"({"status":"failed"})")})}, stream_end::lost});
    return ctl(command);
  };
  CHECK(ends_with(R"({"exit_status":3,"duration_ms":5,"output_tail":""})") == 3);
  CHECK(ends_with(R"({"exit_status":0,"signal":9,"duration_ms":5,"output_tail":""})") == 137);
  CHECK(ends_with(R"({"duration_ms":0,"output_tail":"","reason":"spawn_failed: no such file"})") == code::refused);
}

TEST_CASE("why a worker ended is told in words, and the wire keeps its own") {
  test::cli ctl;
  auto ends_with = [&](const std::string& reason, const char* duration) {
    const auto result = R"({"output_tail":"",)" + std::string{duration} + R"("reason":")" + reason + "\"}";
    ctl.node.on_command = [](const v1::Command&) { return dispatched(v1::DispatchReply::SPAWNING, task_in(v1::OPEN), 10); };
    row_is(ctl, task_in(v1::FAILED, result));
    ctl.node.watches.push_back({{reply_of({event(12, "spawn.ended", "S1", R"({"task_id":"T1","reason":")" + reason + "\"}"),
                                           event(13, "task.updated", "T1", R"({"status":"failed"})")})},
                                stream_end::lost});
    CHECK(ctl(command) == code::refused);
    CHECK_MESSAGE(ctl.screen.err.find(reason) == std::string::npos, ctl.screen.err);
    return ctl.screen.err;
  };
  auto lost = ends_with("node_restarted", R"("duration_ms":1200,)");
  CHECK_MESSAGE(lost.find("worker ended: its process was lost with its node or the keeper there") != std::string::npos, lost);
  CHECK_MESSAGE(lost.find("task T1 failed: 1.2 s, its process was lost with its node or the keeper there") != std::string::npos, lost);
  auto unseen = ends_with("node_restarted", "");
  CHECK_MESSAGE(unseen.find("task T1 failed: its process was lost") != std::string::npos, unseen);
  auto killed = ends_with("killed", R"("exit_status":0,"duration_ms":1200,)");
  CHECK_MESSAGE(killed.find("task T1 failed: exit status 0, 1.2 s, it was ended on request") != std::string::npos, killed);
}

TEST_CASE("an unknown harness is named, also with a command behind it") {
  test::cli ctl;
  CHECK(ctl({"dispatch", "x", "--harness", "bogus", "--", "true"}) == code::usage);
  CHECK_MESSAGE(ctl.screen.err.find("unknown harness bogus; known: exec, shell, claude") != std::string::npos, ctl.screen.err);
}

TEST_CASE("the same dispatch again answers at once with the same task, result and exit status") {
  test::cli ctl;
  ctl.node.on_command = [](const v1::Command&) {
    auto r = dispatched(v1::DispatchReply::ALREADY_TERMINAL, task_in(v1::FAILED, R"({"exit_status":3,"duration_ms":5,"output_tail":"no\n"})"), 10);
    r.mutable_dispatch()->set_existing(true);
    return r;
  };
  auto keyed = command;
  keyed.insert(keyed.begin() + 2, {"--idempotency-key", "k"});
  CHECK(ctl(keyed) == 3);
  CHECK(ctl.screen.out == "no\n");
  CHECK(ctl.screen.err.find("ago; this is its result. Run it again with --new") != std::string::npos);
  CHECK(ctl.screen.err.find("task T1 failed: exit status 3, 5 ms") != std::string::npos);
  CHECK(ctl.node.commands.size() == 1);
  CHECK(ctl.screen.err.find("was failed") == std::string::npos);
  CHECK_FALSE(ctl.node.commands.back().dispatch().again_if_unsuccessful());
  CHECK(ctl.node.watch_requests.empty());
  auto with_json = command;
  with_json.insert(with_json.begin(), "--json");
  with_json.insert(with_json.begin() + 3, {"--idempotency-key", "k"});
  CHECK(ctl(with_json) == 3);
  CHECK(ctl.out_json()["status"] == "already_terminal");
  CHECK(ctl.out_json()["task_id"] == "T1");
  CHECK(ctl.out_json()["exit_status"] == 3);
}

TEST_CASE("an output of just the length that is kept is whole and one that was cut is not and ends with status 74") {
  test::cli ctl;
  auto ends_with = [&](const std::string& more) {
    ctl.node.on_command = [more](const v1::Command&) {
      const auto tail = std::string(limits::output_tail_bytes_max(), 'x');
      auto r = dispatched(v1::DispatchReply::ALREADY_TERMINAL,
                          task_in(v1::DONE, R"({"exit_status":0,"duration_ms":5,"output_tail":")" + tail + "\"" + more + "}"), 10);
      r.mutable_dispatch()->set_existing(true);
      return r;
    };
    return ctl(command);
  };
  CHECK(ends_with("") == code::ok);
  CHECK_MESSAGE(ctl.screen.err.find("only the end of the output is kept") == std::string::npos, ctl.screen.err);
  CHECK(ends_with(R"(,"output_truncated":true)") == code::not_whole);
  CHECK_MESSAGE(ctl.screen.err.find("only the end of the output is kept") != std::string::npos, ctl.screen.err);
}

TEST_CASE("that a result is an old one is said on stderr also with -q") {
  test::cli ctl;
  ctl.node.on_command = [](const v1::Command&) {
    auto r = dispatched(v1::DispatchReply::ALREADY_TERMINAL, task_in(v1::DONE, R"({"exit_status":0,"duration_ms":5,"output_tail":"old\n"})"), 10);
    r.mutable_dispatch()->set_existing(true);
    return r;
  };
  auto quiet = command;
  quiet.insert(quiet.begin() + 2, "-q");
  CHECK(ctl(quiet) == 0);
  CHECK(ctl.screen.out == "old\n");
  CHECK_MESSAGE(ctl.screen.err.starts_with("task T1 was done "), ctl.screen.err);
  CHECK_MESSAGE(ctl.screen.err.ends_with(" ago; this is its result. Run it again with --new\n"), ctl.screen.err);
}

TEST_CASE("without a key dispatch asks for a new task after a failure, and names the one that failed") {
  test::cli ctl;
  ctl.node.on_command = [](const v1::Command&) {
    auto r = dispatched(v1::DispatchReply::ALREADY_TERMINAL, task_in(v1::DONE, success), 10);
    auto& old = *r.mutable_dispatch()->mutable_in_place_of();
    old.set_id("T0");
    old.set_status(v1::FAILED);
    old.set_changed_at_ms(1'795'291'698'000);
    return r;
  };
  CHECK(ctl(command) == 0);
  CHECK(ctl.node.commands.size() == 1);
  CHECK(ctl.node.commands.back().dispatch().again_if_unsuccessful());
  CHECK(ctl.screen.err.find("task T0 failed 2.0 s ago; this is a new one") != std::string::npos);
  auto with_json = command;
  with_json.insert(with_json.begin(), "--json");
  CHECK(ctl(with_json) == 0);
  CHECK(ctl.out_json()["retry_of"] == "T0");
  ctl.program = "swarm-mcp";
  CHECK(ctl({"dispatch", "count"}) == 0);
  CHECK(ctl.node.commands.size() == 3);
  CHECK_FALSE(ctl.node.commands.back().dispatch().again_if_unsuccessful());
}

TEST_CASE("the variables of --env are part of what is sent as a digest only, in any order") {
  test::cli ctl;
  ctl.env = environment{{{"HERE", "here"}}};
  ctl.node.on_command = [](const v1::Command&) { return dispatched(v1::DispatchReply::ALREADY_TERMINAL, task_in(v1::DONE, success), 10); };
  auto digest = [&](const std::vector<std::string>& given) {
    auto words = command;
    for (const auto& variable : given)
      words.insert(words.begin() + 2, {"--env", variable});
    REQUIRE(ctl(words) == 0);
    const auto& sent = ctl.node.commands.back();
    CHECK(sent.SerializeAsString().find("s3cret") == std::string::npos);
    return sent.dispatch().variables_digest();
  };
  const auto one = digest({"A=s3cret", "B=2"});
  CHECK(one == digest({"B=2", "A=s3cret"}));
  CHECK(one != digest({"A=s3cret"}));
  CHECK(digest({"HERE"}) == digest({"HERE=here"}));
  CHECK(digest({}).empty());
  CHECK(ctl({"dispatch", "x", "--env", "NOT_HERE", "--", "make"}) == code::usage);
  CHECK(ctl.screen.err.find("NOT_HERE=VALUE") != std::string::npos);
}

TEST_CASE("with --json only the final payload is printed") {
  test::cli ctl;
  ctl.node.on_command = [](const v1::Command&) { return dispatched(v1::DispatchReply::SPAWNING, task_in(v1::OPEN), 10); };
  row_is(ctl, task_in(v1::DONE, success));
  ctl.node.watches.push_back(
    {{reply_of({event(11, "spawn.running", "S1", R"({"task_id":"T1"})"), event(12, "task.updated", "T1", R"({"status":"done"})")})},
     stream_end::lost});
  auto with_json = command;
  with_json.insert(with_json.begin(), "--json");
  CHECK(ctl(with_json) == 0);
  auto out = ctl.out_json();
  CHECK(out["status"] == "spawned");
  CHECK(out["task"]["status"] == "done");
  CHECK(out["completion"]["status"] == "completed");
  CHECK(out["completion"]["terminal_status"] == "done");
  CHECK(out["exit_status"] == 0);
  CHECK(out["output_tail"] == "12 lines\r\n");
}

TEST_CASE("--detach returns once the worker runs") {
  test::cli ctl;
  ctl.node.on_command = [](const v1::Command&) { return dispatched(v1::DispatchReply::SPAWNING, task_in(v1::OPEN), 10); };
  row_is(ctl, task_in(v1::IN_PROGRESS));
  ctl.node.watches.push_back(
    {{reply_of({event(11, "spawn.starting", "S1", R"({"task_id":"T1","pid":1})")}),
      reply_of({event(12, "spawn.running", "S1", R"({"task_id":"T1"})")}), reply_of({event(13, "task.progress", "T1", R"({"summary":"too late"})")})},
     stream_end::lost});
  auto detached = command;
  detached.insert(detached.begin() + 1, "--detach");
  CHECK(ctl(detached) == code::ok);
  CHECK(ctl.screen.out == "T1\n");
  CHECK(ctl.screen.err == "spawned worker for task T1\n");
}

TEST_CASE("--detach of a task that runs does not claim to have started it") {
  test::cli ctl;
  ctl.node.on_command = [](const v1::Command&) {
    auto task = task_in(v1::IN_PROGRESS);
    task.set_assignee("11111111-aaaa");
    auto r = dispatched(v1::DispatchReply::SPAWN_IN_FLIGHT, task, 10);
    r.mutable_dispatch()->mutable_spawn()->set_status(v1::Spawn::RUNNING);
    return r;
  };
  auto detached = command;
  detached.insert(detached.begin() + 1, "--detach");
  CHECK(ctl(detached) == code::ok);
  CHECK(ctl.screen.out == "T1\n");
  CHECK(ctl.screen.err == "task T1 has its worker already (11111111)\n");
}

TEST_CASE("a device on standard input is input, unless it is /dev/null or a terminal") {
  const auto is_input = [](const char* file) {
    dup2(open(file, O_RDONLY | O_CLOEXEC), STDIN_FILENO);
    return has_standard_input();
  };
  CHECK(is_input("/dev/zero"));
  CHECK_FALSE(is_input("/dev/null"));
}

TEST_CASE("a worker that could not be started is spawn_failed with the error, detached or followed") {
  test::cli ctl;
  const char* result = R"({"duration_ms":0,"output_tail":"","reason":"spawn_failed: no such file"})";
  ctl.node.on_command = [](const v1::Command&) { return dispatched(v1::DispatchReply::SPAWNING, task_in(v1::OPEN), 10); };
  row_is(ctl, task_in(v1::FAILED, result));
  auto run = [&](std::vector<std::string> flags) {
    ctl.node.watches.push_back({{reply_of({event(11, "spawn.failed", "S1", R"({"task_id":"T1","reason":"spawn_failed: no such file"})"),
                                           event(12, "task.updated", "T1", R"({"status":"failed"})")})},
                                stream_end::lost});
    auto words = command;
    words.insert(words.begin() + 1, flags.begin(), flags.end());
    return ctl(words);
  };
  CHECK(run({"--detach", "--json"}) == code::refused);
  CHECK(ctl.out_json()["status"] == "spawn_failed");
  CHECK(ctl.out_json()["error"] == "spawn_failed: no such file");
  CHECK_FALSE(ctl.out_json().contains("spawned_instance"));
  CHECK(run({"--json"}) == code::refused);
  CHECK(ctl.out_json()["status"] == "spawn_failed");
  CHECK(ctl.out_json()["error"] == "spawn_failed: no such file");
  CHECK(ctl.out_json()["completion"]["terminal_status"] == "failed");
  CHECK(run({"--detach"}) == code::refused);
  CHECK(ctl.screen.err == "spawn failed: spawn_failed: no such file\n");
}

TEST_CASE("an agent that could not be started is reported at once, although its task stays open") {
  test::cli ctl;
  auto agent = task_in(v1::OPEN);
  agent.clear_harness();
  ctl.node.on_command = [agent](const v1::Command&) { return dispatched(v1::DispatchReply::SPAWNING, agent, 10); };
  row_is(ctl, agent);
  ctl.node.watches.push_back({{reply_of({event(11, "spawn.failed", "S1", R"({"task_id":"T1","reason":"no terminal"})")})}, stream_end::lost});
  CHECK(ctl({"dispatch", "think", "--harness", "claude", "--json"}) == code::refused);
  CHECK(ctl.out_json()["status"] == "spawn_failed");
  CHECK(ctl.out_json()["error"] == "no terminal");
  CHECK(ctl.out_json()["task"]["status"] == "open");
}

TEST_CASE("a worker that ran before anybody followed it is spawned, not in flight") {
  test::cli ctl;
  ctl.node.on_command = [](const v1::Command&) {
    auto r = dispatched(v1::DispatchReply::SPAWN_IN_FLIGHT, task_in(v1::IN_PROGRESS), 10);
    r.mutable_dispatch()->mutable_spawn()->set_status(v1::Spawn::RUNNING);
    return r;
  };
  row_is(ctl, task_in(v1::DONE));
  ctl.node.watches.push_back({{reply_of({event(12, "task.updated", "T1", R"({"status":"done"})")})}, stream_end::lost});
  auto words = command;
  words.insert(words.begin() + 1, "--json");
  CHECK(ctl(words) == 0);
  CHECK(ctl.out_json()["status"] == "spawned");
}

TEST_CASE("a session that waited for the end consumes the messages about it, a person has none") {
  test::cli ctl;
  auto serve = [&](bool node_answers) {
    ctl.node.on_command = [node_answers](const v1::Command& c) {
      if (!c.has_consume_messages())
        return dispatched(v1::DispatchReply::SPAWNING, task_in(v1::OPEN), 10);
      if (!node_answers)
        throw failure(code::deadline, "gone");
      v1::Reply r;
      auto* m = r.mutable_messages()->add_messages();
      m->set_id(7);
      m->set_sender("S1");
      m->set_content("[task:T1] [auto] done");
      return r;
    };
    ctl.node.watches.push_back({{reply_of({event(12, "task.updated", "T1", R"({"status":"done"})")})}, stream_end::lost});
  };
  ctl.node.on_query = [](const v1::Query& q) {
    v1::Answer a;
    if (q.has_find_session())
      *a.mutable_session() = test::session("I1");
    else
      *a.mutable_task() = task_in(v1::DONE, success);
    return a;
  };
  auto words = command;
  words.insert(words.begin(), {"--json", "--as", "I1"});
  serve(true);
  CHECK(ctl(words) == 0);
  CHECK(ctl.node.commands.back().actor() == "I1");
  CHECK(ctl.node.commands.back().consume_messages().task_prefix() == "T1");
  auto consumed = ctl.out_json()["consumed_completion_messages"];
  REQUIRE(consumed.size() == 1);
  CHECK(consumed[0]["id"] == 7);
  CHECK(consumed[0]["content"] == "[task:T1] [auto] done");
  serve(false);
  CHECK(ctl(words) == 0);
  CHECK(ctl.out_json()["consumed_completion_messages"].empty());
  serve(true);
  words.erase(words.begin() + 1, words.begin() + 3);
  CHECK(ctl(words) == 0);
  CHECK_FALSE(ctl.out_json().contains("consumed_completion_messages"));
  CHECK(ctl.node.commands.back().has_dispatch());
}

TEST_CASE("a task that failed exits alike when it is followed and when it is asked for again, no matter who worked on it") {
  test::cli ctl;
  auto failed = task_in(v1::FAILED, "could not");
  failed.clear_harness();
  row_is(ctl, failed);
  ctl.node.on_command = [](const v1::Command&) {
    auto open = task_in(v1::OPEN);
    open.clear_harness();
    return dispatched(v1::DispatchReply::DISPATCHED, open, 10);
  };
  ctl.node.watches.push_back({{reply_of({event(12, "task.updated", "T1", R"({"status":"failed"})")})}, stream_end::lost});
  CHECK(ctl({"dispatch", "think", "--follow", "--json"}) == code::refused);
  CHECK(ctl.out_json()["status"] == "dispatched");
  ctl.node.on_command = [failed](const v1::Command&) { return dispatched(v1::DispatchReply::ALREADY_TERMINAL, failed, 10); };
  CHECK(ctl({"dispatch", "think", "--follow"}) == code::refused);
}

TEST_CASE("dispatch without a harness answers as swarm-mcp does and starts nobody") {
  test::cli ctl;
  ctl.node.on_command = [](const v1::Command&) { return dispatched(v1::DispatchReply::NO_WORKER, task_in(v1::OPEN), 10); };
  CHECK(ctl({"dispatch", "review", "it"}) == code::ok);
  CHECK(ctl.screen.out == "T1\n");
  CHECK(ctl.screen.err == "task T1 is on the board; nobody works on it yet. Start somebody: --harness claude\n");
  CHECK(ctl.node.commands.back().dispatch().title() == "review it");
  CHECK(ctl.node.commands.back().dispatch().harness().empty());
  CHECK(ctl.node.last_environment.empty());
}

TEST_CASE("a task that waits for approval says so, and how to approve it") {
  test::cli ctl;
  ctl.node.on_command = [](const v1::Command&) { return dispatched(v1::DispatchReply::SPAWNING, task_in(v1::APPROVAL_REQUIRED), 10); };
  auto words = command;
  words.insert(words.begin() + 1, {"--approval-required", "--detach"});
  CHECK(ctl(words) == code::ok);
  CHECK(ctl.screen.err == "task T1 waits for approval; approve it with: swarmctl approve T1\n");
}

TEST_CASE("--no-nudge is told as the reason why nobody was woken") {
  test::cli ctl;
  ctl.node.on_command = [](const v1::Command& c) {
    v1::PromptResult prompt;
    prompt.set_message_id(7);
    prompt.set_skipped("no workspace identity is published for that instance");
    if (c.has_create_tasks()) {
      v1::Reply r;
      *r.mutable_tasks_created()->add_tasks()->mutable_task() = task_in(v1::CLAIMED);
      *r.mutable_tasks_created()->add_prompts() = prompt;
      return r;
    }
    auto r = dispatched(v1::DispatchReply::DISPATCHED, task_in(v1::CLAIMED), 10);
    *r.mutable_dispatch()->mutable_prompt() = prompt;
    return r;
  };
  for (const auto& words : std::vector<std::vector<std::string>>{{"dispatch", "it"}, {"request-task", "fix", "it"}}) {
    auto args = words;
    args.push_back("--json");
    CHECK(ctl(args) == code::ok);
    CHECK(ctl.out_json()["prompt"]["nudge_skipped"] == "no workspace identity is published for that instance");
    args.push_back("--no-nudge");
    CHECK(ctl(args) == code::ok);
    CHECK(ctl.out_json()["prompt"]["nudge_skipped"] == "nudge=false");
  }
}

TEST_CASE("dispatch hands on the inheritable environment and the command, and -- alone means exec") {
  test::cli ctl;
  ctl.env = environment{{{"PATH", "/bin"}, {"SWARM_TOKEN", "t"}, {"SECRET", "s"}}};
  ctl.node.on_command = [](const v1::Command&) { return dispatched(v1::DispatchReply::ALREADY_TERMINAL, task_in(v1::DONE, success), 10); };
  CHECK(ctl({"dispatch", "x", "--depends-on", "A,B", "--retries", "2", "--new", "--", "make"}) == 0);
  const auto& body = ctl.node.commands.back().dispatch();
  CHECK(body.harness() == "exec");
  CHECK(body.argv(0) == "make");
  CHECK(body.depends_on_size() == 2);
  CHECK(body.retries() == 2);
  CHECK(body.fresh());
  CHECK(body.directory() == "/r");
  CHECK(ctl.node.last_environment == environment_list{{"PATH", "/bin"}});
}

TEST_CASE("how many retries are allowed is the node's to say") {
  test::cli ctl;
  ctl.node.on_command = [](const v1::Command&) { return test::refusal(v1::Refusal::INVALID, "retries must be at most 20"); };
  CHECK(ctl({"dispatch", "x", "--retries", "21", "--", "make"}) == code::refused);
  CHECK(ctl.node.commands.back().dispatch().retries() == 21);
  CHECK(ctl({"spawn", "--retries", "21", "--", "make"}) == code::refused);
  CHECK(ctl.node.commands.back().request_spawn().retries() == 21);
  CHECK(ctl({"dispatch", "x", "--retries", "-1", "--", "make"}) == code::usage);
  CHECK(ctl({"spawn", "--retries", "4294967296", "--", "make"}) == code::usage);
}

TEST_CASE("a position that is no longer kept is made up for by reading the task") {
  test::cli ctl;
  ctl.node.on_command = [](const v1::Command&) { return dispatched(v1::DispatchReply::SPAWN_IN_FLIGHT, task_in(v1::OPEN), 10); };
  row_is(ctl, task_in(v1::DONE, success));
  ctl.node.watches.push_back({{}, stream_end::not_kept});
  CHECK(ctl(command) == 0);
  CHECK(ctl.node.watch_requests.size() == 1);
}

TEST_CASE("a worker that was lost with its host is said to be lost, in words") {
  CHECK(live_line(event(1, "spawn.ended", "S", R"({"reason": "host_lost"})")) == "worker ended: its host was lost");
}

TEST_CASE("logs of a task whose worker could not start, or that has had none, say so and fail") {
  test::cli ctl;
  v1::Spawn worker;
  worker.set_id("S1");
  worker.set_status(v1::Spawn::FAILED);
  worker.set_reason("spawn_failed: cannot enter /r/gone: No such file or directory");
  bool has_worker = true;
  ctl.node.on_query = [&](const v1::Query& q) {
    v1::Answer a;
    if (q.has_get_task())
      *a.mutable_task() = task_in(v1::FAILED, R"({"output_tail":"","reason":"spawn_failed: cannot enter /r/gone: No such file or directory"})");
    else if (q.has_list_spawns() && has_worker)
      *a.mutable_spawns()->add_spawns() = worker;
    return a;
  };
  const std::vector<std::string> logs{"logs", "11111111-2222-4333-8444-555555555555"};
  CHECK(ctl(logs) == code::refused);
  CHECK_MESSAGE(ctl.screen.err.find("the worker of task T1 never ran: spawn_failed: cannot enter /r/gone") != std::string::npos, ctl.screen.err);
  CHECK(ctl.screen.out.empty());
  has_worker = false;
  CHECK(ctl(logs) == code::refused);
  CHECK_MESSAGE(ctl.screen.err.find("task T1 has had no worker") != std::string::npos, ctl.screen.err);
  // One that ran and said nothing printed nothing.
  has_worker = true;
  worker.set_status(v1::Spawn::ENDED);
  worker.set_started_at_ms(1);
  CHECK(ctl(logs) == code::ok);
}
