#include "tests/unit/cli/fake_node.hpp"

#include <doctest/doctest.h>

using namespace swarm;
using namespace swarm::cli;

namespace {

v1::Message message(std::uint64_t id, const std::string& text, bool read) {
  v1::Message m;
  m.set_scope("/r");
  m.set_id(id);
  m.set_sender("11111111-aaaa");
  m.set_recipient("operator");
  m.set_content(text);
  m.set_created_at_ms(1'795'291'620'000);
  m.set_read(read);
  return m;
}

/// A node with the mail of the operator, as the rules keep it.
struct cli_with_mail : test::cli {
  cli_with_mail() {
    node.on_query = [this](const v1::Query& q) {
      v1::Answer a;
      a.set_revision(7);
      if (q.has_list_scopes()) {
        for (const auto* scope : {"/r", "/other"})
          a.mutable_scopes()->add_scopes()->set_scope(scope);
      } else if (q.has_list_messages()) {
        for (const auto& m : mail)
          if (m.scope() == q.scope() && q.list_messages().to() == m.recipient())
            *a.mutable_messages()->add_messages() = m;
      }
      return a;
    };
    node.on_command = [this](const v1::Command& c) {
      v1::Reply r;
      r.mutable_messages();
      CHECK(c.actor().empty());
      for (auto& m : mail)
        if (c.has_consume_messages() && m.scope() == c.scope() && !m.read()) {
          m.set_read(true);
          *r.mutable_messages()->add_messages() = m;
        }
      return r;
    };
  }
  int run(std::vector<std::string> args) {
    args.insert(args.begin(), {"--scope", "/r"});
    return (*this)(std::move(args));
  }
  std::vector<v1::Message> mail{message(1, "old", true), message(2, "new", false)};
};

} // namespace

TEST_CASE("the mail of the person is shown newest last, and stays unread where nobody says that it was read") {
  cli_with_mail ctl;
  REQUIRE(ctl.run({"messages", "--mine"}) == code::ok);
  CHECK(ctl.screen.out == "  #1  2026-11-21 20:07:00  11111111\n    old\n* #2  2026-11-21 20:07:00  11111111\n    new\n");
  CHECK(ctl.node.commands.empty());
}

TEST_CASE("mail that is acknowledged is shown as new once") {
  cli_with_mail ctl;
  REQUIRE(ctl.run({"messages", "--mine", "--ack"}) == code::ok);
  CHECK(ctl.screen.out.find("* #2") != std::string::npos);
  CHECK(ctl.mail[1].read());
  REQUIRE(ctl.run({"messages", "--mine", "--json"}) == code::ok);
  CHECK(ctl.out_json()[1]["read"] == 1);
}

TEST_CASE("the mail of all scopes names them, and an empty one says where it looked") {
  cli_with_mail ctl;
  ctl.mail.push_back(message(1, "elsewhere", false));
  ctl.mail.back().set_scope("/other");
  ctl.mail.back().set_created_at_ms(1'795'291'621'000);
  REQUIRE(ctl.run({"messages", "--mine", "--all-scopes", "--json"}) == code::ok);
  REQUIRE(ctl.out_json().size() == 3);
  CHECK(ctl.out_json()[2]["content"] == "elsewhere");
  CHECK(ctl.out_json()[2]["scope"] == "/other");
  ctl.mail.clear();
  REQUIRE(ctl.run({"messages", "--mine"}) == code::ok);
  CHECK(ctl.screen.out == "(no messages for you in scope /r)\n");
}

TEST_CASE("followed mail is shown once each, from where the first list ended") {
  cli_with_mail ctl;
  v1::WatchReply news;
  news.add_events()->set_type("message.sent");
  ctl.node.watches.push_back({{news, news}, stream_end::complete});
  ctl.node.on_query = [&ctl, before = ctl.node.on_query](const v1::Query& q) {
    auto a = before(q);
    if (!ctl.node.watch_requests.empty() && ctl.mail.size() == 2)
      *a.mutable_messages()->add_messages() = message(3, "latest", false);
    return a;
  };
  CHECK(ctl.run({"messages", "--mine", "--follow", "--json"}) == code::deadline); // the test has no more events
  CHECK(std::count(ctl.screen.out.begin(), ctl.screen.out.end(), '\n') >= 3);
  CHECK(ctl.screen.out.find("latest") != std::string::npos);
  CHECK(ctl.screen.out.find("latest") == ctl.screen.out.rfind("latest"));
  REQUIRE_FALSE(ctl.node.watch_requests.empty());
  const auto& watched = ctl.node.watch_requests.front();
  CHECK(watched.after() == 7);
  CHECK(watched.subject() == "operator");
  CHECK(watched.types(0) == "message.sent");
}

TEST_CASE("the mail of the person is not that of a worker or of an instance") {
  cli_with_mail ctl;
  CHECK(ctl.run({"messages", "--ack"}) == code::usage);
  CHECK(ctl.run({"messages", "--mine", "--follow", "--all-scopes"}) == code::usage);
  ctl.env = environment{{{"SWARM_SPAWN_ID", "s"}}};
  CHECK(ctl.run({"messages", "--mine"}) == code::usage);
}

TEST_CASE("a message to the operator needs no instance of that name, but to swarm-mcp it is a label like any other") {
  cli_with_mail ctl;
  ctl.node.on_command = [](const v1::Command&) {
    v1::Reply r;
    r.mutable_message_sent()->mutable_prompt()->set_sender("11111111-aaaa");
    return r;
  };
  REQUIRE(ctl.run({"send", "--to", "operator", "look", "here"}) == code::ok);
  CHECK(ctl.node.commands.back().send_message().recipient() == "operator");
  CHECK(ctl.screen.out == "sent 11111111 → operator\n");
  CHECK(ctl.node.queries.empty());
  ctl.program = "swarm-mcp";
  ctl({"send", "--to", "operator", "look"});
  REQUIRE_FALSE(ctl.node.queries.empty());
  CHECK(ctl.node.queries.back().has_find_session());
}

TEST_CASE("what the person, the node or an orphan has sent is listed by their name, whatever a session is called") {
  cli_with_mail ctl;
  for (const std::string who : {"operator", "orphan", "system"}) {
    ctl.node.queries.clear();
    REQUIRE(ctl.run({"messages", "--from", who}) == code::ok);
    REQUIRE(ctl.node.queries.size() == 1);
    CHECK(ctl.node.queries.back().list_messages().from() == who);
  }
}
