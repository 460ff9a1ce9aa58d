// Who is in the cluster, as its home and a member of it keep it while views that are older come in.
#include "services/federation/cluster.hpp"

#include <filesystem>

#include <doctest/doctest.h>
#include <unistd.h>

#include "actors/base/limits.hpp"

namespace fs = std::filesystem;
using namespace swarm;

namespace {

constexpr auto home_id = "aaaaaaaa-0000-4000-8000-000000000000";

std::string node_id(int n) {
  auto digits = std::to_string(n);
  return "bbbbbbbb-0000-4000-8000-" + std::string(12 - digits.size(), '0') + digits;
}

v1::NodeInfo info_of(int n) {
  v1::NodeInfo info;
  info.set_node_id(node_id(n));
  info.set_node_name("b" + std::to_string(n));
  return info;
}

struct home {
  home() {
    fs::create_directories(where / "state");
    fs::permissions(where / "state", fs::perms::owner_all);
    dir.root = where / "state";
    facts.node_id = home_id;
    facts.node_name = "a";
    kept = cluster::open(dir, facts, system_clock_port());
    cluster_facts made{"cccccccc-0000-4000-8000-000000000000", home_id, home_id, "a", "a.example:7420", "a.example:7420"};
    REQUIRE(kept->authority().found(made, std::nullopt, system_clock_port().unix_ms()));
    kept->reload();
  }
  void admit(int n) { REQUIRE_FALSE(kept->admit(info_of(n), system_clock_port().unix_ms() + 1'000'000)); }
  const v1::ClusterNode& node(int n) {
    shown = kept->view();
    for (const auto& row : shown.nodes())
      if (row.info().node_id() == node_id(n))
        return row;
    FAIL("no such node");
    return shown.nodes(0);
  }

  ~home() { fs::remove_all(where); }

  fs::path where = fs::temp_directory_path() / ("cluster-" + std::to_string(getpid()));
  state_dir dir;
  node_facts facts;
  std::unique_ptr<cluster> kept;
  v1::ClusterView shown;
};

} // namespace

TEST_CASE("what the home has decided is not undone by a view from before") {
  home h;
  h.admit(1);
  auto before = h.kept->view();
  REQUIRE_FALSE(h.kept->drain("b1", false));
  h.kept->keep(before);
  CHECK(h.node(1).info().draining());
  REQUIRE_FALSE(h.kept->retire(node_id(1)));
  h.kept->keep(before);
  CHECK(h.node(1).link() == v1::ClusterNode::REVOKED);
  // It comes in again while a view of when it was out is on its way.
  auto out = h.kept->view();
  h.admit(1);
  h.kept->keep(out);
  CHECK(h.node(1).link() == v1::ClusterNode::DOWN);
  // What its link says is taken.
  auto linked = h.kept->view();
  for (auto& n : *linked.mutable_nodes())
    if (n.info().node_id() == node_id(1)) {
      n.set_link(v1::ClusterNode::UP);
      n.set_round_trip_us(700);
      n.mutable_info()->set_address("elsewhere.example:1");
    }
  h.kept->keep(linked);
  CHECK(h.node(1).link() == v1::ClusterNode::UP);
  CHECK(h.node(1).round_trip_us() == 700);
  CHECK(h.node(1).info().address().empty());
}

TEST_CASE("nodes that have left take no place") {
  home h;
  for (int n = 1; n < static_cast<int>(limits::nodes_max); ++n)
    h.admit(n);
  const auto next = static_cast<int>(limits::nodes_max);
  auto full = h.kept->may_admit(node_id(next), "next", false);
  REQUIRE(full);
  CHECK(full->text.find("swarmctl leave") != std::string::npos);
  REQUIRE_FALSE(h.kept->retire(node_id(1)));
  CHECK_FALSE(h.kept->may_admit(node_id(1), "b1", false));
  CHECK_FALSE(h.kept->may_admit(node_id(next), "next", false));
  h.admit(next);
  CHECK(h.kept->view().nodes_size() == static_cast<int>(limits::nodes_max));
  CHECK(h.node(next).link() == v1::ClusterNode::DOWN);
}

TEST_CASE("a node whose certificate has ended may come in again, and no other with its id") {
  home h;
  REQUIRE_FALSE(h.kept->admit(info_of(1), system_clock_port().unix_ms() - 1));
  h.admit(2);
  CHECK_FALSE(h.kept->may_admit(node_id(1), "b1", false));
  CHECK(h.kept->may_admit(node_id(2), "b2", false));
  REQUIRE_FALSE(h.kept->revoke("b1"));
  CHECK(h.kept->may_admit(node_id(1), "b1", false));
}
