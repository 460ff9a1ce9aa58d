// What the services of a node share: who calls, how many at once, and where a call goes.
#pragma once

#include <atomic>

#include "actors/domain/rights.hpp"
#include "actors/fabric/cluster/remote.hpp"
#include "actors/fabric/node.hpp"
#include "actors/runtime/admission.hpp"
#include "services/call/bridge.hpp"
#include "services/call/path_view.hpp"
#include "services/call/principals.hpp"
#include "services/call/refusals.hpp"
#include "services/federation/cluster.hpp"
#include "swarm/v1/coordination.pb.h"

namespace swarm {

/// What every service of a node shares.
struct service_environment {
  caf::actor_system& system;
  std::shared_ptr<const entry_actors> board;
  node_environment_ptr node;
  principals& callers;
  runtime::admission& admission;
  /// The node ends the calls that are under way, not their clients.
  std::shared_ptr<const std::atomic<bool>> stopping;
  cluster& nodes;
  refusals& refused;
};

/// A caller that has been let in: who it is and its place among the calls in flight.
struct admitted {
  claim who;
  std::shared_ptr<void> slot;
  grpc::Status status; // not OK: refuse the call with it
};

/// Finds the caller, refuses who could never have the right, and takes a slot, which the call holds to its end; none left: RESOURCE_EXHAUSTED at
/// once. What depends on grants or on a terminal is decided when these are known.
admitted admit(const service_environment&, const grpc::CallbackServerContext&, domain::operation, look_again = look_again::if_needed);

/// The status with which a service says a refusal of the table of rights.
grpc::Status to_status(const v1::Refusal&);

/// Ends a call of the claim, with a refusal that is noted.
grpc::Status note(const service_environment&, const claim&, const v1::Principal&, grpc::Status);

/// The first session of the claim that the store still knows, from the `nth` on; else the agent without one.
template <class Self, class Next, class Refuse>
void with_session_of_agent(Self* self, const service_environment& service, const claim& who, std::size_t nth, Next next, Refuse refuse) {
  if (nth >= who.sessions.size())
    return next(who.principal, std::int64_t{0});
  auto front = service.board->get().front;
  if (!front)
    return refuse(to_status(errc::unavailable));
  const auto id = who.sessions[nth].id;
  auto q = internal_query(*service.node, who.sessions[nth].scope, [&](v1::Query& x) { x.mutable_find_session()->set_who(id); });
  ask(self, front, q)
    .then(
      [self, service, who, nth, next, refuse, id](const answer_ptr& a) {
        if (!a->has_refusal() && a->session().id() == id) {
          const auto now = service.node->clock->unix_ms();
          auto session = bearer_of(a->session(), now);
          service.callers.tokens().remember(token_cache::key_of_session(id), session, who.at, now);
          return next(session.who, session.until_ms);
        }
        service.callers.places().roots().session_gone(id);
        with_session_of_agent(self, service, who, nth + 1, next, refuse);
      },
      [refuse](caf::error& e) { refuse(to_status(e)); });
}

/// Runs `next(principal)` inside the actor `self` once the principal is known: at once, or after the store was asked about a
/// token or an agent's session. `next(principal, until_ms)` is told as well when the first of the principal's grants ends (0 = none does).
/// `refuse(status)` otherwise.
template <class Self, class Next, class Refuse>
void with_principal(Self* self, const service_environment& service, const claim& who, Next next, Refuse refuse) {
  auto go_on = [next](const v1::Principal& p, std::int64_t until_ms) {
    if constexpr (std::is_invocable_v<const Next&, const v1::Principal&, std::int64_t>)
      next(p, until_ms);
    else
      next(p);
  };
  if (who.is_final())
    return go_on(who.principal, who.grants_until_ms);
  if (who.token_hash.empty())
    return with_session_of_agent(self, service, who, 0, go_on, refuse);
  auto front = service.board->get().front;
  if (!front)
    return refuse(to_status(errc::unavailable));
  auto hash = who.token_hash;
  auto q = internal_query(*service.node, "", [&](v1::Query& x) { x.mutable_resolve_token()->set_token_hash(hash); });
  ask(self, front, q)
    .then(
      [service, go_on, refuse, hash, who](const answer_ptr& a) {
        if (a->has_refusal() || !a->has_session())
          return refuse(note(service, who, {}, {grpc::StatusCode::UNAUTHENTICATED, "the token belongs to no session; the session has ended"}));
        const auto now = service.node->clock->unix_ms();
        auto shown = bearer_of(a->session(), now);
        service.callers.tokens().remember(hash, shown, who.at, now);
        if (auto objection = service.callers.objection_to_token(who.place, shown); !objection.empty())
          return refuse(note(service, who, {}, {grpc::StatusCode::PERMISSION_DENIED, objection}));
        go_on(shown.who, shown.until_ms);
      },
      [refuse](caf::error& e) { refuse(to_status(e)); });
}

/// The same for what lasts: a session's ends with the session.
template <class Next, class Refuse>
void with_lasting_principal(caf::event_based_actor* self, const service_environment& service, const claim& who, Next next, Refuse refuse) {
  with_principal(
    self, service, who,
    [self, callers = &service.callers, at = who.at, next, refuse](const v1::Principal& p, std::int64_t until_ms) {
      auto go_on = [&] {
        if constexpr (std::is_invocable_v<const Next&, const v1::Principal&, std::int64_t>)
          next(p, until_ms);
        else
          next(p);
      };
      if (p.kind() != v1::Principal::SESSION)
        return go_on();
      auto stays =
        callers->tokens().watch(p.id(), at, [me = caf::actor_cast<caf::actor>(self)] { caf::anon_send_exit(me, caf::exit_reason::user_shutdown); });
      if (!stays)
        return refuse(to_status(errc::unavailable));
      self->attach_functor([stays] {});
      go_on();
    },
    refuse);
}

/// A stream whose caller had a grant that has ended goes no further: who opens it again is judged again.
inline std::optional<grpc::Status> over_with_grant(const service_environment& service, std::int64_t until_ms) {
  if (until_ms == 0 || service.node->clock->unix_ms() < until_ms)
    return std::nullopt;
  return grpc::Status{grpc::StatusCode::UNAVAILABLE, "a grant of the session has ended; ask again"};
}

/// What was asked of another node is taken back when nobody waits for the answer any more.
class forwarded {
public:
  forwarded(federation_actor federation, std::string node_id, link_request_ptr request)
    : federation_(std::move(federation)), node_id_(std::move(node_id)), request_(std::move(request)) {}
  forwarded(const forwarded&) = delete;
  forwarded& operator=(const forwarded&) = delete;
  ~forwarded() {
    if (!answered)
      caf::anon_send(federation_, abort_atom_v, node_id_, request_);
  }
  bool answered = false;

private:
  federation_actor federation_;
  std::string node_id_;
  link_request_ptr request_;
};

/// Id of the node that is home of the scope; empty: this one.
inline std::string home_of(const service_environment& service, const std::string& scope) {
  return service.node->cluster ? service.node->cluster->home_of(scope) : std::string{};
}

/// Polls for events where the scope's home is: at the hub of this node, or over the link to another one.
template <class Self, class OnPage, class OnError>
void poll_events(Self* self, const service_environment& service, const watch_poll_ptr& poll, OnPage on_page, OnError on_error) {
  auto board = service.board->get();
  auto home = home_of(service, poll->scope);
  if (!board.watch || !board.federation)
    return on_error(to_status(errc::unavailable));
  if (home.empty()) {
    ask(self, board.watch, poll).then([on_page](const watch_page_ptr& p) { on_page(p); }, [on_error](caf::error& e) { on_error(to_status(e)); });
    return;
  }
  auto request = to_link(*poll);
  auto asked = std::make_shared<forwarded>(board.federation, home, request);
  ask(self, board.federation, home, request)
    .then(
      [=](const link_response_ptr& r) {
        asked->answered = true;
        auto page = page_in(*r);
        if (!page)
          return on_error(to_status(page.error()));
        // The other node does not wait for ever.
        if ((*page)->events.empty() && !(*page)->too_old && poll->wait)
          return poll_events(self, service, poll, on_page, on_error);
        on_page(*page);
      },
      [asked, on_error](caf::error& e) {
        asked->answered = true;
        on_error(to_status(e));
      });
}

/// To be done when the client of this command goes unanswered: it leaves the line it may stand in, and is not put to another node any more.
/// Null when there is nothing to do.
std::function<void()> leaves_line(const service_environment&, call_ptr);

/// The session of this command has been registered: its repository becomes a checkout of a scope that hosts share, if it can.
void learn_checkout(const service_environment&, const v1::Command& registers, const v1::Session& made);

/// Checks a request's outer bounds and makes the call the front understands. A status instead when it breaks one, a refusal when
/// this node cannot run what is asked for (decided before any state changes). `patience`: how long the client waits, if it has said so.
struct prepared_call {
  call_ptr call;
  grpc::Status status;
  std::optional<v1::Refusal> refusal;
  path_view paths = {}; // in which the reply is shown
};
prepared_call prepare(const service_environment&, const v1::ExecuteRequest&, const claim&, const v1::Principal&,
                      const std::optional<std::chrono::milliseconds>& patience = {});

} // namespace swarm
