// A node speaks only for what lives there.
#include "tests/unit/domain/task/task_world.hpp"

using namespace swarm;
using namespace swarm::test;

namespace {

struct two_nodes : task_world {
  v1::Reply from(const std::string& node, v1::Command cmd, v1::Principal::Kind kind, const std::string& id) {
    cmd.mutable_principal()->set_node(node);
    return run(std::move(cmd), kind, id);
  }
  std::string join_on(const std::string& node, const std::string& label) {
    auto id = join(label);
    auto row = rows.row<v1::Session>(domain::key(id)).value();
    row.set_node_id(node);
    row.set_pid(7);
    row.set_presence(v1::Session::PROCESS);
    rows.put(row);
    return id;
  }
};

v1::Command set_key() {
  v1::Command c;
  c.mutable_set_kv()->set_key("k");
  c.mutable_set_kv()->set_value("v");
  return c;
}

v1::Command expire(const std::string& session) {
  v1::Command c;
  c.mutable_expire_session()->set_session_id(session);
  c.mutable_expire_session()->set_pid(7);
  return c;
}

bool forbidden(const v1::Reply& r) { return r.refusal().code() == v1::Refusal::FORBIDDEN; }

} // namespace

TEST_CASE("a session is heard from its own node and from no other") {
  two_nodes w;
  auto s = w.join_on("node-b", "name:bob");
  CHECK_FALSE(w.from("node-b", set_key(), v1::Principal::SESSION, s).has_refusal());
  CHECK(forbidden(w.from("node-c", set_key(), v1::Principal::SESSION, s)));
  v1::Query q;
  q.set_scope(scope);
  q.mutable_list_tasks();
  q.mutable_principal()->set_kind(v1::Principal::SESSION);
  q.mutable_principal()->set_id(s);
  q.mutable_principal()->set_node("node-c");
  CHECK(domain::answer(q, w.rows, w.in).refusal().code() == v1::Refusal::FORBIDDEN);
  q.mutable_principal()->set_node("node-b");
  CHECK_FALSE(domain::answer(q, w.rows, w.in).has_refusal());
}

TEST_CASE("another node ends its own sessions only, and does nothing else in its own name") {
  two_nodes w;
  auto mine = w.join_on("node-b", "name:bob"), other = w.join_on("node-1", "name:ann");
  CHECK(forbidden(w.from("node-b", expire(other), v1::Principal::NODE, "node-b")));
  CHECK(w.rows.row<v1::Session>(domain::key(other)));
  CHECK_FALSE(forbidden(w.from("node-b", expire(mine), v1::Principal::NODE, "node-b")));
  CHECK_FALSE(w.rows.row<v1::Session>(domain::key(mine)));
  CHECK(forbidden(w.from("node-b", set_key(), v1::Principal::NODE, "node-b")));
  v1::Command sweep;
  sweep.mutable_sweep()->set_mode("periodic");
  CHECK(forbidden(w.from("node-b", sweep, v1::Principal::NODE, "node-b")));
  CHECK_FALSE(forbidden(w.node(sweep)));
}

TEST_CASE("a worker is started by the node it was given to") {
  two_nodes w;
  v1::Command c;
  auto& r = *c.mutable_request_spawn();
  r.set_role("helper");
  r.set_key("k");
  r.set_harness("exec");
  r.add_argv("true");
  r.set_node_id("node-b");
  auto spawn = w.op(c).spawn().spawn();
  CHECK(spawn.node_id() == "node-b");
  CHECK(w.rows.row<v1::Session>(domain::key(spawn.session_id())).value().node_id() == "node-b");
  v1::Command starting;
  starting.mutable_spawn_starting()->set_spawn_id(spawn.id());
  starting.mutable_spawn_starting()->set_attempt(1);
  starting.mutable_spawn_starting()->set_pid(9);
  CHECK(forbidden(w.from("node-c", starting, v1::Principal::NODE, "node-c")));
  CHECK_FALSE(w.from("node-b", starting, v1::Principal::NODE, "node-b").has_refusal());
}

TEST_CASE("where a worker goes is no part of the request's digest") {
  v1::Command c;
  c.mutable_dispatch()->set_title("t");
  auto before = domain::digest_of(c);
  c.mutable_dispatch()->set_node_id("node-b");
  CHECK(domain::digest_of(c) == before);
  c.mutable_dispatch()->set_on("b");
  CHECK(domain::digest_of(c) != before);
}

TEST_CASE("who names no session means one of his own host, whoever is there from others") {
  two_nodes w;
  w.join_on("node-b", "name:bob");
  v1::Query q;
  q.set_scope(scope);
  q.mutable_find_session();
  q.mutable_principal()->set_kind(v1::Principal::OPERATOR);
  const auto none = domain::answer(q, w.rows, w.in).refusal();
  CHECK(none.code() == v1::Refusal::NOT_FOUND);
  CHECK_MESSAGE(none.explanation().find("on this host") != std::string::npos, none.explanation());
  auto ann = w.join_on("node-1", "name:ann");
  CHECK(domain::answer(q, w.rows, w.in).session().id() == ann);
  q.mutable_principal()->set_node("node-b");
  CHECK(domain::answer(q, w.rows, w.in).session().label() == "name:bob");
}

TEST_CASE("a session that lives by its lease is not taken over from another host, by its id, its label or the number of a process") {
  for (const auto* by : {"id", "label", "preassigned"})
    for (const auto* host : {"node-b", "node-c"}) {
      CAPTURE(by);
      CAPTURE(host);
      two_nodes w;
      v1::Command hook;
      auto& r = *hook.mutable_register_session();
      r.set_directory("/repo");
      r.set_root("/repo");
      r.set_label("name:ann session:one");
      r.set_lease_ms(600'000);
      r.set_pid(7);
      r.set_pid_start(7);
      r.set_node_id("node-b");
      const auto leased = w.op(hook).session().session().id();
      r.set_lease_ms(0);
      r.set_node_id(host);
      if (by == std::string{"id"})
        r.set_adopt_session_id(leased);
      else if (by == std::string{"preassigned"})
        r.set_preassigned_id(leased);
      const auto reply = w.op(hook);
      CHECK((!reply.has_refusal() && reply.session().session().id() == leased) == (host == std::string{"node-b"}));
      CHECK(w.rows.row<v1::Session>(domain::key(leased))->node_id() == "node-b");
    }
}

TEST_CASE("nobody of another host talks with an agent of this one or decides what it may do") {
  two_nodes w;
  auto bob = w.join_on("node-b", "name:bob");
  v1::Command start;
  start.mutable_start_conversation()->set_harness("claude");
  start.mutable_start_conversation()->set_directory(scope);
  v1::Command send;
  send.mutable_send_prompt()->set_conversation_id("c");
  send.mutable_send_prompt()->set_prompt("text");
  v1::Command end;
  end.mutable_stop_conversation()->set_conversation_id("c");
  for (const auto& c : {start, send, end}) {
    CHECK(forbidden(w.from("node-b", c, v1::Principal::OPERATOR, "")));
    CHECK(forbidden(w.from("node-b", c, v1::Principal::SESSION, bob)));
  }
  v1::Approval a;
  a.set_id("a");
  a.set_scope(scope);
  a.set_conversation_id("c");
  a.set_kind(v1::Approval::COMMAND);
  w.rows.put(a);
  v1::Command decide;
  decide.mutable_decide_approval()->set_approval_id("a");
  decide.mutable_decide_approval()->set_option("allow");
  CHECK(forbidden(w.from("node-b", decide, v1::Principal::OPERATOR, "")));
  v1::Query list;
  list.set_scope(scope);
  list.mutable_list_conversations();
  list.mutable_principal()->set_kind(v1::Principal::OPERATOR);
  CHECK_FALSE(domain::answer(list, w.rows, w.in).has_refusal());
  list.mutable_principal()->set_node("node-b");
  CHECK(domain::answer(list, w.rows, w.in).refusal().code() == v1::Refusal::FORBIDDEN);
}
