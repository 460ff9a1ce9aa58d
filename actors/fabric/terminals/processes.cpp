#include "actors/fabric/terminals/processes.hpp"

#include <algorithm>

#include <caf/send.hpp>

#include "actors/base/limits.hpp"
#include "actors/base/log.hpp"
#include "actors/fabric/entity.hpp"
#include "actors/fabric/terminals/processes_internal.hpp"
#include "actors/runtime/ending.hpp"

namespace swarm {

processes_state::~processes_state() {
  for (auto& [id, c] : children)
    if (c.terminal)
      caf::anon_send_exit(c.terminal, caf::exit_reason::user_shutdown);
}

namespace processes_internal {

void retire(self_ptr self, const std::string& id) {
  auto& st = self->state;
  std::erase(st.ended, id);
  st.ended.push_back(id);
  if (st.ended.size() <= limits::ended_terminals_max())
    return;
  if (auto node = st.children.extract(st.ended.front()); !node.empty() && node.mapped().terminal)
    caf::anon_send_exit(node.mapped().terminal, caf::exit_reason::user_shutdown);
  st.ended.pop_front();
}

} // namespace processes_internal

using namespace processes_internal;

namespace {

/// The others place workers by it.
void tell_how_busy(self_ptr self) {
  const auto& st = self->state;
  if (!st.node->cluster)
    return;
  auto running = std::count_if(st.children.begin(), st.children.end(),
                               [](const auto& c) { return !c.second.info.exited && (c.second.info.exists || !c.second.starting.empty()); });
  st.node->cluster->busy(static_cast<std::uint32_t>(running));
}

child_info_ptr share(const child_info& c) { return std::make_shared<const child_info>(c); }

void tell(const processes_state::child& c, const keeper_news_ptr& news) {
  if (c.listener)
    caf::anon_send(c.listener, news);
  if (c.terminal)
    caf::anon_send(c.terminal, news);
}

/// It is about the attempt whose place the one that was asked for takes.
bool is_of_former(const processes_state::child& c, const child_info& told) { return c.request && told.attempt < c.request->attempt(); }

/// A further attempt takes the place of the one that ended, in the files too: its offsets start at 0 again.
void make_room(self_ptr self, processes_state::child& c) {
  auto& st = self->state;
  if (c.terminal)
    caf::anon_send_exit(c.terminal, caf::exit_reason::user_shutdown);
  c.terminal = nullptr;
  c.terminal_failures = {};
  c.terminal_waits = c.terminal_rests = false;
  st.terminals_due.cancel(c.info.id);
  c.record = c.started = nullptr;
  c.ended_at_ms = 0;
  auto slice = std::make_shared<log_slice>();
  slice->id = c.info.id;
  slice->fresh = true;
  caf::anon_send(st.log, log_atom_v, log_slice_ptr{slice});
  c.info = {};
  c.info.id = slice->id;
}

/// How the program of this row has ended, as far as an earlier node has noted it.
child_info ended_before(const v1::PtyInfo& record, const v1::Spawn& row) {
  child_info out;
  out.id = record.id();
  if (record.pid() == 0 || record.pid() != row.pid())
    return out; // of an earlier attempt
  out.exists = out.exited = true;
  out.attempt = row.attempt();
  out.pid = row.pid();
  out.pid_start = row.pid_start();
  out.exit_status = record.exit_status();
  out.signal = record.signal();
  out.end = record.end();
  return out;
}

/// A program dies with its keeper, but what it has started goes on until the next keeper is told.
void end_remains(self_ptr self, const std::string& id) {
  self->state.node->processes->kill(id, 0, static_cast<std::uint32_t>(limits::kill_grace().count()));
}

void answer_question(self_ptr self, processes_state::question q) {
  auto& st = self->state;
  auto i = st.children.find(q.row->id());
  if (i == st.children.end()) {
    if (q.row->pid() != 0)
      end_remains(self, q.row->id());
    return q.promise.answer(share({}));
  }
  auto& c = i->second;
  c.row = q.row;
  c.listener = q.listener;
  self->monitor(c.listener);
  if (c.record && !c.info.exists) {
    make_terminal(self, c);
    return q.promise.answer(share(ended_before(*c.record, *c.row)));
  }
  // The keeper has more than was noted, and is told to forget it when the end is committed.
  if (auto record = std::exchange(c.record, nullptr)) {
    c.ended_at_ms = record->ended_at_ms();
    std::erase(st.ended, c.info.id);
  }
  if (c.started)
    c.name = c.started->name();
  name_child(st, c);
  keep(self, c);
  c.started = nullptr;
  make_terminal(self, c);
  q.promise.answer(share(c.info));
}

/// Children that the keeper holds but no spawn row explains: left over from a crash before their row was committed.
void drop_strays(self_ptr self) {
  auto& st = self->state;
  if (!st.booted || !st.list_complete)
    return;
  for (auto& [id, c] : st.children) {
    // Its end is committed, but the keeper did not live, or we did not, to be told that it may go.
    if (c.record && c.info.exists && !c.row) {
      st.node->processes->forget(id);
      c.info.exists = false;
      c.info.ring = nullptr;
    }
    if (c.row || c.request || c.record)
      continue;
    log::warn({"child ", id, " (pid ", c.info.pid, ") belongs to no spawn and is ended"});
    if (c.info.at_gate)
      st.node->processes->abort(id);
    else if (c.info.exited)
      st.node->processes->forget(id);
    else
      st.node->processes->kill(id, 0, static_cast<std::uint32_t>(limits::kill_grace().count()));
  }
}

/// The news come straight to this activation: an actor that looked it up elsewhere could miss it while it is being started.
void connect(self_ptr self) {
  self->state.node->processes->connect([me = self->address()](keeper_news_ptr news) {
    if (auto who = caf::actor_cast<caf::strong_actor_ptr>(me))
      caf::anon_send(caf::actor_cast<processes_actor>(who), std::move(news));
  });
}

void on_lost(self_ptr self) {
  auto& st = self->state;
  st.attached = st.list_complete = false;
  auto now = st.node->clock->boot_ms();
  auto wait = st.connect_waits.after_failure(st.node->restarts, std::chrono::milliseconds{0}, 0);
  st.reconnect.arm(self, now, now + wait.count());
}

/// A child we know that a new keeper does not list has died with the old one.
void bury_missing(self_ptr self) {
  for (auto& [id, c] : self->state.children) {
    if (c.info.exited || !c.info.exists || self->state.listed.contains(id))
      continue;
    end_remains(self, id);
    if (is_of_former(c, c.info)) {
      make_room(self, c);
      continue;
    }
    auto news = std::make_shared<keeper_news>();
    news->kind = keeper_news::exited;
    c.info.exited = true;
    c.info.exit_status = -1;
    c.info.error = "the keeper ended";
    c.ended_at_ms = self->state.node->clock->unix_ms();
    news->child = c.info;
    keep(self, c);
    tell(c, news);
  }
}

/// It ran when a node before this one ended, and the keeper does not have it: nobody knows how it has ended.
void settle_started(self_ptr self) {
  auto& st = self->state;
  std::vector<std::string> settled;
  for (auto& [id, c] : st.children) {
    if (!c.started || c.row || c.request || c.info.exists)
      continue;
    end_remains(self, id);
    v1::PtyInfo info = *std::exchange(c.started, nullptr);
    info.set_running(false);
    info.set_exit_status(-1);
    c.info.exited = true;
    c.record = std::make_shared<const v1::PtyInfo>(std::move(info));
    caf::anon_send(st.log, log_atom_v, c.record);
    settled.push_back(id);
  }
  for (const auto& id : settled)
    retire(self, id);
}

/// Their spawns claim them later; that may be much later, because the home of a shared scope alone has their rows. Their output is kept meanwhile,
/// and people use them. A record of another process is of an earlier attempt.
void open_unclaimed(self_ptr self) {
  for (auto& [id, c] : self->state.children)
    if (c.started && !c.row && c.info.exists && c.info.pid == c.started->pid())
      make_terminal(self, c);
}

void on_list_complete(self_ptr self) {
  auto& st = self->state;
  st.list_complete = true;
  st.connect_waits = {};
  bury_missing(self);
  settle_started(self);
  // After a restart of the node names are given in the same order as before.
  std::sort(st.questions.begin(), st.questions.end(), [](const auto& a, const auto& b) {
    return std::pair{a.row->requested_at_ms(), a.row->id()} < std::pair{b.row->requested_at_ms(), b.row->id()};
  });
  for (auto& q : std::exchange(st.questions, {}))
    answer_question(self, std::move(q));
  open_unclaimed(self);
  for (auto& [id, c] : st.children)
    if (!c.starting.empty() && c.request)
      st.node->processes->start(*c.request);
  drop_strays(self);
  // One whose ring is full already gives no news, not of its end either.
  for (const auto& [id, c] : st.children)
    if (c.info.exists && !c.info.exited)
      release_untaken(self, c);
}

void on_listed(self_ptr self, const keeper_news_ptr& news) {
  self->state.listed.insert(news->child.id);
  // It was told that it may go, while it could not hear.
  const auto& ended = self->state.ended;
  if (auto i = self->state.children.find(news->child.id); i != self->state.children.end() && !i->second.record && news->child.exited &&
                                                          std::find(ended.begin(), ended.end(), news->child.id) != ended.end())
    return self->state.node->processes->forget(news->child.id);
  auto& c = self->state.children[news->child.id];
  if (c.record && (!news->child.exited || c.record->pid() != news->child.pid)) {
    c.record = nullptr;
    std::erase(self->state.ended, news->child.id);
  }
  auto started = c.info.exists;
  c.info = news->child;
  c.info.exists = true;
  if (started)
    tell(c, news);
}

void on_at_gate(self_ptr self, const keeper_news_ptr& news) {
  auto i = self->state.children.find(news->child.id);
  if (i == self->state.children.end() || is_of_former(i->second, news->child))
    return;
  auto& c = i->second;
  c.info = news->child;
  c.info.exists = c.info.at_gate = true;
  make_terminal(self, c);
  for (auto& p : std::exchange(c.starting, {}))
    p.answer(share(c.info));
}

void on_start_failed(self_ptr self, const keeper_news_ptr& news) {
  auto i = self->state.children.find(news->child.id);
  if (i == self->state.children.end() || is_of_former(i->second, news->child))
    return;
  auto node = self->state.children.extract(i);
  for (auto& p : node.mapped().starting)
    p.answer(fail(errc::keeper_failed, news->child.error));
  if (node.mapped().terminal)
    caf::anon_send_exit(node.mapped().terminal, caf::exit_reason::user_shutdown);
}

void on_exited(self_ptr self, const keeper_news_ptr& news) {
  auto i = self->state.children.find(news->child.id);
  // Aborted at its gate, or a stray: nobody will ask.
  if (i == self->state.children.end())
    return self->state.node->processes->forget(news->child.id);
  auto& c = i->second;
  if (is_of_former(c, news->child))
    return make_room(self, c);
  // The news name the child and its end; which process it was and where its output lies is known already.
  auto known = std::exchange(c.info, news->child);
  c.info.exists = c.info.exited = true;
  c.info.pid = known.pid;
  c.info.pid_start = known.pid_start;
  if (!c.info.ring)
    c.info.ring = known.ring;
  c.ended_at_ms = self->state.node->clock->unix_ms();
  keep(self, c);
  auto full = std::make_shared<keeper_news>(*news);
  full->child = c.info;
  tell(c, full);
  // The ring stays until the end is committed: if the spawn's actor has just died, its successor reports with the output's tail.
  if (c.listener || c.row)
    return;
  self->state.node->processes->forget(news->child.id);
  if (c.started) {
    c.record = std::make_shared<const v1::PtyInfo>(describe(c));
    c.started = nullptr;
    retire(self, news->child.id);
  }
}

/// Its end may still come, or has come and is not committed yet.
bool is_awaited(const processes_state& st, const std::string& id, const processes_state::child& c) {
  if (!c.info.exists)
    return false;
  return c.info.exited ? c.listener && std::find(st.ended.begin(), st.ended.end(), id) == st.ended.end() : st.attached;
}

void answer_if_all_kept(self_ptr self) {
  auto& st = self->state;
  if (st.stopping.empty() || std::any_of(st.children.begin(), st.children.end(), [&](const auto& c) { return is_awaited(st, c.first, c.second); }))
    return;
  auto promises = std::make_shared<std::vector<runtime::parked<bool>>>(std::exchange(st.stopping, {}));
  auto answer = [promises] {
    for (auto& p : *promises)
      p.answer(true);
  };
  // It answers when it has dealt with what it was told before.
  self->request(st.log, limits::call_deadline_default(), tree_atom_v)
    .then([answer](const std::vector<runtime::tree_entry>&) { answer(); }, [answer](caf::error&) { answer(); });
}

void on_news(self_ptr self, const keeper_news_ptr& news) {
  auto& st = self->state;
  switch (news->kind) {
    case keeper_news::attached:
      st.attached = true;
      st.list_complete = false;
      st.listed.clear();
      return;
    case keeper_news::child_listed: return on_listed(self, news);
    case keeper_news::list_complete: on_list_complete(self); break;
    case keeper_news::at_gate: on_at_gate(self, news); break;
    case keeper_news::start_failed: on_start_failed(self, news); break;
    case keeper_news::exited: on_exited(self, news); break;
    case keeper_news::lost: on_lost(self); break;
    case keeper_news::output:
    case keeper_news::input_accepted:
      if (auto i = st.children.find(news->child.id); i != st.children.end()) {
        i->second.info.end = std::max(i->second.info.end, news->child.end);
        if (i->second.terminal)
          caf::anon_send(i->second.terminal, news);
        else
          release_untaken(self, i->second);
      }
      return;
  }
  tell_how_busy(self);
  answer_if_all_kept(self);
}

caf::result<child_info_ptr> start(self_ptr self, const start_request_ptr& request, const spawn_actor& who, const spawn_ptr& row) {
  auto& st = self->state;
  if (st.children.size() >= limits::node_ptys_max() + limits::ended_terminals_max())
    return fail(errc::overloaded, "too many terminals on this node");
  auto promise = self->make_response_promise<child_info_ptr>();
  auto& c = st.children[request->id()];
  c.info.id = request->id();
  std::erase(st.ended, request->id());
  if ((c.info.exited && c.info.attempt != request->attempt()) || (c.started && !c.info.exists))
    make_room(self, c);
  c.row = row;
  name_child(st, c);
  c.request = request;
  c.listener = who;
  self->monitor(who);
  c.starting.emplace_back(promise);
  if (st.list_complete)
    st.node->processes->start(*request);
  return promise;
}

/// Only one of which nothing more is to come: a further attempt would bring it back.
caf::result<pty_info_ptr> forget_ended(self_ptr self, const std::string& id) {
  auto& st = self->state;
  auto i = st.children.find(id);
  if (i == st.children.end() || !is_listed(i->second))
    return fail(errc::not_found, "no terminal " + id + "; `swarmctl pty list` shows them");
  if (!i->second.info.exited)
    return fail(errc::invalid, "the program in this terminal runs; end it first: swarmctl pty kill " + id);
  auto known = std::find(st.ended.begin(), st.ended.end(), id);
  if (known == st.ended.end())
    return fail(errc::unavailable, "the end of this program is being noted; try again");
  auto info = std::make_shared<const v1::PtyInfo>(describe(i->second));
  st.ended.erase(known);
  st.terminals_due.cancel(id);
  if (i->second.terminal)
    caf::anon_send_exit(i->second.terminal, caf::exit_reason::user_shutdown);
  for (auto& p : i->second.asking)
    p.answer(fail(errc::not_found, "no terminal " + id + "; `swarmctl pty list` shows them"));
  st.children.erase(i);
  caf::anon_send(st.log, forget_atom_v, id);
  return info;
}

void load(self_ptr self, const pty_info_ptr& kept) {
  auto& st = self->state;
  auto [i, fresh] = st.children.try_emplace(kept->id());
  auto& c = i->second;
  // A further attempt has been asked for meanwhile.
  if (!fresh)
    return make_room(self, c);
  c.info.id = kept->id();
  c.info.end = kept->end();
  if (kept->running()) {
    c.started = kept;
    return;
  }
  c.record = kept;
  c.info.exited = true;
  retire(self, kept->id());
}

void on_loaded(self_ptr self) {
  auto& st = self->state;
  st.loaded = true;
  for (auto& l : std::exchange(st.listings, {}))
    l.promise.answer(list_of(st, l.scope));
  connect(self);
}

/// Terminals that ended before this node started are shown as they were kept. The keeper's list comes after that: what it does not have of those
/// that ran then has ended.
void load_and_connect(self_ptr self) {
  self->request(self->state.log, limits::call_deadline_default(), list_atom_v)
    .then(
      [self](const std::vector<pty_info_ptr>& kept) {
        for (const auto& info : kept)
          load(self, info);
        on_loaded(self);
      },
      [self](caf::error& e) {
        log::warn({"terminals that ended earlier cannot be listed: ", caf::to_string(e)});
        on_loaded(self);
      });
}

void on_down(self_ptr self, const caf::down_msg& dm) {
  for (auto& [id, c] : self->state.children) {
    if (c.listener && c.listener.address() == dm.source)
      c.listener = nullptr;
    if (c.terminal && c.terminal.address() == dm.source)
      terminal_failed(self, id, c);
  }
  answer_if_all_kept(self);
}

} // namespace

processes_actor::behavior_type processes(self_ptr self, node_environment_ptr node, pty_log_actor log) {
  runtime::install_defaults(self);
  self->set_down_handler([self](caf::down_msg& dm) { on_down(self, dm); });
  self->state.node = std::move(node);
  self->state.log = std::move(log);
  load_and_connect(self);
  return {
    [self](const keeper_news_ptr& news) { on_news(self, news); },
    [self](child_atom, const spawn_ptr& row, const spawn_actor& who) -> caf::result<child_info_ptr> {
      auto promise = self->make_response_promise<child_info_ptr>();
      processes_state::question q{row, who, runtime::parked<child_info_ptr>{promise}};
      if (self->state.list_complete)
        answer_question(self, std::move(q));
      else
        self->state.questions.push_back(std::move(q));
      return promise;
    },
    [self](const start_request_ptr& request, const spawn_actor& who, const spawn_ptr& row) { return start(self, request, who, row); },
    [self](gate_atom, const std::string& id) {
      if (auto i = self->state.children.find(id); i != self->state.children.end()) {
        i->second.info.at_gate = false;
        keep(self, i->second);
      }
      self->state.node->processes->open_gate(id);
    },
    [self](abort_atom, const std::string& id) {
      self->state.node->processes->abort(id);
      std::erase_if(self->state.questions, [&](const auto& q) { return q.row->id() == id; });
      if (auto n = self->state.children.extract(id); !n.empty() && n.mapped().terminal)
        caf::anon_send_exit(n.mapped().terminal, caf::exit_reason::user_shutdown);
    },
    [self](forget_atom, const std::string& id) {
      auto i = self->state.children.find(id);
      // A further attempt may have taken its place before the end of the last one was told; or it was told already.
      const auto& ended = self->state.ended;
      if (i != self->state.children.end() && (!i->second.info.exited || std::find(ended.begin(), ended.end(), id) != ended.end()))
        return;
      self->state.node->processes->forget(id);
      if (i == self->state.children.end())
        return;
      // The record stays for readers; the terminal has copied what was in the ring.
      i->second.info.ring = nullptr;
      retire(self, id);
      answer_if_all_kept(self);
    },
    [self](kill_atom, const std::string& id, std::int32_t signal) {
      self->state.node->processes->kill(id, signal, static_cast<std::uint32_t>(limits::kill_grace().count()));
    },
    [self](pty_atom, const std::string& id) { return terminal_of(self, id); },
    [self](pty_atom, child_atom, const std::string& id) { return driver_of(self, id); },
    [self](list_atom, const std::string& scope) -> caf::result<std::vector<pty_info_ptr>> {
      if (self->state.loaded)
        return list_of(self->state, scope);
      auto promise = self->make_response_promise<std::vector<pty_info_ptr>>();
      self->state.listings.push_back({scope, runtime::parked<std::vector<pty_info_ptr>>{promise}});
      return promise;
    },
    [self](list_atom, forget_atom, const std::string& id) { return forget_ended(self, id); },
    [self](gone_atom) -> caf::result<bool> {
      auto promise = self->make_response_promise<bool>();
      self->state.stopping.emplace_back(promise);
      answer_if_all_kept(self);
      return promise;
    },
    [self](boot_atom) {
      self->state.booted = true;
      drop_strays(self);
    },
    [self](tick_atom, std::uint64_t stamp) {
      if (self->state.reconnect.fired(stamp))
        connect(self);
      else if (self->state.terminal_timer.fired(stamp))
        wake_due_terminals(self);
    },
    [self](tree_atom) { return tree(self); },
    [self](kill_atom, const std::string& path) -> caf::result<void> {
      auto i = path.rfind("pty/", 0) == 0 ? self->state.children.find(path.substr(4)) : self->state.children.end();
      if (i == self->state.children.end() || !i->second.terminal)
        return fail(errc::not_found, "no terminal " + path);
      runtime::kill(i->second.terminal);
      return {};
    },
  };
}

} // namespace swarm
