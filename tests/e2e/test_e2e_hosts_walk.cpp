// The walk through two hosts in docs/hosts.md, done as it stands there: on two nodes of this machine, with addresses and directories of theirs.
#include <cstdlib>

#include "tests/support/cluster_of_nodes.hpp"
#include "tests/support/document_walk.hpp"

using namespace swarm::testing;

namespace {

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

/// On a terminal, by a person who knows the passphrase.
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
    REQUIRE(s.host != 0);
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
    auto r = typed(line, host.env, directory);
    // How the link is may be looked at too soon.
    if (line == "swarmctl nodes")
      eventually([&] { return !missing_in(r = typed(line, host.env, directory), wanted); });
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
