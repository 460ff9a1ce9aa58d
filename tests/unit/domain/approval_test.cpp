#include <doctest/doctest.h>

#include "actors/base/crypto.hpp"
#include "actors/base/limits.hpp"
#include "actors/domain/query/rules.hpp"
#include "tests/support/domain_world.hpp"

using namespace swarm;
using test::domain_world;
namespace v1 = swarm::v1;

namespace {

using approval = v1::Approval;

v1::Command as_session(const std::string& id) { return domain_world::by(v1::Principal::SESSION, id); }
v1::Command as_node() { return domain_world::by(v1::Principal::NODE, "me"); }

v1::Command request(v1::Command cmd, approval::Kind kind, const std::string& title = "Run it?", const std::string& body = {},
                    const std::vector<std::string>& options = {}) {
  auto& r = *cmd.mutable_request_approval();
  r.set_subject("conversation/1");
  r.set_kind(kind);
  r.set_title(title);
  r.set_body(body);
  for (const auto& o : options)
    r.add_options(o);
  return cmd;
}

v1::Command question(const std::string& session, const std::string& title = "Which colour?") {
  return request(as_session(session), approval::QUESTION, title, {}, {"red", "green"});
}

v1::Command decision(const approval& a, const std::string& option, std::string digest = {}) {
  auto cmd = domain_world::command();
  cmd.mutable_decide_approval()->set_approval_id(a.id());
  cmd.mutable_decide_approval()->set_option(option);
  cmd.mutable_decide_approval()->set_action_digest(digest.empty() ? a.action_digest() : digest);
  return cmd;
}

v1::Command withdrawal(v1::Command cmd, const approval& a, const std::string& reason = {}) {
  cmd.mutable_withdraw_approval()->set_approval_id(a.id());
  cmd.mutable_withdraw_approval()->set_reason(reason);
  return cmd;
}

v1::Refusal::Code code(const v1::Reply& r) { return r.refusal().code(); }

std::vector<std::string> seen_by(domain_world& w, const std::string& viewer) {
  v1::Query query;
  query.set_scope("s");
  query.set_viewer(viewer);
  query.mutable_principal()->set_kind(v1::Principal::OPERATOR);
  query.mutable_list_approvals();
  std::vector<std::string> out;
  const auto answer = domain::answer(query, w.rows, w.in);
  for (const auto& a : answer.approvals().approvals())
    out.push_back(a.id());
  return out;
}

} // namespace

TEST_CASE("only the node and a person ask for an agent's permissions so that no agent's text looks like one") {
  domain_world w;
  const auto s = w.session();
  for (auto kind : {approval::TOOL, approval::COMMAND, approval::FILE, approval::ELICITATION}) {
    CHECK(code(w.reply(request(as_session(s), kind))) == v1::Refusal::FORBIDDEN);
    CHECK(code(w.reply(request(domain_world::command(s), kind))) == v1::Refusal::FORBIDDEN); // a person in its name
  }
  for (auto kind : {approval::TOOL, approval::COMMAND, approval::FILE}) {
    const auto a = w.reply(request(as_node(), kind, "Run it?", "{\"command\":\"make\"}")).approval();
    CHECK(a.kind() == kind);
    CHECK(std::vector<std::string>{a.options().begin(), a.options().end()} == std::vector<std::string>{"allow", "deny", "always"});
    CHECK(code(w.reply(request(as_node(), kind, "Run it?", {}, {"yes"}))) == v1::Refusal::INVALID);
  }
}

TEST_CASE("the digest of an approval is that of the bytes that are shown whatever its asker says") {
  domain_world w;
  const std::string body = "{ \"command\" :\"rm -rf /\"}";
  auto cmd = request(as_node(), approval::COMMAND, "Run a command?", body);
  const auto a = w.reply(cmd).approval();
  CHECK(a.body() == body);
  CHECK(a.action_digest() == sha256(body));
  cmd.mutable_request_approval()->set_action_digest(sha256("something harmless"));
  CHECK(code(w.reply(cmd)) == v1::Refusal::INVALID);
  CHECK(code(w.reply(decision(a, "allow", sha256("something harmless")))) == v1::Refusal::STALE);
  CHECK(w.reply(decision(a, "allow")).approval().decision() == "allow");
  CHECK(w.reply(question(w.session())).approval().action_digest() == sha256("Which colour?"));
}

TEST_CASE("a question needs a title and options each of which is another word") {
  domain_world w;
  const auto s = w.session();
  auto ask = [&](const std::string& title, const std::vector<std::string>& options) {
    return code(w.reply(request(as_session(s), approval::QUESTION, title, {}, options)));
  };
  CHECK(ask("", {"a"}) == v1::Refusal::INVALID);
  CHECK(ask("t", {}) == v1::Refusal::INVALID);
  CHECK(ask("t", {"a", ""}) == v1::Refusal::INVALID);
  CHECK(ask("t", {"a", "b", "a"}) == v1::Refusal::INVALID);
  CHECK(ask("t", {"a", "b"}) == v1::Refusal::CODE_UNSPECIFIED);
  auto unknown = request(as_session(s), static_cast<approval::Kind>(99), "t", {}, {"a"});
  CHECK(code(w.reply(unknown)) == v1::Refusal::INVALID);
}

TEST_CASE("an answer reaches the session that has asked as mail") {
  domain_world w;
  const auto s = w.session();
  const auto a = w.reply(question(s)).approval();
  const auto batch = w.run(decision(a, "green"));
  CHECK(test::has_event(batch, "approval.decided"));
  CHECK(test::has_event(batch, "message.sent"));
  const auto mail = w.rows.rows<v1::Message>({.scope = "s", .recipient = s});
  REQUIRE(mail.size() == 1);
  CHECK(mail[0].sender() == "operator");
  CHECK(mail[0].content() == "Your question \"Which colour?\" is answered: green");
}

TEST_CASE("an answer that its asker has got from its own call is no mail any more, and no other mail goes with it") {
  domain_world w;
  const auto s = w.session(), peer = w.session({}, 101);
  const auto unread = [&] { return w.rows.rows<v1::Message>({.scope = "s", .recipient = s, .read = false}).size(); };
  const auto a = w.reply(question(s)).approval();
  w.run(decision(a, "green"));
  w.pass(1);
  const auto again = w.reply(question(s)).approval();
  w.run(decision(again, "green"));
  REQUIRE(unread() == 2);
  CHECK(code(w.reply(withdrawal(as_session(peer), a))) == v1::Refusal::NOT_FOUND);
  w.reply(withdrawal(domain_world::command(), a)); // a person does not say that the asker knows
  REQUIRE(unread() == 2);
  CHECK(w.reply(withdrawal(as_session(s), a)).approval().decision() == "green");
  CHECK(unread() == 1);
  w.reply(withdrawal(as_session(s), a));
  CHECK(unread() == 1);
}

TEST_CASE("one request key makes one approval and another action under it withdraws the first") {
  domain_world w;
  auto keyed = [](v1::Command cmd, const std::string& body) {
    cmd = request(std::move(cmd), approval::COMMAND, "Run it?", body);
    cmd.mutable_request_approval()->set_request_key("conversation/1/1/7");
    return cmd;
  };
  const auto first = w.reply(keyed(as_node(), "make")).approval();
  CHECK(w.reply(keyed(as_node(), "make")).approval().id() == first.id());
  const auto batch = w.run(keyed(as_node(), "make install"));
  CHECK(batch.reply().approval().id() != first.id());
  CHECK(test::has_event(batch, "approval.withdrawn"));
  CHECK(code(w.reply(decision(first, "allow"))) == v1::Refusal::STATE);
  // What has been decided is answered, not asked again.
  const auto second = batch.reply().approval();
  CHECK_FALSE(w.reply(decision(second, "deny")).has_refusal());
  CHECK(w.reply(keyed(as_node(), "make install")).approval().decision() == "deny");
  // Another asker's key is another key.
  CHECK(w.reply(keyed(domain_world::command(), "make install")).approval().id() != second.id());
}

TEST_CASE("its asker and persons withdraw an approval and a session no other one's") {
  domain_world w;
  const auto s = w.session(), peer = w.session("mode:gateway", 101);
  const auto a = w.reply(question(s)).approval();
  CHECK(code(w.reply(withdrawal(as_session(peer), a))) == v1::Refusal::NOT_FOUND);
  const auto batch = w.run(withdrawal(as_session(s), a));
  CHECK(batch.reply().approval().withdrawn() == "its asker has withdrawn it");
  CHECK(test::has_event(batch, "approval.withdrawn"));
  CHECK(code(w.reply(decision(a, "red"))) == v1::Refusal::STATE);
  CHECK(test::event_types(w.run(withdrawal(as_session(s), a))).empty()); // it has ended
  const auto b = w.reply(question(s)).approval();
  CHECK(w.reply(withdrawal(domain_world::command(), b, "not now")).approval().withdrawn() == "not now");
  const auto c = w.reply(question(s)).approval();
  CHECK_FALSE(w.reply(decision(c, "red")).has_refusal());
  CHECK(w.reply(withdrawal(as_session(s), c)).approval().decision() == "red");
}

TEST_CASE("what a session asks a person is withdrawn when the session ends and an approval about a task stays") {
  domain_world w;
  const auto s = w.session();
  const auto a = w.reply(question(s)).approval(), b = w.reply(question(s, "And now?")).approval();
  const auto about_task = w.reply(request(as_session(s), approval::TASK)).approval();
  auto end = as_session(s);
  end.mutable_deregister_session();
  REQUIRE_FALSE(w.reply(end).has_refusal());
  for (const auto& one : {a, b})
    CHECK(w.rows.row<approval>(domain::key(one.id()))->withdrawn() == "the session that asked has ended");
  CHECK(w.rows.row<approval>(domain::key(about_task.id()))->decided_at_ms() == 0);
}

TEST_CASE("one session has a bounded number of approvals open and leaves room for the others") {
  domain_world w;
  const auto s = w.session(), peer = w.session({}, 101);
  approval last;
  for (std::size_t i = 0; i < limits::approvals_open_per_session_max; ++i)
    last = w.reply(question(s)).approval();
  CHECK(code(w.reply(question(s))) == v1::Refusal::LIMIT);
  CHECK_FALSE(w.reply(question(peer)).has_refusal());
  CHECK_FALSE(w.reply(decision(last, "red")).has_refusal());
  CHECK_FALSE(w.reply(question(s)).has_refusal());
}

TEST_CASE("of what one session has asked for only so much is kept that has ended, and the oldest goes") {
  domain_world w;
  const auto s = w.session(), peer = w.session({}, 101);
  const auto others = w.reply(question(peer)).approval();
  REQUIRE_FALSE(w.reply(decision(others, "red")).has_refusal());
  std::vector<std::string> asked;
  for (std::size_t i = 0; i < limits::approvals_ended_per_session_max + 3; ++i) {
    const auto one = w.reply(question(s)).approval();
    asked.push_back(one.id());
    REQUIRE_FALSE(w.reply(decision(one, "red")).has_refusal());
    w.pass(1);
  }
  w.reply(question(s));
  for (std::size_t i = 0; i < 5; ++i)
    CHECK(w.rows.row<approval>(domain::key(asked[i])).has_value() == (i > 3));
  CHECK(w.rows.row<approval>(domain::key(others.id())).has_value());
}

TEST_CASE("a session sees what it has asked for, a coordinator what it may decide and a person everything") {
  domain_world w;
  const auto s = w.session(), peer = w.session({}, 101), leader = w.session("mode:gateway", 102);
  const auto asked = w.reply(question(s)).approval().id(), permission = w.reply(request(as_node(), approval::TOOL)).approval().id(),
             about_task = w.reply(request(as_session(s), approval::TASK)).approval().id();
  using ids = std::vector<std::string>;
  CHECK(seen_by(w, {}).size() == 3);
  CHECK(seen_by(w, s).size() == 2);
  CHECK(seen_by(w, peer).empty());
  CHECK(seen_by(w, leader) == ids{about_task});
}

TEST_CASE("a coordinator decides no question and no permission though its subject is a task") {
  domain_world w;
  const auto s = w.session(), leader = w.session("mode:gateway", 101);
  auto make = domain_world::command();
  make.mutable_create_tasks()->add_tasks()->set_title("t");
  make.mutable_create_tasks()->mutable_tasks(0)->set_type("fix");
  const auto subject = "task/" + w.reply(make).tasks_created().tasks(0).task().id();
  auto about = [&](v1::Command cmd) {
    cmd.mutable_request_approval()->set_subject(subject);
    return w.reply(cmd).approval();
  };
  auto by_leader = [&](const approval& a, const std::string& option) {
    auto cmd = decision(a, option);
    cmd.mutable_principal()->set_kind(v1::Principal::SESSION);
    cmd.mutable_principal()->set_id(leader);
    return code(w.reply(cmd));
  };
  CHECK(by_leader(about(question(s)), "red") == v1::Refusal::FORBIDDEN);
  CHECK(by_leader(about(request(as_node(), approval::COMMAND)), "allow") == v1::Refusal::FORBIDDEN);
  CHECK(by_leader(about(request(as_session(s), approval::TASK)), "yes") == v1::Refusal::CODE_UNSPECIFIED);
}

TEST_CASE("what nobody stands for asks for approvals of tasks only and neither sees nor withdraws what others have asked") {
  domain_world w;
  const auto s = w.session();
  const auto orphan = [] { return domain_world::by(v1::Principal::ORPHAN, "7.9"); };
  for (auto kind : {approval::TOOL, approval::COMMAND, approval::FILE, approval::ELICITATION, approval::QUESTION})
    CHECK(code(w.reply(request(orphan(), kind, "Run it?", {},
                               kind == approval::QUESTION ? std::vector<std::string>{"a"} : std::vector<std::string>{}))) == v1::Refusal::FORBIDDEN);
  const auto asked = w.reply(question(s)).approval(), permission = w.reply(request(as_node(), approval::TOOL)).approval();
  const auto own = w.reply(request(orphan(), approval::TASK)).approval();
  for (const auto& a : {asked, permission, own})
    CHECK(code(w.reply(withdrawal(orphan(), a))) == v1::Refusal::NOT_FOUND);
  v1::Query query;
  query.set_scope("s");
  query.mutable_principal()->set_kind(v1::Principal::ORPHAN);
  query.mutable_list_approvals();
  const auto answer = domain::answer(query, w.rows, w.in);
  REQUIRE(answer.approvals().approvals_size() == 1);
  CHECK(answer.approvals().approvals(0).id() == own.id());
}

TEST_CASE("a list of approvals fits into one answer whatever was asked and the whole of each is there by its id") {
  domain_world w;
  const std::string body(limits::approval_action_bytes_max, 'b');
  std::vector<std::string> ids;
  for (int i = 0; i < 400; ++i) {
    w.pass(1); // the newest is the last
    ids.push_back(w.reply(request(domain_world::command(), approval::COMMAND, std::string(limits::title_bytes_max(), 't'), body)).approval().id());
  }
  v1::Query query;
  query.set_scope("s");
  query.mutable_principal()->set_kind(v1::Principal::OPERATOR);
  query.mutable_list_approvals();
  const auto all = domain::answer(query, w.rows, w.in);
  CHECK(all.ByteSizeLong() < limits::page_encoded_bytes_max + 32 * limits::kib);
  CHECK(all.approvals().approvals_size() == 400);
  const auto& list = all.approvals().approvals();
  CHECK(list.rbegin()->id() == ids.back());
  CHECK(list.rbegin()->body() == body);
  CHECK_FALSE(list.rbegin()->body_left_out());
  CHECK(list.begin()->body().empty());
  CHECK(list.begin()->body_left_out());
  CHECK(list.begin()->body_bytes() == body.size());
  query.mutable_list_approvals()->set_id(ids.front());
  const auto one = domain::answer(query, w.rows, w.in);
  REQUIRE(one.approvals().approvals_size() == 1);
  CHECK(one.approvals().approvals(0).body() == body);
}

TEST_CASE("all open approvals are met by following pages with their bodies, those that wait longest first") {
  domain_world w;
  const std::string body(limits::approval_action_bytes_max, 'b');
  std::vector<std::string> ids;
  for (std::size_t i = 0; i < 500; ++i) {
    if (i % 3 != 0)
      w.pass(1); // some have been asked for at the same time
    ids.push_back(w.reply(request(domain_world::command(), approval::COMMAND, "t" + std::to_string(i), i % 2 == 0 ? body : "b")).approval().id());
  }
  v1::Query query;
  query.set_scope("s");
  query.mutable_principal()->set_kind(v1::Principal::OPERATOR);
  auto& list = *query.mutable_list_approvals();
  list.set_open_only(true);
  list.mutable_page();
  std::vector<std::string> met;
  std::int64_t last = 0;
  for (bool more = true; more;) {
    const auto answer = domain::answer(query, w.rows, w.in);
    CHECK(answer.ByteSizeLong() < limits::page_encoded_bytes_max + 32 * limits::kib);
    for (const auto& a : answer.approvals().approvals()) {
      CHECK(a.created_at_ms() >= last);
      CHECK_FALSE(a.body().empty());
      last = a.created_at_ms();
      met.push_back(a.id());
    }
    more = answer.approvals().has_page();
    *list.mutable_page() = answer.approvals().page();
  }
  std::sort(met.begin(), met.end());
  std::sort(ids.begin(), ids.end());
  CHECK(met == ids);
  list.mutable_page()->set_token("nonsense");
  CHECK(domain::answer(query, w.rows, w.in).refusal().code() == v1::Refusal::INVALID);
}

TEST_CASE("events of an approval say its text only of a task because every session hears them") {
  domain_world w;
  const auto of_question = w.run(question(w.session())), of_task = w.run(request(domain_world::command(), approval::TASK, "Deploy it?"));
  REQUIRE(of_question.events_size() == 1);
  const auto answered = w.run(decision(of_question.reply().approval(), "green"));
  REQUIRE_FALSE(answered.reply().has_refusal());
  for (const auto* batch : {&of_question, &answered})
    for (const auto& e : batch->events())
      for (const auto* said : {"colour", "red", "green"})
        CHECK((e.type() == "message.sent" || e.payload().find(said) == std::string::npos));
  CHECK(of_task.events(0).payload().find("Deploy it?") != std::string::npos);
}
