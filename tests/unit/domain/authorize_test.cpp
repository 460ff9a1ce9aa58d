#include <doctest/doctest.h>

#include "tests/support/domain_world.hpp"

using namespace swarm;
using test::domain_world;
namespace v1 = swarm::v1;

TEST_CASE("every principal may do what is its own and nothing else") {
  struct row {
    v1::Principal::Kind kind;
    const char* actor;
    void (*body)(v1::Command&);
    bool allowed;
  };
  auto lock = [](v1::Command& c) { c.mutable_acquire_lock()->set_path("/x"); };
  auto expire = [](v1::Command& c) { c.mutable_expire_session()->set_session_id("x"); };
  auto starting = [](v1::Command& c) { c.mutable_spawn_starting()->set_spawn_id("x"); };
  auto periodic = [](v1::Command& c) { c.mutable_sweep()->set_mode("periodic"); };
  auto manual = [](v1::Command& c) { c.mutable_sweep()->set_mode("manual"); };
  auto approve = [](v1::Command& c) { c.mutable_decide_approval()->set_approval_id("x"); };
  auto join = [](v1::Command& c) { c.mutable_register_session()->set_directory("/x"); };
  auto order = [](v1::Command& c) { c.mutable_dispatch()->set_title("x"); };
  auto end_other = [](v1::Command& c) { c.mutable_deregister_session()->set_session_id("other"); };
  auto beat_other = [](v1::Command& c) { c.mutable_heartbeat()->set_session_id("other"); };
  auto remove_other = [](v1::Command& c) { c.mutable_remove_session()->set_session_id("other"); };
  const row table[] = {
    {v1::Principal::OPERATOR, "anyone", lock, true}, {v1::Principal::OPERATOR, "", manual, true},
    {v1::Principal::OPERATOR, "", periodic, false},  {v1::Principal::OPERATOR, "", expire, false},
    {v1::Principal::OPERATOR, "", starting, false},  {v1::Principal::OPERATOR, "", approve, true},
    {v1::Principal::SESSION, "me", lock, true},      {v1::Principal::SESSION, "", lock, true},
    {v1::Principal::SESSION, "other", lock, false},  {v1::Principal::SESSION, "", expire, false},
    {v1::Principal::SESSION, "", starting, false},   {v1::Principal::SESSION, "", manual, false},
    {v1::Principal::SESSION, "", approve, true},     {v1::Principal::SESSION, "", end_other, false},
    {v1::Principal::SESSION, "", beat_other, false}, {v1::Principal::SESSION, "", remove_other, true},
    {v1::Principal::DEVICE, "", approve, false},     {v1::Principal::DEVICE, "", lock, false},
    {v1::Principal::AGENT, "", join, true},          {v1::Principal::AGENT, "me", join, false},
    {v1::Principal::AGENT, "", lock, false},         {v1::Principal::AGENT, "", approve, false},
    {v1::Principal::ORPHAN, "", join, true},         {v1::Principal::ORPHAN, "", lock, true},
    {v1::Principal::ORPHAN, "me", lock, false},      {v1::Principal::ORPHAN, "", approve, false},
    {v1::Principal::ORPHAN, "", manual, false},      {v1::Principal::ORPHAN, "", end_other, false},
    {v1::Principal::ORPHAN, "", order, false},       {v1::Principal::GATEWAY, "me", approve, false},
    {v1::Principal::NODE, "", expire, true},         {v1::Principal::NODE, "", periodic, true},
    {v1::Principal::NODE, "", starting, true},       {v1::Principal::KIND_UNSPECIFIED, "", manual, false},
  };
  int line = 0;
  for (const auto& r : table) {
    CAPTURE(line++);
    auto cmd = domain_world::by(r.kind, "me");
    cmd.set_actor(r.actor);
    r.body(cmd);
    auto refusal = domain::authorize(cmd);
    CHECK(!refusal == r.allowed);
    if (refusal)
      CHECK(refusal->code() == v1::Refusal::FORBIDDEN);
  }
}

TEST_CASE("devices and gateways decide with the grant for it, as nobody but themselves, and may nothing else") {
  for (auto kind : {v1::Principal::DEVICE, v1::Principal::GATEWAY}) {
    auto cmd = domain_world::by(kind, "phone");
    cmd.mutable_decide_approval()->set_approval_id("x");
    for (const auto* other : {"chat", "dispatch", "admin", "spawn", "approve:*"})
      cmd.mutable_principal()->add_grants(other);
    CHECK(domain::authorize(cmd));
    cmd.mutable_principal()->add_grants("approve");
    CHECK_FALSE(domain::authorize(cmd));
    cmd.set_actor("me");
    CHECK(domain::authorize(cmd));
    cmd.clear_actor();
    for (auto body : {+[](v1::Command& c) { c.mutable_send_message()->set_recipient("x"); }, +[](v1::Command& c) { c.mutable_dispatch(); },
                      +[](v1::Command& c) { c.mutable_subscribe()->set_name("x"); }, +[](v1::Command& c) { c.mutable_request_approval(); }}) {
      body(cmd);
      CHECK(domain::authorize(cmd));
    }
    v1::Query query;
    *query.mutable_principal() = cmd.principal();
    query.mutable_list_approvals();
    CHECK_FALSE(domain::authorize(query));
    query.mutable_list_sessions();
    CHECK(domain::authorize(query));
  }
}

TEST_CASE("an agent without a session looks as one without a label would, and reads nobody's mail or keys") {
  domain_world w;
  const auto mine = w.session(), other = w.session("identity:b", 101);
  v1::Query query;
  query.set_scope("s");
  query.mutable_principal()->set_kind(v1::Principal::AGENT);
  query.mutable_principal()->set_id("7.9");
  query.mutable_list_sessions();
  auto answer = domain::answer(query, w.rows, w.in);
  REQUIRE(answer.sessions().sessions_size() == 1);
  CHECK(answer.sessions().sessions(0).id() == mine);
  query.set_viewer(other);
  CHECK(domain::answer(query, w.rows, w.in).refusal().code() == v1::Refusal::FORBIDDEN);
  query.clear_viewer();
  for (auto body : {+[](v1::Query& q) { q.mutable_list_messages(); }, +[](v1::Query& q) { q.mutable_get_kv()->set_key("k"); },
                    +[](v1::Query& q) { q.mutable_list_events(); }, +[](v1::Query& q) { q.mutable_list_approvals(); }}) {
    body(query);
    answer = domain::answer(query, w.rows, w.in);
    CHECK(answer.refusal().code() == v1::Refusal::FORBIDDEN);
    CHECK(answer.refusal().text().find("swarmctl register") != std::string::npos);
  }
}

TEST_CASE("what an agent or an orphan may not choose in a registration is refused") {
  domain_world w;
  for (auto kind : {v1::Principal::AGENT, v1::Principal::ORPHAN}) {
    auto join = [&](const std::string& label, const std::string& grant = {}) {
      auto cmd = domain_world::registration(label, 7);
      cmd.mutable_principal()->set_kind(kind);
      cmd.mutable_principal()->set_id("7.9");
      if (!grant.empty())
        cmd.mutable_register_session()->add_grants(grant);
      return w.reply(cmd).refusal().code();
    };
    CHECK(join("name:a") == v1::Refusal::CODE_UNSPECIFIED);
    CHECK(join("mode:gateway") == v1::Refusal::FORBIDDEN);
    CHECK(join("identity:other") == v1::Refusal::FORBIDDEN);
    CHECK(join("name:b", "pty") == v1::Refusal::FORBIDDEN);
  }
}

TEST_CASE("a session without a row must register first") {
  domain_world w;
  auto cmd = domain_world::by(v1::Principal::SESSION, "gone");
  cmd.mutable_set_kv()->set_key("k");
  auto r = w.reply(cmd);
  CHECK(r.refusal().code() == v1::Refusal::NOT_REGISTERED);
  CHECK(r.refusal().text() == "Not registered. Call register first.");
}

TEST_CASE("malformed commands are refused before anything is decided") {
  domain_world w;
  auto refused = [&](auto fill) {
    auto cmd = domain_world::command();
    fill(cmd);
    return w.reply(cmd).refusal().code() == v1::Refusal::INVALID;
  };
  CHECK(refused([](auto&) {}));
  CHECK(refused([](auto& c) {
    c.mutable_set_kv()->set_key("k");
    c.clear_scope();
  }));
  CHECK(refused([](auto& c) { c.mutable_set_kv(); }));
  CHECK(refused([](auto& c) { c.mutable_set_kv()->set_key(std::string(1025, 'k')); }));
  CHECK(refused([](auto& c) { c.mutable_set_kv()->set_key(std::string("a\0b", 3)); }));
  CHECK(refused([](auto& c) {
    c.mutable_set_kv()->set_key("k");
    c.mutable_set_kv()->set_ttl_ms(-1);
  }));
  CHECK(refused([](auto& c) {
    c.mutable_set_kv()->set_key("k");
    c.mutable_set_kv()->set_value(std::string(128 * 1024 + 1, 'v'));
  }));
  CHECK(refused([](auto& c) {
    c.mutable_acquire_lock()->set_path("/x");
    c.mutable_acquire_lock()->set_wait_ms(3'600'001);
  }));
  CHECK(refused([](auto& c) { c.mutable_register_session()->set_directory("relative"); }));
  CHECK(refused([](auto& c) {
    c.mutable_register_session()->set_directory("/x");
    c.mutable_register_session()->set_token_hash("short");
  }));
  CHECK(refused([](auto& c) { c.mutable_create_tasks(); }));
  CHECK(refused([](auto& c) {
    for (int i = 0; i < 51; ++i) {
      c.mutable_create_tasks()->add_tasks()->set_type("fix");
      c.mutable_create_tasks()->mutable_tasks(i)->set_title("t");
    }
  }));
  CHECK(refused([](auto& c) { c.mutable_consume_messages()->set_limit(201); }));
  CHECK(refused([](auto& c) {
    for (int i = 0; i < 1025; ++i)
      c.mutable_request_spawn()->add_argv("a");
    c.mutable_request_spawn()->set_key("k");
  }));
  CHECK_FALSE(refused([](auto& c) { c.mutable_set_kv()->set_key("k"); }));
}

TEST_CASE("only what adds rows counts as growth") {
  auto cmd = domain_world::command();
  cmd.mutable_set_kv();
  CHECK(domain::grows_store(cmd));
  cmd.mutable_release_lock();
  CHECK_FALSE(domain::grows_store(cmd));
  cmd.mutable_complete_task();
  CHECK_FALSE(domain::grows_store(cmd));
  cmd.mutable_expire_session();
  CHECK_FALSE(domain::grows_store(cmd));
}
