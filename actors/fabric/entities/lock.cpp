#include "actors/fabric/entities/lock.hpp"

#include <algorithm>

#include "actors/base/log.hpp"
#include "actors/base/text.hpp"
#include "actors/runtime/error_text.hpp"

namespace swarm {

namespace {

using self_ptr = lock_actor::stateful_pointer<lock_state>;

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

void resolve(self_ptr self, const v1::ResolvedWait& r) {
  auto& st = self->state;
  auto key = wait_key(r.principal(), r.request());
  auto reply = std::make_shared<const v1::Reply>(r.reply());
  auto [first, last] = st.waiting.equal_range(key);
  if (first == last) {
    st.early.emplace_back(key, reply);
    if (st.early.size() > limits::lock_waiters_max())
      st.early.pop_front();
    return;
  }
  for (auto i = first; i != last; ++i)
    i->second.promise.answer(reply);
  st.waiting.erase(first, last);
}

/// The caller of `exec` has gone. The place in line is its session's, and is given up with the last caller who stands for it.
void leave(self_ptr self, const execution_ptr& exec) {
  auto& st = self->state;
  auto stood = std::erase_if(st.waiting, [&](const auto& w) { return w.second.what == exec; }) + std::erase(st.asking, exec);
  auto same_session = [&](const execution_ptr& other) { return other->command.actor() == exec->command.actor(); };
  if (stood == 0 || std::any_of(st.asking.begin(), st.asking.end(), same_session) ||
      std::any_of(st.waiting.begin(), st.waiting.end(), [&](const auto& w) { return same_session(w.second.what); }))
    return;
  auto cmd = internal_command(*st.place.links.node, st.place.scope, [&](v1::Command& c) {
    c.set_actor(exec->command.actor());
    c.mutable_cancel_lock_wait()->set_path(st.place.id);
  });
  // Behind the command itself, if that is still on its way. What had been granted stays with the session, as any answer that was not heard.
  ask_writer(
    self, st.place.links.writer, cmd, [](const reply_ptr&) {},
    [self](caf::error& e) {
      log::warn({"lock ", self->state.place.id, ": a place in line whose caller has gone stays until its deadline: ", runtime::error_text(e)});
    });
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
      ask_writer(
        self, self->state.place.links.writer, exec,
        [self, slot, exec](const reply_ptr& r) {
          // Nobody waits any more for the answer to one that has left.
          if (std::erase(self->state.asking, exec) > 0)
            take_reply(self, exec, std::move(*slot), r);
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
    [self](passivate_atom) {
      auto stays = !self->state.waiting.empty() || !self->state.asking.empty();
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
