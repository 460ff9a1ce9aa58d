#include <doctest/doctest.h>

#include "actors/domain/rules.hpp"
#include "tests/support/domain_world.hpp"

using namespace swarm;
using test::domain_world;
namespace v1 = swarm::v1;

namespace {

v1::Command deregistration(const std::string& who) {
  auto cmd = domain_world::command(who);
  cmd.mutable_deregister_session();
  return cmd;
}

v1::Command expiry(const std::string& id, std::int64_t pid = 0) {
  auto cmd = domain_world::by(v1::Principal::NODE);
  cmd.mutable_expire_session()->set_session_id(id);
  cmd.mutable_expire_session()->set_pid(pid);
  cmd.mutable_expire_session()->set_pid_start(static_cast<std::uint64_t>(pid));
  return cmd;
}

std::string planner(const domain_world& w) { return w.rows.row<v1::ScopeState>("s")->planner_session_id(); }

} // namespace

TEST_CASE("registering makes a session, says so, and binds the newest token only") {
  domain_world w;
  auto cmd = domain_world::registration("role:implementer identity:x", 7);
  cmd.mutable_register_session()->set_token_hash(std::string(32, 'a'));
  auto batch = w.run(cmd);
  auto s = batch.reply().session().session();
  CHECK(s.presence() == v1::Session::PROCESS);
  CHECK(s.identity() == "identity:x");
  CHECK(s.file_root() == "/repo");
  CHECK(test::event_types(batch) == std::vector<std::string>{"instance.registered"});
  auto again = domain_world::registration("", 7);
  again.mutable_register_session()->set_preassigned_id(s.id());
  again.mutable_register_session()->set_token_hash(std::string(32, 'b'));
  CHECK(w.reply(again).session().adopted_existing());
  REQUIRE(w.rows.all<v1::Credential>().size() == 1);
  CHECK(w.rows.all<v1::Credential>().begin()->second.token_hash() == std::string(32, 'b'));
  auto other = domain_world::registration("", 8);
  other.mutable_register_session()->set_token_hash(std::string(32, 'b'));
  CHECK(w.reply(other).refusal().code() == v1::Refusal::CONFLICT);
}

TEST_CASE("no session is called as messages name the person, the node and orphans") {
  domain_world w;
  for (const auto* label : {"operator", "role:x name:operator", "orphan", "name:system y"})
    CHECK(w.reply(domain_world::registration(label)).refusal().code() == v1::Refusal::INVALID);
  for (const auto* label : {"name:operators", "role:operator", "identity:system", ""})
    CHECK(w.reply(domain_world::registration(label)).has_session());
}

TEST_CASE("with its host a session ends whatever it lives by, unless it lives on another one by now") {
  for (bool leased : {true, false})
    for (bool moved : {false, true}) {
      domain_world w;
      auto cmd = domain_world::registration("name:x", leased ? 0 : 7);
      if (leased)
        cmd.mutable_register_session()->set_lease_ms(600'000);
      cmd.mutable_register_session()->set_node_id(moved ? "node-c" : "node-b");
      auto id = w.reply(cmd).session().session().id();
      auto lost = expiry(id);
      lost.mutable_expire_session()->set_lost_node("node-b");
      w.run(lost);
      CHECK(w.rows.row<v1::Session>(domain::key(id)).has_value() == moved);
    }
}

TEST_CASE("what ends with a host says how that went: the session, its lock and its task") {
  domain_world w;
  w.session("name:ann", 9);
  auto cmd = domain_world::registration("name:bob", 7);
  cmd.mutable_register_session()->set_node_id("node-b");
  const auto bob = w.reply(cmd).session().session().id();
  auto lock = domain_world::command(bob);
  lock.mutable_acquire_lock()->set_path("src/a.c");
  w.run(lock);
  auto task = domain_world::command(bob);
  auto& wanted = *task.mutable_create_tasks()->add_tasks();
  wanted.set_type("implement");
  wanted.set_title("mend it");
  auto claim = domain_world::command(bob);
  claim.mutable_claim_task()->set_task_id(w.reply(task).tasks_created().tasks(0).task().id());
  w.run(claim);
  auto lost = expiry(bob);
  lost.mutable_expire_session()->set_lost_node("node-b: host b was revoked");
  auto batch = w.run(lost);
  auto payload_of = [&](const std::string& type) {
    for (const auto& e : batch.events())
      if (e.type() == type)
        return e.payload();
    return std::string{"no such event"};
  };
  CHECK(payload_of("instance.stale_reclaimed").find(R"("reason":"host_lost","detail":"host b was revoked")") != std::string::npos);
  CHECK(payload_of("context.lock_released").find(R"("reason":"host_lost")") != std::string::npos);
  CHECK(payload_of("task.reopened").find(R"("reason":"host_lost")") != std::string::npos);
  CHECK(payload_of("message.broadcast").find("went offline: host b was revoked.") != std::string::npos);
}

TEST_CASE("sessions without an identity label share the identity of the user") {
  domain_world w;
  CHECK(w.reply(domain_world::registration("role:x")).session().session().identity() == "user:ada");
}

TEST_CASE("a live session of another process cannot be adopted") {
  domain_world w;
  auto id = w.session("", 7);
  for (bool explicitly : {true, false}) {
    auto cmd = domain_world::registration("", 8);
    if (explicitly)
      cmd.mutable_register_session()->set_adopt_session_id(id);
    else
      cmd.mutable_register_session()->set_preassigned_id(id);
    auto r = w.reply(cmd);
    CHECK(r.refusal().code() == v1::Refusal::CONFLICT);
    CHECK(r.refusal().text() == "Could not adopt instance " + id);
  }
}

TEST_CASE("a process that has the session's token may register it again, and it stays with its process") {
  domain_world w;
  auto id = w.session("", 7);
  auto cmd = domain_world::registration("name:new", 8);
  cmd.mutable_principal()->set_kind(v1::Principal::SESSION);
  cmd.mutable_principal()->set_id(id);
  cmd.mutable_register_session()->set_preassigned_id(id);
  auto s = w.reply(cmd).session().session();
  CHECK(s.id() == id);
  CHECK(s.pid() == 7);
  CHECK(s.label() == "name:new");
}

TEST_CASE("a session cannot register itself, or another one with a token of its own, into more than it is") {
  domain_world w;
  const auto id = w.session("identity:x role:implementer", 7);
  const auto leased = [&](const std::string& label) {
    auto cmd = domain_world::registration(label);
    cmd.mutable_register_session()->set_lease_ms(60'000);
    return w.reply(cmd).session().session().id();
  };
  const auto gateway_row = leased("identity:x mode:gateway"), foreign_row = leased("identity:y"), peer_row = leased("identity:x");
  enum { itself, somebody_new, gateway, foreign, peer };
  struct row {
    int whom;
    const char* label;
    bool allowed;
  };
  const row table[] = {
    {itself, "identity:x role:planner", true},
    {itself, "", true},
    {itself, "identity:y", false},
    {itself, "role:implementer", false}, // without a token it would be the node's user
    {itself, "identity:x mode:gateway", false},
    {itself, "identity:x\tmode:gateway", false},
    {itself, "identity:x mode:gateways", true},
    {somebody_new, "identity:x", true},
    {somebody_new, "identity:y", false},
    {somebody_new, "", false},
    {somebody_new, "identity:x mode:gateway", false},
    {gateway, "", false},
    {gateway, "identity:x", false}, // not made for it
    {foreign, "", false},
    {peer, "", false},
  };
  const auto rows_before = w.rows.all<v1::Session>().size();
  int line = 0;
  for (const auto& r : table) {
    CAPTURE(line++);
    for (auto kind : {v1::Principal::SESSION, v1::Principal::OPERATOR}) {
      auto cmd = domain_world::registration(r.label, 8);
      cmd.mutable_principal()->set_kind(kind);
      if (kind == v1::Principal::SESSION)
        cmd.mutable_principal()->set_id(id);
      auto& body = *cmd.mutable_register_session();
      body.set_token_hash(std::string(32, 't'));
      if (r.whom == itself)
        body.set_preassigned_id(id);
      else if (r.whom != somebody_new)
        body.set_preassigned_id(r.whom == gateway ? gateway_row : r.whom == foreign ? foreign_row : peer_row);
      if (kind == v1::Principal::OPERATOR && r.whom == itself) {
        body.set_pid(7); // the operator's registration is that of the process itself
        body.set_pid_start(7);
      }
      domain_world fresh = w;
      const auto reply = fresh.reply(cmd);
      CAPTURE(reply.refusal().text());
      if (kind == v1::Principal::OPERATOR || r.allowed) {
        CHECK_FALSE(reply.has_refusal());
        continue;
      }
      CHECK(reply.refusal().code() == v1::Refusal::FORBIDDEN);
      CHECK(fresh.rows.all<v1::Session>().size() == rows_before);
      CHECK(fresh.rows.all<v1::Credential>().empty());
      CHECK(fresh.rows.row<v1::Session>(domain::key(id))->label() == "identity:x role:implementer");
    }
  }
}

TEST_CASE("a coordinator stays one when it registers again, and may register others") {
  domain_world w;
  const auto id = w.session("identity:x mode:gateway", 7);
  for (const bool itself : {true, false}) {
    auto cmd = domain_world::registration("identity:x mode:gateway role:planner", 8);
    cmd.mutable_principal()->set_kind(v1::Principal::SESSION);
    cmd.mutable_principal()->set_id(id);
    if (itself)
      cmd.mutable_register_session()->set_preassigned_id(id);
    CHECK_FALSE(w.reply(cmd).has_refusal());
  }
}

TEST_CASE("ending itself frees no session from its identity") {
  domain_world w;
  const auto register_as = [&](const std::string& who, const std::string& label, const std::string& scope) {
    auto cmd = domain_world::registration(label, 8);
    cmd.set_scope(scope);
    cmd.mutable_principal()->set_kind(v1::Principal::SESSION);
    cmd.mutable_principal()->set_id(who);
    return w.reply(cmd);
  };
  const auto id = w.session("identity:x", 7);
  CHECK(register_as(id, "identity:y", "elsewhere").refusal().code() == v1::Refusal::FORBIDDEN);
  CHECK_FALSE(register_as(id, "identity:x", "elsewhere").has_refusal());
  w.run(deregistration(id));
  CHECK(register_as(id, "identity:x", "s").refusal().code() == v1::Refusal::FORBIDDEN);
  // A worker's place in the process tree outlives its row; its spawn still says who it is.
  v1::Spawn spawn;
  spawn.set_id("spawn");
  spawn.set_scope("s");
  spawn.set_session_id("worker");
  spawn.set_label("identity:x role:implementer");
  spawn.set_status(v1::Spawn::RUNNING);
  w.rows.put(spawn);
  CHECK(register_as("worker", "identity:y", "s").refusal().code() == v1::Refusal::FORBIDDEN);
  CHECK(register_as("worker", "identity:x mode:gateway", "s").refusal().code() == v1::Refusal::FORBIDDEN);
  CHECK_FALSE(register_as("worker", "identity:x", "s").has_refusal());
}

TEST_CASE("explicit adoption needs the scope and directory, and creates otherwise unless told not to") {
  domain_world w;
  auto lease = domain_world::registration();
  lease.mutable_register_session()->set_lease_ms(1000);
  auto id = w.reply(lease).session().session().id();
  auto cmd = domain_world::registration("", 8);
  cmd.mutable_register_session()->set_adopt_session_id(id);
  cmd.mutable_register_session()->set_directory("/other");
  cmd.mutable_register_session()->set_adopt_only(true);
  CHECK(w.reply(cmd).refusal().code() == v1::Refusal::NOT_FOUND);
  cmd.mutable_register_session()->set_adopt_only(false);
  CHECK(w.reply(cmd).session().session().id() != id);
  cmd.mutable_register_session()->set_directory("/repo");
  auto adopted = w.reply(cmd).session().session();
  CHECK(adopted.id() == id);
  CHECK(adopted.adopted());
  CHECK(adopted.lease_until_ms() == 0);
}

TEST_CASE("the same session label in the same directory is the same session") {
  domain_world w;
  auto id = w.reply(domain_world::registration("session:abc", 7)).session().session().id();
  auto hook = domain_world::registration("session:abc", 0);
  hook.mutable_register_session()->set_lease_ms(1000);
  auto r = w.reply(hook).session();
  CHECK(r.session().id() == id);
  CHECK(r.session().pid() == 7);
  CHECK(w.reply(domain_world::registration("session:abcd", 7)).session().session().id() != id);
}

TEST_CASE("a scope has room for so many sessions") {
  domain_world w;
  for (int i = 0; i < 10'000; ++i) {
    v1::Session s;
    s.set_id(std::to_string(i));
    s.set_scope("s");
    w.rows.put(s);
  }
  CHECK(w.reply(domain_world::registration()).refusal().code() == v1::Refusal::LIMIT);
}

TEST_CASE("what a session had goes with it") {
  domain_world w;
  auto a = w.session("role:planner"), b = w.session("role:planner");
  CHECK(planner(w) == a);
  auto mail = domain_world::command(b);
  mail.mutable_send_message()->set_recipient(a);
  mail.mutable_send_message()->set_content("hi");
  w.run(mail);
  for (const auto& who : {a, b}) {
    auto cmd = domain_world::command(who);
    cmd.mutable_acquire_lock()->set_path("/repo/x");
    cmd.mutable_acquire_lock()->set_wait_ms(1000);
    w.run(cmd);
  }
  auto kv = domain_world::command(a);
  kv.mutable_set_kv()->set_key("identity/herdr/" + a);
  w.run(kv);
  auto task = domain_world::command(b);
  auto& spec = *task.mutable_create_tasks()->add_tasks();
  spec.set_type("fix");
  spec.set_title("t");
  spec.set_assignee(a);
  auto task_id = w.reply(task).tasks_created().tasks(0).task().id();
  auto batch = w.run(deregistration(a));
  CHECK_FALSE(batch.reply().has_refusal());
  REQUIRE(batch.resolved_size() == 1);
  CHECK(batch.resolved(0).reply().lock().lock().session_id() == b);
  for (const auto& [k, m] : w.rows.all<v1::Message>())
    CHECK(m.recipient() != a);
  CHECK_FALSE(w.rows.row<v1::KvEntry>(domain::key("s", "identity/herdr/" + a)));
  CHECK(w.rows.row<v1::Task>(task_id)->status() == v1::OPEN);
  CHECK(planner(w) == b);
  CHECK(w.rows.row<v1::KvEntry>(domain::key("s", "owner/planner"))->value().find(b) != std::string::npos);
  CHECK(w.reply(deregistration(a)).session().already_ended());
  w.run(deregistration(b));
  CHECK(planner(w).empty());
  CHECK_FALSE(w.rows.row<v1::KvEntry>(domain::key("s", "owner/planner")));
}

TEST_CASE("a session too large for one batch is ended in steps") {
  domain_world w;
  auto a = w.session();
  for (int i = 0; i < 12; ++i) {
    v1::Task t;
    t.set_id("t" + std::to_string(i));
    t.set_scope("s");
    t.set_assignee(a);
    t.set_status(v1::CLAIMED);
    t.set_description(std::string(100'000, 'x'));
    w.rows.put(t);
  }
  CHECK_FALSE(w.reply(deregistration(a)).has_refusal());
  CHECK(w.rows.all<v1::Session>().size() == 1);
  for (int i = 0; i < 6; ++i)
    w.sweep();
  CHECK(w.rows.all<v1::Session>().empty());
  for (const auto& [k, t] : w.rows.all<v1::Task>())
    CHECK(t.status() == v1::OPEN);
}

TEST_CASE("removing another session is announced in swarm-mcp's words") {
  domain_world w;
  auto a = w.session("name:a"), b = w.session("name:b");
  auto cmd = domain_world::command(a);
  cmd.mutable_remove_session()->set_session_id(a);
  CHECK(w.reply(cmd).refusal().text() == "Cannot remove yourself. Use deregister instead.");
  cmd.mutable_remove_session()->set_session_id("nobody");
  CHECK(w.reply(cmd).refusal().text() == "Instance nobody not found in this scope");
  w.session("name:c");
  cmd.mutable_remove_session()->set_session_id(b);
  CHECK(w.reply(cmd).session().session().id() == b);
  REQUIRE(w.rows.all<v1::Message>().size() == 1);
  CHECK(w.rows.all<v1::Message>().begin()->second.content() ==
        "[auto] Instance name:b (" + b + ") was removed by name:a. Its tasks and locks have been released.");
}

TEST_CASE("an expiry that the row has outlived is ignored") {
  domain_world w;
  auto a = w.session("", 7);
  w.run(expiry(a, 8));
  w.run(expiry(a));
  CHECK(w.rows.row<v1::Session>(a));
  w.run(expiry(a, 7));
  CHECK_FALSE(w.rows.row<v1::Session>(a));
}

TEST_CASE("a heartbeat session ends 60 seconds after its last command and never within the grace") {
  domain_world w;
  auto a = w.reply(domain_world::registration()).session().session().id();
  w.pass(50'000);
  auto beat = domain_world::command(a);
  beat.mutable_heartbeat();
  w.run(beat);
  w.pass(60'000);
  w.sweep();
  CHECK(w.rows.row<v1::Session>(a));
  w.pass(1);
  w.in.grace_until_ms = w.in.now_ms + 5;
  w.sweep();
  CHECK(w.rows.row<v1::Session>(a));
  w.pass(5);
  CHECK(w.sweep().sessions_reclaimed() == 1);
  CHECK_FALSE(w.rows.row<v1::Session>(a));
}

TEST_CASE("a heartbeat session whose last command is more than 30 seconds ahead, for the clock was set back, ends unless it speaks again") {
  domain_world w;
  auto ahead_by = [&](std::int64_t ms) {
    auto id = w.reply(domain_world::registration()).session().session().id();
    auto s = *w.rows.row<v1::Session>(id);
    s.set_heartbeat_ms(w.in.now_ms + ms);
    w.rows.put(s);
    return id;
  };
  auto silent = ahead_by(30'001), near = ahead_by(30'000), speaks = ahead_by(3'600'000);
  auto leased = ahead_by(3'600'000);
  auto row = *w.rows.row<v1::Session>(leased);
  row.set_presence(v1::Session::LEASE);
  w.rows.put(row);
  auto anything = domain_world::command(speaks);
  anything.mutable_consume_messages();
  w.run(anything);
  w.in.grace_until_ms = w.in.now_ms + 5;
  CHECK(w.sweep().sessions_reclaimed() == 0);
  w.in.grace_until_ms = 0;
  CHECK(w.sweep().sessions_reclaimed() == 1);
  CHECK_FALSE(w.rows.row<v1::Session>(silent));
  for (const auto& id : {near, speaks, leased})
    CHECK(w.rows.row<v1::Session>(id));
}

TEST_CASE("the session of a living spawn waits for the report of the spawn's end") {
  domain_world w;
  auto a = w.session("", 7);
  auto s = *w.rows.row<v1::Session>(a);
  s.set_spawn_id("sp");
  w.rows.put(s);
  v1::Spawn spawn;
  spawn.set_id("sp");
  spawn.set_status(v1::Spawn::RUNNING);
  w.rows.put(spawn);
  w.run(expiry(a, 7));
  CHECK(w.rows.row<v1::Session>(a));
}

TEST_CASE("rights are given by the operator when a session is made, and to no other end") {
  domain_world w;
  auto with = [](v1::Command cmd, std::vector<std::string> grants) {
    for (auto& g : grants)
      cmd.mutable_register_session()->add_grants(g);
    return cmd;
  };
  CHECK(w.reply(with(domain_world::registration(), {"root"})).refusal().code() == v1::Refusal::INVALID);
  CHECK(w.reply(with(domain_world::registration(), {"pty", "pty"})).refusal().code() == v1::Refusal::INVALID);
  auto s = w.reply(with(domain_world::registration("", 7), {"pty", "spawn"})).session().session();
  CHECK(s.grants_size() == 2);

  auto adopt = [&](std::vector<std::string> grants) {
    auto cmd = with(domain_world::registration("", 7), std::move(grants));
    cmd.mutable_register_session()->set_preassigned_id(s.id());
    return w.reply(cmd);
  };
  CHECK(adopt({}).session().session().grants_size() == 2);
  CHECK(adopt({"spawn", "pty"}).session().adopted_existing());
  CHECK(adopt({"cross_identity"}).refusal().code() == v1::Refusal::STATE);

  // Whoever asks for one that does not exist is told which do.
  const auto unknown = w.reply(with(domain_world::registration(), {"admin"})).refusal();
  CHECK(unknown.text().find("spawn, pty, pty:agents, phone, cross_identity") != std::string::npos);
  std::vector<std::string> too_many(17, "pty");
  CHECK(w.reply(with(domain_world::registration(), too_many)).refusal().text().find("16") != std::string::npos);

  auto by_session = with(domain_world::registration("", 8), {"pty"});
  by_session.mutable_principal()->set_kind(v1::Principal::SESSION);
  by_session.mutable_principal()->set_id(s.id());
  by_session.mutable_principal()->add_grants("pty");
  CHECK(w.reply(by_session).refusal().code() == v1::Refusal::FORBIDDEN);
}

TEST_CASE("a right that is given for a time ends then, and not with a registration that takes the row over") {
  domain_world w;
  auto cmd = domain_world::registration("", 7);
  auto& r = *cmd.mutable_register_session();
  r.add_grants("pty");
  r.add_grants("spawn");
  auto& time = *r.add_grant_times();
  time.set_grant("pty");
  const auto refused = [&](const char* grant, std::int64_t for_ms) {
    auto wrong = cmd;
    wrong.mutable_register_session()->mutable_grant_times(0)->set_grant(grant);
    wrong.mutable_register_session()->mutable_grant_times(0)->set_for_ms(for_ms);
    return w.reply(wrong).refusal().code() == v1::Refusal::INVALID;
  };
  CHECK(refused("pty", 0));
  CHECK(refused("pty", -1));
  CHECK(refused("phone", 1000));
  CHECK(refused("pty", limits::grant_time_max.count() + 1));
  auto twice = cmd;
  twice.mutable_register_session()->mutable_grant_times(0)->set_for_ms(1000);
  *twice.mutable_register_session()->add_grant_times() = twice.register_session().grant_times(0);
  CHECK(w.reply(twice).refusal().code() == v1::Refusal::INVALID);

  time.set_for_ms(1000);
  const auto s = w.reply(cmd).session().session();
  REQUIRE(s.grant_ends_size() == 1);
  CHECK(s.grant_ends(0).until_ms() == w.in.now_ms + 1000);
  const auto held = [&](std::int64_t at) { return domain::grants_at(s.grants(), s.grant_ends(), w.in.now_ms + at).size(); };
  CHECK(held(999) == 2);
  CHECK(held(1000) == 1);
  CHECK(domain::next_grant_end(s.grants(), s.grant_ends(), w.in.now_ms) == w.in.now_ms + 1000);
  CHECK(domain::next_grant_end(s.grants(), s.grant_ends(), w.in.now_ms + 1000) == 0);

  const auto adopt = [&](std::vector<std::string> grants, bool again) {
    auto repeated = domain_world::registration("", 7);
    repeated.mutable_register_session()->set_preassigned_id(s.id());
    for (const auto& g : grants)
      repeated.mutable_register_session()->add_grants(g);
    if (again)
      *repeated.mutable_register_session()->add_grant_times() = time;
    return w.reply(repeated);
  };
  CHECK(adopt({"pty", "spawn"}, true).refusal().code() == v1::Refusal::STATE);
  CHECK(adopt({"pty", "spawn"}, false).session().session().grant_ends(0).until_ms() == s.grant_ends(0).until_ms());
  w.pass(1000);
  CHECK(adopt({"pty", "spawn"}, false).refusal().code() == v1::Refusal::STATE);
  CHECK(adopt({"spawn"}, false).session().session().grant_ends(0).until_ms() == s.grant_ends(0).until_ms());
}
