// Who is in the cluster, as its home and a member of it keep it while views that are older come in; who joins; and for how
// long the key that lets them in is in memory.
#include "services/federation/cluster.hpp"

#include <chrono>
#include <filesystem>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include "actors/base/crypto.hpp"
#include "actors/base/limits.hpp"
#include "services/federation/enrollment.hpp"
#include "services/federation/renewal.hpp"
#include "services/security/certificate.hpp"
#include "services/security/join_token.hpp"
#include "swarm/v1/federation.grpc.pb.h"
#include "tests/support/free_ports.hpp"

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
  explicit home(const std::string& listen = "a.example:7420", std::optional<std::string_view> passphrase = std::nullopt) {
    fs::create_directories(where / "state");
    fs::permissions(where / "state", fs::perms::owner_all);
    dir.root = where / "state";
    facts.node_id = home_id;
    facts.node_name = "a";
    kept = cluster::open(dir, facts, system_clock_port());
    cluster_facts made{"cccccccc-0000-4000-8000-000000000000", home_id, home_id, "a", listen, listen};
    REQUIRE(kept->authority().found(made, passphrase, system_clock_port().unix_ms(), seal_cost{1, 8}));
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

/// The join listener of a home, and hosts that come to it.
struct join_listener {
  /// One that would come in, as it asks for it.
  v1::JoinRequest host(int n, const std::string& name) const {
    auto key = key_pair::generate();
    REQUIRE(key);
    auto csr = make_csr(*key, "anything");
    REQUIRE(csr);
    v1::JoinRequest r;
    r.set_token_id(to_hex(token->id));
    r.set_secret(token->key.view().data(), token->key.size());
    r.set_csr(*csr);
    r.set_node_id(node_id(n));
    r.set_node_name(name);
    return r;
  }
  v1::JoinRequest stranger(int n, const std::string& name) const {
    auto r = host(n, name);
    r.set_secret(std::string(join_token_secret_bytes, 'x'));
    return r;
  }
  grpc::Status join(const v1::JoinRequest& r) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds{20});
    v1::JoinReply reply;
    return stub->Join(&context, r, &reply);
  }
  std::vector<std::string> complaints() {
    std::lock_guard guard{mutex};
    return refused;
  }

  home at{"127.0.0.1:" + std::to_string(swarm::testing::free_ports())};
  std::mutex mutex;
  std::vector<std::string> refused;
  enrollment listener{*at.kept, system_clock_port(), [] {},
                      [this](std::string why) {
                        std::lock_guard guard{mutex};
                        refused.push_back(std::move(why));
                      }};
  security_result<join_token> token = [this]() -> security_result<join_token> {
    std::int64_t expires_ms = 0;
    auto text = listener.create_token(0, expires_ms);
    if (!text)
      return text.failure();
    return parse_join_token(text->view());
  }();
  std::unique_ptr<v1::Enrollment::Stub> stub = [this] {
    if (!token)
      FAIL(token.failure().text);
    grpc::SslCredentialsOptions tls;
    tls.pem_root_certs = at.kept->authority().credentials()->authority_pem;
    grpc::ChannelArguments arguments;
    arguments.SetSslTargetNameOverride(node_dns_name(home_id));
    return v1::Enrollment::NewStub(grpc::CreateCustomChannel(token->address, grpc::SslCredentials(tls), arguments));
  }();
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

TEST_CASE("a node that is started with the name of another one keeps its own in the cluster, also after a restart") {
  home h;
  h.admit(1);
  auto name_here = [&] {
    const auto view = h.kept->view();
    for (const auto& n : view.nodes())
      if (n.link() == v1::ClusterNode::SELF)
        return n.info().node_name();
    return std::string{};
  };
  for (const auto* wanted : {"b1", "b1", "free"}) {
    CAPTURE(wanted);
    h.kept.reset();
    h.facts.node_name = wanted;
    h.kept = cluster::open(h.dir, h.facts, system_clock_port());
    h.kept->describe({});
    CHECK(name_here() == (std::string{wanted} == "b1" ? "a" : "free"));
  }
}

TEST_CASE("a renamed node has its new name after a restart of the home") {
  home h;
  h.admit(1);
  auto linked = h.kept->view();
  for (auto& n : *linked.mutable_nodes())
    if (n.info().node_id() == node_id(1))
      n.mutable_info()->set_node_name("new");
  h.kept->keep(linked);
  h.kept.reset();
  h.kept = cluster::open(h.dir, h.facts, system_clock_port());
  CHECK(h.node(1).info().node_name() == "new");
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

TEST_CASE("who has no token learns nothing of the nodes at the join listener, is counted, and is one reason however it calls itself") {
  join_listener d;
  d.at.admit(1);
  auto bad = d.stranger(3, "no name!");
  bad.set_node_id("no id");
  bad.set_csr("no request");
  std::set<std::string> answers;
  const std::vector<v1::JoinRequest> tries{d.stranger(1, "free"), d.stranger(2, "b1"), d.stranger(2, "a"), d.stranger(2, "free"), bad};
  REQUIRE(tries.size() == limits::join_attempts_per_minute_max);
  for (const auto& r : tries) {
    auto s = d.join(r);
    CHECK(s.error_code() == grpc::StatusCode::PERMISSION_DENIED);
    answers.insert(s.error_message());
  }
  CHECK(answers.size() == 1);
  auto said = d.complaints();
  CHECK(said.size() == tries.size());
  CHECK(std::set<std::string>(said.begin(), said.end()).size() == 1);
  // All of them were tries.
  CHECK(d.join(d.host(2, "free")).error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED);
}

TEST_CASE("a token is not used up by what its host can put right") {
  join_listener d;
  d.at.admit(1);
  // All but the last are of another host than the one that comes in.
  CHECK(d.join(d.host(2, "b1")).error_code() == grpc::StatusCode::FAILED_PRECONDITION);
  CHECK(d.join(d.host(2, "a")).error_code() == grpc::StatusCode::FAILED_PRECONDITION);
  CHECK(d.join(d.host(1, "other")).error_code() == grpc::StatusCode::FAILED_PRECONDITION);
  CHECK(d.join(d.host(2, "no name!")).error_code() == grpc::StatusCode::INVALID_ARGUMENT);
  auto nowhere = d.host(2, "b2");
  nowhere.set_listen("nowhere");
  CHECK(d.join(nowhere).error_code() == grpc::StatusCode::INVALID_ARGUMENT);
  auto said = d.complaints();
  REQUIRE(said.size() == 5);
  CHECK(said[0] == said[1]); // another name, the same reason
  auto in = d.host(3, "b3");
  CHECK(d.join(in).ok());
  CHECK(d.at.node(3).info().node_name() == "b3");
  // It alone, again, if the answer was lost.
  CHECK(d.join(in).ok());
  CHECK(d.join(d.host(3, "b3")).error_code() == grpc::StatusCode::PERMISSION_DENIED);
  CHECK(d.join(d.host(2, "b1")).error_code() == grpc::StatusCode::PERMISSION_DENIED);
}

TEST_CASE("the authority's key leaves memory when its time is over, though nobody asks for it") {
  home h{"a.example:7420", "correct horse"};
  auto& authority = h.kept->authority();
  links transport{authority, system_clock_port()};
  renewal keeping{*h.kept, transport, system_clock_port(), [] {}};
  auto at = system_clock_port().unix_ms();
  REQUIRE(authority.unlock("correct horse", at));
  keeping.wake();
  CHECK_FALSE(authority.locked(at));
  // Its ten minutes are over in a moment. To ask as of then wipes nothing.
  at = system_clock_port().unix_ms() - limits::authority_unlocked.count() + 300;
  REQUIRE(authority.unlock("correct horse", at));
  keeping.wake();
  for (auto end = std::chrono::steady_clock::now() + std::chrono::seconds{20}; !authority.locked(at) && std::chrono::steady_clock::now() < end;)
    std::this_thread::yield();
  CHECK(authority.locked(at));
}

TEST_CASE("a home names the address at which it cannot listen, and what is wrong with it") {
  join_listener l;
  const auto address = l.at.kept->authority().facts()->listen;
  auto& authority = l.at.kept->authority();
  links first{authority, system_clock_port()};
  REQUIRE_FALSE(first.serve(address));
  links second{authority, system_clock_port()};
  CHECK(second.serve(address).value() == "cannot listen at " + address + ": another program has the port");
  enrollment again{*l.at.kept, system_clock_port(), [] {}, [](const std::string&) {}};
  std::int64_t expires_ms = 0;
  auto token = again.create_token(0, expires_ms);
  REQUIRE_FALSE(token);
  CHECK(token.failure().text == "cannot listen at " + l.token->address + " for nodes that join: the port after that of --listen must be free");
}
