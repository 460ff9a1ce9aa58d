// Which node starts a worker.
#include <doctest/doctest.h>

#include "actors/base/limits.hpp"
#include "actors/fabric/cluster/placement.hpp"

using namespace swarm;

namespace {

v1::ClusterNode& add(v1::ClusterView& view, const std::string& name, v1::ClusterNode::Link link, std::uint32_t workers = 0) {
  view.set_cluster_id("c");
  auto& n = *view.add_nodes();
  n.mutable_info()->set_node_id("id-" + name);
  n.mutable_info()->set_node_name(name);
  n.mutable_info()->set_workers(workers);
  n.mutable_info()->set_workers_max(10);
  n.set_link(link);
  return n;
}

void label(v1::ClusterNode& n, const std::string& name, const std::string& value) {
  auto& l = *n.mutable_info()->add_labels();
  l.set_name(name);
  l.set_value(value);
}

v1::Command dispatch(const std::string& harness = "exec", const std::string& on = "") {
  v1::Command c;
  c.mutable_dispatch()->set_harness(harness);
  c.mutable_dispatch()->set_on(on);
  c.mutable_dispatch()->set_directory("/home/me");
  c.set_scope("game");
  return c;
}

/// In a checkout of the scope, wherever that is.
v1::Command dispatch_below(const std::string& harness = "exec") {
  auto c = dispatch(harness);
  c.mutable_dispatch()->set_directory("src");
  return c;
}

std::string chosen(v1::Command c, const v1::ClusterView& view, const std::string& caller = "id-a") {
  auto refusal = place(c, view, caller);
  if (refusal)
    return "refused: " + refusal->text();
  return c.dispatch().node_id().empty() ? "none: " + c.dispatch().placement() : c.dispatch().node_id();
}

} // namespace

TEST_CASE("without a cluster a worker starts where it is asked for") {
  v1::ClusterView none;
  CHECK(chosen(dispatch(), none) == "id-a");
  CHECK(chosen(dispatch("exec", "b"), none).find("in no cluster") != std::string::npos);
}

TEST_CASE("the caller's node starts what works in a directory of its host, and another one does when it cannot, the least busy one first") {
  v1::ClusterView view;
  add(view, "a", v1::ClusterNode::SELF, 9);
  add(view, "b", v1::ClusterNode::UP, 5);
  add(view, "c", v1::ClusterNode::UP, 2);
  CHECK(chosen(dispatch(), view) == "id-a");
  CHECK(chosen(dispatch(), view, "id-b") == "id-b");
  label(add(view, "d", v1::ClusterNode::UP, 4), "harness.claude", "/usr/bin/claude");
  label(*view.mutable_nodes(2), "harness.claude", "/usr/bin/claude");
  CHECK(chosen(dispatch("claude"), view, "id-x") == "id-c");
  // What its caller has on PATH, the node's own services look up.
  CHECK(chosen(dispatch("claude"), view) == "id-a");
}

TEST_CASE("a name or an id chooses, and what stands against it is said") {
  v1::ClusterView view;
  add(view, "a", v1::ClusterNode::SELF);
  add(view, "b", v1::ClusterNode::DOWN);
  add(view, "c", v1::ClusterNode::UP).mutable_info()->set_draining(true);
  add(view, "d", v1::ClusterNode::REVOKED);
  add(view, "e", v1::ClusterNode::UP, 10);
  CHECK(chosen(dispatch("exec", "id-a"), view) == "id-a");
  CHECK(chosen(dispatch("exec", "b"), view).find("not linked") != std::string::npos);
  CHECK(chosen(dispatch("exec", "c"), view).find("drained") != std::string::npos);
  CHECK(chosen(dispatch("exec", "d"), view).find("revoked") != std::string::npos);
  CHECK(chosen(dispatch("exec", "e"), view).find("10 places are taken") != std::string::npos);
  CHECK(chosen(dispatch("exec", "zz"), view).find("No node of the cluster is called \"zz\"") != std::string::npos);
  CHECK(chosen(dispatch("gemini"), view, "id-x").find("gemini is not installed") != std::string::npos);
}

TEST_CASE("a node that has gone is not mentioned while another one has its name") {
  v1::ClusterView view;
  add(view, "a", v1::ClusterNode::SELF);
  add(view, "b", v1::ClusterNode::REVOKED);
  add(view, "b", v1::ClusterNode::DOWN).mutable_info()->set_node_id("id-b2");
  CHECK(chosen(dispatch("exec", "b"), view) == "none: b: it is not linked just now");
  auto c = dispatch_below();
  view.mutable_nodes(0)->mutable_info()->add_checkouts("game");
  REQUIRE_FALSE(place(c, view, "id-a"));
  CHECK(c.dispatch().placement().find("revoked") == std::string::npos);
}

TEST_CASE("what is bound to its caller's node starts there or nowhere, unless another node is asked for") {
  v1::ClusterView view;
  add(view, "a", v1::ClusterNode::SELF, 10).mutable_info()->add_checkouts("game"); // with no place free
  add(view, "b", v1::ClusterNode::UP).mutable_info()->add_checkouts("game");
  auto shell = [&](const std::string& on = "") {
    v1::Command c;
    c.set_scope("game");
    c.mutable_request_spawn()->set_harness("shell");
    c.mutable_request_spawn()->set_directory("src");
    c.mutable_request_spawn()->set_here(true);
    c.mutable_request_spawn()->set_on(on);
    REQUIRE_FALSE(place(c, view, "id-a"));
    return c.request_spawn().node_id() + " " + c.request_spawn().placement() + " on " + c.request_spawn().on();
  };
  CHECK(shell() == "id-a a: the host of the caller on id-a");
  CHECK(shell("b") == "id-b b: it was asked for by name on b");
  view.mutable_nodes(0)->mutable_info()->set_draining(true);
  CHECK(shell() == " a: it is being drained on id-a");
}

TEST_CASE("labels that are asked for must all be there") {
  v1::ClusterView view;
  add(view, "a", v1::ClusterNode::SELF);
  auto& b = add(view, "b", v1::ClusterNode::UP);
  label(b, "gpu", "yes");
  auto c = dispatch();
  auto& wanted = *c.mutable_dispatch()->add_where();
  wanted.set_name("gpu");
  wanted.set_value("yes");
  CHECK(chosen(c, view) == "id-b");
  wanted.set_value("no");
  CHECK(chosen(c, view).find("gpu=no") != std::string::npos);
}

TEST_CASE("a worker with a worktree of its own is placed like any other") {
  v1::ClusterView view;
  add(view, "a", v1::ClusterNode::SELF);
  add(view, "b", v1::ClusterNode::UP);
  auto c = dispatch();
  c.mutable_dispatch()->set_worktree(true);
  CHECK(chosen(c, view) == "id-a");
  c.mutable_dispatch()->set_on("b");
  CHECK(chosen(c, view) == "id-b");
}

TEST_CASE("what works in a checkout starts where there is one, on the least busy node for its processors") {
  v1::ClusterView view;
  add(view, "a", v1::ClusterNode::SELF, 0);
  auto& b = add(view, "b", v1::ClusterNode::UP, 3);
  auto& c = add(view, "c", v1::ClusterNode::UP, 4);
  CHECK(chosen(dispatch_below(), view).find("a: it has no checkout of the scope") != std::string::npos);
  b.mutable_info()->add_checkouts("game");
  c.mutable_info()->add_checkouts("other");
  CHECK(chosen(dispatch_below(), view) == "id-b");
  c.mutable_info()->add_checkouts("game");
  CHECK(chosen(dispatch_below(), view) == "id-b");
  label(c, "cpus", "8");
  CHECK(chosen(dispatch_below(), view) == "id-c");
  view.mutable_nodes(0)->mutable_info()->add_checkouts("game");
  CHECK(chosen(dispatch_below(), view) == "id-a");
}

TEST_CASE("of nodes that are as busy, the caller's own starts it") {
  v1::ClusterView view;
  for (const auto* name : {"a", "b", "c"})
    add(view, name, name == std::string{"a"} ? v1::ClusterNode::SELF : v1::ClusterNode::UP, 2).mutable_info()->add_checkouts("game");
  CHECK(chosen(dispatch_below(), view, "id-c") == "id-c");
  CHECK(chosen(dispatch_below(), view, "id-b") == "id-b");
}

TEST_CASE("why a node was chosen is said, with what stood against the others") {
  v1::ClusterView view;
  add(view, "a", v1::ClusterNode::SELF);
  add(view, "b", v1::ClusterNode::DOWN);
  auto why = [&](v1::Command c) {
    CHECK_FALSE(place(c, view, "id-a"));
    return c.dispatch().placement();
  };
  CHECK(why(dispatch("exec", "a")) == "a: it was asked for by name");
  CHECK(why(dispatch()) == "a: the only node that fits. Not b: it is not linked just now");
  for (int i = 0; i < 60; ++i)
    add(view, "long-name-of-a-node-" + std::to_string(i), v1::ClusterNode::REVOKED);
  CHECK(why(dispatch()).size() <= 1024);
}

TEST_CASE("a node that has left, is drained or has long been silent gets nothing that was meant for it before") {
  constexpr std::int64_t now = 1'700'000'000'000;
  v1::ClusterView view;
  add(view, "up", v1::ClusterNode::UP);
  add(view, "left", v1::ClusterNode::REVOKED);
  add(view, "drained", v1::ClusterNode::UP).mutable_info()->set_draining(true);
  add(view, "away", v1::ClusterNode::DOWN).set_last_heard_ms(now - limits::host_lease().count());
  add(view, "lost", v1::ClusterNode::DOWN).set_last_heard_ms(now - limits::host_lease().count() - 1);
  auto gone = [&](const std::string& id) { return !gone_since(id, view, now).empty(); };
  CHECK_FALSE(gone("id-up"));
  CHECK_FALSE(gone("id-away"));
  for (auto* id : {"id-left", "id-drained", "id-lost", "id-forgotten"}) {
    CAPTURE(id);
    CHECK(gone(id));
  }
}

TEST_CASE("the next attempt of a worker whose host was lost goes to another host with a checkout") {
  v1::ClusterView view;
  add(view, "a", v1::ClusterNode::SELF, 5).mutable_info()->add_checkouts("game");
  add(view, "b", v1::ClusterNode::DOWN).mutable_info()->add_checkouts("game");
  v1::Spawn worker;
  worker.set_scope("game");
  worker.set_harness("exec");
  worker.set_directory(".");
  worker.set_node_id("id-b");
  CHECK(place_again(worker, view).node_id == "id-a");
  // One that was asked for by name waits for that node, and a directory of a host is nowhere else.
  worker.set_on("b");
  CHECK(place_again(worker, view).node_id.empty());
  worker.clear_on();
  worker.set_directory("/home/me");
  CHECK(place_again(worker, view).node_id.empty());
}

TEST_CASE("what has variables of its caller starts on the caller's node or nowhere, in no more places than there are") {
  v1::ClusterView view;
  auto& a = add(view, "a", v1::ClusterNode::SELF, 5);
  a.mutable_info()->add_checkouts("game");
  add(view, "b", v1::ClusterNode::UP).mutable_info()->add_checkouts("game");
  auto c = dispatch_below();
  CHECK(chosen(c, view) == "id-b");
  c.mutable_dispatch()->set_variables_digest("digest");
  CHECK(chosen(c, view) == "id-a");
  for (const auto* on : {"a", "id-a"}) {
    c.mutable_dispatch()->set_on(on);
    CHECK(chosen(c, view) == "id-a");
  }
  c.mutable_dispatch()->set_on("b");
  CHECK(chosen(c, view).starts_with("refused: --env does not reach a worker on another host"));
  c.mutable_dispatch()->clear_on();
  auto labelled = c;
  labelled.mutable_dispatch()->add_where()->set_name("gpu");
  CHECK(chosen(labelled, view).starts_with("refused: --env does not reach a worker on another host"));
  a.mutable_info()->set_workers(10);
  CHECK(chosen(c, view) == "none: a: all of its 10 places are taken; --env does not reach a worker on another host");
  v1::Spawn lost;
  lost.set_scope("game");
  lost.set_harness("exec");
  lost.set_directory(".");
  lost.set_node_id("id-a");
  CHECK(place_again(lost, view).node_id == "id-b");
  lost.set_has_variables(true);
  CHECK(place_again(lost, view).node_id.empty());
}
