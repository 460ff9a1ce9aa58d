#include "actors/fabric/entities/lock.hpp"

#include <algorithm>

#include "actors/base/log.hpp"
#include "actors/base/text.hpp"
#include "actors/domain/refusal.hpp"
#include "actors/runtime/error_text.hpp"

namespace swarm {

namespace {

using self_ptr = lock_actor::stateful_pointer<lock_state>;

bool is_grant(const v1::Reply& reply) { return !reply.has_refusal() && reply.lock().has_lock(); }

void take_reply(self_ptr self, const execution_ptr& exec, runtime::parked<reply_ptr> promise, const reply_ptr& reply) {
  auto& st = self->state;
  if (!reply->has_lock_waiting())
    return promise.answer(reply);
  auto key = wait_key(exec->command.principal(), exec->id);
  auto i = std::find_if(st.early.begin(), st.early.end(), [&](const auto& e) { return e.first == key; });
  if (i != st.early.end())
    return promise.answer(i->second);
  if (st.waiting.count(key) >= limits::callers_per_request_max())
    return promise.answer(fail(errc::overloaded, "this request is waited for already, by as many callers as may"));
  st.waiting.emplace(key, lock_state::caller{exec, std::move(promise)});
}

/// Nobody stood for the place, and perhaps nobody comes back: the lock must not stay with one who does not know that it has it.
void expect_repeat(self_ptr self, const std::string& key, const v1::ResolvedWait& r) {
  const auto& lock = r.reply().lock().lock();
  auto asks = [&](const execution_ptr& exec) { return wait_key(exec->command.principal(), exec->id) == key; };
  if (!is_grant(r.reply()) || std::any_of(self->state.asking.begin(), self->state.asking.end(), asks))
    return;
  self->state.unheard[lock.fence()] = {key, lock.session_id()};
  self->delayed_send(self, limits::restart_grace(), tick_atom_v, lock.fence());
}

void resolve(self_ptr self, const v1::ResolvedWait& r) {
  auto& st = self->state;
  auto key = wait_key(r.principal(), r.request());
  auto reply = std::make_shared<const v1::Reply>(r.reply());
  auto [first, last] = st.waiting.equal_range(key);
  if (first == last) {
    st.early.emplace_back(key, reply);
    if (st.early.size() > limits::lock_waiters_max())
      st.early.pop_front();
    return expect_repeat(self, key, r);
  }
  for (auto i = first; i != last; ++i)
    i->second.promise.answer(reply);
  st.waiting.erase(first, last);
}

/// The session's place, behind a command of it that may still be on its way.
void give_up_place(self_ptr self, const std::string& session_id) {
  const auto& place = self->state.place;
  auto cmd = internal_command(*place.links.node, place.scope, [&](v1::Command& c) {
    c.set_actor(session_id);
    c.mutable_cancel_lock_wait()->set_path(place.id);
  });
  ask_writer(
    self, place.links.writer, cmd, [](const reply_ptr&) {},
    [self](caf::error& e) {
      log::warn({"lock ", self->state.place.id, ": a place in line whose caller has gone stays until its deadline: ", runtime::error_text(e)});
    });
}

bool stands_for(const lock_state& st, const std::string& session_id) {
  auto same_session = [&](const execution_ptr& exec) { return exec->command.actor() == session_id; };
  return std::any_of(st.asking.begin(), st.asking.end(), same_session) ||
         std::any_of(st.waiting.begin(), st.waiting.end(), [&](const auto& w) { return same_session(w.second.what); });
}

void give_up_unattended(self_ptr self, const std::vector<v1::LockWaiter>& places) {
  for (const auto& w : places)
    if (w.path() == self->state.place.id && !stands_for(self->state, w.session_id()))
      give_up_place(self, w.session_id());
}

/// By its fence: what the session has taken again since stays.
void give_back(self_ptr self, std::uint64_t fence) {
  auto granted = self->state.unheard.extract(fence);
  if (granted.empty())
    return;
  const auto& place = self->state.place;
  auto cmd = internal_command(*place.links.node, place.scope, [&](v1::Command& c) {
    c.set_actor(granted.mapped().session_id);
    c.mutable_release_lock()->set_path(place.id);
    c.mutable_release_lock()->set_fence(fence);
  });
  ask_writer(
    self, place.links.writer, cmd,
    [self](const reply_ptr& r) {
      // A fence that is not the lock's any more is a lock that has passed on.
      if (r->has_refusal() && r->refusal().code() != v1::Refusal::STALE)
        log::warn({"lock ", self->state.place.id, ": it stays with a session that has not heard that it has it: ", r->refusal().text()});
    },
    [self](caf::error& e) {
      log::warn({"lock ", self->state.place.id, ": it stays with a session that has not heard that it has it: ", runtime::error_text(e)});
    });
}

/// What a repeated request is told of a grant that it did not hear: the lock may have passed on.
void answer_repeated(self_ptr self, const execution_ptr& exec, runtime::parked<reply_ptr> promise, const reply_ptr& reply) {
  const auto& place = self->state.place;
  auto slot = std::make_shared<runtime::parked<reply_ptr>>(std::move(promise));
  auto q = internal_query(*place.links.node, place.scope, [&](v1::Query& x) {
    x.mutable_verify_lock()->set_path(place.id);
    x.mutable_verify_lock()->set_fence(reply->lock().lock().fence());
  });
  self->request(place.links.readers.front(), limits::call_deadline_default(), q)
    .then(
      [self, slot, reply, exec](const answer_ptr& a) {
        const auto& now = a->lock_verified();
        if (now.valid() || now.lock().session_id() == exec->command.actor())
          return slot->answer(reply);
        slot->answer(std::make_shared<const v1::Reply>(domain::refuse(
          v1::Refusal::STALE, "The lock was granted while nobody waited for it, and has passed on. Ask for it again.", self->state.place.id)));
      },
      [slot](caf::error& e) { slot->answer(std::move(e)); });
}

/// The caller of `exec` has gone. The place in line is its session's, and is given up with the last caller who stands for it.
void leave(self_ptr self, const execution_ptr& exec) {
  auto& st = self->state;
  auto stood = std::erase_if(st.waiting, [&](const auto& w) { return w.second.what == exec; }) + std::erase(st.asking, exec);
  // What has been granted is given back when its time is over.
  if (stood > 0 && !stands_for(st, exec->command.actor()))
    give_up_place(self, exec->command.actor());
}

} // namespace

lock_actor::behavior_type lock(self_ptr self, entity_place place) {
  runtime::install_defaults(self);
  self->state.place = std::move(place);
  return {
    [self](const execution_ptr& exec) -> caf::result<reply_ptr> {
      auto promise = self->make_response_promise<reply_ptr>();
      auto slot = std::make_shared<runtime::parked<reply_ptr>>(promise, errc::unknown_outcome);
      self->state.asking.push_back(exec);
      std::erase_if(self->state.unheard, [key = wait_key(exec->command.principal(), exec->id)](const auto& g) { return g.second.request == key; });
      ask_writer(
        self, self->state.place.links.writer, exec,
        [self, slot, exec](const reply_ptr& r) {
          // Nobody waits any more for the answer to one that has left.
          if (std::erase(self->state.asking, exec) == 0)
            return;
          r->repeated() && is_grant(*r) ? answer_repeated(self, exec, std::move(*slot), r) : take_reply(self, exec, std::move(*slot), r);
        },
        [self, slot, exec](caf::error& e) {
          std::erase(self->state.asking, exec);
          slot->answer(std::move(e));
        });
      return promise;
    },
    [self](const batch_ptr& b) {
      for (const auto& r : b->resolved())
        if (r.path() == self->state.place.id)
          resolve(self, r);
    },
    [self](abort_atom, const execution_ptr& exec) { leave(self, exec); },
    [self](forget_atom, const execution_ptr& exec) {
      std::erase_if(self->state.waiting, [&](const auto& w) { return w.second.what == exec; });
      std::erase(self->state.asking, exec);
    },
    [self](const lock_places_ptr& places) { give_up_unattended(self, *places); },
    [self](tick_atom, std::uint64_t fence) { give_back(self, fence); },
    [self](passivate_atom) {
      auto stays = !self->state.waiting.empty() || !self->state.asking.empty() || !self->state.unheard.empty();
      if (!stays)
        self->quit();
      return !stays;
    },
    [self](tree_atom) {
      return runtime::self_row(self, self->state.waiting.empty() ? "quiet" : "contended", concat({self->state.waiting.size(), " waiting"}));
    },
  };
}

} // namespace swarm
