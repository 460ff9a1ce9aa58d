// Profile files: what they say, whose variables win, and what of it reaches a worker.
#include <filesystem>
#include <fstream>

#include <doctest/doctest.h>

#include "actors/base/crypto.hpp"
#include "actors/base/limits.hpp"
#include "cli/profile.hpp"
#include "tests/unit/cli/fake_node.hpp"

using namespace swarm;
using namespace swarm::cli;

namespace {

/// A directory of profile files, gone with the test.
struct profile_files {
  profile_files() { std::filesystem::create_directories(dir); }
  ~profile_files() {
    std::error_code ignored;
    std::filesystem::remove_all(dir, ignored);
  }
  void write(const std::string& name, const std::string& text) const { std::ofstream{dir / (name + ".env")} << text; }

  std::filesystem::path dir = std::filesystem::temp_directory_path() / ("swarm-profiles-" + random_uuid());
};

std::string value_of(const environment_list& list, const std::string& name) {
  std::string out;
  for (const auto& [n, value] : list)
    if (n == name)
      out += out.empty() ? value : " and again " + value;
  return out;
}

struct profile_world : profile_files {
  profile_world() {
    ctl.node.on_command = [](const v1::Command& c) {
      v1::Reply r;
      if (c.has_dispatch())
        r.mutable_dispatch()->set_status(v1::DispatchReply::NO_WORKER);
      return r;
    };
  }
  /// Spawns a worker under these variables; the environment it was asked for with.
  int spawn(variables values, std::vector<std::string> words) {
    values.emplace("SWARM_MCP_PROFILE_DIR", dir.string());
    ctl.env = environment{std::move(values)};
    words.insert(words.begin(), "spawn");
    return ctl(words);
  }
  const v1::RequestSpawn& asked() const { return ctl.node.commands.back().request_spawn(); }
  std::string given(const std::string& name) const { return value_of(ctl.node.last_environment, name); }

  test::cli ctl;
};

} // namespace

TEST_CASE("a profile is lines of assignments, and everything else in it is passed over") {
  auto read = [](const std::string& text) { return parse_profile(text, environment{{{"HOME", "/home/ada"}, {"SET", "outer"}, {"EMPTY", ""}}}); };
  CHECK(read("").empty());
  CHECK(read("# A=1\n\n  \nnot a line\n=x\n1A=x\nA-B=x\nexport\n").empty());
  auto v = read("A=1\n  export B = two words \r\nC=\"q\"\nD='q'\nE=\"q'\nF=\nA=2\nG=x#y\nexported=1");
  CHECK(v == variables{{"A", "2"}, {"B", "two words"}, {"C", "q"}, {"D", "q"}, {"E", "\"q'"}, {"F", ""}, {"G", "x#y"}, {"exported", "1"}});
  v = read("A=$HOME/a\nB=${HOME}/b\nC=${NONE:-d}\nD=${SET:-d}\nE=${EMPTY:-$A/e}\nF=$NONE.${NONE}.\nSET=inner\nG=$SET\nH=$ ${ $1 $");
  CHECK(v["A"] == "/home/ada/a");
  CHECK(v["B"] == "/home/ada/b");
  CHECK(v["C"] == "d");
  CHECK(v["D"] == "outer");
  CHECK(v["E"] == "/home/ada/a/e");
  CHECK(v["F"] == "..");
  CHECK(v["G"] == "inner");
  CHECK(v["H"] == "$ ${ $1 $");
}

TEST_CASE("values of a profile do not grow without end") {
  std::string text = "A0=0123456789\n";
  for (int i = 1; i < 40; ++i)
    text += "A" + std::to_string(i) + "=$A" + std::to_string(i - 1) + "$A" + std::to_string(i - 1) + "\n";
  CHECK_THROWS_AS(parse_profile(text, {}), failure);
  profile_world w;
  w.write("work", std::string(limits::profile_bytes_max, '#') + "\n");
  CHECK(w.spawn({{"AGENT_IDENTITY", "work"}}, {"--harness", "claude"}) == code::refused);
  CHECK(w.ctl.screen.err.find("64 KiB") != std::string::npos);
  CHECK(w.ctl.node.commands.empty());
}

TEST_CASE("profiles lie where the variables say, else below the home directory") {
  auto at = [](variables v) { return profile_directory(environment{std::move(v)}); };
  CHECK(at({{"SWARM_MCP_PROFILE_DIR", "/p"}, {"XDG_CONFIG_HOME", "/x"}, {"HOME", "/h"}}) == "/p");
  CHECK(at({{"XDG_CONFIG_HOME", "/x"}, {"HOME", "/h"}}) == "/x/swarm-mcp");
  CHECK(at({{"HERMES_HOST_HOME", "/hermes"}, {"SWARM_HOST_HOME", "/swarm"}, {"HOME", "/h"}}) == "/hermes/.config/swarm-mcp");
  CHECK(at({{"SWARM_HOST_HOME", "/swarm"}, {"HOME", "/h"}}) == "/swarm/.config/swarm-mcp");
  CHECK(at({{"HOME", "/h"}}) == "/h/.config/swarm-mcp");
  CHECK(at({}).empty());
}

TEST_CASE("one's own variables win over one's profile, and the profile of another identity wins over them") {
  profile_world w;
  w.write("work", "SWARM_HARNESS_CLAUDE=of-profile\n");
  CHECK(w.spawn({{"AGENT_IDENTITY", "work"}}, {"--harness", "claude"}) == code::ok);
  CHECK(w.given("SWARM_HARNESS_CLAUDE") == "of-profile");
  CHECK(w.spawn({{"SWARM_IDENTITY", "identity:work"}, {"SWARM_HARNESS_CLAUDE", "of-process"}}, {"--harness", "claude"}) == code::ok);
  CHECK(w.given("SWARM_HARNESS_CLAUDE") == "of-process");
  w.ctl.node.on_query = [](const v1::Query&) {
    v1::Answer a;
    *a.mutable_session() = test::session("I1", "role:planner identity:work");
    return a;
  };
  variables other{{"AGENT_IDENTITY", "home"}, {"SWARM_HARNESS_CLAUDE", "of-process"}};
  CHECK(w.spawn(other, {"--harness", "claude", "--as", "I1"}) == code::ok);
  CHECK(w.ctl.node.commands.back().actor() == "I1");
  CHECK(w.given("SWARM_HARNESS_CLAUDE") == "of-profile");
  CHECK(w.spawn(other, {"--harness", "claude"}) == code::ok);
  CHECK(w.given("SWARM_HARNESS_CLAUDE") == "of-process");
  // Nobody's identity, or one that cannot name a file: the process's own variables.
  CHECK(w.spawn({{"SWARM_HARNESS_CLAUDE", "of-process"}}, {"--harness", "claude"}) == code::ok);
  CHECK(w.given("SWARM_HARNESS_CLAUDE") == "of-process");
  CHECK(w.spawn({{"AGENT_IDENTITY", "../work"}}, {"--harness", "claude"}) == code::ok);
  CHECK(w.given("SWARM_HARNESS_CLAUDE").empty());
}

TEST_CASE("a launcher's name means its agent, whichever profile it stands in") {
  profile_world w;
  w.write("work", "export SWARM_HARNESS_CLAUDE='claude-work'\n");
  w.write("home", "SWARM_HARNESS_CLAUDE=claude-home\nSWARM_HARNESS_CODEX=codex-home\n");
  w.write("broken", "SWARM_HARNESS_CODEX=" + std::string(limits::profile_value_bytes_max + 1, 'x') + "\n");
  auto harness = [&](const std::string& name) {
    CHECK(w.spawn({{"AGENT_IDENTITY", "work"}}, {"--harness", name}) == code::ok);
    return w.asked().harness();
  };
  CHECK(harness("claude-work") == "claude");
  CHECK(harness("claude-home") == "claude");
  CHECK(w.given("SWARM_HARNESS_CLAUDE") == "claude-work"); // the program is that of the worker's identity
  CHECK(harness("codex-home") == "codex");
  CHECK(w.given("SWARM_HARNESS_CODEX").empty());
  CHECK(harness("vim") == "vim"); // the node says what it thinks of it
  CHECK(w.spawn({}, {"--harness", "claude-work"}) == code::ok);
  CHECK(w.asked().harness() == "claude-work");
  CHECK(w.ctl({"dispatch", "think", "--harness", "claude-work"}) == code::ok);
  CHECK(w.ctl.node.commands.back().dispatch().harness() == "claude-work");
  w.ctl.env = environment{{{"AGENT_IDENTITY", "work"}, {"SWARM_MCP_PROFILE_DIR", w.dir.string()}}};
  CHECK(w.ctl({"dispatch", "think", "--harness", "claude-home"}) == code::ok);
  CHECK(w.ctl.node.commands.back().dispatch().harness() == "claude");
  CHECK(w.given("SWARM_HARNESS_CLAUDE") == "claude-work");
}

TEST_CASE("a worker outside its identity's roots is refused before anything is asked") {
  profile_world w;
  w.write("my-work", "SWARM_MCP_MY_WORK_ROOTS=$BASE/a:/w\n");
  auto spawn = [&](const std::string& directory, std::vector<std::string> words = {"--", "make"}) {
    words.insert(words.begin(), {"--directory", directory});
    return w.spawn({{"AGENT_IDENTITY", "my-work"}, {"BASE", "/base"}}, words);
  };
  CHECK(spawn("/base/a/src") == code::ok);
  CHECK(w.given("SWARM_MCP_MY_WORK_ROOTS") == "/base/a:/w"); // the worker is held to them as well
  CHECK(spawn("/w", {"--harness", "claude"}) == code::ok);
  auto sent = w.ctl.node.commands.size();
  CHECK(spawn("/base/b") == code::refused);
  CHECK(w.ctl.screen.err == "swarmctl spawn: Registration blocked: identity:my-work directory must be under one of /base/a, /w. "
                            "Set SWARM_MCP_MY_WORK_ROOTS to override.\n");
  CHECK(spawn("/wide", {"--harness", "claude"}) == code::refused);
  CHECK(w.ctl({"dispatch", "x", "--directory", "/base/b", "--", "make"}) == code::refused);
  CHECK(w.ctl.node.commands.size() == sent);
  // Nobody is started there.
  CHECK(w.ctl({"dispatch", "x", "--directory", "/base/b", "--harness", "claude", "--no-spawn"}) == code::ok);
  CHECK(w.ctl({"dispatch", "x", "--directory", "/base/b"}) == code::ok);
  // An identity that only the worker's label names applies as well.
  variables nobody{{"SWARM_MCP_OTHER_ROOTS", "/w"}};
  CHECK(w.spawn(nobody, {"--directory", "/base", "--label", "identity:other", "--", "make"}) == code::refused);
  CHECK(w.spawn(nobody, {"--directory", "/base", "--", "make"}) == code::ok);
}
