// The terminals of the keeper's children.
#include <algorithm>

#include <caf/send.hpp>

#include "actors/base/limits.hpp"
#include "actors/domain/terminal_name.hpp"
#include "actors/fabric/entity.hpp"
#include "actors/fabric/terminals/processes_internal.hpp"
#include "actors/fabric/terminals/pty.hpp"
#include "actors/fabric/tree_collector.hpp"

namespace swarm::processes_internal {

namespace {

bool is_driver(const processes_state::child& c) { return c.row && !c.row->conversation_id().empty(); }

void open_terminal(self_ptr self, processes_state::child& c, v1::PtyInfo info) {
  auto& st = self->state;
  c.terminal = self->spawn(pty, st.node, processes_actor{self}, is_driver(c) ? pty_log_actor{} : st.log, std::move(info), c.info);
  self->monitor(c.terminal);
  c.terminal_since_ms = st.node->clock->boot_ms();
  for (auto& p : std::exchange(c.asking, {}))
    p.answer(c.terminal);
}

/// A terminal that crashed comes back from ring and files; that of a program that has ended, when somebody asks for it.
void terminal_back(self_ptr self, processes_state::child& c) {
  c.terminal_waits = c.terminal_rests = false;
  if (!c.info.exited || !c.asking.empty())
    make_terminal(self, c);
}

void arm_terminals(self_ptr self) {
  auto& st = self->state;
  st.terminal_timer.arm(self, st.node->clock->boot_ms(), st.terminals_due.next());
}

void release_output(self_ptr self, const processes_state::child& c) {
  self->state.node->processes->output_taken(c.info.id, c.info.attempt, c.info.end);
}

} // namespace

/// Once, when its spawn claims it: a name that people have read stays what it is.
void name_child(processes_state& st, processes_state::child& c) {
  const auto& row = *c.row;
  if (!c.name.empty())
    return;
  c.name = domain::terminal_name(row);
  if (domain::is_named_by_person(row))
    return;
  bool taken = std::any_of(st.children.begin(), st.children.end(), [&](const auto& other) {
    const auto& o = other.second;
    return &o != &c && o.row && !o.info.exited && o.row->scope() == row.scope() && o.name == c.name;
  });
  if (taken)
    c.name = domain::distinct_terminal_name(row);
}

v1::PtyInfo describe(const processes_state::child& c) {
  if (c.record)
    return *c.record;
  v1::PtyInfo p;
  if (c.started) {
    p = *c.started;
    p.clear_start();
  }
  if (c.row) {
    p.set_id(c.row->id());
    p.set_scope(c.row->scope());
    p.set_name(c.name);
    *p.mutable_argv() = c.row->argv();
    p.set_directory(c.row->directory());
    p.set_session_id(c.row->session_id());
    p.set_harness(c.row->harness());
    *p.mutable_size() = terminal_size(*c.row);
    p.set_pipes(c.row->pipes());
    p.set_created_at_ms(c.row->requested_at_ms());
  }
  p.set_id(c.info.id);
  if (c.info.exists)
    p.set_pid(c.info.pid);
  p.set_running(!c.info.exited);
  p.set_ended_at_ms(c.ended_at_ms);
  p.set_exit_status(c.info.exit_status);
  p.set_signal(c.info.signal);
  p.set_end(c.info.end);
  return p;
}

/// The pipes of a conversation's driver are no terminal.
bool is_listed(const processes_state::child& c) { return (c.row || c.record || c.started) && !is_driver(c); }

/// Keeps what runs in the terminal, and how it has ended as soon as that is known: the next node must know both, however this one ends.
void keep(self_ptr self, const processes_state::child& c) {
  if (is_listed(c) && c.info.exists && !c.info.at_gate)
    caf::anon_send(self->state.log, log_atom_v, std::make_shared<const v1::PtyInfo>(describe(c)));
}

void make_terminal(self_ptr self, processes_state::child& c) {
  if (!c.terminal && !c.terminal_waits && (is_listed(c) || is_driver(c)))
    open_terminal(self, c, describe(c));
}

/// Without a terminal, or with one that does not come back soon, nobody takes the output, and that must not stop the program; what the ring
/// overwrites is lost.
void release_untaken(self_ptr self, const processes_state::child& c) {
  if (!c.terminal && (!c.terminal_waits || c.terminal_rests))
    release_output(self, c);
}

void terminal_failed(self_ptr self, const std::string& id, processes_state::child& c) {
  auto& st = self->state;
  auto now = st.node->clock->boot_ms();
  auto next = c.terminal_failures.failed(runtime::at_once_first(st.node->restarts), std::chrono::milliseconds{now - c.terminal_since_ms}, now,
                                         std::hash<std::string>{}(id));
  c.terminal = nullptr;
  if (next.wait.count() == 0)
    return terminal_back(self, c);
  c.terminal_waits = true;
  c.terminal_rests = next.rests;
  if (next.rests)
    release_output(self, c);
  st.terminals_due.set(id, now + next.wait.count());
  arm_terminals(self);
}

void wake_due_terminals(self_ptr self) {
  auto& st = self->state;
  while (auto id = st.terminals_due.take_due(st.node->clock->boot_ms()))
    if (auto i = st.children.find(*id); i != st.children.end())
      terminal_back(self, i->second);
  arm_terminals(self);
}

std::vector<pty_info_ptr> list_of(const processes_state& st, const std::string& scope) {
  std::vector<pty_info_ptr> out;
  for (const auto& [id, c] : st.children)
    if (is_listed(c))
      if (auto info = describe(c); scope.empty() || info.scope() == scope)
        out.push_back(std::make_shared<const v1::PtyInfo>(std::move(info)));
  return out;
}

caf::result<pty_actor> driver_of(self_ptr self, const std::string& id) {
  auto i = self->state.children.find(id);
  if (i == self->state.children.end() || !is_driver(i->second) || !i->second.info.exists) {
    // Only the keeper's whole list says that it is gone.
    if (!self->state.list_complete)
      return fail(errc::unavailable, "the node is still taking over its drivers; try again");
    return fail(errc::not_found, "there is no driver " + id);
  }
  make_terminal(self, i->second);
  if (!i->second.terminal)
    return fail(errc::unavailable, "the pipes of the driver " + id + " are being connected again");
  return i->second.terminal;
}

caf::result<pty_actor> terminal_of(self_ptr self, const std::string& id) {
  auto& st = self->state;
  if (auto i = st.children.find(id); i != st.children.end()) {
    auto& c = i->second;
    if (is_driver(c))
      return fail(errc::not_found, "no terminal " + id + "; `swarmctl pty list` shows them");
    if (c.record || (c.row && c.info.exited))
      make_terminal(self, c);
    if (c.terminal)
      return c.terminal;
    if (c.terminal_rests)
      return fail(errc::unavailable, "the actor of this terminal fails again and again; try later");
    if (c.terminal_waits) {
      if (c.asking.size() >= limits::directory_waiting_per_key_max())
        return fail(errc::overloaded, "too many wait for this terminal");
      auto promise = self->make_response_promise<pty_actor>();
      c.asking.emplace_back(promise);
      return promise;
    }
  }
  auto promise = self->make_response_promise<pty_actor>();
  auto slot = std::make_shared<runtime::parked<pty_actor>>(promise);
  self->request(st.log, limits::call_deadline_default(), log_atom_v, id, std::uint64_t{0}, std::uint64_t{1})
    .then(
      [self, slot, id](const log_slice_ptr& s) {
        // Old output alone does not say that the program has ended: only the keeper's whole list does.
        if (!self->state.list_complete)
          return slot->answer(fail(errc::unavailable, "the node is still taking over its terminals; try again"));
        if (auto known = self->state.children.find(id); known != self->state.children.end()) {
          const auto& alive = known->second;
          if (!alive.terminal && !alive.info.exited && (alive.request || alive.info.exists))
            return slot->answer(fail(errc::unavailable, "the program in this terminal is about to start; try again"));
        }
        auto& c = self->state.children[id];
        if (!c.terminal) {
          v1::PtyInfo info;
          info.set_id(id);
          info.set_start(s->start);
          info.set_end(s->end);
          info.set_exit_status(-1); // how it ended is not known any more
          c.info.id = id;
          c.info.exited = true;
          c.info.end = s->end;
          open_terminal(self, c, std::move(info));
          retire(self, id);
        }
        slot->answer(c.terminal);
      },
      [slot, id](caf::error&) { slot->answer(fail(errc::not_found, "no terminal " + id + "; `swarmctl pty list` shows them")); });
  return promise;
}

caf::result<std::vector<runtime::tree_entry>> tree(self_ptr self) {
  const auto& st = self->state;
  auto promise = self->make_response_promise<std::vector<runtime::tree_entry>>();
  auto out = std::make_shared<tree_collector>(promise);
  out->add(runtime::self_row(self, st.list_complete ? "attached" : "connecting", "keeper"));
  for (const auto& [id, c] : st.children) {
    if (!c.terminal && !c.terminal_waits)
      continue;
    runtime::tree_entry row;
    row.path = "pty/" + id;
    row.kind = "pty";
    row.restarts = c.terminal_failures.failures();
    if (!c.terminal) {
      out->add_waiting(std::move(row));
      continue;
    }
    row.state = c.info.at_gate ? "at gate" : "";
    row.age_ms = st.node->clock->boot_ms() - c.terminal_since_ms;
    out->ask(self, c.terminal, std::move(row));
  }
  return promise;
}

} // namespace swarm::processes_internal
