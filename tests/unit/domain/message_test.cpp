#include <deque>
#include <map>
#include <random>

#include <doctest/doctest.h>

#include "tests/support/domain_world.hpp"

using namespace swarm;
using test::domain_world;
namespace v1 = swarm::v1;

namespace {

v1::Command send(const std::string& who, const std::string& to, const std::string& text) {
  auto cmd = domain_world::command(who);
  cmd.mutable_send_message()->set_recipient(to);
  cmd.mutable_send_message()->set_content(text);
  return cmd;
}

v1::Command prompt(const std::string& who, const std::string& to, const std::string& text, const std::string& task = {}) {
  auto cmd = send(who, to, text);
  cmd.mutable_send_message()->set_prompt(true);
  cmd.mutable_send_message()->set_task_id(task);
  return cmd;
}

v1::Command consume(const std::string& who, std::uint32_t limit = 0, const std::string& task = {}) {
  auto cmd = domain_world::command(who);
  cmd.mutable_consume_messages()->set_limit(limit);
  cmd.mutable_consume_messages()->set_task_prefix(task);
  return cmd;
}

} // namespace

TEST_CASE("a message is refused in swarm-mcp's words and order") {
  domain_world w;
  auto a = w.session("identity:a"), b = w.session("identity:b"), plain = w.session();
  CHECK(w.reply(send(a, "nobody", "x")).refusal().text() == "Instance nobody is not active in this scope");
  CHECK(w.reply(send(a, a, "x")).refusal().text() == "Cannot send a message to yourself");
  CHECK(w.reply(prompt(a, a, "x")).refusal().text() == "Cannot prompt yourself");
  CHECK(w.reply(send(a, b, "x")).refusal().text().rfind("Cross-identity coordination blocked: sender identity:a, target identity:b.", 0) == 0);
  CHECK(w.reply(send(plain, b, "x")).refusal().text().rfind("Identity boundary blocked: sender has no identity token.", 0) == 0);
  CHECK(w.reply(send(a, plain, "x")).refusal().text().rfind("Identity boundary blocked: target has no identity token.", 0) == 0);
  auto relaxed = send(a, b, "x");
  relaxed.mutable_send_message()->set_relaxed(true);
  CHECK_FALSE(w.reply(relaxed).has_refusal());
  CHECK_FALSE(w.reply(send("", b, "x")).has_refusal());
}

TEST_CASE("a session does not write to itself, also on the command line, where a person may write to the session that he acts as") {
  domain_world w;
  auto a = w.session();
  for (auto cmd : {send(a, a, "x"), prompt(a, a, "x")}) {
    cmd.mutable_send_message()->set_relaxed(true);
    CHECK_FALSE(w.reply(cmd).has_refusal());
    cmd.mutable_principal()->set_kind(v1::Principal::SESSION);
    cmd.mutable_principal()->set_id(a);
    CHECK(w.reply(cmd).refusal().code() == v1::Refusal::STATE);
  }
}

TEST_CASE("a trusted shell may let labelled and unlabelled sessions talk, but not two identities") {
  domain_world w;
  auto a = w.session("identity:a"), b = w.session("identity:b"), plain = w.session();
  auto code = [&](const std::string& from, const std::string& to, v1::Principal::Kind kind, bool granted = false) {
    auto cmd = send(from, to, "x");
    cmd.mutable_caller()->set_allow_unlabeled(true);
    cmd.mutable_principal()->set_kind(kind);
    if (kind == v1::Principal::SESSION)
      cmd.mutable_principal()->set_id(from);
    if (granted)
      cmd.mutable_principal()->add_grants("cross_identity");
    return w.reply(cmd).refusal().code();
  };
  const auto fine = v1::Refusal::CODE_UNSPECIFIED, blocked = v1::Refusal::CROSS_IDENTITY;
  CHECK(code(a, plain, v1::Principal::OPERATOR) == fine);
  CHECK(code(plain, b, v1::Principal::OPERATOR) == fine);
  CHECK(code(a, b, v1::Principal::OPERATOR) == blocked);
  CHECK(code(a, plain, v1::Principal::SESSION) == blocked);
  CHECK(code(plain, a, v1::Principal::SESSION) == blocked);
  CHECK(code(a, plain, v1::Principal::SESSION, true) == fine);
}

TEST_CASE("sessions without a label reach each other") {
  domain_world w;
  auto a = w.session(), b = w.session();
  CHECK(w.reply(send(a, b, "x")).message_sent().prompt().message_id() == 1);
}

TEST_CASE("a prompt carries its task and says that nobody was woken") {
  domain_world w;
  auto a = w.session(), b = w.session();
  auto batch = w.run(prompt(a, b, "look", "t1"));
  CHECK(batch.reply().message_sent().prompt().skipped() == "no workspace identity is published for that instance");
  CHECK(test::event_types(batch) == std::vector<std::string>{"message.sent"});
  w.run(send(a, b, "other"));
  auto got = w.reply(consume(b, 0, "t1")).messages();
  REQUIRE(got.messages_size() == 1);
  CHECK(got.messages(0).content() == "[task:t1] look");
  CHECK(w.reply(consume(b)).messages().messages_size() == 1);
}

TEST_CASE("a broadcast reaches adopted sessions of the same identity, and is no event without recipients") {
  domain_world w;
  auto a = w.session("identity:a");
  auto cmd = domain_world::command(a);
  cmd.mutable_broadcast()->set_content("hello");
  CHECK(w.run(cmd).events().empty());
  w.session("identity:b");
  auto peer = w.session("identity:a");
  auto batch = w.run(cmd);
  CHECK(batch.reply().broadcast_sent().recipients() == 1);
  CHECK(test::has_event(batch, "message.broadcast"));
  CHECK(w.reply(consume(peer)).messages().messages_size() == 1);
}

TEST_CASE("what is written to the operator is kept until a person reads it, and only a person does") {
  domain_world w;
  auto a = w.session("identity:a");
  auto batch = w.run(send(a, "operator", "done"));
  CHECK(test::has_event(batch, "message.sent"));
  CHECK(batch.reply().message_sent().prompt().message_id() == 1);
  CHECK(w.reply(prompt(a, "operator", "look", "T")).message_sent().prompt().skipped().find("swarmctl messages --mine") != std::string::npos);
  CHECK(w.reply(consume(a)).messages().messages().empty());
  auto phone = consume("");
  phone.mutable_principal()->set_kind(v1::Principal::DEVICE);
  CHECK(w.reply(phone).refusal().code() == v1::Refusal::FORBIDDEN);
  auto read = w.reply(consume("")).messages();
  REQUIRE(read.messages_size() == 2);
  CHECK(read.messages(0).sender() == a);
  CHECK(read.messages(0).content() == "done");
  CHECK(read.messages(1).content() == "[task:T] look");
  CHECK(w.reply(consume("")).messages().messages().empty());
  CHECK(w.rows.all<v1::Message>().size() == 2);
}

TEST_CASE("what the rules tell the operator is an event and no mail, and nobody else has the operator's mailbox") {
  domain_world w;
  auto a = w.session();
  auto ended = domain_world::command("");
  ended.mutable_create_tasks()->add_tasks()->set_title("t");
  ended.mutable_create_tasks()->mutable_tasks(0)->set_type("implement");
  auto task = w.reply(ended).tasks_created().tasks(0).task().id();
  auto claim = domain_world::command(a);
  claim.mutable_claim_task()->set_task_id(task);
  w.run(claim);
  auto done = domain_world::command(a);
  done.mutable_update_task()->set_task_id(task);
  done.mutable_update_task()->set_status(v1::DONE);
  w.run(done);
  CHECK_FALSE(w.reply(send(a, "system", "x")).has_refusal());
  CHECK(w.rows.all<v1::Message>().empty());
}

TEST_CASE("the operator's mailbox is bounded: the oldest message that was read makes room, unread ones stay") {
  domain_world w;
  auto a = w.session();
  for (std::uint64_t i = 1; i <= 10'000; ++i) {
    v1::Message m;
    m.set_scope("s");
    m.set_id(i);
    m.set_recipient("operator");
    m.set_read(i == 3 || i == 4);
    w.rows.put(m);
  }
  auto state = w.rows.row<v1::ScopeState>("s").value();
  state.set_next_message_id(10'001);
  w.rows.put(state);
  CHECK_FALSE(w.reply(send(a, "operator", "one more")).has_refusal());
  auto has = [&](std::uint64_t id) {
    auto all = w.rows.all<v1::Message>();
    return std::any_of(all.begin(), all.end(), [&](const auto& m) { return m.second.id() == id; });
  };
  CHECK_FALSE(has(3));
  CHECK(has(4));
  CHECK(has(1));
  CHECK_FALSE(w.reply(send(a, "operator", "and one")).has_refusal());
  auto full = w.reply(send(a, "operator", "too many")).refusal();
  CHECK(full.code() == v1::Refusal::LIMIT);
  CHECK(full.text().find("swarmctl messages --mine") != std::string::npos);
}

TEST_CASE("a full mailbox takes no more") {
  domain_world w;
  auto a = w.session(), b = w.session();
  for (std::uint64_t i = 1; i <= 10'000; ++i) {
    v1::Message m;
    m.set_scope("s");
    m.set_id(i);
    m.set_recipient(b);
    w.rows.put(m);
  }
  CHECK(w.reply(send(a, b, "x")).refusal().code() == v1::Refusal::LIMIT);
}

TEST_CASE("large messages are consumed over several calls, none lost") {
  domain_world w;
  auto a = w.session(), b = w.session();
  for (int i = 0; i < 10; ++i)
    w.run(send(a, b, std::string(100'000, static_cast<char>('a' + i))));
  std::string seen;
  for (int i = 0; i < 10 && seen.size() < 10; ++i) {
    auto r = w.reply(consume(b));
    REQUIRE_FALSE(r.has_refusal());
    for (const auto& m : r.messages().messages())
      seen += m.content().front();
  }
  CHECK(seen == "abcdefghij");
}

TEST_CASE("every mailbox is a queue: each message is read once, in order") {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    CAPTURE(seed);
    domain_world w(seed);
    std::mt19937_64 random(seed);
    auto pick = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
    std::vector<std::string> who{w.session(), w.session(), w.session()};
    std::map<std::string, std::deque<std::string>> model;
    for (int i = 0; i < 80; ++i) {
      CAPTURE(i);
      const auto& me = who[pick(3)];
      const auto& to = who[pick(3)];
      auto text = std::to_string(i);
      auto dice = pick(4);
      if (dice < 2) {
        if (w.reply(send(me, to, text)).has_refusal())
          CHECK(me == to);
        else
          model[to].push_back(text);
      } else if (dice == 2) {
        auto cmd = domain_world::command(me);
        cmd.mutable_broadcast()->set_content(text);
        w.run(cmd);
        for (const auto& other : who)
          if (other != me)
            model[other].push_back(text);
      } else {
        auto limit = static_cast<std::uint32_t>(1 + pick(4));
        auto got = w.reply(consume(me, limit)).messages();
        auto& line = model[me];
        REQUIRE(static_cast<std::size_t>(got.messages_size()) == std::min<std::size_t>(limit, line.size()));
        for (const auto& m : got.messages()) {
          CHECK(m.content() == line.front());
          line.pop_front();
        }
      }
    }
  }
}
