// Execute, Ask and WaitForActivity: one question, one answer.
#include <algorithm>

#include "actors/domain/rules.hpp"
#include "services/api/coordination_service.hpp"
#include "services/call/deadline.hpp"
#include "services/call/requests.hpp"

namespace swarm {

namespace {

/// The mailbox looks for the session as the node, which may cross identities: what a session may not override must not get there.
wait_request_ptr without_override(const service_context& context, const v1::WaitRequest& req, const v1::Principal& who) {
  auto out = std::make_shared<v1::WaitRequest>(req);
  out->set_scope(context.nodes.shared().scope_of(req.scope()));
  if (who.kind() == v1::Principal::SESSION && !domain::has_grant(who, "cross_identity"))
    out->mutable_caller()->set_allow_cross_identity(false);
  return out;
}

/// Hands the call to the door.
grpc::ServerUnaryReactor* run_short(const service_context& context, std::shared_ptr<void> keep, short_call::work run) {
  auto door = context.board->get().door;
  if (!door)
    return finish_now(to_status(errc::unavailable));
  return run_short(context.system, door, std::move(keep), std::move(run));
}

/// Asks the front and answers the call with what comes back.
template <class Reply, class... Request>
void ask_front(door_ptr door, const service_context& context, const short_call_ptr& call, Reply* rep, path_view paths, Request... request) {
  auto front = context.board->get().front;
  if (!front)
    return call->finish(to_status(errc::unavailable));
  ask(door, front, std::move(request)...)
    .then(
      [call, rep, paths = std::move(paths)](const std::shared_ptr<const Reply>& answer) {
        if (!call->open())
          return;
        *rep = *answer;
        paths.to_caller(*rep);
        call->finish(grpc::Status::OK);
      },
      [call](caf::error& e) { call->finish(to_status(e)); });
}

/// Says no to what is wrong by itself, and hands the rest to the front.
void go_on(door_ptr door, const service_context& context, prepared_call prepared, const short_call_ptr& call, v1::Reply* rep) {
  if (prepared.refusal)
    *rep->mutable_refusal() = std::move(*prepared.refusal);
  if (!prepared.status.ok() || prepared.refusal)
    call->finish(prepared.status);
  if (!call->open())
    return;
  call->on_abort(leaves_line(context, prepared.call));
  ask_front(door, context, call, rep, std::move(prepared.paths), prepared.call);
}

} // namespace

grpc::ServerUnaryReactor* coordination_service::Execute(grpc::CallbackServerContext* ctx, const v1::ExecuteRequest* req, v1::Reply* rep) {
  auto in = admit(context_, *ctx);
  if (!in.status.ok())
    return finish_now(in.status);
  if (req->more_size() > 0)
    return finish_now({grpc::StatusCode::INVALID_ARGUMENT, "several commands at once go through Pipeline"});
  const auto patience = patience_of(*ctx);
  // A caller who is known already is served here on gRPC's thread as far as possible: the door is one for all.
  std::optional<prepared_call> prepared;
  if (in.who.token_hash.empty())
    prepared = prepare(context_, *req, in.who.principal, patience);
  return run_short(context_, in.slot,
                   [context = context_, who = std::move(in.who), prepared = std::move(prepared), patience, req,
                    rep](door_ptr door, const short_call_ptr& call) mutable {
                     if (prepared)
                       return go_on(door, context, std::move(*prepared), call, rep);
                     with_principal(
                       door, context, who,
                       [=](const v1::Principal& principal) {
                         if (call->open())
                           go_on(door, context, prepare(context, *req, principal, patience), call, rep);
                       },
                       [call](grpc::Status s) { call->finish(std::move(s)); });
                   });
}

grpc::ServerUnaryReactor* coordination_service::Ask(grpc::CallbackServerContext* ctx, const v1::Query* req, v1::Answer* rep) {
  auto in = admit(context_, *ctx);
  if (!in.status.ok())
    return finish_now(in.status);
  if (auto wrong = wrong_scope(req->scope(), scope_is::optional))
    return finish_now({grpc::StatusCode::INVALID_ARGUMENT, *wrong});
  return run_short(context_, in.slot,
                   [context = context_, who = std::move(in.who), patience = patience_of(*ctx), req, rep](door_ptr door, const short_call_ptr& call) {
                     with_principal(
                       door, context, who,
                       [=](const v1::Principal& principal) {
                         if (!call->open())
                           return;
                         auto q = std::make_shared<v1::Query>(*req);
                         *q->mutable_principal() = principal;
                         path_view paths{context.nodes.shared(), *q->mutable_scope(), q->caller().directory()};
                         paths.to_store(*q);
                         if (patience)
                           ask_front(door, context, call, rep, std::move(paths), query_ptr{q}, caf::timespan{*patience});
                         else
                           ask_front(door, context, call, rep, std::move(paths), query_ptr{q});
                       },
                       [call](grpc::Status s) { call->finish(std::move(s)); });
                   });
}

grpc::ServerUnaryReactor* coordination_service::WaitForActivity(grpc::CallbackServerContext* ctx, const v1::WaitRequest* req, v1::Activity* rep) {
  auto in = admit(context_, *ctx);
  if (!in.status.ok())
    return finish_now(in.status);
  if (auto wrong = wrong_with(*req))
    return finish_now({grpc::StatusCode::INVALID_ARGUMENT, *wrong});
  return run_unary(context_.system, in.slot, [context = context_, who = in.who, req, rep](caf::event_based_actor* self, unary_ptr answer) {
    with_principal(
      self, context, who,
      [=](const v1::Principal& principal) {
        if (principal.kind() == v1::Principal::SESSION && principal.id() != req->session_id())
          return answer->finish({grpc::StatusCode::PERMISSION_DENIED, "a session may only wait for its own activity"});
        auto front = context.board->get().front;
        if (!front)
          return answer->finish(to_status(errc::unavailable));
        auto wait = without_override(context, *req, principal);
        auto scope = req->scope();
        path_view paths{context.nodes.shared(), scope, req->caller().directory()};
        ask(self, front, wait)
          .then(
            [answer, rep, paths](const activity_ptr& a) {
              *rep = *a;
              paths.to_caller(*rep);
              answer->finish(grpc::Status::OK);
            },
            [answer](caf::error& e) { answer->finish(to_status(e)); });
      },
      [answer](grpc::Status s) { answer->finish(std::move(s)); });
  });
}

} // namespace swarm
