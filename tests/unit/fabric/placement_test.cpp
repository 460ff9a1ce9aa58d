// Which node starts a worker.
#include <doctest/doctest.h>

#include "actors/fabric/placement.hpp"

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
  return c;
}

std::string chosen(v1::Command c, const v1::ClusterView& view, const std::string& caller = "id-a") {
  auto refusal = place(c, view, caller);
  return refusal ? "refused: " + refusal->text() : c.dispatch().node_id();
}

} // namespace

TEST_CASE("without a cluster a worker starts where it is asked for") {
  v1::ClusterView none;
  CHECK(chosen(dispatch(), none) == "id-a");
  CHECK(chosen(dispatch("exec", "b"), none).find("in no cluster") != std::string::npos);
}

TEST_CASE("the caller's node is preferred, then the least busy one") {
  v1::ClusterView view;
  add(view, "a", v1::ClusterNode::SELF, 9);
  add(view, "b", v1::ClusterNode::UP, 5);
  add(view, "c", v1::ClusterNode::UP, 2);
  CHECK(chosen(dispatch(), view) == "id-a");
  CHECK(chosen(dispatch(), view, "id-b") == "id-b");
  label(add(view, "d", v1::ClusterNode::UP, 4), "harness.claude", "/usr/bin/claude");
  label(*view.mutable_nodes(2), "harness.claude", "/usr/bin/claude");
  CHECK(chosen(dispatch("claude"), view, "id-x") == "id-c");
  // What its caller has on PATH, the node's own door looks up.
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

TEST_CASE("a worktree is made at the home, for itself") {
  v1::ClusterView view;
  add(view, "a", v1::ClusterNode::SELF);
  add(view, "b", v1::ClusterNode::UP);
  auto c = dispatch();
  c.mutable_dispatch()->set_worktree(true);
  CHECK(chosen(c, view) == "id-a");
  c.mutable_dispatch()->set_on("b");
  CHECK(chosen(c, view).find("worktree") != std::string::npos);
}
