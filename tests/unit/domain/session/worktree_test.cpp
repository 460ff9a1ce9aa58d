#include "tests/unit/domain/task/task_world.hpp"

using namespace swarm;
using namespace swarm::test;

TEST_CASE("a worker that is to have a worktree of its own is a new one, and its spawn says so") {
  task_world w;
  const auto live = w.join("role:implementer");
  v1::Command c;
  c.mutable_dispatch()->set_title("fix it");
  c.mutable_dispatch()->set_harness("shell");
  c.mutable_dispatch()->add_argv("/bin/sh");
  c.mutable_dispatch()->set_worktree(true);
  const auto own = w.op(c).dispatch();
  CHECK(own.status() == v1::DispatchReply::SPAWNING);
  CHECK(own.spawn().worktree());
  CHECK(w.mail(live).empty());
  // The same again does not start a second one.
  CHECK(w.op(c).dispatch().status() == v1::DispatchReply::SPAWN_IN_FLIGHT);
  c.mutable_dispatch()->set_worktree(false);
  c.mutable_dispatch()->set_title("another");
  CHECK(w.op(c).dispatch().recipient() == live);

  v1::Command s;
  s.mutable_request_spawn()->set_role("r");
  s.mutable_request_spawn()->set_key("k");
  s.mutable_request_spawn()->set_harness("shell");
  CHECK_FALSE(w.op(s).spawn().spawn().worktree());
  s.mutable_request_spawn()->set_key("k2");
  s.mutable_request_spawn()->set_worktree(true);
  CHECK(w.op(s).spawn().spawn().worktree());
}
