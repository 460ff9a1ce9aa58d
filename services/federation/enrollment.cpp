#include "services/federation/enrollment.hpp"

#include <charconv>

#include "actors/base/crypto.hpp"
#include "actors/base/limits.hpp"
#include "actors/base/log.hpp"
#include "actors/base/text.hpp"
#include "services/federation/failure_text.hpp"
#include "services/federation/links.hpp"
#include "services/security/join_token.hpp"
#include "services/security/tls_probe.hpp"
#include "swarm/v1/federation.grpc.pb.h"

namespace swarm {

namespace {

grpc::Status refused(const security_failure& f) {
  switch (f.code) {
    case security_error::too_many_attempts:
    case security_error::too_many: return {grpc::StatusCode::RESOURCE_EXHAUSTED, f.text};
    case security_error::unknown_token:
    case security_error::expired:
    case security_error::used_token: return {grpc::StatusCode::PERMISSION_DENIED, f.text};
    case security_error::malformed:
    case security_error::wrong_key:
    case security_error::bad_signature: return {grpc::StatusCode::INVALID_ARGUMENT, f.text};
    default: return {grpc::StatusCode::FAILED_PRECONDITION, f.text};
  }
}

bool is_node_name(std::string_view name) {
  return !name.empty() && name.size() <= limits::node_name_bytes_max &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) != 0 || c == '.' || c == '_' || c == '-'; });
}

} // namespace

std::optional<std::string> join_address(const std::string& listen) {
  auto at = parse_address(listen);
  if (!at)
    return std::nullopt;
  unsigned port = 0;
  std::from_chars(at->port.data(), at->port.data() + at->port.size(), port);
  if (port == 0 || port >= 65'535)
    return std::nullopt;
  auto v6 = at->host.find(':') != std::string::npos;
  return concat({v6 ? "[" : "", at->host, v6 ? "]" : "", ":", port + 1});
}

class enrollment::service final : public v1::Enrollment::CallbackService {
public:
  explicit service(enrollment& owner) : owner_(owner) {}

  grpc::ServerUnaryReactor* Join(grpc::CallbackServerContext* ctx, const v1::JoinRequest* asked, v1::JoinReply* reply) override {
    auto* reactor = ctx->DefaultReactor();
    auto failed = let_in(*asked, *reply);
    // The text leaves out the name that the node asks for: the log shows each reason once, and a caller could change the name each time.
    if (failed)
      owner_.refused_("it wants to join: " + failed->text);
    reactor->Finish(failed ? refused(*failed) : grpc::Status::OK);
    return reactor;
  }

private:
  /// The failure's text contains nothing that the caller has chosen.
  std::optional<security_failure> let_in(const v1::JoinRequest& asked, v1::JoinReply& reply) {
    auto now = owner_.clock_.unix_ms();
    auto& authority = owner_.cluster_.authority();
    auto facts = authority.facts();
    if (!facts || !facts->is_home())
      return security_failure{security_error::wrong_state, "this node is not the home of a cluster"};
    // The token is checked first: a caller without one learns nothing about the cluster, and limits::join_attempts_per_minute_max bounds its tries.
    auto again = owner_.cluster_.tokens().check(from_hex(asked.token_id()), asked.secret(), asked.node_id(), asked.csr(), now);
    if (!again)
      return again.failure();
    if (!is_node_id(asked.node_id()) || !is_node_name(asked.node_name()) || asked.node_id() == facts->node_id)
      return security_failure{security_error::malformed, "a node has a UUID of its own, and a name of 1 to 64 letters, digits, '.', '_' and '-'"};
    if (!asked.listen().empty() && !parse_address(asked.listen()))
      return security_failure{security_error::malformed, "the address at which the node listens must be host:port"};
    if (authority.locked(now))
      return security_failure{security_error::locked, "the cluster's authority is locked: run `swarmctl ca unlock` at its home, then join again"};
    // `again`: the same node repeats the call with the same token, because the answer was lost.
    if (auto failed = owner_.cluster_.may_admit(asked.node_id(), asked.node_name(), *again))
      return failed;
    // The token is used up only after the checks above, so that a node that was refused can correct its request and join with the same token.
    if (auto failed = owner_.cluster_.tokens().redeem(from_hex(asked.token_id()), asked.secret(), asked.node_id(), asked.csr(), now))
      return failed;
    auto certificate = authority.issue(asked.csr(), asked.node_id(), now);
    if (!certificate)
      return certificate.failure();
    auto info = read_certificate(*certificate);
    auto mine = authority.credentials();
    if (!info || !mine)
      return info ? mine.failure() : info.failure();
    v1::NodeInfo node;
    node.set_node_id(asked.node_id());
    node.set_node_name(asked.node_name());
    node.set_address(asked.listen());
    node.set_home_address(facts->listen);
    node.set_version(asked.version().substr(0, limits::id_bytes_max));
    if (auto failed = owner_.cluster_.admit(std::move(node), info->not_after_ms))
      return failed;
    reply.set_certificate(*certificate);
    reply.set_ca(mine->authority_der);
    reply.set_cluster_id(facts->cluster_id);
    reply.mutable_home()->set_node_id(facts->node_id);
    reply.mutable_home()->set_node_name(facts->home_name);
    reply.mutable_home()->set_address(facts->listen);
    log::info({"the node ", asked.node_name(), " (", asked.node_id(), ") has joined"});
    owner_.joined_();
    return std::nullopt;
  }

  enrollment& owner_;
};

enrollment::enrollment(cluster& of, const clock_port& clock, std::function<void()> joined, std::function<void(std::string)> refused)
  : cluster_(of), clock_(clock), joined_(std::move(joined)), refused_(std::move(refused)), closer_([this] { close_in_time(); }) {}

enrollment::~enrollment() { stop(); }

void enrollment::stop() {
  {
    std::lock_guard guard{mutex_};
    stopping_ = true;
  }
  changed_.notify_all();
  if (closer_.joinable())
    closer_.join();
  std::lock_guard guard{mutex_};
  close();
}

security_result<secret> enrollment::create_token(std::int64_t ttl_ms, std::int64_t& expires_ms) {
  auto facts = cluster_.authority().facts();
  if (!facts || !facts->is_home())
    return security_failure{security_error::wrong_state, facts ? concat({"join tokens are made at the home of the cluster, ", facts->home_name})
                                                               : "this node is in no cluster: `swarmctl up --listen HOST:PORT` founds one"};
  auto now = clock_.unix_ms();
  if (cluster_.authority().locked(now))
    return security_failure{security_error::locked, "the cluster's authority is locked: run `swarmctl ca unlock` first"};
  auto at = join_address(facts->listen);
  if (!at)
    return security_failure{security_error::wrong_state, concat({facts->listen, " is no address with a port after it that others could join at"})};
  auto mine = cluster_.authority().credentials();
  if (!mine)
    return mine.failure();
  auto made = cluster_.tokens().create(ttl_ms, now);
  if (!made)
    return made.failure();
  {
    std::lock_guard guard{mutex_};
    if (auto failed = open())
      return *failed;
  }
  changed_.notify_all();
  expires_ms = made->expires_ms;
  join_token t;
  t.id = made->id;
  t.key = made->key.clone();
  t.ca_sha256 = sha256(mine->authority_der);
  t.home_id = facts->node_id;
  t.address = *at;
  return encode_join_token(t);
}

void enrollment::resume() {
  if (!cluster_.tokens().any_open(clock_.unix_ms()))
    return;
  {
    std::lock_guard guard{mutex_};
    if (auto failed = open())
      log::warn({"nodes cannot join: ", failed->text});
  }
  changed_.notify_all();
}

void enrollment::renewed() {
  {
    std::lock_guard guard{mutex_};
    renewed_ = true;
  }
  changed_.notify_all();
}

std::optional<security_failure> enrollment::open() {
  auto facts = cluster_.authority().facts();
  auto at = facts ? join_address(facts->listen) : std::nullopt;
  auto mine = cluster_.authority().credentials();
  if (!at || !mine)
    return security_failure{security_error::wrong_state, "this node has no address to join at"};
  if (server_ && address_ == *at)
    return std::nullopt;
  // The home has moved since: nobody would listen where a new token sends its node.
  close();
  grpc::SslServerCredentialsOptions tls{GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE};
  tls.pem_key_cert_pairs.push_back({std::string{mine->key_pem.view()}, mine->chain_pem});
  service_ = std::make_unique<service>(*this);
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort(*at, grpc::SslServerCredentials(tls), &port);
  builder.SetMaxReceiveMessageSize(static_cast<int>(limits::join_request_bytes_max));
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, limits::join_streams_max);
  builder.RegisterService(service_.get());
  server_ = builder.BuildAndStart();
  if (server_ && port != 0) {
    certificate_ends_ms_ = mine->certificate.not_after_ms;
    renewed_ = false;
    address_ = *at;
    return std::nullopt;
  }
  server_ = nullptr;
  service_ = nullptr;
  return security_failure{security_error::wrong_state,
                          concat({"cannot listen at ", *at, " for nodes that join: the port after that of --listen must be free"})};
}

void enrollment::close() {
  if (server_) {
    server_->Shutdown(std::chrono::system_clock::now() + limits::join_grace);
    server_->Wait();
  }
  server_ = nullptr;
  service_ = nullptr;
}

/// A node that tries to join while the listener reopens is refused, so this is done only when the certificate is about to end.
void enrollment::take_certificate() {
  close();
  if (auto failed = open())
    log::warn({"nodes cannot join: ", failed->text});
}

/// Closes the listener when the last token has expired, and reopens it with the newer certificate before the present one ends.
void enrollment::close_in_time() {
  std::unique_lock lock{mutex_};
  while (!stopping_) {
    if (!server_) {
      changed_.wait(lock);
      continue;
    }
    auto now = clock_.unix_ms();
    auto left = cluster_.tokens().open_until(now) - now;
    auto certified = certificate_ends_ms_ - limits::join_certificate_change.count() - now;
    if (left <= 0)
      close();
    else if (renewed_ && certified <= 0)
      take_certificate();
    else
      changed_.wait_for(lock, std::chrono::milliseconds{renewed_ ? std::min(left, certified) : left});
  }
}

namespace {

struct admission {
  std::string authority; // DER
  v1::JoinReply reply;
};

/// One attempt. The home answers the same request again as it did before. `no_answer`: the home was not reached, or cut the call off.
security_result<admission> ask_home(const join_token& token, const v1::JoinRequest& ask, bool& no_answer) {
  auto ca = probe_authority(token.address, token.ca_sha256, limits::cluster_call_timeout);
  no_answer = !ca && ca.failure().code == security_error::unreachable;
  if (!ca)
    return ca.failure();
  auto ca_pem = certificate_to_pem(*ca);
  if (!ca_pem)
    return ca_pem.failure();
  grpc::SslCredentialsOptions tls;
  tls.pem_root_certs = *ca_pem;
  grpc::ChannelArguments arguments;
  set_link_arguments(arguments);
  arguments.SetSslTargetNameOverride(node_dns_name(token.home_id));
  auto stub = v1::Enrollment::NewStub(grpc::CreateCustomChannel(token.address, grpc::SslCredentials(tls), arguments));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + limits::cluster_call_timeout);
  admission in;
  auto s = stub->Join(&context, ask, &in.reply);
  no_answer = s.error_code() == grpc::StatusCode::UNAVAILABLE;
  if (!s.ok())
    return security_failure{security_error::unreachable,
                            concat({"the home of the cluster, at ", token.address, ", did not let this node in: ", failure_text(s.error_message())})};
  in.authority = std::move(*ca);
  return in;
}

/// Makes a second attempt when the first is cut off: the home reopens its join listener when its certificate is renewed.
security_result<admission> ask_home_patiently(const join_token& token, const v1::JoinRequest& ask,
                                              const std::function<bool(std::chrono::milliseconds)>& pause) {
  auto no_answer = false;
  auto in = ask_home(token, ask, no_answer);
  if (!no_answer || !pause(limits::join_retry_after))
    return in;
  return ask_home(token, ask, no_answer);
}

/// The node's own port at the home that the join listener belongs to.
std::string home_address(const join_token& token) {
  const auto at = parse_address(token.address);
  unsigned port = 0;
  if (at)
    std::from_chars(at->port.data(), at->port.data() + at->port.size(), port);
  return concat({token.address.substr(0, token.address.rfind(':') + 1), port - 1});
}

/// A forced leave that the home has not heard of: it hears of it now, with the certificate of then, and lets the node in again. Whether that works is
/// for the join to say.
void tell_of_leave(const std::filesystem::path& left, const join_token& token, const node_facts& facts) {
  std::error_code error;
  if (!std::filesystem::exists(left, error))
    return;
  auto store = authority_store::open(left);
  const auto then = store ? (*store)->facts() : std::nullopt;
  auto mine = store ? (*store)->credentials() : security_result<node_credentials>{store.failure()};
  if (!then || !mine || then->home_id != token.home_id || sha256(mine->authority_der) != token.ca_sha256)
    return;
  v1::NodeAddress home;
  home.set_node_id(token.home_id);
  home.set_address(home_address(token));
  auto stub = v1::Federation::NewStub(channel_with(*mine, home));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + limits::cluster_call_timeout);
  context.AddMetadata(run_metadata, std::to_string(facts.incarnation));
  v1::LeaveReply reply;
  if (auto s = stub->Leave(&context, v1::LeaveRequest{}, &reply); !s.ok())
    return log::warn({"the home does not take notice of this node's leave: ", failure_text(s.error_message())});
  std::filesystem::remove_all(left, error);
}

} // namespace

std::optional<security_failure> join_cluster(cluster& mine, const node_facts& facts, std::string_view text, const std::string& listen,
                                             std::int64_t now_ms, const std::function<bool(std::chrono::milliseconds)>& pause) {
  if (auto now_in = mine.authority().facts())
    return security_failure{security_error::wrong_state, concat({"this node is in a cluster already, whose home is ", now_in->home_name})};
  if (!listen.empty() && !parse_address(listen))
    return security_failure{security_error::malformed, "--listen must be host:port"};
  auto token = parse_join_token(text);
  if (!token)
    return token.failure();
  tell_of_leave(mine.authority().left(), *token, facts);
  auto csr = mine.authority().request_certificate(facts.node_id);
  if (!csr)
    return csr.failure();
  v1::JoinRequest ask;
  ask.set_token_id(to_hex(token->id));
  ask.set_secret(token->key.view().data(), token->key.size());
  ask.set_csr(*csr);
  ask.set_node_id(facts.node_id);
  ask.set_node_name(facts.node_name);
  ask.set_version(facts.version);
  ask.set_listen(listen);
  auto in_cluster = ask_home_patiently(*token, ask, pause);
  if (!in_cluster)
    return in_cluster.failure();
  const auto& [ca, reply] = *in_cluster;
  if (reply.home().node_id() != token->home_id || reply.ca() != ca)
    return security_failure{security_error::other_cluster, "the home answered for another cluster than the token's"};
  cluster_facts in;
  in.cluster_id = reply.cluster_id();
  in.node_id = facts.node_id;
  in.home_id = reply.home().node_id();
  in.home_name = reply.home().node_name();
  in.home_address = reply.home().address();
  in.listen = listen;
  if (auto failed = mine.authority().join(in, reply.certificate(), reply.ca(), now_ms))
    return failed;
  mine.reload();
  return std::nullopt;
}

} // namespace swarm
