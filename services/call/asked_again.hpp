// Calls that last longer than an absence of the home.
#pragma once

#include <string>

#include <caf/event_based_actor.hpp>
#include <grpcpp/grpcpp.h>

#include "actors/base/limits.hpp"
#include "services/call/bridge.hpp"

namespace swarm {

/// For with_principal: `refuse`, but for a home that is away and alone knows who calls. That is no refusal of what lasts: its client asks again,
/// after a pause.
template <class Refuse>
auto asked_again(caf::event_based_actor* self, Refuse refuse) {
  return [self, refuse](grpc::Status s) {
    if (s.error_code() != grpc::StatusCode::FAILED_PRECONDITION)
      return refuse(std::move(s));
    self->become([self, refuse, text = s.error_message()](tick_atom) {
      refuse({grpc::StatusCode::UNAVAILABLE, text});
      self->quit();
    });
    self->delayed_send(self, limits::home_away_dial, tick_atom_v);
  };
}

} // namespace swarm
