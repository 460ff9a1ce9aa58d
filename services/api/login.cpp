// Login, Logout and SetPassphrase: a person shows at a terminal that it is one.
#include "services/api/node_service.hpp"
#include "services/call/admitted_call.hpp"
#include "services/call/status.hpp"
#include "services/security/passphrase.hpp"

namespace swarm {

namespace {

/// Copied out of a request whose own copy is overwritten then.
secret taken(const std::string& from) {
  secret out{from};
  wipe(const_cast<std::string&>(from)); // the request is this call's alone
  return out;
}

security_failure no_terminal() {
  return {
    security_error::wrong_state,
    "this process has no terminal of its own: log in at the shell of a terminal, not below an agent, in the background or in a worker of the node"};
}

} // namespace

grpc::ServerUnaryReactor* node_service::Login(grpc::CallbackServerContext* ctx, const v1::LoginRequest* req, v1::LoginReply* rep) {
  // Who is no person yet may ask: whose process it is decides below.
  return when_admitted(service_, *ctx, domain::operation::login, std::nullopt, [&](const admitted& in) {
    auto* reactor = ctx->DefaultReactor();
    auto shown = std::make_shared<secret>(taken(req->passphrase()));
    const auto pid = static_cast<pid_t>(service_.callers.process_of(*ctx));
    const bool of_worker = in.who.share.starts_with(workers_share);
    auto act = [this, rep, shown, pid, of_worker]() -> std::optional<security_failure> {
      auto session = of_worker ? std::nullopt : person_session_of(pid, service_.callers.sessions());
      if (!session)
        return no_terminal();
      auto valid_ms = logins_.login(*session, shown->view());
      if (!valid_ms)
        return valid_ms.failure();
      rep->set_until_ms(service_.node->clock->unix_ms() + *valid_ms);
      return std::nullopt;
    };
    if (!worker_.post([reactor, act, slot = in.slot] { reactor->Finish(status_of(act())); }))
      reactor->Finish(to_status(errc::overloaded));
    return reactor;
  });
}

grpc::ServerUnaryReactor* node_service::Logout(grpc::CallbackServerContext* ctx, const v1::LogoutRequest* req, v1::LogoutReply* rep) {
  return when_admitted(service_, *ctx, domain::operation::logout, std::nullopt, [&](const admitted&) -> grpc::ServerUnaryReactor* {
    auto* reactor = ctx->DefaultReactor();
    const auto session = person_session_of(static_cast<pid_t>(service_.callers.process_of(*ctx)), service_.callers.sessions());
    if (req->all())
      rep->set_ended(static_cast<std::uint32_t>(logins_.logout_all())); // less for everybody is no harm
    else if (session && logins_.logout(*session))
      rep->set_ended(1);
    reactor->Finish(grpc::Status::OK);
    return reactor;
  });
}

grpc::ServerUnaryReactor* node_service::SetPassphrase(grpc::CallbackServerContext* ctx, const v1::SetPassphraseRequest* req,
                                                      v1::SetPassphraseReply* rep) {
  return when_admitted(service_, *ctx, domain::operation::set_passphrase, std::nullopt, [&](const admitted& in) {
    auto* reactor = ctx->DefaultReactor();
    auto former = std::make_shared<secret>(taken(req->former())), fresh = std::make_shared<secret>(taken(req->passphrase()));
    const auto pid = static_cast<pid_t>(service_.callers.process_of(*ctx));
    auto act = [this, rep, former, fresh, pid]() -> std::optional<security_failure> {
      rep->set_set(!fresh->empty());
      return logins_.set_passphrase(person_session_of(pid, service_.callers.sessions()).value_or(kernel_session{}), former->view(), fresh->view());
    };
    if (!worker_.post([reactor, act, slot = in.slot] { reactor->Finish(status_of(act())); }))
      reactor->Finish(to_status(errc::overloaded));
    return reactor;
  });
}

} // namespace swarm
