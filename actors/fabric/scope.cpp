#include "actors/fabric/scope.hpp"

#include <algorithm>
#include <set>
#include <variant>

#include <caf/send.hpp>

#include "actors/base/log.hpp"
#include "actors/base/text.hpp"
#include "actors/domain/commands.hpp"
#include "actors/domain/rows.hpp"
#include "actors/fabric/cluster/remote.hpp"
#include "actors/fabric/conversations/conversation.hpp"
#include "actors/fabric/conversations/scope_locks.hpp"
#include "actors/fabric/entities/lock.hpp"
#include "actors/fabric/entities/mailbox.hpp"
#include "actors/fabric/entities/session.hpp"
#include "actors/fabric/entities/task.hpp"
#include "actors/fabric/scope_lost_host.hpp"
#include "actors/fabric/tree_collector.hpp"
#include "actors/fabric/workers/spawn.hpp"
#include "actors/runtime/ending.hpp"
#include "actors/runtime/error_text.hpp"

namespace swarm {

scope_state::~scope_state() {
  for (auto& [key, s] : spawns)
    if (s.who)
      runtime::ask_to_end(s.who);
}

namespace {

using self_ptr = scope_actor::stateful_pointer<scope_state>;

entity_place place_of(self_ptr self, const std::string& id) { return {self->state.links, self->state.id, id, self->address()}; }

// -- deadlines ----------------------------------------------------------------------------

void arm_sweep(self_ptr self, std::int64_t at_ms) {
  auto& st = self->state;
  if (self->state.is_away() || at_ms == 0 || (st.sweep_timer != 0 && st.sweep_at_ms <= at_ms))
    return;
  st.sweep_at_ms = at_ms;
  st.sweep_timer = ++st.next_generation | (std::uint64_t{1} << 63);
  auto delay = std::max<std::int64_t>(at_ms - self->state.now_ms(), 0);
  self->delayed_send(self, std::chrono::milliseconds{delay}, tick_atom_v, st.sweep_timer);
}

void sweep(self_ptr self) {
  auto& st = self->state;
  st.sweep_timer = 0;
  if (std::exchange(st.sweeping, true)) {
    st.sweep_missed = true; // something fell due while a sweep was on its way, perhaps just too late for it
    return;
  }
  st.last_sweep_ms = self->state.now_ms();
  auto cmd = internal_command(*st.links.node, st.id, [](v1::Command& c) { c.mutable_sweep()->set_mode("periodic"); });
  ask_writer(
    self, st.links.writer, cmd,
    [self](const reply_ptr& r) {
      self->state.sweeping = false;
      auto next = r->sweep().next_deadline_ms();
      if (r->sweep().more())
        arm_sweep(self, self->state.now_ms());
      else if (next != 0)
        arm_sweep(self, std::max(next, self->state.now_ms() + limits::scope_sweep_pause().count()));
      if (std::exchange(self->state.sweep_missed, false))
        arm_sweep(self, self->state.now_ms() + limits::scope_sweep_pause().count());
    },
    [self](caf::error& e) {
      self->state.sweeping = self->state.sweep_missed = false;
      log::warn({"scope ", self->state.id, ": sweep: ", runtime::error_text(e)});
      arm_sweep(self, self->state.now_ms() + limits::restart_grace().count());
    });
}

// -- environments ------------------------------------------------------------------------

std::string request_key(const v1::RequestId& id) { return domain::key(id.client(), id.seq()); }

std::size_t bytes_of(const std::vector<std::string>& environment) {
  std::size_t n = 0;
  for (const auto& variable : environment)
    n += variable.size();
  return n;
}

void forget_environment(scope_state& st, const std::string& request) {
  auto node = st.environment_of_request.extract(request);
  if (node.empty())
    return;
  st.environments_bytes -= bytes_of(node.mapped());
  std::erase(st.environment_order, request);
}

// What was refused, or answered from an earlier time, never brings the batch that takes its environment: the oldest make room.
void remember_environment(self_ptr self, const call& c) {
  auto& st = self->state;
  if (c.environment.empty())
    return;
  auto key = request_key(c.what->id);
  if (!st.environment_of_request.emplace(key, c.environment).second)
    return;
  st.environments_bytes += bytes_of(c.environment);
  st.environment_order.push_back(key);
  while (st.environment_order.size() > limits::calls_in_flight_max() || st.environments_bytes > limits::scope_environments_bytes_max)
    forget_environment(st, std::string{st.environment_order.front()});
}

void hand_environment_to_spawns(self_ptr self, const v1::Batch& b) {
  auto& st = self->state;
  auto env = st.environment_of_request.find(request_key(b.request()));
  for (const auto& p : b.patches()) {
    if (!p.has_spawn() || p.spawn().harness().empty())
      continue; // without a harness no process comes of it
    // A further attempt needs it again.
    auto started = p.spawn().status() == v1::Spawn::RUNNING && p.spawn().retries_left() == 0;
    if (!domain::is_live(p.spawn()) || started)
      st.environment_of_spawn.erase(p.spawn().id());
    else if (env != st.environment_of_request.end() && st.environment_of_spawn.size() < limits::node_ptys_max())
      st.environment_of_spawn[p.spawn().id()] = env->second;
  }
  if (env != st.environment_of_request.end())
    forget_environment(st, std::string{env->first});
}

// -- reading what lives here ---------------------------------------------------------------

void reload_later(self_ptr self, std::chrono::milliseconds pause = limits::scope_reload_pause()) {
  auto& st = self->state;
  if (st.reload_timer != 0)
    return;
  st.reload_timer = ++st.next_generation | (std::uint64_t{1} << 62);
  self->delayed_send(self, pause, tick_atom_v, st.reload_timer);
}

} // namespace

/// Our own store is restarted, and the scope with it. While another node does not answer, what lives here goes on.
void scope_internal::not_read(self_ptr self, const char* what, const caf::error& e) {
  if (self->state.is_away()) {
    log::info({"scope ", self->state.id, ": its ", what, " cannot be read just now: ", runtime::error_text(e)});
    return reload_later(self, limits::link_redial_max());
  }
  log::error({"scope ", self->state.id, ": its ", what, " cannot be read: ", runtime::error_text(e)});
  self->quit(fail(errc::unavailable));
}

namespace {

using scope_internal::not_read;

// -- spawns --------------------------------------------------------------------------------

std::string spawn_key(const v1::Spawn& row) { return row.id() + "#" + std::to_string(row.attempt()); }

bool is_attempt_of(const std::string& key, const std::string& id) {
  return key.size() > id.size() && key[id.size()] == '#' && key.compare(0, id.size(), id) == 0;
}

/// Attempts share the id by which the keeper knows their program, so one of them is awake at a time. One that is while the next is asked
/// for, since this host was considered lost, hears that it is over; the next wakes when it has ended.
bool waits_for_another(self_ptr self, const v1::Spawn& row) {
  auto& st = self->state;
  for (auto i = st.spawns.lower_bound(row.id() + "#"); i != st.spawns.end() && is_attempt_of(i->first, row.id()); ++i) {
    if (!i->second.who || i->second.attempt == row.attempt())
      continue;
    // Else the row was read before the commit that we have heard of.
    if (i->second.attempt < row.attempt()) {
      st.followed.insert(row.id());
      caf::anon_send(i->second.who, gone_atom_v);
    }
    return true;
  }
  return false;
}

void wake_spawn(self_ptr self, const v1::Spawn& row) {
  auto& st = self->state;
  // Not bound to a session yet: it waits for its task's dependencies or approval.
  if (row.session_id().empty() || row.node_id() != st.links.node->facts.node_id || waits_for_another(self, row))
    return;
  auto& s = st.spawns[spawn_key(row)];
  if (s.who || s.waits)
    return;
  auto env = st.environment_of_spawn.find(row.id());
  s.who = self->spawn(spawn, place_of(self, row.id()), row, env == st.environment_of_spawn.end() ? std::vector<std::string>{} : env->second);
  s.task_id = row.task_id();
  s.attempt = row.attempt();
  s.since_ms = st.links.node->clock->boot_ms();
  self->monitor(s.who);
  // Its driver is not without the one who hears it.
  if (!row.conversation_id().empty())
    (void)st.conversations.get(row.conversation_id());
}

/// `live`, if given, takes the keys of all that are listed.
void reload_spawns(self_ptr self, std::function<void()> done, std::string page = {}, std::shared_ptr<std::set<std::string>> live = nullptr) {
  auto q = internal_query(*self->state.links.node, self->state.id, [&](v1::Query& x) {
    x.mutable_list_spawns()->set_live_only(true);
    x.mutable_list_spawns()->mutable_page()->set_token(page);
  });
  self->request(self->state.reader(), limits::call_deadline_default(), q)
    .then(
      [self, done, live](const answer_ptr& a) {
        auto left = std::make_shared<std::size_t>(1);
        auto step = [self, done, left, next = a->spawns().page().token(), live] {
          if (--*left == 0)
            next.empty() ? done() : reload_spawns(self, done, next, live);
        };
        for (const auto& row : a->spawns().spawns()) {
          if (live)
            live->insert(spawn_key(row));
          wake_spawn(self, row);
          auto i = self->state.spawns.find(spawn_key(row));
          if (i == self->state.spawns.end() || !i->second.who)
            continue;
          // Once it answers, its question about its child stands before the front's "all are awake" in the line of the
          // processes actor, which would take the child for a stray otherwise.
          ++*left;
          self->request(i->second.who, limits::call_deadline_default(), passivate_atom_v)
            .then([step](bool) { step(); }, [step](caf::error&) { step(); });
        }
        step();
      },
      [self](caf::error& e) { not_read(self, "workers", e); });
}

/// The link was reset: what was said in between is lost. An attempt that was awake before, and is not listed as live, is over.
void compare_spawns(self_ptr self) {
  auto before = std::make_shared<std::vector<std::string>>();
  for (const auto& [key, s] : self->state.spawns)
    if (s.who)
      before->push_back(key);
  auto live = std::make_shared<std::set<std::string>>();
  reload_spawns(
    self,
    [self, before, live] {
      for (const auto& key : *before)
        if (auto i = self->state.spawns.find(key); i != self->state.spawns.end() && i->second.who && !live->contains(key))
          caf::anon_send(i->second.who, gone_atom_v);
    },
    {}, live);
}

void arm_spawns(self_ptr self) {
  auto& st = self->state;
  st.spawn_timer.arm(self, st.links.node->clock->boot_ms(), st.spawns_due.next());
}

void look_again(self_ptr self, const std::string& key, scope_state::live_spawn& s, std::int64_t at_ms) {
  auto& st = self->state;
  s.who = nullptr;
  s.waits = true;
  st.spawns_due.set(key, at_ms);
  arm_spawns(self);
}

void spawn_down(self_ptr self, const std::string& key, scope_state::live_spawn& s, bool failed) {
  auto& st = self->state;
  auto now = st.links.node->clock->boot_ms();
  if (st.followed.erase(key.substr(0, key.rfind('#'))) > 0)
    return look_again(self, key, s, now);
  if (!failed) {
    st.spawns.erase(key);
    return;
  }
  auto next = s.failures.failed(st.links.node->restarts, std::chrono::milliseconds{now - s.since_ms}, now, std::hash<std::string>{}(key));
  look_again(self, key, s, now + next.wait.count());
}

/// Their rows say whether they are still to be looked after.
void wake_due_spawns(self_ptr self) {
  auto& st = self->state;
  std::vector<std::string> due;
  while (auto key = st.spawns_due.take_due(st.links.node->clock->boot_ms()))
    if (auto i = st.spawns.find(*key); i != st.spawns.end() && std::exchange(i->second.waits, false))
      due.push_back(*key);
  arm_spawns(self);
  if (!due.empty())
    reload_spawns(self, [self, due] {
      for (const auto& key : due)
        if (auto i = self->state.spawns.find(key); i != self->state.spawns.end() && !i->second.who && !i->second.waits)
          self->state.spawns.erase(i);
    });
}

// -- sessions ------------------------------------------------------------------------------

bool needs_actor(self_ptr self, const v1::Session& row) {
  return row.spawn_id().empty() && (row.node_id().empty() || row.node_id() == self->state.links.node->facts.node_id) &&
         (row.presence() == v1::Session::PROCESS || row.presence() == v1::Session::CONNECTION);
}

void wake_session(self_ptr self, const v1::Session& row) {
  auto& st = self->state;
  st.session_rows[row.id()] = row;
  auto found = st.sessions.get(row.id());
  st.session_rows.erase(row.id());
  auto* who = std::get_if<session_actor>(&found);
  if (auto i = st.streams.find(row.id()); who && i != st.streams.end())
    for (auto stream : i->second)
      caf::anon_send(*who, attach_atom_v, stream, true);
}

void reload_sessions(self_ptr self, std::function<void()> done, std::string page = {}) {
  auto q = internal_query(*self->state.links.node, self->state.id, [&](v1::Query& x) { x.mutable_list_sessions()->mutable_page()->set_token(page); });
  self->request(self->state.reader(), limits::call_deadline_default(), q)
    .then(
      [self, done](const answer_ptr& a) {
        for (const auto& row : a->sessions().sessions())
          if (needs_actor(self, row))
            wake_session(self, row);
        if (auto next = a->sessions().page().token(); !next.empty())
          return reload_sessions(self, done, next);
        done();
      },
      [self](caf::error& e) { not_read(self, "sessions", e); });
}

/// News of a row that needs its actor. One that has just left, after an earlier end of the session, does not hear them.
void tell_session(self_ptr self, const session_actor& who, const batch_ptr& b) {
  self->request(who, limits::call_deadline_default(), b).then([] {}, [self](caf::error&) { reload_later(self); });
}

// -- conversations --------------------------------------------------------------------------

bool needs_actor(self_ptr self, const v1::Conversation& row) { return row.node_id() == self->state.links.node->facts.node_id && has_driver(row); }

void reload_conversations(self_ptr self, std::function<void()> done, std::string page = {}) {
  auto q =
    internal_query(*self->state.links.node, self->state.id, [&](v1::Query& x) { x.mutable_list_conversations()->mutable_page()->set_token(page); });
  self->request(self->state.reader(), limits::call_deadline_default(), q)
    .then(
      [self, done](const answer_ptr& a) {
        for (const auto& row : a->conversations().conversations())
          if (needs_actor(self, row))
            (void)self->state.conversations.get(row.id());
        if (auto next = a->conversations().page().token(); !next.empty())
          return reload_conversations(self, done, next);
        done();
      },
      [self](caf::error& e) { not_read(self, "conversations", e); });
}

/// What the patch is about; empty = no conversation.
std::string conversation_of(const v1::RowPatch& p) {
  if (p.has_conversation())
    return p.conversation().id();
  if (p.has_prompt())
    return p.prompt().conversation_id();
  if (p.has_approval())
    return p.approval().conversation_id();
  if (p.has_spawn())
    return p.spawn().conversation_id();
  return p.has_erased() && p.erased().table() == v1::Erased::CONVERSATIONS ? p.erased().key() : std::string{};
}

bool is_of_lock(const v1::RowPatch& p) { return p.has_lock() || (p.has_erased() && p.erased().table() == v1::Erased::LOCKS); }

/// Their drivers know what others hold. Many changes that follow each other are told together.
void tell_of_locks(self_ptr self) {
  auto& st = self->state;
  if (st.locks_timer != 0 || st.conversations.size() == 0)
    return;
  st.locks_timer = ++st.next_generation | (std::uint64_t{1} << 61);
  self->delayed_send(self, limits::scope_sweep_pause(), tick_atom_v, st.locks_timer);
}

void locks_changed(self_ptr self) {
  auto& st = self->state;
  st.locks_timer = 0;
  const auto ask = asks(self, st.links.node, [self]() -> const reader_actor& { return self->state.reader(); });
  // Once for all: each read makes the writer catch up.
  auto tell = [self](const scope_locks_ptr& locks) {
    auto& all = self->state.conversations;
    for (const auto& e : all.entries(all.size()))
      if (auto who = all.peek(e.key))
        caf::anon_send(who, locks);
  };
  read_scope_locks(ask, *st.links.node, st.id, std::move(tell), [self] { tell_of_locks(self); });
}

/// To each that it concerns, once. A row that needs its actor gets it.
void tell_conversations(self_ptr self, const batch_ptr& b) {
  auto& st = self->state;
  std::set<std::string> concerned;
  for (const auto& p : b->patches()) {
    if (auto id = conversation_of(p); !id.empty())
      concerned.insert(id);
    if (p.has_conversation() && needs_actor(self, p.conversation()))
      (void)st.conversations.get(p.conversation().id());
    if (p.has_erased() && p.erased().table() == v1::Erased::CONVERSATIONS)
      caf::anon_send(st.links.conversation_blobs, forget_atom_v, p.erased().key());
    if (!p.has_conversation())
      continue;
    auto spawn = st.spawns.find(concat({p.conversation().spawn_id(), "#", p.conversation().generation()}));
    if (spawn != st.spawns.end() && spawn->second.who)
      caf::anon_send(spawn->second.who, b);
  }
  if (std::any_of(b->patches().begin(), b->patches().end(), is_of_lock))
    tell_of_locks(self);
  for (const auto& id : concerned)
    if (auto who = st.conversations.peek(id))
      caf::anon_send(who, b);
}

// -- places in line -------------------------------------------------------------------------

/// Those who stood in line before the start repeat their requests. Who does not has gone, and loses the place before the lock comes to it.
void expect_waiters(self_ptr self) {
  if (self->state.is_away())
    return;
  self->request(self->state.reader(), limits::call_deadline_default(), places_atom_v, self->state.id)
    .then(
      [self](const lock_places_ptr& places) {
        if (!places->empty())
          self->delayed_send(self, limits::restart_grace(), places);
      },
      [self](caf::error& e) { not_read(self, "places in line", e); });
}

void end_grace_of(self_ptr self, const lock_places_ptr& places) {
  std::set<std::string> paths;
  for (const auto& w : *places)
    if (paths.insert(w.path()).second) {
      auto found = self->state.locks.get(w.path());
      if (auto* who = std::get_if<lock_actor>(&found))
        caf::anon_send(*who, places);
    }
}

// -- commits -------------------------------------------------------------------------------

void on_batch(self_ptr self, const batch_ptr& b) {
  auto& st = self->state;
  hand_environment_to_spawns(self, *b);
  tell_conversations(self, b);
  // Rows past their age have no deadline of their own; where something happens they are looked for now and then.
  if (auto now = self->state.now_ms(); now - st.last_sweep_ms > limits::retention_sweep().count())
    arm_sweep(self, now);
  for (const auto& p : b->patches()) {
    arm_sweep(self, domain::due_at(p));
    if (p.has_task()) {
      if (auto who = st.tasks.peek(p.task().id()))
        caf::anon_send(who, b);
      if (p.task().status() == v1::CANCELLED)
        for (const auto& [key, s] : st.spawns)
          if (s.who && s.task_id == p.task().id())
            caf::anon_send(s.who, b);
    } else if (p.has_session()) {
      auto who = st.sessions.peek(p.session().id());
      if (!needs_actor(self, p.session())) {
        if (who)
          caf::anon_send(who, b);
      } else if (who) {
        tell_session(self, who, b);
      } else {
        wake_session(self, p.session());
      }
    } else if (p.has_erased() && p.erased().table() == v1::Erased::CREDENTIALS) {
      if (auto* tokens = st.links.node->tokens)
        tokens->token_gone(p.erased().key());
    } else if (p.has_erased() && p.erased().table() == v1::Erased::SESSIONS) {
      if (auto* tokens = st.links.node->tokens)
        tokens->session_gone(p.erased().key());
      if (auto who = st.sessions.peek(p.erased().key()))
        caf::anon_send(who, b);
    } else if (p.has_spawn()) {
      // An earlier attempt that still runs here, of a worker whose host was considered lost, hears that it is over.
      for (const auto& [key, s] : st.spawns)
        if (self->state.is_away() && s.who && key != spawn_key(p.spawn()) && is_attempt_of(key, p.spawn().id()))
          caf::anon_send(s.who, b);
      auto i = st.spawns.find(spawn_key(p.spawn()));
      if (i != st.spawns.end() && i->second.who) {
        caf::anon_send(i->second.who, b);
      } else if (p.spawn().status() == v1::Spawn::REQUESTED) {
        wake_spawn(self, p.spawn());
        lost_host::begin_elsewhere_if_gone(self, p.spawn());
      } else if (!domain::is_live(p.spawn()) && p.spawn().node_id() == st.links.node->facts.node_id) {
        if (i != st.spawns.end())
          st.spawns.erase(i);
        caf::anon_send(st.links.processes, forget_atom_v, p.spawn().id()); // its actor did not live to say so
      }
    }
  }
  std::set<std::string> decided;
  for (const auto& r : b->resolved()) {
    // Nobody may stand for the one who gets it: then its actor sees to it that the lock does not stay there.
    if (!st.is_away() && r.reply().lock().has_lock())
      (void)st.locks.get(r.path());
    decided.insert(r.path());
  }
  // Once to each: a grant that an actor hears a second time would look as if nobody had stood for it.
  for (const auto& path : decided)
    if (auto who = st.locks.peek(path))
      caf::anon_send(who, b);
}

// -- calls ---------------------------------------------------------------------------------

/// To the scope's home, as long as the caller is there.
caf::result<reply_ptr> forward(self_ptr self, const call_ptr& c) {
  auto& st = self->state;
  auto promise = self->make_response_promise<reply_ptr>();
  auto request = to_link(*c->what, c->patience);
  st.forwarded[c.get()] = request;
  ask_node(self, st.links.federation, st.links.home, request, promise, reply_in, [self, key = c.get()] { self->state.forwarded.erase(key); });
  return promise;
}

/// Whoever may start a program may say in which environment. Words for an agent that has to be started for them are no such right: the environment of
/// another's agent holds its session's token, and leads to the code that runs as it.
bool may_bring_environment(const v1::Command& c) {
  return c.has_dispatch() || c.has_request_spawn() || c.has_start_conversation() ||
         ((c.has_send_prompt() || c.has_resume_conversation()) && c.principal().kind() == v1::Principal::OPERATOR);
}

caf::result<reply_ptr> on_call(self_ptr self, const call_ptr& c) {
  auto& st = self->state;
  const auto& cmd = c->what->command;
  if (may_bring_environment(cmd))
    remember_environment(self, *c);
  if (self->state.is_away())
    return forward(self, c);
  if (const auto* spec = domain::spec_of(cmd); spec && spec->about.kind == domain::subject::task)
    return st.tasks.route<reply_ptr>(spec->about.id(cmd), c->what);
  // One that has its driver may have the intent to give the prompt stored with it.
  if (cmd.has_send_prompt())
    if (auto who = st.conversations.awake(cmd.send_prompt().conversation_id()))
      return self->delegate(who, c->what);
  // A lock without a line needs no actor; a caller willing to wait does.
  if (cmd.has_acquire_lock() && cmd.acquire_lock().wait_ms() > 0)
    return st.locks.route<reply_ptr>(cmd.acquire_lock().path(), c->what);
  return self->delegate(st.links.writer, c->what);
}

// -- graph ---------------------------------------------------------------------------------

template <class Directory>
void collect(self_ptr self, tree_collector& out, const char* family, const Directory& dir) {
  for (const auto& e : dir.entries(limits::tree_rows_per_family_max)) {
    runtime::tree_entry row;
    row.path = std::string{family} + "/" + e.key;
    row.kind = family;
    row.age_ms = e.age_ms;
    row.restarts = e.restarts;
    if (e.down)
      out.add_waiting(std::move(row));
    else
      out.ask(self, dir.peek(e.key), std::move(row));
  }
}

caf::result<std::vector<runtime::tree_entry>> tree(self_ptr self) {
  auto& st = self->state;
  auto promise = self->make_response_promise<std::vector<runtime::tree_entry>>();
  auto out = std::make_shared<tree_collector>(promise);
  out->add(runtime::self_row(self, st.booted ? "up" : "loading", st.id));
  collect(self, *out, "session", st.sessions);
  collect(self, *out, "task", st.tasks);
  collect(self, *out, "lock", st.locks);
  collect(self, *out, "mailbox", st.mailboxes);
  collect(self, *out, "conversation", st.conversations);
  for (const auto& [key, s] : st.spawns) {
    runtime::tree_entry row;
    row.path = "spawn/" + key;
    row.kind = "spawn";
    row.restarts = s.failures.failures();
    if (!s.who) {
      out->add_waiting(std::move(row));
      continue;
    }
    row.age_ms = st.links.node->clock->boot_ms() - s.since_ms;
    out->ask(self, s.who, std::move(row));
  }
  return promise;
}

caf::result<void> kill(self_ptr self, const std::string& path) {
  auto& st = self->state;
  auto slash = path.find('/');
  auto family = path.substr(0, slash);
  auto id = slash == std::string::npos ? std::string{} : path.substr(slash + 1);
  auto end = [](const auto& who) {
    if (who)
      runtime::kill(who);
    return static_cast<bool>(who);
  };
  auto found = false;
  if (family == "task")
    found = end(st.tasks.peek(id));
  else if (family == "lock")
    found = end(st.locks.peek(id));
  else if (family == "mailbox")
    found = end(st.mailboxes.peek(id));
  else if (family == "conversation")
    found = end(st.conversations.peek(id));
  else if (family == "session")
    found = end(st.sessions.peek(id));
  else if (auto i = st.spawns.find(id); family == "spawn" && i != st.spawns.end())
    found = end(i->second.who);
  if (!found)
    return fail(errc::not_found, "no actor " + path);
  return {};
}

// -- life ----------------------------------------------------------------------------------

void boot_step_done(self_ptr self) {
  auto& st = self->state;
  if (--st.boot_steps > 0)
    return;
  st.booted = true;
  for (auto& p : std::exchange(st.waiting_for_boot, {}))
    p.answer(true);
}

void boot(self_ptr self) {
  auto& st = self->state;
  st.boot_steps = 3;
  reload_sessions(self, [self] { boot_step_done(self); });
  reload_spawns(self, [self] { boot_step_done(self); });
  reload_conversations(self, [self] { boot_step_done(self); });
  expect_waiters(self);
  arm_sweep(self, self->state.now_ms());
}

void on_down(self_ptr self, const caf::down_msg& dm) {
  auto& st = self->state;
  if (auto waited = st.forwarded_for.extract(dm.source); !waited.empty())
    return caf::anon_send(st.links.federation, abort_atom_v, st.links.home, waited.mapped());
  if (st.tasks.on_down(dm) || st.locks.on_down(dm) || st.mailboxes.on_down(dm))
    return;
  if (st.sessions.on_down(dm) || st.conversations.on_down(dm))
    return;
  auto i = std::find_if(st.spawns.begin(), st.spawns.end(), [&](const auto& s) { return s.second.who && s.second.who.address() == dm.source; });
  if (i != st.spawns.end())
    spawn_down(self, std::string{i->first}, i->second, static_cast<bool>(dm.reason));
}

void open_directories(self_ptr self) {
  auto& st = self->state;
  runtime::directory_options options;
  options.restarts = runtime::at_once_first(st.links.node->restarts);
  st.tasks.open(
    self, [self](const std::string& id) { return self->spawn(task, place_of(self, id)); }, options);
  st.locks.open(
    self, [self](const std::string& id) { return self->spawn(lock, place_of(self, id)); }, options);
  st.mailboxes.open(
    self, [self](const std::string& id) { return self->spawn(mailbox, place_of(self, id)); }, options);
  // One that crashed has left a driver unheard.
  auto permanent = options;
  permanent.permanent = true;
  st.conversations.open(
    self, [self](const std::string& id) { return self->spawn(conversation, place_of(self, id)); }, permanent);
  // One that crashed was watching a process: its row is read and it watches again.
  options.permanent = true;
  st.sessions.open(
    self,
    [self](const std::string& id) -> session_actor {
      auto& rows = self->state.session_rows;
      if (auto row = rows.find(id); row != rows.end())
        return self->spawn(session, place_of(self, id), row->second, !self->state.booted);
      reload_sessions(self, [] {});
      return {};
    },
    options);
}

} // namespace

scope_actor::behavior_type scope(self_ptr self, node_links links, std::string id) {
  runtime::install_defaults(self);
  self->set_down_handler([self](caf::down_msg& dm) { on_down(self, dm); });
  auto& st = self->state;
  st.links = std::move(links);
  st.id = std::move(id);
  st.born_ms = self->state.now_ms();
  open_directories(self);
  boot(self);
  return {
    [self](const call_ptr& c) { return on_call(self, c); },
    [self](abort_atom, const call_ptr& c) -> caf::result<void> {
      auto& s = self->state;
      if (!self->state.is_away() && c->what->command.has_acquire_lock())
        return s.locks.route<void>(c->what->command.acquire_lock().path(), abort_atom_v, c->what);
      if (auto i = s.forwarded.find(c.get()); i != s.forwarded.end()) {
        caf::anon_send(s.links.federation, abort_atom_v, s.links.home, i->second);
        s.forwarded.erase(i);
      }
      return caf::unit;
    },
    [self](forget_atom, const call_ptr& c) { return self->state.locks.route<void>(c->what->command.acquire_lock().path(), forget_atom_v, c->what); },
    [self](const query_ptr& q) -> caf::result<answer_ptr> { return self->delegate(self->state.reader(), q); },
    [self](const wait_request_ptr& w) -> caf::result<activity_ptr> {
      auto& s = self->state;
      if (!self->state.is_away())
        return s.mailboxes.route<activity_ptr>(w->session_id(), w);
      auto promise = self->make_response_promise<activity_ptr>();
      auto request = to_link(*w);
      auto who = caf::actor_cast<caf::actor_addr>(self->current_sender());
      if (who) {
        self->monitor(who);
        s.forwarded_for[who] = request;
      }
      ask_node(self, s.links.federation, s.links.home, request, promise, activity_in, [self, who] {
        if (self->state.forwarded_for.erase(who) != 0)
          self->demonitor(who);
      });
      return promise;
    },
    [self](const conversation_poll_ptr& p) { return self->state.conversations.route<conversation_news_ptr>(p->id, p); },
    [self](const batch_ptr& b) { on_batch(self, b); },
    [self](const lock_places_ptr& places) { end_grace_of(self, places); },
    [self](attach_atom, const std::string& session_id, std::uint64_t stream, bool on) {
      auto& s = self->state;
      if (on)
        s.streams[session_id].insert(stream);
      else if (auto i = s.streams.find(session_id); i != s.streams.end() && i->second.erase(stream) > 0 && i->second.empty())
        s.streams.erase(i);
      if (auto who = s.sessions.peek(session_id))
        caf::anon_send(who, attach_atom_v, stream, on);
    },
    [self](reload_atom) { reload_later(self); },
    [self](gone_atom, const std::string& spawn, std::uint32_t attempt) {
      auto& s = self->state;
      if (auto i = s.spawns.find(concat({spawn, "#", attempt})); i != s.spawns.end() && i->second.who)
        caf::anon_send(i->second.who, tick_atom_v);
    },
    [self](gone_atom, const std::string& node_id) { return lost_host::end_what_lived_on(self, node_id); },
    [self](tick_atom, std::uint64_t stamp) {
      auto& s = self->state;
      if (stamp == s.sweep_timer)
        return sweep(self);
      if (stamp == s.locks_timer)
        return locks_changed(self);
      if (stamp == s.reload_timer) {
        s.reload_timer = 0;
        if (!s.booted)
          return boot(self);
        reload_sessions(self, [] {});
        return self->state.is_away() ? compare_spawns(self) : reload_spawns(self, [] {});
      }
      if (s.spawn_timer.fired(stamp))
        return wake_due_spawns(self);
      (void)(s.tasks.on_tick(stamp) || s.locks.on_tick(stamp) || s.mailboxes.on_tick(stamp) || s.sessions.on_tick(stamp) ||
             s.conversations.on_tick(stamp));
    },
    [self](boot_atom) -> caf::result<bool> {
      if (self->state.booted)
        return true;
      auto promise = self->make_response_promise<bool>();
      self->state.waiting_for_boot.emplace_back(promise);
      return promise;
    },
    [self](tree_atom) { return tree(self); },
    [self](kill_atom, const std::string& path) { return kill(self, path); },
    [self](passivate_atom) {
      auto& s = self->state;
      auto goes = s.booted && !s.sweeping && s.sweep_timer == 0 && s.reload_timer == 0 && s.spawns.empty() && s.environment_of_spawn.empty() &&
                  s.streams.empty() && s.forwarded.empty() && s.forwarded_for.empty() &&
                  s.tasks.size() + s.locks.size() + s.mailboxes.size() + s.sessions.size() + s.conversations.size() == 0;
      if (goes)
        self->quit();
      return goes;
    },
  };
}

} // namespace swarm
