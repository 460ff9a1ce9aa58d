#include "actors/domain/order_seal.hpp"

#include <functional>

#include "actors/fabric/workers/spawn.hpp"
#include "tests/support/fabric_world.hpp"

using namespace swarm;
using test::fabric_world;

namespace {

/// Of a member whose rules let others start claude alone.
struct membership final : cluster_port {
  membership() { policy.spawn.harnesses = {"claude"}; }
  std::string home_of(std::string_view) const override { return "home"; }
  std::string shared_home() const override { return "home"; }
  bool is_shared(std::string_view) const override { return true; }
  v1::ClusterView view() const override { return {}; }
  void keep(const v1::ClusterView&) override {}
  void busy(std::uint32_t) override {}
  void placed(const std::string&) override {}
  void listen(std::function<void()>) override {}
  std::string checkout_of(std::string_view) const override { return "/"; }
  const domain::accept_policy& accepts() const override { return policy; }
  domain::accept_policy policy;
};

v1::RequestId request(std::uint64_t seq) {
  v1::RequestId id;
  id.set_client("a client");
  id.set_seq(seq);
  return id;
}

struct member {
  fabric_world f;
  membership cluster;
  std::shared_ptr<node_environment> node = std::make_shared<node_environment>();

  member() {
    node->facts.node_id = "member";
    node->facts.node_name = "member";
    node->facts.token_key = std::string(32, 'm');
    node->facts.program_dir = "/opt/swarm/bin";
    node->facts.base_environment = {"PATH=/usr/bin:/bin"};
    node->clock = &f.w.clock;
    node->processes = &f.keeper;
    node->workers = &f.workers;
    node->cluster = &cluster;
    f.keeper.hold_starts = true; // what comes after the start is the home's to say, and there is none
  }

  v1::Command ordered(std::uint64_t seq = 1) const {
    auto cmd = fabric_world::spawn_command("k");
    cmd.mutable_request_spawn()->set_directory("tmp");
    domain::seal_order(cmd, request(seq), {node->facts.node_id, node->facts.token_key});
    return cmd;
  }
  /// As the home shows it.
  v1::Spawn row() const {
    const auto cmd = ordered();
    v1::Spawn s;
    s.set_id(cmd.request_spawn().order().spawn_id());
    s.set_seal(cmd.request_spawn().order().seal());
    s.set_scope("s");
    s.set_harness("exec");
    *s.mutable_argv() = cmd.request_spawn().argv();
    s.set_directory("tmp");
    s.set_node_id("member");
    s.set_session_id("session");
    s.set_attempt(1);
    s.set_status(v1::Spawn::REQUESTED);
    s.mutable_requested_by()->set_kind(v1::Principal::OPERATOR);
    s.mutable_requested_by()->set_node("member");
    return s;
  }
  /// The environment that the keeper is to start it with; nothing when this node asks for no start.
  std::optional<std::vector<std::string>> started(const v1::Spawn& row, const std::string& scope = "s") {
    entity_place place;
    place.links.node = node;
    place.links.home = "home";
    place.links.writer = f.board->get().writer;
    place.links.processes = f.board->get().processes;
    place.scope = scope;
    place.id = row.id();
    auto worker = f.w.sys.spawn(spawn, place, row, std::vector<std::string>{"PATH=/usr/bin:/bin", "OWN=caller"});
    f.w.settle();
    runtime::kill(worker);
    f.w.settle();
    const auto* child = f.keeper.find(row.id());
    if (!child)
      return std::nullopt;
    return std::vector<std::string>{child->request.environment().begin(), child->request.environment().end()};
  }
};

bool has(const std::vector<std::string>& list, const std::string& entry) { return std::find(list.begin(), list.end(), entry) != list.end(); }

} // namespace

TEST_CASE("a member starts as its own what its home shows with the member's seal, in every attempt and with its caller's environment") {
  for (std::uint32_t attempt : {1u, 2u, 9u}) {
    CAPTURE(attempt);
    member m;
    auto row = m.row();
    row.set_attempt(attempt);
    auto environment = m.started(row);
    REQUIRE(environment);
    CHECK(has(*environment, "OWN=caller"));
  }
}

TEST_CASE("what the home only says a member has asked for is held to the member's rules") {
  using change = std::function<void(v1::Spawn&)>;
  const std::vector<std::pair<const char*, change>> forged{
    {"no seal, as of an older version", [](v1::Spawn& s) { s.clear_seal(); }},
    {"another seal", [](v1::Spawn& s) { s.mutable_seal()->back() ^= 1; }},
    {"a seal of no bytes of its own", [](v1::Spawn& s) { s.set_seal(std::string(32, '\0')); }},
    {"another spawn", [](v1::Spawn& s) { s.set_id(random_uuid()); }},
    {"another program", [](v1::Spawn& s) { s.set_argv(0, "/bin/false"); }},
    {"a further argument", [](v1::Spawn& s) { s.add_argv(""); }},
    {"another directory", [](v1::Spawn& s) { s.set_directory("usr"); }},
    {"another harness", [](v1::Spawn& s) { s.set_harness("shell"); }},
    {"another scope", [](v1::Spawn& s) { s.set_scope("t"); }},
    {"another node's order", [](v1::Spawn& s) { s.mutable_requested_by()->set_node("other"); }},
    {"the home's own order", [](v1::Spawn& s) { s.mutable_requested_by()->clear_node(); }},
  };
  for (const auto& [name, change] : forged) {
    CAPTURE(name);
    member m;
    auto row = m.row();
    change(row);
    CHECK_FALSE(m.started(row));
  }
}

TEST_CASE("a member's seal says nothing in another scope and to another node") {
  member m;
  CHECK_FALSE(m.started(m.row(), "t"));
  member other;
  const auto row = m.row();
  other.node->facts.token_key = std::string(32, 'o');
  CHECK_FALSE(other.started(row));
}

TEST_CASE("what the home asks for with the rules' leave does not get the environment of a caller of this node") {
  member m;
  m.cluster.policy.spawn.harnesses = {"exec"};
  auto row = m.row();
  row.clear_seal();
  auto environment = m.started(row);
  REQUIRE(environment);
  CHECK_FALSE(has(*environment, "OWN=caller"));
}

TEST_CASE("a repeated request names the same spawn, and each other request another one") {
  member m;
  CHECK(m.ordered(1).request_spawn().order().SerializeAsString() == m.ordered(1).request_spawn().order().SerializeAsString());
  CHECK(m.ordered(1).request_spawn().order().spawn_id() != m.ordered(2).request_spawn().order().spawn_id());
  CHECK(is_uuid(m.ordered(1).request_spawn().order().spawn_id()));
  auto asks_nobody = fabric_world::dispatch("t");
  asks_nobody.mutable_dispatch()->clear_harness();
  domain::seal_order(asks_nobody, request(1), {"member", std::string(32, 'm')});
  CHECK_FALSE(asks_nobody.dispatch().has_order());
}
