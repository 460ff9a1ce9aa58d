// docs/json.md and docs/schemas: every verb is run with --json on real nodes, and what it prints is compared with its schema.
//
// The runs of a verb are in its schema, as x-runs: command lines in the order in which they happen. A run is a text, or an object:
//   run     the words after `swarmctl --json`; '...' keeps words together
//   status  what it ends with; 0 if absent
//   on      the node: absent = a node of all schemas, new = one of this schema that is not up yet, a or b = a home and its member
//   in      the directory it runs in
//   name    what later runs call its answer
// {KEY} is a value of the last answer of this schema that has that key, {NAME.KEY} of the answer with that name. {me} and {you} are sessions,
// {home} is the node's home directory, {repo} a Git repository and {approval} an open approval that no other schema uses.
#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <regex>
#include <set>
#include <utility>

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

/// The first cells of the table in docs/json.md.
std::set<std::string> verbs_without_json() {
  static const std::regex row{R"(^\| `([a-z -]+)` \|.*)"};
  std::set<std::string> out;
  for (const auto& line : lines_of(file_text(documents() / "json.md"))) {
    std::smatch m;
    if (std::regex_match(line, m, row))
      out.insert(m[1]);
  }
  return out;
}

/// The verbs that have a schema, with what it says.
std::map<std::string, json> verbs_with_schema() {
  static const std::regex title{"(?:one line of )?swarmctl ([a-z -]+) --json"};
  std::map<std::string, json> out;
  for (const auto& entry : fs::directory_iterator{documents() / "schemas"}) {
    if (!entry.is_regular_file())
      continue;
    const auto name = entry.path().filename().string();
    CAPTURE(name);
    auto schema = json::parse(file_text(entry.path()));
    const auto text = schema.at("title").get<std::string>();
    std::smatch m;
    REQUIRE(std::regex_match(text, m, title));
    CHECK(name == file_of(m[1]));
    out.emplace(m[1], std::move(schema));
  }
  return out;
}

/// Runs verbs with --json and compares.
class reader_of_schemas {
public:
  /// `line`: the verb, with the command below it, and its words; `status`: what it must end with. Gives the first document.
  json run(const test_node& node, const words& line, int status = 0, const run_options& options = {}) {
    const auto verb = verb_of(line);
    words arguments{"--json"};
    arguments.insert(arguments.end(), line.begin(), line.end());
    const auto r = node.ctl(arguments, options);
    CAPTURE(json(arguments).dump());
    CAPTURE(r.out);
    CAPTURE(r.err);
    CHECK(r.status == status);
    run_.insert(verb);
    json first;
    for (const auto& text : verb == "events" || verb == "chat read" ? lines_of(r.out) : words{r.out}) {
      auto document = json::parse(text, nullptr, false);
      REQUIRE_FALSE(document.is_discarded());
      compare(verb, document, status);
      if (first.is_null())
        first = std::move(document);
    }
    return first;
  }
  /// Since the last call of this.
  std::set<std::string> verbs_run() { return std::exchange(run_, {}); }

private:
  std::string verb_of(const words& line) const {
    const auto longer = line.size() > 1 ? line[0] + " " + line[1] : line.at(0);
    return schemas_.has(file_of(longer)) ? longer : line[0];
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

void shell(const test_node& node, const std::string& script, const std::string& directory) {
  auto r = child_process({"/bin/bash", "-ec", script}, node.env({{"GIT_CONFIG_GLOBAL", "/dev/null"}}), directory).finish();
  CAPTURE(r.err);
  REQUIRE(r.status == 0);
}

std::string home_of(const test_node& node) { return node.env().at("HOME"); }

/// A Git repository with a commit, in which there are two routines.
std::string repository(const test_node& node, const std::string& name) {
  const auto path = home_of(node) + "/" + name;
  fs::create_directories(path + "/.swarm/routines");
  std::ofstream{path + "/.swarm/routines/check.toml"}
    << "name = \"check\"\nsummary = \"s\"\n[parameters.file]\nrequired = true\n[[step]]\nid = \"a\"\ntitle = "
       "\"A ${file}\"\n[[step]]\nid = \"b\"\ntitle = \"B\"\nneeds = [\"a\"]\nrole = \"reviewer\"\n";
  std::ofstream{path + "/.swarm/routines/bad.toml"} << "name = \"bad\n";
  shell(node,
        "git init -q -b main; git config user.name t; git config user.email t@example.org; echo one >a.txt; git add .; git commit -qm first; "
        "git remote add origin git@example.org:me/" +
          name + ".git",
        path);
  return path;
}

std::string approval(const test_node& node, const std::string& session) {
  node_client client{node};
  auto asks = client.command(session);
  asks.mutable_request_approval()->set_subject("deploy");
  auto made = client.execute(asks);
  REQUIRE(made.has_approval());
  return made.approval().id();
}

/// A home and a member, joined.
struct two_hosts {
  test_node home, member;

  explicit two_hosts(reader_of_schemas& r) {
    const auto secret = home_of(home) + "/passphrase";
    std::ofstream{secret} << "correct horse battery staple\n";
    r.run(home, {"up", "--node-name", "a", "--listen", "127.0.0.1:" + std::to_string(free_ports()), "--passphrase-file", secret});
    const auto token = r.run(home, {"join-token", "create"}).at("token").get<std::string>();
    r.run(member, {"join", token, "--node-name", "b"});
    REQUIRE(eventually([&] { return cluster_of_nodes::link_seen_by(home, "b") == "up" && cluster_of_nodes::link_seen_by(member, "a") == "up"; }));
  }
};

/// What the runs of all schemas share: a node with two sessions and a lock that one holds and the other waits for, and two hosts.
class stage {
public:
  explicit stage(reader_of_schemas& r) : r_(r) {
    r.run(node, {"up"});
    me = session("name:me role:implementer");
    you = session("name:you mode:gateway");
    r.run(node, {"lock", "held.c", "--as", me});
    waits_.emplace(node.ctl_start({"lock", "held.c", "--as", you, "--wait", "600"}));
    REQUIRE(eventually([&] { return node.ctl({"locks"}).out.find("1 waiting") != std::string::npos; }));
  }
  void end() {
    r_.run(node, {"unlock", "held.c", "--as", me});
    CHECK(waits_->finish().status == 0);
  }
  two_hosts& hosts() {
    if (!hosts_)
      hosts_ = std::make_unique<two_hosts>(r_);
    return *hosts_;
  }

  test_node node;
  std::string me, you;

private:
  std::string session(const std::string& label) { return r_.run(node, {"register", "--label", label, "--lease-seconds", "600"}).at("id"); }
  reader_of_schemas& r_;
  std::optional<child_process> waits_;
  std::unique_ptr<two_hosts> hosts_;
};

/// The words of a command line, where '...' is one word.
words words_of(const std::string& line) {
  static const std::regex word{"'([^']*)'|([^ ']+)"};
  words out;
  for (std::sregex_iterator i{line.begin(), line.end(), word}, end; i != end; ++i)
    out.push_back((*i)[(*i)[1].matched ? 1 : 2]);
  return out;
}

/// The runs of one schema.
class schema_runs {
public:
  schema_runs(stage& s, reader_of_schemas& r, std::string verb) : stage_(s), r_(r), verb_(std::move(verb)) {}

  void run(const json& step) {
    const json with = step.is_string() ? json{{"run", step}} : step;
    for (const auto& [key, unused] : with.items())
      REQUIRE_MESSAGE(std::set<std::string>({"run", "status", "on", "in", "name"}).contains(key), verb_, ": x-runs has ", key);
    const auto& node = node_called(with.value("on", ""));
    auto line = words_of(with.at("run"));
    for (auto& word : line)
      word = filled_in(word, node);
    const run_options options{.directory = filled_in(with.value("in", ""), node)};
    auto answer = r_.run(node, line, with.value("status", 0), options);
    if (line.front() == "join")
      REQUIRE(eventually([&] { return cluster_of_nodes::link_seen_by(node, "a") == "up"; }));
    if (with.contains("name"))
      named_[with["name"]] = answer;
    if (answer.is_object())
      last_.update(answer);
  }

private:
  test_node& node_called(const std::string& name) {
    if (name.empty())
      return stage_.node;
    if (name == "a" || name == "b")
      return name == "a" ? stage_.hosts().home : stage_.hosts().member;
    REQUIRE(name == "new");
    if (!new_)
      new_ = std::make_unique<test_node>();
    return *new_;
  }
  std::string filled_in(const std::string& text, const test_node& node) {
    static const std::regex placeholder{R"(\{([a-z_]+)(?:\.([a-z_]+))?\})"};
    std::string out;
    auto rest = text.begin();
    for (std::sregex_iterator i{text.begin(), text.end(), placeholder}, end; i != end; ++i) {
      out.append(rest, text.begin() + i->position());
      out += (*i)[2].matched ? text_of(named_.at((*i)[1]), (*i)[2]) : value_of((*i)[1], node);
      rest = text.begin() + i->position() + i->length();
    }
    return out.append(rest, text.end());
  }
  std::string value_of(const std::string& name, const test_node& node) {
    if (name == "me")
      return stage_.me;
    if (name == "you")
      return stage_.you;
    if (name == "home")
      return home_of(node);
    if (name == "approval" || name == "repo") {
      auto& made = made_[name];
      if (made.empty())
        made = name == "repo" ? repository(node, file_of(verb_) + ".repo") : approval(stage_.node, stage_.me);
      return made;
    }
    return text_of(last_, name);
  }
  std::string text_of(const json& answer, const std::string& key) const {
    REQUIRE_MESSAGE(answer.contains(key), verb_, ": no run before has answered with ", key);
    return answer[key].is_string() ? answer[key].get<std::string>() : answer[key].dump();
  }

  stage& stage_;
  reader_of_schemas& r_;
  std::string verb_;
  std::unique_ptr<test_node> new_;
  std::map<std::string, std::string> made_;
  std::map<std::string, json> named_;
  json last_ = json::object();
};

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

TEST_CASE("every verb prints with --json what its schema in docs/schemas says, or docs/json.md says why it has none") {
  const auto with = verbs_with_schema();
  const auto without = verbs_without_json();
  reader_of_schemas r;
  stage s{r};
  const auto commands = all_commands(s.node);
  CHECK(commands.size() > 80);
  for (const auto& command : commands) {
    CAPTURE(command);
    CHECK_MESSAGE(with.contains(command) != without.contains(command), "docs/schemas/", file_of(command), " is missing, or docs/json.md is wrong");
  }
  for (const auto& [verb, schema] : with) {
    CAPTURE(verb);
    schema_runs runs{s, r, verb};
    r.verbs_run();
    for (const auto& step : schema.at("x-runs"))
      runs.run(step);
    CHECK_MESSAGE(r.verbs_run().contains(verb), "no run of its x-runs is its own");
  }
  s.end();
}
