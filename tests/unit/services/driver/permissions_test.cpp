// What a driver decides before a person is asked.
#include "services/driver/permissions.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <doctest/doctest.h>

#include "tests/unit/services/driver/driver_world.hpp"

using namespace swarm;
using test::driver_world;
using test::in_a_turn;
using test::json;
using kind = internal::Permissions;
namespace fs = std::filesystem;

namespace {

/// Gone at the end.
struct scratch {
  scratch() {
    std::string name = (fs::temp_directory_path() / "rules-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path = fs::canonical(name);
  }
  ~scratch() {
    std::error_code ec;
    fs::remove_all(path, ec);
  }
  scratch(const scratch&) = delete;
  scratch& operator=(const scratch&) = delete;
  fs::path path;
};

void permit(driver_world& w, kind::Kind what, std::vector<std::string> allowed = {}, std::int64_t for_ms = 0) {
  internal::ToDriver f;
  auto& p = *f.mutable_permissions();
  p.set_kind(what);
  p.set_end_ms(for_ms == 0 ? 0 : w.now().unix_ms + for_ms);
  p.mutable_allowed()->Assign(allowed.begin(), allowed.end());
  w.tell(f);
}

void lock(driver_world& w, std::vector<std::string> paths, bool more = false) {
  internal::ToDriver f;
  f.mutable_locks()->mutable_paths()->Assign(paths.begin(), paths.end());
  f.mutable_locks()->set_more(more);
  w.tell(f);
}

/// "asked", or what a rule made of it.
std::string outcome(driver_world& w, const std::string& tool, const json& input) {
  static int number = 0;
  const auto id = "r" + std::to_string(++number);
  w.asks(id, tool, input);
  std::string out = "nothing";
  for (const auto& f : w.kept)
    if (f.has_request() && f.request().id() == id)
      out = "asked";
    else if (f.has_ruled() && f.ruled().id() == id)
      out = (f.ruled().allowed() ? "allow by " : "deny by ") + f.ruled().rule();
  CHECK(w.lines_with("\"request_id\":\"" + id + "\"") == (out == "asked" ? 0 : 1));
  if (out == "asked")
    w.answer(id, "deny");
  return out;
}

json file(const std::string& path) { return {{"file_path", path}, {"content", "x"}}; }
json command(const std::string& text) { return {{"command", text}, {"description", "d"}}; }

} // namespace

TEST_CASE("without a rule a person is asked, and with deny nobody is") {
  auto w = in_a_turn();
  CHECK(outcome(w, "Write", file("/repo/x")) == "asked");
  permit(w, kind::KIND_UNSPECIFIED);
  CHECK(outcome(w, "Write", file("/repo/x")) == "asked");
  permit(w, kind::ASK);
  CHECK(outcome(w, "Bash", command("ls")) == "asked");
  permit(w, kind::DENY, {"Bash"});
  CHECK(outcome(w, "Bash", command("ls")) == "deny by deny");
  CHECK(outcome(w, "AskUserQuestion", {{"questions", json::array()}}) == "deny by deny");
}

TEST_CASE("what a rule decides is told with a number and again until it is stored, and swarmd hears of no request") {
  auto w = in_a_turn();
  permit(w, kind::AUTO, {}, 60'000);
  w.agent_takes = false;
  w.asks("r", "Write", file("/repo/x"));
  const auto told = [&] { return std::count_if(w.all.begin(), w.all.end(), [](const auto& f) { return f.has_ruled(); }); };
  CHECK(told() == 0); // the agent has no answer yet
  w.agent_takes = true;
  w.settle();
  CHECK(told() == 1);
  REQUIRE(w.kept.back().has_ruled());
  const auto& r = w.kept.back().ruled();
  CHECK(r.id() == "r");
  CHECK(r.allowed());
  CHECK(r.title() == "Write: /repo/x");
  CHECK(r.call() == "call of r");
  w.hello();
  CHECK(told() == 2);
  CHECK(w.ready().open_requests().empty());
  w.stored(w.last_seq);
  w.hello(w.last_seq);
  CHECK(told() == 2);
  w.answer("r", "deny");
  CHECK_FALSE(w.answers().back().delivered());
  CHECK(w.lines_with("behavior") == 1);
}

TEST_CASE("auto ends at its time, also when the clock is set back, and a question still goes to a person") {
  auto w = in_a_turn();
  permit(w, kind::AUTO, {}, 60'000);
  CHECK(outcome(w, "Bash", command("make; make install")) == "allow by auto");
  CHECK(outcome(w, "AskUserQuestion", {{"questions", json::array({{{"question", "Which?"}, {"options", json::array()}}})}}) == "asked");
  CHECK(outcome(w, "ExitPlanMode", {{"plan", "p"}}) == "asked");
  w.pass(59'999);
  CHECK(outcome(w, "Bash", command("ls")) == "allow by auto");
  w.pass(1);
  CHECK(outcome(w, "Bash", command("ls")) == "asked");
  driver::permission_rules rules{{.directory = "/repo", .home = "/home/u"}};
  internal::Permissions p;
  p.set_kind(kind::AUTO);
  p.set_end_ms(100'000);
  rules.set(p, {.unix_ms = 40'000, .boot_ms = 1'000});
  internal::Request r;
  r.set_kind(internal::Request::TOOL);
  r.set_tool("Task");
  CHECK(rules.decide(r, "{}", "/repo", {}, {.unix_ms = 40'000, .boot_ms = 60'999}).what == driver::ruling::kind::allow);
  CHECK(rules.decide(r, "{}", "/repo", {}, {.unix_ms = 40'000, .boot_ms = 61'000}).what == driver::ruling::kind::ask);
}

TEST_CASE("auto that is said without an end or after it asks a person") {
  auto w = in_a_turn();
  permit(w, kind::AUTO);
  CHECK(outcome(w, "Bash", command("ls")) == "asked");
  permit(w, kind::AUTO, {}, -1);
  CHECK(outcome(w, "Bash", command("ls")) == "asked");
}

TEST_CASE("plan denies what changes something and asks for what reads") {
  auto w = in_a_turn();
  permit(w, kind::PLAN, {"Write", "Bash(ls)"});
  CHECK(outcome(w, "Write", file("/repo/x")) == "deny by plan");
  CHECK(outcome(w, "Bash", command("ls")) == "deny by plan");
  CHECK(outcome(w, "mcp__any__tool", json::object()) == "deny by plan");
  CHECK(outcome(w, "Read", file("/etc/passwd")) == "asked");
  CHECK(outcome(w, "ExitPlanMode", {{"plan", "p"}}) == "asked");
}

TEST_CASE("under plan nothing but what reads runs, also when the agent's own settings let it") {
  auto w = in_a_turn();
  permit(w, kind::PLAN);
  std::size_t denied = 0;
  const auto runs = [&](const std::string& tool, const json& input) {
    static int number = 0;
    w.asks_hook("h" + std::to_string(++number), tool, input);
    const auto now = w.lines_with("\"permissionDecision\":\"deny\"");
    return std::exchange(denied, now) == now;
  };
  CHECK_FALSE(runs("Edit", file("/repo/x")));
  CHECK_FALSE(runs("Bash", command("echo x > y")));
  for (const auto* text : {"touch p1.txt", "mkdir pd", "python3 -c \"open('a', 'w')\"", "ls"})
    CHECK_FALSE_MESSAGE(runs("Bash", command(text)), text);
  CHECK_FALSE(runs("mcp__any__tool", json::object()));
  CHECK_FALSE(runs("mcp__files__read_file", {{"path", "x"}}));
  CHECK(runs("Read", file("/repo/x")));
  CHECK(runs("ExitPlanMode", {{"plan", "p"}}));
  CHECK(runs("Task", {{"prompt", "look"}}));
  for (const auto* tool : {"Monitor", "Skill", "Workflow", "CronCreate", "EnterWorktree", "ExitWorktree", "ScheduleWakeup", "NotYetKnown"})
    CHECK_FALSE_MESSAGE(runs(tool, command("ls")), tool);
  for (const auto* tool : {"SendMessage", "ListAgents", "TaskStop", "ToolSearch", "WebFetch", "EnterPlanMode", "ReportFindings"})
    CHECK_MESSAGE(runs(tool, json::object()), tool);
  permit(w, kind::ASK);
  CHECK(runs("Edit", file("/repo/x")));
  CHECK(runs("Bash", command("touch p1.txt")));
}

TEST_CASE("under plan the fabric's own tools run, whose rights the node looks at, and no other server's that is called alike") {
  auto w = in_a_turn({.directory = "/repo", .home = "/home/u", .kept_out = {"/home/u/node"}});
  lock(w, {"/repo/held"});
  permit(w, kind::PLAN);
  for (const auto* tool : {"complete_task", "ask_person", "bootstrap", "poll_messages", "lock_file"}) {
    w.asks_hook(tool, std::string{"mcp__swarm__"} + tool, {{"file", "/repo/held"}, {"text", "/home/u/node"}});
    CHECK_MESSAGE(w.lines_with(std::string{"\"request_id\":\""} + tool + "\",\"response\":{}") == 1, tool);
  }
  CHECK(outcome(w, "mcp__swarm__complete_task", {{"result", "done"}}) == "asked"); // where its user's own settings ask about it
  for (const auto* tool : {"mcp__swarm__other__write", "mcp__swarm___write", "mcp__swarms__write", "swarm__write"}) {
    const auto denied = w.lines_with("\"permissionDecision\":\"deny\"");
    w.asks_hook(tool, tool, json::object());
    CHECK_MESSAGE(w.lines_with("\"permissionDecision\":\"deny\"") == denied + 1, tool);
  }
}

TEST_CASE("auto-edit writes plain files below the directory and asks for everything else") {
  scratch dir;
  const auto repo = (dir.path / "repo").string();
  fs::create_directories(repo + "/src");
  fs::create_directory_symlink("/etc", repo + "/away");
  std::ofstream{dir.path / "outside"} << "x";
  fs::create_symlink(dir.path / "outside", repo + "/link");
  fs::create_directories(repo + "/.git");
  fs::create_directory_symlink(repo + "/.git", repo + "/git");
  auto w = in_a_turn({.directory = repo, .home = "/home/u"});
  permit(w, kind::AUTO_EDIT);
  CHECK(outcome(w, "Write", file(repo + "/src/new")) == "allow by auto-edit");
  CHECK(outcome(w, "Edit", file(repo + "/x")) == "allow by auto-edit");
  CHECK(outcome(w, "NotebookEdit", {{"notebook_path", repo + "/n.ipynb"}}) == "allow by auto-edit");
  for (const auto* path :
       {"/away/x", "/link", "/../outside", "/.git/hooks/pre-commit", "/git/config", "/.claude/settings.json", "/src/.mcp.json", ""}) {
    CAPTURE(path);
    CHECK(outcome(w, "Write", file(repo + path)) == "asked");
  }
  CHECK(outcome(w, "Write", file("/etc/x")) == "asked");
  for (const auto* path : {"/.pre-commit-config.yaml", "/.github/workflows/ci.yml", "/src/.netrc"})
    CHECK_MESSAGE(outcome(w, "Write", file(repo + path)) == "asked", path);
  CHECK(outcome(w, "NotebookEdit", {{"file_path", repo + "/x"}, {"notebook_path", "/etc/x"}}) == "asked");
  CHECK(outcome(w, "Write", json::object()) == "asked");
  CHECK(outcome(w, "Bash", command("touch x")) == "asked");
}

TEST_CASE("auto-edit asks for every file below the home directory whose name begins with a dot") {
  scratch home;
  const auto at = home.path.string();
  auto w = in_a_turn({.directory = at, .home = at});
  permit(w, kind::AUTO_EDIT);
  CHECK(outcome(w, "Write", file(at + "/shop/.hidden")) == "allow by auto-edit");
  for (const auto* path : {"/.vimrc", "/.tmux.conf", "/.any/thing"})
    CHECK_MESSAGE(outcome(w, "Write", file(at + path)) == "asked", path);
}

TEST_CASE("a pattern allows its tool or exactly its argument, and no shell line of more than one command") {
  auto w = in_a_turn();
  permit(w, kind::ASK, {"Bash(npm test)", "WebFetch(https://x.org/)", "Task", "Write(/repo/a)"});
  CHECK(outcome(w, "Bash", command("npm test")) == "allow by allowed: Bash(npm test)");
  for (const auto* other : {"npm test ", "npm", "npm test x", "npm test; rm -rf /", "npm test && x", "npm test | x", "npm test > x", "npm test\nrm x",
                            "npm test $(x)", "npm test `x`"}) {
    CAPTURE(other);
    CHECK(outcome(w, "Bash", command(other)) == "asked");
  }
  CHECK(outcome(w, "Bash", {{"command", "npm test"}, {"dangerouslyDisableSandbox", true}}) == "asked");
  CHECK(outcome(w, "WebFetch", {{"url", "https://x.org/"}, {"prompt", "p"}}) == "allow by allowed: WebFetch(https://x.org/)");
  CHECK(outcome(w, "WebFetch", {{"url", "https://x.org/y"}}) == "asked");
  CHECK(outcome(w, "Task", {{"prompt", "p"}}) == "allow by allowed: Task");
  CHECK(outcome(w, "Write", file("/repo/a")) == "allow by allowed: Write(/repo/a)");
  CHECK(outcome(w, "Write", file("/repo/b/../a")) == "allow by allowed: Write(/repo/a)");
  CHECK(outcome(w, "Edit", file("/repo/a")) == "asked");
  permit(w, kind::ASK, {"Bash"});
  CHECK(outcome(w, "Bash", command("npm test")) == "allow by allowed: Bash");
  CHECK(outcome(w, "Bash", command("a; b")) == "asked");
}

TEST_CASE("a pattern of a file is of the file that is written, whatever link leads to it") {
  scratch dir;
  std::ofstream{dir.path / "a"} << "x";
  fs::create_symlink(dir.path / "a", dir.path / "link");
  auto w = in_a_turn();
  permit(w, kind::ASK, {"Write(" + (dir.path / "link").string() + ")"});
  CHECK(outcome(w, "Write", file((dir.path / "link").string())) == "asked");
}

TEST_CASE("a peer's lock denies a write whatever the rule says") {
  auto w = in_a_turn();
  lock(w, {"/repo/held"});
  for (auto rule : {kind::ASK, kind::AUTO_EDIT, kind::AUTO, kind::PLAN, kind::DENY}) {
    permit(w, rule, {"Write", "Bash"}, 60'000);
    CHECK(outcome(w, "Write", file("/repo/held/x")) == "deny by a peer holds /repo/held");
    CHECK(outcome(w, "Bash", command("cp x held")) == "deny by a peer holds /repo/held");
  }
  permit(w, kind::AUTO, {}, 60'000);
  CHECK(outcome(w, "Write", file("/repo/free")) == "allow by auto");
  CHECK(outcome(w, "Read", file("/repo/held/x")) == "allow by auto");
  CHECK(outcome(w, "mcp__files__read_file", {{"path", "/repo/held/x"}}) == "allow by auto");
  CHECK(outcome(w, "mcp__files__write_file", {{"path", "held/x"}}) == "deny by a peer holds /repo/held");
  CHECK(w.lines_with("A peer holds /repo/held") == 11);
}

TEST_CASE("with more locks than the driver knows of a person is asked about a write") {
  auto w = in_a_turn();
  lock(w, {"/repo/held"}, true);
  permit(w, kind::AUTO, {"Write"}, 60'000);
  CHECK(outcome(w, "Write", file("/repo/free")) == "asked");
  CHECK(outcome(w, "Bash", command("ls")) == "allow by auto");
}

TEST_CASE("what a tool watches, and what it runs without a shell, is looked at like a shell command") {
  auto w = in_a_turn({.directory = "/repo", .home = "/home/u", .kept_out = {"/home/u/node"}});
  lock(w, {"/repo/held"});
  permit(w, kind::AUTO, {}, 60'000);
  CHECK(outcome(w, "Monitor", command("echo x > held")) == "deny by a peer holds /repo/held");
  CHECK(outcome(w, "Monitor", command("echo x > /home/u/node/config.toml")) == "deny by no agent writes /home/u/node");
  CHECK(outcome(w, "Monitor", command("echo x > free")) == "allow by auto");
  CHECK(outcome(w, "mcp__x__shell", {{"command", json::array({"sh", "-c", "echo x > held"})}}) == "deny by a peer holds /repo/held");
  CHECK(outcome(w, "mcp__x__execute_code", {{"code", "open('held', 'w')"}}) == "asked");
  w.asks_hook("h", "Monitor", command("echo x > held"));
  REQUIRE(w.all.back().hook_question().writes_size() == 1);
  CHECK(w.all.back().hook_question().writes(0).name() == "/repo/held");
}

TEST_CASE("a tool that writes nothing runs at once and no node is asked") {
  auto w = in_a_turn();
  lock(w, {"/repo/held"});
  w.pipe_takes = false;
  for (const auto& [tool, input] : std::vector<std::pair<std::string, json>>{
         {"Read", {{"file_path", "/repo/held"}}}, {"LSP", {{"filePath", "/repo/held"}}}, {"Skill", {{"skill", "x"}}}, {"Bash", command("ls")}}) {
    w.asks_hook("of " + tool, tool, input);
    CHECK_MESSAGE(w.lines_with("\"request_id\":\"of " + tool + "\",\"response\":{}") == 1, tool);
  }
  w.pipe_takes = true;
  w.settle();
  CHECK(std::none_of(w.all.begin(), w.all.end(), [](const auto& f) { return f.has_hook_question(); }));
}

TEST_CASE("no rule lets an agent write where the fabric keeps its state, and no node is needed to deny it") {
  auto w = in_a_turn({.directory = "/home/u", .home = "/home/u", .kept_out = {"/home/u/.local/state/swarm"}});
  permit(w, kind::AUTO, {}, 60'000);
  CHECK(outcome(w, "Write", file("/home/u/.local/state/swarm/config.toml")) == "deny by no agent writes /home/u/.local/state/swarm");
  CHECK(outcome(w, "Bash", command("rm -rf /home/u")) == "deny by no agent writes /home/u/.local/state/swarm");
  w.asks_hook("h", "Bash", command("echo x > ~/.local/state/swarm/x"));
  CHECK(w.lines_with("\"permissionDecision\":\"deny\"") == 1);
  CHECK_FALSE(w.all.back().has_hook_question());
}

TEST_CASE("a command that is too long to be asked about is looked at all the same, and denied where it writes what no agent writes") {
  auto w = in_a_turn({.directory = "/home/u", .home = "/home/u", .kept_out = {"/home/u/node"}, .variables = {{"SWARM_HOME", "/home/u/node"}}});
  const std::string much(limits::driver_part_bytes_max, 'a');
  w.asks_hook("free", "Bash", command("echo x > y #" + much));
  CHECK(w.lines_with("\"permissionDecision\":\"deny\"") == 0);
  const auto& told = w.all.back().hook_question();
  CHECK(told.id() == "free");
  CHECK(told.too_long());
  CHECK(told.input().empty());
  REQUIRE(told.writes_size() == 1);
  CHECK(told.writes(0).name() == "/repo/y");
  CHECK_FALSE(told.more_writes());
  w.asks_hook("long", "Bash", command("echo x > $SWARM_HOME/config.toml #" + much));
  CHECK(w.lines_with("\"permissionDecision\":\"deny\"") == 1);
  w.asks_hook("longer", "Bash", command("true #" + std::string(limits::hook_script_bytes_max, 'a')));
  CHECK(w.lines_with("\"permissionDecision\":\"deny\"") == 2);
  std::string removal = "rm -f";
  for (std::size_t i = 0; i < limits::hook_paths_max; ++i)
    removal += " a" + std::to_string(i);
  w.asks_hook("many", "Bash", command(removal + " b"));
  CHECK(w.lines_with("\"permissionDecision\":\"deny\"") == 3);
  w.asks_hook("server", "mcp__e__search_replace", {{"target", "/home/u/node/config.toml"}});
  CHECK(w.lines_with("\"permissionDecision\":\"deny\"") == 4);
}

TEST_CASE("what a person has edited is looked at before the agent gets it") {
  auto w = in_a_turn({.directory = "/repo", .home = "/home/u", .kept_out = {"/home/u/node"}});
  lock(w, {"/repo/held"});
  const auto edit = [&](const std::string& id, const std::string& path) {
    w.asks(id, "Write", file("/repo/x"));
    internal::ToDriver f;
    auto& a = *f.mutable_answer();
    a.set_request_id(id);
    a.set_generation(1);
    a.set_option("allow");
    a.set_digest(test::digest_of(w.kept, id));
    a.set_edited_input(file(path).dump());
    w.tell(f);
    REQUIRE(w.answers().back().delivered());
    return w.answers().back();
  };
  CHECK(edit("free", "/repo/y").option() == "allow");
  CHECK(w.lines_with("\"behavior\":\"allow\"") == 1);
  CHECK(edit("node", "/home/u/node/config.toml").option() == "deny");
  CHECK(edit("held", "/repo/held").option() == "deny");
  CHECK(w.answers().back().text().find("/repo/held") != std::string::npos);
  CHECK(w.lines_with("\"behavior\":\"allow\"") == 1);
  CHECK(w.lines_with("\"behavior\":\"deny\"") == 2);
}

TEST_CASE("a permission and a hook question say what would be written") {
  auto w = in_a_turn();
  w.asks("r", "Bash", command("cp a b; echo x > c"));
  const auto& r = w.kept.back().request();
  REQUIRE(r.writes_size() == 2);
  CHECK(r.writes(0).name() == "/repo/b");
  CHECK(r.writes(1).name() == "/repo/c");
  w.asks("m", "mcp__files__write_file", {{"path", "d"}});
  CHECK(w.kept.back().request().writes(0).name() == "/repo/d");
  w.asks_hook("h", "Bash", command("echo x > c"));
  CHECK(w.all.back().hook_question().writes(0).name() == "/repo/c");
}

TEST_CASE("a request that is too large to ask a person is denied unless a rule allows it") {
  auto w = in_a_turn();
  const json large{{"file_path", "/repo/x"}, {"content", std::string(1'100'000, 'x')}};
  CHECK(outcome(w, "Write", large) == "deny by larger than 1024 KiB, and nobody can be asked");
  permit(w, kind::AUTO, {}, 60'000);
  CHECK(outcome(w, "Write", large) == "allow by auto");
}

// ---- always ----

TEST_CASE("a request names the pattern that would allow exactly this, or none") {
  auto w = in_a_turn();
  const auto pattern = [&](const std::string& tool, const json& input) {
    w.asks("p", tool, input);
    return w.kept.back().request().pattern();
  };
  CHECK(pattern("Bash", command("npm test")) == "Bash(npm test)");
  CHECK(pattern("Bash", command("rm *.o")).empty());
  CHECK(pattern("Bash", command("a && b")).empty());
  CHECK(pattern("Bash", command(std::string(2'000, 'x'))).empty());
  CHECK(pattern("Write", file("src/a")) == "Write(/repo/src/a)");
  CHECK(pattern("Write", file("/etc/passwd")).empty());
  CHECK(pattern("Write", file("/repo/.git/config")).empty());
  CHECK(pattern("mcp__s__t", {{"a", 1}}) == R"(mcp__s__t({"a":1}))");
  CHECK(pattern("AskUserQuestion", {{"questions", json::array()}}).empty());
  CHECK(pattern("ExitPlanMode", {{"plan", "p"}}).empty());
}

TEST_CASE("always of a pattern is kept by the fabric and not by the agent, unless swarmd knows no patterns") {
  const auto suggestion = json::array({{{"type", "addRules"},
                                        {"rules", json::array({{{"toolName", "Bash"}, {"ruleContent", "npm test"}}})},
                                        {"behavior", "allow"},
                                        {"destination", "session"}}});
  const auto asks = [&](driver_world& w) {
    w.agent_writes(json{{"type", "control_request"},
                        {"request_id", "r"},
                        {"request",
                         {{"subtype", "can_use_tool"},
                          {"tool_name", "Bash"},
                          {"input", command("npm test")},
                          {"permission_suggestions", suggestion},
                          {"tool_use_id", "c"}}}});
  };
  auto w = in_a_turn();
  permit(w, kind::ASK);
  asks(w);
  w.answer("r", "always");
  CHECK(w.answers().back().delivered());
  CHECK(w.lines_with("\"behavior\":\"allow\"") == 1);
  CHECK(w.lines_with("updatedPermissions") == 0);
  auto older = in_a_turn();
  asks(older);
  older.answer("r", "always");
  CHECK(older.lines_with("updatedPermissions") == 1);
  older.asks("x", "Task", {{"prompt", "p"}}); // for which the agent has no rule
  older.answer("x", "always");
  CHECK(older.answers().back().delivered());
}

TEST_CASE("always is offered only with a pattern, so that no rule is kept that nobody sees") {
  auto w = in_a_turn();
  permit(w, kind::ASK);
  for (const auto* text : {"ls ~/x", "ls {a,b}", "ls a?", "npm test"}) {
    const auto suggestion = json::array({{{"type", "addRules"},
                                          {"rules", json::array({{{"toolName", "Bash"}, {"ruleContent", text}}})},
                                          {"behavior", "allow"},
                                          {"destination", "session"}}});
    w.agent_writes(json{{"type", "control_request"},
                        {"request_id", text},
                        {"request",
                         {{"subtype", "can_use_tool"},
                          {"tool_name", "Bash"},
                          {"input", command(text)},
                          {"permission_suggestions", suggestion},
                          {"tool_use_id", "c"}}}});
    const auto asked = w.kept.back().request();
    CHECK(asked.can_be_always() == !asked.pattern().empty());
    w.answer(asked.id(), "always");
    CHECK(w.answers().back().delivered());
  }
  CHECK(w.lines_with("\"behavior\":\"allow\"") == 4);
  CHECK(w.lines_with("updatedPermissions") == 0);
}
