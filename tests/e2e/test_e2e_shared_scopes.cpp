// Several checkouts of one repository, on several hosts or on one: a file is one file in all of them.
#include "tests/support/cluster_of_nodes.hpp"

using namespace swarm::testing;

namespace {

/// A repository's working tree, as far as anybody here looks at it.
std::string clone_at(const std::string& root, const std::string& remote) {
  fs::create_directories(root + "/.git");
  fs::create_directories(root + "/src");
  if (!remote.empty())
    std::ofstream{root + "/.git/config"} << "[remote \"origin\"]\n\turl = " << remote << "\n";
  return root;
}

struct two_hosts {
  cluster_of_nodes c;
  test_node b;
  temp_dir trees;
  two_hosts() { c.join(b, "b"); }
};

std::string session_in(const test_node& node, const std::string& directory, const std::string& label, std::vector<std::string> before = {}) {
  before.insert(before.end(), {"register", "--label", label, "--lease-seconds", "600"});
  return node.ctl_json(before, {.directory = directory})["id"];
}

} // namespace

TEST_CASE("a lock taken in a checkout on one host holds in the checkout on another, and each sees its own paths") {
  two_hosts w;
  auto here = clone_at(w.trees.text() + "/here", "https://me:secret@Host.example/me/game.git");
  auto there = clone_at(w.trees.text() + "/there", "git@host.example:me/game");
  auto shared = w.c.home.ctl_json({"scope", "share"}, {.directory = here + "/src"});
  CHECK(shared["checkouts"][0]["scope"] == "git:host.example/me/game");
  CHECK(shared.dump().find("secret") == std::string::npos);
  REQUIRE(w.b.ctl({"scope", "share", there}).status == 0);
  CHECK(w.b.ctl_json({"scope", "show"}, {.directory = there})["home"] == "a");

  auto ann = session_in(w.c.home, here, "name:ann");
  auto bob = session_in(w.b, there, "name:bob");
  REQUIRE(w.c.home.ctl({"lock", "src/x.c", "--as", ann}, {.directory = here}).status == 0);
  auto refused = w.b.ctl({"lock", "src/x.c", "--as", bob}, {.directory = there});
  CHECK(refused.status == 1);
  auto row_in = [&](const test_node& node, const std::string& root) {
    const auto rows = node.ctl_json({"locks"}, {.directory = root});
    REQUIRE(rows.size() == 1);
    return rows[0].dump();
  };
  CHECK(row_in(w.c.home, here).find("\"" + here + "/src/x.c\"") != std::string::npos);
  CHECK(row_in(w.b, there).find("\"" + there + "/src/x.c\"") != std::string::npos);
  // From outside of any checkout, the scope by its name.
  auto elsewhere = w.b.ctl_json({"--scope", "git:host.example/me/game", "locks"});
  CHECK(elsewhere[0].dump().find(there + "/src/x.c") != std::string::npos);
  REQUIRE(w.c.home.ctl({"unlock", "src/x.c", "--as", ann}, {.directory = here}).status == 0);
  CHECK(w.b.ctl({"lock", there + "/src/x.c", "--as", bob}, {.directory = there}).status == 0);
  // Another file of the same name, outside, is another one.
  CHECK(w.c.home.ctl({"lock", "/elsewhere/src/x.c", "--as", ann}, {.directory = here}).status == 0);
  // Tasks name files of each host.
  auto task = w.c.home.ctl_json({"request-task", "fix", "mend it", "--file", "src/y.c", "--as", ann}, {.directory = here});
  auto seen = w.b.ctl_json({"task", task["id"]}, {.directory = there});
  CHECK(seen.dump().find(there + "/src/y.c") != std::string::npos);
}

TEST_CASE("a file has one holder on all hosts, also when somebody speaks for a session of another host") {
  two_hosts w;
  auto here = clone_at(w.trees.text() + "/here", "https://host.example/me/game");
  auto there = clone_at(w.trees.text() + "/there", "https://host.example/me/game");
  REQUIRE(w.c.home.ctl({"scope", "share", here}).status == 0);
  REQUIRE(w.b.ctl({"scope", "share", there}).status == 0);
  auto ann = session_in(w.c.home, here, "name:ann");
  auto bob = session_in(w.b, there, "name:bob");
  auto on_a = [&](const std::string& verb, const std::string& file, const std::string& who) {
    return w.c.home.ctl({verb, file, "--as", who}, {.directory = here});
  };
  auto on_b = [&](const std::string& verb, const std::string& file, const std::string& who) {
    return w.b.ctl({verb, file, "--as", who}, {.directory = there});
  };
  // Each host speaks for the other's session: a relative path, and an absolute one of either host.
  for (const auto& file : {std::string{"src/x.c"}, there + "/src/x.c", here + "/src/x.c"}) {
    CAPTURE(file);
    auto taken = on_b("lock", file, ann);
    CHECK_MESSAGE(taken.out == "locked " + there + "/src/x.c\n", (taken.out + taken.err));
    CHECK(on_b("lock", "src/x.c", bob).status == 1);
    CHECK(on_a("lock", "src/x.c", bob).status == 1);
    CHECK(on_a("lock", "src", bob).status == 1);
    auto freed = on_b("unlock", file, ann);
    CHECK_MESSAGE(freed.out == "unlocked " + there + "/src/x.c\n", (freed.out + freed.err));
    CHECK(w.c.home.ctl_json({"locks"}, {.directory = here}).empty());
    CHECK(on_a("lock", file, bob).status == 0);
    CHECK(on_b("lock", "src/x.c", ann).status == 1);
    CHECK(on_a("unlock", file, bob).status == 0);
  }
  // Any other path would be a file of this host.
  for (const auto* verb : {"lock", "unlock"}) {
    auto refused = on_b(verb, "/elsewhere/x.c", ann);
    CHECK(refused.status == 1);
    CHECK_MESSAGE(refused.err.find("a session of host a") != std::string::npos, refused.err);
    CHECK(on_a(verb, "/elsewhere/x.c", ann).status == 0);
  }
}

TEST_CASE("a file is not locked by the name that it has on another host, and who names nobody is nobody of another host") {
  two_hosts w;
  auto here = clone_at(w.trees.text() + "/here", "https://host.example/me/game");
  auto there = clone_at(w.trees.text() + "/there", "https://host.example/me/game");
  REQUIRE(w.c.home.ctl({"scope", "share", here}).status == 0);
  REQUIRE(w.b.ctl({"scope", "share", there}).status == 0);
  auto ann = session_in(w.c.home, here, "name:ann");
  auto nobody = w.b.ctl({"lock", "src/x.c"}, {.directory = there});
  CHECK(nobody.status == 1);
  CHECK_MESSAGE(nobody.err.find("no session in git:host.example/me/game") != std::string::npos, nobody.err);
  CHECK(w.b.ctl({"whoami"}, {.directory = there}).status == 1);
  session_in(w.b, there, "name:bob");
  REQUIRE(w.c.home.ctl({"lock", "src/x.c", "--as", "name:ann"}, {.directory = here}).status == 0);
  for (const auto* verb : {"lock", "unlock"}) {
    auto refused = w.b.ctl({verb, here + "/src/x.c", "--as", "name:bob"}, {.directory = there});
    CHECK(refused.status == 1);
    CHECK_MESSAGE(refused.err.find("On host a it is src/x.c of the checkout " + here) != std::string::npos, refused.err);
  }
  CHECK(w.b.ctl_json({"locks"}, {.directory = there}).size() == 1);
}

TEST_CASE("a repository that has taken the place of a shared checkout gets no worker of it, and no session") {
  two_hosts w;
  auto here = clone_at(w.trees.text() + "/here", "https://host.example/me/game");
  auto there = clone_at(w.trees.text() + "/there", "https://host.example/me/game");
  REQUIRE(w.c.home.ctl({"scope", "share", here}).status == 0);
  REQUIRE(w.b.ctl({"scope", "share", there}).status == 0);
  clone_at(there, "https://host.example/me/other");
  auto dispatched = w.c.home.ctl({"dispatch", "work", "--on", "b", "--harness", "exec", "--", "touch", "worked"}, {.directory = here});
  CHECK(dispatched.status != 0);
  CHECK_MESSAGE(dispatched.err.find("another repository lies there by now") != std::string::npos, dispatched.err);
  CHECK_FALSE(fs::exists(there + "/worked"));
  auto registered = w.b.ctl({"register", "--label", "name:bob", "--lease-seconds", "600"}, {.directory = there});
  CHECK(registered.status == 1);
  CHECK_MESSAGE(registered.err.find("but now holds host.example/me/other") != std::string::npos, registered.err);
  REQUIRE(w.b.ctl({"scope", "unshare", there}).status == 0);
  CHECK(w.b.ctl({"register", "--label", "name:bob", "--lease-seconds", "600"}, {.directory = there}).status == 0);
}

TEST_CASE("a member lists what hosts share as their home knows it, and nothing else of the home's") {
  two_hosts w;
  auto here = clone_at(w.trees.text() + "/here", "https://host.example/me/game");
  auto own = clone_at(w.trees.text() + "/own", "");
  REQUIRE(w.c.home.ctl({"scope", "share", here}).status == 0);
  session_in(w.c.home, own, "name:ann");
  session_in(w.c.home, own, "name:bob", {"--scope", "elsewhere"});
  auto names = [](const json& listed) {
    std::vector<std::string> out;
    for (const auto& row : listed["scopes"])
      out.push_back(row["scope"]);
    return out;
  };
  const std::vector<std::string> shared{"elsewhere", "git:host.example/me/game"};
  json listed;
  auto all_there = eventually([&] {
    listed = w.b.ctl_json({"scope", "list"});
    return names(listed) == shared;
  });
  CAPTURE(listed.dump());
  REQUIRE(all_there);
  CHECK(listed["complete"] == true);
  CHECK(listed["scopes"][1]["home"] == "a");
  CHECK(listed["scopes"][1]["checkouts"].empty());
  CHECK(names(w.c.home.ctl_json({"scope", "list"})) == std::vector<std::string>{own, shared[0], shared[1]});

  w.c.home.kill_node();
  REQUIRE(eventually([&] { return cluster_of_nodes::link_seen_by(w.b, "a") == "down"; }));
  auto alone = w.b.ctl({"scope", "list", "--json"});
  CHECK(alone.status == 0);
  CHECK(json::parse(alone.out)["complete"] == false);
  CHECK(alone.err.find("the home a was not asked") != std::string::npos);
}

TEST_CASE("a named scope joins the checkouts of one repository that sessions register from, and no other repository") {
  two_hosts w;
  auto here = clone_at(w.trees.text() + "/here", "https://host.example/me/game");
  auto clone = clone_at(w.trees.text() + "/clone", "https://host.example/me/game.git");
  auto there = clone_at(w.trees.text() + "/there", "https://host.example/me/game");
  auto other = clone_at(w.trees.text() + "/other", "https://host.example/me/other");
  const std::vector<std::string> named{"--scope", "shared"};
  auto ann = session_in(w.c.home, here, "name:ann", named);
  auto cid = session_in(w.c.home, clone, "name:cid", named);
  auto oda = session_in(w.c.home, other, "name:oda", named);
  auto bob = session_in(w.b, there, "name:bob", named);
  REQUIRE(w.c.home.ctl(in_shared({"lock", "src/x.c", "--as", ann}), {.directory = here}).status == 0);
  CHECK(w.c.home.ctl(in_shared({"lock", "src/x.c", "--as", cid}), {.directory = clone}).status == 1);
  CHECK(w.b.ctl(in_shared({"lock", "src/x.c", "--as", bob}), {.directory = there}).status == 1);
  CHECK(w.c.home.ctl(in_shared({"lock", "src/x.c", "--as", oda}), {.directory = other}).status == 0);
}

TEST_CASE("a directory in use is not shared, and one that is shared not taken back, over people's heads") {
  two_hosts w;
  auto here = clone_at(w.trees.text() + "/here", "");
  auto nameless = w.c.home.ctl({"scope", "share", here});
  CHECK(nameless.status == 1);
  CHECK(nameless.err.find("--as NAME") != std::string::npos);
  auto ann = session_in(w.c.home, here, "name:ann");
  auto refused = w.c.home.ctl({"scope", "share", here, "--as", "game"});
  CHECK(refused.status == 1);
  CHECK(refused.err.find("1 session ") != std::string::npos);
  REQUIRE(w.c.home.ctl({"deregister", "--as", ann}, {.directory = here}).status == 0);
  REQUIRE(w.c.home.ctl({"scope", "share", here, "--as", "game"}).status == 0);
  auto again = session_in(w.c.home, here, "name:ann");
  CHECK(w.b.ctl_json({"--scope", "game", "instances"}).size() == 1);
  CHECK(w.c.home.ctl({"scope", "unshare", here}).status == 1);
  REQUIRE(w.c.home.ctl({"--scope", "game", "deregister", "--as", again}).status == 0);
  CHECK(w.c.home.ctl({"scope", "unshare", here}).status == 0);
  CHECK(w.c.home.ctl({"scope", "unshare", here}).status == 1);
  CHECK(w.c.home.ctl_json({"scope", "show", here})["shared"] == false);
}

TEST_CASE("a worker that is dispatched from a checkout works in the checkout of the node that starts it") {
  two_hosts w;
  auto here = clone_at(w.trees.text() + "/here", "https://host.example/me/game");
  auto there = clone_at(w.trees.text() + "/there", "https://host.example/me/game");
  REQUIRE(w.c.home.ctl({"scope", "share", here}).status == 0);
  // No checkout over there yet.
  auto early = w.c.home.ctl({"dispatch", "early", "--on", "b", "--harness", "exec", "--", "pwd"}, {.directory = here});
  CHECK(early.status == 1);
  CHECK(early.err.find("no checkout of the scope") != std::string::npos);
  REQUIRE(w.b.ctl({"scope", "share", there}).status == 0);
  REQUIRE(eventually([&] { return cluster_of_nodes::row_seen_by(w.c.home, "b")["checkouts"].size() == 1; }));
  auto r = w.c.home.ctl({"dispatch", "look", "--on", "b", "--harness", "exec", "--", "sh", "-c", "pwd; echo root $SWARM_MCP_FILE_ROOT"},
                        {.directory = here + "/src"});
  CAPTURE(r.err);
  CHECK(r.status == 0);
  CHECK(r.out.find(there + "/src") != std::string::npos);
  CHECK(r.out.find("root " + there + "/src") != std::string::npos);
  // Asked for from b, on a.
  auto back = w.b.ctl({"dispatch", "look back", "--on", "a", "--harness", "exec", "--", "pwd"}, {.directory = there});
  CHECK(back.out.find(here) != std::string::npos);
}

TEST_CASE("in a shared checkout a terminal starts on its caller's host, and is known by its name") {
  two_hosts w;
  auto here = clone_at(w.trees.text() + "/here", "https://host.example/me/game");
  auto there = clone_at(w.trees.text() + "/there", "https://host.example/me/game");
  REQUIRE(w.c.home.ctl({"scope", "share", here}).status == 0);
  REQUIRE(w.b.ctl({"scope", "share", there}).status == 0);
  auto on_b = [&](std::vector<std::string> args) { return w.b.ctl(std::move(args), {.directory = there}); };
  auto new_on_b = [&](std::vector<std::string> args) {
    args.insert(args.begin(), {"pty", "new", "--explain"});
    args.insert(args.end(), {"--", "sh", "-c", "echo I am $SWARM_HOME in $PWD; sleep 600"});
    return on_b(std::move(args));
  };
  auto prints = [&](const std::string& who, const test_node& node, const std::string& root) {
    return eventually([&] { return on_b({"pty", "read", who}).out.find("I am " + node.dir().root.string() + " in " + root) != std::string::npos; });
  };
  // The other host is less busy, from the second one on.
  for (const auto* name : {"first", "second", "third"}) {
    CAPTURE(name);
    auto made = new_on_b({"--name", name});
    REQUIRE_MESSAGE(made.status == 0, made.err);
    CHECK(made.err.find("placed on b: the host of the caller") != std::string::npos);
    CHECK(prints(name, w.b, there));
  }
  auto far = new_on_b({"--name", "far", "--on", "a"});
  CHECK_MESSAGE(far.err.find("placed on a: it was asked for by name") != std::string::npos, far.err);
  CHECK(prints("far", w.c.home, here));
  CHECK(prints(lines_of(far.out).front().substr(0, 8), w.c.home, here));
  CHECK(prints("@last", w.c.home, here));
  // So is everything else done by name, in each checkout.
  CHECK(on_b({"pty", "send", "first", "x"}).status == 0);
  auto ended = w.c.home.ctl({"pty", "kill", "second"}, {.directory = here});
  CHECK_MESSAGE(ended.status == 0, ended.err);
  CHECK(on_b({"pty", "kill", "far"}).status == 0);
  CHECK(w.b.ctl_json({"pty", "list"}, {.directory = there})[0]["scope"] == there);
  // Another host is never taken in silence.
  REQUIRE(w.c.home.ctl({"drain", "b"}).status == 0);
  auto refused = new_on_b({});
  CHECK(refused.status == 1);
  CHECK_MESSAGE(refused.err.find("b: it is being drained") != std::string::npos, refused.err);
}

TEST_CASE("a worker on another host has a worktree of its own beside the checkout there, and its locks are those of the repository") {
  two_hosts w;
  auto here = clone_at(w.trees.text() + "/here", "https://host.example/me/game");
  auto there = w.trees.text() + "/there";
  fs::create_directories(there + "/src");
  std::ofstream{there + "/src/x.c"} << "int x;\n";
  auto git = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"/usr/bin/env", "git", "-c", "user.name=Tester", "-c", "user.email=tester@example.org"});
    auto r = child_process(arguments, w.b.env({{"GIT_CONFIG_GLOBAL", "/dev/null"}}), there).finish();
    REQUIRE_MESSAGE(r.status == 0, r.err);
  };
  git({"init", "-q", "-b", "main"});
  git({"remote", "add", "origin", "https://host.example/me/game"});
  git({"add", "-A"});
  git({"commit", "-q", "-m", "first"});
  REQUIRE(w.c.home.ctl({"scope", "share", here}).status == 0);
  REQUIRE(w.b.ctl({"scope", "share", there}).status == 0);
  REQUIRE(eventually([&] { return cluster_of_nodes::row_seen_by(w.c.home, "b")["checkouts"].size() == 1; }));
  auto ann = session_in(w.c.home, here, "name:ann");
  REQUIRE(w.c.home.ctl({"lock", "src/held.c", "--as", ann}, {.directory = here}).status == 0);
  auto swarmctl = program("swarmctl").string();
  auto r = w.c.home.ctl({"dispatch", "branch off", "--on", "b", "--worktree", "--harness", "exec", "--", "sh", "-c",
                         "echo tree=$SWARM_WORKTREE; git branch --show-current; pwd; " + swarmctl + " lock src/held.c; " + swarmctl +
                           " lock src/x.c && " + swarmctl + " locks; exit 5"},
                        {.directory = here});
  CAPTURE(r.out);
  CAPTURE(r.err);
  CHECK(r.status == 5);
  CHECK(r.out.find("tree=" + there + ".worktrees/") != std::string::npos);
  CHECK(r.out.find("swarm/") != std::string::npos);
  CHECK(r.out.find("held by name:ann") != std::string::npos);
  CHECK(r.out.find(there + "/src/x.c") != std::string::npos);
  auto left = w.b.ctl_json({"worktree", "list"}, {.directory = there});
  CHECK(left.dump().find("swarm/") != std::string::npos);
  // A directory without a repository has no worktree to give.
  auto none = w.c.home.ctl({"dispatch", "nowhere", "--on", "b", "--worktree", "--directory", w.b.work(), "--harness", "exec", "--", "true"},
                           {.directory = here});
  CHECK(none.status == 1);
  CHECK((none.out + none.err).find("needs a git repository") != std::string::npos);
}

TEST_CASE("what happens to a file is told in the paths of the follower") {
  two_hosts w;
  auto here = clone_at(w.trees.text() + "/here", "https://host.example/me/game");
  auto there = clone_at(w.trees.text() + "/there", "https://host.example/me/game");
  REQUIRE(w.c.home.ctl({"scope", "share", here}).status == 0);
  REQUIRE(w.b.ctl({"scope", "share", there}).status == 0);
  auto ann = session_in(w.c.home, here, "name:ann");
  auto following = w.b.ctl_start({"events", "--follow", "--since", "0", "--json"}, {.directory = there});
  REQUIRE(following.read_until("instance.registered"));
  REQUIRE(w.c.home.ctl({"lock", "src/x.c", "--as", ann}, {.directory = here}).status == 0);
  CHECK(following.read_until("\"" + there + "/src/x.c\""));
}

TEST_CASE("a hook knows a locked file by its name in every clone of the repository, and in the worktrees of each") {
  two_hosts w;
  const std::string remote = "https://host.example/me/game", scope = "git:host.example/me/game";
  auto first = clone_at(w.trees.text() + "/first", remote);
  auto second = w.trees.text() + "/second", tree = w.trees.text() + "/tree";
  fs::create_directories(second + "/src");
  std::ofstream{second + "/src/x.c"} << "int x;\n";
  auto git = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"/usr/bin/env", "git", "-c", "user.name=Tester", "-c", "user.email=tester@example.org"});
    auto r = child_process(arguments, w.b.env({{"GIT_CONFIG_GLOBAL", "/dev/null"}}), second).finish();
    REQUIRE_MESSAGE(r.status == 0, r.err);
  };
  git({"init", "-q", "-b", "main"});
  git({"remote", "add", "origin", remote});
  git({"add", "-A"});
  git({"commit", "-q", "-m", "first"});
  git({"worktree", "add", "-q", "-b", "topic", tree});
  for (const auto& clone : {first, second})
    REQUIRE(w.b.ctl({"scope", "share", clone}).status == 0);

  auto hook = [&](const std::string& event, const std::string& directory, const std::string& file = {}) {
    json input{{"session_id", directory}, {"cwd", directory}, {"tool_name", "Write"}, {"tool_input", {{"file_path", file}}}};
    return w.b.ctl({"hook", "claude", event}, {.input = input.dump(), .env = {{"SWARM_MCP_SCOPE", scope}}, .directory = directory}).out;
  };
  auto is_denied = [](const std::string& said) { return said.find("\"permissionDecision\":\"deny\"") != said.npos; };
  auto is_warned = [](const std::string& said) { return said.find("in another worktree") != said.npos; };
  for (const auto& directory : {first, second, tree})
    hook("session-start", directory);

  auto ann = session_in(w.b, first, "name:ann"), bob = session_in(w.b, tree, "name:bob", {"--scope", scope});
  REQUIRE(w.b.ctl({"lock", "src/x.c", "--as", ann}, {.directory = first}).status == 0);
  for (const auto& directory : {first, second, tree})
    for (const auto& clone : {first, second}) {
      CAPTURE(directory + " " + clone);
      CHECK(is_denied(hook("pre-tool-use", directory, clone + "/src/x.c")));
      CHECK(hook("pre-tool-use", directory, clone + "/src/y.c").empty());
    }
  // Another file, in whichever clone the holder works: both changes will have to be merged.
  CHECK(is_warned(hook("pre-tool-use", tree, tree + "/src/x.c")));
  REQUIRE(w.b.ctl({"unlock", "src/x.c", "--as", ann}, {.directory = first}).status == 0);

  // From the worktree the paths are those of its own repository.
  auto taken = w.b.ctl({"--scope", scope, "lock", "src/x.c", "--as", bob}, {.directory = tree});
  CHECK_MESSAGE(taken.out == "locked " + second + "/src/x.c\n", (taken.out + taken.err));
  CHECK(w.b.ctl_json({"--scope", scope, "locks"}, {.directory = tree})[0]["file"] == second + "/src/x.c");
  CHECK(is_denied(hook("pre-tool-use", tree, tree + "/src/x.c")));
  CHECK(is_warned(hook("pre-tool-use", second, second + "/src/x.c")));
}

TEST_CASE("@last in a scope is the same by whichever directory or name the scope is meant") {
  two_hosts w;
  auto here = clone_at(w.trees.text() + "/here", "https://host.example/me/game");
  auto second = clone_at(w.trees.text() + "/second", "https://host.example/me/game");
  REQUIRE(w.c.home.ctl({"scope", "share", here}).status == 0);
  REQUIRE(w.c.home.ctl({"scope", "share", second}).status == 0);
  fs::create_directory_symlink(here, w.trees.text() + "/link");
  const std::vector<std::pair<std::vector<std::string>, std::string>> spellings{
    {{}, here},
    {{}, second},
    {{}, w.trees.text() + "/link/src"},
    {{"--scope", "git:host.example/me/game"}, w.trees.text()},
    {{"--scope", "."}, here},
    {{"--scope", here + "/"}, w.trees.text()},
    {{"--scope", "./link"}, w.trees.text()},
  };
  const auto in = [&](const auto& spelling, const std::vector<std::string>& args) {
    auto line = spelling.first;
    line.insert(line.end(), args.begin(), args.end());
    return w.c.home.ctl_json(line, {.directory = spelling.second});
  };
  for (const auto& made_in : spellings) {
    const std::string made = in(made_in, {"request-task", "fix", "x"}).at("id");
    for (const auto& asked_in : spellings) {
      CAPTURE(asked_in.second);
      CHECK(in(asked_in, {"task", "@last"}).at("id") == made);
    }
  }
}

TEST_CASE("a worker works in the checkout that it was asked for in, when the host has several of the scope") {
  two_hosts w;
  auto here = clone_at(w.trees.text() + "/here", "https://host.example/me/game");
  auto second = clone_at(w.trees.text() + "/second", "https://host.example/me/game");
  REQUIRE(w.c.home.ctl({"scope", "share", here}).status == 0);
  REQUIRE(w.c.home.ctl({"scope", "share", second}).status == 0);
  const auto line = [](std::vector<std::string> flags) {
    std::vector<std::string> out{"dispatch", "where", "--new"};
    out.insert(out.end(), flags.begin(), flags.end());
    out.insert(out.end(), {"--", "pwd"});
    return out;
  };
  CHECK(w.c.home.ctl(line({}), {.directory = here}).out == here + "\n");
  CHECK(w.c.home.ctl(line({}), {.directory = second + "/src"}).out == second + "/src\n");
  CHECK(w.c.home.ctl(line({"--directory", second}), {.directory = here}).out == second + "\n");
  CHECK(w.c.home.ctl(line({"--directory", here}), {.directory = second}).out == here + "\n");
  CHECK(w.c.home.ctl(line({"--scope", "git:host.example/me/game", "--directory", second}), {.directory = w.trees.text()}).out == second + "\n");
  // The name of the caller's own host is no choice of hosts.
  CHECK(w.c.home.ctl(line({"--on", "a"}), {.directory = second}).out == second + "\n");
  CHECK(w.c.home.ctl(line({"--on", "a", "--directory", here}), {.directory = second}).out == here + "\n");
  auto there = clone_at(w.trees.text() + "/there", "https://host.example/me/game");
  auto third = clone_at(w.trees.text() + "/third", "https://host.example/me/game");
  REQUIRE(w.b.ctl({"scope", "share", there}).status == 0);
  REQUIRE(w.b.ctl({"scope", "share", third}).status == 0);
  CHECK(w.b.ctl(line({"--on", "b"}), {.directory = third}).out == third + "\n");
  CHECK(w.b.ctl(line({"--on", "a"}), {.directory = third}).out == here + "\n");
  // What waits for another one, and what is done once more from elsewhere.
  const auto logs_in_the_end = [&](const std::string& id) {
    REQUIRE(eventually([&] { return w.c.home.ctl_json({"task", id}, {.directory = here}).at("status") == "done"; }));
    return w.c.home.ctl({"logs", id}, {.directory = here}).out;
  };
  const std::string gate = w.c.home.ctl_json({"request-task", "fix", "gate", "--approval-required"}, {.directory = here}).at("id");
  const std::string waits = w.c.home.ctl_json(line({"--depends-on", gate, "--detach"}), {.directory = second}).at("task").at("id");
  const auto who = session_in(w.c.home, here, "name:who");
  REQUIRE(w.c.home.ctl({"approve", gate}, {.directory = here}).status == 0);
  REQUIRE(w.c.home.ctl({"claim", gate, "--as", who}, {.directory = here}).status == 0);
  REQUIRE(w.c.home.ctl({"update-task", gate, "--status", "done", "--as", who}, {.directory = here}).status == 0);
  CHECK(logs_in_the_end(waits) == second + "\n");
  const std::string retried = lines_of(w.c.home.ctl({"retry", waits}, {.directory = here}).out).front();
  CHECK(logs_in_the_end(retried) == second + "\n");
}
