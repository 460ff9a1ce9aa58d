// docs/json.md and docs/schemas: every verb is run with --json on real nodes, and what it prints is compared with its schema.
#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <regex>
#include <set>

#include <doctest/doctest.h>

#include "tests/support/cluster_of_nodes.hpp"
#include "tests/support/json_schema.hpp"
#include "tests/support/node_client.hpp"
#include "tests/support/node_process.hpp"

using namespace swarm::testing;

namespace {

using words = std::vector<std::string>;

fs::path documents() {
  const auto* source = std::getenv("SWARM_SOURCE_DIR");
  REQUIRE(source != nullptr);
  return fs::path{source} / "docs";
}

std::string file_of(std::string verb) {
  std::replace(verb.begin(), verb.end(), ' ', '-');
  return verb + ".json";
}

/// The commands that a help lists: lines of two columns below a heading that is not about words of this command.
words commands_in(const std::string& help) {
  static const std::regex heading{R"(^(\S.*):$)"}, command{R"(^  ([a-z][a-z-]*)(, [a-z-]+)*  .*)"};
  const std::set<std::string> others{"Options", "Positionals", "Global options", "Examples"};
  words out;
  auto listed = false;
  for (const auto& line : lines_of(help)) {
    std::smatch m;
    if (std::regex_match(line, m, heading))
      listed = !others.contains(m[1].str());
    else if (listed && std::regex_match(line, m, command))
      out.push_back(m[1]);
  }
  return out;
}

/// Of the program itself: the verbs, or where a verb has commands below it, those.
words all_commands(const test_node& node) {
  words out;
  for (const auto& verb : commands_in(node.ctl({"--help"}).out)) {
    const auto below = commands_in(node.ctl({verb, "--help"}).out);
    if (below.empty())
      out.push_back(verb);
    for (const auto& name : below)
      out.push_back(verb + " " + name);
  }
  return out;
}

/// The first cells of the rows below a headline of docs/json.md.
std::set<std::string> rows_below(const std::string& page, const std::string& headline) {
  static const std::regex row{R"(^\| `([a-z -]+)` \|.*)"};
  std::set<std::string> out;
  auto below = false;
  for (const auto& line : lines_of(page)) {
    std::smatch m;
    if (line.starts_with("## "))
      below = line == "## " + headline;
    else if (below && std::regex_match(line, m, row))
      out.insert(m[1]);
  }
  return out;
}

/// Runs verbs with --json and compares.
class reader_of_schemas {
public:
  /// `verb`: with the command below it. The rest are its words; `status`: what it must end with. Gives the first document.
  json run(const test_node& node, const std::string& verb, words rest = {}, int status = 0, const run_options& options = {}) {
    auto arguments = words_of(verb);
    arguments.insert(arguments.begin(), "--json");
    arguments.insert(arguments.end(), rest.begin(), rest.end());
    const auto r = node.ctl(arguments, options);
    CAPTURE(json(arguments).dump());
    CAPTURE(r.out);
    CAPTURE(r.err);
    CHECK(r.status == status);
    run_.insert(verb);
    json first;
    for (const auto& text : verb == "events" ? lines_of(r.out) : words{r.out}) {
      auto document = json::parse(text, nullptr, false);
      REQUIRE_FALSE(document.is_discarded());
      compare(verb, document, status);
      if (first.is_null())
        first = std::move(document);
    }
    return first;
  }
  const std::set<std::string>& verbs_run() const { return run_; }

private:
  static words words_of(const std::string& verb) {
    std::istringstream in{verb};
    return {std::istream_iterator<std::string>{in}, {}};
  }
  void compare(const std::string& verb, const json& document, int status) {
    auto objections = schemas_.objections(document, file_of(verb));
    if (!objections.empty() && status != 0 && document.is_object() && document.contains("error"))
      objections = schemas_.objections(document, "rows/error.json");
    CHECK_MESSAGE(objections.empty(), verb, ": ", json(objections).dump());
  }
  json_schemas schemas_{documents() / "schemas"};
  std::set<std::string> run_;
};

std::string id_of(const json& answer) { return answer.at("id"); }
std::string task_of(const json& answer) { return answer.at("task_id"); }

void shell(const test_node& node, const std::string& script, const std::string& directory) {
  auto r = child_process({"/bin/bash", "-ec", script}, node.env({{"GIT_CONFIG_GLOBAL", "/dev/null"}}), directory).finish();
  CAPTURE(r.err);
  REQUIRE(r.status == 0);
}

/// A Git repository with a commit.
std::string repository(const test_node& node, const std::string& name) {
  const auto path = node.env().at("HOME") + "/" + name;
  fs::create_directories(path);
  shell(node,
        "git init -q -b main; git config user.name t; git config user.email t@example.org; echo one >a.txt; git add .; git commit -qm first; "
        "git remote add origin git@example.org:me/" +
          name + ".git",
        path);
  return path;
}

struct people {
  std::string me, you;
};

people sessions(reader_of_schemas& r, const test_node& node) {
  people p;
  p.me = id_of(r.run(node, "register", {"--label", "name:me role:implementer", "--lease-seconds", "600"}));
  p.you = id_of(r.run(node, "register", {"--label", "name:you mode:gateway", "--lease-seconds", "600"}));
  auto third = id_of(r.run(node, "register", {"--label", "name:third", "--lease-seconds", "600"}));
  r.run(node, "register", {"--adopt-instance-id", p.you, "--label", "name:you mode:gateway"});
  r.run(node, "whoami", {"--as", p.me});
  r.run(node, "whoami", {"--as", "nobody"}, 1);
  r.run(node, "instances");
  r.run(node, "roles");
  r.run(node, "roles", {"--as", p.me});
  r.run(node, "report-agent", {"working", "--as", p.me});
  r.run(node, "agents");
  r.run(node, "remove-instance", {third});
  return p;
}

void tasks(reader_of_schemas& r, const test_node& node, const people& p) {
  auto first = id_of(r.run(node, "request-task", {"fix", "first", "--file", "a.cpp", "--description", "d"}));
  auto second = id_of(r.run(node, "request-task", {"fix", "second", "--depends-on", first}));
  auto third = id_of(r.run(node, "request-task", {"fix", "third", "--approval-required"}));
  r.run(node, "bootstrap", {"--as", p.me});
  r.run(node, "claim", {first, "--as", p.me});
  r.run(node, "claim", {first, "--as", p.you}, 1);
  r.run(node, "report-progress", {first, "half", "--as", p.me});
  r.run(node, "complete-task", {first, "--summary", "done", "--as", p.me});
  r.run(node, "task", {first});
  r.run(node, "claim-next", {"--as", p.me});
  r.run(node, "update-task", {second, "--status", "done", "--as", p.me});
  r.run(node, "update-task", {second, "--status", "done", "--as", p.me}, 1);
  r.run(node, "approve", {third});
  r.run(node, "cancel", {third});
  r.run(node, "tasks");
  r.run(node, "tasks", {"--all-scopes"});
}

void workers(reader_of_schemas& r, const test_node& node) {
  r.run(node, "dispatch", {"hello", "--", "echo", "hello"});
  r.run(node, "dispatch", {"hello", "--", "echo", "hello"});
  auto failed = task_of(r.run(node, "dispatch", {"fails", "--", "false"}, 1));
  r.run(node, "dispatch", {"killed", "--", "sh", "-c", "kill -9 $$"}, 137);
  r.run(node, "dispatch", {"detached", "--detach", "--", "sleep", "300"});
  r.run(node, "dispatch", {"for a session"});
  r.run(node, "retry", {failed});
  r.run(node, "spawn", {"--key", "k", "--role", "watcher", "--", "sleep", "300"});
  r.run(node, "spawn", {"--key", "k", "--role", "watcher", "--", "sleep", "300"});
  r.run(node, "spawns");
  r.run(node, "pty new", {"--name", "build", "--", "cat"});
  r.run(node, "pty send", {"build", "hello", "--enter"});
  r.run(node, "pty resize", {"build", "--columns", "90", "--rows", "20"});
  r.run(node, "pty read", {"build"});
  r.run(node, "pty list", {"--all"});
  r.run(node, "peek", {"role:watcher"});
  r.run(node, "pty kill", {"build"});
  r.run(node, "pty list");
  r.run(node, "pty prune");
  r.run(node, "agents");
}

void locks_and_keys(reader_of_schemas& r, const test_node& node, const people& p) {
  auto fence = r.run(node, "lock", {"f.c", "--as", p.me, "--note", "n"}).at("fence").get<std::uint64_t>();
  r.run(node, "lock", {"g.c", "--as", p.me, "--ttl", "60"});
  r.run(node, "lock", {"f.c", "--as", p.you}, 1);
  r.run(node, "lock", {"f.c", "--as", p.you, "--wait", "0.1"}, 4);
  r.run(node, "lock", {"verify", "f.c", "--fence", std::to_string(fence)});
  auto waits = node.ctl_start({"lock", "f.c", "--as", p.you, "--wait", "60"});
  REQUIRE(eventually([&] { return node.ctl({"locks"}).out.find("1 waiting") != std::string::npos; }));
  r.run(node, "locks");
  r.run(node, "context", {"--as", p.me});
  r.run(node, "unlock", {"f.c", "--as", p.me});
  CHECK(waits.finish().status == 0);
  r.run(node, "unlock", {"never", "--as", p.me}, 1);
  r.run(node, "kv set", {"a", "x"});
  r.run(node, "kv set", {"b", "x", "--ttl", "60", "--as", p.me});
  r.run(node, "kv append", {"list", "{\"a\":1}"});
  r.run(node, "kv get", {"a"});
  r.run(node, "kv get", {"b"});
  r.run(node, "kv get", {"none"}, 1);
  r.run(node, "kv list");
  r.run(node, "kv", {"--prefix", "a"});
  r.run(node, "kv del", {"list"});
  r.run(node, "kv del", {"list"}, 1);
}

void messages_and_news(reader_of_schemas& r, const test_node& node, const people& p) {
  r.run(node, "send", {"--to", p.you, "hello"});
  r.run(node, "broadcast", {"all", "--as", p.me});
  r.run(node, "prompt-peer", {"--to", p.you, "hello", "--as", p.me});
  r.run(node, "messages", {"--to", p.you});
  r.run(node, "wait", {"--as", p.you, "--seconds", "10"});
  r.run(node, "wait", {"--as", p.me, "--seconds", "0.05"}, 4);
  r.run(node, "bootstrap", {"--as", p.you});
  r.run(node, "resolve-workspace-handle", {"pane-1"});
  r.run(node, "inspect");
  r.run(node, "subscribe", {"board", "--type", "kv.", "--from-start"});
  r.run(node, "ack", {"board", std::to_string(r.run(node, "kv get", {"a"}).at("revision").get<std::uint64_t>())});
  r.run(node, "subscriptions");
  r.run(node, "unsubscribe", {"board"});
  r.run(node, "unsubscribe", {"board"}, 1);
  r.run(node, "events", {"--since", "0"});
}

void approvals(reader_of_schemas& r, const test_node& node, const people& p) {
  node_client client{node};
  auto asks = client.command(p.me);
  asks.mutable_request_approval()->set_subject("deploy");
  auto made = client.execute(asks);
  REQUIRE(made.has_approval());
  r.run(node, "approvals");
  r.run(node, "decide", {made.approval().id(), "yes"});
  r.run(node, "approvals", {"--all"});
}

void work_trees_and_routines(reader_of_schemas& r, const test_node& node) {
  const auto repo = repository(node, "repo");
  const run_options there{.directory = repo};
  auto append = [](const std::string& text) { return words{"sh", "-c", "echo " + text + " >>a.txt; git commit -qam " + text}; };
  auto worker = [&](const std::string& title, const words& command, int status = 0) {
    words all{title, "--worktree", "--"};
    all.insert(all.end(), command.begin(), command.end());
    return task_of(r.run(node, "dispatch", all, status, there));
  };
  auto good = worker("one", append("two"));
  auto conflicting = worker("two", append("three"));
  worker("three", {"false"}, 1);
  r.run(node, "worktree list", {}, 0, there);
  r.run(node, "worktree diff", {good}, 0, there);
  r.run(node, "worktree merge", {good}, 0, there);
  r.run(node, "worktree merge", {conflicting}, 1, there);
  r.run(node, "worktree prune", {"--dry-run"}, 0, there);
  r.run(node, "worktree prune", {}, 0, there);

  fs::create_directories(repo + "/.swarm/routines");
  std::ofstream{repo + "/.swarm/routines/check.toml"}
    << "name = \"check\"\nsummary = \"s\"\n[parameters.file]\nrequired = true\n[[step]]\nid = \"a\"\ntitle = "
       "\"A ${file}\"\n[[step]]\nid = \"b\"\ntitle = \"B\"\nneeds = [\"a\"]\nrole = \"reviewer\"\n";
  std::ofstream{repo + "/.swarm/routines/bad.toml"} << "name = \"bad\n";
  r.run(node, "routine list", {}, 0, there);
  r.run(node, "routine show", {"repository/check"}, 0, there);
  r.run(node, "routine show", {"repository/bad"}, 1, there);
  r.run(node, "routine run", {"repository/check", "--set", "file=x"}, 1, there);
  r.run(node, "routine trust", {"repository/check", "--yes"}, 0, there);
  r.run(node, "routine run", {"repository/check", "--set", "file=x", "--dry-run"}, 0, there);
  r.run(node, "routine run", {"repository/check", "--set", "file=x"}, 0, there);
}

void this_host(reader_of_schemas& r, const test_node& node) {
  r.run(node, "version");
  r.run(node, "doctor");
  r.run(node, "context set", {"lab", "--state-dir", "/tmp/lab"});
  r.run(node, "context set", {"gpu", "--ssh", "me@gpu", "--scope", "x"});
  r.run(node, "context list");
  r.run(node, "context show", {"lab"});
  r.run(node, "context use", {"default"});
  r.run(node, "context delete", {"lab"});
  r.run(node, "install", {"--host", "claude", "--dry-run"});
  r.run(node, "install", {"--host", "claude"});
  r.run(node, "install", {"--host", "claude"});
  r.run(node, "install", {"--host", "claude", "--uninstall"});
  r.run(node, "init");
}

void end_of_a_node(reader_of_schemas& r, const test_node& node, const people& p) {
  const auto backup = node.env().at("HOME") + "/backup.db";
  r.run(node, "status");
  r.run(node, "graph");
  r.run(node, "cleanup", {"--dry-run"});
  r.run(node, "cleanup");
  r.run(node, "deregister", {"--as", p.me});
  r.run(node, "backup", {backup});
  r.run(node, "down", {"--yes"});
  r.run(node, "down", {"--yes"});
  r.run(node, "tasks", {}, 3);
  r.run(node, "restore", {backup});
}

void hosts(reader_of_schemas& r) {
  test_node home, member;
  const auto secret = home.env().at("HOME") + "/passphrase";
  std::ofstream{secret} << "correct horse battery staple\n";
  r.run(home, "up", {"--node-name", "a", "--listen", "127.0.0.1:" + std::to_string(free_ports()), "--passphrase-file", secret});
  r.run(home, "ca unlock", {"--passphrase-file", secret});
  auto join = [&] {
    r.run(member, "join", {r.run(home, "join-token create").at("token"), "--node-name", "b"});
    REQUIRE(eventually([&] { return cluster_of_nodes::link_seen_by(home, "b") == "up" && cluster_of_nodes::link_seen_by(member, "a") == "up"; }));
  };
  join();
  r.run(home, "nodes");
  r.run(member, "nodes");
  r.run(member, "status");
  r.run(home, "graph");
  const auto game = repository(home, "game");
  r.run(home, "scope share", {game, "--as", "game"});
  r.run(home, "scope show", {}, 0, {.directory = game});
  r.run(home, "dispatch", {"shared", "--on", "a", "--", "true"}, 0, {.directory = game});
  r.run(home, "nodes");
  r.run(member, "scope list");
  r.run(home, "scope share", {repository(home, "other"), "--as", "other"});
  r.run(home, "scope unshare", {home.env().at("HOME") + "/other"});
  r.run(home, "drain", {"b"});
  r.run(home, "drain", {"b", "--off"});
  r.run(member, "leave");
  join();
  r.run(home, "node revoke", {"b"});
}

} // namespace

TEST_CASE("the reader of schemas sees what does not fit") {
  temp_dir dir;
  std::ofstream{dir.path() / "row.json"}
    << R"({"type": "object", "required": ["id"], "properties": {"id": {"type": "string"}, "n": {"type": ["integer", "null"]}}})";
  std::ofstream{dir.path() / "list.json"} << R"({"type": "array", "items": {"$ref": "row.json"}})";
  std::ofstream{dir.path() / "map.json"} << R"({"type": "object", "additionalProperties": {"enum": ["a", "b"]}})";
  std::ofstream{dir.path() / "odd.json"} << R"({"pattern": "x"})";
  json_schemas s{dir.path()};
  CHECK(s.objections(json::parse(R"([{"id": "x"}, {"id": "y", "n": null}])"), "list.json").empty());
  CHECK(s.objections(json::parse(R"([{"n": 1.5, "extra": 1}])"), "list.json").size() == 3);
  CHECK(s.objections(json::parse("{}"), "list.json").size() == 1);
  CHECK(s.objections(json::parse(R"({"x": "a"})"), "map.json").empty());
  CHECK(s.objections(json::parse(R"({"x": "c"})"), "map.json").size() == 1);
  CHECK_THROWS(s.objections(json::parse("1"), "odd.json"));
  CHECK_THROWS(s.objections(json::parse("1"), "missing.json"));
}

TEST_CASE("every verb prints with --json what its schema in docs/schemas says, and docs/json.md lists them all") {
  reader_of_schemas r;
  test_node node;
  this_host(r, node);
  r.run(node, "up");
  const auto p = sessions(r, node);
  tasks(r, node, p);
  workers(r, node);
  locks_and_keys(r, node, p);
  messages_and_news(r, node, p);
  approvals(r, node, p);
  work_trees_and_routines(r, node);
  const auto commands = all_commands(node);
  end_of_a_node(r, node, p);
  hosts(r);

  const auto page = file_text(documents() / "json.md");
  const auto listed = rows_below(page, "Verbs"), without = rows_below(page, "Verbs without JSON");
  CHECK(commands.size() > 80);
  for (const auto& command : commands) {
    CAPTURE(command);
    CHECK(listed.contains(command) != without.contains(command));
  }
  for (const auto& verb : listed) {
    CAPTURE(verb);
    CHECK(r.verbs_run().contains(verb));
    CHECK(page.find("](schemas/" + file_of(verb) + ")") != page.npos);
  }
  std::size_t files = 0;
  for (const auto& entry : fs::directory_iterator{documents() / "schemas"})
    files += entry.path().extension() == ".json";
  CHECK(files == listed.size());
}
