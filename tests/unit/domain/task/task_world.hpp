// A scope in memory with sessions that send commands: shared by the tests of tasks, dispatch, spawns and queries.
#pragma once

#include <doctest/doctest.h>

#include "actors/base/crypto.hpp"
#include "actors/base/limits.hpp"
#include "actors/domain/decide.hpp"
#include "actors/domain/rules.hpp"
#include "tests/support/memory_rows.hpp"

namespace swarm::test {

inline const std::string scope = "/repo";

struct task_world {
  memory_rows rows;
  domain::inputs in;
  v1::Batch last; // the batch of the newest command
  v1::Caller caller;
  int joined = 0;

  explicit task_world(std::uint64_t seed = 1) {
    in.now_ms = 1'700'000'000'000;
    in.new_uuid = seeded_uuids(seed);
    in.node_id = "node-1";
    in.user_identity = "user:ada";
    caller.set_directory("/repo");
  }

  std::string join(const std::string& label, bool adopted = true) {
    v1::Session s;
    s.set_id("s" + std::to_string(++joined) + "-" + in.new_uuid());
    s.set_scope(scope);
    s.set_directory("/repo");
    s.set_root("/repo");
    s.set_file_root("/repo");
    s.set_label(label);
    s.set_identity(domain::effective_identity(label, in));
    s.set_registered_at_ms(in.now_ms + joined);
    s.set_heartbeat_ms(in.now_ms + joined);
    s.set_adopted(adopted);
    s.set_presence(adopted ? v1::Session::HEARTBEAT : v1::Session::LEASE);
    rows.put(s);
    return s.id();
  }

  v1::Reply run(v1::Command cmd, v1::Principal::Kind kind, const std::string& id) {
    cmd.set_scope(scope);
    *cmd.mutable_caller() = caller;
    cmd.mutable_principal()->set_kind(kind);
    cmd.mutable_principal()->set_id(id);
    last = domain::decide(cmd, rows, in);
    rows.apply(last);
    return last.reply();
  }
  v1::Reply as(const std::string& session, const v1::Command& cmd) { return run(cmd, v1::Principal::SESSION, session); }
  v1::Reply op(const v1::Command& cmd) { return run(cmd, v1::Principal::OPERATOR, ""); }
  v1::Reply node(const v1::Command& cmd) { return run(cmd, v1::Principal::NODE, in.node_id); }

  v1::Answer ask(v1::Query q, const std::string& viewer = {}) {
    q.set_scope(scope);
    q.set_viewer(viewer);
    q.mutable_principal()->set_kind(v1::Principal::OPERATOR);
    return domain::answer(q, rows, in);
  }

  v1::Task task(const std::string& id) const { return rows.row<v1::Task>(domain::key(id)).value(); }
  v1::Spawn spawn(const std::string& id) const { return rows.row<v1::Spawn>(domain::key(id)).value(); }

  int events(const std::string& type) const {
    int n = 0;
    for (const auto& e : last.events())
      n += e.type() == type;
    return n;
  }
  std::vector<std::string> mail(const std::string& session) const {
    domain::message_filter f;
    f.scope = scope;
    f.recipient = session;
    std::vector<std::string> out;
    for (const auto& m : rows.rows<v1::Message>(f))
      out.push_back(m.content());
    return out;
  }
};

inline v1::TaskSpec spec(const std::string& title) {
  v1::TaskSpec s;
  s.set_type("implement");
  s.set_title(title);
  return s;
}
inline v1::Command create(const v1::TaskSpec& s) {
  v1::Command c;
  *c.mutable_create_tasks()->add_tasks() = s;
  return c;
}
inline v1::Command batch(const std::vector<v1::TaskSpec>& specs) {
  v1::Command c;
  c.mutable_create_tasks()->set_batch(true);
  for (const auto& s : specs)
    *c.mutable_create_tasks()->add_tasks() = s;
  return c;
}
inline v1::Command claim(const std::string& id, bool ignore_unread = false) {
  v1::Command c;
  c.mutable_claim_task()->set_task_id(id);
  c.mutable_claim_task()->set_ignore_unread_messages(ignore_unread);
  return c;
}
inline v1::Command claim_next(bool ignore_unread = false) {
  v1::Command c;
  c.mutable_claim_next_task()->set_ignore_unread_messages(ignore_unread);
  return c;
}
inline v1::Command update(const std::string& id, v1::TaskStatus status, const std::string& result = {}, std::uint64_t fence = 0) {
  v1::Command c;
  auto& u = *c.mutable_update_task();
  u.set_task_id(id);
  u.set_status(status);
  u.set_result(result);
  u.set_has_result(!result.empty());
  u.set_fence(fence);
  return c;
}
inline v1::Command complete(const std::string& id, const std::string& summary) {
  v1::Command c;
  c.mutable_complete_task()->set_task_id(id);
  c.mutable_complete_task()->set_summary(summary);
  return c;
}
inline v1::Command approve(const std::string& id) {
  v1::Command c;
  c.mutable_approve_task()->set_task_id(id);
  return c;
}
inline v1::Command deregister() {
  v1::Command c;
  c.mutable_deregister_session();
  return c;
}
inline v1::Task made(const v1::Reply& r) {
  REQUIRE_MESSAGE(r.tasks_created().tasks_size() > 0, r.refusal().text());
  return r.tasks_created().tasks(0).task();
}
/// A task that this session asks for and that waits for the others.
inline v1::Task waiting(task_world& w, const std::string& session, v1::TaskSpec s, const std::vector<std::string>& dependencies) {
  for (const auto& d : dependencies)
    s.add_depends_on(d);
  return made(w.as(session, create(s)));
}
inline std::string text(const v1::Reply& r) { return r.refusal().text(); }

} // namespace swarm::test
