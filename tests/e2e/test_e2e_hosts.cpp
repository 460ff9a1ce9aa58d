// Several nodes on one machine: how they come together, and that what is shared is one thing.
#include <csignal>

#include "tests/support/cluster_of_nodes.hpp"
#include "tests/support/node_client.hpp"

using namespace swarm;
using namespace swarm::testing;

TEST_CASE("a host joins with a token, and both see the other") {
  cluster_of_nodes c;
  test_node b;
  c.join(b, "b");
  auto nodes = c.home.ctl_json({"nodes"});
  REQUIRE(nodes["nodes"].size() == 2);
  CHECK(nodes["nodes"][0]["name"] == "a");
  CHECK(nodes["nodes"][0]["home"] == true);
  CHECK(nodes["nodes"][0]["link"] == "self");
  CHECK(nodes["nodes"][1]["name"] == "b");
  CHECK(nodes["nodes"][1]["link"] == "up");
  CHECK(nodes["nodes"][1]["labels"]["os"] == "linux");
  CHECK(nodes["cluster_id"] == b.ctl_json({"nodes"})["cluster_id"]);
}

TEST_CASE("a token lets in one node, once, and not a stranger") {
  cluster_of_nodes c;
  auto token = c.token();
  test_node b, other;
  REQUIRE(b.ctl({"join", token, "--node-name", "b"}).status == 0);
  auto again = other.ctl({"join", token, "--node-name", "other"});
  CHECK(again.status != 0);
  CHECK(again.err.find("token") != std::string::npos);
  auto wrong = other.ctl({"join", token.substr(0, token.size() - 4) + "AAAA", "--node-name", "other"});
  CHECK(wrong.status != 0);
  CHECK(c.home.ctl_json({"nodes"})["nodes"].size() == 2);
}

TEST_CASE("a name that the cluster has already is refused") {
  cluster_of_nodes c;
  test_node b;
  auto r = b.ctl({"join", c.token(), "--node-name", "a"});
  CHECK(r.status != 0);
  CHECK_MESSAGE(r.err.find("the cluster has a node of this name already. On the host that wants to join") != std::string::npos, r.err);
  // Its node runs on under the name that it cannot have.
  auto again = b.ctl({"join", c.token(), "--node-name", "b"});
  CHECK(again.status == 1);
  CHECK_MESSAGE(again.err.find("To join as b, run first: swarmctl down. To join as a, which the cluster refuses") != std::string::npos, again.err);
  REQUIRE(b.ctl({"down"}).status == 0);
  c.join(b, "b");
}

TEST_CASE("what is shared is one thing from both hosts") {
  cluster_of_nodes c;
  test_node b;
  c.join(b, "b");
  auto ann = register_shared(c.home, "name:ann");
  auto bob = register_shared(b, "name:bob");
  // Sessions of both.
  CHECK(c.home.ctl_json(in_shared({"instances"})).size() == 2);
  CHECK(b.ctl_json(in_shared({"instances"})).size() == 2);
  // Keys.
  REQUIRE(b.ctl(in_shared({"kv", "set", "colour", "green", "--as", bob})).status == 0);
  CHECK(c.home.ctl(in_shared({"kv", "get", "colour", "--as", ann})).out.find("green") != std::string::npos);
  // A lock that one holds is not the other's.
  REQUIRE(b.ctl(in_shared({"lock", "/src/file.cpp", "--as", bob})).status == 0);
  auto refused = c.home.ctl(in_shared({"lock", "/src/file.cpp", "--as", ann}));
  CHECK(refused.status == 1);
  REQUIRE(b.ctl(in_shared({"unlock", "/src/file.cpp", "--as", bob})).status == 0);
  CHECK(c.home.ctl(in_shared({"lock", "/src/file.cpp", "--as", ann})).status == 0);
}

TEST_CASE("a message wakes the session that waits for it on the other host, both ways, and is there to be read") {
  cluster_of_nodes c;
  test_node b;
  c.join(b, "b");
  auto ann = register_shared(c.home, "name:ann"), bob = register_shared(b, "name:bob");
  auto both_ways = [](const test_node& from, const std::string& sender, const test_node& to, const std::string& recipient) {
    auto send = [&](const std::string& text) { return from.ctl(in_shared({"send", "--as", sender, "--to", recipient, text})).status; };
    CHECK(to.ctl(in_shared({"wait", "--seconds", "0.05", "--as", recipient})).status == 4);
    auto waiting = to.ctl_start(in_shared({"wait", "--seconds", "60", "--json", "--as", recipient}));
    REQUIRE(eventually([&] { return to.ctl_json({"status"})["calls_in_flight"] >= 2; })); // that of the status, and the wait
    REQUIRE(send("wake up") == 0);
    auto woken = waiting.finish();
    CAPTURE(woken.err);
    REQUIRE(woken.status == 0);
    const auto said = woken.parsed();
    CHECK(said["changes"] == json{"new_messages"});
    REQUIRE(said["messages"].size() == 1);
    CHECK(said["messages"][0]["content"] == "wake up");
    CHECK(said["messages"][0]["sender"] == sender);
    CHECK(to.ctl(in_shared({"messages", "--as", recipient})).out.find("wake up") != std::string::npos);
    // It was taken; one that is there already is not waited for.
    CHECK(to.ctl(in_shared({"wait", "--seconds", "0.05", "--as", recipient})).status == 4);
    REQUIRE(send("one more") == 0);
    CHECK(to.ctl(in_shared({"wait", "--seconds", "60", "--as", recipient})).out.find("one more") != std::string::npos);
  };
  both_ways(c.home, ann, b, bob);
  both_ways(b, bob, c.home, ann);
}

TEST_CASE("a lock wait on a member is granted when the holder at the home lets go") {
  cluster_of_nodes c;
  test_node b;
  c.join(b, "b");
  auto ann = register_shared(c.home, "name:ann");
  auto bob = register_shared(b, "name:bob");
  REQUIRE(c.home.ctl(in_shared({"lock", "/f", "--as", ann})).status == 0);
  auto waiting = b.ctl_start(in_shared({"lock", "/f", "--as", bob, "--wait", "30"}));
  REQUIRE(eventually([&] {
    for (const auto& l : c.home.ctl_json(in_shared({"locks"})))
      if (l.value("waiters", 0) == 1)
        return true;
    return false;
  }));
  REQUIRE(c.home.ctl(in_shared({"unlock", "/f", "--as", ann})).status == 0);
  CHECK(waiting.finish().status == 0);
}

TEST_CASE("a worker is started on the node that is named, and its result comes back") {
  cluster_of_nodes c;
  test_node b;
  c.join(b, "b");
  auto file = b.work() + "/made-on-b";
  auto done = c.home.ctl_json(in_shared({"dispatch", "make a file", "--on", "b", "--directory", b.work(), "--harness", "exec", "--", "sh", "-c",
                                         "echo $SWARM_HOME > " + file + "; echo done on b"}));
  CAPTURE(done.dump());
  CHECK(done["task"]["status"] == "done");
  CHECK(last_line(file_text(file)) == b.dir().root.string());
  // The other way round, too.
  auto back = b.ctl_json(
    in_shared({"dispatch", "make another", "--on", "a", "--directory", c.home.work(), "--harness", "exec", "--", "sh", "-c", "echo $SWARM_HOME"}));
  CAPTURE(back.dump());
  CHECK(back["output_tail"].get<std::string>().find(c.home.dir().root.string()) != std::string::npos);
  auto unknown = c.home.ctl(in_shared({"dispatch", "nowhere", "--on", "nobody", "--harness", "exec", "--", "true"}));
  CHECK(unknown.status == 1);
  CHECK(unknown.err.find("nobody") != std::string::npos);
}

TEST_CASE("variables of --env reach a worker on the caller's own host and are refused for another one before anything is made") {
  cluster_of_nodes c;
  test_node b;
  c.join(b, "b");
  const std::vector<std::string> program{"--", "sh", "-c", "echo deploys to ${TARGET:-production}"};
  auto line = [&](std::vector<std::string> words) {
    words.insert(words.end(), program.begin(), program.end());
    return in_shared(std::move(words));
  };
  const std::vector<std::vector<std::string>> verbs{{"dispatch", "deploy"}, {"spawn"}, {"pty", "new"}};
  for (const auto* from : {&c.home, &b}) {
    const bool at_home = from == &c.home;
    for (const auto& where : {std::vector<std::string>{"--on", at_home ? "b" : "a"}, {"--where", "os=linux"}})
      for (auto verb : verbs) {
        verb.insert(verb.end(), {"--env", "TARGET=staging"});
        verb.insert(verb.end(), where.begin(), where.end());
        auto refused = from->ctl(line(verb));
        CHECK_MESSAGE(refused.status == 1, (refused.out + refused.err));
        CHECK_MESSAGE(refused.err.find("--env does not reach a worker on another host") != std::string::npos, refused.err);
      }
    // Its own name is no other host, and without a name the host is the caller's, whatever else would fit better.
    for (const std::string& on : {at_home ? "a" : "b", ""}) {
      std::vector<std::string> words{"dispatch", "deploy from " + from->work() + on, "--env", "TARGET=staging", "--explain"};
      if (!on.empty())
        words.insert(words.end(), {"--on", on});
      auto done = from->ctl(line(words));
      CHECK_MESSAGE(done.status == 0, done.err);
      CHECK_MESSAGE(done.out.find("deploys to staging") != std::string::npos, (done.out + done.err));
    }
  }
  CHECK(c.home.ctl_json(in_shared({"spawns"})).size() == 4);
  CHECK(c.home.ctl_json(in_shared({"tasks"})).size() == 4);
}

TEST_CASE("a worker with variables of --env does not go to another host because its own one takes no more workers") {
  cluster_of_nodes c;
  test_node b;
  c.join(b, "b");
  REQUIRE(c.home.ctl({"drain", "b"}).status == 0);
  for (const auto& verb : {std::vector<std::string>{"dispatch", "deploy"}, {"spawn"}}) {
    auto words = verb;
    words.insert(words.end(), {"--env", "TARGET=staging", "--", "true"});
    auto refused = b.ctl(in_shared(words));
    CHECK_MESSAGE(refused.status == 1, (refused.out + refused.err));
    CHECK_MESSAGE(refused.err.find("it is being drained") != std::string::npos, refused.err);
  }
  CHECK(c.home.ctl_json(in_shared({"spawns"})).empty());
}

TEST_CASE("the same dispatch from three hosts at once gives one worker") {
  cluster_of_nodes c;
  test_node b, d;
  c.join(b, "b");
  c.join(d, "d");
  temp_dir shared;
  auto runs = shared.text() + "/runs", go = shared.text() + "/go";
  auto args = in_shared({"dispatch", "only once", "--idempotency-key", "k1", "--directory", shared.text(), "--harness", "exec", "--", "sh", "-c",
                         "echo run >> " + runs + "; while [ ! -e " + go + " ]; do sleep 0.05; done; echo ran"});
  std::vector<child_process> asking;
  for (const auto* host : {&c.home, &b, &d})
    asking.push_back(host->ctl_start(args));
  // It runs until all three have been told of it: none comes when it is over.
  for (auto& one : asking)
    REQUIRE(one.read_until("only once"));
  std::ofstream{go};
  std::size_t made = 0;
  for (auto& one : asking) {
    auto r = one.finish();
    CAPTURE(r.out);
    CAPTURE(r.err);
    CHECK(r.status == 0);
    CHECK(r.out.find("ran\n") != std::string::npos);
    made += r.err.find("created task") != std::string::npos;
  }
  CHECK(made == 1);
  CHECK(count_lines(runs) == 1);
  for (const auto* host : {&c.home, &b, &d}) {
    CHECK(host->ctl_json(in_shared({"spawns"})).size() == 1);
    CHECK(host->ctl_json(in_shared({"tasks"})).size() == 1);
  }
}

TEST_CASE("terminals of one host are read and typed to from another") {
  cluster_of_nodes c;
  test_node b;
  c.join(b, "b");
  auto r = b.ctl_json({"pty", "new", "--", "sh", "-c", "echo ready; read line; echo got $line"});
  auto id = r["id"].get<std::string>();
  CHECK(eventually([&] { return c.home.ctl({"pty", "read", id}).out.find("ready") != std::string::npos; }));
  REQUIRE(c.home.ctl({"pty", "send", id, "over the link", "--enter"}).status == 0);
  auto followed = c.home.ctl({"pty", "read", id, "--follow"});
  CHECK(followed.out.find("got over the link") != std::string::npos);
  // And it goes out of the list, once its end has been noted there.
  auto listed = [&] {
    auto all = c.home.ctl_json({"pty", "list", "--all"});
    return std::any_of(all.begin(), all.end(), [&](const auto& p) { return p["id"] == id; });
  };
  CHECK(listed());
  CHECK(eventually([&] { return c.home.ctl({"pty", "prune", "--all-scopes"}).status == 0 && !listed(); }));
}

TEST_CASE("a name in a directory that is not shared never means a terminal of another host in a directory of that path") {
  cluster_of_nodes c;
  test_node b;
  c.join(b, "b");
  run_options same;
  same.directory = (fs::path{c.home.work()} / "same").string();
  fs::create_directories(same.directory);
  const auto mine = c.home.ctl_json({"pty", "new", "--name", "build", "--", "sh", "-c", "exit 0"}, same)["id"].get<std::string>();
  const auto theirs = b.ctl_json({"pty", "new", "--name", "build", "--", "sh", "-c", "echo hers; sleep 600"}, same)["id"].get<std::string>();
  const auto only_theirs = b.ctl_json({"pty", "new", "--name", "other", "--", "true"}, same)["id"].get<std::string>();
  REQUIRE(eventually([&] { return c.home.ctl({"pty", "kill", "build"}, same).err.find("has ended already") != std::string::npos; }));
  CHECK(c.home.ctl({"pty", "send", "build", "x", "--enter"}, same).status == 1);
  CHECK(c.home.ctl({"pty", "read", "other"}, same).err.find("no terminal of scope") != std::string::npos);
  CHECK(c.home.ctl({"pty", "read", "build"}, same).out.find("hers") == std::string::npos);
  REQUIRE(eventually([&] { return b.ctl_json({"pty", "list"}, same).dump().find("\"exit_status\":0") != std::string::npos; }));
  CHECK(c.home.ctl({"pty", "prune"}, same).out.find(mine.substr(0, 8)) != std::string::npos);
  CHECK(c.home.ctl_json({"pty", "list"}, same).empty());
  CHECK(b.ctl_json({"pty", "list"}, same).size() == 2);
  // By its whole id it is meant, and the list of all says where it is.
  std::map<std::string, std::string> scopes;
  for (const auto& p : c.home.ctl_json({"pty", "list", "--all"}, same))
    scopes[p.at("id")] = p.at("scope");
  CHECK(scopes[theirs] == "b:" + same.directory);
  CHECK(scopes.contains(only_theirs));
  CHECK(c.home.ctl({"pty", "read", theirs}, same).out.find("hers") != std::string::npos);
  CHECK(c.home.ctl({"pty", "kill", theirs}, same).status == 0);
}

TEST_CASE("terminals of all hosts are known by name and by the beginning of their ids on each of them") {
  cluster_of_nodes c;
  test_node b, d;
  c.join(b, "b");
  c.join(d, "d");
  auto open_on = [](const test_node& node, const std::string& name) {
    return node.ctl_json(in_shared({"pty", "new", "--name", name, "--", "sh", "-c", "echo I am $SWARM_HOME; sleep 600"}))["id"].get<std::string>();
  };
  auto of_b = open_on(b, "of-b");
  auto twin = open_on(c.home, "twin");
  open_on(b, "twin");
  for (const auto* node : {&c.home, &b, &d}) {
    CAPTURE(node->dir().root.string());
    for (const auto& word : {std::string{"of-b"}, of_b.substr(0, 8), of_b}) {
      CAPTURE(word);
      CHECK(eventually([&] { return node->ctl(in_shared({"pty", "read", word})).out.find("I am " + b.dir().root.string()) != std::string::npos; }));
    }
    auto ambiguous = node->ctl(in_shared({"pty", "kill", "twin"}));
    CHECK(ambiguous.status == 1);
    CHECK_MESSAGE(ambiguous.err.find("more than one terminal") != std::string::npos, ambiguous.err);
    CHECK(node->ctl_json(in_shared({"pty", "list"})).size() == 3);
    for (const auto* list : {"pty list", "spawns"}) {
      auto rows = lines_of(list == std::string{"spawns"} ? node->ctl(in_shared({"spawns"})).out : node->ctl(in_shared({"pty", "list"})).out);
      auto row = std::find_if(rows.begin(), rows.end(), [&](const auto& r) { return r.find(of_b.substr(0, 8)) != std::string::npos; });
      REQUIRE(row != rows.end());
      CHECK(rows.front().find("NODE") != std::string::npos);
      CHECK_MESSAGE(row->find(" b ") != std::string::npos, *row);
    }
  }
  // One that runs on a host which is not reached is still meant by its name.
  b.kill_node();
  REQUIRE(eventually([&] { return cluster_of_nodes::link_seen_by(c.home, "b") != "up"; }));
  auto ambiguous = d.ctl(in_shared({"pty", "kill", "twin"}));
  CHECK_MESSAGE(ambiguous.err.find("more than one terminal") != std::string::npos, (ambiguous.out + ambiguous.err));
  CHECK(d.ctl(in_shared({"pty", "kill", twin.substr(0, 8)})).status == 0);
}

TEST_CASE("much output is followed from another host, every byte once, also by two at a time and from anywhere") {
  cluster_of_nodes c;
  test_node b;
  c.join(b, "b");
  auto id = b.ctl_json({"pty", "new", "--", "sh", "-c", "stty -opost -echo; read go; exec seq 1 300000"})["id"].get<std::string>();
  auto first = c.home.ctl_start({"pty", "read", id, "--follow"});
  auto second = c.home.ctl_start({"pty", "read", id, "--follow", "--from", "1000000"});
  REQUIRE(b.ctl({"pty", "send", id, "go", "--enter"}).status == 0);
  std::string all;
  for (int n = 1; n <= 300'000; ++n)
    all += std::to_string(n) + "\n";
  auto one = first.finish(), two = second.finish();
  CHECK(one.status == 0);
  CHECK(two.status == 0);
  CHECK((one.out == all)); // too long to be shown
  CHECK((two.out == all.substr(1'000'000)));
}

TEST_CASE("a line that is sent again after the terminal's node was killed is typed once") {
  cluster_of_nodes c;
  test_node b;
  c.join(b, "b");
  auto id = b.ctl_json({"pty", "new", "--", "sh", "-c", "stty -echo; echo ready; while read line; do echo got $line; done"})["id"].get<std::string>();
  auto output = [&] { return b.ctl({"pty", "read", id}).out; };
  REQUIRE(eventually([&] { return output().find("ready") != std::string::npos; }));
  for (auto* sender : {&c.home, &b}) {
    node_client client{*sender};
    v1::SendPtyRequest line;
    auto type = [&] {
      v1::SendPtyReply reply;
      auto sent = [&] {
        grpc::ClientContext context;
        client.prepare(context);
        return client.ptys().Send(&context, line, &reply).ok();
      };
      CHECK(eventually(sent)); // the connection may have been the last node's
      return reply.accepted();
    };
    *line.mutable_id() = client.next_id();
    line.set_pty_id(id);
    line.set_data("once\n");
    CHECK(type() == 5);
    b.kill_node();
    REQUIRE(b.ctl({"up"}).status == 0);
    REQUIRE(eventually([&] { return c.link_seen_by(c.home, "b") == "up"; }));
    CHECK(type() == 5);
    *line.mutable_id() = client.next_id();
    line.set_data(sender == &b ? "end b\n" : "end a\n");
    CHECK(type() == 6);
  }
  REQUIRE(eventually([&] { return output().find("got end b") != std::string::npos; }));
  CHECK(output() == "ready\r\ngot once\r\ngot end a\r\ngot once\r\ngot end b\r\n");
}

TEST_CASE("a terminal of another host stays attached while one's own node restarts") {
  cluster_of_nodes c;
  test_node b;
  c.join(b, "b");
  // The home waits for the member to dial it; the member dials the home.
  const std::pair<test_node*, test_node*> both[]{{&c.home, &b}, {&b, &c.home}};
  for (auto [mine, other] : both) {
    CAPTURE(mine == &b);
    std::string id = other->ctl_json({"pty", "new", "--", "sh", "-c", "while read -r line; do echo got-$line; done"}).at("id");
    terminal_process person{{program("swarmctl").string(), "pty", "attach", id}, mine->env(), mine->work()};
    person.type("one\r");
    REQUIRE(person.read_until("got-one"));
    auto types = [&](const std::string& word) {
      return eventually([&] {
        person.type(word + "\r");
        return person.read_until("got-" + word, std::chrono::milliseconds{500});
      });
    };
    mine->kill_node();
    CHECK(types("two"));
    REQUIRE(mine->ctl({"down", "--keep-programs"}).status == 0);
    REQUIRE(mine->ctl({"up"}).status == 0);
    CHECK(types("three"));
    person.type("\x1d");
    CHECK(person.finish() == 0);
    CHECK(person.screen().find("no terminal") == std::string::npos);
  }
}

TEST_CASE("a terminal of another host stays attached while one's own node is suspended") {
  cluster_of_nodes c{"link_heartbeat = 1000\nlink_silence = 2000\n"};
  test_node b, d;
  c.join(b, "b");
  c.join(d, "d");
  std::string id = b.ctl_json({"pty", "new", "--", "sh", "-c", "while read -r line; do echo got-$line; done"}).at("id");
  terminal_process person{{program("swarmctl").string(), "pty", "attach", id}, d.env(), d.work()};
  person.type("one\r");
  REQUIRE(person.read_until("got-one"));
  // Several times: what comes first after it, the news of the link or the question for the terminal, is chance.
  for (int i = 0; i < 3; ++i) {
    const auto word = "again" + std::to_string(i);
    kill(d.node_pid(), SIGSTOP);
    const bool was_missed = eventually([&] { return cluster_of_nodes::link_seen_by(c.home, "d") == "down"; });
    kill(d.node_pid(), SIGCONT);
    REQUIRE(was_missed);
    CHECK(eventually([&] {
      person.type(word + "\r");
      return person.read_until("got-" + word, std::chrono::milliseconds{500});
    }));
  }
  person.type("\x1d");
  CHECK(person.finish() == 0);
  CHECK(person.screen().find("no terminal") == std::string::npos);
}

TEST_CASE("a line that is typed to another host's terminal while the home is away arrives or the person is told that keys are lost") {
  const std::string short_calls = "call_deadline_default = 3750\n";
  cluster_of_nodes c{short_calls};
  test_node b, d;
  configure(d, short_calls);
  c.join(b, "b");
  c.join(d, "d");
  std::string id = b.ctl_json({"pty", "new", "--", "sh", "-c", "while read -r line; do echo got-$line; done"}).at("id");
  terminal_process person{{program("swarmctl").string(), "pty", "attach", id}, d.env(), d.work()};
  person.type("one\r");
  REQUIRE(person.read_until("got-one"));
  c.home.kill_node();
  person.type("lost\r");
  // Longer than the call that carried it may take.
  person.read_until("got-lost", std::chrono::milliseconds{8'000});
  REQUIRE(c.home.ctl({"up"}).status == 0);
  CHECK(eventually([&] {
    person.type("three\r");
    return person.read_until("got-three", std::chrono::milliseconds{500});
  }));
  const auto& screen = person.screen();
  const bool is_told = screen.find("keys on their way") != std::string::npos || screen.find("are not sent") != std::string::npos;
  CHECK_MESSAGE((is_told || screen.find("got-lost") != std::string::npos), screen);
  person.type("\x1d");
  CHECK(person.finish() == 0);
}

TEST_CASE("a member's node and its home may stop and come back") {
  cluster_of_nodes c;
  test_node b;
  c.join(b, "b");
  auto bob = register_shared(b, "name:bob");
  REQUIRE(b.ctl(in_shared({"kv", "set", "k", "1", "--as", bob})).status == 0);
  b.kill_node();
  REQUIRE(b.ctl({"up"}).status == 0);
  CHECK(b.ctl(in_shared({"kv", "get", "k", "--as", bob})).out.find("1") != std::string::npos);
  c.home.kill_node();
  // Without its home a member says what is missing, in time.
  auto away = b.ctl(in_shared({"kv", "get", "k", "--as", bob, "--timeout", "2"}));
  CHECK(away.status != 0);
  REQUIRE(c.home.ctl({"up"}).status == 0);
  CHECK(b.ctl(in_shared({"kv", "get", "k", "--as", bob})).out.find("1") != std::string::npos);
}

TEST_CASE("a revoked node is out at once and stays out") {
  cluster_of_nodes c;
  test_node b;
  c.join(b, "b");
  REQUIRE(c.home.ctl({"node", "revoke", "b"}).status == 0);
  CHECK(eventually([&] { return cluster_of_nodes::link_seen_by(b, "a") != "up"; }));
  auto r = b.ctl(in_shared({"kv", "set", "k", "1", "--timeout", "2"}));
  CHECK(r.status != 0);
  CHECK(cluster_of_nodes::link_seen_by(c.home, "b") == "revoked");
}

TEST_CASE("a revoked node knows that it is out, also after a restart, and leaves without its home") {
  cluster_of_nodes c;
  test_node b;
  c.join(b, "b");
  REQUIRE(c.home.ctl({"node", "revoke", "b"}).status == 0);
  auto is_out = [&] { return cluster_of_nodes::link_seen_by(b, "a") == "revoked"; };
  REQUIRE(eventually(is_out));
  for (const auto& args : {in_shared({"kv", "set", "k", "1"}), in_shared({"tasks"}), std::vector<std::string>{"drain", "b"}}) {
    CAPTURE(args.back());
    auto refused = b.ctl(args);
    CHECK(refused.status == 1);
    CHECK_MESSAGE(refused.err.find("the home a has revoked this node") != std::string::npos, refused.err);
    CHECK(refused.err.find("swarmctl leave") != std::string::npos);
  }
  b.kill_node();
  REQUIRE(b.ctl({"up"}).status == 0);
  CHECK(is_out());
  auto left = b.ctl({"leave"});
  CHECK_MESSAGE(left.status == 0, left.err);
  CHECK(left.err.empty());
  CHECK(b.ctl_json({"nodes"})["nodes"].empty());
  auto again = b.ctl({"join", c.token(), "--node-name", "b"});
  CHECK(again.status == 1);
  CHECK_MESSAGE(again.err.find("with a new state directory") != std::string::npos, again.err);
}

TEST_CASE("a worker on a member outlives the member's node, and its end is told when the node is back") {
  cluster_of_nodes c;
  test_node b;
  c.join(b, "b");
  auto go = b.work() + "/go";
  auto asked = c.home.ctl_json(in_shared({"dispatch", "patient", "--on", "b", "--directory", b.work(), "--detach", "--harness", "exec", "--", "sh",
                                          "-c", "while [ ! -e " + go + " ]; do sleep 0.05; done; echo went"}));
  CAPTURE(asked.dump());
  auto task = asked.contains("task") ? asked["task"]["id"].get<std::string>() : asked["task_id"].get<std::string>();
  auto status = [&] { return c.home.ctl_json(in_shared({"task", task}))["status"].get<std::string>(); };
  REQUIRE(eventually([&] { return status() == "in_progress"; }));
  b.kill_node();
  REQUIRE(b.ctl({"up"}).status == 0);
  std::ofstream{go};
  CHECK(eventually([&] { return status() == "done"; }));
}

TEST_CASE("a host that is lost is given up after its lease, and what it ran counts as lost") {
  cluster_of_nodes c{"link_heartbeat = 1000\nlink_silence = 2000\nhost_lease = 4000\n"};
  test_node b;
  c.join(b, "b");
  auto asked =
    c.home.ctl_json(in_shared({"dispatch", "doomed", "--on", "b", "--directory", b.work(), "--detach", "--harness", "exec", "--", "sleep", "600"}));
  CAPTURE(asked.dump());
  auto task = asked.contains("task") ? asked["task"]["id"].get<std::string>() : asked["task_id"].get<std::string>();
  auto row = [&] { return c.home.ctl_json(in_shared({"task", task})); };
  REQUIRE(eventually([&] { return row()["status"] == "in_progress"; }));
  b.kill_node();
  b.kill_keeper();
  CHECK(eventually([&] { return row()["status"] == "failed"; }));
  CHECK(row().dump().find("host_lost") != std::string::npos);
  // What it did not live to say is refused when it is back: nothing comes of the old attempt.
  REQUIRE(b.ctl({"up"}).status == 0);
  REQUIRE(eventually([&] { return cluster_of_nodes::link_seen_by(c.home, "b") == "up"; }));
  CHECK(row()["status"] == "failed");
}
