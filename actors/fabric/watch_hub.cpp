#include "actors/fabric/watch_hub.hpp"

#include <algorithm>

#include <caf/send.hpp>

#include "actors/base/limits.hpp"
#include "actors/runtime/defaults.hpp"
#include "actors/runtime/tree.hpp"

namespace swarm {

namespace {

using self_ptr = watch_hub_actor::stateful_pointer<watch_hub_state>;
using buffer = watch_hub_state::scope_buffer;
using numbered = watch_hub_state::numbered;

const std::string feed; // no scope has this name

/// Null when there is nothing to say yet.
watch_page_ptr page_for(const buffer& b, const watch_poll& poll, std::uint64_t after) {
  auto page = std::make_shared<watch_page>();
  page->newest = b.newest;
  // What is behind the feed's end is of a hub that is no more.
  if (after < b.complete_from || (poll.scope == feed && after > b.newest)) {
    page->too_old = true;
    page->revision = after;
    return page;
  }
  page->revision = std::max(after, b.newest);
  auto first = std::upper_bound(b.events.begin(), b.events.end(), after, [](std::uint64_t n, const numbered& e) { return n < e.number; });
  std::uint64_t last = after;
  for (auto i = first; i != b.events.end(); ++i) {
    if (!passes(poll, i->event))
      continue;
    if (page->events.size() == limits::watch_page_events_max()) {
      page->revision = last;
      break;
    }
    page->events.push_back(i->event);
    last = i->number;
  }
  if (page->events.empty() && poll.wait)
    return nullptr;
  return page;
}

/// Anybody may ask about any name: what was only asked about leaves nothing behind.
void forget_if_empty(watch_hub_state& st, std::unordered_map<std::string, buffer>::iterator scope) {
  if (scope->second.followers.empty() && scope->second.newest == 0)
    st.scopes.erase(scope);
}

void forget_follower(self_ptr self, const caf::actor_addr& who) {
  auto& st = self->state;
  auto i = st.scope_of.find(who);
  if (i == st.scope_of.end())
    return;
  auto scope = st.scopes.find(i->second);
  st.parked -= static_cast<std::size_t>(scope->second.followers.remove_if([&](const auto& w) { return w.who == who; }));
  forget_if_empty(st, scope);
  st.scope_of.erase(i);
}

/// Takes one poll out. A follower may have several parked; it stays monitored while one is left.
std::list<watch_hub_state::waiting>::iterator unpark(self_ptr self, buffer& b, std::list<watch_hub_state::waiting>::iterator i) {
  auto who = i->who;
  i = b.followers.erase(i);
  --self->state.parked;
  if (who && std::none_of(b.followers.begin(), b.followers.end(), [&](const auto& w) { return w.who == who; })) {
    self->state.scope_of.erase(who);
    self->demonitor(who);
  }
  return i;
}

void wake(self_ptr self, buffer& b) {
  for (auto i = b.followers.begin(); i != b.followers.end();) {
    auto page = page_for(b, *i->poll, i->after);
    if (!page) {
      (i++)->after = b.newest; // or a patient follower of rare events would fall behind the buffer
      continue;
    }
    i->promise.answer(std::move(page));
    i = unpark(self, b, i);
  }
}

void forget_poll(self_ptr self, const watch_poll_ptr& poll) {
  auto scope = self->state.scopes.find(poll->scope);
  if (scope == self->state.scopes.end())
    return;
  auto& b = scope->second;
  auto i = std::find_if(b.followers.begin(), b.followers.end(), [&](const auto& w) { return w.poll == poll; });
  if (i == b.followers.end())
    return;
  unpark(self, b, i);
  forget_if_empty(self->state, scope);
}

void add(watch_hub_state& st, const std::string& scope, buffer& b, std::uint64_t number, const v1::Event& e) {
  if (b.events.empty())
    b.age = st.by_age.insert(st.by_age.end(), scope);
  else
    st.by_age.splice(st.by_age.end(), st.by_age, b.age);
  b.events.push_back({number, e});
  b.newest = number;
  ++st.held;
}

void drop_oldest(watch_hub_state& st, buffer& b) {
  b.complete_from = b.events.front().number;
  b.events.pop_front();
  --st.held;
  if (b.events.empty())
    st.by_age.erase(b.age);
}

void take(self_ptr self, const commit_ptr& c) {
  auto& st = self->state;
  std::vector<std::string> touched;
  bool is_fed = false;
  for (const auto& batch : c->batches) {
    if (batch.events().empty())
      continue;
    auto [i, fresh] = st.scopes.try_emplace(batch.scope());
    auto& b = i->second;
    if (fresh || b.newest == 0)
      b.complete_from = batch.events(0).revision() - 1;
    for (const auto& e : batch.events()) {
      add(st, batch.scope(), b, e.revision(), e);
      if (!is_of_feed(e))
        continue;
      auto& all = st.scopes[feed];
      add(st, feed, all, all.newest + 1, e);
      is_fed = true;
      if (all.events.size() > limits::watch_buffer_events_max())
        drop_oldest(st, all);
    }
    while (b.events.size() > limits::watch_buffer_events_max())
      drop_oldest(st, b);
    if (touched.empty() || touched.back() != batch.scope())
      touched.push_back(batch.scope());
  }
  if (is_fed)
    touched.push_back(feed);
  for (const auto& scope : touched)
    wake(self, st.scopes[scope]);
  // What is left of a scope without events is the revision up to which a follower has to read the store.
  while (st.held > limits::watch_buffers_events_max())
    drop_oldest(st, st.scopes[st.by_age.front()]);
  for (const auto& sink : st.sinks)
    caf::anon_send(sink, c);
}

} // namespace

bool passes(const watch_poll& poll, const v1::Event& event) {
  if (!poll.subject.empty() && event.subject() != poll.subject)
    return false;
  return poll.types.empty() || std::any_of(poll.types.begin(), poll.types.end(), [&](const std::string& t) { return event.type().rfind(t, 0) == 0; });
}

bool is_of_feed(const v1::Event& e) { return e.type().starts_with("approval.") || e.type().starts_with("conversation."); }

watch_hub_actor::behavior_type watch_hub(self_ptr self, std::uint64_t feed_begin) {
  runtime::install_defaults(self);
  auto& begun = self->state.scopes[feed];
  begun.complete_from = begun.newest = feed_begin;
  self->set_down_handler([self](caf::down_msg& dm) {
    if (std::erase_if(self->state.sinks, [&](const auto& s) { return s.address() == dm.source; }) == 0)
      forget_follower(self, caf::actor_cast<caf::actor_addr>(dm.source));
  });
  return {
    [self](const commit_ptr& c) { take(self, c); },
    [self](const watch_poll_ptr& poll) -> caf::result<watch_page_ptr> {
      auto& st = self->state;
      // Nothing was committed in this scope since the hub started: a follower that has read the store stands at its end.
      static const buffer nothing;
      auto known = st.scopes.find(poll->scope);
      if (known != st.scopes.end() ? known->second.newest != 0 || !poll->wait : !poll->wait)
        if (auto page = page_for(known == st.scopes.end() ? nothing : known->second, *poll, poll->after))
          return page;
      if (st.parked >= limits::watchers_max())
        return fail(errc::overloaded, "too many followers");
      auto& b = st.scopes[poll->scope];
      auto who = caf::actor_cast<caf::actor_addr>(self->current_sender());
      auto promise = self->make_response_promise<watch_page_ptr>();
      b.followers.push_back({poll, std::max(poll->after, b.newest), runtime::parked<watch_page_ptr>{promise}, who});
      ++st.parked;
      if (who && st.scope_of.emplace(who, poll->scope).second)
        self->monitor(who);
      return promise;
    },
    [self](forget_atom, const watch_poll_ptr& poll) { forget_poll(self, poll); },
    [self](attach_atom, const commit_sink_actor& sink) {
      self->monitor(sink);
      self->state.sinks.push_back(sink);
    },
    [self](tree_atom) { return std::vector{runtime::self_row(self, "up", std::to_string(self->state.parked) + " polls parked")}; },
  };
}

} // namespace swarm
