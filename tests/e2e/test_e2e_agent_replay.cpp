// Each agent's program as it was recorded (tests/agents/fixtures): a dispatch to it ends in done, a peer's lock stops its write, mail wakes it.
// The real programs are asked the same by tools/test --agents.
#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <iostream>

#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/mcp_client.hpp"
#include "tests/support/node_process.hpp"

using namespace swarm::testing;

namespace {

constexpr int exit_skipped = 77; // as tests/CMakeLists.txt tells ctest

std::string node_program() {
  std::istringstream path{std::getenv("PATH") ? std::getenv("PATH") : ""};
  for (std::string directory; std::getline(path, directory, ':');)
    if (auto file = fs::path{directory} / "node"; access(file.c_str(), X_OK) == 0)
      return file;
  std::cerr << "SKIPPED, the recordings are not replayed here: there is no node\n";
  std::_Exit(exit_skipped);
}

/// A node whose harness `program` is a recording of it.
struct recorded {
  test_node node;
  run_options options;
  std::string log = node.work() + "/replay.log";

  recorded(const std::string& program, const std::string& recording) {
    auto interpreter = node_program();
    auto source = std::string{std::getenv("SWARM_SOURCE_DIR")};
    auto upper = program;
    for (auto& c : upper)
      c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    options.env["SWARM_HARNESS_" + upper] = interpreter + " " + source + "/tests/agents/replay.mjs " + program + " " + recording;
    options.env["SWARM_SHARE"] = source + "/deploy";
    options.env["SWARM_REPLAY_SPEED"] = "12";
    options.env["SWARM_REPLAY_LOG"] = log;
    options.deadline = std::chrono::seconds{80};
    fs::create_directories(node.dir().root);
    std::ofstream{node.dir().config_file()} << "[limits]\nagent_silence = 1000\n";
  }
  json agent() const {
    auto all = node.ctl_json({"agents"});
    return all.empty() ? json{{"state", "none"}} : all[0];
  }
  bool becomes(const std::string& state) const {
    return eventually([&] { return agent().at("state") == state; }, std::chrono::seconds{40});
  }
  std::string said() const { return file_text(log); }
  std::size_t times_said(const std::string& text) const {
    std::size_t n = 0;
    auto all = said();
    for (auto at = all.find(text); at != std::string::npos; at = all.find(text, at + 1))
      ++n;
    return n;
  }
};

void works(const std::string& program) {
  recorded r{program, "session"};
  const auto& node = r.node;
  auto file = node.work() + "/new.txt";
  auto peer = node.session("name:peer");
  REQUIRE(node.ctl({"lock", file, "--note", "mine", "--as", peer}).status == 0);

  // A second coordinator wants the same.
  mcp_client gateway{node, r.options};
  gateway.enroll("name:second mode:gateway");
  auto first = node.ctl_start({"dispatch", "write it", "--harness", program, "--wait-for-completion", "60", "--json"}, r.options);
  auto second = gateway.ask("dispatch", {{"title", "write it"}, {"harness", program}});
  // Longer than the command itself waits.
  auto dispatched = first.finish(std::chrono::seconds{90});
  // What it said and what the node took it for tell which of the two did not go on.
  REQUIRE_MESSAGE(dispatched.status == 0, dispatched.err, r.said(), r.agent().dump());
  auto reply = dispatched.parsed();
  CHECK(reply.at("task_id") == second.at("task_id"));
  CHECK(gateway.ask("dispatch", {{"title", "write it"}, {"harness", program}}).at("task_id") == second.at("task_id"));
  CHECK(node.ctl_json({"tasks"}).size() == 1);
  CHECK(node.ctl_json({"spawns"}).size() == 1);
  CHECK_MESSAGE(reply.at("completion").at("status") == "completed", r.said());
  CHECK_MESSAGE(r.said().find("for " + file + ": held by name:peer (mine)") != std::string::npos, r.said());
  CHECK_FALSE(fs::exists(file));
  CHECK_MESSAGE(r.times_said("A peer sent you a swarm message for task") == 1, r.said());

  REQUIRE(r.becomes("idle"));
  auto id = r.agent().at("instance_id").get<std::string>();
  REQUIRE(node.ctl({"unlock", file, "--as", peer}).status == 0);
  auto told = node.ctl_json({"prompt-peer", "--to", id, "--message", "now you can"});
  CHECK(told.at("nudged") == true);
  CHECK(eventually([&] { return fs::exists(file); }, std::chrono::seconds{40}));
  CHECK(eventually([&] { return node.ctl_json({"messages", "--to", id, "--limit", "1"}).at(0).at("read") == 1; }, std::chrono::seconds{40}));
  auto reports = r.agent().at("reports").dump();
  CHECK_MESSAGE(reports.find("\"hook\"") != std::string::npos, reports);
}

/// Its permission dialog has Yes preselected: an Enter would be an answer.
void asks(const std::string& program) {
  recorded r{program, "dialog"};
  r.node.ctl_json({"dispatch", "write it", "--harness", program}, r.options);
  REQUIRE_MESSAGE(eventually([&] { return r.said().find("blocked") != std::string::npos; }, std::chrono::seconds{60}), r.said());
  REQUIRE(r.becomes("blocked"));
  auto id = r.agent().at("instance_id").get<std::string>();
  auto told = r.node.ctl_json({"prompt-peer", "--to", id, "--message", "look"});
  CHECK(told.at("nudged") == false);
  CHECK(r.node.ctl_json({"prompt-peer", "--to", id, "--message", "look", "--force"}).at("nudged") == false);
  CHECK(told.at("nudge_skipped") == "target workspace handle is blocked: a person must answer there first, and force changes nothing");
  auto terminal = r.agent().at("pty").get<std::string>();
  REQUIRE(r.node.ctl({"pty", "send", terminal, "--stdin"}, {.input = "\x1b"}).status == 0);
  CHECK(eventually([&] { return r.said().find("answered") != std::string::npos; }, std::chrono::seconds{40}));
  CHECK_MESSAGE(r.said().find("\"answered\":\"no\"") != std::string::npos, r.said());
  // No hook of three of them tells so; the program does, and the mail that has waited wakes it.
  CHECK_MESSAGE(eventually([&] { return r.times_said("\"typed\":\"A peer sent you") == 2; }, std::chrono::seconds{40}), r.said());
}

} // namespace

TEST_CASE("Claude Code as recorded does its task, is stopped by a lock, and is woken by mail") { works("claude"); }
TEST_CASE("Codex as recorded does its task, is stopped by a lock, and is woken by mail") { works("codex"); }
TEST_CASE("OpenCode as recorded does its task, is stopped by a lock, and is woken by mail") { works("opencode"); }
TEST_CASE("Gemini CLI as recorded does its task, is stopped by a lock, and is woken by mail") { works("gemini"); }
TEST_CASE("an agent that asks for permission, as Claude Code was recorded, is not typed to") { asks("claude"); }
TEST_CASE("an agent that asks for permission, as Codex was recorded, is not typed to") { asks("codex"); }
TEST_CASE("an agent that asks for permission, as OpenCode was recorded, is not typed to") { asks("opencode"); }
TEST_CASE("an agent that asks for permission, as Gemini CLI was recorded, is not typed to") { asks("gemini"); }
