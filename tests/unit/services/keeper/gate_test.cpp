// The commit gate, exit statuses and attaching again.
#include "tests/unit/services/keeper/harness.hpp"

using namespace swarm;
using namespace swarm::testing;

TEST_CASE("a program does not run before its gate is opened") {
  node n;
  attached a{n.dir};
  auto proof = n.temp.path() / "ran";
  REQUIRE(a.client.start(shell("s1", "touch " + proof.string())));
  REQUIRE(a.reach_gate("s1"));
  auto c = a.events.child("s1");
  CHECK(pid_start_time(static_cast<pid_t>(c.pid)) == c.pid_start);
  // A second child that runs to its end shows that the keeper did not merely lack the time.
  a.run(shell("s2", "true"));
  a.wait_exit("s2");
  CHECK_FALSE(fs::exists(proof));
  CHECK(file_text("/proc/" + std::to_string(c.pid) + "/cmdline").find("touch") == std::string::npos);
  a.client.open_gate("s1");
  CHECK(a.wait_exit("s1").exit_status == 0);
  CHECK(fs::exists(proof));
}

TEST_CASE("a child whose client died before the commit is held and can be aborted by the next one") {
  node n;
  auto proof = n.temp.path() / "ran";
  std::int64_t pid = 0;
  {
    attached first{n.dir};
    first.client.start(shell("s1", "touch " + proof.string()));
    REQUIRE(first.reach_gate("s1"));
    pid = first.events.child("s1").pid;
  }
  attached second{n.dir};
  REQUIRE(second.ready());
  REQUIRE(second.events.listed.size() == 1);
  CHECK(second.events.listed[0].at_gate);
  CHECK(second.events.listed[0].pid == pid);
  CHECK(is_running(static_cast<pid_t>(pid)));
  second.client.abort("s1");
  CHECK(second.wait_exit("s1").signal == SIGKILL);
  CHECK(eventually([pid] { return !is_running(static_cast<pid_t>(pid)); }));
  second.client.open_gate("s1");
  second.run(shell("s2", "true"));
  second.wait_exit("s2");
  CHECK_FALSE(fs::exists(proof));
}

TEST_CASE("abort does not touch a program whose gate was opened") {
  node n;
  attached a{n.dir};
  a.run(shell("s1", "echo up; read x; exit 5"));
  REQUIRE(a.wait_output("s1", "up"));
  a.client.abort("s1");
  a.client.write("s1", 1, "go\n");
  auto e = a.wait_exit("s1");
  CHECK(e.exit_status == 5);
  CHECK(e.signal == 0);
}

TEST_CASE("exit statuses and signals are reported as they were, with all output before them") {
  node n;
  attached a{n.dir};
  for (int status : {0, 1, 77, 255}) {
    auto id = "exit" + std::to_string(status);
    a.run(shell(id, "printf last-words; exit " + std::to_string(status)));
    auto e = a.wait_exit(id);
    CHECK(e.exit_status == status);
    CHECK(e.signal == 0);
    CHECK(e.end == 10);
    CHECK(a.output(id) == "last-words");
  }
  a.run(shell("sig", "kill -9 $$"));
  CHECK(a.wait_exit("sig").signal == SIGKILL);
  CHECK(a.wait_exit("sig").exit_status == 0);
}

TEST_CASE("large output before the exit is complete in the ring when the exit is told") {
  node n;
  attached a{n.dir};
  for (bool pipes : {false, true}) {
    auto id = pipes ? "pipes" : "pty";
    a.run(shell(id, "i=0; while [ $i -lt 2000 ]; do echo line-$i-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; i=$((i+1)); done; printf END", pipes));
    auto e = a.wait_exit(id);
    auto text = a.output(id);
    CHECK(text.size() == e.end);
    CHECK(text.substr(text.size() - 3) == "END");
    CHECK(text.find("line-1999-") != std::string::npos);
  }
}

TEST_CASE("a program that cannot be executed ends with status 127 and says why in its output") {
  node n;
  attached a{n.dir};
  auto s = shell("s1", "");
  give(*s.mutable_argv(), {"no-such-program-here"});
  a.run(s);
  CHECK(a.wait_exit("s1").exit_status == 127);
  CHECK(a.output("s1").find("cannot run no-such-program-here: No such file or directory") != std::string::npos);
}

TEST_CASE("a start that cannot reach the gate fails with a text and leaves nothing behind") {
  node n;
  attached a{n.dir};
  REQUIRE(a.ready());
  auto refused = [&](const std::string& id, internal::StartChild s) {
    s.set_id(id);
    REQUIRE(a.client.start(s));
    CHECK_FALSE(a.reach_gate(id.empty() ? "" : id));
    return a.events.child(id).failure;
  };
  auto s = shell("x", "true");
  s.set_directory("/no/such/directory");
  CHECK(refused("directory", s).find("cannot enter /no/such/directory") != std::string::npos);
  s.set_directory("relative");
  CHECK(refused("relative", s).find("absolute") != std::string::npos);
  s = shell("x", "true");
  s.set_ring_bytes(100'000);
  CHECK(refused("ring", s).find("power of two") != std::string::npos);
  s = shell("x", "true");
  s.clear_argv();
  CHECK(refused("argv", s).find("program") != std::string::npos);
  s = shell("x", "true");
  give(*s.mutable_environment(), {"novalue"});
  CHECK(refused("environment", s).find("NAME=value") != std::string::npos);
  CHECK(refused("", shell("x", "true")).find("id") != std::string::npos);
  attached again{n.dir};
  REQUIRE(again.ready());
  CHECK(again.events.listed.empty());
}

TEST_CASE("repeating a start answers with the child that exists") {
  node n;
  attached a{n.dir};
  auto s = shell("s1", "echo run >> " + (n.temp.path() / "runs").string() + "; read x");
  REQUIRE(a.client.start(s));
  REQUIRE(a.client.start(s));
  REQUIRE(a.reach_gate("s1"));
  auto pid = a.events.child("s1").pid;
  a.client.open_gate("s1");
  a.client.start(s);
  a.client.open_gate("s1");
  REQUIRE(a.events.wait([&] { return a.events.seen["s1"].at_gate >= 2; }));
  CHECK(a.events.child("s1").pid == pid);
  a.client.write("s1", 1, "\n");
  a.wait_exit("s1");
  CHECK(file_text(n.temp.path() / "runs") == "run\n");
  a.client.start(s);
  REQUIRE(a.events.wait([&] { return a.events.seen["s1"].exits.size() == 2; }));
  CHECK(file_text(n.temp.path() / "runs") == "run\n");
}

TEST_CASE("programs survive their client, and the next one continues the log without a gap") {
  node n;
  std::string before;
  {
    attached first{n.dir};
    first.run(shell("s1", "echo one; read x; echo two-$x; read y; echo three-$y"));
    REQUIRE(first.wait_output("s1", "one"));
    before = first.output("s1");
  }
  attached second{n.dir};
  REQUIRE(second.ready());
  REQUIRE(second.events.listed.size() == 1);
  CHECK_FALSE(second.events.listed[0].at_gate);
  CHECK_FALSE(second.events.listed[0].exited);
  CHECK(second.output("s1").substr(0, before.size()) == before);
  second.client.write("s1", 1, "a\n");
  REQUIRE(second.wait_output("s1", "two-a"));
  second.client.write("s1", 2, "b\n");
  second.wait_exit("s1");
  CHECK(second.output("s1").find("three-b") != std::string::npos);
}

TEST_CASE("an exit that nobody saw is kept until it is forgotten") {
  node n;
  std::int64_t pid = 0;
  {
    attached first{n.dir};
    first.run(shell("s1", "echo up; read x; exit 9"));
    REQUIRE(first.wait_output("s1", "up"));
    pid = first.events.child("s1").pid;
    first.client.write("s1", 1, "\n");
  }
  REQUIRE(eventually([pid] { return !is_running(static_cast<pid_t>(pid)); }));
  auto exited = [](attached& a) {
    auto& l = a.events.listed;
    return l.size() == 1 && l[0].exited;
  };
  {
    attached second{n.dir};
    REQUIRE(second.ready());
    if (!exited(second)) // attached between the death and the wait for it
      CHECK(second.wait_exit("s1").exit_status == 9);
  }
  {
    attached third{n.dir};
    REQUIRE(third.ready());
    REQUIRE(exited(third));
    CHECK(third.events.listed[0].exit_status == 9);
    CHECK(third.output("s1").find("up") != std::string::npos);
    third.client.forget("s1");
  }
  attached fourth{n.dir};
  REQUIRE(fourth.ready());
  CHECK(fourth.events.listed.empty());
}

TEST_CASE("a running program cannot be forgotten") {
  node n;
  {
    attached a{n.dir};
    a.run(shell("s1", "echo up; read x"));
    REQUIRE(a.wait_output("s1", "up"));
    a.client.forget("s1");
  }
  attached b{n.dir};
  REQUIRE(b.ready());
  CHECK(b.events.listed.size() == 1);
}

TEST_CASE("what a client sent before it was replaced is still done") {
  node n;
  for (int i = 0; i < 30; ++i) {
    CAPTURE(i);
    auto id = "s" + std::to_string(i);
    {
      attached a{n.dir};
      a.run(shell(id, "exit 1"));
      a.wait_exit(id);
      a.client.forget(id);
    }
    attached next{n.dir};
    REQUIRE(next.ready());
    CHECK(next.events.listed.empty());
  }
}

TEST_CASE("a new client replaces the old one") {
  node n;
  attached first{n.dir};
  REQUIRE(first.ready());
  attached second{n.dir};
  REQUIRE(second.ready());
  CHECK(first.events.wait([&] { return first.events.gone; }));
  CHECK_FALSE(first.client.open_gate("x"));
  second.run(shell("s1", "true"));
  CHECK(second.wait_exit("s1").exit_status == 0);
}
