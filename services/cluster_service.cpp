#include "services/cluster_service.hpp"

#include <spdlog/spdlog.h>

#include "actors/base/crypto.hpp"
#include "actors/base/limits.hpp"
#include "actors/runtime/ending.hpp"
#include "services/operator_only.hpp"
#include "services/security/join_token.hpp"

namespace swarm {

namespace {

constexpr std::size_t waiting_max = 16;

grpc::Status status_of(const std::optional<security_failure>& f) {
  if (!f)
    return grpc::Status::OK;
  if (f->code == security_error::malformed || f->code == security_error::mistyped || f->code == security_error::truncated)
    return {grpc::StatusCode::INVALID_ARGUMENT, f->text};
  if (f->code == security_error::wrong_passphrase)
    return {grpc::StatusCode::PERMISSION_DENIED, f->text};
  return {grpc::StatusCode::FAILED_PRECONDITION, f->text};
}

} // namespace

blocking_worker::~blocking_worker() {
  {
    std::lock_guard guard{mutex_};
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

bool blocking_worker::post(std::function<void()> work) {
  {
    std::lock_guard guard{mutex_};
    if (ending_ || waiting_.size() >= waiting_max)
      return false;
    waiting_.push_back(std::move(work));
  }
  changed_.notify_all();
  return true;
}

/// What was posted is done before it ends: somebody waits for the answer.
void blocking_worker::run() {
  std::unique_lock lock{mutex_};
  for (;;) {
    changed_.wait(lock, [this] { return ending_ || !waiting_.empty(); });
    if (waiting_.empty())
      return;
    auto work = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    work();
    lock.lock();
  }
}

cluster_service::cluster_service(service_context context, cluster& of, links& transport)
  : context_(std::move(context)), cluster_(of), links_(transport), enrollment_(of, *context_.node->clock, [this] { tell_federation(); }) {}

cluster_service::~cluster_service() { stop(); }

void cluster_service::start() {
  auto facts = cluster_.authority().facts();
  if (!facts)
    return;
  if (auto wrong = links_.serve(facts->listen))
    spdlog::error("other nodes cannot reach this one: {}", *wrong);
  if (facts->is_home())
    enrollment_.resume();
}

void cluster_service::stop() {
  enrollment_.stop();
  links_.stop();
}

/// The actor looks at the files' view of the cluster anew.
void cluster_service::tell_federation() {
  if (auto federation = context_.board->get().federation)
    caf::anon_send(federation, std::make_shared<const v1::ClusterView>(cluster_.view()));
}

/// For the operator; `act` gives what went wrong.
template <class Act>
grpc::ServerUnaryReactor* cluster_service::in_background(grpc::CallbackServerContext* ctx, Act act) {
  auto in = admit_operator(context_, *ctx);
  if (!in.status.ok())
    return finish_now(in.status);
  auto* reactor = ctx->DefaultReactor();
  if (!worker_.post([reactor, act, slot = in.slot] { reactor->Finish(status_of(act())); }))
    reactor->Finish(to_status(errc::overloaded));
  return reactor;
}

std::optional<security_failure> cluster_service::found(const v1::FoundRequest& req, v1::FoundReply& rep) {
  auto& authority = cluster_.authority();
  if (!join_address(req.listen()))
    return security_failure{security_error::malformed, "--listen must be HOST:PORT as other hosts reach this one, with a free port after it"};
  if (auto facts = authority.facts()) {
    if (facts->listen != req.listen())
      if (auto failed = authority.set_listen(req.listen()))
        return failed;
  } else {
    if (req.passphrase().empty() && !req.insecure())
      return security_failure{security_error::malformed, "the cluster's authority needs a passphrase, or --insecure-ca to keep its key without one"};
    if (req.passphrase().size() > limits::passphrase_bytes_max)
      return security_failure{security_error::malformed, "the passphrase is longer than 1 KiB"};
    cluster_facts made;
    made.cluster_id = random_uuid();
    made.node_id = made.home_id = context_.node->facts.node_id;
    made.home_name = context_.node->facts.node_name;
    made.home_address = made.listen = req.listen();
    auto copy =
      authority.found(made, req.insecure() ? std::nullopt : std::optional<std::string_view>{req.passphrase()}, context_.node->clock->unix_ms());
    if (!copy)
      return copy.failure();
    rep.set_recovery_copy(copy->view().data(), copy->size());
  }
  cluster_.reload();
  if (auto wrong = links_.serve(req.listen()))
    return security_failure{security_error::wrong_state, *wrong};
  tell_federation();
  *rep.mutable_view() = cluster_.view();
  return std::nullopt;
}

grpc::ServerUnaryReactor* cluster_service::Found(grpc::CallbackServerContext* ctx, const v1::FoundRequest* req, v1::FoundReply* rep) {
  return in_background(ctx, [this, req, rep] { return found(*req, *rep); });
}

grpc::ServerUnaryReactor* cluster_service::CreateJoinToken(grpc::CallbackServerContext* ctx, const v1::CreateJoinTokenRequest* req,
                                                           v1::JoinToken* rep) {
  return in_background(ctx, [this, req, rep]() -> std::optional<security_failure> {
    if (req->ttl_ms() < 0 || req->ttl_ms() > limits::join_token_lifetime_max.count())
      return security_failure{security_error::malformed, "a join token counts for at most 24 hours"};
    std::int64_t expires_ms = 0;
    auto token = enrollment_.create_token(req->ttl_ms(), expires_ms);
    if (!token)
      return token.failure();
    rep->set_token(token->view().data(), token->size());
    rep->set_expires_at_ms(expires_ms);
    return std::nullopt;
  });
}

grpc::ServerUnaryReactor* cluster_service::JoinCluster(grpc::CallbackServerContext* ctx, const v1::JoinClusterRequest* req, v1::ClusterView* rep) {
  return in_background(ctx, [this, req, rep]() -> std::optional<security_failure> {
    const auto& node = *context_.node;
    if (req->token().size() > limits::join_token_bytes_max)
      return security_failure{security_error::malformed, "this is no join token: it is longer than one can be"};
    if (auto failed = join_cluster(cluster_, node.facts, req->token(), req->listen(), node.clock->unix_ms()))
      return failed;
    if (auto wrong = links_.serve(req->listen()))
      return security_failure{security_error::wrong_state, *wrong};
    tell_federation();
    // Shared scopes are another node's from now on: whoever looks after them here begins anew.
    if (auto front = context_.board->get().front)
      runtime::kill(front);
    *rep = cluster_.view();
    return std::nullopt;
  });
}

grpc::ServerUnaryReactor* cluster_service::ListNodes(grpc::CallbackServerContext* ctx, const v1::ListNodesRequest*, v1::ClusterView* rep) {
  return for_operator(context_, ctx, [this, rep](caf::event_based_actor* self, unary_ptr answer) {
    auto federation = context_.board->get().federation;
    if (!federation)
      return answer->finish(to_status(errc::unavailable));
    ask(self, federation, list_atom_v)
      .then(
        [this, answer, rep](const cluster_view_ptr& view) {
          *rep = *view;
          auto facts = cluster_.authority().facts();
          rep->set_authority_unlocked(facts && facts->is_home() && !cluster_.authority().locked(context_.node->clock->unix_ms()));
          answer->finish(grpc::Status::OK);
        },
        [answer](caf::error& e) { answer->finish(to_status(e)); });
  });
}

grpc::ServerUnaryReactor* cluster_service::UnlockAuthority(grpc::CallbackServerContext* ctx, const v1::UnlockAuthorityRequest* req,
                                                           v1::UnlockAuthorityReply* rep) {
  return in_background(ctx, [this, req, rep]() -> std::optional<security_failure> {
    if (req->passphrase().size() > limits::passphrase_bytes_max)
      return security_failure{security_error::malformed, "the passphrase is longer than 1 KiB"};
    auto until = cluster_.authority().unlock(req->passphrase(), context_.node->clock->unix_ms());
    if (!until)
      return until.failure();
    rep->set_until_ms(*until);
    return std::nullopt;
  });
}

grpc::ServerUnaryReactor* cluster_service::RevokeNode(grpc::CallbackServerContext* ctx, const v1::RevokeNodeRequest* req, v1::ClusterView* rep) {
  return in_background(ctx, [this, req, rep]() -> std::optional<security_failure> {
    if (auto failed = cluster_.revoke(req->node()))
      return failed;
    tell_federation();
    *rep = cluster_.view();
    return std::nullopt;
  });
}

} // namespace swarm
