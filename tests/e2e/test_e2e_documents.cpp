// What the documents tell people to type or to copy works as it stands there.
#include <cstdlib>
#include <fstream>

#include <doctest/doctest.h>

#include "tests/support/document_walk.hpp"
#include "tests/support/node_process.hpp"

using namespace swarm::testing;

namespace {

fs::path documents() {
  const auto* source = std::getenv("SWARM_SOURCE_DIR");
  REQUIRE(source != nullptr);
  return fs::path{source} / "docs";
}

/// With our programs on the path, as after an installation; further directories go before them.
environment at_a_shell(const test_node& node, const std::string& first = {}) {
  auto env = node.env();
  env["PATH"] = (first.empty() ? "" : first + ":") + program("swarmctl").parent_path().string() + ":" + env["PATH"];
  return env;
}

void write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream{path} << text;
}

run_result must(const std::string& line, const environment& env, const std::string& directory) {
  auto r = typed(line, env, directory);
  CAPTURE(line);
  CAPTURE(r.out);
  CAPTURE(r.err);
  REQUIRE(r.status == 0);
  return r;
}

/// The lines that the head of a script says it prints.
std::vector<std::string> promised_by(const std::string& script) {
  std::vector<std::string> out;
  auto inside = false;
  for (const auto& line : lines_of(script)) {
    const std::string mark = "#   ";
    if (inside && !line.starts_with(mark))
      break;
    if (inside)
      out.push_back(line.substr(mark.size()));
    inside = inside || line == "# Prints:";
  }
  return out;
}

} // namespace

TEST_CASE("what a walk says is found in it, and what does not come of it is seen") {
  const auto steps =
    steps_of("## Other\n```sh\nx\n```\n## Walk\nOn a:\n```console\na$ one\n out …\nb:~/game$ two --x \"a b\"\n```\n## Next\n```sh\ny\n```\n", "Walk");
  REQUIRE(steps.size() == 2);
  CHECK(steps[0].host == 'a');
  CHECK(steps[0].line == "one");
  CHECK(steps[0].output == std::vector<std::string>{" out …"});
  CHECK(steps[1].host == 'b');
  CHECK(steps[1].directory == "game");
  CHECK(steps[1].line == "two --x \"a b\"");
  CHECK(steps_of("## Walk\n```console\n$ three\n```\n", "Walk").at(0).host == 0);
  CHECK_THROWS(steps_of("## Walk\n```sh\nswarmctl up\n```\n", "Walk"));
  CHECK_THROWS(steps_of("## Walk\n```console\nswarmctl up\n```\n", "Walk"));
  const run_result r{.status = 0, .out = "  NODE   LINK\n  a (home)  up 3.0 ms  x.y\n", .err = "note\n"};
  CHECK(!missing_in(r, {"  a (home)   up …   x.y", "note"}));
  CHECK(!missing_in(r, {}));
  CHECK(missing_in(r, {"  a (home)  up …  x.y", "  NODE LINK"}) == "  NODE LINK"); // in another order
  CHECK(missing_in(r, {"  a (home)  down  x.y"}) == "  a (home)  down  x.y");
  CHECK(missing_in(r, {"  a (home)  up …  xzy"}) == "  a (home)  up …  xzy");
  CHECK(missing_in(r, {"NODE"}) == "NODE");
}

TEST_CASE("docs/uninstall.md takes out what was put in, and leaves a home as it was") {
  const auto steps = steps_of(file_text(documents() / "uninstall.md"), "Step by step");
  test_node node{".local/state/swarm"};
  const fs::path home = node.env().at("HOME");
  temp_dir agents;
  for (const auto* agent : {"claude", "codex"}) {
    write(agents.path() / agent, "#!/bin/sh\n");
    fs::permissions(agents.path() / agent, fs::perms::owner_all);
  }
  const auto env = at_a_shell(node, agents.text());
  const std::string settings = "{\"theme\": \"dark\"}\n";
  write(home / ".claude/settings.json", settings);

  must("git init -q . && git -c user.name=t -c user.email=t@example.org commit -q --allow-empty -m first", env, node.work());
  must("swarmctl install --yes && swarmctl context set lab --state-dir /tmp/lab", env, node.work());
  must("swarmctl dispatch hello --worktree -- true", env, node.work());
  REQUIRE(file_text(home / ".claude/settings.json") != settings);
  REQUIRE(fs::exists(home / ".codex/config.toml"));

  for (const auto& s : steps) {
    CAPTURE(s.line);
    auto r = must(s.line, env, node.work());
    CAPTURE(r.out);
    auto missing = missing_in(r, s.output);
    REQUIRE_MESSAGE(!missing, "it does not say: ", *missing);
  }
  CHECK(steps.size() >= 7);
  CHECK(node.node_pid() == 0);
  std::vector<std::string> left;
  for (const auto& entry : fs::recursive_directory_iterator{home})
    if (entry.is_regular_file() && !entry.path().string().starts_with(node.work()))
      left.push_back(fs::relative(entry.path(), home));
  CHECK(left == std::vector<std::string>{".claude/settings.json"});
  CHECK(file_text(home / ".claude/settings.json") == settings);
}

TEST_CASE("docs/hooks.md has each event to try by hand, with what the hook answers") {
  const auto steps = steps_of(file_text(documents() / "hooks.md"), "Each event by hand");
  test_node node;
  const auto env = at_a_shell(node);
  std::string events;
  for (const auto& s : steps) {
    CAPTURE(s.line);
    auto r = must(s.line, env, node.work());
    CAPTURE(r.out);
    CHECK_MESSAGE(r.err.empty(), r.err);
    auto missing = missing_in(r, s.output);
    CHECK_MESSAGE(!missing, "it does not say: ", *missing);
    const std::string hook = " | swarmctl hook claude ";
    if (auto at = s.line.find(hook); at != s.line.npos) {
      events += s.line.substr(at + hook.size()) + " ";
      CHECK(s.output.empty() == r.out.empty());
    }
  }
  for (const auto* event : {"session-start", "prompt-submit", "pre-tool-use", "post-tool-use", "notification", "stop", "session-end"})
    CHECK_MESSAGE(events.find(event) != events.npos, event);
}

TEST_CASE("every script of docs/examples does what its head says, leaves nothing behind, and is in the list") {
  CHECK(promised_by("#!/bin/sh\n# Shows.\n#\n# Prints:\n#   a …\n#   b\nset -eu\n#   c\n") == std::vector<std::string>{"a …", "b"});
  const auto list = file_text(documents() / "examples/README.md");
  std::size_t scripts = 0;
  for (const auto& entry : fs::directory_iterator{documents() / "examples"}) {
    if (entry.path().extension() != ".sh")
      continue;
    ++scripts;
    const auto name = entry.path().filename().string();
    CAPTURE(name);
    CHECK(list.find("](" + name + ")") != list.npos);
    const auto promised = promised_by(file_text(entry.path()));
    CHECK(promised.size() >= 3);
    test_node node;
    temp_dir scratch;
    auto env = at_a_shell(node);
    env["TMPDIR"] = scratch.text();
    auto r = must(entry.path().string(), env, node.work());
    CAPTURE(r.out);
    auto missing = missing_in(r, promised);
    CHECK_MESSAGE(!missing, "it does not print: ", missing.value_or(""));
    CHECK(node.ctl_json({"instances"}).empty());
    CHECK(fs::is_empty(scratch.path()));
  }
  CHECK(scripts >= 4);
}
