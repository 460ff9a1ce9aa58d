// In an agent's terminal only persons and the node press Enter: whatever a worker tries, what it asks its user stays open.
#include <fstream>

#include <doctest/doctest.h>

#include "tests/support/node_client.hpp"
#include "tests/support/screen_agent.hpp"

using namespace swarm::testing;

namespace {

/// What the agent runs in its turn: a part in the background that waits for the dialog, and the report of its hook that it asks.
std::string turn_with(const std::string& attack) {
  return "swarmctl bootstrap > /dev/null\n"
         "if [ ! -e attacked ]; then\n"
         "  touch attacked ask\n"
         "  (until [ -e asking ]; do sleep 0.05; done\n" +
         attack +
         "\n   echo over >> attack.log) > /dev/null 2>&1 &\n"
         "  swarmctl report-agent blocked --source hook > /dev/null\n"
         "fi\n";
}

/// An agent that asks its user for permission while its tools try to answer.
struct asking_agent {
  test_node node;
  run_options options;
  std::string id, terminal;

  explicit asking_agent(const std::string& attack, std::vector<std::string> more = {}) {
    auto file = node.work() + "/agent.pl";
    write_screen_agent(file, turn_with(attack), "swarmctl report-agent idle --source hook > /dev/null");
    fs::create_directories(node.dir().root);
    std::ofstream{node.dir().config_file()} << "[limits]\nagent_silence = 600\npty_person_hold = 375\n";
    options.env["SWARM_HARNESS_HERMES"] = file;
    node.start();
    std::vector<std::string> words{"dispatch", "fix it", "--harness", "hermes"};
    words.insert(words.end(), more.begin(), more.end());
    node.ctl_json(words, options);
    REQUIRE(eventually([&] { return has("attack.log", "over"); }, std::chrono::seconds{60}));
    id = agent().at("instance_id").get<std::string>();
    terminal = agent().at("pty").get<std::string>();
  }
  json agent() const { return node.ctl_json({"agents"}).at(0); }
  std::string text(const std::string& file) const { return file_text(node.work() + "/" + file); }
  bool has(const std::string& file, const std::string& what) const { return text(file).find(what) != std::string::npos; }
  std::size_t wakes() const {
    std::size_t n = 0;
    auto all = text("typed.log");
    for (auto at = all.find("typed: "); at != std::string::npos; at = all.find("typed: ", at + 1))
      ++n;
    return n;
  }
  /// The dialog is open and has one answer, which is the person's.
  void is_answered_by_its_person_alone() {
    CHECK(agent().at("state") == "blocked");
    CHECK(text("answers.log").empty());
    CHECK(wakes() == 1);
    REQUIRE(node.ctl({"pty", "send", terminal, "--stdin"}, {.input = "\x1b"}).status == 0);
    REQUIRE(eventually([&] { return !text("answers.log").empty(); }));
    CHECK(text("answers.log") == "no\n");
    CHECK(eventually([&] { return agent().at("state") != "blocked"; }));
  }
};

} // namespace

TEST_CASE("a worker does not press Enter in its own terminal, whatever it runs there and whatever it was granted") {
  test_node node;
  REQUIRE(node.ctl({"up"}).status == 0);
  for (const std::string grant : {"", "pty"}) {
    CAPTURE(grant);
    std::vector<std::string> words{"spawn"};
    if (!grant.empty())
      words.insert(words.end(), {"--grant", grant});
    auto said = node.work() + "/said" + grant;
    words.insert(words.end(), {"--", "bash", "-c",
                               "(swarmctl pty send $SWARM_SPAWN_ID --enter 2> " + said + ".err; echo $? > " + said + ") & read x; echo allowed"});
    auto id = node.ctl_json(words).at("id").get<std::string>();
    REQUIRE(eventually([&] { return !file_text(said).empty(); }));
    CHECK(file_text(said) == "1\n");
    CHECK_MESSAGE(file_text(said + ".err").find("may not type into its own terminal") != std::string::npos, file_text(said + ".err"));
    CHECK(node.ctl({"pty", "read", id}).out.find("allowed") == std::string::npos);
    // A person does.
    REQUIRE(node.ctl({"pty", "send", id, "--enter"}).status == 0);
    CHECK(eventually([&] { return node.ctl({"pty", "read", id}).out.find("allowed") != std::string::npos; }));
  }
}

TEST_CASE("an agent does not answer its own permission by typing") {
  asking_agent a{"swarmctl pty send $SWARM_SPAWN_ID --enter; echo send $? >> attack.log"};
  CHECK_MESSAGE(a.has("attack.log", "send 1"), a.text("attack.log"));
  a.is_answered_by_its_person_alone();
}

TEST_CASE("an agent does not answer its own permission by forced mail, to itself or by a peer, and the mail wakes it after the answer") {
  asking_agent a{"swarmctl prompt-peer --to $SWARM_MCP_INSTANCE_ID --message x --force; echo self $? >> attack.log"};
  CHECK_MESSAGE(a.has("attack.log", "self 1"), a.text("attack.log"));
  const std::vector<std::string> line{"dispatch",
                                      "peer",
                                      "--harness",
                                      "exec",
                                      "--json",
                                      "--wait-for-completion",
                                      "30",
                                      "--",
                                      "sh",
                                      "-c",
                                      "swarmctl prompt-peer --to " + a.id + " --message x --force --json > prompted"};
  REQUIRE(a.node.ctl(line).status == 0);
  auto prompted = json::parse(a.text("prompted"));
  CHECK(prompted.at("message_sent") == true);
  CHECK(prompted.at("nudged") == false);
  CHECK(prompted.at("nudge_skipped") == "target workspace handle is blocked: a person must answer there first, and force changes nothing");
  a.is_answered_by_its_person_alone();
  CHECK(eventually([&] { return a.wakes() == 2; }, std::chrono::seconds{60}));
  CHECK(a.text("answers.log") == "no\n");
}

TEST_CASE("an agent does not answer its own permission by reporting that it is idle and having itself woken") {
  asking_agent a{"for s in cli hook a b c d e; do swarmctl report-agent idle --source $s; done\n"
                 "swarmctl report-agent working --source hook\n"
                 "swarmctl report-agent idle --source program; echo program $? >> attack.log\n"
                 "swarmctl report-agent idle --source output; echo output $? >> attack.log\n"
                 "swarmctl send --to $SWARM_MCP_INSTANCE_ID hi; echo send $? >> attack.log"};
  for (const auto* refused : {"program 1", "output 1", "send 1"})
    CHECK_MESSAGE(a.has("attack.log", refused), a.text("attack.log"));
  REQUIRE(a.node.ctl({"send", "--to", a.id, "hi"}).status == 0);
  a.is_answered_by_its_person_alone();
  CHECK(eventually([&] { return a.wakes() == 2; }, std::chrono::seconds{60}));
  CHECK(a.text("answers.log") == "no\n");
}

TEST_CASE("an agent whose hook is called as if its turn had ended is not entered to while its dialog can be seen") {
  asking_agent a{"printf '{\"session_id\":\"x\",\"hook_event_name\":\"Stop\"}' | swarmctl hook claude stop"};
  REQUIRE(a.node.ctl({"send", "--to", a.id, "hi"}).status == 0);
  REQUIRE(a.node.ctl({"prompt-peer", "--to", a.id, "--message", "hi", "--force"}).status == 0);
  CHECK(a.text("answers.log").empty());
  REQUIRE(a.node.ctl({"pty", "send", a.terminal, "--stdin"}, {.input = "\x1b"}).status == 0);
  CHECK(eventually([&] { return a.wakes() == 2; }, std::chrono::seconds{60}));
  CHECK(a.text("answers.log") == "no\n");
}

TEST_CASE("a peer with the grant for terminals of programs does not type to an agent") {
  asking_agent a{"true"};
  const std::vector<std::string> line{"dispatch",
                                      "peer",
                                      "--harness",
                                      "exec",
                                      "--grant",
                                      "pty",
                                      "--json",
                                      "--wait-for-completion",
                                      "30",
                                      "--",
                                      "sh",
                                      "-c",
                                      "swarmctl pty send " + a.terminal + " --enter 2> refused; echo $? >> refused"};
  REQUIRE(a.node.ctl(line).status == 0);
  CHECK_MESSAGE(a.has("refused", "--grant pty:agents"), a.text("refused"));
  a.is_answered_by_its_person_alone();
}
