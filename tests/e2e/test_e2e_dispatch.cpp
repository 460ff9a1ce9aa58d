// User story 2: one command makes one durable task, one worker and one result.
#include <algorithm>
#include <csignal>
#include <fstream>
#include <future>
#include <map>
#include <set>
#include <thread>

#include <sys/stat.h>

#include <doctest/doctest.h>

#include "actors/base/process.hpp"
#include "tests/support/node_client.hpp"
#include "tests/support/node_process.hpp"

using namespace swarm::testing;
namespace v1 = swarm::v1;

namespace {

bool in_order(const std::vector<std::string>& lines, const std::vector<std::string>& texts) {
  std::size_t at = 0;
  for (const auto& text : texts) {
    auto i = std::find_if(lines.begin() + static_cast<std::ptrdiff_t>(at), lines.end(),
                          [&](const auto& line) { return line.find(text) != std::string::npos; });
    if (i == lines.end())
      return false;
    at = static_cast<std::size_t>(i - lines.begin()) + 1;
  }
  return true;
}

std::vector<std::string> exec_line(const std::string& title, const std::string& script, const std::vector<std::string>& flags = {}) {
  std::vector<std::string> out{"dispatch", title, "--harness", "exec"};
  out.insert(out.end(), flags.begin(), flags.end());
  out.insert(out.end(), {"--", "sh", "-c", script});
  return out;
}

std::string status_of(const test_node& node, const std::string& task) { return node.ctl_json({"task", task}).at("status"); }

bool reaches(const test_node& node, const std::string& task, const std::string& status) {
  return eventually([&] { return status_of(node, task) == status; });
}

} // namespace

TEST_CASE("dispatch shows created, spawned, claimed and done in this order and ends with the worker's own exit status") {
  test_node node;
  auto ran = node.ctl(exec_line("count", "echo forty-two; exit 7"));
  CAPTURE(ran.out);
  CAPTURE(ran.err);
  CHECK(ran.status == 7);
  CHECK(ran.out == "forty-two\n");
  CHECK(in_order(lines_of(ran.err), {"created task", "spawned worker", "claimed by", "failed", "exit status 7"}));
  CHECK(ran.out.find('\x1b') == std::string::npos); // plain lines in a pipe
  CHECK(ran.err.find('\x1b') == std::string::npos);

  auto good = node.ctl(exec_line("succeed", "echo well"));
  CHECK(good.status == 0);
  CHECK(good.out == "well\n");
  CHECK(in_order(lines_of(good.err), {"created task", "spawned worker", "claimed by", "done"}));
  auto quiet = node.ctl(exec_line("quietly", "echo alone", {"-q"}));
  CHECK(quiet.out == "alone\n");
  CHECK(quiet.err.empty());
  auto repeated = node.ctl(exec_line("quietly", "echo alone", {"-q"}));
  CHECK(repeated.out == "alone\n");
  CHECK_MESSAGE(repeated.err.find("ago; this is its result. Run it again with --new") != std::string::npos, repeated.err);
  auto killed = node.ctl(exec_line("die", "kill -TERM $$"));
  CHECK(killed.status == 128 + SIGTERM);
}

TEST_CASE("all of an output comes that a command writes faster than the node keeps it") {
  test_node node;
  const auto file = node.work() + "/data";
  {
    std::ofstream out{file};
    for (int i = 1; i <= 3'000'000; ++i)
      out << i << '\n';
  }
  const auto whole = fs::file_size(file);
  for (const auto& flags : {std::vector<std::string>{"--pipes", "-q"}, std::vector<std::string>{"-q"}}) {
    CAPTURE(flags.size());
    const auto got = node.ctl(exec_line("flood of " + std::to_string(flags.size()), "cat " + file, flags));
    CHECK(got.status == 0);
    CHECK(got.err == "");
    CHECK(got.out.size() == whole);
    CHECK(got.out == file_text(file));
    const auto kept = node.ctl({"logs", "@last"});
    CHECK(kept.status == 0);
    CHECK(kept.out.size() == whole);
  }
}

TEST_CASE("an output of which a part is no longer kept is not a success and stderr says so with -q too") {
  test_node node;
  fs::create_directories(node.dir().root);
  std::ofstream{node.dir().config_file()} << "[limits]\npty_segment_bytes = 524288\npty_segments_total_bytes = 8388608\n";
  const auto long_one = exec_line("long", "seq 1 1200000", {"-q"});
  node.ctl(long_one); // its follower may have been fast enough
  const auto logs = node.ctl({"logs", "@last"});
  CHECK(logs.status == 74);
  CHECK(logs.err.find("of the output are no longer kept") != std::string::npos);
  CHECK(logs.out.ends_with("\n1200000\n"));
  const auto again = node.ctl(long_one);
  CHECK(again.status == 74);
  CHECK(again.err.find("of the output are no longer kept") != std::string::npos);
  // A command that failed keeps its own status.
  const auto failed = exec_line("failed", "seq 1 1200000; exit 3", {"-q", "--idempotency-key", "k"});
  node.ctl(failed);
  CHECK(node.ctl(failed).status == 3);
}

TEST_CASE("a worker on pipes has no terminal, and its output, errors and exit status come back") {
  test_node node;
  const auto* script = "for n in 0 1 2; do test -t $n && echo terminal; done; echo said; echo wrong >&2; exit 5";
  auto ran = node.ctl(exec_line("pipe", script, {"--pipes"}));
  CAPTURE(ran.out);
  CHECK(ran.status == 5);
  CHECK(in_order(lines_of(ran.out), {"said", "wrong"}));
  CHECK(in_order(lines_of(ran.err), {"spawned worker", "exit status 5"}));
  CHECK(ran.out.find("terminal") == std::string::npos);
  auto started = node.ctl_json({"spawn", "--pipes", "--", "sh", "-c", "read x; echo got-$x; cat; exit 4"});
  const auto id = started.at("id").get<std::string>();
  CHECK(eventually([&] { return node.ctl({"pty", "send", id, "word", "--enter"}).status == 0; }));
  CHECK(eventually([&] { return node.ctl({"pty", "read", id}).out.find("got-word") != std::string::npos; }));
  CHECK(node.ctl({"pty", "send", id, "more", "--enter", "--end-of-input"}).status == 0);
  CHECK(eventually([&] {
    for (const auto& row : node.ctl_json({"spawns"}))
      if (row.at("id") == id)
        return row.at("status") == "ended" && row.at("exit_status") == 4;
    return false;
  }));
  CHECK(node.ctl({"pty", "read", id}).out == "got-word\nmore\n");
}

TEST_CASE("the same line again answers at once with the same task and result, and --new makes a fresh one") {
  test_node node;
  auto line = exec_line("once", "echo ran >> runs; echo printed");
  auto first = node.ctl_start(line).finish();
  REQUIRE(first.status == 0);
  auto again = node.ctl(line);
  CHECK(again.status == 0);
  CHECK(again.out == "printed\n");
  CHECK(again.err.find("ago; this is its result. Run it again with --new") != std::string::npos);
  CHECK(count_lines(node.work() + "/runs") == 1);
  auto tasks = node.ctl_json({"tasks"});
  REQUIRE(tasks.size() == 1);
  CHECK(first.err.find(tasks[0].at("id").get<std::string>()) != std::string::npos);
  CHECK(again.err.find(tasks[0].at("id").get<std::string>()) != std::string::npos);

  CHECK(node.ctl(exec_line("once", "echo ran >> runs; echo printed", {"--new"})).status == 0);
  CHECK(node.ctl_json({"tasks"}).size() == 2);
  CHECK(count_lines(node.work() + "/runs") == 2);
  // The command belongs to the default key: another one is other work.
  CHECK(node.ctl(exec_line("once", "echo ran >> runs; exit 4")).status == 4);
  CHECK(node.ctl_json({"tasks"}).size() == 3);
}

TEST_CASE("the same line after a failure does it once more and names the old task, unless a key was given") {
  test_node node;
  auto line = exec_line("again", "echo ran >> runs; [ -e good ]");
  REQUIRE(node.ctl(line).status == 1);
  std::string old = node.ctl_json({"tasks"})[0].at("id");
  std::ofstream{node.work() + "/good"};
  auto again = node.ctl(line);
  CHECK(again.status == 0);
  CHECK(again.err.find("task " + old + " failed") != std::string::npos);
  CHECK(count_lines(node.work() + "/runs") == 2);
  auto keyed = exec_line("keyed", "echo ran >> runs; exit 3", {"--idempotency-key", "k"});
  REQUIRE(node.ctl(keyed).status == 3);
  CHECK(node.ctl(keyed).status == 3);
  CHECK(count_lines(node.work() + "/runs") == 3);
}

TEST_CASE("after a failure equal lines at one time make one new task, and later it answers") {
  test_node node;
  auto line = exec_line("again", "test -e ok || exit 1; echo ran >> runs; while [ ! -e go ]; do sleep 0.05; done; echo over");
  REQUIRE(node.ctl(line).status == 1);
  std::string failed = node.ctl_json({"tasks"})[0].at("id");
  std::ofstream{node.work() + "/ok"};
  std::vector<child_process> callers;
  for (auto n = 0; n < 4; ++n)
    callers.push_back(node.ctl_start(line));
  for (auto& caller : callers)
    CHECK(caller.read_until("  again\n"));
  std::ofstream{node.work() + "/go"};
  auto named = 0;
  for (auto& caller : callers) {
    auto end = caller.finish();
    CHECK(end.status == 0);
    CHECK(end.out == "over\n");
    named += end.err.find("task " + failed + " failed") != std::string::npos ? 1 : 0;
  }
  CHECK(named == 1);
  CHECK(count_lines(node.work() + "/runs") == 1);
  auto later = node.ctl(line);
  CHECK(later.status == 0);
  CHECK(later.out == "over\n");
  CHECK(later.err.find("was done") != std::string::npos);
  CHECK(node.ctl_json({"tasks"}).size() == 2);
}

TEST_CASE("a line with other variables or with input is not answered by the result of an earlier one") {
  test_node node;
  auto with = [](const char* variable) { return exec_line("env", "echo $FOO", {"--env", variable}); };
  CHECK(node.ctl(with("FOO=bar")).out == "bar\n");
  CHECK(node.ctl(with("FOO=baz")).out == "baz\n");
  auto again = node.ctl(with("FOO=bar"));
  CHECK(again.out == "bar\n");
  CHECK(again.err.find("this is its result") != std::string::npos);
  CHECK(node.ctl(exec_line("cat", "cat"), {.input = "hi\n"}).out == "hi\n");
  auto other = node.ctl(exec_line("cat", "cat"), {.input = "ho\n"});
  CHECK(other.out == "ho\n");
  CHECK(other.err.find("what comes in on standard input may differ, so this is a new one") != std::string::npos);
}

TEST_CASE("all of a long output comes, colours pass on a terminal only, and logs shows it again") {
  test_node node;
  auto long_one = node.ctl(exec_line("long", "seq 1 5000"));
  CHECK(lines_of(long_one.out).size() == 5000);
  CHECK(long_one.out.ends_with("\n5000\n"));
  CHECK(node.ctl({"logs", "@last"}).out == long_one.out);
  auto red = node.ctl(exec_line("red", R"(printf '\033[31mred\033[0m\n')"));
  CHECK(red.out == "red\n");
  CHECK(node.ctl({"logs", "@last"}).out == "red\n");
  CHECK(node.ctl(exec_line("red bytes", R"(printf '\033[31mred\033[0m\n')", {"--pipes"})).out == "\x1b[31mred\x1b[0m\n");
  terminal_process person{{program("swarmctl").string(), "logs", "@last"}, node.env(), node.work()};
  CHECK(person.finish() == 0);
  CHECK(person.screen().find("\x1b[31mred\x1b[0m") != std::string::npos);
}

TEST_CASE("a command's output does not wait in a pager for a key and --env brings another one") {
  test_node node;
  const std::string script = "seq 1 200 > f; git init -q . && git add f && git -c user.name=a -c user.email=a@b commit -qm one && git show --stat -p";
  const auto shown = node.ctl(exec_line("show", script, {"--no-stdin"}));
  CHECK(shown.status == 0);
  CHECK(shown.out.find("+200\n") != std::string::npos);
  CHECK(node.ctl(exec_line("default", "echo $PAGER $GIT_PAGER")).out == "cat cat\n");
  CHECK(node.ctl(exec_line("own", "echo $PAGER $GIT_PAGER", {"--env", "PAGER=head", "--env", "GIT_PAGER=less"})).out == "head less\n");
}

TEST_CASE("what comes while a command runs is shown while it runs") {
  test_node node;
  auto running = node.ctl_start(exec_line("slow", "echo early; while [ ! -e go ]; do sleep 0.05; done; echo late"));
  CHECK(running.read_until("early"));
  CHECK(node.ctl_json({"tasks"})[0].at("status") != "done");
  std::ofstream{node.work() + "/go"};
  auto end = running.finish();
  CHECK(end.out == "early\nlate\n");
}

TEST_CASE("a file or a pipe on standard input is the command's, byte by byte, and --no-stdin keeps it") {
  test_node node;
  auto cat = node.ctl(exec_line("cat", "cat; echo over"), {.input = "one\r\ntwo\n"});
  CHECK(cat.status == 0);
  CHECK(cat.out == "one\r\ntwo\nover\n");
  std::string large(600'000, 'x');
  auto count = node.ctl(exec_line("count", "wc -c"), {.input = large});
  CHECK(lines_of(count.out).front().find("600000") != std::string::npos);
}

TEST_CASE("a line that is stopped before all of its input was passed cancels its task, whether it has begun or not") {
  test_node node;
  // Opening the pipe waits for a writer, who does not come.
  REQUIRE(mkfifo((node.work() + "/go").c_str(), 0600) == 0);
  auto client =
    node.ctl_start(exec_line("slow", "read line; echo got $line; read line < go; wc -c"), {.input = "one\n" + std::string(2'000'000, 'x')});
  REQUIRE(client.read_until("got one"));
  client.signal(SIGINT);
  auto stopped = client.finish();
  CHECK(stopped.status == 130);
  CHECK_MESSAGE(stopped.err.find("was cancelled, because nobody can bring the rest of its input") != std::string::npos, stopped.err);
  CHECK(node.ctl_json({"tasks", "--status", "cancelled"}).size() == 1);
  auto gated = node.ctl(exec_line("gated", "cat", {"--approval-required", "--timeout", "1"}), {.input = "one\n"});
  CHECK(gated.status == 4);
  CHECK_MESSAGE(gated.err.find("waits for approval; approve it with") != std::string::npos, gated.err);
  CHECK_MESSAGE(gated.err.find("was cancelled, because nobody can bring the rest of its input") != std::string::npos, gated.err);
  CHECK(node.ctl_json({"tasks", "--status", "cancelled"}).size() == 2);
}

TEST_CASE("a command that nobody gives input to reads the end of it at once, and its output stays a terminal's") {
  test_node node;
  const auto* script = "cat; read line; cat; test -t 1 && echo a terminal; echo over";
  CHECK(node.ctl(exec_line("none", script, {"--no-stdin"}), {.input = "x"}).out == "a terminal\nover\n");
  CHECK(node.ctl(exec_line("empty", script)).out == "a terminal\nover\n");
  CHECK(node.ctl(exec_line("pipes", script, {"--pipes"})).out == "over\n");
  auto closed = child_process{{"/bin/sh", "-c", "exec swarmctl dispatch closed -q -- sh -c 'cat; echo over' <&-"},
                              node.env({{"PATH", program("swarmctl").parent_path().string() + ":/usr/bin:/bin"}}),
                              node.work()}
                  .finish();
  CHECK(closed.out == "over\n");
}

TEST_CASE("--detach refuses input that would be lost, unless --no-stdin says so") {
  test_node node;
  auto refused = node.ctl(exec_line("lost", "cat", {"--detach"}), {.input = "x"});
  CHECK(refused.status == 2);
  CHECK(refused.err.find("--no-stdin") != std::string::npos);
  CHECK(node.ctl_json({"tasks"}).empty());
  auto id = node.ctl_json(exec_line("lost", "cat", {"--detach", "--no-stdin"}), {.input = "x"}).at("task_id").get<std::string>();
  CHECK(reaches(node, id, "done"));
}

TEST_CASE("--env adds what is named, over what is inherited, and no variable of the fabric") {
  test_node node;
  auto got = node.ctl(exec_line("env", "echo $CC-$EDITOR-$FROM_HERE", {"--env", "CC=clang", "--env", "EDITOR=ed", "--env", "FROM_HERE"}),
                      {.env = {{"FROM_HERE", "here"}}});
  CHECK(got.out == "clang-ed-here\n");
  CHECK(node.ctl(exec_line("bad", "true", {"--env", "SWARM_TOKEN=x"})).status == 2);
  CHECK(node.ctl(exec_line("worse", "true", {"--env", "=x"})).status == 2);
}

TEST_CASE("a task is cancelled and made once more by its worker's row") {
  test_node node;
  auto made = node.ctl(exec_line("stay", "echo ran >> runs; while [ ! -e go ]; do sleep 0.05; done; echo over", {"--detach"}));
  REQUIRE(made.status == 0);
  auto id = lines_of(made.out).front();
  CHECK(made.out == id + "\n");
  CHECK(made.err.find("spawned worker for task") != std::string::npos);
  CHECK(node.ctl({"retry", id}).status == 1);
  REQUIRE(node.ctl({"cancel", id.substr(0, 8), "--note", "not now"}).status == 0);
  CHECK(reaches(node, id, "cancelled"));
  std::ofstream{node.work() + "/go"};
  auto again = node.ctl_json({"retry", id});
  CHECK(again.at("retry_of") == id);
  CHECK(reaches(node, again.at("task_id"), "done"));
  CHECK(node.ctl({"logs", again.at("task_id").get<std::string>(), "-f"}).out == "over\n");
  CHECK(count_lines(node.work() + "/runs") == 2);
}

TEST_CASE("what is made once more after a cancellation does not meet the command before in its directory") {
  test_node node;
  const std::string script = "if [ -e pid ]; then kill -0 $(cat pid) && echo met; exit 0; fi; "
                             "trap '' TERM HUP; echo $$ > pid; touch began; while :; do sleep 0.05; done";
  const std::string id = node.ctl_json(exec_line("stubborn", script, {"--detach"})).at("task_id");
  REQUIRE(eventually([&] { return fs::exists(node.work() + "/began"); }));
  REQUIRE(node.ctl({"cancel", id}).status == 0);
  const auto again = node.ctl({"retry", id});
  CHECK_MESSAGE(again.err.find("still ending; the next one begins after that") != std::string::npos, again.err);
  REQUIRE(again.status == 0);
  const auto next = lines_of(again.out).front();
  REQUIRE(reaches(node, next, "done"));
  CHECK(node.ctl({"logs", next}).out.find("met") == std::string::npos);
}

TEST_CASE("a task that is retried several times at once is made once more, and everybody gets that one") {
  test_node node;
  REQUIRE(node.ctl(exec_line("flaky", "echo ran >> runs; test -e go || exit 1; while [ ! -e stop ]; do sleep 0.05; done")).status == 1);
  auto id = node.ctl_json({"tasks"}).at(0).at("id").get<std::string>();
  std::ofstream{node.work() + "/go"};
  std::vector<std::future<run_result>> callers;
  for (int i = 0; i < 4; ++i)
    callers.push_back(std::async(std::launch::async, [&] { return node.ctl({"retry", id}); }));
  std::set<std::string> made;
  int told = 0;
  for (auto& caller : callers) {
    auto done = caller.get();
    CHECK_MESSAGE(done.status == 0, done.err);
    made.insert(done.out);
    told += done.err.find("is being made once more already, by this one") != std::string::npos;
  }
  CHECK(made.size() == 1);
  CHECK(told == 3);
  CHECK(node.ctl_json({"tasks"}).size() == 2);
}

TEST_CASE("a worker that is made once more by retry keeps its label, its identity included") {
  test_node node;
  auto made = node.ctl(exec_line("tests", "true", {"--json", "--name", "Tess", "--label", "identity:work team:red"}));
  REQUIRE_MESSAGE(made.status == 0, made.err);
  auto id = made.parsed().at("task_id").get<std::string>();
  auto again = node.ctl_json({"retry", id});
  CHECK(reaches(node, again.at("task_id"), "done"));
  std::map<std::string, std::string> labels; // of the two workers
  for (const auto& line : lines_of(node.ctl({"events", "--type", "instance.registered", "--json"}).out)) {
    auto event = nlohmann::json::parse(line);
    labels[event.at("subject").get<std::string>()] = event.at("payload").at("label").get<std::string>();
  }
  CHECK(labels.size() == 2);
  for (const auto& [session, label] : labels)
    for (const auto* token : {"identity:work", "team:red", "name:Tess"})
      CHECK(label.find(token) != label.npos);
}

TEST_CASE("retry keeps what a task waited for, and says what is not kept of its worker") {
  test_node node;
  auto asked = node.ctl_json(exec_line("careful", "touch ran", {"--approval-required", "--detach"})).at("task_id").get<std::string>();
  REQUIRE(node.ctl({"cancel", asked}).status == 0);
  auto again = node.ctl({"retry", asked});
  CHECK(again.err.find("it waits for approval") != std::string::npos);
  CHECK(status_of(node, lines_of(again.out).front()) == "approval_required");

  auto person = node.session();
  auto first = node.ctl_json({"request-task", "test", "first"}).at("id").get<std::string>();
  auto second = node.ctl_json(exec_line("second", "touch ran", {"--depends-on", first, "--detach"})).at("task_id").get<std::string>();
  REQUIRE(node.ctl({"cancel", second}).status == 0);
  auto waiting = node.ctl({"retry", second});
  CHECK(waiting.err.find("it waits for " + first.substr(0, 8) + " (first)") != std::string::npos);
  second = lines_of(waiting.out).front();
  CHECK(status_of(node, second) == "blocked");
  REQUIRE(node.ctl({"claim", first, "--as", person}).status == 0);
  REQUIRE(node.ctl({"update-task", first, "--as", person, "--status", "failed"}).status == 0);
  const auto made = node.ctl_json({"tasks"}).size();
  auto refused = node.ctl({"retry", second});
  CHECK(refused.status == 1);
  CHECK(refused.err.find("depends on task " + first.substr(0, 8) + " (first), which failed") != std::string::npos);
  CHECK(node.ctl_json({"tasks"}).size() == made);
  CHECK_FALSE(fs::exists(node.work() + "/ran"));

  REQUIRE(node.ctl(exec_line("given", "cat; test -n \"$FOO\"", {"--env", "FOO=bar"}), {.input = "hi\n"}).status == 0);
  auto without = node.ctl({"retry", "@last"});
  CHECK(without.err.find("the variables of --env are not kept") != std::string::npos);
  CHECK(without.err.find("standard input of the first worker is not kept") != std::string::npos);
  CHECK(reaches(node, lines_of(without.out).front(), "failed"));
}

TEST_CASE("logs of a task that has not begun say what it waits for, and of one whose worker never ran say so") {
  test_node node;
  auto first = node.ctl_json({"request-task", "test", "first"}).at("id").get<std::string>();
  REQUIRE(node.ctl(exec_line("second", "true", {"--depends-on", first, "--detach"})).status == 0);
  auto waiting = node.ctl({"logs", "@last"});
  CHECK(waiting.status == 1);
  CHECK_MESSAGE(waiting.err.find("has not begun: it waits for " + first.substr(0, 8) + " (first)") != std::string::npos, waiting.err);
  REQUIRE(node.ctl({"cancel", "@last"}).status == 0);
  CHECK(node.ctl({"logs", "@last"}).err.find("never ran: task is cancelled") != std::string::npos);
  REQUIRE(node.ctl(exec_line("careful", "true", {"--approval-required", "--detach"})).status == 0);
  CHECK(node.ctl({"logs", "@last"}).err.find("it waits for approval; approve it with: swarmctl approve") != std::string::npos);
}

TEST_CASE("--detach returns while the worker runs, and the same line follows it to its end") {
  test_node node;
  auto script = "touch started; while [ ! -e go ]; do sleep 0.05; done; echo over; exit 5";
  auto detached = node.ctl(exec_line("long", script, {"--detach"}));
  CAPTURE(detached.out);
  CHECK(detached.status == 0);
  CHECK(detached.err.find("spawned worker for task") != std::string::npos);
  CHECK(eventually([&] { return fs::exists(node.work() + "/started"); }));
  auto follower = node.ctl_start(exec_line("long", script));
  CHECK(follower.read_until("following task"));
  std::ofstream{node.work() + "/go"};
  auto end = follower.finish();
  CHECK(end.status == 5);
  CHECK(end.out.find("over") != std::string::npos);
}

TEST_CASE("dispatch --json gives one object with the task, the spawn, the completion and the outcome") {
  test_node node;
  auto line = exec_line("shape", "printf 'a\\nb\\n'; exit 9", {"--json"});
  auto ran = node.ctl(line);
  CHECK(ran.status == 9);
  auto got = ran.parsed();
  REQUIRE_MESSAGE(got.is_object(), ran.out);
  CHECK(got.at("status") == "spawned");
  CHECK(got.at("exit_status") == 9);
  CHECK(got.at("duration_ms").is_number_integer());
  CHECK(got.at("output_tail") == "a\nb\n");
  CHECK_FALSE(got.contains("output_truncated"));
  CHECK(node.ctl(exec_line("long", "seq 1 5000", {"--json"})).parsed().at("output_truncated") == true);
  CHECK(got.at("task").at("id") == got.at("task_id"));
  CHECK(got.at("task").at("status") == "failed");
  CHECK(got.at("spawner") == "pty");
  CHECK(got.at("spawn_lock").get<std::string>().rfind("/__swarm/spawn/implementer/", 0) == 0);
  CHECK(got.at("completion").at("status") == "completed");
  CHECK(got.at("completion").at("terminal_status") == "failed");
  auto keyed = exec_line("shape", "exit 9", {"--json", "--idempotency-key", "k"});
  REQUIRE(node.ctl(keyed).status == 9);
  auto again = node.ctl(keyed);
  CHECK(again.status == 9);
  CHECK(again.parsed().at("status") == "already_terminal");
}

TEST_CASE("a terminal gets a spinner and colours, with nothing of them left in the lines") {
  test_node node;
  std::vector<std::string> argv{program("swarmctl").string()};
  auto line = exec_line("spin", "while [ ! -e go ]; do sleep 0.05; done; exit 6");
  argv.insert(argv.end(), line.begin(), line.end());
  terminal_process person{argv, node.env(), node.work()};
  CHECK(person.read_until("claimed by"));
  CHECK(person.read_until("\r\x1b[K"));
  std::ofstream{node.work() + "/go"};
  CHECK(person.finish() == 6);
  CAPTURE(person.screen());
  CHECK(person.screen().find("exit status 6") != std::string::npos);
  CHECK(person.screen().find("\x1b[") != std::string::npos);
}

TEST_CASE("200 concurrent dispatches of one key make one task and one worker process") {
  test_node node;
  REQUIRE(node.ctl({"up"}).status == 0);
  constexpr int callers = 200;
  constexpr int at_once = 16;
  std::vector<std::string> ids(callers);
  std::atomic<int> next = 0;
  std::vector<std::thread> pool;
  for (int t = 0; t < at_once; ++t)
    pool.emplace_back([&] {
      for (int i = next++; i < callers; i = next++) {
        auto r = node.ctl({"dispatch", "one " + std::to_string(i), "--harness", "exec", "--idempotency-key", "the-one", "--detach", "--json", "--",
                           "sh", "-c", "echo $$ >> workers"},
                          {.deadline = std::chrono::seconds{60}});
        auto got = r.parsed();
        ids[static_cast<std::size_t>(i)] = got.is_object() && got.contains("task_id") ? got["task_id"].get<std::string>() : r.out + r.err;
      }
    });
  for (auto& t : pool)
    t.join();
  REQUIRE(node.ctl_json({"tasks"}).size() == 1);
  for (const auto& id : ids)
    CHECK(id == ids[0]);
  CHECK(reaches(node, ids[0], "done"));
  CHECK(count_lines(node.work() + "/workers") == 1);
}

TEST_CASE("200 dispatches of one key that are all under way at once make one task and one worker process") {
  test_node node;
  REQUIRE(node.ctl({"up"}).status == 0);
  constexpr std::size_t many = 200;
  struct dispatch_call {
    grpc::ClientContext context;
    v1::Reply reply;
    grpc::Status status;
    std::unique_ptr<grpc::ClientAsyncResponseReader<v1::Reply>> reader;
  };
  node_client client{node};
  grpc::CompletionQueue queue;
  std::vector<std::unique_ptr<dispatch_call>> calls;
  for (std::size_t i = 0; i < many; ++i) {
    auto& call = *calls.emplace_back(std::make_unique<dispatch_call>());
    client.prepare(call.context, std::chrono::seconds{60});
    v1::ExecuteRequest request;
    *request.mutable_id() = client.next_id();
    *request.mutable_command() = client.command();
    auto& body = *request.mutable_command()->mutable_dispatch();
    body.set_title("one " + std::to_string(i));
    body.set_harness("exec");
    body.set_idempotency_key("the-one");
    for (const auto* word : {"sh", "-c", "echo $$ >> workers"})
      body.add_argv(word);
    call.reader = client.coordination().AsyncExecute(&call.context, request, &queue);
    call.reader->Finish(&call.reply, &call.status, &call);
  }
  for (std::size_t i = 0; i < many; ++i) {
    void* tag = nullptr;
    bool ok = false;
    REQUIRE(queue.Next(&tag, &ok));
  }
  auto created = 0;
  const auto& id = calls.front()->reply.dispatch().task().id();
  for (const auto& call : calls) {
    REQUIRE_MESSAGE(call->status.ok(), call->status.error_message());
    CHECK(call->reply.dispatch().task().id() == id);
    created += call->reply.dispatch().existing() ? 0 : 1;
  }
  CHECK(created == 1);
  CHECK(reaches(node, id, "done"));
  CHECK(count_lines(node.work() + "/workers") == 1);
}

TEST_CASE("a dependent command starts after everything it depends on is done, and never when that failed") {
  test_node node;
  auto slow = node.ctl_json(exec_line("first", "while [ ! -e go ]; do sleep 0.05; done; echo first >> order", {"--detach"}));
  auto id = slow.at("task_id").get<std::string>();
  auto second = node.ctl_json(exec_line("second", "echo second >> order", {"--depends-on", id, "--detach"}));
  CHECK(second.at("task").at("status") == "blocked");
  std::ofstream{node.work() + "/go"};
  CHECK(reaches(node, second.at("task_id"), "done"));
  CHECK(file_text(node.work() + "/order") == "first\nsecond\n");

  auto broken = node.ctl_json(exec_line("broken", "while [ ! -e fail ]; do sleep 0.05; done; exit 1", {"--detach"}));
  auto never = node.ctl_json(exec_line("never", "touch never", {"--depends-on", broken.at("task_id").get<std::string>(), "--detach"}));
  std::ofstream{node.work() + "/fail"};
  CHECK(reaches(node, broken.at("task_id"), "failed"));
  CHECK(reaches(node, never.at("task_id"), "cancelled"));
  // One that comes too late is cancelled at once, and is one task.
  const auto made = node.ctl_json({"tasks"}).size();
  auto late = node.ctl(exec_line("late", "touch never", {"--depends-on", broken.at("task_id").get<std::string>()}));
  CHECK(late.status == 1);
  CHECK(late.err.find("this is a new one") == std::string::npos);
  CHECK(node.ctl_json({"tasks"}).size() == made + 1);
  CHECK_FALSE(fs::exists(node.work() + "/never"));
}

TEST_CASE("an agent whose task waits is started when that opens, once, also after the node was killed meanwhile") {
  for (const bool restart : {false, true}) {
    CAPTURE(restart);
    test_node node;
    auto agent = node.work() + "/agent";
    std::ofstream{agent} << "#!/bin/sh\necho $SWARM_TASK_ID >> " << node.work() << "/started\nexec sleep 1000\n";
    fs::permissions(agent, fs::perms::owner_all);
    const run_options with{.env = {{"SWARM_HARNESS_CLAUDE", agent}}};
    auto person = node.session();
    auto first = node.ctl_json({"request-task", "test", "first"}).at("id").get<std::string>();
    const std::vector<std::string> line{"dispatch", "second", "--harness", "claude", "--depends-on", first};
    auto told = node.ctl(line, with);
    CHECK_MESSAGE(told.status == 0, told.err);
    CHECK(told.err.find("waits for others; its worker starts when they are done") != std::string::npos);
    auto again = node.ctl_json(line, with);
    CHECK(again.at("status") == "spawn_in_flight");
    CHECK(again.at("task").at("status") == "blocked");
    auto spawns = node.ctl_json({"spawns"});
    REQUIRE(spawns.size() == 1);
    CHECK(spawns[0].at("status") == "requested");
    CHECK(spawns[0].at("instance_id").is_null());
    CHECK(node.ctl_json({"pty", "list"}).empty());
    if (restart) {
      node.kill_node();
      CHECK(node.ctl_json({"pty", "list"}).empty());
    }
    REQUIRE(node.ctl({"claim", first, "--as", person}).status == 0);
    REQUIRE(node.ctl({"update-task", first, "--as", person, "--status", "done"}).status == 0);
    auto second = again.at("task_id").get<std::string>();
    CHECK(reaches(node, second, "claimed"));
    spawns = node.ctl_json({"spawns"});
    REQUIRE(spawns.size() == 1);
    CHECK(node.ctl_json({"task", second}).at("assignee") == spawns[0].at("instance_id"));
    CHECK(eventually([&] { return file_text(node.work() + "/started") == second + "\n"; }));
  }
}

TEST_CASE("a command that needs approval runs only once a person has approved it") {
  test_node node;
  auto asked = node.ctl_json(exec_line("careful", "touch ran", {"--approval-required", "--detach"}));
  CHECK(asked.at("task").at("status") == "approval_required");
  CHECK(node.ctl_json({"pty", "list"}).empty());
  CHECK_FALSE(fs::exists(node.work() + "/ran"));
  CHECK(node.ctl({"approve", asked.at("task_id")}).status == 0);
  CHECK(reaches(node, asked.at("task_id"), "done"));
  CHECK(fs::exists(node.work() + "/ran"));
}

TEST_CASE("cancelling a running command ends its process and everything below it") {
  test_node node;
  auto script = "sh -c 'echo $$ >> pids; exec sleep 1000' & setsid sh -c 'echo $$ >> pids; exec sleep 1000' & echo $$ >> pids; wait";
  auto started = node.ctl_json(exec_line("tree", script, {"--detach"}));
  REQUIRE(eventually([&] { return count_lines(node.work() + "/pids") == 3; }));
  std::vector<pid_t> pids;
  for (const auto& line : lines_of(file_text(node.work() + "/pids")))
    pids.push_back(std::stoi(line));
  for (auto pid : pids)
    REQUIRE(is_running(pid));
  auto cancelled = node.ctl({"update-task", started.at("task_id"), "--status", "cancelled"});
  CAPTURE(cancelled.err);
  CHECK(cancelled.status == 0);
  CHECK(eventually([&] { return std::none_of(pids.begin(), pids.end(), is_running); }));
  CHECK(status_of(node, started.at("task_id")) == "cancelled");
}

TEST_CASE("without a worker dispatch says no_worker, and a harness that is not installed is refused before any task exists") {
  test_node node;
  auto none = node.ctl_json({"dispatch", "think about it"});
  CHECK(none.at("status") == "no_worker");
  CHECK(none.at("role") == "implementer");
  CHECK(none.at("task").at("status") == "open");
  REQUIRE(node.ctl_json({"tasks"}).size() == 1);

  auto missing = node.ctl({"dispatch", "ask somebody", "--harness", "claude", "--json"}, {.env = {{"PATH", "/usr/bin:/bin"}}});
  CAPTURE(missing.out);
  CHECK(missing.status == 1);
  CHECK(missing.parsed().at("error").get<std::string>().find("claude") != std::string::npos);
  auto unknown = node.ctl({"dispatch", "ask nobody", "--harness", "nonesuch"});
  CHECK(unknown.status == 1);
  CHECK(node.ctl_json({"tasks"}).size() == 1);
}

TEST_CASE("a profile names the program of an agent, and the directories in which its identity may work") {
  test_node node;
  temp_dir profiles;
  auto agent = profiles.text() + "/claude-work";
  std::ofstream{agent} << "#!/bin/sh\necho launched with $SWARM_MCP_LABEL\n";
  fs::permissions(agent, fs::perms::owner_all);
  std::ofstream{profiles.text() + "/work.env"} << "export SWARM_HARNESS_CLAUDE='" << agent << "'\nSWARM_MCP_WORK_ROOTS=" << node.work() << "\n";
  run_options as_work{.env = {{"AGENT_IDENTITY", "work"}, {"SWARM_MCP_PROFILE_DIR", profiles.text()}}};
  auto worker = node.ctl_json({"spawn", "--harness", "claude"}, as_work).at("id").get<std::string>();
  auto launched = [&] { return node.ctl({"pty", "read", worker}).out.find("launched with identity:work") != std::string::npos; };
  CHECK(eventually(launched));
  auto elsewhere = node.ctl({"spawn", "--harness", "claude", "--directory", "/"}, as_work);
  CHECK(elsewhere.status == 1);
  CHECK(elsewhere.err.find("Registration blocked: identity:work") != std::string::npos);
}

TEST_CASE("a program that does not exist is refused before any task exists, and one that cannot be run fails its task with the reason") {
  test_node node;
  auto absent = node.ctl({"dispatch", "absent", "--harness", "exec", "--", "/no/such/program"});
  CHECK(absent.status == 1);
  CHECK(absent.err.find("/no/such/program") != std::string::npos);
  CHECK(node.ctl_json({"tasks"}).empty());

  auto script = fs::path{node.work()} / "script";
  std::ofstream{script} << "#!/no/such/interpreter\n";
  fs::permissions(script, fs::perms::owner_all);
  auto broken = node.ctl({"dispatch", "broken", "--harness", "exec", "--", script.string()});
  CAPTURE(broken.out);
  CHECK(broken.status != 0);
  auto tasks = node.ctl_json({"tasks"});
  REQUIRE(tasks.size() == 1);
  CHECK(tasks[0].at("status") == "failed");
  CHECK(node.ctl_json({"task", tasks[0].at("id")}).at("result").get<std::string>().find("script") != std::string::npos);
}

TEST_CASE("an interrupted dispatch leaves its task running and says how to go on") {
  test_node node;
  auto follower = node.ctl_start(exec_line("goes on", "touch started; while [ ! -e go ]; do sleep 0.05; done"));
  REQUIRE(follower.read_until("claimed by"));
  follower.signal(SIGINT);
  auto end = follower.finish();
  CHECK(end.status == 128 + SIGINT);
  CHECK(end.err.find("goes on") != std::string::npos);
  CHECK(end.err.find("cancel it with: swarmctl cancel ") != std::string::npos);
  std::ofstream{node.work() + "/go"};
  CHECK(eventually([&] { return node.ctl_json({"tasks"})[0].at("status") == "done"; }));
}

TEST_CASE("following a command ends with --wait-for-completion or --timeout, says that its worker runs, and the task goes on") {
  test_node node;
  const std::vector<std::string> tail{"--", "sh", "-c", "exec sleep 1000"};
  auto words = [&](std::vector<std::string> flags) {
    flags.insert(flags.begin(), {"dispatch", "slow", "--harness", "exec"});
    flags.insert(flags.end(), tail.begin(), tail.end());
    return flags;
  };
  auto id = node.ctl_json(words({"--detach"})).at("task_id").get<std::string>();
  auto waited = node.ctl(words({"--wait-for-completion", "0.2"}));
  CHECK(waited.status == 4);
  CHECK_MESSAGE(waited.err.find("task " + id + " has its worker already") != std::string::npos, waited.out);
  CHECK(waited.err.find("completion wait timed out with task in_progress") != std::string::npos);
  auto followed = node.ctl(words({"--follow", "--timeout", "3"}));
  CHECK(followed.status == 4);
  CHECK_MESSAGE(followed.err.find("the deadline of --timeout passed with task in_progress") != std::string::npos, followed.out);
  CHECK(node.ctl_json({"task", id}).at("status") == "in_progress");
}

TEST_CASE("what a cancelled command has locked passes on when nothing of the command is left that could write") {
  test_node node;
  auto next = node.session("name:next");
  // Its child does not heed that it is to end.
  const std::string script = "swarmctl lock f && { sh -c 'trap \"\" TERM HUP; touch began; while :; do sleep 0.05; done' & } ; sleep 1000";
  auto id = node.ctl_json(exec_line("writes on", script, {"--detach"})).at("task").at("id").get<std::string>();
  REQUIRE(eventually([&] { return fs::exists(node.work() + "/began"); }));
  const std::string spawn = node.ctl_json({"spawns"}).at(0).at("id");
  REQUIRE(node.ctl({"cancel", id}).status == 0);
  auto early = node.ctl({"lock", "f", "--as", next});
  if (!processes_with("SWARM_SPAWN_ID", spawn).empty())
    CHECK_MESSAGE(early.status == 1, early.out);
  auto then = node.ctl({"lock", "f", "--wait", "60", "--as", next}, {.deadline = 2 * patience});
  CHECK_MESSAGE(then.status == 0, then.err);
  CHECK(processes_with("SWARM_SPAWN_ID", spawn).empty());
}

TEST_CASE("a command whose input broke off with the process that passed it is cancelled, and what waits for it is told") {
  test_node node;
  const auto path = node.env({{"PATH", program("swarmctl").parent_path().string() + ":/usr/bin:/bin"}});
  // Killed in the midst of its input.
  child_process killed{
    {"/bin/sh", "-c", "mkfifo in && exec 8<>in && echo one >&8 && { swarmctl dispatch killed -- cat <&8 8>&- & } && echo pid=$!. && wait"},
    path,
    node.work()};
  REQUIRE(killed.read_until("one"));
  REQUIRE(killed.read_until("pid="));
  const auto out = killed.so_far().out;
  const auto pid = static_cast<pid_t>(std::stol(out.substr(out.find("pid=") + 4)));
  const std::string task = node.ctl_json({"tasks"}).at(0).at("id");
  auto behind = node.ctl_json({"dispatch", "behind", "--depends-on", task, "--detach", "--", "true"}).at("task").at("id").get<std::string>();
  // A restart of the node is a pause.
  node.kill_node();
  CHECK(node.ctl_json({"task", task}).at("status") == "in_progress");
  std::ofstream{node.work() + "/in"} << "two\n";
  REQUIRE(killed.read_until("two"));
  CHECK(node.ctl_json({"task", task}).at("status") == "in_progress");
  REQUIRE(kill(pid, SIGKILL) == 0);
  CHECK(eventually([&] { return node.ctl_json({"task", task}).at("status") == "cancelled"; }));
  CHECK(node.ctl({"task", task}).out.find("its standard input was broken off") != std::string::npos);
  CHECK(eventually([&] { return node.ctl_json({"task", behind}).at("status") == "cancelled"; }));
  killed.signal(SIGKILL);

  // The reader of its output has gone, and so the input can go nowhere.
  auto cut = child_process{{"/bin/sh", "-c", "yes | swarmctl dispatch cut -- cat | head -1"}, path, node.work()}.finish();
  CHECK(cut.out == "y\n");
  CHECK(eventually([&] { return node.ctl_json({"tasks", "--open"}).empty(); }));
  // All of its input was passed: it goes on without the process that passed it.
  auto passed = node.ctl_start(exec_line("passed", "cat; touch all; while [ ! -e end ]; do sleep 0.05; done"), {.input = "x\n"});
  REQUIRE(eventually([&] { return fs::exists(node.work() + "/all"); }));
  passed.signal(SIGKILL);
  CHECK(passed.finish().status == 137);
  const std::string last = node.ctl_json({"tasks", "--open"}).at(0).at("id");
  std::ofstream{node.work() + "/end"};
  CHECK(eventually([&] { return node.ctl_json({"task", last}).at("status") == "done"; }));
}

TEST_CASE("a further attempt is not asked for where the input can be passed only once") {
  test_node node;
  auto refused = node.ctl(exec_line("again", "cat", {"--retries", "1"}), {.input = "x\n"});
  CHECK(refused.status == 2);
  CHECK(refused.err.find("--no-stdin") != std::string::npos);
  CHECK(node.ctl_json({"tasks"}).empty());
  CHECK(node.ctl(exec_line("again", "cat", {"--retries", "1", "--no-stdin"}), {.input = "x\n"}).status == 0);
}
