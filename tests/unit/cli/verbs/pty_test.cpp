#include "tests/unit/cli/fake_node.hpp"

#include <doctest/doctest.h>

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

