// What waits for a person's decision: questions of agents, answered from another directory, and what a script must show that it has seen.
#include <doctest/doctest.h>

#include <csignal>

#include "tests/support/mcp_client.hpp"

using namespace swarm;
using namespace swarm::testing;

namespace {

struct asking_agent : mcp_client {
  explicit asking_agent(const test_node& node) : mcp_client(node) {
    initialize();
    enroll("name:ann");
  }
};

const json colour{{"title", "Which colour?"}, {"body", "The button\nof the first page."}, {"options", {"red", "green"}}};

json question(const test_node& node) {
  json list;
  REQUIRE(eventually([&] {
    list = node.ctl_json({"approvals"});
    return list.size() == 1;
  }));
  return list[0];
}

} // namespace

TEST_CASE("an agent asks a person, waits, and gets the answer that is given with the digest of what was shown") {
  test_node node;
  node.start();
  asking_agent ann{node};
  const auto call = ann.call_later("ask_person", colour);
  const auto shown = question(node);
  CHECK(shown.at("kind") == "question");
  CHECK(shown.at("title") == "Which colour?");
  CHECK(shown.at("body") == "The button\nof the first page.");
  CHECK(shown.at("options") == json{"red", "green"});
  CHECK(shown.at("state") == "open");
  const std::string id = shown.at("id"), digest = shown.at("digest");
  const auto text = node.ctl({"approvals"}).out;
  CHECK(text.find("asks: Which colour?") != std::string::npos);
  CHECK(text.find("of the first page.") != std::string::npos);

  // Nobody decides what nobody has seen.
  const auto unseen = node.ctl({"decide", id, "green"});
  CHECK(unseen.status == 2);
  CHECK(unseen.err.find("--digest " + digest) != std::string::npos);
  const auto other = node.ctl({"decide", id, "green", "--digest", std::string(64, '0')});
  CHECK(other.status == 1);
  CHECK(other.err.find("not the one shown") != std::string::npos);
  CHECK(node.ctl({"decide", id, "blue", "--digest", digest}).status == 1);
  CHECK_FALSE(ann.is_answered(call));

  CHECK(node.ctl_json({"decide", id, "green", "--digest", digest}).at("state") == "decided");
  const auto answer = ann.reply_to(call).value();
  CHECK(answer.at("state") == "decided");
  CHECK(answer.at("answer") == "green");
  // The next call with the id returns the same answer. It is not mail, because the call has returned it.
  CHECK(ann.call("ask_person", {{"id", id}}).value().at("answer") == "green");
  CHECK(ann.call("poll_messages").text().find("is answered") == std::string::npos);
  CHECK(node.ctl({"decide", id, "red", "--digest", digest}).status == 1);
}

TEST_CASE("an answer that no call waits for is mail until a call asks for it") {
  test_node node;
  node.start();
  asking_agent ann{node};
  const auto answer_unheard = [&] {
    const auto call = ann.call_later("ask_person", colour);
    const auto shown = question(node);
    ann.notify("notifications/cancelled", {{"requestId", call}});
    ann.ask("whoami"); // behind it
    const std::string id = shown.at("id");
    node.ctl_json({"decide", id, "green", "--digest", shown.at("digest")});
    return id;
  };
  answer_unheard();
  CHECK(ann.call("poll_messages").text().find("is answered: green") != std::string::npos);
  const auto id = answer_unheard();
  CHECK(ann.call("ask_person", {{"id", id}}).value().at("answer") == "green");
  CHECK(ann.call("poll_messages").text().find("is answered") == std::string::npos);
}

TEST_CASE("a person sees and decides the questions of every scope from any directory, by the first characters of the id") {
  test_node node;
  node.start();
  asking_agent ann{node};
  ann.call_later("ask_person", colour);
  const auto shown = question(node);
  const std::string id = shown.at("id");
  const auto elsewhere = fs::path{node.work()} / "elsewhere";
  fs::create_directories(elsewhere);
  run_options there;
  there.directory = elsewhere.string();
  CHECK(node.ctl_json({"approvals"}, there).size() == 1);
  const auto one = id.substr(0, 8);
  CHECK(node.ctl_json({"approvals", one}, there).at(0).at("id") == id);
  // Who names another scope means an approval of that.
  CHECK(node.ctl({"decide", one, "red", "--digest", shown.at("digest"), "--scope", elsewhere.string()}, there).status == 1);
  CHECK(node.ctl({"decide", one, "red", "--digest", shown.at("digest")}, there).status == 0);
  CHECK(node.ctl({"approvals"}, there).out == "(no open approvals in any scope)\n");
}

TEST_CASE("what a session asks a person is seen by no other session") {
  test_node node;
  node.start();
  asking_agent ann{node};
  const auto call = ann.call_later("ask_person", colour);
  const auto shown = question(node);
  mcp_client leader{node};
  leader.initialize();
  leader.enroll("mode:gateway name:leader");
  CHECK(node.ctl_json({"approvals", "--as", "name:leader"}).empty());
  CHECK(node.ctl_json({"approvals", "--as", "name:ann"}).size() == 1);
  CHECK(leader.call("ask_person", {{"id", shown.at("id")}}).text().find("no question") != std::string::npos);
  CHECK_FALSE(ann.is_answered(call));
  CHECK(question(node).at("state") == "open");
}

TEST_CASE("a question goes with the session that has asked it") {
  test_node node;
  node.start();
  {
    asking_agent ann{node};
    ann.call_later("ask_person", colour);
    question(node);
    ann.call("deregister");
  }
  CHECK(eventually([&] { return node.ctl_json({"approvals"}).empty(); }));
  const auto all = node.ctl_json({"approvals", "--all"});
  REQUIRE(all.size() == 1);
  CHECK(all[0].at("state") == "withdrawn");
}

TEST_CASE("a person at a terminal is shown the action and asked before it is decided") {
  test_node node;
  node.start();
  asking_agent ann{node};
  ann.call_later("ask_person", colour);
  const std::string id = question(node).at("id");
  for (const auto& [key, status, left] : {std::tuple{"n\r", 1, 1U}, std::tuple{"y\r", 0, 0U}}) {
    terminal_process person{{program("swarmctl").string(), "decide", id, "red"}, node.env(), node.work()};
    REQUIRE(person.read_until("Decide red? [y/N]"));
    CHECK(person.screen().find("of the first page.") != std::string::npos);
    person.type(key);
    CHECK(person.finish() == status);
    CHECK(node.ctl_json({"approvals"}).size() == left);
  }
}

TEST_CASE("a question outlives the node that was asked and its asker is told the id under which it waits") {
  test_node node;
  node.start();
  asking_agent ann{node};
  const auto call = ann.call_later("ask_person", colour);
  const auto shown = question(node);
  node.kill_node();
  REQUIRE(node.ctl({"up"}).status == 0);
  CHECK(question(node).at("id") == shown.at("id"));
  REQUIRE(node.ctl({"decide", shown.at("id"), "red", "--digest", shown.at("digest")}).status == 0);
  // It has waited on, or was told what waits.
  CHECK(ann.reply_to(call).value().at("id") == shown.at("id"));
  CHECK(ann.call("ask_person", {{"id", shown.at("id")}}).value().at("answer") == "red");
}

TEST_CASE("a person follows the approvals of every scope and hears of each question and each answer once") {
  test_node node;
  node.start();
  run_options there;
  there.directory = (fs::path{node.work()} / "elsewhere").string();
  fs::create_directories(there.directory);
  asking_agent ann{node};
  ann.call_later("ask_person", colour);
  const auto first = question(node);
  auto follower = node.ctl_start({"approvals", "--follow", "--json"}, there);
  REQUIRE(follower.read_until(first.at("id").get<std::string>()));

  ann.call_later("ask_person", {{"title", "Which size?"}, {"options", {"s", "m"}}});
  REQUIRE_MESSAGE(follower.read_until("Which size?"), follower.so_far().err);
  REQUIRE(node.ctl({"decide", first.at("id"), "red", "--digest", first.at("digest")}).status == 0);
  REQUIRE(follower.read_until("\"decision\":\"red\""));

  // What happened while the node was away is not in the feed: the follower looks at what is open.
  node.kill_node();
  node.start();
  asking_agent bob{node};
  bob.call_later("ask_person", {{"title", "Which shape?"}, {"options", {"round", "square"}}});
  REQUIRE(follower.read_until("Which shape?"));
  follower.signal(SIGINT);
  const auto all = follower.finish();
  CHECK(all.status == 130);
  std::vector<std::string> told;
  for (const auto& line : lines_of(all.out)) {
    const auto row = json::parse(line);
    told.push_back(row.at("title").get<std::string>() + " " + row.at("state").get<std::string>());
  }
  CHECK(told == std::vector<std::string>{"Which colour? open", "Which size? open", "Which colour? decided", "Which shape? open"});
}

TEST_CASE("a person who begins to follow before there is any scope hears of the questions of all that come") {
  test_node node;
  node.start();
  auto follower = node.ctl_start({"approvals", "--follow", "--json"});
  run_options there;
  there.directory = (fs::path{node.work()} / "elsewhere").string();
  fs::create_directories(there.directory);
  // The follower has its place once it hears of its own directory.
  asking_agent ann{node};
  ann.call_later("ask_person", colour);
  REQUIRE(follower.read_until("Which colour?"));
  mcp_client bob{node, there};
  bob.initialize();
  bob.enroll("name:bob", {{"directory", there.directory}});
  bob.call_later("ask_person", {{"title", "Which size?"}, {"options", {"s", "m"}}});
  CHECK(follower.read_until("Which size?"));
}

TEST_CASE("a terminal rings for a question that is followed, and an agent follows its own scope only") {
  test_node node;
  node.start();
  asking_agent ann{node};
  terminal_process person{{program("swarmctl").string(), "approvals", "--follow"}, node.env(), node.work()};
  ann.call_later("ask_person", colour);
  REQUIRE(person.read_until("asks: Which colour?"));
  REQUIRE(person.read_until("\a"));
  person.type("\x03");
  CHECK(person.finish() == 130);

  auto session = node.ctl_start({"approvals", "--follow", "--json", "--as", ann.id()});
  REQUIRE(session.read_until("Which colour?"));
  session.signal(SIGINT);
  CHECK(session.finish().status == 130);
}
