// Hooks that take the locks of what an agent writes, and what they do beside locks that cannot be looked at.
#include <doctest/doctest.h>

#include <fstream>
#include <thread>

#include "tests/support/hooked_agent.hpp"
#include "tests/support/mcp_client.hpp"

using namespace swarm::testing;

TEST_CASE("with --enforce a write takes the lock and gives it back") {
  test_node node;
  hooked_agent one{node, "one-1", "claude", {"--enforce"}};
  hooked_agent two{node, "two-2", "claude", {"--enforce"}};
  auto first = one.start();
  two.start();
  auto file = node.work() + "/a.c";
  json input{{"file_path", file}};

  CHECK(one.before("Write", input).out.empty());
  auto held = node.ctl_json({"locks"});
  REQUIRE(held.size() == 1);
  CHECK(held[0].at("file") == file);
  CHECK(held[0].at("instance_id") == first);
  CHECK(has(denial(two.before("Write", input)), "held by claude-code platform:cli origin:claude-code session:one1 (actively editing)"));
  // A second call of the same session writes under the same lock; the last one gives it back.
  CHECK(one.before("Edit", input, "t2").out.empty());
  one.after("Write", input);
  CHECK(locks_of(node) == 1);
  one.after("Edit", input, "t2");
  CHECK(locks_of(node) == 0);
  // Several files, all or none.
  hold(node, node.session("peer"), "z.c");
  auto patch = "*** Begin Patch\n*** Update File: b.c\n*** Update File: z.c\n*** End Patch";
  CHECK(!denial(one.before("apply_patch", patch)).empty());
  CHECK(locks_of(node) == 1);
  // What the agent has locked itself stays locked.
  for (const auto* reason : {"all day", "actively editing"}) {
    INFO(reason);
    hold(node, first, "own.c", reason);
    CHECK(one.before("Write", {{"file_path", node.work() + "/own.c"}}).out.empty());
    one.after("Write", {{"file_path", node.work() + "/own.c"}});
    CHECK(node.ctl_json({"locks", "--as", first}).size() == 1);
  }
  // Asked about twice, it ends once.
  CHECK(one.before("Write", {{"file_path", node.work() + "/twice.c"}}).out.empty());
  CHECK(one.before("Write", {{"file_path", node.work() + "/twice.c"}}).out.empty());
  CHECK(node.ctl_json({"locks", "--as", first}).size() == 2);
  one.after("Write", {{"file_path", node.work() + "/twice.c"}});
  CHECK(node.ctl_json({"locks", "--as", first}).size() == 1);
  // A shell's redirection, and a tool whose end nobody reports.
  CHECK(one.before("Bash", {{"command", "echo x > c.c; echo y > /dev/null"}}).out.empty());
  CHECK(node.ctl_json({"locks", "--as", first}).size() == 2);
  one.send("stop");
  CHECK(node.ctl_json({"locks", "--as", first}).size() == 1);
}

TEST_CASE("of two writes with --enforce at once exactly one passes") {
  test_node node;
  hooked_agent one{node, "one-1", "claude", {"--enforce"}};
  hooked_agent two{node, "two-2", "claude", {"--enforce"}};
  one.start();
  two.start();
  for (int round = 0; round < 6; ++round) {
    INFO(round);
    json wanted{{"file_path", node.work() + "/race" + std::to_string(round)}};
    run_result a;
    std::thread other{[&] { a = one.before("Write", wanted); }};
    auto b = two.before("Write", wanted);
    other.join();
    CHECK(a.out.empty() != b.out.empty());
    (a.out.empty() ? one : two).after("Write", wanted);
  }
  CHECK(locks_of(node) == 0);
}

TEST_CASE("of tools that run at once with --enforce the last one gives the lock back, and none writes without it") {
  test_node node;
  hooked_agent one{node, "one-1", "claude", {"--enforce"}};
  hooked_agent two{node, "two-2", "claude", {"--enforce"}};
  one.start();
  two.start();
  for (int round = 0; round < 12; ++round) {
    INFO(round);
    json wanted{{"file_path", node.work() + "/file" + std::to_string(round)}};
    // One tool ends while the next one begins.
    CHECK(one.before("Write", wanted, "a").out.empty());
    std::thread ending{[&] { one.after("Write", wanted, "a"); }};
    CHECK(one.before("Write", wanted, "b").out.empty());
    ending.join();
    CHECK(has(denial(two.before("Write", wanted)), "held by"));
    one.after("Write", wanted, "b");
    CHECK(locks_of(node) == 0);
    // Two begin together, and end together.
    std::thread beginning{[&] { CHECK(one.before("Write", wanted, "c").out.empty()); }};
    CHECK(one.before("Write", wanted, "d").out.empty());
    beginning.join();
    one.after("Write", wanted, "c");
    CHECK(has(denial(two.before("Write", wanted)), "held by"));
    one.after("Write", wanted, "d");
    CHECK(locks_of(node) == 0);
  }
}

TEST_CASE("with --enforce a lock is taken and kept also after the tool server that kept the session has ended") {
  test_node node;
  hooked_agent one{node, "one-1", "claude", {"--enforce"}};
  hooked_agent two{node, "two-2", "claude", {"--enforce"}};
  auto first = one.start();
  json wanted{{"file_path", node.work() + "/a.c"}}, other{{"file_path", node.work() + "/b.c"}};
  {
    mcp_client server{node};
    server.initialize();
    REQUIRE(server.ask("whoami").at("id") == first);
    CHECK(one.before("Write", wanted, "a").out.empty());
    server.close_input();
    REQUIRE(server.finish() == 0);
  }
  REQUIRE(node.ctl_json({"instances"}).empty());
  two.start();
  CHECK(one.before("Write", other, "b").out.empty());
  CHECK(node.ctl_json({"instances"}).size() == 2);
  for (const auto& input : {wanted, other})
    CHECK(has(denial(two.before("Write", input)), "held by claude-code platform:cli origin:claude-code session:one1 (actively editing)"));
  one.after("Write", wanted, "a");
  one.after("Write", other, "b");
  CHECK(locks_of(node) == 0);
  // The next tool server of the agent goes on as that session.
  two.send("session-end");
  mcp_client server{node};
  server.initialize();
  CHECK(server.ask("whoami").at("label") == "claude-code platform:cli origin:claude-code session:one1");
}

TEST_CASE("of two commands with --enforce that write one path only the first passes, whatever the command") {
  test_node node;
  hooked_agent one{node, "one-1", "claude", {"--enforce"}};
  hooked_agent two{node, "two-2", "claude", {"--enforce"}};
  one.start();
  two.start();
  fs::create_directories(node.work() + "/d/e");
  for (const auto* name : {"a.c", "x", "d/e/in.c"})
    std::ofstream{node.work() + "/" + name} << "text";
  for (const auto* command : {"mv x a.c", "git mv x a.c", "git checkout -- a.c", "git restore a.c", "git rm a.c", "rm -rf a.c", "cp -r x a.c",
                              "sed -i s/a/b/ *.c", "rm -r d", "rm -r d/*"}) {
    INFO(command);
    CHECK(one.before("Bash", {{"command", command}}).out.empty());
    CHECK(!denial(two.before("Bash", {{"command", command}}, "t2")).empty());
    one.after("Bash", {{"command", command}});
    CHECK(locks_of(node) == 0);
  }
  // Below a directory that is going: also what is not there yet.
  CHECK(one.before("Bash", {{"command", "rm -r d"}}).out.empty());
  CHECK(!denial(two.before("Write", {{"file_path", node.work() + "/d/new.c"}})).empty());
  one.after("Bash", {{"command", "rm -r d"}});
  CHECK(two.before("Write", {{"file_path", node.work() + "/d/new.c"}}).out.empty());
  CHECK(!denial(one.before("Bash", {{"command", "rm -r d"}})).empty());
}

TEST_CASE("a tool that writes more files than are looked at is not passed over in silence") {
  test_node node;
  hooked_agent me{node, "s"};
  me.start();
  std::string many = "*** Begin Patch\n";
  for (int i = 0; i < 300; ++i)
    many += "*** Update File: f" + std::to_string(i) + ".c\n";
  many += "*** End Patch";
  auto said = me.before("apply_patch", many);
  CHECK(said.out.empty());
  CHECK(has(said.err, "the others were not checked"));
  for (const auto* how : {"--fail-closed", "--enforce"}) {
    hooked_agent strict{node, "s", "claude", {how}};
    CHECK(has(denial(strict.before("apply_patch", many)), "swarm lock check failed: apply_patch may write more files than are looked at"));
    std::string script = "echo ";
    for (int i = 0; i < 300; ++i)
      script += "> f" + std::to_string(i) + " ";
    CHECK(!denial(strict.before("Bash", {{"command", script}})).empty());
  }
  CHECK(locks_of(node) == 0);
}

TEST_CASE("a locked file that changes under a command is told to both sides") {
  test_node node;
  hooked_agent me{node, "writer"};
  auto id = me.start();
  hooked_agent peer{node, "holder"};
  auto holder = peer.start();
  auto file = node.work() + "/a.c";
  std::ofstream{file} << "before";
  hold(node, holder, file);
  json command{{"command", "python3 gen.py"}};
  CHECK(me.before("Bash", command).out.empty());
  CHECK(me.after("Bash", command).out.empty());
  CHECK(me.before("Bash", command, "t2").out.empty());
  std::ofstream{file} << "overwritten";
  auto said = me.after("Bash", command, "t2");
  CHECK(has(context_of(said), "swarm lock broken: " + file));
  CHECK(has(said.err, "swarm lock broken: "));
  auto mail = node.ctl_json({"messages", "--to", holder});
  REQUIRE(mail.size() == 1);
  CHECK(mail[0].at("sender") == id);
  CHECK(has(mail[0].at("content"), file));
  CHECK(has(mail[0].at("content"), "python3 gen.py"));
  // Told once.
  CHECK(me.after("Bash", command, "t2").out.empty());
  // What the holder's own hooks show to be its own work is nobody's fault.
  CHECK(me.before("Bash", command, "t3").out.empty());
  CHECK(peer.write(file, "by the holder") == "");
  CHECK(me.after("Bash", command, "t3").out.empty());
  // One that was declined has no end; the turn's is.
  CHECK(peer.before("Bash", command, "declined").out.empty());
  peer.send("stop");
  CHECK(me.before("Bash", command, "t5").out.empty());
  std::ofstream{file} << "overwritten once more";
  CHECK(has(context_of(me.after("Bash", command, "t5")), "swarm lock broken: " + file));
  // Given up meanwhile.
  CHECK(me.before("Bash", command, "t4").out.empty());
  REQUIRE(node.ctl({"unlock", file, "--as", holder}).status == 0);
  std::ofstream{file} << "free";
  CHECK(me.after("Bash", command, "t4").out.empty());
  CHECK(node.ctl_json({"messages", "--to", holder}).size() == 2);
}

namespace {

/// Somebody holds a lock on `name`, which cannot be looked at: writes are checked all the same.
void check_beside_lock_on(const test_node& node, const std::string& name) {
  hooked_agent first{node, "first", "claude", {"--enforce"}};
  hooked_agent second{node, "second", "claude", {"--enforce"}};
  hooked_agent strict{node, "strict", "claude", {"--fail-closed"}};
  first.start();
  second.start();
  strict.start();
  const auto other = node.session("name:other");
  hold(node, other, name);
  hold(node, other, "held.c");
  json command{{"command", "sed -i s/a/b/ a.c"}};
  auto taken = first.before("Bash", command);
  CHECK(taken.out.empty());
  CHECK(!has(taken.err, "no locks were checked"));
  CHECK(locks_of(node) == 3);
  CHECK(has(denial(second.before("Bash", command)), "a.c"));
  CHECK(strict.before("Bash", {{"command", "touch b.c"}}).out.empty());
  // What is changed all the same is still told.
  const auto held = node.work() + "/held.c";
  json script{{"command", "python3 gen.py"}};
  CHECK(strict.before("Bash", script, "t2").out.empty());
  std::ofstream{held} << "overwritten";
  CHECK(has(context_of(strict.after("Bash", script, "t2")), "swarm lock broken: " + held));
}

} // namespace

TEST_CASE("beside a lock on a link that leads to itself, writes are checked") {
  test_node node;
  fs::create_symlink("loop", node.work() + "/loop");
  check_beside_lock_on(node, "loop");
}

TEST_CASE("beside a lock on a name that is too long for a file, writes are checked") {
  test_node node;
  check_beside_lock_on(node, std::string(300, 'x'));
}
