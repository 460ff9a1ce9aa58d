// A file of a scope that hosts share has one name at a time, so that it has one holder: whoever speaks, by whichever link, and whatever is shared.
#include "tests/support/cluster_of_nodes.hpp"

using namespace swarm::testing;

namespace {

/// A repository's working tree, as far as anybody here looks at it.
std::string clone_at(const std::string& root, const std::string& remote = "https://host.example/me/game") {
  fs::create_directories(root + "/.git");
  fs::create_directories(root + "/src");
  if (!remote.empty())
    std::ofstream{root + "/.git/config"} << "[remote \"origin\"]\n\turl = " << remote << "\n";
  std::ofstream{root + "/src/x.c"} << "int x;\n";
  return root;
}

const std::string game = "git:host.example/me/game";

std::vector<std::string> in_game(std::vector<std::string> line) {
  line.insert(line.begin(), {"--scope", "game"});
  return line;
}

/// One host, in a cluster of its own, with a person who works outside of any repository.
struct one_host {
  cluster_of_nodes c;
  temp_dir trees;
  std::string tools = trees.text() + "/tools", root = clone_at(trees.text() + "/game");
  one_host() { fs::create_directories(tools); }
  run_result in(const std::string& directory, std::vector<std::string> line) {
    return c.home.ctl(in_game(std::move(line)), {.directory = directory});
  }
  void registers(const std::string& label) { REQUIRE(in(tools, {"register", "--label", label, "--lease-seconds", "600"}).status == 0); }
};

void is_refused(const run_result& r, const std::string& why) {
  CHECK(r.status == 1);
  CHECK_MESSAGE(r.err.find(why) != std::string::npos, (r.out + r.err));
}

} // namespace

TEST_CASE("a directory does not become a checkout while a file of it is locked by the name that it would lose") {
  one_host w;
  const auto file = w.root + "/src/x.c";
  w.registers("name:ann");
  w.registers("name:bob");
  REQUIRE(w.in(w.tools, {"lock", file, "--as", "name:ann"}).status == 0);
  is_refused(w.in(w.root, {"scope", "share", "--as", "game"}), file + " by name:ann");
  is_refused(w.in(w.root, {"register", "--label", "name:cid", "--lease-seconds", "600"}), "name:ann holds " + file);
  CHECK(w.c.home.ctl_json({"scope", "list"})["scopes"][0]["checkouts"].empty());
  CHECK(w.in(w.root, {"lock", file, "--as", "name:bob"}).status == 1);
  REQUIRE(w.in(w.tools, {"unlock", file, "--as", "name:ann"}).status == 0);
  // So is what lies around it.
  REQUIRE(w.in(w.tools, {"lock", w.trees.text(), "--as", "name:ann"}).status == 0);
  is_refused(w.in(w.root, {"scope", "share", "--as", "game"}), w.trees.text() + " by name:ann");
  is_refused(w.in(w.root, {"register", "--label", "name:cid", "--lease-seconds", "600"}), "name:ann holds " + w.trees.text());
  REQUIRE(w.in(w.tools, {"unlock", w.trees.text(), "--as", "name:ann"}).status == 0);
  REQUIRE(w.in(w.root, {"register", "--label", "name:cid", "--lease-seconds", "600"}).status == 0);
  REQUIRE(w.in(w.tools, {"lock", file, "--as", "name:ann"}).status == 0);
  CHECK(w.in(w.root, {"lock", "src/x.c", "--as", "name:cid"}).status == 1);
  is_refused(w.in(w.tools, {"lock", w.trees.text(), "--as", "name:bob"}), "contains " + w.root);
}

TEST_CASE("a checkout is not taken back while somebody holds a file of it") {
  one_host w;
  w.registers("name:ann");
  REQUIRE(w.in(w.root, {"scope", "share", "--as", "game"}).status == 0);
  REQUIRE(w.in(w.tools, {"lock", w.root + "/src/x.c", "--as", "name:ann"}).status == 0);
  is_refused(w.in(w.root, {"scope", "unshare"}), "src/x.c by name:ann");
  // What lies elsewhere keeps its name.
  REQUIRE(w.in(w.tools, {"lock", w.tools + "/y", "--as", "name:ann"}).status == 0);
  REQUIRE(w.in(w.tools, {"unlock", w.root + "/src/x.c", "--as", "name:ann"}).status == 0);
  CHECK(w.in(w.root, {"scope", "unshare"}).status == 0);
}

TEST_CASE("only the root of a repository is shared, and in one scope only checkouts of one") {
  one_host w;
  auto share = [&](const std::string& directory, const std::string& scope) { return w.c.home.ctl({"scope", "share", directory, "--as", scope}); };
  is_refused(share(w.trees.text() + "/nowhere", "other"), "is no directory");
  is_refused(share(w.root + "/src/x.c/y", "other"), "is no directory");
  is_refused(share(w.tools, "other"), "is not the root of a git repository");
  const auto plain = clone_at(w.trees.text() + "/plain", ""), foreign = clone_at(w.trees.text() + "/foreign", "https://host.example/me/foreign");
  for (const auto& other : {plain, foreign})
    is_refused(share(other, game), "no checkout of " + game);
  REQUIRE(share(w.root, "game").status == 0);
  for (const auto& other : {plain, foreign})
    is_refused(share(other, "game"), "of game has the remote host.example/me/game");
  // Nor does another repository take the place of one.
  clone_at(w.root, "https://host.example/me/foreign");
  is_refused(share(w.root, "game"), "`swarmctl scope unshare " + w.root + "` first");
  REQUIRE(w.c.home.ctl({"scope", "unshare", w.root}).status == 0);
  CHECK(share(w.root, "game").status == 0);
  CHECK(share(plain, "alone").status == 0);
}

namespace {

struct two_hosts {
  cluster_of_nodes c;
  test_node b;
  temp_dir trees;
  std::string here = clone_at(trees.text() + "/here"), there = clone_at(trees.text() + "/there");
  two_hosts() { c.join(b, "b"); }
  void share() {
    REQUIRE(c.home.ctl({"scope", "share", here}).status == 0);
    REQUIRE(b.ctl({"scope", "share", there}).status == 0);
  }
};

std::string session_in(const test_node& node, const std::string& directory, const std::string& label) {
  return node.ctl_json({"register", "--label", label, "--lease-seconds", "600"}, {.directory = directory})["id"];
}

} // namespace

TEST_CASE("who speaks for a session of another host names no file by a symbolic link, which only that host can follow") {
  two_hosts w;
  w.share();
  session_in(w.c.home, w.here, "name:ann");
  session_in(w.b, w.there, "name:bob");
  session_in(w.b, w.there, "name:cid");
  for (const auto& root : {w.here, w.there}) {
    fs::create_symlink("src/x.c", root + "/link.c");
    fs::create_directory_symlink("src", root + "/lsrc");
  }
  REQUIRE(w.b.ctl({"lock", "src/x.c", "--as", "name:cid"}, {.directory = w.there}).status == 0);
  auto on_a = [&](const std::string& verb, const std::string& file, const std::string& who = "name:bob") {
    return w.c.home.ctl({verb, file, "--as", who}, {.directory = w.here});
  };
  for (const auto& name : {"link.c", "lsrc/x.c"})
    for (const auto& file : {std::string{name}, w.there + "/" + name})
      is_refused(on_a("lock", file), "name what it stands for here, src/x.c");
  is_refused(on_a("lock", "lsrc"), "name what it stands for here, src");
  // Of a file of its own, this host knows it.
  is_refused(on_a("lock", w.here + "/link.c"), "held by name:cid");
  CHECK(w.c.home.ctl_json({"locks"}, {.directory = w.here}).size() == 1);
  REQUIRE(w.b.ctl({"unlock", "src/x.c", "--as", "name:cid"}, {.directory = w.there}).status == 0);
  CHECK(on_a("lock", "src/x.c").status == 0);
  CHECK(on_a("unlock", "src/x.c").status == 0);
  CHECK(on_a("lock", w.here + "/lsrc/x.c").out == "locked " + w.here + "/src/x.c\n");
  CHECK(on_a("lock", "link.c", "name:ann").status == 1);
}

TEST_CASE("a host without a checkout, which cannot know the symbolic links, locks no file for a session of another host") {
  two_hosts w;
  REQUIRE(w.b.ctl({"scope", "share", w.there}).status == 0);
  session_in(w.b, w.there, "name:bob");
  is_refused(w.c.home.ctl({"--scope", game, "lock", "src/x.c", "--as", "name:bob"}), "this host has no checkout of " + game);
  CHECK(w.c.home.ctl({"--scope", game, "lock", "/__swarm/gate", "--as", "name:bob"}).status == 0);
}

TEST_CASE("a file is not locked by the name that it has in a worktree of another host") {
  two_hosts w;
  w.share();
  session_in(w.c.home, w.here, "name:ann");
  session_in(w.b, w.there, "name:bob");
  for (const auto* verb : {"lock", "unlock"})
    is_refused(w.c.home.ctl({verb, w.there + ".worktrees/1/src/x.c", "--as", "name:ann"}, {.directory = w.here}),
               "On host b it lies in a worktree of the checkout " + w.there);
}

TEST_CASE("a worker that was asked for in a second clone works in no directory of that path on another host") {
  two_hosts w;
  w.share();
  const auto second = clone_at(w.trees.text() + "/zweit");
  REQUIRE(w.b.ctl({"scope", "share", second}).status == 0);
  REQUIRE(eventually([&] { return cluster_of_nodes::row_seen_by(w.c.home, "b")["checkouts"].size() == 1; }));
  auto where = [&](const test_node& node, std::vector<std::string> line, const std::string& directory) {
    line.insert(line.end(), {"--", "pwd"});
    return node.ctl(line, {.directory = directory});
  };
  const std::vector<std::string> line{"dispatch", "where", "--new", "--explain"};
  auto at_home = where(w.b, line, second + "/src");
  CHECK(at_home.out == second + "/src\n");
  CHECK_MESSAGE(at_home.err.find("the host of the caller, whose directory it is") != std::string::npos, at_home.err);
  // Done once more from elsewhere, it is still that directory of that host.
  const auto task = w.b.ctl_json({"tasks"}, {.directory = second})[0]["id"].get<std::string>();
  const auto retried = lines_of(w.c.home.ctl({"retry", task}, {.directory = w.here}).out).front();
  REQUIRE(eventually([&] { return w.c.home.ctl_json({"task", retried}, {.directory = w.here}).at("status") == "done"; }));
  CHECK(w.c.home.ctl({"logs", retried}, {.directory = w.here}).out == second + "/src\n");
  REQUIRE(w.c.home.ctl({"drain", "b"}).status == 0);
  REQUIRE(eventually([&] { return cluster_of_nodes::row_seen_by(w.b, "b")["draining"] == true; }));
  CHECK(where(w.b, line, second + "/src").out == w.here + "/src\n");
  is_refused(where(w.b, {"dispatch", "where", "--new", "--on", "b"}, second), "it is being drained");
}

TEST_CASE("a worktree is made for others only if the whole checkout is a directory where they may start programs") {
  cluster_of_nodes c;
  test_node b;
  temp_dir trees;
  const auto here = clone_at(trees.text() + "/here"), there = trees.text() + "/there";
  fs::create_directories(there + "/src");
  std::ofstream{there + "/src/x.c"} << "int x;\n";
  auto git = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"/usr/bin/env", "git", "-c", "user.name=Tester", "-c", "user.email=tester@example.org"});
    auto r = child_process(arguments, b.env({{"GIT_CONFIG_GLOBAL", "/dev/null"}}), there).finish();
    REQUIRE_MESSAGE(r.status == 0, r.err);
  };
  git({"init", "-q", "-b", "main"});
  git({"remote", "add", "origin", "https://host.example/me/game"});
  git({"add", "-A"});
  git({"commit", "-q", "-m", "first"});
  configure(b, "", "[accept.spawn]\ndirectories = [\"" + there + "/src\"]\n");
  c.join(b, "b");
  REQUIRE(c.home.ctl({"scope", "share", here}).status == 0);
  REQUIRE(b.ctl({"scope", "share", there}).status == 0);
  REQUIRE(eventually([&] { return cluster_of_nodes::row_seen_by(c.home, "b")["checkouts"].size() == 1; }));
  auto dispatch = [&](std::vector<std::string> flags) {
    flags.insert(flags.begin(), {"dispatch", "where", "--new", "--on", "b"});
    flags.insert(flags.end(), {"--", "pwd"});
    return c.home.ctl(flags, {.directory = here + "/src"});
  };
  CHECK(dispatch({}).out == there + "/src\n");
  const auto refused = dispatch({"--worktree"});
  CHECK(refused.status == 1);
  CHECK_MESSAGE((refused.out + refused.err).find("accept.spawn.directories of this node's config.toml does not list " + there) != std::string::npos,
                (refused.out + refused.err));
  CHECK_FALSE(fs::exists(there + ".worktrees"));
}
