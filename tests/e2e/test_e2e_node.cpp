// User story 3: the node starts by itself, says what it is, backs up, and is alone in its state directory.
#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <fstream>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "actors/base/local_socket.hpp"
#include "actors/base/unique_fd.hpp"
#include "tests/support/free_ports.hpp"
#include "tests/support/node_process.hpp"

using namespace swarm::testing;

namespace {

constexpr int store_moved = 74; // of swarmd

unsigned mode_of(const fs::path& path) {
  struct stat s {};
  return lstat(path.c_str(), &s) == 0 ? s.st_mode & 0777u : 0u;
}

bool has_kind(const json& graph, const std::string& kind) {
  const auto& nodes = graph.at("nodes");
  return std::any_of(nodes.begin(), nodes.end(), [&](const json& n) { return n.at("kind") == kind; });
}

} // namespace

TEST_CASE("the first command starts a node, and --no-autostart refuses with status 3 and leaves nothing behind") {
  test_node node;
  auto refused = node.ctl({"tasks", "--no-autostart"});
  CHECK(refused.status == 3);
  CHECK(refused.err.find("swarmctl up") != std::string::npos);
  CHECK(node.node_pid() == 0);
  CHECK_FALSE(fs::exists(node.dir().root));
  for (const auto* verb : {"status", "graph"})
    CHECK(node.ctl({verb}).status == 3);

  CHECK(node.ctl({"tasks"}).status == 0);
  CHECK(node.node_pid() != 0);
  CHECK(node.ctl({"tasks", "--no-autostart"}).status == 0);
}

TEST_CASE("up, status and down give the documented keys, and down ends the node and its keeper") {
  test_node node;
  auto up = node.ctl_json({"up", "--node-name", "workshop"});
  auto status = node.ctl_json({"status"});
  for (const auto* key : {"pid", "version", "node", "state_dir", "uptime_s"})
    CHECK_MESSAGE(status.contains(key), key);
  CHECK(up.at("pid") == status.at("pid"));
  CHECK(status.at("pid") == node.node_pid());
  CHECK(status.at("node") == "workshop");
  CHECK(status.at("state_dir") == node.dir().root.string());
  CHECK(status.at("uptime_s").is_number_integer());
  CHECK(node.ctl({"up", "--node-name", "other"}).status == 1);
  auto holder = node.session("name:holder");
  REQUIRE(node.ctl({"lock", "a", "--as", holder}).status == 0);
  REQUIRE(node.ctl({"request-task", "fix", "it"}).status == 0);
  status = node.ctl_json({"status"});
  CHECK(status.at("scopes") == 1);
  CHECK(status.at("instances") == 1);
  CHECK(status.at("open_tasks") == 1);
  CHECK(status.at("locks") == 1);
  REQUIRE(node.ctl_json({"dispatch", "work", "--harness", "exec", "--", "true"}).at("exit_status") == 0);
  auto keeper = node.keeper_pid();
  REQUIRE(keeper != 0);
  auto pid = node.node_pid();
  auto down = node.down({"--json"});
  CHECK(down.status == 0);
  CHECK(down.parsed().at("ok") == true);
  CHECK(down.parsed().at("pid") == pid);
  CHECK(eventually([&] { return !is_running(keeper); }));
  auto again = node.ctl_json({"down"});
  CHECK(again.at("pid").is_null());
  CHECK(node.node_pid() == 0);
  // The name is remembered.
  node.ctl_json({"up"});
  CHECK(node.ctl_json({"status"}).at("node") == "workshop");
}

TEST_CASE("when down has answered the node's process is gone") {
  test_node node;
  REQUIRE(node.ctl({"up"}).status == 0);
  auto pid = node.node_pid();
  REQUIRE(is_running(pid));
  CHECK(node.ctl({"down"}).out == "stopped the node (pid " + std::to_string(pid) + "); it stays down until: swarmctl up\n");
  CHECK_FALSE(is_running(pid));
}

TEST_CASE("down does not wait for the answer of a node that was killed and still ends") {
  test_node node;
  REQUIRE(node.ctl({"pty", "new", "--", "sleep", "1000"}).status == 0);
  node.kill_node();
  // What it looks like: it holds the directory and takes connections, until its last thread has gone.
  const auto script = "import fcntl,select,socket,sys\n"
                      "lock=open(sys.argv[1],'r+'); fcntl.flock(lock,fcntl.LOCK_EX)\n"
                      "s=socket.socket(socket.AF_UNIX); s.bind(sys.argv[2]); s.listen()\n"
                      "print('ends',flush=True)\n"
                      "select.select([s],[],[])\n";
  fs::remove(node.dir().socket());
  child_process ending{{"/usr/bin/python3", "-c", script, node.dir().lock_file().string(), node.dir().socket().string()}, node.env(), node.work()};
  REQUIRE(ending.read_until("ends"));
  auto down = node.ctl({"down"});
  CHECK_MESSAGE(down.status == 0, down.err);
  CHECK(down.out == "no node is running; it stays down until: swarmctl up\n");
  CHECK_MESSAGE(down.err.find("ended 1 program:") != std::string::npos, down.err);
}

TEST_CASE("a command that finds an old node still leaving starts the next one as soon as it can") {
  test_node node;
  REQUIRE(node.ctl({"up"}).status == 0);
  node.kill_node();
  // What a node that is stopping looks like: nobody answers, and the directory is held.
  swarm::unique_fd held{open(node.dir().lock_file().c_str(), O_RDWR | O_CLOEXEC)};
  REQUIRE(held);
  REQUIRE(eventually([&] { return flock(held.get(), LOCK_EX | LOCK_NB) == 0; }));
  auto up = node.ctl_start({"up", "--json"});
  auto other = node.ctl_start({"kv", "set", "a", "b"});
  // One of them has tried to start a node and met the lock.
  auto log = node.dir().log_dir() / "swarmd.out";
  REQUIRE(eventually([&] { return file_text(log.string()).find("another swarmd serves") != std::string::npos; }));
  held.reset();
  auto started = up.finish();
  CHECK_MESSAGE(started.status == 0, started.err);
  auto served = other.finish();
  CHECK_MESSAGE(served.status == 0, served.err);
}

TEST_CASE("graph shows the node, the writer, the readers, scopes and whatever is alive in them") {
  test_node node;
  auto holder = node.session("name:holder");
  auto waiter = node.session("name:waiter");
  REQUIRE(node.ctl({"lock", "a.cpp", "--as", holder}).status == 0);
  auto waiting = node.ctl_start({"lock", "a.cpp", "--wait", "60", "--as", waiter});
  REQUIRE(eventually([&] { return has_kind(node.ctl_json({"graph"}), "lock"); }));
  auto id = node.ctl_json({"pty", "new", "--", "sleep", "1000"}).at("id");
  auto graph = node.ctl_json({"graph"});
  for (const auto* kind : {"node", "writer", "reader", "watch_hub", "front", "scope", "lock", "processes", "pty"})
    CHECK_MESSAGE(has_kind(graph, kind), kind, " in ", graph.dump());
  for (const auto& n : graph.at("nodes"))
    for (const auto* key : {"path", "kind", "state", "age_ms", "restarts", "mailbox", "detail"})
      CHECK_MESSAGE(n.contains(key), key);
  auto text = node.ctl({"graph"});
  CHECK(text.status == 0);
  CHECK(text.out.find("lock") != std::string::npos);
}

TEST_CASE("events --follow shows what happens while it runs") {
  test_node node;
  REQUIRE(node.ctl({"up"}).status == 0);
  auto follower = node.ctl_start({"events", "--follow", "--since", "0", "--json"});
  REQUIRE(node.ctl({"kv", "set", "first", "1"}).status == 0);
  CHECK(follower.read_until("\"first\""));
  REQUIRE(node.ctl({"kv", "set", "second", "2"}).status == 0);
  CHECK(follower.read_until("\"second\"", std::chrono::seconds{5}));
  std::uint64_t last = 0;
  for (const auto& line : lines_of(follower.so_far().out)) {
    auto event = json::parse(line);
    CHECK(event.at("revision").get<std::uint64_t>() > last);
    last = event.at("revision");
  }
  follower.signal(SIGINT);
  CHECK(follower.finish().status == 128 + SIGINT);
}

TEST_CASE("events --follow goes on without a gap after the node was killed and started again") {
  test_node node;
  node.start();
  auto follower = node.ctl_start({"events", "--follow", "--since", "0", "--json", "--type", "kv."});
  REQUIRE(node.ctl({"kv", "set", "before", "1"}).status == 0);
  REQUIRE(follower.read_until("\"before\""));
  node.kill_node();
  node.start();
  REQUIRE(node.ctl({"kv", "set", "after", "1"}).status == 0);
  CHECK(follower.read_until("\"after\""));
  CHECK(lines_of(follower.so_far().out).size() == 2);
}

TEST_CASE("doctor passes on a healthy node and fails without one") {
  test_node node;
  auto without = node.ctl({"doctor", "--json"});
  CHECK(without.parsed().at("checks").is_array());
  REQUIRE(node.ctl({"up"}).status == 0);
  auto doctor = node.ctl_json({"doctor"});
  CHECK(doctor.at("ok") == true);
  CHECK(doctor.at("failed") == 0);
  std::vector<std::string> names;
  for (const auto& c : doctor.at("checks")) {
    names.push_back(c.at("name"));
    CHECK(c.contains("status"));
    CHECK(c.contains("message"));
    CHECK(c.contains("details"));
  }
  for (const auto* name :
       {"binary", "database", "scope", "live_instances", "stale_instances", "skill_discovery", "plugin_discovery", "unattended", "env"})
    CHECK_MESSAGE(std::find(names.begin(), names.end(), name) != names.end(), name);
}

TEST_CASE("a node starts from a backup with what was in it, and never gives a fence or a revision twice") {
  test_node node;
  auto holder = node.session("name:holder");
  REQUIRE(node.ctl({"kv", "set", "kept", "value"}).status == 0);
  auto file = node.work() + "/copy.db";
  auto backup = node.ctl_json({"backup", "copy.db"});
  CHECK(backup.at("path") == file);
  CHECK(backup.at("bytes") == fs::file_size(file));
  CHECK(backup.at("pages").get<std::uint64_t>() * 4096 == fs::file_size(file));
  CHECK(mode_of(file) == 0600u);
  CHECK(node.ctl({"backup", "copy.db"}).status == 1); // the file exists
  REQUIRE(node.ctl({"kv", "set", "lost", "value"}).status == 0);
  auto fence = node.ctl_json({"lock", "a.cpp", "--as", holder}).at("fence").get<std::uint64_t>();
  auto revision = node.ctl_json({"kv", "get", "lost"}).at("revision").get<std::uint64_t>();
  node.down();
  for (const auto* name : {"swarm.db", "swarm.db-wal", "swarm.db-shm"})
    fs::remove(node.dir().root / name);
  fs::copy_file(file, node.dir().database());
  node.start();
  CHECK(node.ctl({"kv", "get", "kept"}).out == "value\n");
  CHECK(node.ctl({"kv", "get", "lost"}).status == 1);
  CHECK(node.ctl_json({"lock", "a.cpp", "--as", holder}).at("fence").get<std::uint64_t>() > fence);
  REQUIRE(node.ctl({"kv", "set", "new", "value"}).status == 0);
  CHECK(node.ctl_json({"kv", "get", "new"}).at("revision").get<std::uint64_t>() > revision);
}

TEST_CASE("a node whose store is missing gives out no fence twice: it starts with a backup, or not at all") {
  test_node node;
  auto holder = node.session("name:holder");
  const auto file = node.work() + "/copy.db";
  REQUIRE(node.ctl({"backup", file}).status == 0);
  const auto fence = node.ctl_json({"lock", "a.cpp", "--as", holder}).at("fence").get<std::uint64_t>();
  node.kill_node();
  fs::rename(node.dir().database(), node.work() + "/moved.db");
  auto refused = node.ctl({"locks"}); // what needs a node starts one
  CHECK(refused.status == 3);
  CHECK_MESSAGE(refused.err.find("swarmctl restore FILE") != std::string::npos, refused.err);
  REQUIRE(node.ctl({"restore", file}).status == 0);
  REQUIRE(node.ctl({"up"}).status == 0);
  CHECK(node.ctl_json({"lock", "a.cpp", "--as", holder}).at("fence").get<std::uint64_t>() > fence);
}

TEST_CASE("a node whose socket was removed or replaced ends, its programs go on, and the next command starts a node that has them") {
  test_node node;
  node.start();
  const auto pid = node.ctl_json({"pty", "new", "--", "sleep", "1000"}).at("pid").get<pid_t>();
  const auto keeper = node.keeper_pid();
  SUBCASE("removed") { fs::remove(node.dir().socket()); }
  SUBCASE("replaced") { auto other = swarm::listen_at(node.dir().socket(), 8); }
  CHECK(node.wait_for_exit() == store_moved);
  auto terminals = node.ctl_json({"pty", "list"});
  REQUIRE(terminals.size() == 1);
  CHECK(terminals[0].at("pid") == pid);
  CHECK(terminals[0].at("running") == true);
  CHECK(is_running(pid));
  CHECK(node.keeper_pid() == keeper);
}

TEST_CASE("a node that runs and cannot be reached is named by its process, and down neither says it was stopped nor marks it as stopped") {
  test_node node;
  node.start();
  const auto pid = node.node_pid();
  REQUIRE(kill(pid, SIGSTOP) == 0); // it cannot notice
  fs::remove(node.dir().socket());
  const auto named = "(pid " + std::to_string(pid) + ") does not answer";
  for (const auto& words :
       std::vector<std::vector<std::string>>{{"status"}, {"tasks", "--no-autostart"}, {"doctor"}, {"down", "--yes", "--timeout", "0.1"}}) {
    auto said = node.ctl(words);
    INFO(words.front());
    CHECK(said.status != 0);
    CHECK_MESSAGE((said.out + said.err).find(named) != std::string::npos, said.out, said.err);
    CHECK((said.out + said.err).find("no node is running") == std::string::npos);
    CHECK(said.out.find("nothing keeps the node from starting") == std::string::npos);
  }
  CHECK_FALSE(fs::exists(node.dir().stopped_mark()));
  REQUIRE(kill(pid, SIGCONT) == 0);
  CHECK(node.wait_for_exit() == store_moved);
  CHECK(node.ctl({"status"}).err.find("no node is running") != std::string::npos);
}

TEST_CASE("a state directory that is moved beneath its node ends it, its programs can be ended there, and the node that has its old path goes on") {
  test_node node;
  node.start();
  const auto pid = node.ctl_json({"pty", "new", "--", "sleep", "1000"}).at("pid").get<pid_t>();
  const auto moved = node.dir().root.string() + ".moved";
  fs::rename(node.dir().root, moved);
  CHECK(node.wait_for_exit() == store_moved);
  REQUIRE(node.ctl({"up"}).status == 0);
  CHECK(is_running(pid));
  auto down = node.ctl({"down", "--yes"}, {.env = {{"SWARM_HOME", moved}}});
  CHECK_MESSAGE(down.status == 0, down.err);
  CHECK(eventually([&] { return !is_running(pid); }));
  CHECK(node.ctl({"status"}).status == 0);
}

TEST_CASE("when the state directory is removed beneath a node, its keeper ends the programs and itself") {
  test_node node;
  node.start();
  const auto pid = node.ctl_json({"pty", "new", "--", "sleep", "1000"}).at("pid").get<pid_t>();
  const auto keeper = node.keeper_pid();
  REQUIRE(keeper != 0);
  CHECK(eventually([&] {
    std::error_code still_in_use;
    fs::remove_all(node.dir().root, still_in_use);
    return !fs::exists(node.dir().root);
  }));
  CHECK(node.wait_for_exit() == store_moved);
  CHECK(eventually([&] { return !is_running(pid) && !is_running(keeper); }));
}

TEST_CASE("a store that a crash left is restored with everything that was answered, also from where an earlier restore has put it") {
  test_node node;
  const auto backup = node.work() + "/backup.db";
  REQUIRE(node.ctl({"kv", "set", "first", "v"}).status == 0);
  REQUIRE(node.ctl({"backup", backup}).status == 0);
  // Within the time in which an answer is only in the commit log.
  const auto env = node.env({{"PATH", program("swarmctl").parent_path().string() + ":/usr/bin:/bin"}});
  const auto pid = std::to_string(node.node_pid());
  REQUIRE(child_process{{"/bin/sh", "-c", "swarmctl kv set last v && kill -9 " + pid}, env, node.work()}.finish().status == 0);
  std::string from;
  SUBCASE("in its place") { from = node.dir().database().string(); }
  SUBCASE("replaced by a backup") {
    REQUIRE(node.ctl({"down", "--yes"}).status == 0);
    from = node.ctl_json({"restore", backup}).at("replaced").get<std::string>() + "/swarm.db";
  }
  REQUIRE(node.ctl({"down", "--yes"}).status == 0);
  const auto restored = node.ctl({"restore", from});
  REQUIRE_MESSAGE(restored.status == 0, restored.err);
  REQUIRE(node.ctl({"up"}).status == 0);
  CHECK(node.ctl({"kv", "get", "first"}).out == "v\n");
  CHECK(node.ctl({"kv", "get", "last"}).out == "v\n");
}

TEST_CASE("a store is not restored while a node of another state directory works on it") {
  test_node node, other;
  REQUIRE(other.ctl({"kv", "set", "k", "v"}).status == 0);
  REQUIRE(node.ctl({"down", "--yes"}).status == 0);
  const auto refused = node.ctl({"restore", other.dir().database().string()});
  CHECK(refused.status == 1);
  CHECK_MESSAGE(refused.err.find("swarmctl backup FILE") != std::string::npos, refused.err);
}

TEST_CASE("two state directories never meet") {
  test_node one;
  test_node two;
  REQUIRE(one.ctl({"kv", "set", "where", "one", "--scope", "shared"}).status == 0);
  REQUIRE(two.ctl({"kv", "set", "where", "two", "--scope", "shared"}).status == 0);
  CHECK(one.node_pid() != two.node_pid());
  CHECK(one.ctl({"kv", "get", "where", "--scope", "shared"}).out == "one\n");
  one.ctl_json({"pty", "new", "--scope", "shared", "--", "sleep", "1000"});
  CHECK(two.ctl_json({"pty", "list", "--all"}).empty());
  one.down();
  CHECK(two.ctl({"kv", "get", "where", "--scope", "shared", "--no-autostart"}).out == "two\n");
}

TEST_CASE("a state directory deeper than a socket address allows works, with its keeper") {
  test_node node{std::string(60, 'a') + "/" + std::string(60, 'b') + "/state"};
  REQUIRE(node.dir().socket().string().size() > 108);
  auto ran = node.ctl({"dispatch", "deep", "--harness", "exec", "--", "sh", "-c", "swarmctl() { :; }; echo deep; exit 4"});
  CAPTURE(ran.err);
  CHECK(ran.status == 4);
  CHECK(node.ctl_json({"status"}).at("state_dir") == node.dir().root.string());
  // A worker reaches the node too.
  auto inside = node.ctl({"dispatch", "inside", "--harness", "exec", "--", program("swarmctl").string(), "whoami"});
  CAPTURE(inside.out);
  CHECK(inside.status == 0);
}

TEST_CASE("everything in the state directory belongs to its user alone") {
  test_node node;
  REQUIRE(node.ctl_json({"dispatch", "work", "--harness", "exec", "--", "sh", "-c", "echo output"}).at("exit_status") == 0);
  CHECK(mode_of(node.dir().root) == 0700u);
  std::size_t seen = 0;
  for (const auto& entry : fs::recursive_directory_iterator{node.dir().root}) {
    ++seen;
    CHECK_MESSAGE(mode_of(entry.path()) == (entry.is_directory() ? 0700u : 0600u), entry.path().string());
  }
  CHECK(seen >= 7);
}

TEST_CASE("every name in the state directory is documented") {
  test_node node;
  REQUIRE(node.ctl_json({"dispatch", "work", "--harness", "exec", "--", "sh", "-c", "echo output"}).at("exit_status") == 0);
  auto* source = std::getenv("SWARM_SOURCE_DIR");
  REQUIRE(source != nullptr);
  auto page = file_text(fs::path{source} / "docs/operations.md");
  REQUIRE_FALSE(page.empty());
  for (const auto& below : {node.dir().root, node.dir().log_dir()})
    for (const auto& entry : fs::directory_iterator{below})
      CHECK_MESSAGE(page.find(entry.path().filename().string()) != std::string::npos, entry.path().string());
}

TEST_CASE("a second swarmd in the same state directory refuses with status 75, and the first one goes on") {
  test_node node;
  node.start();
  child_process second{{program("swarmd").string(), "--state-dir", node.dir().root.string()}, node.env(), "/"};
  auto ended = second.finish();
  CHECK(ended.status == 75);
  CHECK(ended.err.find("another swarmd") != std::string::npos);
  CHECK(node.ctl({"tasks", "--no-autostart"}).status == 0);
}

TEST_CASE("a swarmd that comes too late leaves the running one's output alone") {
  test_node node;
  REQUIRE(node.ctl({"up"}).status == 0);
  auto output = node.dir().log_dir() / "swarmd.out";
  std::ofstream{output, std::ios::app} << "from the one that runs\n";
  child_process late{{program("swarmd").string(), "--state-dir", node.dir().root.string(), "--detach"}, node.env(), "/"};
  CHECK(late.finish().status == 0); // the one that detaches itself does not know yet
  REQUIRE(eventually([&] { return file_text(output.string()).find("another swarmd serves") != std::string::npos; }));
  CHECK(file_text(output.string()).find("from the one that runs\n") != std::string::npos);
  REQUIRE(node.ctl({"down"}).status == 0);
  REQUIRE(node.ctl({"up"}).status == 0);
  CHECK(file_text(output.string()).find("from the one that runs") == std::string::npos);
}

TEST_CASE("many commands that find no node start one node together") {
  test_node node;
  std::vector<child_process> callers;
  for (int i = 0; i < 12; ++i)
    callers.push_back(node.ctl_start({"kv", "set", "k" + std::to_string(i), "v"}));
  for (auto& c : callers) {
    auto r = c.finish();
    CHECK_MESSAGE(r.status == 0, r.err);
  }
  CHECK(node.ctl_json({"kv"}).size() == 12);
}

TEST_CASE("up --foreground serves until Ctrl-C") {
  test_node node;
  auto front = node.ctl_start({"up", "--foreground"});
  CHECK(eventually([&] { return node.ctl({"kv", "set", "a", "b", "--no-autostart"}).status == 0; }));
  front.signal(SIGINT);
  CHECK(front.finish().status == 0);
  CHECK(node.ctl({"status"}).status == 3);
}

TEST_CASE("doctor names everything that keeps a node from starting, and up refuses with the same") {
  test_node node;
  REQUIRE(node.ctl({"up", "--listen", "127.0.0.1:" + std::to_string(free_ports()), "--insecure-ca"}).status == 0);
  REQUIRE(node.ctl({"down"}).status == 0);
  CHECK(node.ctl({"doctor"}).out.find("nothing keeps the node from starting") != std::string::npos);
  const auto root = node.dir().root;
  auto write = [](const fs::path& path, const std::string& text) { std::ofstream{path, std::ios::binary | std::ios::trunc} << text; };
  auto keeps_it_from_starting = [&](const std::string& why) {
    auto doctor = node.ctl({"doctor"});
    CHECK(doctor.status == 1);
    CHECK_MESSAGE(doctor.out.find(why) != std::string::npos, doctor.out);
    auto up = node.ctl({"up"});
    CHECK(up.status == 3);
    CHECK_MESSAGE(up.err.find(why) != std::string::npos, up.err);
    CHECK(eventually([&] { return node.node_pid() == 0; }));
  };
  SUBCASE("facts of the cluster that are none") {
    write(root / "cluster/cluster.json", "junk");
    keeps_it_from_starting("cluster.json: the file is damaged");
  }
  SUBCASE("facts of the cluster without any") {
    write(root / "cluster/cluster.json", "{}");
    keeps_it_from_starting("cluster.json: the file is damaged");
  }
  SUBCASE("facts of the cluster that others can read") {
    fs::permissions(root / "cluster/cluster.json", fs::perms{0644});
    keeps_it_from_starting("cluster.json can be read by others");
  }
  SUBCASE("checkouts that others can read") {
    write(root / "checkouts.json", "{}");
    fs::permissions(root / "checkouts.json", fs::perms{0644});
    keeps_it_from_starting("checkouts.json can be read by others");
  }
  SUBCASE("a key that is missing") {
    fs::remove(root / "cluster/node.key");
    keeps_it_from_starting("node.key: the file is missing");
  }
  SUBCASE("a directory where the socket goes") {
    fs::remove(node.dir().socket());
    fs::create_directory(node.dir().socket());
    keeps_it_from_starting("swarmd.sock is a directory");
  }
  SUBCASE("a key of terminals that is none") {
    write(node.dir().config_file(), "[terminal]\ndetach_key = \"zz\"\n");
    keeps_it_from_starting("config.toml:2: detach_key in [terminal] takes one character");
  }
  SUBCASE("a key in [terminal] that there is not") {
    write(node.dir().config_file(), "# ours\n[terminal]\ndetach = \"ctrl-a\"\n");
    keeps_it_from_starting("config.toml:3: unknown key \"detach\" in [terminal]");
  }
  SUBCASE("a store of which only the commit log is left") {
    for (const auto* suffix : {"", "-wal", "-shm"})
      fs::remove(node.dir().database().string() + suffix);
    keeps_it_from_starting("swarm.db is missing");
    keeps_it_from_starting("swarmctl restore FILE");
    CHECK_FALSE(fs::exists(node.dir().database()));
    fs::remove(node.dir().database().string() + ".commits");
    CHECK(node.ctl({"up"}).status == 0);
  }
  SUBCASE("a store that is none") {
    for (const auto* suffix : {"-wal", "-shm", ".commits"})
      fs::remove(node.dir().database().string() + suffix);
    write(node.dir().database(), std::string(10'000, 'x'));
    keeps_it_from_starting("swarm.db is not a database; restore a backup with: swarmctl restore FILE (file is not a database)");
    CHECK(node.ctl({"doctor"}).out.find("PRAGMA") == std::string::npos);
  }
}

TEST_CASE("a node that cannot start says why, once and at once, with status 3") {
  test_node node;
  REQUIRE(node.ctl({"up"}).status == 0);
  REQUIRE(node.ctl({"down"}).status == 0);
  auto why = [&](const std::string& part) {
    auto refused = node.ctl({"up"});
    CHECK(refused.status == 3);
    CHECK_MESSAGE(refused.err.find(part) != std::string::npos, refused.err);
    CHECK(refused.err.find("ready in time") == std::string::npos);
    CHECK_MESSAGE(refused.err.find("default limits") == std::string::npos, refused.err);
  };
  auto write = [](const fs::path& path, const std::string& text) { std::ofstream{path, std::ios::binary | std::ios::trunc} << text; };
  SUBCASE("a limit it does not know") {
    write(node.dir().config_file(), "[limits]\nno_such_limit = 1\n");
    why("no_such_limit");
  }
  SUBCASE("an unreadable configuration") {
    write(node.dir().config_file(), "[limits\n");
    why("config.toml");
  }
  SUBCASE("a file that is no database") {
    write(node.dir().database(), std::string(10'000, 'x'));
    why("swarm.db");
  }
  auto log = node.dir().log_dir() / "swarmd.log";
  std::ifstream in{log};
  std::size_t tries = 0;
  for (std::string line; std::getline(in, line);)
    tries += line.find("critical") != std::string::npos ? 1 : 0;
  CHECK(tries == 1);
}
