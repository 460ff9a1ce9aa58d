#include "actors/fabric/cluster/link_away.hpp"

#include <algorithm>

#include "actors/base/limits.hpp"
#include "actors/base/text.hpp"
#include "actors/runtime/error_text.hpp"

namespace swarm::link_away {

using link_internal::boot_ms;
using link_internal::dial;
using link_internal::is_up;
using link_internal::name_of;
using link_internal::take_back;

namespace {

std::int64_t down_for_ms(self_ptr self) {
  const auto& st = self->state;
  return st.down_since_ms == 0 ? 0 : boot_ms(self) - st.down_since_ms;
}

/// As people are told, and as `swarmctl status` has it: a node that hangs was away before its link ended.
std::string unheard_for(self_ptr self) { return duration(boot_ms(self) - self->state.heard_ms); }

std::string with_last_failure(self_ptr self, std::string text) {
  const auto& why = self->state.last_failure;
  return why.empty() ? text : concat({text, " (", why, ")"});
}

caf::error home_away(self_ptr self, const v1::LinkRequest& r) {
  const auto& scope = r.has_query() ? r.query().scope() : r.execute().command().scope();
  return fail(errc::away, concat({"the home of ", scope.empty() ? "the shared scopes" : "this scope", ", ", name_of(self),
                                  ", has not been reached for ", with_last_failure(self, unheard_for(self)),
                                  "; what runs here goes on. Start the node there, or try again when `swarmctl status` shows the link as up"}));
}

/// Refused, a query does no harm that was put. A command that was put may have happened, or may happen yet.
bool is_refusable(const link_state::question& q) { return is_of_client(*q.request) && !(q.was_put && q.request->has_execute()); }

/// A node that has just started gives its first dial the time that one may take. A home that fell silent has had the time of a restart.
std::int64_t away_at_ms(self_ptr self) {
  const auto& st = self->state;
  if (st.fell_silent)
    return st.down_since_ms;
  const auto patience = st.was_up ? limits::home_away_after() : std::max(limits::home_away_after(), limits::link_connect_timeout);
  return st.down_since_ms + patience.count();
}

bool is_home_away(self_ptr self) { return !is_up(self) && self->state.down_since_ms != 0 && boot_ms(self) >= away_at_ms(self); }

} // namespace

bool is_of_client(const v1::LinkRequest& r) { return (r.has_query() || r.has_execute()) && r.principal().kind() != v1::Principal::NODE; }

caf::error not_reached(self_ptr self, const link_state::question& q) {
  if (q.was_put && q.request->has_execute())
    return fail(errc::unknown_outcome);
  if (is_refusable(q) && is_home_away(self))
    return home_away(self, *q.request);
  const auto& why = self->state.last_failure;
  return fail(errc::unavailable, why.empty() ? concat({"the node ", name_of(self), " did not answer in time"})
                                             : concat({"the node ", name_of(self), " is not reached: ", why}));
}

void refuse_while_away(self_ptr self) {
  auto& st = self->state;
  st.refuse_at_ms = 0;
  if (is_up(self) || st.down_since_ms == 0)
    return;
  const auto now = boot_ms(self);
  const auto away_at = away_at_ms(self);
  const bool has_tried = st.dial_failed_ms != 0 && now - st.dial_failed_ms < limits::link_redial_min().count();
  auto later = [&](std::int64_t ms) { st.refuse_at_ms = st.refuse_at_ms == 0 ? ms : std::min(st.refuse_at_ms, ms); };
  for (auto i = st.asked.begin(); i != st.asked.end();) {
    auto& [id, q] = *i;
    const auto until = std::max(q.asked_ms, away_at) + limits::home_away_dial.count();
    if (!is_refusable(q)) {
      ++i;
    } else if (now < away_at) {
      return later(away_at);
    } else if (has_tried || now >= until) {
      q.answer.answer(home_away(self, *q.request));
      if (q.put)
        take_back(self, id, *q.put);
      st.due.cancel(id);
      i = st.asked.erase(i);
    } else {
      later(until);
      ++i;
    }
  }
  if (st.refuse_at_ms != 0)
    dial(self, link_lane::control);
}

void describe(self_ptr self, v1::ClusterNode& home) {
  const auto& st = self->state;
  if (!st.dials || is_up(self) || st.down_since_ms == 0 || (st.dial_failed_ms == 0 && !is_home_away(self)))
    return;
  home.set_down_ms(std::max<std::int64_t>(boot_ms(self) - st.heard_ms, 1));
  home.set_down_reason(st.last_failure);
}

std::optional<caf::error> is_silent(self_ptr self, const v1::LinkRequest& request) {
  if (!request.has_query() || is_of_client(request) || is_up(self) || down_for_ms(self) < limits::link_silence().count())
    return std::nullopt;
  return fail(errc::unavailable, with_last_failure(self, concat({"the node ", name_of(self), " has not been reached for ", unheard_for(self)})));
}

} // namespace swarm::link_away
