#include "actors/fabric/terminals/pty.hpp"

#include <algorithm>
#include <atomic>

#include "actors/base/limits.hpp"
#include "actors/base/text.hpp"
#include "actors/domain/typing.hpp"
#include "actors/fabric/entity.hpp"

namespace swarm {

namespace {

using self_ptr = pty_actor::stateful_pointer<pty_state>;

/// Of the whole program: the keeper may still answer what an actor has asked that has crashed since.
std::atomic<std::uint64_t> next_ticket{1};

pty_info_ptr info_of(self_ptr self) {
  auto out = std::make_shared<v1::PtyInfo>(self->state.info);
  return out;
}

std::uint64_t ring_start(const pty_state& st) {
  auto end = st.info.end();
  return st.ring && end > st.ring->capacity() ? end - st.ring->capacity() : 0;
}

pty_chunk_ptr finished_chunk(const pty_state& st, std::uint64_t offset, std::string bytes, std::uint64_t gap) {
  auto c = std::make_shared<v1::PtyChunk>();
  c->set_offset(offset);
  c->set_gap(gap);
  c->set_data(std::move(bytes));
  if (!st.info.running() && offset + c->data().size() >= st.info.end()) {
    c->set_ended(true);
    c->set_exit_status(st.info.exit_status());
    c->set_signal(st.info.signal());
  }
  return c;
}

std::size_t chunk_size(const pty_read& r) {
  return r.max_bytes == 0 ? limits::pty_chunk_bytes_max : std::min<std::uint64_t>(r.max_bytes, limits::pty_chunk_bytes_max);
}

void from_log(self_ptr self, pty_state::reading r) {
  if (self->state.is_private()) {
    const auto next = self->state.ring ? ring_start(self->state) : self->state.info.end();
    return r.promise.answer(finished_chunk(self->state, next, {}, next - std::min(next, r.read.from)));
  }
  auto slot = std::make_shared<pty_state::reading>(std::move(r));
  auto from = slot->read.from;
  self->request(self->state.log, limits::call_deadline_default(), log_atom_v, self->state.info.id(), from, std::uint64_t{chunk_size(slot->read)})
    .then(
      [self, slot, from](const log_slice_ptr& s) {
        auto& st = self->state;
        if (!s->bytes.empty())
          return slot->promise.answer(finished_chunk(st, s->offset, s->bytes, s->offset - from));
        // Nothing is kept from here on; go on with what the ring still has, or say what is lost.
        auto next = std::max(from, st.ring ? ring_start(st) : st.info.end());
        slot->promise.answer(finished_chunk(st, next, {}, next - from));
      },
      [self, slot, from](caf::error&) {
        auto& st = self->state;
        auto next = std::max(from, st.ring ? ring_start(st) : st.info.end());
        slot->promise.answer(finished_chunk(st, next, {}, next - from));
      });
}

/// Makes room in the ring. The keeper needs to know before the ring is full, not of every chunk.
void tell_taken(self_ptr self) {
  auto& st = self->state;
  const auto taken = st.spilled - st.on_the_way;
  if (!st.ring || taken < st.taken_told + st.ring->capacity() / 4)
    return;
  st.taken_told = taken;
  st.node->processes->output_taken(st.info.id(), st.attempt, taken);
}

void serve(self_ptr self, pty_state::reading r) {
  auto& st = self->state;
  // What is asked for no more has been read.
  if (st.is_private() && r.read.from > st.spilled) {
    st.spilled = std::min(r.read.from, st.info.end());
    tell_taken(self);
  }
  auto end = st.info.end();
  if (r.read.tail) {
    auto want = r.read.max_bytes == 0 ? limits::pty_chunk_bytes_max : r.read.max_bytes;
    r.read.from = end > want ? std::max(end - want, st.info.start()) : st.info.start();
    r.read.tail = false;
  }
  if (r.read.from >= end) {
    if (st.info.running() && r.read.wait) {
      if (st.readers.size() >= limits::pty_readers_max)
        return r.promise.answer(fail(errc::overloaded, "too many readers of this terminal"));
      if (r.who)
        self->monitor(r.who);
      st.readers.push_back(std::move(r));
      return;
    }
    return r.promise.answer(finished_chunk(st, std::max(r.read.from, end), {}, 0));
  }
  if (!st.ring || r.read.from < ring_start(st))
    return from_log(self, std::move(r));
  auto chunk = st.ring->read(r.read.from, chunk_size(r.read));
  if (chunk.gap > 0 && st.spilled > r.read.from)
    return from_log(self, std::move(r)); // overwritten while we looked, but kept in the files
  r.promise.answer(finished_chunk(st, chunk.offset, std::move(chunk.bytes), chunk.gap));
}

/// Copies what is new from the ring to the files, no faster than those are written: the ring keeps the rest, and the program waits while it is
/// full. What the ring overwrites, because no node was there for long, is a gap.
void spill(self_ptr self) {
  auto& st = self->state;
  if (st.is_private())
    return;
  while (st.ring && st.spilled < st.info.end() && st.on_the_way < limits::pty_log_ahead_bytes_max) {
    auto chunk = st.ring->read(st.spilled, limits::pty_chunk_bytes_max);
    if (chunk.bytes.empty())
      break;
    auto slice = std::make_shared<log_slice>();
    slice->id = st.info.id();
    slice->offset = chunk.offset;
    st.spilled = chunk.next();
    slice->bytes = std::move(chunk.bytes);
    auto bytes = slice->bytes.size();
    st.on_the_way += bytes;
    auto dealt_with = [self, bytes] {
      self->state.on_the_way -= bytes;
      tell_taken(self);
      spill(self);
    };
    self
      ->request(st.log, caf::infinite, log_atom_v, log_slice_ptr{slice}) // lint: edge deadline
      .then([dealt_with](bool) { dealt_with(); }, [dealt_with](caf::error&) { dealt_with(); });
  }
  if (!st.info.running() && st.spilled >= st.info.end())
    st.ring = nullptr;
}

/// Takes note of new output: into the files, then to the readers.
void advance(self_ptr self, std::uint64_t end) {
  auto& st = self->state;
  if (st.ring)
    end = std::max(end, st.ring->end());
  st.info.set_end(std::max(st.info.end(), end));
  spill(self);
  auto readers = std::exchange(st.readers, {});
  for (auto& r : readers) {
    if (r.who)
      self->demonitor(r.who); // one of the reader's; its others stay
    serve(self, std::move(r));
  }
}

void drop_inputs(self_ptr self, errc why, const std::string& text) {
  for (auto& [ticket, t] : std::exchange(self->state.inputs, {}))
    for (auto& p : t.callers)
      p.answer(fail(why, text));
}

void set_agent_status(self_ptr self, v1::AgentReport::State state) {
  auto& info = self->state.info;
  info.set_agent_status(domain::is_agents_terminal(info) && info.running() ? state : v1::AgentReport::STATE_UNSPECIFIED);
}

void on_exit(self_ptr self, const child_info& child) {
  auto& st = self->state;
  if (st.info.running())
    st.info.set_ended_at_ms(st.node->clock->unix_ms());
  st.info.set_running(false);
  st.info.set_exit_status(child.exit_status);
  st.info.set_signal(child.signal);
  advance(self, child.end);
  st.input_closed = true;
  set_agent_status(self, v1::AgentReport::UNKNOWN);
  drop_inputs(self, errc::not_found, "the program in this terminal has ended");
}

void remember(pty_state& st, const std::string& request, std::uint64_t bytes) {
  st.applied.emplace_back(request, bytes);
  if (st.applied.size() > limits::pty_inputs_remembered_max)
    st.applied.pop_front();
}

bool was_applied(const pty_state& st, const std::string& request) {
  return std::any_of(st.applied.begin(), st.applied.end(), [&](const auto& a) { return a.first == request; });
}

/// What was typed before this node or its connection to the keeper was reset.
void take_inputs(self_ptr self, const child_info& child) {
  auto& st = self->state;
  for (const auto& [request, bytes] : child.inputs)
    if (!was_applied(st, request))
      remember(st, request, bytes);
}

void on_accepted(self_ptr self, const keeper_news& news) {
  auto& st = self->state;
  auto node = st.inputs.extract(news.ticket);
  if (node.empty())
    return;
  auto& t = node.mapped();
  // Only what was taken is remembered: a refused input may be sent again under the same request.
  if (!news.closed && news.bytes > 0 && !t.request.empty()) {
    remember(st, t.request, news.bytes);
  }
  // The keeper answers the end of a pipe as "closed", which is what was asked for.
  const bool ended_input = t.ends_input && news.closed;
  if (ended_input && !t.request.empty())
    remember(st, t.request, 0);
  for (auto& p : t.callers) {
    if (ended_input)
      p.answer(std::uint64_t{0});
    else if (news.closed)
      p.answer(fail(errc::not_found, "the program in this terminal has ended"));
    else if (news.bytes == 0)
      p.answer(fail(errc::overloaded, "the program does not read its input"));
    else
      p.answer(std::uint64_t{news.bytes});
  }
}

void tell_watcher(self_ptr self) {
  auto& st = self->state;
  if (!st.watcher || st.change.number <= st.watcher->seen)
    return;
  auto told = std::move(st.watcher->promise);
  st.watcher.reset();
  told.answer(pty_change_ptr{std::make_shared<pty_change>(st.change)});
}

void on_change(self_ptr self) {
  ++self->state.change.number;
  tell_watcher(self);
}

void on_gate(self_ptr self, std::int32_t state) {
  auto& st = self->state;
  auto from = caf::actor_cast<caf::actor_addr>(self->current_sender());
  if (from && from != st.agent)
    self->monitor(from);
  st.agent = from;
  set_agent_status(self, v1::AgentReport::State_IsValid(state) ? static_cast<v1::AgentReport::State>(state) : v1::AgentReport::UNKNOWN);
}

caf::result<std::uint64_t> type_in(self_ptr self, const pty_input& in) {
  auto& st = self->state;
  if (st.input_closed)
    return fail(errc::not_found, "the program in this terminal has ended");
  if (!in.request.empty()) {
    for (const auto& [id, n] : st.applied)
      if (id == in.request)
        return n;
    for (auto& [ticket, t] : st.inputs)
      if (t.request == in.request) {
        if (t.callers.size() >= limits::callers_per_request_max())
          return fail(errc::overloaded, "this input is being waited for already");
        auto same = self->make_response_promise<std::uint64_t>();
        t.callers.emplace_back(same);
        return same;
      }
  }
  if (in.stale)
    return fail(errc::stale);
  if (auto why = domain::refused_use(in.who, st.info, domain::operation::pty_write))
    return fail(errc::forbidden, *why);
  if (st.is_private() && in.who.kind() != v1::Principal::NODE)
    return fail(errc::not_found, "no terminal " + st.info.id());
  auto now = st.node->clock->boot_ms();
  const bool person = domain::is_person(in.who);
  if (person)
    st.person_typed_ms = now;
  else if (st.person_typed_ms && now - *st.person_typed_ms < limits::pty_person_hold().count())
    return fail(errc::forbidden, "a person is typing in this terminal; try again in a moment");
  const bool ends_input = in.data.empty() && st.info.pipes();
  if (in.data.empty() && !ends_input)
    return std::uint64_t{0};
  if (in.data.size() > limits::pty_input_bytes_max || st.inputs.size() >= limits::pty_inputs_waiting_max)
    return fail(errc::overloaded, "too much input at once");
  auto promise = self->make_response_promise<std::uint64_t>();
  auto ticket = next_ticket.fetch_add(1, std::memory_order_relaxed);
  auto& typing = st.inputs[ticket];
  typing.request = in.request;
  typing.ends_input = ends_input;
  typing.callers.emplace_back(promise);
  st.node->processes->write(st.info.id(), ticket, in.data, in.request);
  if (person && domain::holds_keys(in.data)) {
    ++st.change.answers;
    on_change(self);
  }
  return promise;
}

} // namespace

pty_actor::behavior_type pty(self_ptr self, node_environment_ptr node, processes_actor parent, pty_log_actor log, v1::PtyInfo info,
                             const child_info& child) {
  runtime::install_defaults(self);
  auto& st = self->state;
  st.node = std::move(node);
  st.parent = std::move(parent);
  st.log = std::move(log);
  st.info = std::move(info);
  st.ring = child.ring;
  st.attempt = child.attempt;
  take_inputs(self, child);
  st.input_closed = !st.info.running();
  st.change.columns = st.info.size().columns();
  st.change.rows = st.info.size().rows();
  set_agent_status(self, v1::AgentReport::UNKNOWN);
  self->set_down_handler([self](caf::down_msg& dm) {
    self->state.readers.remove_if([&](const auto& r) { return r.who == dm.source; });
    if (self->state.agent == dm.source)
      set_agent_status(self, v1::AgentReport::UNKNOWN);
  });
  advance(self, st.info.end());
  return {
    [self](const pty_read_ptr& r) -> caf::result<pty_chunk_ptr> {
      auto who = caf::actor_cast<caf::actor_addr>(self->current_sender()); // a promise takes the sender away
      auto promise = self->make_response_promise<pty_chunk_ptr>();
      serve(self, {*r, runtime::parked<pty_chunk_ptr>{promise}, who});
      return promise;
    },
    [self](const pty_input_ptr& in) { return type_in(self, *in); },
    [self](resize_atom, std::uint32_t columns, std::uint32_t rows) -> caf::result<pty_info_ptr> {
      auto& s = self->state;
      if (columns == 0 || rows == 0 || columns > 1000 || rows > 1000)
        return fail(errc::invalid, "a terminal has 1 to 1000 columns and rows");
      s.info.mutable_size()->set_columns(columns);
      s.info.mutable_size()->set_rows(rows);
      s.change.columns = columns;
      s.change.rows = rows;
      s.change.sized_at = s.info.end();
      on_change(self);
      if (s.info.running())
        s.node->processes->resize(s.info.id(), columns, rows);
      return info_of(self);
    },
    [self](kill_atom, std::int32_t signal) -> caf::result<pty_info_ptr> {
      auto& s = self->state;
      if (signal < 0 || signal > 64)
        return fail(errc::invalid, "no such signal");
      if (s.info.running() && !s.node->processes->kill(s.info.id(), signal, static_cast<std::uint32_t>(limits::kill_grace().count())))
        return fail(errc::unavailable, "the keeper of the programs is being connected again; try again");
      return info_of(self);
    },
    [self](status_atom) { return info_of(self); },
    [self](forget_atom) -> caf::result<pty_info_ptr> {
      return self->delegate(self->state.parent, list_atom_v, forget_atom_v, self->state.info.id());
    },
    [self](gate_atom, std::int32_t state) { on_gate(self, state); },
    [self](attach_atom, std::uint64_t seen) -> caf::result<pty_change_ptr> {
      auto& s = self->state;
      auto promise = self->make_response_promise<pty_change_ptr>();
      s.watcher.emplace(pty_state::watching{seen, runtime::parked<pty_change_ptr>{promise}});
      tell_watcher(self);
      return promise;
    },
    [self](const keeper_news_ptr& news) {
      switch (news->kind) {
        case keeper_news::output: return advance(self, news->child.end);
        case keeper_news::exited: return on_exit(self, news->child);
        case keeper_news::input_accepted: return on_accepted(self, *news);
        case keeper_news::child_listed: {
          // The keeper is back after a restart of one of us: the log goes on where it was.
          auto& s = self->state;
          drop_inputs(self, errc::unknown_outcome, {});
          take_inputs(self, news->child);
          if (news->child.ring)
            s.ring = news->child.ring;
          s.attempt = news->child.attempt;
          s.taken_told = 0; // the frame may have been lost with the connection
          tell_taken(self);
          return news->child.exited ? on_exit(self, news->child) : advance(self, news->child.end);
        }
        default: return;
      }
    },
    [self](tree_atom) {
      const auto& s = self->state;
      return runtime::self_row(self, s.info.running() ? "running" : "ended",
                               s.info.running()           ? concat({"pid ", s.info.pid(), ", ", s.info.end(), " bytes"})
                               : s.info.exit_status() < 0 ? "lost with its keeper"
                                                          : concat({"exit ", s.info.exit_status()}));
    },
  };
}

} // namespace swarm
