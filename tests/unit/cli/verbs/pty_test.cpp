#include <filesystem>
#include <fstream>
#include <string>

#include "actors/base/terminal_config.hpp"
#include "cli/recent.hpp"
#include "cli/verbs/pty_attach.hpp"
#include "tests/unit/cli/fake_node.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

using namespace swarm;
using namespace swarm::cli;

namespace {

v1::PtyInfo terminal(const std::string& id, const std::string& name, const std::string& scope, bool running, int exit_status = 0) {
  v1::PtyInfo p;
  p.set_id(id);
  p.set_name(name);
  p.set_scope(scope);
  p.set_running(running);
  p.set_exit_status(exit_status);
  return p;
}

struct cli_with_terminals : test::cli {
  cli_with_terminals() {
    node.terminals = {terminal("11111111-1", "build", "/r", false, 2), terminal("22222222-2", "server", "/r", true),
                      terminal("33333333-3", "test", "/other", false, -1)};
    node.on_forget = [this](const v1::ForgetPtyRequest& r) {
      forgotten.push_back(r.pty_id());
      if (r.pty_id() == refused)
        throw call_failed(code::refused, "its end is being noted; try again");
      return v1::PtyInfo{};
    };
  }
  int run(std::vector<std::string> args) {
    args.insert(args.begin(), {"--scope", "/r"});
    return (*this)(std::move(args));
  }
  std::vector<std::string> forgotten;
  std::string refused;
};

struct config_file {
  explicit config_file(const std::string& text) { std::ofstream{path} << text; }
  ~config_file() { std::filesystem::remove(path); }
  std::filesystem::path path = std::filesystem::temp_directory_path() / ("config-" + std::to_string(getpid()) + ".toml");
};

} // namespace

TEST_CASE("pty prune removes the ended terminals of this scope and names them") {
  cli_with_terminals ctl;
  REQUIRE(ctl.run({"pty", "prune"}) == code::ok);
  CHECK(ctl.forgotten == std::vector<std::string>{"11111111-1"});
  CHECK(ctl.screen.out == "removed 11111111  build  exit 2\n");
  ctl.node.terminals.erase(ctl.node.terminals.begin());
  REQUIRE(ctl.run({"pty", "prune"}) == code::ok);
  CHECK(ctl.screen.out == "no terminal of scope /r has ended\n");
}

TEST_CASE("pty prune of all scopes removes those of the others too, and a dry run nothing") {
  cli_with_terminals ctl;
  REQUIRE(ctl.run({"pty", "prune", "--all-scopes", "--dry-run"}) == code::ok);
  CHECK(ctl.forgotten.empty());
  CHECK(ctl.screen.out == "would remove 11111111  build  exit 2\nwould remove 33333333  test  lost with its keeper\n");
  REQUIRE(ctl.run({"pty", "prune", "--all-scopes", "--json"}) == code::ok);
  CHECK(ctl.forgotten == std::vector<std::string>{"11111111-1", "33333333-3"});
  CHECK(ctl.out_json()["removed"].size() == 2);
  CHECK(ctl.out_json()["removed"][1]["name"] == "test");
}

TEST_CASE("pty prune goes on after a terminal that stays, and says so") {
  cli_with_terminals ctl;
  ctl.refused = "11111111-1";
  CHECK(ctl.run({"pty", "prune", "--all-scopes"}) == code::refused);
  CHECK(ctl.screen.err.find("11111111 stays: its end is being noted; try again") != std::string::npos);
  CHECK(ctl.screen.out == "removed 33333333  test  lost with its keeper\n");
}

TEST_CASE("the detach key is read from the table [terminal] of config.toml") {
  CHECK(read_terminal_config("/nonexistent/config.toml")->detach_key == 0x1d);
  config_file limits_only{"[limits]\nlock_waiters_max = 64\n"};
  CHECK(read_terminal_config(limits_only.path)->detach_key == 0x1d);
  config_file set{"[limits]\nlock_waiters_max = 64\n[terminal]\ndetach_key = \"ctrl-a\"\n"};
  CHECK(read_terminal_config(set.path)->detach_key == 1);
}

TEST_CASE("a table [terminal] that is wrong is refused with its line") {
  auto said = [](const std::string& text) {
    config_file file{text};
    auto read = read_terminal_config(file.path);
    return read ? std::string{} : read.failure();
  };
  CHECK(said("[terminal]\ndetach = \"q\"\n").find(".toml:2: unknown key \"detach\" in [terminal]; there is detach_key") != std::string::npos);
  CHECK(said("[terminal]\ndetach_key = \"zz\"\n").find(".toml:2: detach_key in [terminal] takes one character") != std::string::npos);
  CHECK(said("[terminal]\ndetach_key = 5\n").find("must be a text in quotes") != std::string::npos);
  CHECK(said("[terminal\n").find(".toml:1: ") != std::string::npos);
}

TEST_CASE("attach takes the flag before the configuration, and refuses an unknown key with the place where it stands") {
  cli_with_terminals ctl;
  CHECK(ctl.run({"pty", "attach", "server", "--detach-key", "alt-x"}) == code::usage);
  CHECK(ctl.screen.err.find("--detach-key takes one character") != std::string::npos);
  config_file file{"[terminal]\ndetach_key = \"alt-x\"\n"};
  ctl.config_file = file.path;
  CHECK(ctl.run({"pty", "attach", "server"}) == code::refused);
  CHECK(ctl.screen.err.find(file.path.string() + ":2: detach_key in [terminal] takes one character") != std::string::npos);
}

TEST_CASE("a terminal that is named twice is ended once") {
  cli_with_terminals ctl;
  CHECK(ctl.run({"pty", "kill", "server", "2222"}) == code::ok);
  CHECK(ctl.node.killed.size() == 1);
  CHECK(ctl.screen.out == "ended 22222222\n");
}

TEST_CASE("a terminal gets no name by which nobody could reach it") {
  cli_with_terminals ctl;
  for (const std::string name : {"@last", "@x"}) {
    CHECK(ctl.run({"pty", "new", "--name", name, "--", "sh"}) == code::usage);
    CHECK(ctl.screen.err.find("does not begin with @") != std::string::npos);
  }
  CHECK(ctl.node.created.name().empty());
}

TEST_CASE("nobody attaches to the terminal they are in, whatever it is called") {
  cli_with_terminals ctl;
  ctl.env = environment{{{"HOME", "/home/ada"}, {"SWARM_SPAWN_ID", "22222222-2"}}};
  for (const std::string who : {"server", "2222", "22222222-2", "@last"}) {
    if (who == "@last")
      ctl.node.terminals[1].set_created_at_ms(9);
    CHECK(ctl.run({"pty", "attach", who}) == code::refused);
    CHECK_MESSAGE(ctl.screen.err == "swarmctl pty: you are in this terminal (server); attach to another one, see: swarmctl pty list\n",
                  ctl.screen.err);
  }
}

TEST_CASE("of --bytes that came in part before a stream was cut, the rest is read") {
  test::cli ctl;
  ctl.node.output = {"abc"};
  ctl.node.read_ends = {stream_end::too_slow, stream_end::lost};
  CHECK(ctl({"pty", "read", "11111111-1111-1111-1111-111111111111", "--from", "5", "--bytes", "9"}) == code::ok);
  CHECK(ctl.screen.out == "abcabcabc");
  REQUIRE(ctl.node.reads.size() == 3);
  CHECK(ctl.node.reads[0].max_bytes() == 9);
  CHECK(ctl.node.reads[1].from() == 8);
  CHECK(ctl.node.reads[1].max_bytes() == 6);
  CHECK(ctl.node.reads[2].max_bytes() == 3);
}

TEST_CASE("pty kill does not claim to have ended what has ended already") {
  cli_with_terminals ctl;
  ctl.node.terminals.front().set_ended_at_ms(ctl.clock.unix_ms() - 3000);
  for (const auto& arguments :
       {std::vector<std::string>{"pty", "kill", "build"}, std::vector<std::string>{"pty", "kill", "build", "--signal", "TERM"}}) {
    CHECK(ctl.run(arguments) == code::refused);
    CHECK(ctl.screen.err.find("build has ended already (exit 2, 3.0 s ago)") != std::string::npos);
  }
  CHECK(ctl.node.killed.empty());
  CHECK(ctl.run({"pty", "kill", "server"}) == code::ok);
  CHECK(ctl.screen.out == "ended 22222222\n");
}

TEST_CASE("pty kill leaves it to the node what is the matter with a terminal that is not in the list") {
  cli_with_terminals ctl;
  const std::string unlisted = "55555555-5555-4555-8555-555555555555";
  CHECK(ctl.run({"pty", "kill", unlisted}) == code::ok);
  REQUIRE(ctl.node.killed.size() == 1);
  CHECK(ctl.node.killed.front().pty_id() == unlisted);
}

TEST_CASE("of several terminals pty kill ends those that run, and says which it did not") {
  cli_with_terminals ctl;
  CHECK(ctl.run({"pty", "kill", "build", "nobody", "server"}) == code::refused);
  CHECK(ctl.screen.out == "ended 22222222\n");
  CHECK(ctl.screen.err.find("build has ended already (exit 2)") != std::string::npos);
  CHECK(ctl.screen.err.find("is called \"nobody\"") != std::string::npos);
  REQUIRE(ctl.node.killed.size() == 1);
  CHECK(ctl.node.killed.front().pty_id() == "22222222-2");
}

namespace {

/// A home with the terminals above; its member b is not linked, and has one terminal that the home knows of.
struct cli_with_away_member : cli_with_terminals {
  cli_with_away_member() {
    auto add = [&](const std::string& name, v1::ClusterNode::Link link) -> v1::ClusterNode& {
      auto& n = *node.view.add_nodes();
      n.mutable_info()->set_node_id("id-" + name);
      n.mutable_info()->set_node_name(name);
      n.set_link(link);
      return n;
    };
    add("a", v1::ClusterNode::SELF);
    add("b", v1::ClusterNode::DOWN).set_last_heard_ms(clock.unix_ms() - 4'000);
    node.on_query = [](const v1::Query& q) {
      v1::Answer a;
      if (!q.has_list_spawns())
        return a;
      auto& worker = *a.mutable_spawns()->add_spawns();
      worker.set_id("44444444-4");
      worker.set_scope("/r");
      worker.set_label("name:far");
      worker.set_node_id("id-b");
      worker.set_status(v1::Spawn::RUNNING);
      worker.set_requested_at_ms(9);
      return a;
    };
  }
};

} // namespace

TEST_CASE("a terminal of a host that is not linked is said to be there") {
  cli_with_away_member ctl;
  for (const std::string verb : {"read", "attach", "kill"})
    for (const std::string who : {"4444", "@last"}) {
      CHECK(ctl.run({"pty", verb, who}) == code::refused);
      CHECK_MESSAGE(ctl.screen.err.find("is on the host b, which is not linked (down for 4.0 s); try again when `swarmctl nodes`") !=
                      std::string::npos,
                    ctl.screen.err);
    }
  CHECK(ctl.node.killed.empty());
}

TEST_CASE("a terminal of a host that is likely to be linked soon is waited for") {
  cli_with_away_member ctl;
  ctl.node.view.mutable_nodes(1)->clear_last_heard_ms();
  CHECK(ctl.run({"pty", "kill", "4444"}) == code::ok);
  REQUIRE(ctl.node.killed.size() == 1);
  CHECK(ctl.node.killed.front().pty_id() == "44444444-4");
}

TEST_CASE("who names a terminal that is not found is told which hosts were not asked") {
  cli_with_away_member ctl;
  CHECK(ctl.run({"pty", "read", "nobody"}) == code::refused);
  CHECK(ctl.screen.err == "swarmctl pty: no terminal of scope /r is called \"nobody\"; not linked, and so not asked: b (down for 4.0 s)\n");
  ctl.node.view.mutable_nodes(1)->set_link(v1::ClusterNode::UP);
  CHECK(ctl.run({"pty", "read", "nobody"}) == code::refused);
  CHECK(ctl.screen.err == "swarmctl pty: no terminal of scope /r is called \"nobody\"; see: swarmctl pty list --all\n");
}

TEST_CASE("the output of a worker on a host that is not linked is not said to be gone") {
  cli_with_away_member ctl;
  ctl.node.on_query = [of_spawns = ctl.node.on_query](const v1::Query& q) {
    auto a = of_spawns(q);
    if (q.has_list_spawns())
      a.mutable_spawns()->mutable_spawns(0)->set_started_at_ms(10);
    else
      a.mutable_task()->set_id("T1");
    return a;
  };
  ctl.node.refused_read = "no terminal";
  CHECK(ctl.run({"logs", "T1"}) == code::refused);
  CHECK_MESSAGE(ctl.screen.err.find("the output of the worker of task T1 is on the host b, which is not linked (down for 4.0 s)") !=
                  std::string::npos,
                ctl.screen.err);
}

namespace {

/// In a terminal that has made something.
struct cli_with_memory : cli_with_terminals {
  cli_with_memory() {
    recent = recent_things{directory_of_recent / "here"};
    node.on_query = [](const v1::Query& q) {
      v1::Answer a;
      if (q.has_find_task() && !q.find_task().who().empty()) {
        a.mutable_refusal()->set_code(v1::Refusal::NOT_FOUND);
        a.mutable_refusal()->set_text("No task has the id");
      } else if (q.has_find_task()) {
        a.mutable_task()->set_id("an-older-task");
      } else if (q.has_list_approvals()) {
        a.mutable_approvals()->add_approvals()->set_id("an-older-approval");
      }
      return a;
    };
  }
  ~cli_with_memory() { std::filesystem::remove_all(directory_of_recent); }
  void made(kind_of_thing kind, const std::string& id) { recent.made(kind, "", "/r", id); }
  std::filesystem::path directory_of_recent = std::filesystem::temp_directory_path() / ("recent-of-" + std::to_string(getpid()));
};

} // namespace

TEST_CASE("@last is never an older one when what this terminal made last is gone") {
  cli_with_memory ctl;
  ctl.made(kind_of_thing::terminal, "99999999-9");
  for (const std::string verb : {"kill", "read", "attach", "resize"}) {
    CHECK(ctl.run({"pty", verb, "@last"}) == code::refused);
    CHECK_MESSAGE(ctl.screen.err.find("the newest terminal that you made here (99999999) is not there any more; name one, see: swarmctl pty list") !=
                    std::string::npos,
                  ctl.screen.err);
  }
  CHECK(ctl.run({"pty", "send", "@last", "x"}) == code::refused);
  CHECK(ctl.node.killed.empty());
  CHECK(ctl.node.typed.empty());
  ctl.made(kind_of_thing::terminal, "22222222-2");
  CHECK(ctl.run({"pty", "kill", "@last"}) == code::ok);
  ctl.made(kind_of_thing::task, "88888888-8");
  for (const std::string verb : {"retry", "cancel", "approve", "logs", "task"}) {
    CHECK(ctl.run({verb, "@last"}) == code::refused);
    CHECK_MESSAGE(ctl.screen.err.find("the newest task that you made here (88888888) is not there any more; name one, see: swarmctl tasks") !=
                    std::string::npos,
                  ctl.screen.err);
  }
  CHECK(ctl.run({"dispatch", "next", "--depends-on", "@last", "--", "true"}) == code::refused);
  ctl.made(kind_of_thing::approval, "77777777-7");
  CHECK(ctl.run({"decide", "@last", "yes"}) == code::refused);
  CHECK(ctl.screen.err.find("the newest approval that you made here (77777777) is not there any more") != std::string::npos);
  CHECK(ctl.node.commands.empty());
}

TEST_CASE("@last of a worker that has not begun is said to be that") {
  cli_with_memory ctl;
  ctl.made(kind_of_thing::terminal, "66666666-6");
  ctl.node.on_query = [](const v1::Query& q) {
    v1::Answer a;
    if (q.has_list_spawns())
      a.mutable_spawns()->add_spawns()->set_id("66666666-6");
    return a;
  };
  CHECK(ctl.run({"pty", "kill", "@last"}) == code::refused);
  CHECK(ctl.screen.err.find("the newest terminal that you made here (66666666) has not begun yet; name another") != std::string::npos);
}
