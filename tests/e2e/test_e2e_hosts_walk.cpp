// The walk through two hosts in docs/hosts.md, done as it stands there: on two nodes of this machine, with addresses and directories of theirs.
#include <algorithm>
#include <cstdlib>
#include <optional>
#include <regex>

#include "tests/support/cluster_of_nodes.hpp"

using namespace swarm::testing;

namespace {

/// A line that a person types on a host, in a directory of theirs, and lines that come of it.
struct step {
  char host;
  std::string directory; // below the home directory; empty: anywhere
  std::string line;
  std::vector<std::string> output;
};

/// Of the blocks ```console below this headline. Throws where there is something that nobody would do or see.
std::vector<step> steps_of(const std::string& document, const std::string& headline) {
  static const std::regex typed{R"(([ab])(?::~/(\S+))?\$ (.+))"};
  std::vector<step> out;
  auto below = false, inside = false;
  for (const auto& line : lines_of(document)) {
    if (!inside && line.starts_with("## "))
      below = line == "## " + headline;
    if (!below)
      continue;
    std::smatch m;
    if (line.starts_with("```")) {
      if (!inside && line != "```console")
        throw std::runtime_error("a block of the walk that is not done: " + line);
      inside = !inside;
    } else if (inside && std::regex_match(line, m, typed)) {
      out.push_back({m[1].str()[0], m[2], m[3], {}});
    } else if (inside && out.empty()) {
      throw std::runtime_error("output before anything was typed: " + line);
    } else if (inside) {
      out.back().output.push_back(line);
    }
  }
  return out;
}

std::string replaced(std::string text, const std::string& what, const std::string& with) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += with.size())
    text.replace(at, what.size(), with);
  return text;
}

/// Columns are as wide as what is in them.
std::string with_single_blanks(const std::string& text) { return std::regex_replace(text, std::regex{" +"}, " "); }

/// "…" stands for anything.
bool fits(const std::string& line, const std::string& documented) {
  auto pattern = std::regex_replace(with_single_blanks(documented), std::regex{R"([\^$\\.*+?()\[\]{}|])"}, R"(\$&)");
  return std::regex_match(with_single_blanks(line), std::regex{replaced(pattern, "…", ".*")});
}

/// The first documented line that did not come, in order.
std::optional<std::string> missing_in(const run_result& r, const std::vector<std::string>& documented) {
  const auto lines = lines_of(r.out + r.err);
  auto at = lines.begin();
  for (const auto& wanted : documented) {
    at = std::find_if(at, lines.end(), [&](const std::string& line) { return fits(line, wanted); });
    if (at == lines.end())
      return wanted;
    ++at;
  }
  return std::nullopt;
}

/// A host as the walk takes it to be: with our programs on its path, and a checkout.
struct walked_host {
  test_node node;
  environment env = node.env();
  walked_host() {
    env["PATH"] = program("swarmctl").parent_path().string() + ":" + env["PATH"];
    auto git = below_home("game/.git");
    fs::create_directories(git);
    std::ofstream{git + "/config"} << "[remote \"origin\"]\n\turl = git@github.com:me/game.git\n";
  }
  std::string below_home(const std::string& path) const { return env.at("HOME") + "/" + path; }
};

run_result typed(const walked_host& host, const std::string& directory, const std::string& line) {
  return child_process({"/bin/bash", "-c", line}, host.env, directory).finish();
}

/// On a terminal, by whoever knows the passphrase.
std::string typed_with_passphrase(const walked_host& host, const std::string& line) {
  terminal_process person{{"/bin/bash", "-c", line}, host.env, host.node.work()};
  for (const auto* question : {"New passphrase for the cluster's authority: ", "Once more: "}) {
    REQUIRE_MESSAGE(person.read_until(question), person.screen());
    // The question is there before what is typed is hidden.
    REQUIRE(eventually([&] { return (person.modes().c_lflag & ECHO) == 0; }));
    person.type("correct horse battery staple\n");
  }
  auto status = person.finish();
  REQUIRE_MESSAGE(status == 0, person.screen());
  CHECK(person.screen().find("horse") == std::string::npos);
  return person.screen();
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

TEST_CASE("the walk through two hosts in docs/hosts.md works as it is written") {
  auto* source = std::getenv("SWARM_SOURCE_DIR");
  REQUIRE(source != nullptr);
  const auto steps = steps_of(file_text(fs::path{source} / "docs/hosts.md"), "Two hosts in five minutes");
  walked_host a, b;
  temp_dir srv;
  const auto game = srv.text() + "/game", make = game + "/make";
  fs::create_directories(game);
  std::ofstream{make} << "#!/bin/sh\necho \"made $1 in $PWD\"\n";
  fs::permissions(make, fs::perms::owner_all);
  // What is another one here than in the document.
  std::vector<std::pair<std::string, std::string>> ours{
    {"10.0.0.1:7400", "127.0.0.1:" + std::to_string(free_ports())}, {"/srv/game", game}, {"make test", make + " test"}};
  auto here = [&](std::string text) {
    for (const auto& [documented, our] : ours)
      text = replaced(text, documented, our);
    return text;
  };

  std::size_t done_on_a = 0, looked_at = 0;
  for (const auto& s : steps) {
    const auto& host = s.host == 'a' ? a : b;
    auto line = here(s.line);
    std::vector<std::string> wanted;
    for (const auto& o : s.output)
      wanted.push_back(here(o));
    CAPTURE(s.host);
    CAPTURE(line);
    done_on_a += s.host == 'a';
    looked_at += wanted.size();
    if (line.starts_with("swarmctl up ")) {
      auto screen = typed_with_passphrase(host, line);
      CAPTURE(screen);
      CHECK(screen.find("encrypted with its passphrase. It is shown once") != std::string::npos);
      continue;
    }
    auto directory = s.directory.empty() ? host.node.work() : host.below_home(s.directory);
    auto r = typed(host, directory, line);
    // How the link is may be looked at too soon.
    if (line == "swarmctl nodes")
      eventually([&] { return !missing_in(r = typed(host, directory, line), wanted); });
    CAPTURE(r.out);
    CAPTURE(r.err);
    REQUIRE(r.status == 0);
    auto missing = missing_in(r, wanted);
    REQUIRE_MESSAGE(!missing, "it does not say: ", *missing);
    if (line == "swarmctl join-token create")
      ours.emplace_back("swarm-join-1.…", last_line(r.out));
  }
  // It has not become another walk, or none.
  CHECK(done_on_a >= 5);
  CHECK(steps.size() - done_on_a >= 5);
  CHECK(looked_at >= 8);
  CHECK(a.node.ctl_json({"nodes"})["nodes"].size() == 2);
}
