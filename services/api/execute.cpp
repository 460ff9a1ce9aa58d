// Execute, Ask and WaitForActivity: one question, one answer.
#include <algorithm>

#include "actors/domain/rules.hpp"
#include "services/api/coordination_service.hpp"
#include "services/api/prompt_files.hpp"
#include "services/call/admitted_call.hpp"
#include "services/call/agent_call.hpp"
#include "services/call/asked_again.hpp"
#include "services/call/deadline.hpp"
#include "services/call/requests.hpp"

namespace swarm {

namespace {

/// The mailbox looks for the session as the node, which may cross identities: what a session may not override must not get there.
wait_request_ptr without_override(const service_environment& service, const v1::WaitRequest& req, const v1::Principal& who) {
  auto out = std::make_shared<v1::WaitRequest>(req);
  out->set_scope(service.nodes.shared().scope_of(req.scope()));
  if (domain::may(who, domain::operation::cross_identity))
    out->mutable_caller()->set_allow_cross_identity(false);
  return out;
}

/// Hands the call to the actor of short calls.
grpc::ServerUnaryReactor* run_short(const service_environment& service, std::shared_ptr<void> keep, short_call::work run) {
  auto short_calls = service.board->get().short_calls;
  if (!short_calls)
    return finish_now(to_status(errc::unavailable));
  return run_short(service.system, short_calls, std::move(keep), std::move(run));
}

/// Asks the front and answers the call with what comes back, which `heard` hears before the caller.
template <class Reply, class Heard, class... Request>
void ask_front(short_calls_ptr short_calls, const service_environment& service, const short_call_ptr& call, Reply* rep, path_view paths, Heard heard,
               Request... request) {
  auto front = service.board->get().front;
  if (!front)
    return call->finish(to_status(errc::unavailable));
  ask(short_calls, front, std::move(request)...)
    .then(
      [call, rep, paths = std::move(paths), heard](const std::shared_ptr<const Reply>& answer) {
        heard(*answer);
        if (!call->open())
          return;
        *rep = *answer;
        paths.to_caller(*rep);
        call->finish(grpc::Status::OK);
      },
      [call](caf::error& e) { call->finish(to_status(e)); });
}

/// Says no to what is wrong by itself, and hands the rest to the front.
void go_on(short_calls_ptr short_calls, const service_environment& service, const claim& who, prepared_call prepared, const short_call_ptr& call,
           v1::Reply* rep) {
  if (prepared.refusal)
    service.refused.add_if_forbidden(prepared.call->what->command, *prepared.refusal);
  if (prepared.refusal)
    *rep->mutable_refusal() = std::move(*prepared.refusal);
  if (!prepared.status.ok() || prepared.refusal)
    call->finish(prepared.status);
  if (!call->open())
    return;
  call->on_abort(leaves_line(service, prepared.call));
  auto noted = [refused = &service.refused, asked = prepared.call](const v1::Reply& r) {
    if (r.has_refusal())
      refused->add_if_forbidden(asked->what->command, r.refusal());
  };
  if (has_files(prepared.call->what->command))
    return with_files(
      short_calls, std::make_shared<service_environment>(service), prepared.call,
      [=, paths = prepared.paths, asked = prepared.call] { ask_front(short_calls, service, call, rep, paths, noted, asked); },
      [call, rep](v1::Refusal why) {
        if (!call->open())
          return;
        *rep->mutable_refusal() = std::move(why);
        call->finish(grpc::Status::OK);
      });
  if (!prepared.call->what->command.has_register_session())
    return ask_front(short_calls, service, call, rep, std::move(prepared.paths), noted, prepared.call);
  auto heard = [noted, service, who, asked = prepared.call](const v1::Reply& r) {
    noted(r);
    if (!r.has_session())
      return;
    learn_checkout(service, asked->what->command, r.session().session());
    service.callers.registered(who, r.session().session(), service.node->clock->unix_ms());
  };
  ask_front(short_calls, service, call, rep, std::move(prepared.paths), heard, prepared.call);
}

} // namespace

grpc::ServerUnaryReactor* coordination_service::Execute(grpc::CallbackServerContext* ctx, const v1::ExecuteRequest* req, v1::Reply* rep) {
  return when_admitted(
    service_, *ctx, domain::operation::execute, std::nullopt,
    [&](admitted in) {
      if (req->more_size() > 0)
        return finish_now({grpc::StatusCode::INVALID_ARGUMENT, "several commands at once go through Pipeline"});
      const auto patience = patience_of(*ctx);
      // A caller who is known already is served here on gRPC's thread as far as possible: one actor serves all short calls.
      std::optional<prepared_call> prepared;
      if (in.who.is_final())
        prepared = prepare(service_, *req, in.who, in.who.principal, patience);
      return run_short(service_, in.slot,
                       [service = service_, who = std::move(in.who), prepared = std::move(prepared), patience, req,
                        rep](short_calls_ptr short_calls, const short_call_ptr& call) mutable {
                         if (prepared)
                           return go_on(short_calls, service, who, std::move(*prepared), call, rep);
                         with_principal(
                           short_calls, service, who,
                           [=](const v1::Principal& principal) {
                             if (call->open())
                               go_on(short_calls, service, who, prepare(service, *req, who, principal, patience), call, rep);
                           },
                           [call](grpc::Status s) { call->finish(std::move(s)); });
                       });
    },
    req->command().has_register_session() ? look_again::always : look_again::if_needed);
}

grpc::ServerUnaryReactor* coordination_service::Ask(grpc::CallbackServerContext* ctx, const v1::Query* req, v1::Answer* rep) {
  return when_admitted(service_, *ctx, domain::operation::ask, wrong_scope(req->scope(), scope_is::optional), [&](admitted in) {
    return run_short(
      service_, in.slot,
      [service = service_, who = std::move(in.who), patience = patience_of(*ctx), req, rep](short_calls_ptr short_calls, const short_call_ptr& call) {
        with_principal(
          short_calls, service, who,
          [=](const v1::Principal& principal) {
            if (!call->open())
              return;
            auto q = std::make_shared<v1::Query>(*req);
            *q->mutable_principal() = speaker(service.callers.places(), who, principal, req->viewer());
            path_view paths{service.nodes.shared(), *q->mutable_scope(), q->caller().directory()};
            paths.to_store(*q);
            auto noted = [refused = &service.refused, q](const v1::Answer& a) {
              if (a.has_refusal())
                refused->add_if_forbidden(*q, a.refusal());
            };
            if (patience)
              ask_front(short_calls, service, call, rep, std::move(paths), noted, query_ptr{q}, caf::timespan{*patience});
            else
              ask_front(short_calls, service, call, rep, std::move(paths), noted, query_ptr{q});
          },
          [call](grpc::Status s) { call->finish(std::move(s)); });
      });
  });
}

grpc::ServerUnaryReactor* coordination_service::WaitForActivity(grpc::CallbackServerContext* ctx, const v1::WaitRequest* req, v1::Activity* rep) {
  return when_admitted(service_, *ctx, domain::operation::wait_for_activity, wrong_with(*req), [&](admitted in) {
    return run_unary(service_.system, in.slot, [service = service_, who = in.who, req, rep](caf::event_based_actor* self, unary_ptr answer) {
      with_principal(
        self, service, who,
        [=](const v1::Principal& principal) {
          if (principal.kind() == v1::Principal::SESSION && principal.id() != req->session_id())
            return answer->finish(
              note(service, who, principal, {grpc::StatusCode::PERMISSION_DENIED, "a session may only wait for its own activity"}));
          auto front = service.board->get().front;
          if (!front)
            return answer->finish(to_status(errc::unavailable));
          auto wait = without_override(service, *req, principal);
          auto scope = req->scope();
          path_view paths{service.nodes.shared(), scope, req->caller().directory()};
          ask(self, front, wait)
            .then(
              [answer, rep, paths](const activity_ptr& a) {
                *rep = *a;
                paths.to_caller(*rep);
                answer->finish(grpc::Status::OK);
              },
              [answer](caf::error& e) { answer->finish(to_status(e)); });
        },
        asked_again(self, [answer](grpc::Status s) { answer->finish(std::move(s)); }));
    });
  });
}

} // namespace swarm
