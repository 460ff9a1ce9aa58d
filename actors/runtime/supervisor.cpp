#include "actors/runtime/supervisor.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include <caf/send.hpp>

#include "actors/base/log.hpp"
#include "actors/runtime/defaults.hpp"
#include "actors/runtime/ending.hpp"
#include "actors/runtime/supervisor_tree.hpp"

namespace swarm::runtime {

namespace {

using self_ptr = supervisor_actor::stateful_pointer<supervisor_state>;
using child = supervisor_state::child;
using phase = supervisor_state::phase;

void stop_next(self_ptr self);
void restart_rest(self_ptr self);
void failed(self_ptr self, child& c);

// -- small helpers ---------------------------------------------------------------------

child* find(supervisor_state& st, const std::string& name) {
  auto i = std::ranges::find_if(st.children, [&](const child& c) { return c.spec.name == name; });
  return i == st.children.end() ? nullptr : &*i;
}

child* first_waiting(supervisor_state& st) {
  auto i = std::ranges::find_if(st.children, [](const child& c) { return c.now == phase::waiting; });
  return i == st.children.end() ? nullptr : &*i;
}

bool rest_for_one(const supervisor_state& st) { return st.options.strategy == restart_strategy::rest_for_one; }

binding binding_of(const supervisor_state& st, const child& c) {
  auto name = st.options.path.empty() ? c.spec.name : st.options.path + "/" + c.spec.name;
  return {std::move(name), c.incarnation, caf::actor_cast<caf::strong_actor_ptr>(c.handle)};
}

void publish(self_ptr self, const child& c) {
  if (self->state.names)
    self->state.names->bind(binding_of(self->state, c));
}

template <class Atom>
void wake(self_ptr self, std::chrono::milliseconds delay, Atom what, const child& c) {
  caf::delayed_anon_send(supervisor_actor{self}, delay, what, c.spec.name, c.incarnation);
}

// -- starting ------------------------------------------------------------------------------

caf::actor spawn_child(self_ptr self, const child& c) {
  try {
    return c.spec.start(self);
  } catch (const std::exception& e) {
    log::error({c.spec.name, " could not be started: ", e.what()});
  }
  return nullptr;
}

/// False when it could not be started; then it waits for its restart, or we stop.
bool start(self_ptr self, child& c) {
  c.handle = spawn_child(self, c);
  c.started = self->clock().now();
  ++c.starts;
  if (!c.handle) {
    failed(self, c);
    return false;
  }
  c.now = phase::up;
  c.killed = false;
  // Ids of actors only grow, so this also outlives our own restart.
  c.incarnation = c.handle->id();
  // High priority: a death notice must overtake the ordinary mail.
  self->monitor<caf::message_priority::high>(c.handle);
  publish(self, c);
  return true;
}

// -- ending ------------------------------------------------------------------------------------

void end_child(self_ptr self, child& c) {
  c.now = phase::ending;
  ask_to_end(c.handle);
  wake(self, c.spec.stop_grace, tick_atom_v, c);
}

void begin_stop(self_ptr self, caf::error reason) {
  if (self->state.stop_reason)
    return;
  self->state.stop_reason = std::move(reason);
  stop_next(self);
}

// One at a time, last started first: each may still use those before it while it ends.
void stop_next(self_ptr self) {
  auto& st = self->state;
  for (auto i = st.children.rbegin(); i != st.children.rend(); ++i) {
    if (i->now == phase::up)
      end_child(self, *i);
    if (i->now == phase::ending)
      return;
  }
  self->quit(*st.stop_reason);
}

void on_grace_over(self_ptr self, child& c) {
  if (c.now != phase::ending)
    return;
  if (!c.killed) {
    log::warn({c.spec.name, " did not end within ", c.spec.stop_grace.count(), " ms and is killed"});
    c.killed = true;
    kill(c.handle);
    wake(self, c.spec.stop_grace, tick_atom_v, c);
    return;
  }
  log::error({c.spec.name, " does not react to being killed"});
  // A second incarnation beside a stuck one would be worse than waiting; a stop must go on.
  if (self->state.stop_reason) {
    c.now = phase::ended;
    stop_next(self);
  }
}

// -- failures ------------------------------------------------------------------------------

std::chrono::milliseconds since(self_ptr self, caf::actor_clock::time_point t) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(self->clock().now() - t);
}

/// The child is down, nobody asked it to, and its policy wants it back.
void failed(self_ptr self, child& c) {
  auto& st = self->state;
  if (!st.restarts.spend(st.options, since(self, {}).count())) {
    c.now = phase::ended;
    log::error({c.spec.name, " fails too often; its supervisor gives up"});
    begin_stop(self, fail(errc::unavailable, "restart intensity exceeded by " + c.spec.name));
    return;
  }
  c.now = phase::waiting;
  wake(self, c.waits.after_failure(st.options, since(self, c.started), std::hash<std::string>{}(c.spec.name)), restart_atom_v, c);
  if (rest_for_one(st)) {
    st.rest_ready = false;
    restart_rest(self);
  }
}

// rest_for_one: first everything behind the first waiting child goes down, then, after its back-off, all come up in order.
void restart_rest(self_ptr self) {
  auto& st = self->state;
  auto* from = first_waiting(st);
  if (!from || st.stop_reason)
    return;
  for (auto* c = &st.children.back(); c > from; --c) {
    if (c->now == phase::up)
      end_child(self, *c);
    if (c->now == phase::ending)
      return;
  }
  if (!std::exchange(st.rest_ready, false))
    return;
  for (auto& c : st.children)
    if (c.now == phase::waiting && !start(self, c))
      return;
}

void forget(self_ptr self, child& c) {
  auto& st = self->state;
  auto removers = std::move(c.removers);
  // Behind it others may wait whose own back-off never was armed.
  if (first_waiting(st) == &c)
    st.rest_ready = true;
  std::erase_if(st.children, [&](const child& x) { return &x == &c; });
  for (auto& r : removers)
    r.answer();
  if (rest_for_one(st))
    restart_rest(self);
}

bool wants_restart(const child& c, bool with_error) {
  return c.spec.policy == restart_policy::permanent || (c.spec.policy == restart_policy::transient && with_error);
}

// The child is down because a sibling before it failed, or while that is being dealt with.
void collateral(self_ptr self, child& c) {
  c.now = c.spec.policy == restart_policy::temporary ? phase::ended : phase::waiting;
  restart_rest(self);
}

void settle_down(self_ptr self, child& c, bool asked, const caf::error& reason) {
  auto& st = self->state;
  if (!c.removers.empty()) {
    forget(self, c);
    return;
  }
  auto* from = rest_for_one(st) ? first_waiting(st) : nullptr;
  if (asked || (from && from < &c && wants_restart(c, static_cast<bool>(reason))))
    collateral(self, c);
  else if (wants_restart(c, static_cast<bool>(reason)))
    failed(self, c);
}

void on_down(self_ptr self, const caf::down_msg& down) {
  auto& st = self->state;
  auto i = std::ranges::find_if(st.children, [&](const child& c) { return c.handle && c.handle.address() == down.source; });
  if (i == st.children.end())
    return;
  auto asked = i->now == phase::ending;
  if (!asked)
    log::warn({i->spec.name, " ended: ", down.reason ? to_string(down.reason) : "normally"});
  i->handle = nullptr;
  i->now = phase::ended;
  publish(self, *i); // the name resolves to "down" at once
  if (st.stop_reason)
    stop_next(self);
  else
    settle_down(self, *i, asked, down.reason);
}

void on_backoff_over(self_ptr self, const std::string& name, std::uint64_t incarnation) {
  auto& st = self->state;
  auto* c = find(st, name);
  if (st.stop_reason || !c || c->now != phase::waiting || c->incarnation != incarnation)
    return;
  if (!rest_for_one(st)) {
    start(self, *c);
  } else if (c == first_waiting(st)) {
    st.rest_ready = true;
    restart_rest(self);
  }
}

// -- requests ------------------------------------------------------------------------------

caf::result<binding> add(self_ptr self, const child_spec& spec) {
  auto& st = self->state;
  if (st.stop_reason)
    return fail(errc::unavailable);
  if (st.children.size() >= limits::supervisor_children_max())
    return fail(errc::overloaded);
  if (spec.name.empty() || spec.name.find('/') != std::string::npos || !spec.start || find(st, spec.name))
    return fail(errc::invalid, "child name " + spec.name);
  auto& c = st.children.emplace_back();
  c.spec = spec;
  if (rest_for_one(st) && first_waiting(st)) {
    c.now = phase::waiting;
    return binding_of(st, c);
  }
  start(self, c);
  return binding_of(st, c);
}

caf::result<void> remove(self_ptr self, const std::string& name) {
  auto* c = find(self->state, name);
  if (!c)
    return fail(errc::not_found, name);
  auto promise = self->make_response_promise<void>();
  c->removers.emplace_back(promise);
  if (c->now == phase::up)
    end_child(self, *c);
  else if (c->now != phase::ending)
    forget(self, *c);
  return promise;
}

caf::result<void> kill_named(self_ptr self, const std::string& path) {
  if (path.empty()) {
    kill(supervisor_actor{self});
    return caf::unit;
  }
  auto slash = path.find('/');
  auto* c = find(self->state, path.substr(0, slash));
  if (!c || !c->handle || (slash != std::string::npos && !c->spec.kills_below))
    return fail(errc::not_found, path);
  if (slash == std::string::npos) {
    kill(c->handle);
    return caf::unit;
  }
  auto promise = self->make_response_promise();
  promise.delegate(c->handle, kill_atom_v, path.substr(slash + 1));
  return promise;
}

} // namespace

supervisor_state::~supervisor_state() {
  for (auto i = children.rbegin(); i != children.rend(); ++i)
    if (i->handle)
      ask_to_end(i->handle);
}

supervisor_actor::behavior_type supervisor(self_ptr self, supervisor_options options, std::vector<child_spec> specs,
                                           std::shared_ptr<registry> names) {
  install_defaults(self);
  auto& st = self->state;
  st.options = std::move(options);
  st.names = std::move(names);
  st.started = self->clock().now();
  self->set_down_handler([self](caf::down_msg& down) { on_down(self, down); });
  self->set_exit_handler([self](caf::exit_msg& request) { begin_stop(self, request.reason); });
  for (auto& spec : specs) {
    auto& c = st.children.emplace_back();
    c.spec = std::move(spec);
    c.now = phase::waiting;
  }
  for (auto& c : st.children)
    if (st.stop_reason || (!start(self, c) && rest_for_one(st)))
      break;
  return {
    [self](lookup_atom, const std::string& name) -> caf::result<binding> {
      auto* c = find(self->state, name);
      if (!c)
        return fail(errc::not_found, name);
      return binding_of(self->state, *c);
    },
    [self](add_atom, const child_spec& spec) { return add(self, spec); },
    [self](remove_atom, const std::string& name) { return remove(self, name); },
    [self](kill_atom, const std::string& path) { return kill_named(self, path); },
    [self](tree_atom) { return show_tree(self); },
    [self](restart_atom, const std::string& name, std::uint64_t incarnation) { on_backoff_over(self, name, incarnation); },
    [self](tick_atom, const std::string& name, std::uint64_t incarnation) {
      if (auto* c = find(self->state, name); c && c->incarnation == incarnation)
        on_grace_over(self, *c);
    },
  };
}

} // namespace swarm::runtime
