// config.toml and secrets with the real programs.
#include <fstream>

#include <sys/stat.h>

#include <doctest/doctest.h>

#include "tests/support/node_process.hpp"

using namespace swarm::testing;

namespace {

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

void write(const fs::path& path, const std::string& text) { std::ofstream{path, std::ios::binary | std::ios::trunc} << text; }

/// A state directory without a node, and an editor that does what a script says with the file "$1".
struct configured_node : test_node {
  configured_node() {
    fs::create_directories(dir().root);
    fs::permissions(dir().root, fs::perms::owner_all);
  }
  std::string editor(const std::string& script) const {
    const auto path = work() + "/editor";
    write(path, "#!/bin/sh\n" + script + "\n");
    fs::permissions(path, fs::perms::owner_all);
    return path;
  }
  run_result edit(const std::string& script) const { return ctl({"config", "edit"}, {.env = {{"VISUAL", editor(script)}}}); }
  std::string config() const { return fs::exists(dir().config_file()) ? file_text(dir().config_file()) : "(none)"; }
  std::size_t leftovers() const {
    std::size_t n = 0;
    for (const auto& e : fs::directory_iterator{dir().root})
      n += has(e.path().filename().string(), ".edit-") || has(e.path().filename().string(), ".new-");
    return n;
  }
};

} // namespace

TEST_CASE("a config.toml that is a FIFO is refused at once by every program") {
  configured_node node;
  REQUIRE(mkfifo(node.dir().config_file().c_str(), 0600) == 0);
  const auto up = node.ctl({"up"});
  CHECK(up.status == 3);
  CHECK_MESSAGE(has(up.err, "config.toml: cannot be read: it is no regular file"), up.err);
  CHECK(has(node.ctl({"doctor"}).out, "it is no regular file"));
  CHECK(node.ctl({"config", "check"}).status == 1);
  CHECK(node.ctl({"config", "show"}).status == 1);
  CHECK(has(node.edit("echo > \"$1\"").err, "it is no regular file"));
}

TEST_CASE("a wrong config.toml keeps the node from starting and doctor names every fault") {
  configured_node node;
  write(node.dir().config_file(), "[limits]\nlock_waiter_max = 1\n[acept]\n[identity]\nboundary = 1\n");
  const auto up = node.ctl({"up"});
  CHECK(up.status == 3);
  CHECK_MESSAGE(has(up.err, "config.toml:2: unknown key \"lock_waiter_max\" in [limits]; did you mean lock_waiters_max?"), up.err);
  const auto doctor = node.ctl({"doctor"});
  for (const auto* fault : {"config.toml:2: ", "config.toml:3: unknown table or key \"acept\"; did you mean [accept]?", "config.toml:5: "})
    CHECK_MESSAGE(has(doctor.out, fault), doctor.out);
}

TEST_CASE("config edit replaces the file only by one without faults, and keeps its mode and its place") {
  configured_node node;
  CHECK(node.edit("true").out == "nothing is changed\n");
  CHECK(node.config() == "(none)");
  CHECK(node.edit("echo '[limits]' > \"$1\"; echo 'lock_waiters_max = 64' >> \"$1\"").status == 0);
  CHECK(node.config() == "[limits]\nlock_waiters_max = 64\n");
  fs::permissions(node.dir().config_file(), fs::perms{0640});
  const auto wrong = node.edit("echo '[limitz]' >> \"$1\"");
  CHECK(wrong.status == 1);
  CHECK_MESSAGE(has(wrong.err, "config.toml:3: unknown table or key \"limitz\"; did you mean [limits]?"), wrong.err);
  CHECK(has(wrong.err, "config.toml stays as it is"));
  CHECK(node.edit("echo '# x' >> \"$1\"; exit 3").status == 1);
  CHECK(node.config() == "[limits]\nlock_waiters_max = 64\n");
  CHECK(node.edit("echo '[identity]' >> \"$1\"").status == 0);
  struct stat info {};
  REQUIRE(stat(node.dir().config_file().c_str(), &info) == 0);
  CHECK((info.st_mode & 07777) == 0640);
  // Somebody else's change is not lost.
  const auto raced = node.edit("echo '# mine' >> \"$1\"; echo '# theirs' >> " + node.dir().config_file().string());
  CHECK(raced.status == 1);
  CHECK(has(raced.err, "was changed by somebody else meanwhile"));
  CHECK(has(node.config(), "# theirs"));
  CHECK(node.leftovers() == 1); // the text is in the copy that the message names
  // Behind a link.
  fs::rename(node.dir().config_file(), node.work() + "/mine.toml");
  fs::create_symlink(node.work() + "/mine.toml", node.dir().config_file());
  CHECK(node.edit("echo '# linked' >> \"$1\"").status == 0);
  CHECK(fs::is_symlink(node.dir().config_file()));
  CHECK(has(file_text(node.work() + "/mine.toml"), "# linked"));
  const auto without = node.ctl({"config", "edit"}, {.env = {{"VISUAL", ""}, {"EDITOR", ""}}});
  CHECK(without.status == 2);
  CHECK(has(without.err, "neither VISUAL nor EDITOR names an editor"));
}

TEST_CASE("config edit asks on a terminal whether to edit again") {
  configured_node node;
  // Wrong the first time, right the second.
  const auto editor = node.editor("if [ -e once ]; then echo '[limits]' > \"$1\"; else touch once; echo '[limitz]' > \"$1\"; fi");
  terminal_process again{{program("swarmctl").string(), "config", "edit"}, node.env({{"EDITOR", editor}}), node.work()};
  REQUIRE_MESSAGE(again.read_until("[y/N] "), again.screen());
  again.type("y\n");
  CHECK(again.finish() == 0);
  CHECK(node.config() == "[limits]\n");
  fs::remove(node.work() + "/once");
  terminal_process never{{program("swarmctl").string(), "config", "edit"}, node.env({{"EDITOR", editor}}), node.work()};
  REQUIRE(never.read_until("[y/N] "));
  never.type("n\n");
  CHECK(never.finish() == 1);
  CHECK(node.config() == "[limits]\n");
  CHECK(node.leftovers() == 0);
}

TEST_CASE("a secret is typed without an echo or read from standard input, and is nowhere but in its file") {
  configured_node node;
  const auto file = node.dir().root / "secrets/anthropic";
  const auto piped = node.ctl({"secret", "set", "anthropic", "--json"}, {.input = "hunter2-piped\n"});
  CHECK(piped.status == 0);
  CHECK(piped.parsed().at("name") == "anthropic");
  CHECK(file_text(file) == "hunter2-piped");
  terminal_process typed{{program("swarmctl").string(), "secret", "set", "anthropic"}, node.env(), node.work()};
  REQUIRE(typed.read_until("(it is not shown): "));
  typed.type("hunter2-typed\n");
  CHECK(typed.finish() == 0);
  CHECK_FALSE(has(typed.screen(), "hunter2"));
  CHECK(file_text(file) == "hunter2-typed");
  struct stat info {};
  REQUIRE(stat(file.c_str(), &info) == 0);
  CHECK((info.st_mode & 07777) == 0600);
  const auto as_argument = node.ctl({"secret", "set", "anthropic", "hunter2"});
  CHECK(as_argument.status == 2);
  CHECK(as_argument.err.find("Type the secret") != std::string::npos);
  CHECK(as_argument.err.find("hunter2") == std::string::npos);
  CHECK(node.ctl({"secret", "set", "../x"}, {.input = "v"}).status == 2);
  CHECK(node.ctl({"secret", "set", "empty"}, {.input = "\n"}).status == 1);
  CHECK(node.ctl({"secret", "list", "--json"}).parsed() == json::parse(R"([{"name": "anthropic", "used_by": []}])"));
  CHECK(node.ctl({"secret", "rm", "anthropic"}).out == "removed anthropic\n");
  CHECK_FALSE(fs::exists(file));
  CHECK(node.ctl({"secret", "rm", "anthropic"}).status == 1);
}

TEST_CASE("an agent starts with the variables of config.toml, and not without a secret that they name") {
  configured_node node;
  const auto bin = node.work() + "/bin";
  fs::create_directories(bin);
  write(bin + "/codex", "#!/bin/sh\nprintenv DEMO_KEY DEMO_TEXT > seen.new\nmv seen.new seen\nexec sleep 1000\n");
  fs::permissions(bin + "/codex", fs::perms::owner_all);
  write(node.dir().config_file(), "[agents.codex.environment]\nDEMO_KEY = \"secret:demo\"\nDEMO_TEXT = \"text\"\n");
  const run_options with_codex{.env = {{"PATH", bin + ":/usr/bin:/bin"}}};
  REQUIRE(node.ctl({"up"}, with_codex).status == 0);
  CHECK(has(node.ctl({"doctor"}).out, "agents.codex.environment.DEMO_KEY names the secret demo, which is not set"));
  const auto refused = node.ctl({"dispatch", "first", "--harness", "codex", "--detach"}, with_codex);
  CHECK_MESSAGE(has(refused.out + refused.err + node.ctl({"tasks", "--json"}).out + node.ctl({"spawns", "--json"}).out, "there is no secret demo"),
                refused.out, refused.err);
  REQUIRE(node.ctl({"secret", "set", "demo"}, {.input = "hunter2-secret"}).status == 0);
  REQUIRE(node.ctl({"dispatch", "second", "--harness", "codex", "--detach"}, with_codex).status == 0);
  REQUIRE(eventually([&] { return fs::exists(node.work() + "/seen"); }));
  CHECK(file_text(node.work() + "/seen") == "hunter2-secret\ntext\n");
  CHECK(has(node.ctl({"doctor"}).out, "config.toml names 1 secret, and nothing is missing"));
  // Neither the store nor a log has it.
  for (const auto& entry : fs::recursive_directory_iterator{node.dir().root})
    if (entry.is_regular_file() && entry.path().parent_path().filename() != "secrets")
      CHECK_MESSAGE(!has(file_text(entry.path()), "hunter2-secret"), entry.path());
}

TEST_CASE("an agent's program can neither keep nor list nor remove secrets nor edit the configuration") {
  configured_node node;
  REQUIRE(node.ctl({"secret", "set", "mine"}, {.input = "hunter2"}).status == 0);
  const auto marked = [&](std::vector<std::string> arguments) {
    return node.ctl(arguments, {.input = "theirs", .env = {{"CLAUDECODE", "1"}, {"EDITOR", node.editor("echo '[limits]' > \"$1\"")}}});
  };
  for (const auto& arguments : std::vector<std::vector<std::string>>{
         {"secret", "set", "mine"}, {"secret", "set", "new"}, {"secret", "list"}, {"secret", "rm", "mine"}, {"config", "edit"}}) {
    const auto r = marked(arguments);
    CHECK(r.status == 1);
    CHECK_MESSAGE(has(r.err, "is for a person to do"), r.err);
    CHECK_FALSE(has(r.out, "mine"));
  }
  CHECK(marked({"__complete", "--", "secret", "rm", ""}).out.find("mine") == std::string::npos);
  CHECK(file_text(node.dir().root / "secrets/mine") == "hunter2");
  CHECK(node.config() == "(none)");
  CHECK(marked({"config", "show"}).status == 0);
}
