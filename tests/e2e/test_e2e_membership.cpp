// What a person does with the nodes of a cluster, and what each node lets the others do on it.
#include <set>

#include "tests/support/cluster_of_nodes.hpp"

using namespace swarm::testing;

namespace {

/// A command on the node b, in a directory that is there.
std::vector<std::string> dispatch_to(const test_node& where, const std::string& on, const std::string& title, std::vector<std::string> more = {}) {
  std::vector<std::string> args{"dispatch", title, "--on", on, "--directory", where.work()};
  args.insert(args.end(), more.begin(), more.end());
  args.insert(args.end(), {"--harness", "exec", "--", "true"});
  return in_shared(args);
}

std::string task_of(const json& asked) {
  return asked.contains("task") ? asked["task"]["id"].get<std::string>() : asked["task_id"].get<std::string>();
}

/// As `cp -a` of the state directory, without what a running node has open.
void copy_membership(const test_node& from, const test_node& to) {
  fs::create_directories(to.dir().root);
  fs::permissions(to.dir().root, fs::perms::owner_all);
  fs::copy_file(from.dir().root / "node.json", to.dir().root / "node.json");
  fs::copy(from.dir().root / "cluster", to.dir().root / "cluster", fs::copy_options::recursive);
}

} // namespace

TEST_CASE("a drained node gets no new workers, finishes those it has, and takes some again when that is over") {
  cluster_of_nodes c;
  test_node b;
  c.join(b, "b");
  auto go = b.work() + "/go";
  auto running = c.home.ctl_json(in_shared({"dispatch", "patient", "--on", "b", "--directory", b.work(), "--detach", "--harness", "exec", "--", "sh",
                                            "-c", "while [ ! -e " + go + " ]; do sleep 0.05; done"}));
  // Asked at a member, for another node or itself.
  auto drained = b.ctl_json({"drain", "b"})["nodes"];
  // The links are told as the member that was asked has them, not as the home that has decided.
  REQUIRE(drained.size() == 2);
  for (const auto& n : drained) {
    CHECK(n["link"] == (n["home"] == true ? "up" : "self"));
    CHECK(n["draining"] == (n["home"] != true));
  }
  CHECK(eventually([&] { return cluster_of_nodes::row_seen_by(b, "b")["draining"] == true; }));
  CHECK(cluster_of_nodes::row_seen_by(c.home, "b")["draining"] == true);
  auto refused = c.home.ctl(dispatch_to(b, "b", "too late"));
  CHECK(refused.status == 1);
  CHECK(refused.err.find("being drained") != std::string::npos);
  std::ofstream{go};
  CHECK(eventually([&] { return c.home.ctl_json(in_shared({"task", task_of(running)}))["status"] == "done"; }));
  // It stays so over restarts of both.
  b.kill_node();
  REQUIRE(b.ctl({"up"}).status == 0);
  c.home.kill_node();
  REQUIRE(c.home.ctl({"up"}).status == 0);
  CHECK(eventually([&] { return cluster_of_nodes::link_seen_by(c.home, "b") == "up"; }));
  CHECK(cluster_of_nodes::row_seen_by(c.home, "b")["draining"] == true);
  REQUIRE(c.home.ctl({"drain", "b", "--off"}).status == 0);
  CHECK(c.home.ctl(dispatch_to(b, "b", "in time")).status == 0);
  CHECK(c.home.ctl({"drain", "nobody"}).status == 1);
}

TEST_CASE("a host does not join over its own named scopes while somebody uses them, and says what is in use") {
  cluster_of_nodes c;
  test_node b;
  register_shared(c.home, "name:ann");
  const auto bob = register_shared(b, "name:bob");
  REQUIRE(b.ctl(in_shared({"lock", "/f.c", "--as", bob})).status == 0);
  REQUIRE(b.ctl(in_shared({"request-task", "fix", "mend it", "--as", bob})).status == 0);
  const auto token = c.token();
  auto refused = b.ctl({"join", token});
  CHECK(refused.status == 1);
  for (const auto* part : {"shared has 1 lock (/f.c by name:bob)", "1 session (name:bob)", "1 unfinished task (mend it)"})
    CHECK_MESSAGE(refused.err.find(part) != std::string::npos, refused.err);
  CHECK(b.ctl_json({"nodes"})["nodes"].empty());
  CHECK(b.ctl_json(in_shared({"locks"})).size() == 1);
  // The session's end leaves the task.
  REQUIRE(b.ctl(in_shared({"deregister", "--as", bob})).status == 0);
  CHECK(b.ctl({"join", token}).status == 1);
  REQUIRE(b.ctl(in_shared({"cancel", "@last"})).status == 0);
  // The scope of a directory is nobody else's; the token is as good as before.
  REQUIRE(b.ctl({"register", "--label", "name:eve", "--lease-seconds", "600"}).status == 0);
  auto joined = b.ctl({"join", token});
  CHECK_MESSAGE(joined.status == 0, joined.err);
  CHECK(eventually([&] { return b.ctl(in_shared({"instances"})).out.find("name:ann") != std::string::npos; }));
}

TEST_CASE("a host does not found a cluster while a lock of a named scope is held, which others would share") {
  test_node a;
  const auto ann = register_shared(a, "name:ann");
  REQUIRE(a.ctl(in_shared({"lock", "/f.c", "--as", ann})).status == 0);
  const auto address = "127.0.0.1:" + std::to_string(free_ports());
  auto refused = a.ctl({"up", "--listen", address, "--insecure-ca"});
  CHECK(refused.status == 1);
  CHECK_MESSAGE(refused.err.find("shared has 1 lock (/f.c by name:ann)") != std::string::npos, refused.err);
  REQUIRE(a.ctl(in_shared({"unlock", "/f.c", "--as", ann})).status == 0);
  CHECK(a.ctl({"up", "--listen", address, "--insecure-ca"}).status == 0);
  // A home that names its address once more changes nothing for those who work.
  REQUIRE(a.ctl(in_shared({"lock", "/f.c", "--as", ann})).status == 0);
  CHECK(a.ctl({"up", "--listen", address}).status == 0);
}

TEST_CASE("of two nodes with one state directory the home takes the one that it hears, and tells the other why not") {
  cluster_of_nodes c;
  test_node b, copy;
  c.join(b, "b");
  copy_membership(b, copy);
  REQUIRE(copy.ctl({"up"}).status == 0);
  std::string said;
  CHECK_MESSAGE(eventually([&] {
                  said = copy.ctl({"status"}).out;
                  return said.find("another node with the id of this one is linked") != std::string::npos;
                }),
                said);
  CHECK(cluster_of_nodes::link_seen_by(b, "a") == "up");
  CHECK(b.ctl(in_shared({"instances"})).status == 0);
  const auto log = file_text(c.home.dir().log_dir() / "swarmd.log");
  CHECK_MESSAGE(log.find("a second node with the id of b") != std::string::npos, log);
  // A restart is no second node.
  b.kill_node();
  REQUIRE(copy.down().status == 0);
  REQUIRE(b.ctl({"up"}).status == 0);
  CHECK(eventually([&] { return cluster_of_nodes::link_seen_by(b, "a") == "up"; }));
}

TEST_CASE("a copy of a node's state directory drains nobody and leaves here only, and the node itself stays with what it holds") {
  cluster_of_nodes c;
  test_node b, copy;
  c.join(b, "b");
  const auto bob = register_shared(b, "name:bob");
  REQUIRE(b.ctl(in_shared({"lock", "/f.c", "--as", bob})).status == 0);
  copy_membership(b, copy);
  REQUIRE(copy.ctl({"up"}).status == 0);
  auto drained = copy.ctl({"drain", "b"});
  CHECK(drained.status == 1);
  CHECK_MESSAGE(drained.err.find("is a copy of the other's") != std::string::npos, drained.err);
  CHECK(cluster_of_nodes::row_seen_by(c.home, "b")["draining"] == false);
  auto refused = copy.ctl({"leave"});
  CHECK(refused.status == 1);
  CHECK_MESSAGE(refused.err.find("is a copy of the other's") != std::string::npos, refused.err);
  CHECK_MESSAGE(refused.err.find("--force leaves here only") != std::string::npos, refused.err);
  auto left = copy.ctl({"leave", "--force"});
  CHECK(left.status == 0);
  CHECK_MESSAGE(left.err.find("has left here only") != std::string::npos, left.err);
  // Who does that takes the other one out.
  CHECK_MESSAGE(left.err.find("node revoke") == std::string::npos, left.err);
  CHECK(copy.ctl_json({"nodes"})["nodes"].empty());
  CHECK(cluster_of_nodes::link_seen_by(c.home, "b") == "up");
  CHECK(cluster_of_nodes::row_seen_by(c.home, "b")["left"] == false);
  CHECK(c.home.ctl_json(in_shared({"locks"})).size() == 1);
  // It is no other to itself.
  REQUIRE(b.ctl(in_shared({"deregister", "--as", bob})).status == 0);
  CHECK(b.ctl({"leave"}).status == 0);
  CHECK(eventually([&] { return cluster_of_nodes::row_seen_by(c.home, "b")["left"] == true; }));
}

TEST_CASE("a node that has just left is let in again, and its scopes are shared only while it is in") {
  cluster_of_nodes c;
  test_node b;
  c.join(b, "b");
  auto said = [&](const test_node& n) { return n.ctl(in_shared({"scope", "show"})).out; };
  CHECK_MESSAGE(said(b).find("shared, its home is a") != std::string::npos, said(b));
  register_shared(c.home, "name:ann");
  const auto token = c.token();
  const auto further = c.token();
  REQUIRE(b.ctl({"leave"}).status == 0);
  auto joined = b.ctl({"join", token});
  CHECK_MESSAGE(joined.status == 0, joined.err);
  REQUIRE(b.ctl({"leave"}).status == 0);
  CHECK_MESSAGE(said(b).find("of this host alone: it is in no cluster") != std::string::npos, said(b));
  register_shared(b, "name:bob");
  auto listed = b.ctl({"scope", "list"}).out;
  CHECK_MESSAGE(listed.find("this host's own: in no cluster") != std::string::npos, listed);
  // The node's own name for it stays what it was.
  CHECK(b.ctl_json({"scope", "list"})["scopes"][0]["shared"] == true);
  REQUIRE(b.ctl(in_shared({"deregister", "--as", "bob"})).status == 0);
  CHECK(b.ctl({"join", further}).status == 0);
}

TEST_CASE("a node that leaves is out, its sessions end, and it may come in again") {
  cluster_of_nodes c;
  test_node b;
  c.join(b, "b");
  auto ann = register_shared(c.home, "name:ann");
  auto asked =
    c.home.ctl_json(in_shared({"dispatch", "long", "--on", "b", "--directory", b.work(), "--detach", "--harness", "exec", "--", "sleep", "600"}));
  REQUIRE(eventually([&] { return c.home.ctl_json(in_shared({"task", task_of(asked)}))["status"] == "in_progress"; }));
  auto refused = b.ctl({"leave"});
  CHECK(refused.status == 1);
  CHECK(refused.err.find("1 worker of a shared scope runs") != std::string::npos);
  REQUIRE(b.ctl({"leave", "--force"}).status == 0);
  CHECK(b.ctl_json({"nodes"})["nodes"].empty());
  CHECK(eventually([&] { return cluster_of_nodes::link_seen_by(c.home, "b") == "revoked"; }));
  CHECK(cluster_of_nodes::row_seen_by(c.home, "b")["left"] == true);
  auto listed = c.home.ctl({"nodes"}).out;
  CHECK(listed.find("  left") != std::string::npos);
  CHECK(listed.find("revoked") == std::string::npos);
  const auto log = file_text(c.home.dir().log_dir() / "swarmd.log");
  CHECK_MESSAGE(log.find("the link to the node b ends: the node has left the cluster") != std::string::npos, log);
  CHECK(log.find("has been revoked") == std::string::npos);
  auto too_late = c.home.ctl({"node", "revoke", "b"});
  CHECK(too_late.status == 1);
  CHECK(too_late.err.find("b has left the cluster") != std::string::npos);
  CHECK(eventually([&] { return c.home.ctl_json(in_shared({"task", task_of(asked)}))["status"] == "failed"; }));
  CHECK(c.home.ctl_json(in_shared({"instances"})).size() == 1);
  // Named scopes are its own again.
  CHECK(b.ctl_json(in_shared({"instances"})).empty());
  c.join(b, "b");
  CHECK(b.ctl_json(in_shared({"instances"})).size() == 1);
  CHECK(c.home.ctl(dispatch_to(b, "b", "again")).status == 0);
  // The home goes last.
  auto needed = c.home.ctl({"leave"});
  CHECK(needed.status == 1);
  CHECK(needed.err.find("home") != std::string::npos);
  test_node d;
  c.join(d, "d");
  needed = c.home.ctl({"leave"});
  CHECK_MESSAGE(needed.err.find("has members: b, d. First run `swarmctl leave` on each of them") != std::string::npos, needed.err);
  REQUIRE(b.ctl({"leave"}).status == 0);
  REQUIRE(d.ctl({"leave"}).status == 0);
  CHECK(c.home.ctl({"leave"}).status == 0);
  CHECK(c.home.ctl_json({"nodes"})["nodes"].empty());
}

TEST_CASE("a node that is started with another one's name keeps its own for the cluster, and says so") {
  cluster_of_nodes c;
  test_node b, g;
  c.join(b, "b");
  c.join(g, "g");
  auto rename = [&](const std::string& name) {
    REQUIRE(g.down().status == 0);
    return g.ctl({"up", "--node-name", name});
  };
  auto up = rename("b");
  CHECK(up.status == 1);
  CHECK_MESSAGE(up.err.find("has a node named b already and knows this one as g") != std::string::npos, up.err);
  for (const auto* node : {&c.home, &b, &g}) {
    CAPTURE(node->dir().root.string());
    CHECK(eventually([&] { return !cluster_of_nodes::row_seen_by(*node, "g").is_null() && !cluster_of_nodes::row_seen_by(*node, "b").is_null(); }));
  }
  REQUIRE(eventually([&] { return cluster_of_nodes::link_seen_by(g, "a") == "up"; }));
  CHECK(g.ctl_json({"status"})["cluster"]["name"] == "g");
  CHECK(g.ctl({"doctor"}).out.find("knows this one as g") != std::string::npos);
  // So a name means one node, whoever says it.
  for (const auto* node : {&g, &b}) {
    REQUIRE(node->ctl({"drain", "g"}).status == 0);
    CHECK(cluster_of_nodes::row_seen_by(c.home, "g")["draining"] == true);
    CHECK(cluster_of_nodes::row_seen_by(c.home, "b")["draining"] == false);
    REQUIRE(node->ctl({"drain", "g", "--off"}).status == 0);
  }
  // A free one is taken.
  CHECK(rename("h").status == 0);
  for (const auto* node : {&c.home, &b, &g})
    CHECK(eventually([&] { return !cluster_of_nodes::row_seen_by(*node, "h").is_null() && cluster_of_nodes::row_seen_by(*node, "g").is_null(); }));
}

TEST_CASE("a node leaves without its home when told so, says what is left to do, and is let in again as itself") {
  cluster_of_nodes c;
  test_node b;
  c.join(b, "b");
  const auto id = cluster_of_nodes::row_seen_by(b, "b")["node_id"];
  REQUIRE(b.ctl({"register", "--label", "name:own", "--lease-seconds", "600"}).status == 0);
  c.home.kill_node();
  auto waits = b.ctl({"leave"});
  CHECK(waits.status != 0);
  CHECK(waits.err.find("--force") != std::string::npos);
  auto left = b.ctl({"leave", "--force"});
  CHECK(left.status == 0);
  CHECK(left.err.find("until this host joins again, which takes a new join token only") != std::string::npos);
  CHECK(left.err.find("swarmctl node revoke b. After that it can join only with a new state directory") != std::string::npos);
  CHECK(b.ctl_json({"nodes"})["nodes"].empty());
  REQUIRE(c.home.ctl({"up"}).status == 0);
  c.join(b, "b");
  CHECK(cluster_of_nodes::row_seen_by(c.home, "b")["node_id"] == id);
  CHECK(b.ctl({"instances"}).out.find("name:own") != std::string::npos);
  // The key of the membership before is gone with the first join.
  CHECK_FALSE(fs::exists(b.dir().root / "cluster.left"));
}

TEST_CASE("certificates are renewed before they end, at the home and elsewhere, while the links go on") {
  const std::string soon = "node_certificate_lifetime = 20000\nnode_certificate_renewal = 16000\nnode_certificate_renewal_retry = 1000\n";
  cluster_of_nodes c{soon};
  test_node b;
  configure(b, soon);
  c.join(b, "b");
  auto ends = [&](const char* name) { return cluster_of_nodes::row_seen_by(c.home, name)["certificate_ends_ms"].get<std::int64_t>(); };
  auto of_a = ends("a"), of_b = ends("b");
  REQUIRE(of_b > 0);
  CHECK(eventually([&] { return ends("a") > of_a && ends("b") > of_b; }));
  CHECK(eventually([&] { return cluster_of_nodes::link_seen_by(b, "a") == "up"; }));
  CHECK(b.ctl(in_shared({"kv", "set", "k", "1"})).status == 0);
}

TEST_CASE("a locked authority renews nothing until it is unlocked, which nodes hear of") {
  const std::string soon = "node_certificate_lifetime = 120000\nnode_certificate_renewal = 119000\nnode_certificate_renewal_retry = 60000\n";
  temp_dir secrets;
  auto passphrase = secrets.text() + "/passphrase";
  std::ofstream{passphrase} << "correct horse\n";
  fs::permissions(passphrase, fs::perms::owner_read | fs::perms::owner_write);
  cluster_of_nodes c{soon, {"--passphrase-file", passphrase}};
  test_node b;
  configure(b, soon);
  c.join(b, "b");
  // A restart forgets the key.
  c.home.kill_node();
  REQUIRE(c.home.ctl({"up"}).status == 0);
  REQUIRE(eventually([&] { return cluster_of_nodes::link_seen_by(b, "a") == "up"; }));
  CHECK(c.home.ctl_json({"nodes"})["authority_unlocked"] == false);
  auto ends = [&] { return cluster_of_nodes::row_seen_by(c.home, "b")["certificate_ends_ms"].get<std::int64_t>(); };
  auto before = ends();
  auto wrong = c.home.ctl({"ca", "unlock", "--passphrase-file", "-"}, {.input = "wrong\n"});
  CHECK(wrong.status != 0);
  REQUIRE(c.home.ctl({"ca", "unlock", "--passphrase-file", passphrase}).status == 0);
  CHECK(eventually([&] { return ends() > before; }));
}

TEST_CASE("the graph shows what lives on every host, from each of them") {
  cluster_of_nodes c;
  test_node b, d;
  c.join(b, "b");
  c.join(d, "d");
  auto pty = b.ctl_json({"pty", "new", "--", "sleep", "600"})["id"].get<std::string>();
  for (const auto* seen_from : {&c.home, &d}) {
    const auto graph = seen_from->ctl_json({"graph"})["nodes"];
    std::set<std::string> nodes;
    auto found = false;
    for (const auto& n : graph) {
      nodes.insert(n["node"].is_null() ? "" : n["node"].get<std::string>());
      found |= n["node"] == "b" && n["path"].get<std::string>().find(pty) != std::string::npos;
    }
    CHECK(nodes.size() == 3);
    CHECK(found);
  }
  const auto here = c.home.ctl_json({"graph", "--here"})["nodes"];
  for (const auto& n : here)
    CHECK(n["node"].is_null());
  CHECK(c.home.ctl({"graph"}).out.find("of b") != std::string::npos);
}

TEST_CASE("labels of the user's choose a node, and why it was chosen is said") {
  cluster_of_nodes c;
  test_node b;
  configure(b, "", "[labels]\ngpu = \"yes\"\n");
  c.join(b, "b");
  CHECK(eventually([&] { return cluster_of_nodes::row_seen_by(c.home, "b")["labels"].value("gpu", "") == "yes"; }));
  auto r = c.home.ctl(in_shared(
    {"dispatch", "train", "--where", "gpu=yes", "--explain", "--directory", b.work(), "--harness", "exec", "--", "sh", "-c", "echo $SWARM_HOME"}));
  CAPTURE(r.err);
  CHECK(r.status == 0);
  CHECK(r.out.find(b.dir().root.string()) != std::string::npos);
  CHECK(r.err.find("placed on b: the only node that fits. Not a: it has no label gpu=yes") != std::string::npos);
  auto none = c.home.ctl(in_shared({"dispatch", "fly", "--where", "wings=two", "--harness", "exec", "--", "true"}));
  CHECK(none.status == 1);
  CHECK(none.err.find("wings=two") != std::string::npos);
  // Running workers are counted, and so are those just asked for.
  auto pty = b.ctl_json({"pty", "new", "--", "sleep", "600"})["id"].get<std::string>();
  CHECK(eventually([&] { return cluster_of_nodes::row_seen_by(c.home, "b")["workers"] == 1; }));
  REQUIRE(b.ctl({"pty", "kill", pty}).status == 0);
  CHECK(eventually([&] { return cluster_of_nodes::row_seen_by(c.home, "b")["workers"] == 0; }));
}

TEST_CASE("a node starts for others only what its rules accept, and names the rule") {
  cluster_of_nodes c;
  test_node b;
  configure(b, "", "[accept.spawn]\nharnesses = [\"claude\"]\n");
  c.join(b, "b");
  auto refused = c.home.ctl(dispatch_to(b, "b", "not here"));
  CAPTURE(refused.out);
  CHECK(refused.status == 1);
  CHECK((refused.out + refused.err).find("accept.spawn.harnesses") != std::string::npos);
  // Its own people may.
  CHECK(b.ctl(dispatch_to(b, "b", "my own")).status == 0);
}

TEST_CASE("terminals of a node are for others what its rules say") {
  cluster_of_nodes c;
  test_node b;
  configure(b, "", "[accept.terminals]\nwrite = []\n");
  c.join(b, "b");
  auto id = b.ctl_json({"pty", "new", "--", "sh", "-c", "echo hello; sleep 600"})["id"].get<std::string>();
  CHECK(eventually([&] { return c.home.ctl({"pty", "read", id}).out.find("hello") != std::string::npos; }));
  auto refused = c.home.ctl({"pty", "send", id, "x"});
  CHECK(refused.status == 1);
  CHECK(refused.err.find("accept.terminals.write") != std::string::npos);
  auto kill = c.home.ctl({"pty", "kill", id});
  CHECK(kill.status == 1);
  // Who is attached is told at the first key, and may look until then.
  terminal_process person{{program("swarmctl").string(), "pty", "attach", id}, c.home.env(), c.home.work()};
  REQUIRE(person.read_until("hello"));
  person.type("x");
  CHECK(person.read_until("accept.terminals.write"));
  CHECK(person.finish() == 1);
  CHECK(b.ctl({"pty", "send", id, "x"}).status == 0);
}

TEST_CASE("a worker that is lost with its host is started on another one that has a checkout") {
  cluster_of_nodes c{"link_heartbeat = 1000\nlink_silence = 2000\nhost_lease = 4000\n"};
  test_node b, d;
  c.join(b, "b");
  c.join(d, "d");
  temp_dir trees;
  auto checkout = [&](test_node& n, const std::string& name) {
    auto root = trees.text() + "/" + name;
    fs::create_directories(root + "/.git");
    REQUIRE(n.ctl({"scope", "share", root, "--as", "shared"}).status == 0);
    return root;
  };
  auto of_b = checkout(b, "b"), of_d = checkout(d, "d");
  REQUIRE(eventually([&] { return cluster_of_nodes::row_seen_by(c.home, "d")["checkouts"].size() == 1; }));
  auto asked = b.ctl_json(in_shared({"dispatch", "stubborn", "--where", "os=linux", "--retries", "1", "--detach", "--harness", "exec", "--", "sh",
                                     "-c", "pwd; case $PWD in */b) sleep 600;; esac"}),
                          {.directory = of_b});
  CAPTURE(asked.dump());
  auto row = [&] { return c.home.ctl_json(in_shared({"task", task_of(asked)})); };
  REQUIRE(eventually([&] { return row()["status"] == "in_progress" || row()["status"] == "done"; }));
  if (row()["status"] == "done")
    return; // the least busy one was d at once: nothing to lose
  b.kill_node();
  b.kill_keeper();
  CHECK(eventually([&] { return row()["status"] == "done"; }));
  CHECK(row().dump().find(of_d) != std::string::npos);
}
