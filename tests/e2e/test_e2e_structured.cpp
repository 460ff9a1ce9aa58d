// A task that a conversation does, from the dispatch to its end, with a recording in the agent's place.
#include <doctest/doctest.h>

#include <csignal>
#include <fstream>

#include "actors/base/limits.hpp"
#include "tests/support/recorded_agent.hpp"

using namespace swarm;
using namespace swarm::testing;

namespace {

struct work : recorded_agent {
  std::string task_id;

  explicit work(const part& p = {}) : recorded_agent(p, true) {}

  v1::DispatchReply dispatch() {
    auto c = client->command();
    auto& d = *c.mutable_dispatch();
    d.set_title("write a file");
    d.set_message("the file in.txt is missing");
    d.set_harness("claude");
    d.set_directory(node.work());
    d.set_structured(true);
    d.add_argv(agent);
    const auto r = client->execute(c);
    REQUIRE_MESSAGE(!r.has_refusal(), r.refusal().text());
    task_id = r.dispatch().task().id();
    return r.dispatch();
  }
  v1::Task task() {
    auto q = client->query();
    q.mutable_get_task()->set_task_id(task_id);
    return client->ask(q).task();
  }
  void allow(const v1::Approval& a) { decide(a, "allow"); }
  bool was_told(const std::string& text) {
    std::ifstream in{heard};
    const std::string all{std::istreambuf_iterator<char>{in}, {}};
    return all.find(text) != std::string::npos;
  }
};

} // namespace

TEST_CASE("a dispatched task is a conversation's first prompt and is done with its last words") {
  work w;
  const auto d = w.dispatch();
  const auto id = d.spawn().conversation_id();
  REQUIRE_FALSE(id.empty());
  CHECK(w.dispatch().spawn().conversation_id() == id);
  const auto asked = w.open_permission();
  CHECK(w.was_told("the file in.txt is missing"));
  CHECK(w.task().status() == v1::IN_PROGRESS);
  CHECK(asked.deadline_ms() - asked.created_at_ms() == limits::conversation_task_approval().count());
  w.allow(asked);
  REQUIRE(eventually([&] { return w.task().status() == v1::DONE; }));
  CHECK_FALSE(w.task().result().empty());
  CHECK(w.task().result() == w.conversation(id).last_text());
}

TEST_CASE("who follows a task is told that its worker waits for a person and what answers it") {
  work w;
  child_process following{
    {program("swarmctl").string(), "dispatch", "write a file", "--harness", "claude", "--structured", "--follow", "--", w.agent},
    w.node.env(),
    w.node.work(),
    ""};
  const auto asked = w.open_permission();
  REQUIRE(following.read_until("swarmctl decide"));
  w.allow(asked);
  const auto said = following.finish();
  CHECK(said.err.find("asks: " + asked.title()) != std::string::npos);
  CHECK(said.err.find("swarmctl decide " + asked.id().substr(0, 8) + " allow|deny") != std::string::npos);
  CHECK(said.err.find("asks: ") == said.err.rfind("asks: "));
}

TEST_CASE("who asks for the output or the screen of a conversation that works on a task is told how to read it") {
  work w;
  const auto id = w.dispatch().spawn().conversation_id();
  w.allow(w.open_permission());
  REQUIRE(eventually([&] { return w.task().status() == v1::DONE; }));
  const auto how = "swarmctl chat read " + id.substr(0, 8);
  CHECK(w.node.ctl({"logs", w.task_id}).err.find(how) != std::string::npos);
  CHECK(w.node.ctl({"peek", w.conversation(id).session_id()}).err.find(how) != std::string::npos);
  const auto again = w.node.ctl({"retry", w.task_id});
  CHECK_MESSAGE(again.err.find("swarmctl chat read ") != std::string::npos, again.err);
}

TEST_CASE("a task is not done while its agent runs something beside its turn, and ends with the turn that follows") {
  work w{{.recording = "background", .prompt = "4f2abd96-8a6f-4cec-a511-ef7e772f23d3"}};
  const auto id = w.dispatch().spawn().conversation_id();
  w.allow(w.open_permission());
  REQUIRE(eventually([&] { return w.task().status() == v1::DONE; }));
  CHECK(w.task().result() == "This is the fake model.");
  CHECK(w.conversation(id).background() == 0);
}

TEST_CASE("mail to the agent of a conversation reaches it as words and not as a line that is typed") {
  work w;
  const auto id = w.dispatch().spawn().conversation_id();
  w.allow(w.open_permission());
  REQUIRE(eventually([&] { return w.conversation(id).state() == v1::Conversation::IDLE; }));
  auto c = w.client->command();
  c.mutable_send_message()->set_recipient(w.conversation(id).session_id());
  c.mutable_send_message()->set_content("the build is red again");
  const auto r = w.client->execute(c);
  REQUIRE_MESSAGE(!r.has_refusal(), r.refusal().text());
  CHECK(eventually([&] { return w.was_told("the build is red again"); }));
}

TEST_CASE("an agent that is killed in its task's turn fails the task and is not started again") {
  work w;
  const auto id = w.dispatch().spawn().conversation_id();
  w.open_permission();
  pid_t pid = 0;
  std::ifstream{w.agent_pid} >> pid;
  REQUIRE(pid > 1);
  ::kill(pid, SIGKILL);
  REQUIRE(eventually([&] { return w.task().status() == v1::FAILED; }));
  CHECK_FALSE(w.task().result().empty());
  REQUIRE(eventually([&] { return w.conversation(id).state() == v1::Conversation::SUSPENDED; }));
  CHECK(w.conversation(id).generation() == 1);
}
