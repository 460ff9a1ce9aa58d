// config check, config show, secret: without a node.
#include <fstream>

#include <doctest/doctest.h>

#include "actors/base/secrets.hpp"
#include "tests/unit/cli/fake_node.hpp"

using namespace swarm;
using namespace swarm::cli;

namespace {

struct configured : test::cli {
  explicit configured(const std::string& text) {
    REQUIRE(mkdtemp(dir.data()) != nullptr);
    config_file = std::filesystem::path{dir} / "config.toml";
    if (!text.empty())
      std::ofstream{config_file} << text;
  }
  ~configured() { std::filesystem::remove_all(dir); }
  secret_store secrets() const { return secret_store{secrets_directory(dir)}; }
  std::string dir = (std::filesystem::temp_directory_path() / "swarm-config-XXXXXX").string();
};

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

} // namespace

TEST_CASE("config check names every fault with file and line and ends with 1") {
  configured ctl{"[limits]\nlock_waiter_max = 3\n[agents.claude.environment]\nKEY = \"secret:anthropic\"\n"};
  const auto file = ctl.config_file.string();
  CHECK(ctl({"config", "check"}) == code::refused);
  CHECK(ctl.screen.err == file + ":2: unknown key \"lock_waiter_max\" in [limits]; did you mean lock_waiters_max?\n" + file +
                            ":4: agents.claude.environment.KEY names the secret anthropic, which is not set; set it with: swarmctl secret set "
                            "anthropic\n");
  CHECK(ctl({"config", "check", "--json"}) == code::refused);
  const auto told = ctl.out_json();
  CHECK(told["ok"] == false);
  CHECK(told["faults"].size() == 2);
  CHECK(told["faults"][0]["line"] == 2);
  CHECK(told["faults"][0]["setting"] == "limits.lock_waiter_max");
}

TEST_CASE("config check takes another file, and no file is no fault of the node's own") {
  configured ctl{""};
  CHECK(ctl({"config", "check"}) == code::ok);
  CHECK(has(ctl.screen.out, "there is no such file, and the defaults hold"));
  CHECK(ctl({"config", "check", ctl.dir + "/other"}) == code::refused);
  CHECK(has(ctl.screen.err, "other: there is no such file"));
  std::ofstream{ctl.dir + "/other"} << "[limits]\nlock_waiters_max = 64\n";
  ctl.directory = ctl.dir;
  CHECK(ctl({"config", "check", "other"}) == code::ok);
  CHECK(has(ctl.screen.out, "other: nothing is wrong"));
}

TEST_CASE("config show tells where each value comes from and never a value that may be a secret") {
  configured ctl{"[limits]\nlock_waiters_max = 64\n[agents.claude.environment]\nA = \"hunter2\"\nB = \"secret:anthropic\"\n"};
  REQUIRE(ctl.secrets().set("anthropic", "hunter3").empty());
  CHECK(ctl({"config", "show"}) == code::ok);
  CHECK_FALSE(has(ctl.screen.out, "hunter"));
  CHECK(has(ctl.screen.out, "lock_waiters_max"));
  CHECK(has(ctl.screen.out, "line 2"));
  CHECK(has(ctl.screen.out, "are at their defaults"));
  CHECK(has(ctl.screen.out, "secret:anthropic"));
  CHECK(has(ctl.screen.out, "(a value)"));
  CHECK(ctl({"config", "show", "--json"}) == code::ok);
  CHECK_FALSE(has(ctl.screen.out, "hunter"));
  std::size_t from_file = 0;
  const auto shown = ctl.out_json();
  for (const auto& s : shown["settings"])
    from_file += s["source"] == "file";
  CHECK(from_file == 3);
  CHECK(ctl({"config", "show", "terminal.detach_key"}) == code::ok);
  CHECK(has(ctl.screen.out, "takes effect: next command"));
  CHECK(ctl({"config", "show", "terminals"}) == code::refused);
}

TEST_CASE("config show of a wrong file names the faults and shows nothing") {
  configured ctl{"[limits]\nlock_waiters_max = 0\n"};
  CHECK(ctl({"config", "show"}) == code::refused);
  CHECK(has(ctl.screen.err, "config.toml:2: lock_waiters_max in [limits] must be a whole number from 32 to 2048"));
  CHECK(ctl.screen.out.empty());
}
