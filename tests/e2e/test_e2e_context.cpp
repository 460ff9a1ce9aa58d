// Nodes by name: another one of this host, and one behind a real sshd on loopback that belongs to the test.
#include <csignal>
#include <cstdlib>
#include <iostream>

#include <doctest/doctest.h>

#include "tests/support/own_sshd.hpp"

using namespace swarm::testing;

namespace {

constexpr int exit_skipped = 77; // as tests/CMakeLists.txt tells ctest

[[noreturn]] void skip(const std::string& why) {
  std::cout << "skipped: " << why << std::endl;
  std::_Exit(exit_skipped);
}

/// What sessions of ssh have: swarmctl in the path, and the sanitizers' options.
environment of_sessions(const test_node& node) {
  environment out{{"PATH", program("swarmctl").parent_path().string() + ":/usr/bin:/bin"}};
  for (const auto& [name, value] : node.env())
    if (name.ends_with("SAN_OPTIONS"))
      out[name] = value;
  return out;
}

/// The host "far": a node, and an sshd of the test's own that leads to it. Its login shell talks, as many do.
struct far_host {
  test_node node;
  own_sshd sshd{R"(command="echo Welcome to far; eval \"$SSH_ORIGINAL_COMMAND\"" )", of_sessions(node)};

  far_host() {
    if (!sshd.missing().empty())
      skip(sshd.missing());
  }
  /// For swarmctl on the near host: its own home, no SWARM_HOME, the test's ssh.
  run_options from_near(std::chrono::milliseconds deadline = patience) const {
    return {.input = {}, .env = {{"SWARM_HOME", ""}, {"PATH", sshd.bin() + ":/usr/bin:/bin"}}, .directory = {}, .deadline = deadline};
  }
};

/// Both, and the context "far" that leads from one to the other.
struct two_hosts {
  far_host far;
  test_node near;

  two_hosts() {
    auto made =
      near.ctl({"context", "set", "far", "--ssh", far.sshd.url(), "--remote-state-dir", far.node.dir().root.string(), "--scope", far.node.work()},
               far.from_near());
    INFO(made.err);
    REQUIRE(made.status == 0);
    REQUIRE(near.ctl({"context", "use", "far"}, far.from_near()).status == 0);
  }
  run_result ctl(std::vector<std::string> args) const { return near.ctl(std::move(args), far.from_near()); }
  json ctl_json(std::vector<std::string> args) const { return near.ctl_json(std::move(args), far.from_near()); }
};

} // namespace

TEST_CASE("a context of this host leads to another node without ssh") {
  test_node here, other;
  const run_options plain{.input = {}, .env = {{"SWARM_HOME", ""}}, .directory = {}, .deadline = patience};
  other.start({"--node-name", "other"});
  REQUIRE(here.ctl({"context", "set", "other", "--state-dir", other.dir().root.string()}, plain).status == 0);
  CHECK(here.ctl_json({"status", "--context", "other"}, plain)["node"] == "other");
  CHECK(here.ctl({"status"}, plain).status == 3); // nothing runs in the state directory of this user
  REQUIRE(here.ctl({"context", "use", "other"}, plain).status == 0);
  CHECK(here.ctl_json({"status"}, plain)["node"] == "other");
  CHECK(here.ctl({"status"}).status == 3); // SWARM_HOME says which
  REQUIRE(here.ctl({"kv", "set", "colour", "green", "--scope", "shared"}, plain).status == 0);
  CHECK(other.ctl({"kv", "get", "colour", "--scope", "shared"}).out.find("green") != std::string::npos);
  // Its process is one of this host: down waits for its end.
  REQUIRE(here.ctl({"down"}, plain).status == 0);
  CHECK(other.wait_for_exit() == 0);
  // And it is started like one's own.
  CHECK(here.ctl({"up"}, plain).status == 0);
  CHECK(other.node_pid() != 0);
}

TEST_CASE("over ssh: a node is started there, answers, and stops") {
  two_hosts h;
  CHECK(h.ctl({"status"}).status == 3); // status starts none
  auto refused = h.ctl({"up"});
  CHECK(refused.status == 1);
  CHECK(refused.err.find("over ssh") != std::string::npos);
  REQUIRE(h.ctl({"kv", "set", "colour", "green"}).status == 0);
  CHECK(h.far.node.node_pid() != 0);
  CHECK(h.near.node_pid() == 0);
  CHECK(h.ctl({"kv", "get", "colour"}).out.find("green") != std::string::npos);
  CHECK(h.far.node.ctl({"kv", "get", "colour"}).out.find("green") != std::string::npos); // the scope is the directory there
  auto status = h.ctl_json({"status"});
  CHECK(status["state_dir"] == h.far.node.dir().root.string());
  auto pid = h.far.node.node_pid();
  CHECK(status["pid"] == pid);
  auto down = h.ctl({"down"});
  INFO(down.err);
  CHECK(down.status == 0);
  CHECK(eventually([&] { return !is_running(pid); }));
  auto again = h.ctl({"down"});
  INFO(again.err);
  CHECK(again.out.find("no node is running") != std::string::npos);
}

TEST_CASE("over ssh: a terminal there is made, read and written to") {
  two_hosts h;
  auto id = h.ctl_json({"pty", "new", "--name", "shell", "--", "sh", "-c", "pwd; read line; echo got $line"}).at("id").get<std::string>();
  auto shows = [&](const std::string& text) {
    return eventually([&] { return h.ctl_json({"pty", "read", id}).at("data").get<std::string>().find(text) != std::string::npos; });
  };
  CHECK(shows(h.far.node.work())); // it stands in the scope of the context
  REQUIRE(h.ctl({"pty", "send", id, "hello", "--enter"}).status == 0);
  CHECK(shows("got hello"));
}

TEST_CASE("over ssh: events are followed through the death of the node") {
  two_hosts h;
  h.far.node.start();
  auto follower = h.near.ctl_start({"events", "--follow", "--no-autostart"}, h.far.from_near());
  // Told again and again, as nothing says when the follower listens.
  int n = 0;
  REQUIRE(eventually([&] {
    REQUIRE(h.far.node.ctl({"kv", "set", "before" + std::to_string(n++), "1"}).status == 0);
    return follower.read_until("before", std::chrono::milliseconds{500});
  }));
  h.far.node.kill_node();
  h.far.node.start();
  REQUIRE(h.far.node.ctl({"kv", "set", "after", "1"}).status == 0);
  CHECK(follower.read_until("after"));
  follower.signal(SIGINT);
  auto end = follower.finish();
  INFO(end.err);
  CHECK(end.status == 130);
}

TEST_CASE("over ssh: who is not let in, or finds no swarmctl, is told so with ssh's exit status") {
  two_hosts h;
  h.far.sshd.use_key("wrong_key");
  auto refused = h.ctl({"kv", "list"});
  CHECK(refused.status == 3);
  CHECK(refused.err.find("Permission denied") != std::string::npos); // ssh's own words
  CHECK(refused.err.find("exit status 255") != std::string::npos);
  CHECK(refused.err.find(own_sshd::user_name() + "@127.0.0.1 swarmctl status") != std::string::npos);
  h.far.sshd.use_key("user_key");
  REQUIRE(h.ctl({"context", "set", "far", "--remote-state-dir", "/proc/no-such-place"}).status == 0);
  auto elsewhere = h.ctl({"kv", "list"});
  CHECK(elsewhere.status == 3);
  CHECK(elsewhere.err.find("no-such-place") != std::string::npos);
  REQUIRE(h.ctl({"context", "set", "nowhere", "--ssh", "ssh://127.0.0.1:1"}).status == 0);
  CHECK(h.ctl({"--context", "nowhere", "status"}).status == 3);
}
