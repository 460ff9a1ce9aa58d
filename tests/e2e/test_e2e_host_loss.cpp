// What becomes of what a host held, and of what is asked of it, when it goes, comes back, or is not reached for a while.
#include <csignal>

#include "tests/support/cluster_of_nodes.hpp"

using namespace swarm::testing;

namespace {

constexpr const char* watchful = "link_heartbeat = 1000\nlink_silence = 2000\nhost_lease = 4000\n";

std::vector<std::string> on_b(const test_node& b, const std::string& title, std::vector<std::string> more, std::vector<std::string> program) {
  std::vector<std::string> args{"dispatch", title, "--on", "b", "--directory", b.work(), "--detach"};
  args.insert(args.end(), more.begin(), more.end());
  args.insert(args.end(), {"--harness", "exec", "--"});
  args.insert(args.end(), program.begin(), program.end());
  return in_shared(args);
}

json task_seen_by(const test_node& node, const json& asked) {
  return node.ctl_json(in_shared({"task", asked.contains("task") ? asked["task"]["id"].get<std::string>() : asked["task_id"].get<std::string>()}));
}

bool is_alive(pid_t pid) { return kill(pid, 0) == 0; }

pid_t pid_in(const std::string& file) {
  pid_t pid = 0;
  std::ifstream{file} >> pid;
  return pid;
}

} // namespace

TEST_CASE("the locks of a lost host's sessions are free after its lease, also of sessions that live by a lease of their own") {
  cluster_of_nodes c{watchful};
  test_node b;
  c.join(b, "b");
  auto ann = register_shared(c.home, "name:ann"), bob = register_shared(b, "name:bob");
  REQUIRE(b.ctl(in_shared({"lock", "/f", "--as", bob})).status == 0);
  b.kill_node();
  CHECK(c.home.ctl(in_shared({"lock", "/f", "--as", ann, "--wait", "25"})).status == 0);
  CHECK(c.home.ctl_json(in_shared({"instances"})).size() == 1);
  // It comes back, and is told.
  REQUIRE(b.ctl({"up"}).status == 0);
  REQUIRE(eventually([&] { return cluster_of_nodes::link_seen_by(b, "a") == "up"; }));
  auto late = b.ctl(in_shared({"unlock", "/f", "--as", bob}));
  CHECK(late.status == 1);
  CHECK(c.home.ctl_json(in_shared({"locks"})).size() == 1);
}

TEST_CASE("the worker of a host that was taken for lost is ended when the host is heard again") {
  for (bool begins_anew : {false, true}) {
    CAPTURE(begins_anew);
    cluster_of_nodes c{watchful};
    test_node b;
    c.join(b, "b");
    auto file = b.work() + "/pid";
    auto asked = c.home.ctl_json(on_b(b, "long", {}, {"sh", "-c", "echo $$ > " + file + "; exec sleep 600"}));
    REQUIRE(eventually([&] { return pid_in(file) != 0; }));
    auto worker = pid_in(file);
    if (begins_anew)
      b.kill_node();
    else
      REQUIRE(kill(b.node_pid(), SIGSTOP) == 0);
    CHECK(eventually([&] { return task_seen_by(c.home, asked)["status"] == "failed"; }));
    CHECK(is_alive(worker)); // its keeper goes on
    if (begins_anew)
      REQUIRE(b.ctl({"up"}).status == 0);
    else
      REQUIRE(kill(b.node_pid(), SIGCONT) == 0);
    CHECK(eventually([&] { return !is_alive(worker); }));
    CHECK(task_seen_by(c.home, asked)["status"] == "failed");
  }
}

TEST_CASE("a worker with retries whose directory is the lost host's begins again there when it is heard, after the program that was over has ended") {
  for (bool begins_anew : {false, true}) {
    CAPTURE(begins_anew);
    cluster_of_nodes c{watchful};
    test_node b;
    c.join(b, "b");
    auto log = b.work() + "/log", go = b.work() + "/go";
    // Deaf to what ends it politely, so that the next one has to wait; each notes whether the one before is still there.
    auto program = "trap '' TERM HUP; for p in $(sed -n 's/begin //p' " + log + "); do kill -0 $p && echo beside $p >> " + log +
                   "; done; echo begin $$ >> " + log + "; while [ ! -e " + go + " ]; do sleep 0.05; done; echo done";
    auto asked = c.home.ctl_json(on_b(b, "twice", {"--retries", "1"}, {"sh", "-c", program}));
    auto begun = [&] {
      std::vector<std::string> words;
      std::ifstream in{log};
      for (std::string word; in >> word;)
        words.push_back(word);
      return words;
    };
    REQUIRE(eventually([&] { return begun().size() == 2; }));
    auto first = static_cast<pid_t>(std::stol(begun()[1]));
    if (begins_anew)
      b.kill_node();
    else
      REQUIRE(kill(b.node_pid(), SIGSTOP) == 0);
    REQUIRE(eventually([&] { return task_seen_by(c.home, asked)["status"] == "open"; }));
    CHECK(is_alive(first)); // its keeper goes on
    if (begins_anew)
      REQUIRE(b.ctl({"up"}).status == 0);
    else
      REQUIRE(kill(b.node_pid(), SIGCONT) == 0);
    REQUIRE(eventually([&] { return begun().size() > 2; }));
    CHECK(begun().size() == 4);
    CHECK(begun()[2] == "begin");
    CHECK_FALSE(is_alive(first));
    std::ofstream{go};
    CHECK(eventually([&] { return task_seen_by(c.home, asked)["status"] == "done"; }));
  }
}

TEST_CASE("a worker that waited for another task begins elsewhere when its host has gone meanwhile, or fails and says why") {
  cluster_of_nodes c;
  test_node b;
  c.join(b, "b");
  auto go = b.work() + "/go";
  auto first = c.home.ctl_json(in_shared({"dispatch", "first", "--on", "a", "--directory", c.home.work(), "--detach", "--harness", "exec", "--", "sh",
                                          "-c", "while [ ! -e " + go + " ]; do sleep 0.05; done"}));
  auto id = task_seen_by(c.home, first)["id"].get<std::string>();
  auto named = c.home.ctl_json(on_b(b, "named", {"--depends-on", id}, {"true"}));
  REQUIRE(c.home.ctl({"drain", "b"}).status == 0);
  std::ofstream{go};
  REQUIRE(eventually([&] { return task_seen_by(c.home, first)["status"] == "done"; }));
  REQUIRE(eventually([&] { return task_seen_by(c.home, named)["status"] == "failed"; }));
  CHECK(task_seen_by(c.home, named).dump().find("b is being drained") != std::string::npos);
}

TEST_CASE("what is asked while the home is away fails in time, says so, and does not happen later") {
  cluster_of_nodes c;
  test_node b;
  c.join(b, "b");
  auto bob = register_shared(b, "name:bob");
  c.home.kill_node();
  REQUIRE(eventually([&] { return cluster_of_nodes::link_seen_by(b, "a") == "down"; }));
  for (const auto& ask : {std::vector<std::string>{"lock", "/f", "--as", bob}, std::vector<std::string>{"locks"}}) {
    // A tenth of the deadline is the answer's time to arrive, which a loaded machine may miss: it gets more the next time.
    std::string said;
    for (int seconds = 2; seconds <= 32 && said.find("the home of this scope, a, ") == std::string::npos; seconds *= 2) {
      auto args = ask;
      args.insert(args.end(), {"--timeout", std::to_string(seconds)});
      auto ended = b.ctl(in_shared(std::move(args)));
      CHECK(ended.status != 0);
      said = ended.err;
    }
    CAPTURE(said);
    CHECK(said.find("the home of this scope, a, ") != std::string::npos);
  }
  REQUIRE(c.home.ctl({"up"}).status == 0);
  REQUIRE(eventually([&] { return cluster_of_nodes::link_seen_by(b, "a") == "up"; }));
  // Behind whatever would have been put when the link came up.
  CHECK(b.ctl(in_shared({"kv", "set", "k", "v"})).status == 0);
  CHECK(b.ctl_json(in_shared({"locks"})).empty());
}

TEST_CASE("what is asked of a home that is away is refused when a restart would be over, with its name, for how long and why, also what waits") {
  cluster_of_nodes c;
  test_node b;
  c.join(b, "b");
  auto bob = register_shared(b, "name:bob");
  c.home.kill_node();
  REQUIRE(eventually([&] { return cluster_of_nodes::link_seen_by(b, "a") == "down"; }));
  const std::vector<std::vector<std::string>> asked{{"tasks"},
                                                    {"lock", "/f", "--as", bob},
                                                    {"register", "--label", "name:cid"},
                                                    {"pty", "new", "--", "true"},
                                                    {"dispatch", "work", "--directory", b.work(), "--harness", "exec", "--", "true"}};
  std::vector<child_process> waiting;
  for (const auto& ask : asked)
    waiting.push_back(b.ctl_start(in_shared(ask)));
  auto is_refused = [&](const run_result& r) {
    CAPTURE(r.err);
    CHECK(r.status == 1);
    CHECK(r.err.find("the home of this scope, a, has not been reached for ") != std::string::npos);
    CHECK(r.err.find("(" + c.address + ": connection refused)") != std::string::npos);
    CHECK(r.err.find("UNKNOWN") == std::string::npos);
  };
  for (auto& w : waiting)
    is_refused(w.finish());
  // However long the caller would wait.
  for (auto ask : asked) {
    ask.insert(ask.begin(), {"--timeout", "600"});
    is_refused(b.ctl(in_shared(ask)));
  }
  REQUIRE(c.home.ctl({"up"}).status == 0);
  CHECK(eventually([&] { return b.ctl(in_shared({"locks"})).status == 0; }));
  CHECK(b.ctl_json(in_shared({"locks"})).empty());
  CHECK(b.ctl_json(in_shared({"instances"})).size() == 1);
}

TEST_CASE("a command that is followed from a member survives a restart of the home") {
  cluster_of_nodes c;
  test_node b;
  c.join(b, "b");
  auto go = b.work() + "/go";
  auto followed = b.ctl_start(in_shared({"dispatch", "long", "--on", "b", "--directory", b.work(), "--harness", "exec", "--", "sh", "-c",
                                         "echo begun > " + go + ".begun; while [ ! -e " + go + " ]; do sleep 0.05; done; echo through"}));
  REQUIRE(eventually([&] { return fs::exists(go + ".begun"); }));
  c.home.kill_node();
  REQUIRE(c.home.ctl({"up"}).status == 0);
  std::ofstream{go};
  auto ended = followed.finish();
  CAPTURE(ended.err);
  CHECK(ended.status == 0);
  CHECK(ended.out.find("through") != std::string::npos);
}

TEST_CASE("who follows from a member a task that the restored store of the home does not know is told") {
  cluster_of_nodes c;
  test_node b;
  c.join(b, "b");
  auto backup = c.home.work() + "/before.db";
  REQUIRE(c.home.ctl({"backup", backup}).status == 0);
  auto followed = b.ctl_start(in_shared({"dispatch", "lost", "--on", "b", "--directory", b.work(), "--harness", "exec", "--", "sleep", "1000"}));
  REQUIRE(followed.read_until([](const run_result& r) { return r.err.find("claimed by") != std::string::npos; }));
  REQUIRE(c.home.ctl({"down", "--keep-programs"}).status == 0);
  REQUIRE(c.home.ctl({"restore", backup}).status == 0);
  REQUIRE(c.home.ctl({"up"}).status == 0);
  auto told = followed.finish();
  CHECK(told.status == 1);
  CHECK_MESSAGE(told.err.find("Task not found") != std::string::npos, told.err);
}

TEST_CASE("a terminal of a host that is not linked is said to be there, or not to have been asked for") {
  cluster_of_nodes c{"restart_grace = 2000\n"};
  test_node b;
  c.join(b, "b");
  auto id = last_line(b.ctl(in_shared({"pty", "new", "--name", "far", "--", "sleep", "1000"})).out);
  b.kill_node();
  REQUIRE(eventually([&] { return cluster_of_nodes::link_seen_by(c.home, "b") == "down"; }));
  auto said = [&](const std::string& who) {
    auto r = c.home.ctl(in_shared({"pty", "read", who}));
    CHECK(r.status == 1);
    return r.err;
  };
  auto of_name = said("far"), of_id = said(id), of_nobody = said("nobody");
  CHECK_MESSAGE(of_name.find("is on the host b, which is not linked (down for ") != std::string::npos, of_name);
  CHECK_MESSAGE(of_id.find("not linked, and so not asked: b; ") != std::string::npos, of_id);
  CHECK_MESSAGE(of_nobody.find("not linked, and so not asked: b (down for ") != std::string::npos, of_nobody);
}

TEST_CASE("a member that is restarted while its home is away reads, types into and ends what runs on it, and the home is told of the end") {
  cluster_of_nodes c;
  test_node b;
  c.join(b, "b");
  auto id = last_line(b.ctl(in_shared({"pty", "new", "--name", "m2", "--", "sh", "-c", "echo ready; while read -r l; do echo got-$l; done"})).out);
  auto output_has = [&](const std::string& text) {
    return eventually([&] { return b.ctl(in_shared({"pty", "read", id})).out.find(text) != std::string::npos; });
  };
  REQUIRE(output_has("ready"));
  REQUIRE(c.home.ctl({"down", "--keep-programs"}).status == 0);
  b.kill_node();
  REQUIRE(b.ctl({"up"}).status == 0);
  CHECK(output_has("ready"));
  // Which it has not heard since it started.
  CHECK(eventually([&] { return b.ctl({"status"}).out.find(": " + c.address + ": connection refused") != std::string::npos; }));
  CHECK(cluster_of_nodes::row_seen_by(b, "a")["reachable"] == false);
  auto typed = b.ctl(in_shared({"pty", "send", "m2", "hi", "--enter"}));
  CHECK_MESSAGE(typed.status == 0, typed.err);
  CHECK(output_has("got-hi"));
  {
    terminal_process person{{program("swarmctl").string(), "--scope", "shared", "pty", "attach", "m2"}, b.env(), b.work()};
    person.type("there\r");
    CHECK(person.read_until("got-there"));
    person.type("\x1d");
    CHECK(person.finish() == 0);
  }
  auto ended = b.ctl(in_shared({"pty", "kill", "m2"}));
  CHECK_MESSAGE(ended.status == 0, ended.err);
  REQUIRE(c.home.ctl({"up"}).status == 0);
  CHECK(eventually([&] {
    for (const auto& s : c.home.ctl_json(in_shared({"spawns"})))
      if (s["id"] == id)
        return s["status"] == "ended";
    return false;
  }));
}

TEST_CASE("a place in line at the home survives a restart of the member's node") {
  cluster_of_nodes c;
  test_node b;
  c.join(b, "b");
  auto ann = register_shared(c.home, "name:ann"), bob = register_shared(b, "name:bob"), cid = register_shared(c.home, "name:cid");
  REQUIRE(c.home.ctl(in_shared({"lock", "/f", "--as", ann})).status == 0);
  auto waiters = [&] { return c.home.ctl_json(in_shared({"locks"}))[0].value("waiters", 0); };
  auto first = b.ctl_start(in_shared({"lock", "/f", "--as", bob, "--wait", "60"}));
  REQUIRE(eventually([&] { return waiters() == 1; }));
  auto second = c.home.ctl_start(in_shared({"lock", "/f", "--as", cid, "--wait", "60"}));
  REQUIRE(eventually([&] { return waiters() == 2; }));
  b.kill_node();
  REQUIRE(b.ctl({"up"}).status == 0);
  REQUIRE(eventually([&] { return cluster_of_nodes::link_seen_by(c.home, "b") == "up"; }));
  REQUIRE(c.home.ctl(in_shared({"unlock", "/f", "--as", ann})).status == 0);
  auto got = first.finish();
  CAPTURE(got.err);
  CHECK(got.status == 0);
  REQUIRE(b.ctl(in_shared({"unlock", "/f", "--as", bob})).status == 0);
  CHECK(second.finish().status == 0);
}
