// What a node holds its own processes and its callers to: shares of connections, the keeper that it takes over, who may look into it.
#include <fstream>

#include <doctest/doctest.h>

#include "tests/support/login.hpp"
#include "tests/support/node_process.hpp"

using namespace swarm::testing;

namespace {

/// As `swarmctl`, with programs before it that change what it runs under.
run_result ctl_under(const test_node& node, std::vector<std::string> before, const std::vector<std::string>& arguments) {
  before.push_back(program("swarmctl").string());
  before.insert(before.end(), arguments.begin(), arguments.end());
  return child_process(before, node.env(), node.work()).finish();
}

const std::vector<std::string> restricted{"/usr/bin/env", "setpriv", "--no-new-privs"};

/// A program that runs on a terminal of the node until it is ended.
pid_t lasting_program(const test_node& node) {
  const auto id = node.ctl_json({"pty", "new", "--", "sleep", "600"})["id"].get<std::string>();
  pid_t pid = 0;
  REQUIRE(eventually([&] {
    for (const auto& p : node.ctl_json({"pty", "list"}))
      if (p["id"] == id && p["running"] == true)
        pid = p["pid"].get<pid_t>();
    return pid != 0;
  }));
  return pid;
}

/// A Python program that opens connections until it gets no more, keeps them, and writes their number into the file.
std::string takes_connections(const std::string& file) {
  return "import os,resource as r,socket\n"
         "soft,hard=r.getrlimit(r.RLIMIT_NOFILE); r.setrlimit(r.RLIMIT_NOFILE,(min(5000,hard),hard))\n"
         "s=[]\n"
         "try:\n"
         "  for _ in range(4200):\n"
         "    x=socket.socket(socket.AF_UNIX); x.connect(os.environ['SWARM_HOME']+'/swarmd.sock'); s.append(x)\n"
         "except OSError: pass\n"
         "open('" +
         file + ".new','w').write(str(len(s))); os.rename('" + file + ".new','" + file +
         "')\n"
         "import signal; signal.pause()\n";
}

} // namespace

TEST_CASE("a worker that holds all connections it can get does not keep the operator out") {
  test_node node;
  REQUIRE(node.ctl({"up"}).status == 0);
  const auto file = node.work() + "/held";
  const auto id = node.ctl_json({"pty", "new", "--", "python3", "-c", takes_connections(file)})["id"].get<std::string>();
  REQUIRE(eventually([&] { return fs::exists(file); }));
  REQUIRE(std::stoi(file_text(file)) > 2'000);
  const auto status = node.ctl({"status", "--json"});
  CAPTURE(status.err);
  REQUIRE(status.status == 0);
  CHECK(status.parsed()["connections"].get<int>() <= 1'024 + 64);
  CHECK(file_text((node.dir().log_dir() / "swarmd.log").string()).find("connections_per_caller_max") != std::string::npos);
  CHECK(node.ctl({"pty", "kill", id}).status == 0);
  CHECK(node.down().status == 0);
}

TEST_CASE("an agent that holds all connections it can get does not keep out the person who has logged in below it") {
  if (!fs::exists("/usr/bin/script")) {
    MESSAGE("skipped: there is no script here (package bsdutils)");
    return;
  }
  test_node node;
  REQUIRE(node.ctl({"up"}).status == 0);
  set_passphrase(node);
  const auto claude = node.work() + "/claude", file = node.work() + "/held";
  fs::copy_file(fs::canonical("/bin/bash"), claude);
  std::ofstream{node.work() + "/take.py"} << takes_connections(file);
  const auto agent = "(while [ ! -e go ]; do sleep 0.05; done; exec python3 take.py) < /dev/null & " + std::string{terminal_with_shell} + "; kill $!";
  terminal_process terminal{{claude, "-c", agent}, node.env(), node.work()};
  log_in(terminal);
  std::ofstream{node.work() + "/go"};
  REQUIRE(eventually([&] { return fs::exists(file); }));
  terminal.type(program("swarmctl").string() + " status --json > status; " + program("swarmctl").string() + " down; echo down $? > said; exit\n");
  terminal.finish();
  CAPTURE(terminal.screen());
  CHECK(json::parse(file_text(node.work() + "/status"), nullptr, false).contains("connections"));
  CHECK(file_text(node.work() + "/said") == "down 0\n");
}

TEST_CASE("a node takes over only a keeper with its own restrictions, says so, and the programs go on until down") {
  test_node node;
  REQUIRE(node.ctl({"up"}).status == 0);
  const auto pid = lasting_program(node);
  const auto keeper = node.keeper_pid();
  REQUIRE(node.down({"--keep-programs"}).status == 0);
  REQUIRE(ctl_under(node, restricted, {"up"}).status == 0);
  REQUIRE(eventually([&] { return node.ctl_json({"status"})["keeper_refused"].is_string(); }));
  const auto status = node.ctl_json({"status"});
  CHECK(status["keeper_pid"] == 0);
  CHECK(status["restrictions"]["no_new_privileges"] == true);
  CHECK(status["keeper_restrictions"]["no_new_privileges"] == false);
  const auto said = node.ctl({"status"}).out;
  CHECK(said.find("NoNewPrivs 0, here 1") != std::string::npos);
  CHECK(said.find("swarmctl up --take-keeper") != std::string::npos);
  CHECK(node.ctl({"doctor"}).out.find("NoNewPrivs 0, here 1") != std::string::npos);
  CHECK(is_running(pid));
  CHECK(is_running(keeper));
  CHECK(node.down().status == 0);
  CHECK(eventually([&] { return !is_running(pid) && !is_running(keeper); }));
}

TEST_CASE("a node takes over a keeper with other restrictions when it is told to, and doctor goes on saying so") {
  test_node node;
  REQUIRE(node.ctl({"up"}).status == 0);
  const auto pid = lasting_program(node);
  const auto keeper = node.keeper_pid();
  REQUIRE(node.down({"--keep-programs"}).status == 0);
  REQUIRE(ctl_under(node, restricted, {"up"}).status == 0);
  REQUIRE(eventually([&] { return node.ctl_json({"status"})["keeper_refused"].is_string(); }));
  REQUIRE(ctl_under(node, restricted, {"up", "--take-keeper"}).status == 0);
  REQUIRE(eventually([&] { return node.ctl_json({"status"})["keeper_pid"] == keeper; }));
  CHECK(node.ctl_json({"status"})["keeper_refused"].is_null());
  CHECK(node.ctl({"doctor"}).out.find("other restrictions than the node") != std::string::npos);
  CHECK(is_running(pid));
}

TEST_CASE("a worker of a keeper that was not taken over is not the operator, whatever it takes out of its environment") {
  test_node node;
  REQUIRE(node.ctl({"up"}).status == 0);
  const auto go = node.work() + "/go", said = node.work() + "/said";
  const auto script = "while [ ! -e " + go + " ]; do sleep 0.05; done; env -i SWARM_HOME=" + node.dir().root.string() + " " +
                      program("swarmctl").string() + " down >" + said + ".new 2>&1; echo status $? >>" + said + ".new; mv " + said + ".new " + said +
                      "; sleep 600";
  node.ctl_json({"pty", "new", "--", "sh", "-c", script});
  REQUIRE(node.down({"--keep-programs"}).status == 0);
  REQUIRE(ctl_under(node, restricted, {"up"}).status == 0);
  REQUIRE(eventually([&] { return node.ctl_json({"status"})["keeper_refused"].is_string(); }));
  const auto pid = node.node_pid();
  std::ofstream{go};
  REQUIRE(eventually([&] { return fs::exists(said); }));
  CAPTURE(file_text(said));
  CHECK(file_text(said).find("status 1") != std::string::npos);
  CHECK(is_running(pid));
}

TEST_CASE("no other process of the user looks into the node or its keeper") {
  test_node node;
  // Nothing is hidden from a process with capabilities: where the tests are root, all of them go without.
  std::vector<std::string> plain{"/usr/bin/env", "setpriv", "--inh-caps=-all"};
  if (geteuid() == 0)
    plain.push_back("--bounding-set=-all");
  REQUIRE(ctl_under(node, plain, {"up"}).status == 0);
  REQUIRE(eventually([&] { return node.ctl_json({"status"})["keeper_pid"] != 0; }));
  CHECK(node.ctl_json({"status"})["not_dumpable"] == true);
  const auto program = lasting_program(node);
  auto looks_into = [&](pid_t pid) {
    auto line = plain;
    line.insert(line.end(), {"cat", "/proc/" + std::to_string(pid) + "/environ"});
    return child_process(line, node.env(), node.work()).finish().status == 0;
  };
  CHECK(looks_into(program));
  CHECK_FALSE(looks_into(node.node_pid()));
  CHECK_FALSE(looks_into(node.keeper_pid()));
}

TEST_CASE("a person logs in at a terminal with a passphrase that is set there, and nowhere without a terminal") {
  test_node node;
  REQUIRE(node.ctl({"up"}).status == 0);
  const auto ctl = program("swarmctl").string();
  using dialogue = std::vector<std::pair<std::string, std::string>>; // question, answer
  auto at_terminal = [&](const std::vector<std::string>& arguments, const dialogue& typed) {
    std::vector<std::string> argv{ctl};
    argv.insert(argv.end(), arguments.begin(), arguments.end());
    terminal_process terminal{argv, node.env(), node.work()};
    for (const auto& [question, answer] : typed) {
      REQUIRE(terminal.read_until(question));
      terminal.type(answer + "\n");
    }
    const auto status = terminal.finish();
    return std::pair{status, terminal.screen()};
  };
  auto [set, said] = at_terminal({"login", "--set"}, {{"swarmctl login: ", "correct horse"}, {"Once more: ", "correct horse"}});
  CAPTURE(said);
  CHECK(set == 0);
  CHECK(said.find("correct") == std::string::npos);
  CHECK(node.ctl_json({"status"})["has_passphrase"] == true);
  CHECK(at_terminal({"login"}, {{"Passphrase: ", "wrong horse!"}}).second.find("the passphrase is wrong") != std::string::npos);
  auto [in, greeted] = at_terminal({"login"}, {{"Passphrase: ", "correct horse"}});
  CAPTURE(greeted);
  CHECK(in == 0);
  CHECK(greeted.find("for 12 h") != std::string::npos);
  // Its standard input is no terminal, nor has it one.
  const auto without = child_process({"/usr/bin/env", "setsid", "-w", ctl, "login"}, node.env(), node.work()).finish();
  CHECK(without.status == 2);
  CHECK(without.err.find("terminal") != std::string::npos);
  // Nor in a worker of the node, which has a terminal.
  const auto id = node.ctl_json({"pty", "new", "--", "sh", "-c", ctl + " login; echo status $?; sleep 600"})["id"].get<std::string>();
  REQUIRE(eventually([&] { return node.ctl({"pty", "read", id}).out.find("Passphrase: ") != std::string::npos; }));
  REQUIRE(node.ctl({"pty", "send", id, "correct horse", "--enter"}).status == 0);
  REQUIRE(eventually([&] { return node.ctl({"pty", "read", id}).out.find("status 1") != std::string::npos; }));
}
