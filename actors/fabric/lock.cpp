#include "actors/fabric/lock.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace swarm {

namespace {

using self_ptr = lock_actor::stateful_pointer<lock_state>;

void take_reply(self_ptr self, const std::string& key, runtime::parked<reply_ptr> promise, const reply_ptr& reply) {
  auto& st = self->state;
  if (!reply->has_lock_waiting())
    return promise.answer(reply);
  auto i = std::find_if(st.early.begin(), st.early.end(), [&](const auto& e) { return e.first == key; });
  if (i != st.early.end())
    return promise.answer(i->second);
  if (st.waiting.count(key) >= limits::callers_per_request_max())
    return promise.answer(fail(errc::overloaded, "this request is waited for already, by as many callers as may"));
  st.waiting.emplace(key, std::move(promise));
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
    i->second.answer(reply);
  st.waiting.erase(first, last);
}

} // namespace

lock_actor::behavior_type lock(self_ptr self, entity_place place) {
  runtime::install_defaults(self);
  self->state.place = std::move(place);
  return {
    [self](const execution_ptr& exec) -> caf::result<reply_ptr> {
      auto promise = self->make_response_promise<reply_ptr>();
      auto slot = std::make_shared<runtime::parked<reply_ptr>>(promise, errc::unknown_outcome);
      auto key = wait_key(exec->command.principal(), exec->id);
      ++self->state.asking;
      ask_writer(
        self, self->state.place.links.writer, exec,
        [self, slot, key](const reply_ptr& r) {
          --self->state.asking;
          take_reply(self, key, std::move(*slot), r);
        },
        [self, slot](caf::error& e) {
          --self->state.asking;
          slot->answer(std::move(e));
        });
      return promise;
    },
    [self](const batch_ptr& b) {
      for (const auto& r : b->resolved())
        if (r.path() == self->state.place.id)
          resolve(self, r);
    },
    [self](passivate_atom) {
      auto stays = !self->state.waiting.empty() || self->state.asking > 0;
      if (!stays)
        self->quit();
      return !stays;
    },
    [self](tree_atom) {
      return runtime::self_row(self, self->state.waiting.empty() ? "quiet" : "contended", fmt::format("{} waiting", self->state.waiting.size()));
    },
  };
}

} // namespace swarm
