#include "actors/fabric/front.hpp"

#include <caf/send.hpp>

#include "actors/base/log.hpp"
#include "actors/fabric/cluster/remote.hpp"
#include "actors/fabric/scope.hpp"
#include "actors/fabric/tree_collector.hpp"
#include "actors/runtime/ending.hpp"
#include "actors/runtime/error_text.hpp"

namespace swarm {

namespace {

using self_ptr = front_actor::stateful_pointer<front_state>;

const reader_actor& reader(self_ptr self) {
  auto& st = self->state;
  return st.links.readers[st.next_reader++ % st.links.readers.size()];
}

/// The node that is home of the scope; empty = this one.
std::string home_of(self_ptr self, const std::string& scope) {
  auto* cluster = self->state.links.node->cluster;
  return cluster ? cluster->home_of(scope) : std::string{};
}

std::string shared_home(self_ptr self) {
  auto* cluster = self->state.links.node->cluster;
  return cluster ? cluster->shared_home() : std::string{};
}

const front_state::remote& remote_at(self_ptr self, const std::string& home) {
  auto& st = self->state;
  auto i = st.remotes.find(home);
  if (i == st.remotes.end())
    i = st.remotes
          .emplace(home, front_state::remote{self->spawn<caf::linked>(remote_writer, st.links.federation, home),
                                             self->spawn<caf::linked>(remote_reader, st.links.federation, home),
                                             self->spawn<caf::linked>(remote_watch, st.links.federation, home)})
          .first;
  return i->second;
}

/// All who live here have asked about their children: who has not is a stray.
void tell_processes(self_ptr self) {
  auto& st = self->state;
  if (st.booted && st.all_awake && !st.boot_failed && (st.remote_awake || shared_home(self).empty()))
    caf::anon_send(st.links.processes, boot_atom_v);
}

void boot_again_later(self_ptr self) {
  auto& st = self->state;
  auto now = st.links.node->clock->boot_ms();
  auto wait = st.boot_waits.after_failure(st.links.node->restarts, std::chrono::milliseconds{0}, 0);
  st.reboot.arm(self, now, now + wait.count());
}

void boot_done(self_ptr self) {
  auto& st = self->state;
  st.booted = true;
  if (st.boot_failed) {
    boot_again_later(self);
  } else {
    st.boot_waits = {};
    tell_processes(self);
  }
  for (auto& p : std::exchange(st.waiting_for_boot, {}))
    p.answer(true);
}

/// Wakes every scope that has rows, a page at a time; a scope that has nothing alive goes back to sleep by itself.
void boot(self_ptr self, std::string page = {}) {
  auto q = internal_query(*self->state.links.node, "", [&](v1::Query& x) { x.mutable_list_scopes()->mutable_page()->set_token(page); });
  self->request(reader(self), limits::call_deadline_default(), q)
    .then(
      [self](const answer_ptr& a) {
        auto left = std::make_shared<std::size_t>(1);
        auto next = a->scopes().page().token();
        auto step = [self, left, next] {
          if (--*left == 0)
            next.empty() ? boot_done(self) : boot(self, next);
        };
        for (const auto& s : a->scopes().scopes()) {
          if (!home_of(self, s.scope()).empty())
            continue; // rows of before this node joined; what lives here of the scope is asked for when the link is up
          auto found = self->state.scopes.get(s.scope());
          auto* who = std::get_if<scope_actor>(&found);
          if (!who) {
            self->state.all_awake &= std::get<errc>(found) != errc::overloaded;
            self->state.boot_failed |= self->state.scopes.is_down(s.scope());
            continue;
          }
          ++*left;
          self->request(*who, limits::call_deadline_default(), boot_atom_v)
            .then([step](bool) { step(); },
                  [self, step](caf::error&) {
                    self->state.boot_failed = true;
                    step();
                  });
        }
        step();
      },
      [self](caf::error& e) {
        log::error({"the scopes cannot be read: ", runtime::error_text(e)});
        self->quit(fail(errc::unavailable));
      });
}

scope_actor wake_scope(self_ptr self, const std::string& id) {
  auto links = self->state.links;
  links.home = home_of(self, id);
  if (!links.home.empty()) {
    const auto& home = remote_at(self, links.home);
    links.writer = home.writer;
    links.readers = {home.reader};
    links.watch = home.watch;
  }
  auto who = self->spawn(scope, std::move(links), id);
  if (auto i = self->state.streams.find(id); i != self->state.streams.end())
    for (const auto& [stream, session] : i->second)
      caf::anon_send(who, attach_atom_v, session, stream, true);
  return who;
}

// -- scopes of other nodes -------------------------------------------------------------------

/// Wakes what lives here of that home's scopes; one that is awake reads it again. One that has nothing alive here goes back to sleep.
void reload(self_ptr self, const std::string& home, std::string page = {}) {
  auto q = internal_query(*self->state.links.node, "", [&](v1::Query& x) { x.mutable_list_scopes()->mutable_page()->set_token(page); });
  self->request(remote_at(self, home).reader, limits::call_deadline_default() * 2, q)
    .then(
      [self, home](const answer_ptr& a) {
        auto left = std::make_shared<std::size_t>(1);
        auto next = a->scopes().page().token();
        auto step = [self, home, left, next] {
          if (--*left > 0)
            return;
          if (!next.empty())
            return reload(self, home, next);
          if (!std::exchange(self->state.remote_awake, true))
            tell_processes(self);
        };
        for (const auto& s : a->scopes().scopes()) {
          if (home_of(self, s.scope()) != home)
            continue;
          auto found = self->state.scopes.get(s.scope());
          auto* who = std::get_if<scope_actor>(&found);
          if (!who) {
            self->state.all_awake &= std::get<errc>(found) != errc::overloaded;
            continue;
          }
          ++*left;
          caf::anon_send(*who, reload_atom_v);
          self->request(*who, limits::call_deadline_default(), boot_atom_v).then([step](bool) { step(); }, [step](caf::error&) { step(); });
        }
        step();
      },
      [self, home](caf::error& e) {
        log::warn({"the scopes of the node ", home, " cannot be read: ", runtime::error_text(e)});
        self->delayed_send(self, limits::link_redial_max(), reload_atom_v, home);
      });
}

/// `done` says whether all of them, and those of further pages, have dealt with it.
void tell_all_scopes(self_ptr self, const std::string& lost_node, std::function<void(bool)> done, std::string page = {}) {
  auto q = internal_query(*self->state.links.node, "", [&](v1::Query& x) { x.mutable_list_scopes()->mutable_page()->set_token(page); });
  self->request(reader(self), limits::call_deadline_default(), q)
    .then(
      [self, lost_node, done](const answer_ptr& a) {
        auto left = std::make_shared<std::size_t>(1);
        auto all_well = std::make_shared<bool>(true);
        auto step = [self, lost_node, done, left, all_well, next = a->scopes().page().token()](bool well) {
          *all_well &= well;
          if (--*left > 0)
            return;
          if (next.empty() || !*all_well)
            return done(*all_well);
          tell_all_scopes(self, lost_node, done, next);
        };
        for (const auto& s : a->scopes().scopes()) {
          auto* cluster = self->state.links.node->cluster;
          if (!cluster || !cluster->is_shared(s.scope()))
            continue; // nobody else lives in it
          auto found = self->state.scopes.get(s.scope());
          auto* who = std::get_if<scope_actor>(&found);
          ++*left;
          if (!who) {
            step(false);
            continue;
          }
          self->request(*who, limits::call_deadline_default(), gone_atom_v, lost_node).then(step, [step](caf::error&) { step(false); });
        }
        step(true);
      },
      [done](caf::error& e) {
        log::error({"the scopes cannot be read: ", runtime::error_text(e)});
        done(false);
      });
}

/// What the services ask the home as this node is about somebody who calls, such as whose a token is. The node asks, for it may know; but a client
/// waits, and has nothing to wait for while the home is away.
link_request_ptr for_caller(const v1::Query& q, const link_patience& patience = {}) {
  auto r = std::make_shared<v1::LinkRequest>(*to_link(q, patience));
  r->mutable_principal()->Clear();
  r->mutable_principal()->set_kind(v1::Principal::SESSION); // which one is the question
  return r;
}

/// Who bears this token: one of this node's sessions, or one of a scope whose home is another node.
caf::result<answer_ptr> resolve_token(self_ptr self, const query_ptr& q) {
  auto home = shared_home(self);
  if (home.empty())
    return self->delegate(reader(self), q);
  auto promise = self->make_response_promise<answer_ptr>();
  auto kept = std::make_shared<runtime::parked<answer_ptr>>(promise);
  self->request(reader(self), limits::call_deadline_default(), q)
    .then(
      [self, kept, home, q](const answer_ptr& a) {
        if (a->has_session())
          return kept->answer(a);
        self
          ->request(self->state.links.federation, caf::infinite, home, for_caller(*q)) // lint: edge deadline
          .then(
            [kept](const link_response_ptr& r) {
              auto said = answer_in(*r);
              said ? kept->answer(std::move(*said)) : kept->answer(std::move(said.error()));
            },
            [kept](caf::error& e) { kept->answer(std::move(e)); });
      },
      [kept](caf::error& e) { kept->answer(std::move(e)); });
  return promise;
}

/// Queries need nothing alive.
caf::result<answer_ptr> answer(self_ptr self, const query_ptr& q, const link_patience& patience) {
  auto home = q->list_scopes().shared() ? shared_home(self) : q->scope().empty() ? std::string{} : home_of(self, q->scope());
  if (home.empty())
    return self->delegate(reader(self), q);
  auto promise = self->make_response_promise<answer_ptr>();
  if (q->principal().kind() == v1::Principal::NODE)
    ask_node(self, self->state.links.federation, home, for_caller(*q, patience), promise, answer_in);
  else
    ask_home(self, self->state.links.federation, home, to_link(*q, patience), promise);
  return promise;
}

void on_commit(self_ptr self, const commit_ptr& c) {
  for (const auto& b : c->batches) {
    auto found = self->state.scopes.get(b.scope());
    if (auto* who = std::get_if<scope_actor>(&found))
      caf::anon_send(*who, batch_ptr{c, &b});
    else if (auto draining = self->state.scopes.peek(b.scope()))
      caf::anon_send(draining, batch_ptr{c, &b});
  }
}

caf::result<std::vector<runtime::tree_entry>> tree(self_ptr self) {
  auto promise = self->make_response_promise<std::vector<runtime::tree_entry>>();
  auto out = std::make_shared<tree_collector>(promise);
  out->add(runtime::self_row(self, self->state.booted ? "up" : "loading"));
  for (const auto& e : self->state.scopes.entries(limits::scopes_awake_max())) {
    runtime::tree_entry row;
    row.path = e.key;
    row.kind = "scope";
    row.age_ms = e.age_ms;
    row.restarts = e.restarts;
    if (e.down)
      out->add_waiting(std::move(row));
    else
      out->ask_below(self, self->state.scopes.peek(e.key), std::move(row));
  }
  return promise;
}

/// A path below us starts with a scope, which may contain slashes itself: the longest awake scope that fits is meant.
caf::result<void> kill(self_ptr self, const std::string& path) {
  std::string best;
  for (const auto& e : self->state.scopes.entries(limits::scopes_awake_max()))
    if (e.key.size() >= best.size() && (path == e.key || path.rfind(e.key + "/", 0) == 0))
      best = e.key;
  auto who = self->state.scopes.peek(best);
  if (best.empty() || !who)
    return fail(errc::not_found, "no actor " + path);
  if (path == best) {
    runtime::kill(who);
    return {};
  }
  return self->delegate(who, kill_atom_v, path.substr(best.size() + 1));
}

} // namespace

front_actor::behavior_type front(self_ptr self, node_links links) {
  runtime::install_defaults(self);
  self->set_down_handler([self](caf::down_msg& dm) { self->state.scopes.on_down(dm); });
  auto& st = self->state;
  st.links = std::move(links);
  runtime::directory_options options;
  options.awake_max = limits::scopes_awake_max();
  options.awake_hard_max = 2 * limits::scopes_awake_max();
  options.restarts = runtime::at_once_first(st.links.node->restarts);
  // The deadlines and workers of a scope that died of an error do not wait for somebody to ask.
  options.permanent = true;
  st.scopes.open(
    self, [self](const std::string& id) { return wake_scope(self, id); }, options);
  caf::anon_send(st.links.watch, attach_atom_v, caf::actor_cast<commit_sink_actor>(self));
  caf::anon_send(st.links.federation, attach_atom_v, caf::actor_cast<front_actor>(self));
  boot(self);
  return {
    [self](const call_ptr& c) { return self->state.scopes.route<reply_ptr>(c->what->command.scope(), c); },
    [self](abort_atom, const call_ptr& c) { return self->state.scopes.route<void>(c->what->command.scope(), abort_atom_v, c); },
    [self](forget_atom, const call_ptr& c) { return self->state.scopes.route<void>(c->what->command.scope(), forget_atom_v, c); },
    [self](const query_ptr& q) -> caf::result<answer_ptr> { return q->has_resolve_token() ? resolve_token(self, q) : answer(self, q, std::nullopt); },
    [self](const query_ptr& q, caf::timespan patience) { return answer(self, q, std::chrono::duration_cast<std::chrono::milliseconds>(patience)); },
    [self](const wait_request_ptr& w) { return self->state.scopes.route<activity_ptr>(w->scope(), w); },
    [self](const conversation_poll_ptr& p) { return self->state.scopes.route<conversation_news_ptr>(p->scope, p); },
    [self](attach_atom, const std::string& scope_id, const std::string& session_id, std::uint64_t stream, bool on) {
      auto& s = self->state;
      // A scope that is woken by this hears of it from its birth; telling it twice does no harm.
      if (on)
        s.streams[scope_id][stream] = session_id;
      else if (auto i = s.streams.find(scope_id); i != s.streams.end() && i->second.erase(stream) > 0 && i->second.empty())
        s.streams.erase(i);
      auto found = s.scopes.get(scope_id);
      if (auto* who = std::get_if<scope_actor>(&found))
        caf::anon_send(*who, attach_atom_v, session_id, stream, on);
      else if (auto draining = s.scopes.peek(scope_id))
        caf::anon_send(draining, attach_atom_v, session_id, stream, on);
    },
    [self](const commit_ptr& c) { on_commit(self, c); },
    [self](reload_atom, const std::string& node_id) {
      if (node_id == shared_home(self))
        reload(self, node_id);
    },
    [self](gone_atom, const std::string& node_id) -> caf::result<bool> {
      auto promise = self->make_response_promise<bool>();
      auto kept = std::make_shared<runtime::parked<bool>>(promise);
      tell_all_scopes(self, node_id, [kept](bool well) {
        if (well)
          kept->answer(true);
        else
          kept->answer(fail(errc::unavailable));
      });
      return promise;
    },
    [self](boot_atom) -> caf::result<bool> {
      if (self->state.booted)
        return true;
      auto promise = self->make_response_promise<bool>();
      self->state.waiting_for_boot.emplace_back(promise);
      return promise;
    },
    [self](tick_atom, std::uint64_t stamp) {
      if (!self->state.reboot.fired(stamp))
        return (void)self->state.scopes.on_tick(stamp);
      self->state.boot_failed = false;
      boot(self);
    },
    [self](tree_atom) { return tree(self); },
    [self](kill_atom, const std::string& path) { return kill(self, path); },
  };
}

} // namespace swarm
