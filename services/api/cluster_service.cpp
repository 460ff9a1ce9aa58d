#include "services/api/cluster_service.hpp"

#include <algorithm>
#include <filesystem>

#include "actors/base/crypto.hpp"
#include "actors/base/limits.hpp"
#include "actors/base/log.hpp"
#include "actors/base/paths.hpp"
#include "actors/base/text.hpp"
#include "actors/fabric/cluster/link.hpp"
#include "actors/runtime/ending.hpp"
#include "services/call/admitted_call.hpp"
#include "services/call/status.hpp"
#include "services/federation/failure_text.hpp"
#include "services/federation/listen_address.hpp"
#include "services/security/certificate.hpp"
#include "services/security/join_token.hpp"

namespace swarm {

cluster_service::cluster_service(service_environment service, cluster& of, links& transport, std::function<void()> end_node)
  : service_(std::move(service)), cluster_(of), links_(transport), listener_(of, transport, *service_.node->clock,
                                                                             {[this] { tell_federation(); },
                                                                              [end_node = std::move(end_node)](const std::string& why) {
                                                                                log::critical({"the node stops: ", why});
                                                                                end_node();
                                                                              }}),
    enrollment_(
      of, *service_.node->clock, [this] { tell_federation(); }, [this](std::string why) { links_.report_refused(std::move(why)); }),
    renewal_(of, transport, *service_.node->clock, [this] { take_certificate(); }) {
  links_.answer_with(this);
  cluster_.on_unlocked([this] { renewal_.wake(); });
}

cluster_service::~cluster_service() { stop(); }

void cluster_service::start() {
  auto facts = cluster_.authority().facts();
  if (!facts)
    return;
  listener_.begin(facts->listen);
  if (facts->is_home())
    enrollment_.resume();
}

void cluster_service::stop() {
  cluster_.on_unlocked(nullptr);
  renewal_.stop();
  enrollment_.stop();
  listener_.stop();
  links_.stop();
}

void cluster_service::take_certificate() {
  cluster_.reload();
  if (auto facts = cluster_.authority().facts(); facts && !facts->listen.empty())
    listener_.begin(facts->listen);
  enrollment_.renewed();
  tell_federation();
}

/// The actor looks at the files' view of the cluster again.
void cluster_service::tell_federation() {
  if (auto federation = service_.board->get().federation)
    caf::anon_send(federation, std::make_shared<const v1::ClusterView>(cluster_.view()));
}

/// `act` gives what went wrong.
template <class Act>
grpc::ServerUnaryReactor* cluster_service::in_background(grpc::CallbackServerContext* ctx, domain::operation what, Act act) {
  return when_admitted(service_, *ctx, what, std::nullopt, [&](const admitted& in) {
    auto* reactor = ctx->DefaultReactor();
    if (!worker_.post([reactor, act, slot = in.slot] { reactor->Finish(status_of(act())); }))
      reactor->Finish(to_status(errc::overloaded));
    return reactor;
  });
}

/// Binds first: where that fails, the node goes on to listen where it did, and its files say so.
std::optional<security_failure> cluster_service::move_listener(const cluster_facts& before, const std::string& address) {
  if (auto wrong = listener_.move(address))
    return security_failure{security_error::wrong_state,
                            before.listen == address ? *wrong : concat({*wrong, ". The address is ", before.listen, " as before"})};
  if (before.listen == address)
    return std::nullopt;
  if (auto failed = cluster_.authority().set_listen(address)) {
    listener_.begin(before.listen);
    return failed;
  }
  cluster_.reload();
  return std::nullopt;
}

std::optional<security_failure> cluster_service::found(const v1::FoundRequest& req, v1::FoundReply& rep) {
  auto& authority = cluster_.authority();
  if (!join_address(req.listen()))
    return security_failure{security_error::malformed, "--listen must be HOST:PORT as other hosts reach this one, with a free port after it"};
  if (names_no_host(req.listen()))
    return security_failure{security_error::malformed, concat({"--listen is also where other hosts look for this one, and nobody can call ",
                                                               req.listen(), ": name the address of this host that they reach"})};
  if (auto facts = authority.facts()) {
    if (auto failed = move_listener(*facts, req.listen()))
      return failed;
  } else {
    if (req.passphrase().empty() && !req.insecure())
      return security_failure{security_error::malformed, "the cluster's authority needs a passphrase, or --insecure-ca to keep its key without one"};
    if (req.passphrase().size() > limits::passphrase_bytes_max)
      return security_failure{security_error::malformed, "the passphrase is longer than 1 KiB"};
    cluster_facts made;
    made.cluster_id = random_uuid();
    made.node_id = made.home_id = service_.node->facts.node_id;
    made.home_name = service_.node->facts.node_name;
    made.home_address = made.listen = req.listen();
    auto copy =
      authority.found(made, req.insecure() ? std::nullopt : std::optional<std::string_view>{req.passphrase()}, service_.node->clock->unix_ms());
    if (!copy)
      return copy.failure();
    rep.set_recovery_copy(copy->view().data(), copy->size());
    cluster_.reload();
    renewal_.wake(); // a new authority is unlocked, also where nothing can be listened at
    if (auto wrong = listener_.begin(req.listen()))
      return security_failure{
        security_error::wrong_state,
        concat({*wrong, rep.recovery_copy().empty() ? "" : ". The cluster is founded; its recovery copy is what cluster/ca.key holds",
                ". It tries again until it can; `swarmctl up --listen HOST:PORT` names another address"})};
  }
  tell_federation();
  *rep.mutable_view() = cluster_.view();
  return std::nullopt;
}

/// A node that is in no cluster goes on with `act` in the background unless its named scopes are in use; `consequence` says what for.
template <class Act>
grpc::ServerUnaryReactor* cluster_service::if_scopes_are_free(grpc::CallbackServerContext* ctx, domain::operation what, use_of_scope use,
                                                              const char* consequence, Act act) {
  return for_admitted(service_, ctx, what, [this, use, consequence, act](caf::event_based_actor* self, unary_ptr answer) {
    auto go = [this, answer, act] {
      if (!worker_.post([answer, act] { answer->finish(status_of(act())); }))
        answer->finish(to_status(errc::overloaded));
    };
    if (cluster_.authority().facts())
      return go();
    auto done = [answer, go, consequence](const std::string& found) {
      if (found.empty())
        return go();
      answer->finish({grpc::StatusCode::FAILED_PRECONDITION,
                      concat({"named scopes of this host are in use, and ", consequence, ": ", found,
                              ". End that first; `swarmctl --scope NAME locks`, `instances` and `tasks --open` list it, and `unlock`, `deregister "
                              "--as WHO` and `cancel` end it"})});
    };
    find_named_in_use(self, service_, use, done, answer);
  });
}

grpc::ServerUnaryReactor* cluster_service::Found(grpc::CallbackServerContext* ctx, const v1::FoundRequest* req, v1::FoundReply* rep) {
  return if_scopes_are_free(ctx, domain::operation::cluster_found, use_of_scope::locks,
                            "other hosts will share them, where a path may mean another file", [this, req, rep] { return found(*req, *rep); });
}

grpc::ServerUnaryReactor* cluster_service::CreateJoinToken(grpc::CallbackServerContext* ctx, const v1::CreateJoinTokenRequest* req,
                                                           v1::JoinToken* rep) {
  return in_background(ctx, domain::operation::cluster_create_join_token, [this, req, rep]() -> std::optional<security_failure> {
    if (req->ttl_ms() < 0 || req->ttl_ms() > limits::join_token_lifetime_max.count())
      return security_failure{security_error::malformed, "a join token is valid for at most 24 hours"};
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
  auto join = [this, req, rep]() -> std::optional<security_failure> {
    const auto& node = *service_.node;
    if (req->token().size() > limits::join_token_bytes_max)
      return security_failure{security_error::malformed, "this is no join token: it is longer than one can be"};
    if (auto failed =
          join_cluster(cluster_, node.facts, req->token(), req->listen(), node.clock->unix_ms(), [this](auto span) { return worker_.pause(span); }))
      return failed;
    auto wrong = listener_.begin(req->listen());
    renewal_.wake();
    tell_federation();
    begin_scopes_anew();
    *rep = cluster_.view();
    if (wrong)
      return security_failure{security_error::wrong_state, concat({"this node has joined and is linked to its home, but ", *wrong,
                                                                   ": `swarmctl up --listen HOST:PORT` names another"})};
    return std::nullopt;
  };
  return if_scopes_are_free(ctx, domain::operation::cluster_join, use_of_scope::anything, "the scopes of the home take their place", join);
}

grpc::ServerUnaryReactor* cluster_service::ListNodes(grpc::CallbackServerContext* ctx, const v1::ListNodesRequest*, v1::ClusterView* rep) {
  return for_admitted(service_, ctx, domain::operation::cluster_list_nodes, [this, rep](caf::event_based_actor* self, unary_ptr answer) {
    auto federation = service_.board->get().federation;
    if (!federation)
      return answer->finish(to_status(errc::unavailable));
    ask(self, federation, list_atom_v)
      .then(
        [answer, rep](const cluster_view_ptr& view) {
          *rep = *view;
          answer->finish(grpc::Status::OK);
        },
        [answer](caf::error& e) { answer->finish(to_status(e)); });
  });
}

grpc::ServerUnaryReactor* cluster_service::UnlockAuthority(grpc::CallbackServerContext* ctx, const v1::UnlockAuthorityRequest* req,
                                                           v1::UnlockAuthorityReply* rep) {
  return in_background(ctx, domain::operation::cluster_unlock_authority, [this, req, rep]() -> std::optional<security_failure> {
    if (req->passphrase().size() > limits::passphrase_bytes_max)
      return security_failure{security_error::malformed, "the passphrase is longer than 1 KiB"};
    auto until = cluster_.authority().unlock(req->passphrase(), service_.node->clock->unix_ms());
    if (!until)
      return until.failure();
    rep->set_until_ms(*until);
    renewal_.wake();
    tell_federation(); // nodes whose certificates end soon hear of it
    return std::nullopt;
  });
}

grpc::ServerUnaryReactor* cluster_service::RevokeNode(grpc::CallbackServerContext* ctx, const v1::RevokeNodeRequest* req, v1::ClusterView* rep) {
  return in_background(ctx, domain::operation::cluster_revoke_node, [this, req, rep]() -> std::optional<security_failure> {
    if (auto failed = cluster_.revoke(req->node()))
      return failed;
    tell_federation();
    *rep = cluster_.view();
    return std::nullopt;
  });
}

// -- going, and getting no more ----------------------------------------------------------------

/// Shared scopes are another node's from now on, or this one's: their caretaker here starts again.
void cluster_service::begin_scopes_anew() {
  if (auto front = service_.board->get().front)
    runtime::kill(front);
}

std::optional<security_failure>
cluster_service::ask_home(const std::function<grpc::Status(v1::Federation::Stub&, grpc::ClientContext&)>& call) const {
  auto facts = cluster_.authority().facts();
  if (!facts)
    return security_failure{security_error::wrong_state, "this node is in no cluster"};
  const auto view = cluster_.view();
  if (std::any_of(view.nodes().begin(), view.nodes().end(), [](const auto& n) { return n.home() && n.link() == v1::ClusterNode::REVOKED; }))
    return security_failure{security_error::revoked, revoked_by(facts->home_name)};
  v1::NodeAddress home;
  home.set_node_id(facts->home_id);
  home.set_address(facts->home_address);
  auto channel = links_.channel_to(home);
  if (!channel)
    return channel.failure();
  auto stub = v1::Federation::NewStub(*channel);
  grpc::ClientContext service;
  service.set_deadline(std::chrono::system_clock::now() + limits::cluster_call_timeout);
  service.AddMetadata(run_metadata, std::to_string(service_.node->facts.incarnation));
  auto s = call(*stub, service);
  if (s.ok())
    return std::nullopt;
  auto away = s.error_code() == grpc::StatusCode::UNAVAILABLE || s.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED;
  return security_failure{away ? security_error::unreachable : security_error::wrong_state,
                          away ? concat({"the home of the cluster, ", facts->home_name, ", is not reached: ", failure_text(s.error_message())})
                               : s.error_message()};
}

std::optional<security_failure> cluster_service::drain_here_or_at_home(const v1::DrainNodeRequest& req, v1::ClusterView& view) {
  auto facts = cluster_.authority().facts();
  if (facts && !facts->is_home()) {
    v1::ClusterView of_home;
    if (auto failed = ask_home([&](v1::Federation::Stub& home, grpc::ClientContext& c) { return home.Drain(&c, req, &of_home); }))
      return failed;
    // Links are told as this node has them, whichever node decides.
    cluster_.keep(of_home);
    view = cluster_.view();
    return std::nullopt;
  }
  if (auto failed = cluster_.drain(req.node(), req.off()))
    return failed;
  tell_federation();
  view = cluster_.view();
  return std::nullopt;
}

grpc::ServerUnaryReactor* cluster_service::DrainNode(grpc::CallbackServerContext* ctx, const v1::DrainNodeRequest* req, v1::ClusterView* rep) {
  return in_background(ctx, domain::operation::cluster_drain_node, [this, req, rep] { return drain_here_or_at_home(*req, *rep); });
}

/// The home lets this node go. With `force` the reply says what is left to do when it does not, and `is_told` whether it knows.
std::optional<security_failure> cluster_service::tell_home_of_leave(const std::string& home_name, bool force, v1::LeaveClusterReply& rep,
                                                                    bool& is_told) {
  bool is_copy = false;
  auto failed = ask_home([&is_copy](v1::Federation::Stub& home, grpc::ClientContext& c) {
    v1::LeaveReply said;
    auto s = home.Leave(&c, v1::LeaveRequest{}, &said);
    is_copy = s.error_code() == grpc::StatusCode::ALREADY_EXISTS;
    return s;
  });
  if (!failed || failed->code == security_error::revoked)
    return std::nullopt;
  const auto why = is_copy ? concat({home_name, " did not let this node leave: ", failed->text}) : failed->text;
  if (!force)
    return security_failure{failed->code, why + (is_copy ? "; --force leaves here only" : "; --force leaves without it")};
  // To tell it later, or to revoke the id, would take the other node out of the cluster.
  is_told = is_copy;
  const auto name = cluster_.name();
  rep.set_warning(is_copy ? concat({why, ". This one has left here only. To join as a host of its own, it needs a new state directory"})
                          : concat({why, ". It keeps this host in its list, as ", name,
                                    ", until this host joins again, which takes a new join token only. ", "If this host never comes back, run at ",
                                    home_name, ": swarmctl node revoke ", name, ". After that it can join only with a new state directory"}));
  return std::nullopt;
}

std::optional<security_failure> cluster_service::leave_cluster(bool force, v1::LeaveClusterReply& rep) {
  auto facts = cluster_.authority().facts();
  if (!facts)
    return security_failure{security_error::wrong_state, "this node is in no cluster"};
  bool home_is_told = true;
  if (facts->is_home()) {
    const auto view = cluster_.view();
    std::string members;
    for (const auto& n : view.nodes())
      if (n.link() != v1::ClusterNode::SELF && n.link() != v1::ClusterNode::REVOKED)
        members += (members.empty() ? "" : ", ") + n.info().node_name();
    if (!members.empty())
      return security_failure{security_error::wrong_state,
                              concat({"this node is the home of a cluster that has members: ", members,
                                      ". First run `swarmctl leave` on each of them, or `swarmctl node revoke NODE` here"})};
  } else if (auto failed = tell_home_of_leave(facts->home_name, force, rep, home_is_told)) {
    return failed;
  }
  if (auto failed = cluster_.authority().leave(home_is_told))
    return failed;
  listener_.begin("");
  cluster_.reload();
  log::info({"this node has left its cluster"});
  tell_federation();
  begin_scopes_anew();
  return std::nullopt;
}

grpc::ServerUnaryReactor* cluster_service::LeaveCluster(grpc::CallbackServerContext* ctx, const v1::LeaveClusterRequest* req,
                                                        v1::LeaveClusterReply* rep) {
  return for_admitted(service_, ctx, domain::operation::cluster_leave, [this, req, rep](caf::event_based_actor* self, unary_ptr answer) {
    auto processes = service_.board->get().processes;
    if (!processes)
      return answer->finish(to_status(errc::unavailable));
    auto go = [this, answer, force = req->force(), rep, processes](const std::vector<std::string>& running) {
      auto posted = worker_.post([this, answer, force, rep, processes, running] {
        auto failed = leave_cluster(force, *rep);
        if (!failed)
          for (const auto& id : running)
            caf::anon_send(processes, kill_atom_v, id, std::int32_t{0});
        answer->finish(status_of(failed));
      });
      if (!posted)
        answer->finish(to_status(errc::overloaded));
    };
    ask(self, processes, list_atom_v, std::string{})
      .then(
        [this, answer, go, force = req->force()](const std::vector<pty_info_ptr>& all) {
          std::vector<std::string> running;
          for (const auto& p : all)
            if (p->running() && cluster_.is_shared(p->scope()))
              running.push_back(p->id());
          if (!running.empty() && !force)
            return answer->finish(
              {grpc::StatusCode::FAILED_PRECONDITION,
               concat({running.size(), running.size() == 1 ? " worker of a shared scope runs" : " workers of shared scopes run",
                       " here and would end: `swarmctl pty list` shows them. Wait for them, after `swarmctl drain`, or leave with --force"})});
          go(running);
        },
        [answer](caf::error& e) { answer->finish(to_status(e)); });
  });
}

// -- what other nodes ask ----------------------------------------------------------------------

void cluster_service::renew(const std::string& node_id, const v1::RenewRequest& req, v1::RenewReply& rep, done finished) {
  auto posted = for_nodes_.post([this, node_id, &req, &rep, finished] {
    auto now = service_.node->clock->unix_ms();
    auto& authority = cluster_.authority();
    if (authority.locked(now))
      return finished({grpc::StatusCode::FAILED_PRECONDITION, "the cluster's authority is locked: run `swarmctl ca unlock` there"});
    auto certificate = authority.issue(req.csr(), node_id, now);
    if (!certificate)
      return finished(status_of(certificate.failure()));
    if (auto info = read_certificate(*certificate))
      cluster_.renewed(node_id, info->not_after_ms);
    rep.set_certificate(*certificate);
    tell_federation();
    finished(grpc::Status::OK);
  });
  if (!posted)
    finished(to_status(errc::overloaded));
}

void cluster_service::leave(const std::string& node_id, done finished) {
  auto posted = for_nodes_.post([this, node_id, finished] {
    auto failed = cluster_.retire(node_id);
    if (!failed) {
      log::info({"the node ", node_id, " leaves the cluster"});
      tell_federation();
    }
    finished(status_of(failed));
  });
  if (!posted)
    finished(to_status(errc::overloaded));
}

void cluster_service::drain(const std::string& node_id, const v1::DrainNodeRequest& req, v1::ClusterView& view, done finished) {
  auto posted = for_nodes_.post([this, node_id, &req, &view, finished] {
    log::info({"the node ", node_id, " asks to ", req.off() ? "end the draining of" : "drain", " ", escape_control(req.node(), false)});
    finished(status_of(drain_here_or_at_home(req, view)));
  });
  if (!posted)
    finished(to_status(errc::overloaded));
}

// -- checkouts ---------------------------------------------------------------------------------

namespace {

bool is_root(const std::string& root) {
  return !root.empty() && root.front() == '/' && root.size() <= limits::path_bytes_max() && is_resolved_path(root);
}

} // namespace

grpc::ServerUnaryReactor* cluster_service::ShareScope(grpc::CallbackServerContext* ctx, const v1::ShareScopeRequest* req, v1::CheckoutList* rep) {
  return for_admitted(service_, ctx, domain::operation::cluster_share_scope, [this, req, rep](caf::event_based_actor* self, unary_ptr answer) {
    std::error_code ec;
    if (!is_root(req->root()))
      return answer->finish({grpc::StatusCode::INVALID_ARGUMENT, "the root of a checkout is an absolute path"});
    if (req->scope().size() > limits::path_bytes_max() || (!req->scope().empty() && !is_named_scope(req->scope())))
      return answer->finish({grpc::StatusCode::INVALID_ARGUMENT, "a shared scope is a name without a slash, or git: and the remote"});
    if (!is_repository_root(req->root()))
      return answer->finish(
        {grpc::StatusCode::FAILED_PRECONDITION,
         concat({req->root(), std::filesystem::is_directory(req->root(), ec) ? " is not the root of a git repository: make it one, with `git init`"
                                                                             : " is no directory"})});
    v1::Checkout c;
    c.set_root(req->root());
    c.set_scope(req->scope());
    c.set_remote(remote_of(c.root()));
    if (c.scope().empty() && c.remote().empty())
      return answer->finish(
        {grpc::StatusCode::FAILED_PRECONDITION, c.root() + " has no git remote \"origin\" to name the scope by: name it yourself, with --as NAME"});
    if (c.scope().empty())
      c.set_scope(std::string{git_scope_prefix} + c.remote());
    auto share = [this, answer, rep, c] {
      auto posted = worker_.post([this, answer, rep, c] {
        auto failed = cluster_.shared().share(c);
        if (!failed)
          cluster_.checkouts_changed();
        *rep = cluster_.shared().list();
        answer->finish(status_of(failed));
      });
      if (!posted)
        answer->finish(to_status(errc::overloaded));
    };
    // A session that works there already, in the directory's own scope or in the one it becomes part of, has named its files otherwise; so has one
    // that holds a lock there.
    auto keeps_names = [this, self, answer, share, c] {
      auto renamed = [this, c](const std::string& path) { return cluster_.shared().would_rename(c.scope(), c.root(), path); };
      if_locks_keep_names(self, service_, c.scope(), renamed, share, answer);
    };
    auto known = cluster_.shared().stored(c.scope(), c.root()) != c.root();
    auto then = known ? std::function<void()>{keeps_names}
                      : [this, self, answer, keeps_names, c] { if_unused(self, service_, c.scope(), c.root(), keeps_names, answer); };
    if_unused(self, service_, c.root(), {}, then, answer);
  });
}

grpc::ServerUnaryReactor* cluster_service::UnshareScope(grpc::CallbackServerContext* ctx, const v1::UnshareScopeRequest* req, v1::CheckoutList* rep) {
  return for_admitted(service_, ctx, domain::operation::cluster_unshare_scope, [this, req, rep](caf::event_based_actor* self, unary_ptr answer) {
    auto unshare = [this, answer, rep, root = req->root()] {
      auto posted = worker_.post([this, answer, rep, root] {
        auto failed = cluster_.shared().unshare(root);
        if (!failed)
          cluster_.checkouts_changed();
        *rep = cluster_.shared().list();
        answer->finish(status_of(failed));
      });
      if (!posted)
        answer->finish(to_status(errc::overloaded));
    };
    const auto all = cluster_.shared().list();
    for (const auto& c : all.checkouts())
      if (c.root() == req->root())
        return if_unused(
          self, service_, c.scope(), c.root(),
          [this, self, answer, unshare, scope = c.scope()] {
            // Which of the scope's checkouts on this host the holder meant is not known.
            auto renamed = [](const std::string& path) { return !path.starts_with('/'); };
            if_locks_keep_names(self, service_, scope, renamed, unshare, answer);
          },
          answer);
    unshare(); // says that there is none
  });
}

grpc::ServerUnaryReactor* cluster_service::ListCheckouts(grpc::CallbackServerContext* ctx, const v1::ListCheckoutsRequest*, v1::CheckoutList* rep) {
  return when_admitted(service_, *ctx, domain::operation::cluster_list_checkouts, std::nullopt, [&](const admitted&) {
    *rep = cluster_.shared().list();
    return finish_now(grpc::Status::OK);
  });
}

} // namespace swarm
