#include "tools/bench.d/remote.hpp"

#include <chrono>
#include <csignal>
#include <fstream>
#include <functional>
#include <stdexcept>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pwd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "swarm/v1/cluster.grpc.pb.h"
#include "tools/bench.d/measure.hpp"

namespace swarm::bench {

namespace {

using namespace std::chrono_literals;

constexpr auto patience = 60s;
constexpr const char* sshd = "/usr/sbin/sshd"; // it starts itself again by this name

bool listens(int port) {
  unique_fd fd{socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  at.sin_port = htons(static_cast<std::uint16_t>(port));
  return connect(fd.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0;
}

template <class Call, class Request, class Reply>
void ask_cluster(node_client& c, Call call, const Request& request, Reply& reply, const char* what) {
  grpc::ClientContext context;
  auto stub = v1::Cluster::NewStub(c.channel());
  check(((*stub).*call)(&context, request, &reply), what);
}

/// The node's own view of the cluster has the other one, and is linked to it.
bool is_linked(node_client& c) {
  v1::ClusterView view;
  ask_cluster(c, &v1::Cluster::Stub::ListNodes, v1::ListNodesRequest{}, view, "ListNodes");
  for (const auto& n : view.nodes())
    if (n.link() == v1::ClusterNode::UP)
      return true;
  return false;
}

/// What it passes on to the home is answered.
bool serves_shared_scopes(node_client& c) {
  v1::Query q;
  q.set_scope("bench");
  q.mutable_get_lock()->set_path("/bench/file");
  grpc::ClientContext context;
  v1::Answer answer;
  return c.stub().Ask(&context, q, &answer).ok();
}

void end_with_programs(const node& n) {
  grpc::ClientContext context;
  v1::ShutdownReply gone;
  node_client c{n.socket()};
  v1::Node::NewStub(c.channel())->Shutdown(&context, v1::ShutdownRequest{}, &gone);
}

} // namespace

// -- the cluster -----------------------------------------------------------------------------

two_nodes::two_nodes(const std::filesystem::path& bin, const std::filesystem::path& dir)
  : home(bin, dir / "home", "a"), member(bin, dir / "member", "b") {
  home.start();
  member.start();
  node_client at_home{home.socket()}, at_member{member.socket()};
  v1::FoundRequest found;
  found.set_insecure(true);
  v1::FoundReply founded;
  // The port after it is wanted too, and may be taken just now.
  if (!eventually(patience, [&] {
        found.set_listen("127.0.0.1:" + std::to_string(free_port()));
        grpc::ClientContext context;
        return v1::Cluster::NewStub(at_home.channel())->Found(&context, found, &founded).ok();
      }))
    throw std::runtime_error("the home founds no cluster; see " + (dir / "home" / "log").string());
  v1::JoinToken token;
  ask_cluster(at_home, &v1::Cluster::Stub::CreateJoinToken, v1::CreateJoinTokenRequest{}, token, "CreateJoinToken");
  v1::JoinClusterRequest join;
  join.set_token(token.token());
  v1::ClusterView joined;
  ask_cluster(at_member, &v1::Cluster::Stub::JoinCluster, join, joined, "JoinCluster");
  if (!eventually(patience, [&] { return is_linked(at_home) && is_linked(at_member) && serves_shared_scopes(at_member); }))
    throw std::runtime_error("the two nodes are not linked; see " + dir.string());
}

/// A node that is only told to stop leaves its terminals running.
two_nodes::~two_nodes() {
  for (auto* n : {&member, &home}) {
    try {
      end_with_programs(*n);
    } catch (const std::exception&) {
      // It is gone already.
    }
    n->stop();
  }
}

// -- ssh -------------------------------------------------------------------------------------

ssh_server::ssh_server(const std::filesystem::path& dir) : dir_(dir / "ssh"), port_(free_port()) {
  if (access(sshd, X_OK) != 0)
    throw std::runtime_error("there is no " + std::string{sshd} + ": tools/setup bench installs it");
  std::filesystem::create_directories(dir_);
  if (geteuid() == 0)
    std::filesystem::create_directories("/run/sshd"); // where a privileged sshd puts its children; a service makes it otherwise
  for (auto key : {"host_key", "user_key"})
    if (child{{"ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", dir_ / key}}.end(0) != 0)
      throw std::runtime_error("ssh-keygen failed");
  std::filesystem::copy_file(dir_ / "user_key.pub", dir_ / "authorized_keys");
  std::ofstream{dir_ / "sshd_config"} << "Port " << port_ << "\nListenAddress 127.0.0.1\nHostKey " << (dir_ / "host_key").string()
                                      << "\nAuthorizedKeysFile " << (dir_ / "authorized_keys").string()
                                      << "\nStrictModes no\nUsePAM no\nPidFile none\nPasswordAuthentication no\n"
                                         "KbdInteractiveAuthentication no\nPermitRootLogin prohibit-password\n";
  std::ifstream host_key{dir_ / "host_key.pub"};
  std::ofstream{dir_ / "known_hosts"} << "[127.0.0.1]:" << port_ << " " << host_key.rdbuf();
  std::ofstream{dir_ / "ssh_config"} << "Host *\n  IdentityFile " << (dir_ / "user_key").string()
                                     << "\n  IdentitiesOnly yes\n  BatchMode yes\n  UserKnownHostsFile " << (dir_ / "known_hosts").string() << "\n";
  process_ = child{{sshd, "-D", "-f", dir_ / "sshd_config"}};
  if (!eventually(patience, [&] { return listens(port_); }))
    throw std::runtime_error("sshd does not answer; its configuration is " + (dir_ / "sshd_config").string());
}

std::vector<std::string> ssh_server::on_terminal(const std::string& command) const {
  const auto* user = getpwuid(geteuid());
  return {"ssh", "-F", dir_ / "ssh_config", "-tt", "-p", std::to_string(port_), std::string{user ? user->pw_name : "root"} + "@127.0.0.1", command};
}

} // namespace swarm::bench
