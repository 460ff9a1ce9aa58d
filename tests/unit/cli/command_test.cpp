#include "actors/base/crypto.hpp"
#include "actors/base/limits.hpp"
#include "cli/verb.hpp"
#include "tests/unit/cli/fake_node.hpp"

#include <filesystem>
#include <fstream>
#include <iomanip>
#include <set>
#include <sstream>

#include <doctest/doctest.h>

using namespace swarm;
using namespace swarm::cli;
using test::refusal;
using test::session;

namespace {

/// Answers FindSession with the session of that id or label; refuses otherwise.
void knows(test::cli& ctl, std::vector<v1::Session> sessions) {
  ctl.node.on_query = [sessions](const v1::Query& q) {
    v1::Answer a;
    if (q.has_list_sessions())
      for (const auto& s : sessions)
        *a.mutable_sessions()->add_sessions() = s;
    if (!q.has_find_session())
      return a;
    for (const auto& s : sessions)
      if (s.id() == q.find_session().who() || (q.find_session().who().empty() && sessions.size() == 1)) {
        *a.mutable_session() = s;
        return a;
      }
    a.mutable_refusal()->set_code(v1::Refusal::NOT_FOUND);
    a.mutable_refusal()->set_text("No instances registered in scope /r. Pass --as <id-or-label> or set SWARM_MCP_INSTANCE_ID.");
    a.mutable_refusal()->set_explanation("you have no session in /r yet: swarmctl register");
    return a;
  };
}

v1::Reply locked(const v1::Command& c) {
  v1::Reply r;
  r.mutable_lock()->mutable_lock()->set_id("L1");
  r.mutable_lock()->mutable_lock()->set_path(c.acquire_lock().path());
  r.mutable_lock()->mutable_lock()->set_fence(7);
  return r;
}

/// The words of a line of a document up to `--` or a comment, without the program's name. Quoted words count as one.
std::vector<std::string> words_of(const std::string& line) {
  std::vector<std::string> out;
  std::istringstream in{line};
  for (std::string word; in >> std::quoted(word) && word != "--" && word != "#";)
    out.push_back(word);
  out.erase(out.begin());
  return out;
}

bool has_flag(const CLI::App* app, const std::string& name) {
  while (app != nullptr && app->get_option_no_throw(name) == nullptr)
    app = app->get_parent();
  return app != nullptr;
}

/// Other words than the names of commands below it.
bool takes_words(const CLI::App& app) {
  auto options = app.get_options([](const CLI::Option* o) { return o->get_positional(); });
  return !options.empty() || app.get_subcommands([](const CLI::App*) { return true; }).empty();
}

/// What the program does not know of a line: a verb, a verb below it, a flag; empty when it knows all.
std::string unknown_in(const std::string& line, const CLI::App* app) {
  for (const auto& word : words_of(line)) {
    auto below = app->get_subcommands([&](const CLI::App* sub) { return sub->check_name(word); });
    if (!below.empty())
      app = below.front();
    else if (word.front() == '-' ? !has_flag(app, word) : !takes_words(*app))
      return word;
  }
  return {};
}

} // namespace

TEST_CASE("help is shown for the command named, wherever the flag stands, and exits 0") {
  test::cli ctl;
  CHECK(ctl({"--help"}) == code::ok);
  CHECK(ctl.screen.out.find("dispatch") != std::string::npos);
  CHECK(ctl({"lock", "--help"}) == code::ok);
  auto lock_help = ctl.screen.out;
  CHECK(lock_help.find("--exclusive") != std::string::npos);
  CHECK(lock_help.find("Examples:") != std::string::npos);
  CHECK(ctl({"--json", "lock", "a", "--nonsense", "--help"}) == code::ok);
  CHECK(ctl.screen.out == lock_help);
  CHECK(ctl({"kv", "set", "--help"}) == code::ok);
  CHECK(ctl.screen.out.find("--if-revision") != std::string::npos);
  CHECK(ctl.screen.out.find("Examples:") == std::string::npos);
  CHECK(ctl({"--json"}) == code::usage);
  CHECK(ctl({"--bogus", "--help"}) == code::ok);
  CHECK(ctl.node.commands.empty());
}

TEST_CASE("every command has help with an example") {
  test::cli ctl;
  for (const auto& v : all_verbs()) {
    CAPTURE(v.name);
    CHECK(ctl({v.name, "--help"}) == code::ok);
    CHECK(ctl.screen.out.find("swarmctl " + std::string{v.name}.substr(0, 3)) != std::string::npos);
  }
}

TEST_CASE("docs/quick-reference.md is one page, and its verbs and flags exist") {
  test::cli ctl;
  invocation cli{{ctl.node, ctl.node, ctl.node, ctl.node, ctl.node}, ctl.env, ctl.screen.io, ctl.clock, ctl.directory};
  const auto root = full_tree(cli);
  CHECK(unknown_in("swarmctl pty attach build --scope x # bogus", root.get()).empty());
  CHECK(unknown_in("swarmctl bogus", root.get()) == "bogus");
  CHECK(unknown_in("swarmctl pty bogus", root.get()) == "bogus");
  CHECK(unknown_in("swarmctl dispatch \"pty bogus\" --bogus -- make", root.get()) == "--bogus");

  const auto* sources = std::getenv("SWARM_SOURCE_DIR");
  REQUIRE(sources);
  std::ifstream page{std::string{sources} + "/docs/quick-reference.md"};
  std::size_t lines = 0;
  std::set<std::string> shown;
  for (std::string line; std::getline(page, line); ++lines)
    if (line.starts_with("    swarmctl ")) {
      CHECK_MESSAGE(unknown_in(line, root.get()).empty(), line);
      shown.insert(words_of(line).front());
    }
  CHECK(lines <= 70);
  CHECK(shown.size() > 30);
  for (const auto& v : all_verbs())
    if (v.about == subject::start)
      CHECK_MESSAGE(shown.contains(v.name), v.name);
}

TEST_CASE("the help groups the commands by subject, and the five for newcomers come first") {
  test::cli ctl;
  REQUIRE(ctl({"--help"}) == code::ok);
  std::size_t at = 0;
  for (const auto* heading : {"Start here", "Tasks", "Locks and keys", "Sessions and messages", "Workers and terminals", "Agents", "Hosts", "Node"}) {
    CAPTURE(heading);
    auto found = ctl.screen.out.find("\n" + std::string{heading} + ":\n", at);
    REQUIRE(found != std::string::npos);
    at = found;
  }
  auto verbs = all_verbs();
  CHECK(std::count_if(verbs.begin(), verbs.end(), [](const verb& v) { return v.about == subject::start; }) == 5);
  for (const auto& v : verbs) {
    CAPTURE(v.name);
    auto line = "\n  " + std::string{v.name};
    auto shown = ctl.screen.out.find(v.alias ? line + ", " : line + " ");
    CHECK((shown == std::string::npos) == v.internal);
  }
}

TEST_CASE("under the name swarm-mcp, help and exit statuses are those of swarm-mcp") {
  test::cli ctl;
  ctl.program = "swarm-mcp";
  REQUIRE(ctl({"help"}) == code::ok);
  auto usage = ctl.screen.out;
  CHECK(usage.find("Usage: swarm-mcp ") != std::string::npos);
  CHECK(ctl({"lock", "a", "--help"}) == code::ok);
  CHECK(ctl.screen.out == usage);
  CHECK(ctl({"frobnicate"}) == 1);
  CHECK(ctl.screen.out == usage);
  CHECK(ctl.screen.err == "Unknown command: frobnicate\n");
  CHECK(ctl({"locks", "--frobnicate"}) == 1);
  CHECK(ctl.screen.err == "swarm-mcp locks: Unknown flag: --frobnicate\n");

  knows(ctl, {session("me")});
  ctl.node.on_command = [](const v1::Command&) { return refusal(v1::Refusal::CONFLICT, "Task already claimed"); };
  CHECK(ctl({"claim", "t"}) == 1);
  CHECK(ctl({"claim", "t", "--json"}) == 0);
  CHECK(ctl.out_json().contains("error"));
  ctl.node.on_query = [](const v1::Query&) {
    v1::Answer a;
    a.mutable_refusal()->set_code(v1::Refusal::NOT_FOUND);
    return a;
  };
  CHECK(ctl({"kv", "get", "none"}) == 1);
  CHECK(ctl({"kv", "get", "none", "--json"}) == 0);
  CHECK(ctl.screen.out == "null\n");
}

TEST_CASE("mistakes in usage exit 2 and say where the help is") {
  test::cli ctl;
  CHECK(ctl({"frobnicate"}) == code::usage);
  CHECK(ctl.screen.err.find("Unknown command: frobnicate") == 0);
  CHECK(ctl({"locks", "--frobnicate"}) == code::usage);
  CHECK(ctl.screen.err.find("Unknown flag: --frobnicate") != std::string::npos);
  CHECK(ctl.screen.err.find("Try: swarmctl locks --help") != std::string::npos);
  CHECK(ctl({"--bogus"}) == code::usage);
  CHECK(ctl.screen.err == "swarmctl: Unknown flag: --bogus\nTry: swarmctl --help\n");
  CHECK(ctl({"-j"}) == code::usage);
  CHECK(ctl.screen.err.find("Unknown flag: -j") != std::string::npos);
  CHECK(ctl({"--", "tasks"}) == code::usage);
  CHECK(ctl.screen.out.empty());
  CHECK(ctl({"lock"}) == code::usage);
  CHECK(ctl({"unlock", "a", "b"}) == code::usage);
  CHECK(ctl({"update-task", "T", "--status", "open"}) == code::usage);
  CHECK(ctl({"request-task", "paint", "the", "shed"}) == code::usage);
  CHECK(ctl.screen.err.find("Invalid task type \"paint\". Expected one of: review, implement, fix, test, research, other") != std::string::npos);
  CHECK(ctl({"lock", "a", "--wait", "-1"}) == code::usage);
  CHECK(ctl({"lock", "a", "--ttl", "99999999999"}) == code::usage);
  CHECK(ctl.screen.err.find("--ttl takes a number of seconds, 0 to 604800") != std::string::npos);
  CHECK(ctl({"kv", "set", "k", "v", "--ttl", "1e30"}) == code::usage);
  CHECK(ctl.screen.err.find("--ttl takes a number of seconds, 0 to 31536000") != std::string::npos);
  CHECK(ctl({"dispatch", "x", "--harness", "exec"}) == code::usage);
  CHECK(ctl({"kv", "set", "k", "\xff\xfe"}) == code::usage);
  CHECK(ctl.screen.err.find("not UTF-8: \\xff") != std::string::npos);
  CHECK(ctl.node.commands.empty());
}

TEST_CASE("the overrides of the identity boundary come from the environment, each from its own variable") {
  for (const std::string name : {"", "SWARM_MCP_ALLOW_UNLABELED", "SWARM_MCP_ALLOW_CROSS_IDENTITY", "SWARM_MCP_ALLOW_SPAWN"}) {
    CAPTURE(name);
    test::cli ctl;
    if (!name.empty())
      ctl.env = environment{{{name, "1"}}};
    ctl({"kv", "set", "k", "v"});
    REQUIRE(ctl.node.commands.size() == 1);
    const auto& caller = ctl.node.commands[0].caller();
    CHECK(caller.allow_unlabeled() == (name == "SWARM_MCP_ALLOW_UNLABELED"));
    CHECK(caller.allow_cross_identity() == (name == "SWARM_MCP_ALLOW_CROSS_IDENTITY"));
    CHECK(caller.allow_spawn() == (name == "SWARM_MCP_ALLOW_SPAWN"));
  }
}

TEST_CASE("SWARM_WORK_TRACKER is provider:mcp or JSON, and only the provider's name travels") {
  test::cli ctl;
  auto sent = [&](const std::string& value) {
    ctl.env = environment{{{"SWARM_WORK_TRACKER", value}}};
    ctl.node.commands.clear();
    CHECK(ctl({"kv", "set", "k", "v"}) == code::ok);
    return ctl.node.commands.empty() ? "nothing" : ctl.node.commands[0].caller().work_tracker();
  };
  CHECK(sent("").empty());
  CHECK(sent("Linear:linear-mcp") == "linear");
  CHECK(sent(" jira ") == "jira");
  CHECK(sent(R"({"provider":"GitHub","mcp":"gh","team":"T"})") == "github");
  CHECK(sent(R"({"mcp":"linear"})") == "linear");
  for (const std::string value : {"{", R"({"provider":7})", R"({"provider":""})", ":mcp", "two words", R"("linear")", "a/b"}) {
    CAPTURE(value);
    ctl.env = environment{{{"SWARM_WORK_TRACKER", value}}};
    ctl.node.commands.clear();
    CHECK(ctl({"kv", "set", "k", "v"}) == code::usage);
    CHECK(ctl.screen.err.find("SWARM_WORK_TRACKER names no tracker: write PROVIDER:MCP") != std::string::npos);
    CHECK(ctl.node.commands.empty());
    CHECK(ctl({"kv", "list"}) == code::ok);
  }
}

TEST_CASE("commands of swarm-mcp that are not here refuse by name, whatever follows, and are in the help") {
  test::cli ctl;
  CHECK(ctl({"--help"}) == code::ok);
  auto help = ctl.screen.out;
  for (const auto& [words, told] : std::vector<std::pair<std::vector<std::string>, std::string>>{
         {{"ui", "spawn", "--cwd", "/r", "--wait", "5"}, "swarmctl dispatch"}, {{"ui"}, "swarmctl pty list"}}) {
    CAPTURE(words[0]);
    CHECK(ctl(words) == code::refused);
    CHECK(ctl.screen.out.empty());
    CHECK(ctl.screen.err.rfind("swarmctl " + words[0] + ": ", 0) == 0);
    CHECK(ctl.screen.err.find(told) != std::string::npos);
    auto with_json = words;
    with_json.push_back("--json");
    CHECK(ctl(with_json) == code::refused);
    CHECK(ctl.out_json()["error"].get<std::string>().find(told) != std::string::npos);
    CHECK(help.find("  " + words[0] + " ") != std::string::npos);
  }
  CHECK(ctl.node.commands.empty());
}

TEST_CASE("install for a host without a name is refused, and is not for all") {
  test::cli ctl;
  for (const std::string hosts : {"", ","}) {
    CHECK(ctl({"install", "--dry-run", "--host", hosts}) == code::usage);
    CHECK(ctl.screen.err.find("--host names no host") != std::string::npos);
  }
}

TEST_CASE("the name of a file keeps its blanks, and loses them under the name swarm-mcp as there") {
  for (const auto& [program, path] : std::vector<std::pair<std::string, std::string>>{{"swarmctl", "/r/src/tp.c "}, {"swarm-mcp", "/r/src/tp.c"}}) {
    test::cli ctl;
    ctl.program = program;
    knows(ctl, {session("S1")});
    ctl.node.on_command = locked;
    for (const std::string name : {"src/tp.c ", "/r/src/tp.c "}) {
      ctl.node.commands.clear();
      CHECK(ctl({"lock", name}) == code::ok);
      REQUIRE(ctl.node.commands.size() == 1);
      CHECK(ctl.node.commands[0].acquire_lock().path() == path);
    }
  }
  test::cli ctl;
  knows(ctl, {session("S1")});
  CHECK(ctl({"lock", " "}) == code::usage);
}

TEST_CASE("flags may stand anywhere, with a blank or an equals sign") {
  test::cli ctl;
  knows(ctl, {session("I1")});
  ctl.node.on_command = locked;
  for (auto args : {std::vector<std::string>{"--json", "lock", "a.cpp", "--note", "why"},
                    {"lock", "--note=why", "a.cpp", "--json"},
                    {"lock", "a.cpp", "--json", "--note=why"}}) {
    CHECK(ctl(args) == code::ok);
    CHECK(ctl.node.commands.back().acquire_lock().note() == "why");
    CHECK(ctl.node.commands.back().acquire_lock().path() == "/r/a.cpp");
    CHECK(ctl.out_json()["fence"] == 7);
  }
}

TEST_CASE("who stops waiting for a lock is told when the place in line could not be given up") {
  test::cli ctl;
  knows(ctl, {session("I1")});
  const auto stays = [&] {
    return ctl.screen.err.find("the place in line stays") != std::string::npos && ctl.screen.err.find("swarmctl unlock /r/a") != std::string::npos;
  };
  bool reachable = true;
  ctl.node.on_command = [&](const v1::Command& c) -> v1::Reply {
    if (c.has_acquire_lock())
      throw failure(code::deadline, "no answer in time");
    if (!reachable)
      throw failure(code::no_node, "the home alpha is away");
    return {};
  };
  CHECK(ctl({"lock", "a", "--wait", "5"}) == code::deadline);
  CHECK(ctl.node.commands.back().has_cancel_lock_wait());
  CHECK_FALSE(stays());
  reachable = false;
  CHECK(ctl({"lock", "a", "--wait", "5"}) == code::deadline);
  CHECK(ctl.node.commands.back().has_cancel_lock_wait());
  CHECK(stays());
  CHECK(ctl.screen.err.find("the home alpha is away") != std::string::npos);
  ctl.node.on_command = [](const v1::Command&) -> v1::Reply { throw failure(code::no_node, "the home alpha is away"); };
  CHECK(ctl({"lock", "a", "--wait", "5"}) == code::no_node);
  CHECK(stays());
}

TEST_CASE("words that begin with one dash are text, and a value may begin with two") {
  test::cli ctl;
  CHECK(ctl({"kv", "set", "k", "-5", "-xy"}) == code::ok);
  CHECK(ctl.node.commands.back().set_kv().value() == "-5 -xy");
  CHECK(ctl({"kv", "set", "tasks", "locks"}) == code::ok);
  CHECK(ctl.node.commands.back().set_kv().key() == "tasks");
  knows(ctl, {session("I1")});
  ctl.node.on_command = locked;
  CHECK(ctl({"lock", "a", "--note", "--exclusive"}) == code::ok);
  CHECK(ctl.node.commands.back().acquire_lock().note() == "--exclusive");
  CHECK(!ctl.node.commands.back().acquire_lock().exclusive());
}

TEST_CASE("after -- every word is text, for every command that runs no program") {
  test::cli ctl;
  CHECK(ctl({"kv", "set", "k", "--", "--foo", "-x", "--", "--json"}) == code::ok);
  CHECK(ctl.node.commands.back().set_kv().value() == "--foo -x -- --json");
  CHECK(ctl.screen.out == "set k\n");
  CHECK(ctl({"kv", "set", "--json", "--", "--key", "v"}) == code::ok);
  CHECK(ctl.node.commands.back().set_kv().key() == "--key");
  const std::string terminal(36, 'a');
  CHECK(ctl({"pty", "send", terminal, "--enter", "--", "--version"}) == code::ok);
  CHECK(ctl.node.typed.back().data() == "--version\r");
  CHECK(ctl({"tasks", "--", "--status"}) == code::usage);
}

TEST_CASE("what others wrote cannot pass for a row of its own") {
  test::cli ctl;
  ctl.node.on_query = [](const v1::Query& q) {
    v1::Answer a;
    const std::string forged = "a\n  deadbeef  [done]";
    if (q.has_list_tasks())
      a.mutable_tasks()->add_tasks()->set_title(forged);
    if (q.has_list_kv())
      a.mutable_kv_list()->add_entries()->set_key(forged);
    if (q.has_list_sessions())
      a.mutable_sessions()->add_sessions()->set_label(forged);
    if (q.has_list_messages())
      a.mutable_messages()->add_messages()->set_content(forged);
    if (q.has_list_locks()) {
      a.mutable_locks()->add_locks()->mutable_lock()->set_path(forged);
      a.mutable_locks()->mutable_locks(0)->mutable_lock()->set_note(forged);
    }
    if (q.has_get_task())
      a.mutable_task()->set_description("a\nstatus: done");
    return a;
  };
  for (auto verb : {"tasks", "kv", "instances", "locks", "inspect"}) {
    CAPTURE(verb);
    CHECK(ctl({verb}) == code::ok);
    CHECK(ctl.screen.out.find("a\\n  deadbeef") != std::string::npos);
    CHECK(ctl.screen.out.find("\n  deadbeef") == std::string::npos);
  }
  CHECK(ctl({"task", "T1"}) == code::ok);
  CHECK(ctl.screen.out.find("description: a\n    status: done\n") != std::string::npos);
  ctl.node.on_command = [](const v1::Command&) { return refusal(v1::Refusal::STATE, "key a\nswarmctl: all is well"); };
  CHECK(ctl({"kv", "set", "k", "v"}) == code::refused);
  CHECK(ctl.screen.err == "swarmctl kv: key a\\nswarmctl: all is well\n");
}

TEST_CASE("task shows people dates and ages, and leaves out what says nothing") {
  test::cli ctl;
  ctl.node.on_query = [](const v1::Query&) {
    v1::Answer a;
    auto& t = *a.mutable_task();
    t.set_id("T1");
    t.set_title("count");
    t.set_status(v1::BLOCKED);
    t.set_created_at_ms(1'795'291'698'000);
    t.set_updated_at_ms(1'795'291'699'000);
    t.set_changed_at_ms(1'795'291'699'000);
    t.set_expected_next_update_at_ms(1'795'291'703'000);
    t.add_depends_on("A");
    t.add_depends_on("B");
    return a;
  };
  CHECK(ctl({"task", "T1"}) == code::ok);
  CHECK(ctl.screen.out == "id: T1\ntitle: count\nstatus: blocked\n"
                          "created_at: 2026-11-21 20:08:18 UTC (2.0 s ago)\nupdated_at: 2026-11-21 20:08:19 UTC (1.0 s ago)\n"
                          "depends_on: A, B\nexpected_next_update_at: 2026-11-21 20:08:23 UTC (in 3.0 s)\n");
  CHECK(ctl({"task", "T1", "--json"}) == code::ok);
  CHECK(ctl.out_json()["changed_at"] == 1'795'291'699'000);
  CHECK(ctl.out_json()["tracker_required"] == 0);
}

TEST_CASE("task says how a command ended, and leaves its output to logs and to JSON") {
  test::cli ctl;
  v1::Task t;
  t.set_id("0123456789");
  t.set_harness("exec");
  t.set_status(v1::FAILED);
  t.set_has_result(true);
  ctl.node.on_query = [&](const v1::Query&) {
    v1::Answer a;
    *a.mutable_task() = t;
    return a;
  };
  auto shown = [&](const std::string& result) {
    t.set_result(result);
    CHECK(ctl({"task", "T1"}) == code::ok);
    auto at = ctl.screen.out.find("\nresult: ");
    return at == std::string::npos ? "" : ctl.screen.out.substr(at + 9, ctl.screen.out.find('\n', at + 1) - at - 9);
  };
  const std::string of_command = R"({"exit_status":3,"duration_ms":1200,"output_tail":"of the middle\n"})";
  CHECK(shown(of_command) == "exit status 3, 1.2 s; its output: swarmctl logs 01234567");
  CHECK(ctl({"task", "T1", "--json"}) == code::ok);
  CHECK(ctl.out_json()["result"] == of_command);
  CHECK(shown("given up by hand") == "given up by hand");
  t.set_harness("claude");
  CHECK(shown(R"({"exit_status":3})") == R"({"exit_status":3})");
}

TEST_CASE("wait ends with --seconds or --timeout, whichever is sooner, and without them asks again and again") {
  test::cli ctl;
  knows(ctl, {session("I1")});
  auto waits = [&](std::vector<std::string> flags) {
    flags.insert(flags.begin(), "wait");
    CHECK(ctl(flags) == code::ok);
    return ctl.node.waits.back().timeout_ms();
  };
  CHECK(waits({}) == 60'000);
  CHECK(waits({"--timeout", "2"}) == 2000);
  CHECK(waits({"--seconds", "9", "--timeout", "2"}) == 2000);
  CHECK(waits({"--timeout", "0"}) == 1); // not without end
  CHECK(waits({"--seconds", "9", "--timeout", "0"}) == 1);
  CHECK(waits({"--seconds", "2", "--timeout", "9"}) == 2000);
}

TEST_CASE("approvals says that tasks wait, which are approved in another way") {
  test::cli ctl;
  CHECK(ctl({"approvals"}) == code::ok);
  CHECK(ctl.screen.out == "(no open approvals in scope /r)\n");
  ctl.node.on_query = [](const v1::Query& q) {
    v1::Answer a;
    if (q.has_list_tasks() && q.list_tasks().statuses(0) == v1::APPROVAL_REQUIRED)
      a.mutable_tasks()->add_tasks()->set_id("T1");
    return a;
  };
  CHECK(ctl({"approvals"}) == code::ok);
  CHECK(ctl.screen.out.find("swarmctl tasks --status approval_required") != std::string::npos);
}

TEST_CASE("a terminal's output is escaped on a terminal, also where a chunk cuts a character, and as it is in a pipe or with --raw") {
  test::cli ctl;
  const std::string terminal(36, 'a');
  ctl.node.output = {"\x1b]0;t\x07 a\r", "\nb\xc3", "\xa4\rc\r\n", "\xe2\x82"};
  const std::string bytes = "\x1b]0;t\x07 a\r\nb\xc3\xa4\rc\r\n\xe2\x82";
  CHECK(ctl({"pty", "read", terminal}) == code::ok);
  CHECK(ctl.screen.out == bytes);
  ctl.screen.io = console{[&](std::string_view b) { ctl.screen.out += b; }, [](std::string_view) {}, true, true, false};
  CHECK(ctl({"pty", "read", terminal}) == code::ok);
  CHECK(ctl.screen.out == "\\x1b]0;t\\x07 a\nb\xc3\xa4\rc\n\\xe2\\x82");
  CHECK(ctl({"pty", "read", terminal, "--raw"}) == code::ok);
  CHECK(ctl.screen.out == bytes);
}

TEST_CASE("a key written under a lock names the lock and the fence, in the name of the instance that holds it") {
  test::cli ctl;
  knows(ctl, {session("I1")});
  CHECK(ctl({"kv", "set", "k", "v", "--lock", "a.cpp", "--fence", "7"}) == code::ok);
  auto set = ctl.node.commands.back();
  CHECK(set.actor() == "I1");
  CHECK(set.set_kv().guard().path() == "/r/a.cpp");
  CHECK(set.set_kv().guard().fence() == 7);
  CHECK(ctl({"kv", "append", "k", "1", "--fence", "8", "--lock", "a.cpp"}) == code::ok);
  CHECK(ctl.node.commands.back().append_kv().guard().fence() == 8);
  CHECK(ctl({"kv", "del", "k", "--fence", "9", "--lock", "a.cpp"}) == code::ok);
  CHECK(ctl.node.commands.back().delete_kv().guard().fence() == 9);
  CHECK(ctl({"kv", "set", "k", "v"}) == code::ok);
  CHECK_FALSE(ctl.node.commands.back().set_kv().has_guard());
  auto sent = ctl.node.commands.size();
  CHECK(ctl({"kv", "set", "k", "v", "--lock", "a.cpp"}) == code::usage);
  CHECK(ctl({"kv", "set", "k", "v", "--fence", "7"}) == code::usage);
  CHECK(ctl.node.commands.size() == sent);
}

TEST_CASE("refusals exit 1 also with --json, with the error on both channels") {
  test::cli ctl;
  knows(ctl, {session("I1")});
  ctl.node.on_command = [](const v1::Command&) { return refusal(v1::Refusal::STATE, "Task is already done"); };
  CHECK(ctl({"claim", "T1"}) == code::refused);
  CHECK(ctl.screen.err == "claim failed: Task is already done\n");
  CHECK(ctl.screen.out.empty());
  CHECK(ctl({"claim", "T1", "--json"}) == code::refused);
  CHECK(ctl.out_json() == json{{"error", "Task is already done"}});
}

TEST_CASE("waiting in vain for a lock exits 4") {
  test::cli ctl;
  knows(ctl, {session("I1")});
  ctl.node.on_command = [](const v1::Command&) { return refusal(v1::Refusal::TIMEOUT, "waited until the deadline"); };
  CHECK(ctl({"lock", "a", "--wait", "1", "--json"}) == code::deadline);
  CHECK(ctl.node.commands.back().acquire_lock().wait_ms() == 1000);
}

TEST_CASE("a key that is not there prints null with --json and nothing otherwise, and exits 1") {
  test::cli ctl;
  ctl.node.on_query = [](const v1::Query&) {
    v1::Answer a;
    a.mutable_refusal()->set_code(v1::Refusal::NOT_FOUND);
    a.mutable_refusal()->set_text("Key \"k\" not found");
    return a;
  };
  CHECK(ctl({"kv", "get", "k"}) == code::refused);
  CHECK(ctl.screen.out + ctl.screen.err == "");
  CHECK(ctl({"kv", "get", "k", "--json"}) == code::refused);
  CHECK(ctl.out_json().is_null());
}

TEST_CASE("without a node, status exits 3 and says how to start one") {
  test::cli ctl;
  ctl.node.is_running = false;
  CHECK(ctl({"status", "--json"}) == code::no_node);
  CHECK(ctl.screen.err.find("swarmctl up") != std::string::npos);
  CHECK(!ctl.node.may_start);
}

TEST_CASE("the recovery copy of the authority's key is said once, to people and in JSON") {
  test::cli ctl;
  const auto file = std::filesystem::temp_directory_path() / ("swarm-passphrase-" + random_uuid());
  std::ofstream{file} << "correct horse\n";
  auto found = [&](std::vector<std::string> more) {
    std::vector<std::string> args{"up", "--listen", "10.0.0.1:7400", "--passphrase-file", file.string()};
    args.insert(args.end(), more.begin(), more.end());
    CHECK(ctl(args) == code::ok);
  };
  ctl.node.recovery_copy = "swarm-ca-key\nabc def\nend\n";
  found({"--json"});
  CHECK(ctl.node.to_found.passphrase() == "correct horse");
  CHECK(ctl.node.to_found.listen() == "10.0.0.1:7400");
  CHECK(ctl.out_json()["recovery_copy"] == ctl.node.recovery_copy);
  CHECK(ctl.out_json()["node"] == "box");
  CHECK(ctl.screen.err.empty());
  found({});
  CHECK(ctl.screen.err.find("\n" + ctl.node.recovery_copy) != std::string::npos);
  CHECK(ctl.screen.out.find("abc def") == std::string::npos);
  // The cluster stood before.
  ctl.node.recovery_copy.clear();
  found({"--json"});
  CHECK_FALSE(ctl.out_json().contains("recovery_copy"));
  std::filesystem::remove(file);
}

TEST_CASE("a home that moves says what its members have to be told") {
  test::cli ctl;
  ctl.node.view.set_cluster_id("x");
  auto add = [&](const char* name, v1::ClusterNode::Link link) -> v1::ClusterNode& {
    auto& n = *ctl.node.view.add_nodes();
    n.mutable_info()->set_node_name(name);
    n.set_link(link);
    return n;
  };
  auto& home = add("a", v1::ClusterNode::SELF);
  home.set_home(true);
  home.mutable_info()->set_address("10.0.0.1:7400");
  add("gone", v1::ClusterNode::REVOKED);
  auto listen_at = [&](const char* address) {
    CHECK(ctl({"up", "--listen", address}) == code::ok);
    return ctl.screen.err;
  };
  CHECK(listen_at("10.0.0.9:7400").empty());
  add("b", v1::ClusterNode::UP);
  CHECK(listen_at("10.0.0.1:7400").empty());
  CHECK(listen_at("10.0.0.9:7400").find("at 10.0.0.1:7400: b. ") != std::string::npos);
  // Back, or on: b looks where it was told when it joined.
  ctl.node.view.mutable_nodes(2)->mutable_info()->set_home_address("10.0.0.1:7400");
  ctl.node.view.mutable_nodes(0)->mutable_info()->set_address("10.0.0.9:7400");
  CHECK(listen_at("10.0.0.1:7400").empty());
  CHECK(listen_at("10.0.0.5:7400").find("at 10.0.0.1:7400: b. ") != std::string::npos);
}

TEST_CASE("a node that the cluster knows by another name says so, and up with a name that is in use fails") {
  test::cli ctl;
  ctl.node.view.set_cluster_id("x");
  auto& home = *ctl.node.view.add_nodes();
  home.mutable_info()->set_node_name("a");
  home.set_link(v1::ClusterNode::UP);
  home.set_home(true);
  auto& self = *ctl.node.view.add_nodes();
  self.mutable_info()->set_node_name("old");
  self.set_link(v1::ClusterNode::SELF);
  const std::string said = "has a node named box already and knows this one as old";
  CHECK(ctl({"up", "--node-name", "box"}) == code::refused);
  CHECK(ctl.screen.err.find(said) != std::string::npos);
  REQUIRE(ctl({"status"}) == code::ok);
  CHECK(ctl.screen.out.find(said) != std::string::npos);
  REQUIRE(ctl({"status", "--json"}) == code::ok);
  CHECK(ctl.out_json()["cluster"]["name"] == "old");
  ctl({"doctor"});
  CHECK(ctl.screen.out.find(said) != std::string::npos);
  self.mutable_info()->set_node_name("box");
  CHECK(ctl({"up", "--node-name", "box"}) == code::ok);
}

TEST_CASE("whose name a node did not get is told so, also if somebody else has started it a moment ago") {
  test::cli ctl;
  for (bool running : {true, false}) {
    ctl.node.is_running = running;
    CHECK(ctl({"up", "--node-name", "other"}) == code::refused);
    CHECK(ctl.screen.err.find("a node named box is running already; stop it with: swarmctl down") != std::string::npos);
    ctl.node.is_running = running;
    CHECK(ctl({"join", "token", "--node-name", "other"}) == code::refused);
    CHECK(ctl.screen.err.find("a node named box is running already, and keeps its name. To join as other, run first: swarmctl down") !=
          std::string::npos);
    ctl.node.is_running = running;
    CHECK(ctl({"up", "--node-name", "box"}) == code::ok);
  }
}

TEST_CASE("a node that its home has revoked is told that, and not that the home is down") {
  test::cli ctl;
  ctl.node.view.set_cluster_id("x");
  auto& home = *ctl.node.view.add_nodes();
  home.mutable_info()->set_node_name("a");
  home.set_link(v1::ClusterNode::REVOKED);
  home.set_home(true);
  for (const char* verb : {"nodes", "status", "doctor"}) {
    CAPTURE(verb);
    ctl({verb});
    CHECK(ctl.screen.out.find("has revoked this node") != std::string::npos);
    CHECK(ctl.screen.out.find("not linked") == std::string::npos);
  }
  CHECK(ctl.screen.out.find("until it is back") == std::string::npos);
  CHECK(ctl.screen.out.find("swarmctl leave") != std::string::npos);
}

TEST_CASE("nodes says that the link to the home is coming up, and how another member is linked") {
  test::cli ctl;
  ctl.node.view.set_cluster_id("x");
  auto add = [&](const char* name, v1::ClusterNode::Link link) -> v1::ClusterNode& {
    auto& n = *ctl.node.view.add_nodes();
    n.mutable_info()->set_node_name(name);
    n.set_link(link);
    return n;
  };
  add("a", v1::ClusterNode::DOWN).set_home(true);
  add("b", v1::ClusterNode::SELF);
  add("c", v1::ClusterNode::NONE);
  for (const auto& command : {std::vector<std::string>{"nodes"}, std::vector<std::string>{"join", "swarm-join-1.x"}}) {
    CHECK(ctl(command) == code::ok);
    CHECK(ctl.screen.out.find("linking…") != std::string::npos);
    CHECK(ctl.screen.out.find("not linked yet") == std::string::npos);
    CHECK(ctl.screen.out.find("through home") != std::string::npos);
  }
  CHECK(ctl({"nodes", "--json"}) == code::ok);
  CHECK(ctl.out_json()["nodes"][2]["link"] == "none");
}

TEST_CASE("a home that has not been reached since the node started is down, and members behind it are out of reach") {
  test::cli ctl;
  ctl.node.view.set_cluster_id("x");
  auto add = [&](const char* name, v1::ClusterNode::Link link) -> v1::ClusterNode& {
    auto& n = *ctl.node.view.add_nodes();
    n.mutable_info()->set_node_name(name);
    n.mutable_info()->set_workers(3);
    n.mutable_info()->set_workers_max(7);
    n.set_link(link);
    return n;
  };
  auto& home = add("a", v1::ClusterNode::DOWN);
  home.set_home(true);
  home.set_down_ms(47'000);
  home.set_down_reason("10.0.0.1:7400: connection refused");
  add("b", v1::ClusterNode::SELF);
  add("c", v1::ClusterNode::NONE);
  for (const char* verb : {"nodes", "status", "doctor"}) {
    CAPTURE(verb);
    ctl({verb});
    CHECK(ctl.screen.out.find("down for 47.0 s: 10.0.0.1:7400: connection refused") != std::string::npos);
    CHECK(ctl.screen.out.find("linking") == std::string::npos);
  }
  CHECK(ctl({"nodes"}) == code::ok);
  CHECK(ctl.screen.out.find("out of reach: the home is down") != std::string::npos);
  CHECK(ctl.screen.out.find("through home") == std::string::npos);
  CHECK(ctl.screen.out.find("3/7") == ctl.screen.out.rfind("3/7")); // its own
  CHECK(ctl({"nodes", "--json"}) == code::ok);
  const auto rows = ctl.out_json()["nodes"];
  CHECK(rows[0]["down_reason"] == "10.0.0.1:7400: connection refused");
  CHECK(rows[1]["reachable"] == true);
  CHECK(rows[2]["reachable"] == false);
  ctl.node.view.mutable_nodes(0)->set_link(v1::ClusterNode::REVOKED);
  CHECK(ctl({"nodes"}) == code::ok);
  CHECK(ctl.screen.out.find("out of reach: this node is revoked") != std::string::npos);
}

TEST_CASE("status as JSON says since when the home is away") {
  test::cli ctl;
  CHECK(ctl({"status", "--json"}) == code::ok);
  CHECK(ctl.out_json()["cluster"].is_null());
  auto& home = *ctl.node.view.add_nodes();
  home.mutable_info()->set_node_name("a");
  home.set_home(true);
  home.set_link(v1::ClusterNode::DOWN);
  home.set_last_heard_ms(1'234);
  CHECK(ctl({"status", "--json"}) == code::ok);
  CHECK(ctl.out_json()["cluster"] == json{{"home", "a"}, {"link", "down"}, {"last_heard_ms", 1'234}, {"name", "box"}});
}

TEST_CASE("the scope of a checkout that hosts share is called by its name") {
  test::cli ctl;
  auto& c = *ctl.node.shared.add_checkouts();
  c.set_root("/r");
  c.set_scope("git:host/me/game");
  c.set_declared(true);
  CHECK(ctl({"instances"}) == code::ok);
  CHECK(ctl.screen.out == "(no instances in scope git:host/me/game)\n");
  CHECK(ctl({"inspect"}) == code::ok);
  CHECK(ctl.screen.out.starts_with("scope: git:host/me/game\n"));
  CHECK(ctl({"instances", "--scope", "/other"}) == code::ok);
  CHECK(ctl.screen.out == "(no instances in scope /other)\n");
}

TEST_CASE("down waits until the process has ended, at most for --timeout") {
  test::cli ctl;
  CHECK(ctl({"down", "--timeout", "7"}) == code::ok);
  CHECK(ctl.node.awaited == std::vector<std::pair<std::int64_t, std::int64_t>>{{42, 7000}});
  CHECK(ctl.screen.out == "stopped the node (pid 42); it stays down until: swarmctl up\n");
  ctl.node.ends = false;
  CHECK(ctl({"down", "--json"}) == code::deadline);
  CHECK(ctl.out_json() == json{{"error", "the node is still stopping (pid 42)"}});
}

TEST_CASE("down keeps a node down that happens not to run, and status names the mark") {
  test::cli ctl;
  ctl.node.is_running = false;
  CHECK(ctl({"status"}) == code::no_node);
  CHECK(ctl.screen.err.find("no node is running for /state") != std::string::npos);
  CHECK(ctl({"down"}) == code::ok);
  CHECK(ctl.node.kept_down);
  CHECK(ctl.screen.out == "no node is running; it stays down until: swarmctl up\n");
  CHECK(ctl({"status"}) == code::no_node);
  CHECK(ctl.screen.err.find("the node of /state was stopped with swarmctl down, and stays so until: swarmctl up") != std::string::npos);
}

TEST_CASE("what is a person's without a node is refused in a worker and to whom a node takes for somebody else") {
  test::cli ctl;
  ctl.node.is_running = false;
  ctl.node.kept_down = true;
  const std::vector<std::vector<std::string>> all{{"down"},
                                                  {"up"},
                                                  {"restore", "f"},
                                                  {"context", "use", "x"},
                                                  {"context", "set", "x", "--ssh", "h"},
                                                  {"context", "delete", "x"},
                                                  {"config", "edit"},
                                                  {"secret", "set", "x"},
                                                  {"secret", "list"},
                                                  {"secret", "rm", "x"},
                                                  {"install", "--uninstall"}};
  auto all_refused = [&](const std::string& why) {
    for (const auto& command : all) {
      CAPTURE(command[0]);
      CHECK(ctl(command) == code::refused);
      CHECK_MESSAGE(ctl.screen.err.find(" is for a person to do, and " + why + ". Run it") != std::string::npos, ctl.screen.err);
    }
  };
  ctl.node.here.emplace().set_reason("a worker stands above");
  all_refused("a worker stands above");
  ctl.node.here.reset();
  ctl.env = environment{{{"HOME", "/home/ada"}, {"SWARM_SPAWN_ID", "s"}}};
  all_refused("this process runs in a worker");
  ctl.node.kept_down = false;
  CHECK(ctl({"up"}) == code::ok);             // what starts it then says what a worker may
  CHECK(ctl({"down", "--json"}) == code::ok); // a node that runs says so itself
}

TEST_CASE("down without a node ends the programs that go on, and where it cannot it says how and fails") {
  test::cli ctl;
  ctl.node.is_running = false;
  ctl.node.programs_go_on = true; // the keeper lives
  auto& program = ctl.node.kept.emplace_back();
  program.set_id("11111111-2222-4333-8444-555555555555");
  program.add_argv("make");
  CHECK(ctl({"down", "--keep-programs"}) == code::ok);
  CHECK(ctl.screen.out == "no node is running; programs in terminals go on; it stays down until: swarmctl up\n");
  CHECK(ctl.node.kept.size() == 1);
  CHECK(ctl({"down", "--json"}) == code::ok);
  CHECK(ctl.out_json()["ended"].size() == 1);
  CHECK(ctl.out_json()["pid"].is_null());
  CHECK(ctl.screen.err.find("ended 1 program:\n  11111111  make") != std::string::npos);
  CHECK(ctl.node.kept.empty());
  CHECK(ctl({"down"}) == code::ok);
  CHECK(ctl.screen.err.empty());
  ctl.node.programs_go_on = true;
  CHECK(ctl({"down"}) == code::refused);
  CHECK(ctl.screen.err.find("to end them: swarmctl up, then swarmctl down") != std::string::npos);
}

TEST_CASE("a command that follows a node that was stopped with its programs does not wait for it, and waits out a pause") {
  test::cli ctl;
  ctl.node.kept_down = true;
  ctl.node.watches.push_back({{}, stream_end::lost});
  CHECK(ctl({"events", "--follow"}) == code::no_node);
  ctl.node.programs_go_on = true;
  ctl.node.watches.push_back({{}, stream_end::lost});
  CHECK(ctl({"events", "--follow"}) == code::deadline); // the test has no more events
}

TEST_CASE("events of workers, agents, approvals and messages are told in words") {
  test::cli ctl;
  auto told = [&](const char* type, const char* payload) {
    ctl.node.on_query = [=](const v1::Query&) {
      v1::Answer a;
      auto& e = *a.mutable_events()->add_events();
      e.set_type(type);
      e.set_revision(281474976710656);
      e.set_payload(payload);
      return a;
    };
    REQUIRE(ctl({"events"}) == code::ok);
    auto line = ctl.screen.out;
    CHECK(line.find_first_of("{}") == line.npos);
    CHECK(line.find("281474976710656") == line.npos);
    return line.substr(line.find(type) + std::string{type}.size());
  };
  CHECK(told("spawn.running", R"({"task_id":"t","session_id":"s","attempt":1})") == "  -  -  the worker runs\n");
  CHECK(told("spawn.running", R"({"attempt":2})") == "  -  -  the worker runs, attempt 2\n");
  CHECK(told("spawn.ended", R"({"exit_status":3,"signal":0,"reason":""})") == "  -  -  worker ended: exit 3\n");
  CHECK(told("spawn.ended", R"({"exit_status":null,"signal":15,"reason":""})") == "  -  -  worker ended: signal 15\n");
  CHECK(told("spawn.ended", R"({"exit_status":null,"signal":0,"reason":"node_restarted"})") ==
        "  -  -  worker ended: its process was lost with its node or the keeper there\n");
  CHECK(told("agent.state", R"({"state":"idle","source":"hook","until":5})") == "  -  -  the agent is now: idle\n");
  CHECK(told("approval.decided", R"({"subject":"x","decision":"yes"})") == "  -  -  decided: yes\n");
  CHECK(told("approval.decided", R"({"subject":"x"})") == "  -  -  decided: answered\n");
  CHECK(told("approval.decided", R"({"subject":"x","decision":null,"reason":"expired"})") == "  -  -  decided: expired\n");
  CHECK(told("message.read", R"({"messages":[{"id":1},{"id":2}]})") == "  -  -  has read 2 messages\n");
  CHECK(told("cleanup.kv_deleted", R"({"count":7,"more":{"a":1}})") == "  -  -  count 7\n");
}

TEST_CASE("a lease that is too long is refused in the words of the option") {
  test::cli ctl;
  CHECK(ctl({"register", "--lease-seconds", "99999999"}) == code::usage);
  CHECK(ctl.screen.err.find("--lease-seconds takes 0 to 604800 (7 days)") != std::string::npos);
  CHECK(ctl.node.commands.empty());
}

TEST_CASE("an empty list names the scope in which it looked") {
  const std::vector<std::pair<std::vector<std::string>, std::string>> lists{
    {{"locks"}, "locks"},
    {{"agents"}, "agents"},
    {{"instances"}, "instances"},
    {{"kv", "list"}, "kv entries"},
    {{"kv", "list", "--prefix", "plan/"}, "kv entries with that prefix"},
    {{"messages"}, "messages"},
    {{"messages", "--from", "operator"}, "such messages"},
    {{"approvals"}, "open approvals"},
    {{"approvals", "--all"}, "approvals"},
    {{"spawns"}, "spawns"},
    {{"spawns", "--live"}, "live spawns"},
    {{"subscriptions"}, "subscriptions"},
    {{"pty", "list"}, "terminals"},
    {{"chat", "list"}, "open conversations"},
    {{"chat", "list", "--all"}, "conversations"},
    {{"usage"}, "usage"},
  };
  for (auto [words, what] : lists) {
    test::cli ctl;
    words.insert(words.begin(), {"--scope", "here"});
    CAPTURE(what);
    CHECK_MESSAGE(ctl(words) == code::ok, ctl.screen.err);
    CHECK(ctl.screen.out == "(no " + what + " in scope here)\n");
  }
  test::cli ctl;
  CHECK(ctl({"pty", "list", "--all"}) == code::ok);
  CHECK(ctl.screen.out == "(no terminals)\n");
}

TEST_CASE("a refusal says the same in JSON as on stderr, and under the name swarm-mcp it has the words of swarm-mcp") {
  test::cli ctl;
  knows(ctl, {});
  CHECK(ctl({"lock", "a.c", "--json"}) == 1);
  CHECK(ctl.screen.err == "swarmctl lock: you have no session in /r yet: swarmctl register\n");
  CHECK(ctl.out_json() == json{{"error", "you have no session in /r yet: swarmctl register"}});
  ctl.program = "swarm-mcp";
  ctl({"lock", "a.c", "--json"});
  CHECK(ctl.out_json() == json{{"error", "No instances registered in scope /r. Pass --as <id-or-label> or set SWARM_MCP_INSTANCE_ID."}});
}

TEST_CASE("--json without a command is wrong usage, as JSON") {
  test::cli ctl;
  CHECK(ctl({"--json"}) == code::usage);
  CHECK(ctl.out_json().at("error") == "which command? swarmctl --help lists them");
  CHECK(ctl({"--json", "--help"}) == code::ok);
}

TEST_CASE("peek at a session without a terminal says that it has none") {
  test::cli ctl;
  ctl.node.on_query = [](const v1::Query& q) {
    v1::Answer a;
    if (q.has_find_session())
      a.mutable_session()->set_id("3fa10000-1");
    return a;
  };
  CHECK(ctl({"peek", "3fa1"}) == code::refused);
  CHECK(ctl.screen.err.find("3fa10000 has no terminal of the fabric") != std::string::npos);
}

TEST_CASE("status as JSON has what scripts need") {
  test::cli ctl;
  CHECK(ctl({"status", "--json"}) == code::ok);
  auto s = ctl.out_json();
  CHECK(s["pid"] == 42);
  CHECK(s["version"] == "9");
  CHECK(s["node"] == "box");
  CHECK(s["state_dir"] == "/state");
  CHECK(s["uptime_s"] == 61);
}

TEST_CASE("a number that is too large for the node is refused, not replaced by the largest") {
  test::cli ctl;
  for (const auto* number : {"99999999999999999999", "-99999999999999999999"}) {
    CHECK(ctl({"request-task", "fix", "x", "--priority", number}) == code::usage);
    CHECK(ctl.screen.err.find("is too large a number") != std::string::npos);
  }
  CHECK(ctl.node.commands.empty());
}

TEST_CASE("tasks --limit takes 1 or more") {
  test::cli ctl;
  for (const auto* number : {"0", "-1"}) {
    CHECK(ctl({"tasks", "--limit", number}) == code::usage);
    CHECK(ctl.screen.err.find("1 or more") != std::string::npos);
  }
}

TEST_CASE("--no-autostart forbids starting a node") {
  test::cli ctl;
  CHECK(ctl({"locks"}) == code::ok);
  CHECK(ctl.node.may_start);
  CHECK(ctl({"locks", "--no-autostart"}) == code::ok);
  CHECK(!ctl.node.may_start);
}

TEST_CASE("the scope is the flag, then the variable, then the git root, and a word without slash is a name") {
  test::cli ctl;
  ctl({"locks"});
  CHECK(ctl.node.queries.back().scope() == "/r");
  ctl.env = environment{{{"SWARM_MCP_SCOPE", "/other/"}}};
  ctl({"locks"});
  CHECK(ctl.node.queries.back().scope() == "/other");
  ctl({"locks", "--scope", "team-a"});
  CHECK(ctl.node.queries.back().scope() == "team-a");
  ctl({"--scope=./x", "locks"});
  CHECK(ctl.node.queries.back().scope() == "/r/x");
}

TEST_CASE("who acts is --as, then the variable, then the session that the caller is, and people need none to dispatch or send") {
  test::cli ctl;
  knows(ctl, {session("I1")});
  ctl.node.on_command = locked;
  ctl({"lock", "a"});
  CHECK(ctl.node.commands.back().actor() == "I1");
  // Which one the caller is, the node says; swarm-mcp takes the only one there is.
  CHECK(ctl.node.queries.back().find_session().own());
  ctl.program = "swarm-mcp";
  ctl({"lock", "a"});
  CHECK(ctl.node.commands.back().actor() == "I1");
  CHECK_FALSE(ctl.node.queries.back().find_session().own());
  ctl.program = "swarmctl";
  knows(ctl, {session("I1"), session("I2")});
  CHECK(ctl({"lock", "a"}) == code::refused);
  ctl.env = environment{{{"SWARM_MCP_INSTANCE_ID", "I1"}}};
  ctl({"lock", "a"});
  CHECK(ctl.node.commands.back().actor() == "I1");
  ctl({"lock", "a", "--as", "I2"});
  CHECK(ctl.node.commands.back().actor() == "I2");
  ctl.env = environment{{{"SWARM_MCP_INSTANCE_ID", ""}}};
  ctl.node.on_command = [](const v1::Command&) {
    v1::Reply r;
    r.mutable_message_sent()->mutable_prompt()->set_sender("operator");
    return r;
  };
  CHECK(ctl({"send", "--to", "I2", "hello", "you"}) == code::ok);
  CHECK(ctl.node.commands.back().actor().empty());
  CHECK(ctl.node.commands.back().send_message().content() == "hello you");
  CHECK(ctl.screen.out == "sent operator → I2\n");
}

TEST_CASE("relative files mean the working directory inside the session's tree, the session's file root elsewhere") {
  test::cli ctl;
  auto worktree = session("I1");
  worktree.set_directory("/wt");
  worktree.set_root("/wt");
  worktree.set_file_root("/r");
  knows(ctl, {worktree});
  ctl.node.on_command = locked;
  auto path_from = [&](const char* directory, const char* file) {
    ctl.directory = directory;
    ctl({"lock", file});
    return ctl.node.commands.back().acquire_lock().path();
  };
  CHECK(path_from("/wt", "src/a") == "/r/src/a");
  CHECK(path_from("/wt/src", "a") == "/r/src/a");
  CHECK(path_from("/elsewhere", "src/a") == "/r/src/a");
  CHECK(path_from("/elsewhere", "/wt/b") == "/r/b");
  CHECK(path_from("/elsewhere", "/__swarm/x") == "/__swarm/x");
}

TEST_CASE("locks and tasks as JSON are swarm-mcp's rows") {
  test::cli ctl;
  ctl.node.on_query = [](const v1::Query& q) {
    v1::Answer a;
    if (q.has_list_locks()) {
      auto* view = a.mutable_locks()->add_locks();
      view->mutable_lock()->set_id("L1");
      view->mutable_lock()->set_session_id("I1");
      view->mutable_lock()->set_path("/r/a");
      view->mutable_lock()->set_created_at_ms(5000);
    } else {
      auto* t = a.mutable_tasks()->add_tasks();
      t->set_id("T1");
      t->set_type("fix");
      t->set_title("x");
      t->set_status(v1::IN_PROGRESS);
      t->set_requester("operator");
      t->set_created_at_ms(5000);
    }
    return a;
  };
  CHECK(ctl({"locks", "--json"}) == code::ok);
  CHECK(ctl.out_json().dump() == R"([{"id":"L1","instance_id":"I1","file":"/r/a","type":"lock","content":"","created_at":5,"owner_label":null}])");
  CHECK(ctl.screen.out.rfind("[\n  {\n    \"id\"", 0) == 0);
  CHECK(ctl({"tasks", "--json"}) == code::ok);
  CHECK(ctl.out_json().dump() ==
        R"([{"id":"T1","type":"fix","title":"x","status":"in_progress","assignee":null,"requester":"operator","priority":0,"created_at":5}])");
  CHECK(ctl.node.queries.back().list_tasks().by_creation());
  CHECK(ctl({"tasks"}) == code::ok);
  CHECK(ctl.screen.out.find("  ID  STATUS       AGE") == 0);
  CHECK(ctl.screen.out.find("\n  T1  in_progress  ") != std::string::npos);
  CHECK(ctl({"tasks", "--status", "failed,cancelled"}) == code::ok);
  CHECK(ctl.node.queries.back().list_tasks().statuses_size() == 2);
  CHECK(ctl({"tasks", "--open"}) == code::ok);
  CHECK(ctl.node.queries.back().list_tasks().statuses_size() == 5);
  CHECK(ctl({"tasks", "--open", "--status", "done"}) == code::usage);
  CHECK(ctl({"tasks", "--status", "finished"}) == code::usage);
  ctl.node.on_query = [](const v1::Query&) { return v1::Answer{}; };
  CHECK(ctl({"--scope", "/nowhere", "tasks"}) == code::ok);
  CHECK(ctl.screen.out == "(no tasks in scope /nowhere)\n");
  CHECK(ctl({"--scope", "/nowhere", "tasks", "--open"}) == code::ok);
  CHECK(ctl.screen.out == "(no open tasks in scope /nowhere)\n");
  CHECK(ctl({"--scope", "/nowhere", "tasks", "--status", "done"}) == code::ok);
  CHECK(ctl.screen.out == "(no tasks of that status in scope /nowhere)\n");
}

TEST_CASE("a command or a file that an unset variable leaves empty is refused, and makes no task") {
  test::cli ctl;
  CHECK(ctl({"dispatch", "x", "--"}) == code::usage);
  CHECK(ctl.screen.err.find("no command follows --") != std::string::npos);
  ctl.node.is_running = false;
  CHECK(ctl({"restore", ""}) == code::usage);
  CHECK(ctl.screen.err.find("file is empty") != std::string::npos);
  CHECK(ctl.node.commands.empty());
}

TEST_CASE("who is refused a lock can wait for it with the line that is shown") {
  test::cli ctl;
  knows(ctl, {session("I1")});
  ctl.node.on_command = [](const v1::Command&) {
    v1::Reply r;
    r.mutable_refusal()->set_code(v1::Refusal::CONFLICT);
    r.mutable_refusal()->set_text("File is already locked");
    r.mutable_lock()->mutable_active()->mutable_lock()->set_session_id("I2");
    r.mutable_lock()->mutable_active()->mutable_lock()->set_path("/r/ace/f 1");
    return r;
  };
  CHECK(ctl({"lock", "ace/f 1", "--as", "I1", "--scope", "/r"}) == code::refused);
  CHECK_MESSAGE(ctl.screen.err.find("Wait in line with: swarmctl lock 'ace/f 1' --wait SECONDS --as I1 --scope /r") != std::string::npos,
                ctl.screen.err);
}

TEST_CASE("a letter with a dash that no verb has is refused, but as an option's value, behind -- and by swarm-mcp's name it is text") {
  test::cli ctl;
  CHECK(ctl({"kv", "set", "k", "-x"}) == code::usage);
  CHECK(ctl.screen.err.find("Unknown flag: -x") != std::string::npos);
  CHECK(ctl({"kv", "set", "k", "--", "-x"}) == code::ok);
  CHECK(ctl.node.commands.back().set_kv().value() == "-x");
  CHECK(ctl({"kv", "set", "k", "-5"}) == code::ok);
  CHECK(ctl({"update-task", "T1", "--status", "cancelled", "--note", "-x"}) == code::ok);
  CHECK(ctl.node.commands.back().update_task().result() == "-x");
  ctl.program = "swarm-mcp";
  CHECK(ctl({"kv", "set", "k", "-x"}) == code::ok);
}

TEST_CASE("help VERB is the verb's help, and a word that is nearly a verb names it") {
  test::cli ctl;
  CHECK(ctl({"help", "kv", "set"}) == code::ok);
  CHECK(ctl.screen.out.find("--ttl") != std::string::npos);
  CHECK(ctl.screen.out.find("Global options:") != std::string::npos);
  CHECK(ctl({"unlock", "--help"}) == code::ok);
  CHECK(ctl.screen.out.find("--as INSTANCE") != std::string::npos);
  CHECK(ctl({"dispatch", "--help"}) == code::ok);
  CHECK(ctl.screen.out.find("[-- COMMAND ARGUMENT...]") != std::string::npos);
  CHECK(ctl({"help"}) == code::ok);
  CHECK(ctl.screen.out.find("Start here") != std::string::npos);
  CHECK(ctl({"dispach", "x"}) == code::usage);
  CHECK(ctl.screen.err.find("did you mean dispatch?") != std::string::npos);
  CHECK(ctl({"xyzzy"}) == code::usage);
  CHECK(ctl.screen.err.find("did you mean") == std::string::npos);
  CHECK(ctl({"pty", "lsit"}) == code::usage);
  CHECK(ctl.screen.err.find("did you mean list? There are: ") != std::string::npos);
}

TEST_CASE("locks shows how many stand in line, and says nothing of it when nobody does") {
  test::cli ctl;
  auto serve = [&](std::uint32_t waiters) {
    ctl.node.on_query = [waiters](const v1::Query&) {
      v1::Answer a;
      auto* view = a.mutable_locks()->add_locks();
      view->mutable_lock()->set_path("/r/a");
      view->mutable_lock()->set_note("why");
      view->mutable_owner()->set_label("role:x");
      view->set_waiters(waiters);
      return a;
    };
  };
  serve(0);
  CHECK(ctl({"locks"}) == code::ok);
  CHECK(ctl.screen.out == "  role:x  /r/a  — why\n");
  CHECK(ctl({"locks", "--json"}) == code::ok);
  CHECK_FALSE(ctl.out_json()[0].contains("waiters"));
  serve(2);
  CHECK(ctl({"locks"}) == code::ok);
  CHECK(ctl.screen.out == "  role:x  /r/a  — why (2 waiting)\n");
  CHECK(ctl({"locks", "--json"}) == code::ok);
  CHECK((--ctl.out_json()[0].end()).key() == "waiters");
  CHECK(ctl.out_json()[0]["waiters"] == 2);
}

TEST_CASE("a lock across the identity boundary is a lock to the hooks, which deny it, and tells nobody's id") {
  test::cli ctl;
  ctl.node.on_query = [](const v1::Query& q) {
    v1::Answer a;
    if (q.has_list_locks()) {
      auto* view = a.mutable_locks()->add_locks();
      view->set_hidden(true);
      view->mutable_lock()->set_path("/r/a");
    }
    return a;
  };
  for (const std::string verb : {"locks", "inspect"}) {
    CAPTURE(verb);
    CHECK(ctl({verb, "--json"}) == code::ok);
    auto row = verb == "locks" ? ctl.out_json()[0] : ctl.out_json()["locks"][0];
    // What a hook reads: type, file, an instance that is not its own, the label or the id's beginning, the content.
    CHECK(row["type"] == "lock");
    CHECK(row["file"] == "/r/a");
    CHECK(row["instance_id"] == "hidden");
    CHECK(row["owner_label"] == "another identity");
    CHECK(row["content"] == "");
    CHECK(row["hidden"] == true);
    CHECK(row["reason"] == "cross_identity");
  }
  CHECK(ctl({"locks"}) == code::ok);
  CHECK(ctl.screen.out == "  another identity  /r/a\n");
}

TEST_CASE("lists are read page by page to the end") {
  test::cli ctl;
  ctl.node.on_query = [](const v1::Query& q) {
    v1::Answer a;
    auto token = q.list_kv().page().token();
    a.mutable_kv_list()->add_entries()->set_key(token.empty() ? "a" : "b");
    if (token.empty())
      a.mutable_kv_list()->mutable_page()->set_token("next");
    return a;
  };
  CHECK(ctl({"kv", "--json"}) == code::ok);
  CHECK(ctl.out_json().dump() == R"([{"key":"a","updated_at":0},{"key":"b","updated_at":0}])");
}

TEST_CASE("register takes its defaults from the environment and shows the heartbeat of a lease") {
  test::cli ctl;
  ctl.env =
    environment{{{"SWARM_MCP_LABEL", "role:x"}, {"SWARM_MCP_DIRECTORY", "/d"}, {"SWARM_MCP_FILE_ROOT", "/f"}, {"SWARM_MCP_INSTANCE_ID", "I9"}}};
  ctl.node.on_command = [](const v1::Command& c) {
    v1::Reply r;
    *r.mutable_session()->mutable_session() = session("I9");
    r.mutable_session()->mutable_session()->set_lease_until_ms(c.register_session().lease_ms());
    return r;
  };
  CHECK(ctl({"register"}) == code::ok);
  CHECK(ctl.screen.out == "registered I9\n");
  auto body = ctl.node.commands.back().register_session();
  CHECK(body.directory() == "/d");
  CHECK(body.file_root() == "/f");
  CHECK(body.label() == "role:x");
  CHECK(body.preassigned_id() == "I9");
  CHECK(body.token_hash().empty());
  CHECK(ctl({"register", "/tmp", "--lease-seconds", "9", "--json"}) == code::ok);
  CHECK(ctl.node.commands.back().register_session().directory() == "/tmp");
  CHECK(ctl.node.commands.back().register_session().lease_ms() == 9000);
  CHECK((--ctl.out_json().end()).key() == "heartbeat");
}

TEST_CASE("register takes a given id over in the scope of its row") {
  test::cli ctl;
  ctl.env = environment{{{"SWARM_MCP_INSTANCE_ID", "I9"}}};
  ctl.node.on_command = [](const v1::Command&) {
    v1::Reply r;
    *r.mutable_session()->mutable_session() = session("I9");
    r.mutable_session()->mutable_session()->set_scope("/elsewhere");
    return r;
  };
  CHECK(ctl({"register"}) == code::ok);
  REQUIRE(ctl.node.commands.size() == 2);
  CHECK(ctl.node.commands[0].scope() == "/r");
  CHECK(ctl.node.commands[1].scope() == "/elsewhere");
  CHECK(ctl.node.commands[1].register_session().preassigned_id() == "I9");
  CHECK(ctl.screen.out == "registered I9\n");
  // Not again and again.
  ctl.node.commands.clear();
  ctl.node.on_command = [](const v1::Command& c) {
    v1::Reply r;
    *r.mutable_session()->mutable_session() = session("I9");
    r.mutable_session()->mutable_session()->set_scope(c.scope() + "/deeper");
    return r;
  };
  CHECK(ctl({"register"}) == code::ok);
  CHECK(ctl.node.commands.size() == 2);
}

TEST_CASE("register refuses a directory that is not there, and says what a session that was there has kept") {
  test::cli ctl;
  ctl.node.on_command = [](const v1::Command&) {
    v1::Reply r;
    r.mutable_session()->set_adopted_existing(true);
    *r.mutable_session()->mutable_session() = session("I9");
    r.mutable_session()->mutable_session()->set_scope("/r");
    r.mutable_session()->mutable_session()->set_directory("/r");
    return r;
  };
  CHECK(ctl({"register", "/proc/none"}) == code::refused);
  CHECK(ctl.screen.err.find("there is no directory /proc/none on this host") != std::string::npos);
  CHECK(ctl.node.commands.empty());
  CHECK(ctl({"register"}) == code::ok);
  CHECK(ctl.screen.err.empty());
  CHECK(ctl({"register", "/tmp", "--scope", "/r"}) == code::ok);
  CHECK(ctl.screen.err.find("it keeps its directory /r instead of /tmp; to change that, deregister it first") != std::string::npos);
  CHECK(ctl.screen.out == "registered I9\n");
  ctl.program = "swarm-mcp";
  CHECK(ctl({"register", "/nonexistent", "--scope", "/r"}) == code::ok);
  CHECK(ctl.screen.err.empty());
}

TEST_CASE("a person's session has the identity of the shell, unless the label or --identity says another, a worker and swarm-mcp not") {
  test::cli ctl;
  ctl.node.on_command = [](const v1::Command&) {
    v1::Reply r;
    *r.mutable_session()->mutable_session() = session("I9");
    r.mutable_session()->mutable_session()->set_scope("/r");
    return r;
  };
  const auto label = [&](std::vector<std::string> words, variables set) {
    set["HOME"] = "/home/ada";
    ctl.env = environment{std::move(set)};
    words.insert(words.begin(), {"register", "/tmp", "--scope", "/r"});
    CHECK(ctl(words) == code::ok);
    return ctl.node.commands.back().register_session().label();
  };
  CHECK(label({}, {{"AGENT_IDENTITY", "work"}}) == "identity:work");
  CHECK(label({"--label", "role:x"}, {{"SWARM_IDENTITY", "identity:work"}}) == "role:x identity:work");
  CHECK(label({"--label", "identity:home"}, {{"AGENT_IDENTITY", "work"}}) == "identity:home");
  CHECK(label({"--identity", "home"}, {{"AGENT_IDENTITY", "work"}}) == "identity:home");
  CHECK(label({}, {{"AGENT_IDENTITY", "../work"}}).empty());
  CHECK(label({}, {{"AGENT_IDENTITY", "work"}, {"SWARM_SPAWN_ID", "s"}}).empty());
  ctl.program = "swarm-mcp";
  CHECK(label({}, {{"AGENT_IDENTITY", "work"}}).empty());
}

TEST_CASE("an identity with roots registers only under one and the same of them") {
  test::cli ctl;
  ctl.program = "swarm-mcp"; // which does not ask whether a directory is there
  ctl.node.on_command = [](const v1::Command&) {
    v1::Reply r;
    *r.mutable_session()->mutable_session() = session("I1");
    return r;
  };
  auto under = [&](const std::string& roots, const std::string& directory, const std::string& file_root = {}) {
    ctl.env = environment{{{"HOME", "/home/ada"}, {"SWARM_MCP_MY_WORK_ROOTS", roots}, {"SWARM_MCP_LABEL", "role:x identity:my-work"}}};
    std::vector<std::string> words{"register", directory};
    if (!file_root.empty())
      words.insert(words.end(), {"--file-root", file_root});
    return ctl(words);
  };
  CHECK(under("", "/r") == code::ok);
  CHECK(under("/a:/r/", "/r/sub") == code::ok);
  CHECK(under("~/src", "/home/ada/src/x") == code::ok);
  auto sent = ctl.node.commands.size();
  CHECK(under("~/src:/w", "/r") == code::refused);
  CHECK(ctl.screen.err == "swarm-mcp register: Registration blocked: identity:my-work directory must be under one of /home/ada/src, /w. "
                          "Set SWARM_MCP_MY_WORK_ROOTS to override.\n");
  CHECK(under("/r", "/rest") == code::refused);
  CHECK(under("/a:/b", "/a", "/b") == code::refused);
  CHECK(ctl.node.commands.size() == sent);
  ctl.env = environment{{{"SWARM_MCP_MY_WORK_ROOTS", "/w"}}};
  CHECK(ctl({"register", "--label", "identity:other"}) == code::ok);
}

TEST_CASE("a session that a process, a connection or a lease holds is live however old its last command is, for doctor too") {
  test::cli ctl;
  auto shows = [&](v1::Session::Presence presence, std::int64_t lease_until_ms) {
    auto s = session("I1"); // its last sign of life is 80 s old
    s.set_presence(presence);
    s.set_lease_until_ms(lease_until_ms);
    knows(ctl, {s});
    ctl({"doctor", "--json"}); // its status speaks of the programs beside swarmctl as well
    std::size_t live = 0;
    const auto report = ctl.out_json();
    for (const auto& check : report["checks"])
      if (check["name"] == "live_instances")
        live += check["details"]["count"].get<std::size_t>();
    CHECK(ctl({"instances"}) == code::ok);
    CHECK((ctl.screen.out.find("live") != std::string::npos) == (live == 1));
    return ctl.screen.out;
  };
  auto now_ms = ctl.clock.unix_ms();
  CHECK(shows(v1::Session::HEARTBEAT, 0).find("offline (80s)") != std::string::npos);
  CHECK(shows(v1::Session::PROCESS, 0).find("live") != std::string::npos);
  CHECK(shows(v1::Session::CONNECTION, 0).find("live") != std::string::npos);
  CHECK(shows(v1::Session::LEASE, now_ms + 1).find("live") != std::string::npos);
  CHECK(shows(v1::Session::LEASE, now_ms - 1).find("offline") != std::string::npos);
}

TEST_CASE("a program's arguments after -- are passed as they are") {
  test::cli ctl;
  CHECK(ctl({"pty", "new", "--json", "--", "sh", "-c", "echo --help", "--json"}) == code::ok);
  CHECK(ctl.out_json()["id"] == "pty-1");
  CHECK(std::vector<std::string>(ctl.node.created.argv().begin(), ctl.node.created.argv().end()) ==
        std::vector<std::string>{"sh", "-c", "echo --help", "--json"});
}

TEST_CASE("what is typed into a terminal carries the fence it was given") {
  test::cli ctl;
  const std::string terminal(36, 'a');
  CHECK(ctl({"pty", "send", terminal, "go", "--enter", "--fence", "7"}) == code::ok);
  CHECK(ctl({"pty", "send", terminal, "go"}) == code::ok);
  REQUIRE(ctl.node.typed.size() == 2);
  CHECK(ctl.node.typed[0].data() == "go\r");
  CHECK(ctl.node.typed[0].fence() == 7);
  CHECK(ctl.node.typed[1].fence() == 0);
  CHECK(ctl({"pty", "send", terminal, "go", "--fence=-1"}) == code::usage);
  CHECK(ctl.node.typed.size() == 2);
}

TEST_CASE("there is a completion script for three shells, each for both names of the program") {
  test::cli ctl;
  for (auto shell : {"bash", "zsh", "fish"}) {
    CAPTURE(shell);
    CHECK(ctl({"completion", shell}) == code::ok);
    CHECK(ctl.screen.out.find(" __complete -- ") != std::string::npos);
    CHECK(ctl.screen.out.find("swarm-mcp") != std::string::npos);
  }
  CHECK(ctl({"completion", "tcsh"}) == code::usage);
}

TEST_CASE("whoami never answers null, and every usage error is an object with --json") {
  test::cli ctl;
  ctl.node.on_query = [](const v1::Query&) {
    v1::Answer a;
    a.mutable_refusal()->set_code(v1::Refusal::CONFLICT);
    a.mutable_refusal()->set_text("Multiple instances in scope /r; pass --as <id-or-label>.");
    return a;
  };
  CHECK(ctl({"whoami", "--json"}) == code::refused);
  CHECK(ctl.out_json().at("error").get<std::string>().starts_with("Multiple instances"));
  for (const auto& line : std::vector<std::vector<std::string>>{
         {"frobnicate", "--json"}, {"lock", "--json"}, {"tasks", "--bogus", "--json"}, {"pty", "frob", "--json"}, {"--json", "tasks", "-x"}}) {
    CHECK(ctl(line) == code::usage);
    CHECK(ctl.out_json().at("error").is_string());
  }
  ctl.program = "swarm-mcp";
  CHECK(ctl({"whoami", "--json"}) == code::ok);
  CHECK(ctl.screen.out == "null\n");
}

TEST_CASE("kv append asks for an array, but not under the name swarm-mcp") {
  test::cli ctl;
  CHECK(ctl({"kv", "append", "k", "3"}) == code::ok);
  ctl.program = "swarm-mcp";
  CHECK(ctl({"kv", "append", "k", "3"}) == code::ok);
  REQUIRE(ctl.node.commands.size() == 2);
  CHECK(ctl.node.commands[0].append_kv().only_to_array());
  CHECK_FALSE(ctl.node.commands[1].append_kv().only_to_array());
}

TEST_CASE("an unexpected exception becomes an error message, not a crash") {
  test::cli ctl;
  ctl.node.on_query = [](const v1::Query&) -> v1::Answer { throw std::runtime_error("boom"); };
  CHECK(ctl({"locks"}) == code::refused);
  CHECK(ctl.screen.err == "swarmctl locks: boom\n");
}

TEST_CASE("roles reads the nearest .swarm-role up to the scope, after the label and before SWARM_AGENT_ROLE") {
  namespace fs = std::filesystem;
  const auto top = fs::temp_directory_path() / ("swarm-roles-" + random_uuid());
  const auto scope = top / "repo", inner = scope / "a" / "b";
  fs::create_directories(inner);
  test::cli ctl;
  ctl.directory = inner.string();
  auto current = [&](variables values) {
    values.emplace("SWARM_MCP_SCOPE", scope.string());
    ctl.env = environment{std::move(values)};
    CHECK(ctl({"roles", "--json"}) == code::ok);
    return ctl.out_json()["current"];
  };
  std::ofstream{top / ".swarm-role"} << "planner\n";
  CHECK(current({})["swarm_role_file"].is_null());
  CHECK(current({})["routing_role"].is_null());
  CHECK(current({{"SWARM_AGENT_ROLE", "Researcher"}})["routing_role"] == "researcher");
  CHECK(current({{"SWARM_AGENT_ROLE", "worker"}})["routing_role"].is_null());
  CHECK(current({{"SWARM_MCP_LABEL", "mode:gateway"}})["routing_role"] == "planner");
  std::ofstream{scope / ".swarm-role"} << "# who works here\n\n  Reviewer \nplanner\n";
  CHECK(current({})["swarm_role_file"] == (scope / ".swarm-role").string());
  CHECK(current({{"SWARM_AGENT_ROLE", "researcher"}, {"SWARM_MCP_LABEL", "mode:gateway"}})["routing_role"] == "reviewer");
  CHECK(current({{"SWARM_MCP_LABEL", "role:implementer"}})["routing_role"] == "implementer");
  std::ofstream{inner.parent_path() / ".swarm-role"} << "tester";
  CHECK(current({})["routing_role"] == "tester");
  fs::remove_all(top);
}

TEST_CASE("cleanup --dry-run asks what is due in every scope and sends no command") {
  test::cli ctl;
  ctl.node.on_query = [](const v1::Query& q) {
    v1::Answer a;
    if (q.has_list_scopes())
      for (auto name : {"/a", "/b"})
        a.mutable_scopes()->add_scopes()->set_scope(name);
    if (q.has_preview_sweep())
      a.mutable_sweep()->set_locks_deleted(q.scope() == "/a" ? 1 : 2);
    return a;
  };
  ctl.node.on_command = [](const v1::Command&) {
    v1::Reply r;
    r.mutable_sweep()->set_locks_deleted(4);
    return r;
  };
  CHECK(ctl({"cleanup", "--dry-run", "--json"}) == code::ok);
  CHECK(ctl.out_json()["dry_run"] == true);
  CHECK(ctl.out_json()["locks_deleted"] == 3);
  CHECK(ctl.node.commands.empty());
  CHECK(ctl({"cleanup", "--json", "--scope", "/b"}) == code::ok);
  CHECK(ctl.out_json()["dry_run"] == false);
  CHECK(ctl.out_json()["locks_deleted"] == 4);
  REQUIRE(ctl.node.commands.size() == 1);
  CHECK(ctl.node.commands[0].scope() == "/b");
}

namespace {

v1::Explanation below_claude() {
  v1::Explanation e;
  e.mutable_principal()->set_kind(v1::Principal::AGENT);
  e.mutable_principal()->set_id("20.77");
  e.set_rule(v1::Explanation::AGENT_UNREGISTERED);
  e.set_reason("this process was started by the agent claude (process 20)");
  auto& self = *e.add_chain();
  self.set_pid(30);
  self.set_program("swarmctl");
  auto& root = *e.add_chain();
  root.set_pid(20);
  root.set_start(77);
  root.set_program("claude");
  root.set_role("agent claude");
  root.set_matched(true);
  e.add_may("register");
  e.add_may_not("change anything");
  e.add_ways_out("another terminal");
  return e;
}

} // namespace

TEST_CASE("whoami --explain shows who one is, the processes above, the one that decided it, and the way out") {
  test::cli ctl;
  ctl.node.explanation = below_claude();
  REQUIRE(ctl({"whoami", "--explain"}) == code::ok);
  CHECK(ctl.screen.out == "agent 20.77\n"
                          "  because    this process was started by the agent claude (process 20)\n"
                          "  processes  30  swarmctl\n"
                          "             20  claude (agent claude)  <- this one\n"
                          "  may        register\n"
                          "  may not    change anything\n"
                          "  way out    another terminal\n");
  REQUIRE(ctl({"whoami", "--explain", "--json"}) == code::ok);
  auto j = ctl.out_json();
  CHECK(j.at("rule") == "agent_unregistered");
  CHECK(j.at("principal").at("kind") == "agent");
  CHECK(j.at("chain").at(1).at("matched") == true);
  CHECK(j.at("chain").at(0).at("role").is_null());
  ctl.node.explanation.clear_principal();
  ctl.node.explanation.set_reason("a\nb");
  REQUIRE(ctl({"whoami", "--explain"}) == code::ok);
  CHECK(ctl.screen.out.find("nobody\n  because    a\\nb\n") == 0);
}

TEST_CASE("who is no person to the node of this host is refused the node of another one, behind ssh") {
  test::cli ctl;
  auto config = std::filesystem::temp_directory_path() / ("swarm-far-" + random_uuid());
  ctl.env = environment{{{"HOME", "/home/ada"}, {"XDG_CONFIG_HOME", config.string()}}};
  REQUIRE(ctl({"context", "set", "far", "--ssh", "host.example"}) == code::ok);
  ctl.node.here = below_claude();
  CHECK(ctl({"--context", "far", "status"}) == code::refused);
  CHECK(ctl.screen.err.find("host.example") != std::string::npos);
  CHECK(ctl.screen.err.find("whoami --explain") != std::string::npos);
  ctl.node.here->mutable_principal()->set_kind(v1::Principal::OPERATOR);
  CHECK(ctl({"--context", "far", "status"}) == code::ok);
  std::filesystem::remove_all(config);
}

TEST_CASE("a right is named alone or with the time for which it is given") {
  CHECK(grant_of("pty").name == "pty");
  CHECK(grant_of("pty").for_ms == 0);
  CHECK(grant_of("pty:agents=30m").name == "pty:agents");
  CHECK(grant_of("pty:agents=30m").for_ms == 1'800'000);
  CHECK(grant_of("pty=90").for_ms == 90'000);
  CHECK(grant_of("pty=90s").for_ms == 90'000);
  CHECK(grant_of("pty=2h").for_ms == 7'200'000);
  CHECK(grant_of("pty=366d").for_ms == limits::grant_time_max.count());
  for (const auto* wrong : {"pty=", "pty=0", "pty=-1m", "pty=m", "pty=1x", "pty=1.5h", "pty=367d", "pty=99999999999999999999d", "pty=1m "})
    CHECK_THROWS_AS(grant_of(wrong), failure);
  v1::RegisterSession body;
  add_grants(body, {"spawn", "pty=1m"});
  CHECK(body.grants_size() == 2);
  REQUIRE(body.grant_times_size() == 1);
  CHECK(body.grant_times(0).grant() == "pty");
}

TEST_CASE("a lock does not take a file's URI with one slash or in capitals for a file of this directory") {
  test::cli ctl;
  for (const std::string name : {"file:/r/a", "FILE:///r/a", "file://LOCALHOST/r/a"}) {
    CHECK(ctl({"lock", name}) == code::usage);
    CHECK_MESSAGE(ctl.screen.err.find("if you mean /r/a, name that; for a file of this very name: ./" + name) != std::string::npos, ctl.screen.err);
  }
  CHECK(ctl.node.commands.empty());
}
