#include "services/keeper/server.hpp"

#include <algorithm>
#include <csignal>
#include <stdexcept>

#include "actors/base/limits.hpp"

namespace swarm::keeper {

namespace {

// Above this much unsent, news of output wait: the latest one says everything.
constexpr std::size_t advanced_backlog_bytes = 64 * limits::kib;

std::chrono::milliseconds grace_of(std::uint32_t ms) {
  return std::min<std::chrono::milliseconds>(std::chrono::milliseconds{ms}, limits::minutes{10});
}

internal::StartChild with_home(internal::StartChild s, const std::string& home) {
  const auto prefix = std::string{home_variable} + "=";
  auto& all = *s.mutable_environment();
  all.erase(std::remove_if(all.begin(), all.end(), [&](const auto& v) { return v.starts_with(prefix); }), all.end());
  all.Add(prefix + home);
  return s;
}

} // namespace

void server::dispatch(const internal::ToKeeper& m) {
  using internal::ToKeeper;
  switch (m.body_case()) {
    case ToKeeper::kStart: return start(m.start());
    case ToKeeper::kOpenGate:
      if (auto c = find(m.open_gate().id()))
        c->open_gate();
      return;
    case ToKeeper::kAbort:
      next_.erase(m.abort().id());
      if (auto c = find(m.abort().id()); c && c->is_held())
        ::kill(c->pid(), SIGKILL);
      return;
    case ToKeeper::kWrite:
      if (auto c = find(m.write().id()))
        return c->write(m.write().ticket(), m.write().data(), m.write().request());
      else {
        internal::FromKeeper reply;
        reply.mutable_input()->set_id(m.write().id());
        reply.mutable_input()->set_ticket(m.write().ticket());
        reply.mutable_input()->set_closed(true);
        return send(reply);
      }
    case ToKeeper::kResize:
      if (auto c = find(m.resize().id()))
        c->resize(m.resize().columns(), m.resize().rows());
      return;
    case ToKeeper::kKill: return kill(m.kill());
    case ToKeeper::kForget: return forget(m.forget().id());
    case ToKeeper::kQuit: return begin_quit(grace_of(m.quit().grace_ms()));
    case ToKeeper::kTaken:
      if (auto c = find(m.taken().id()); c && c->attempt() == m.taken().attempt())
        c->output_taken(m.taken().end());
      return;
    case ToKeeper::kHello:
    case ToKeeper::BODY_NOT_SET: return;
  }
}

child* server::find(const std::string& id) {
  auto i = children_.find(id);
  return i == children_.end() ? nullptr : i->second.get();
}

void server::start(const internal::StartChild& s) {
  if (quitting_)
    return start_failed(s, "the keeper is ending");
  if (auto text = check(s); !text.empty())
    return start_failed(s, text);
  if (auto left = remains_of(s.id(), home_); reaper_.is_ending(left)) {
    next_[s.id()] = s;
    return reaper_.end(left, limits::kill_grace(), [this, id = s.id()] { start_next(id); });
  }
  if (auto c = find(s.id())) {
    if (c->attempt() > s.attempt())
      return start_failed(s, "attempt " + std::to_string(c->attempt()) + " of this spawn has begun already");
    if (c->attempt() < s.attempt())
      return start_after(*c, s);
    // One that is still preparing answers by itself.
    if (c->now() != child::phase::preparing)
      at_gate(*c);
    if (c->is_over())
      send_exit(*c);
    return;
  }
  if (children_.size() >= limits::node_ptys_max())
    return start_failed(s, "too many programs run on this node already");
  try {
    auto c = std::make_unique<child>(loop_, clock_, *this, with_home(s, home_), child_files_);
    c->hold_output(holds_output_);
    by_pid_.emplace(c->pid(), c.get());
    children_.emplace(s.id(), std::move(c));
    review_idleness();
  } catch (const std::runtime_error& e) {
    start_failed(s, e.what());
  }
}

/// A caller that asks for a further attempt knows that the one before is over, for instance because its host was considered lost. Both would
/// write to the same terminal and be told apart by nobody: the former is ended first, with all that it has started.
void server::start_after(child& former, const internal::StartChild& s) {
  next_[s.id()] = s;
  if (former.has_exited())
    reaper_.end(former.processes(), {}, [this, id = s.id(), attempt = former.attempt()] {
      tell_end(id, attempt);
      start_next(id);
    });
  else if (former.is_held())
    ::kill(former.pid(), SIGKILL);
  else
    end(former, limits::kill_grace());
}

void server::start_next(const std::string& id) {
  auto next = next_.extract(id);
  if (next.empty())
    return;
  // Nobody makes room any more for the output that the former one has left, and its end comes after that.
  if (auto c = find(id); c && c->has_exited()) {
    c->hold_output(false);
    tell_end(id, c->attempt());
  }
  forget(id);
  start(next.mapped());
}

void server::start_failed(const internal::StartChild& s, const std::string& text) {
  internal::FromKeeper m;
  m.mutable_start_failed()->set_id(s.id());
  m.mutable_start_failed()->set_attempt(s.attempt());
  m.mutable_start_failed()->set_text(text);
  send(m);
}

void server::kill(const internal::KillChild& k) {
  if (auto next = next_.extract(k.id()); !next.empty())
    start_failed(next.mapped(), "it was ended before it began");
  auto c = find(k.id());
  const auto grace = k.signal() == 0 ? grace_of(k.grace_ms()) : std::chrono::milliseconds{0};
  const bool ends = k.signal() == 0 || k.signal() == SIGKILL;
  if (c && ends)
    end(*c, grace);
  else if (ends) // its program may have died with an earlier keeper, but not what it had started
    reaper_.end(remains_of(k.id(), home_), grace);
  else if (c && k.signal() > 0 && k.signal() < NSIG)
    reaper_.signal(c->processes(), k.signal());
}

void server::end(child& c, std::chrono::milliseconds grace) {
  c.end_requested();
  // Who came to end it takes no output.
  if (release_timer_ != 0)
    c.hold_output(false);
  reaper_.end(c.processes(), grace,
              c.has_exited() ? std::function<void()>{[this, id = c.id(), attempt = c.attempt()] { tell_end(id, attempt); }} : nullptr);
}

void server::forget(const std::string& id) {
  auto c = find(id);
  if (!c || !c->has_exited())
    return;
  advanced_.erase(id);
  children_.erase(id);
}

// -- what children tell ------------------------------------------------------------------

void server::at_gate(child& c) {
  internal::FromKeeper m;
  auto& g = *m.mutable_at_gate();
  g.set_id(c.id());
  g.set_attempt(c.attempt());
  g.set_pid(c.pid());
  g.set_pid_start(c.pid_start());
  send(m, c.ring_fd());
}

void server::output_advanced(child& c) {
  auto& news = advanced_.try_emplace(c.id(), advance{c.output_end(), 0}).first->second;
  news.turn = turn_;
}

void server::input_accepted(child& c, std::uint64_t ticket, std::uint64_t bytes, bool closed) {
  internal::FromKeeper m;
  auto& a = *m.mutable_input();
  a.set_id(c.id());
  a.set_ticket(ticket);
  a.set_bytes(bytes);
  a.set_closed(closed);
  send(m);
}

void server::output_finished(child& c) { tell_end(c.id(), c.attempt()); }

void server::send_state(const child& c) {
  internal::FromKeeper m;
  auto& s = *m.mutable_child();
  s.set_id(c.id());
  s.set_attempt(c.attempt());
  s.set_pid(c.pid());
  s.set_pid_start(c.pid_start());
  s.set_at_gate(c.is_held());
  s.set_exited(c.is_over());
  s.set_exit_status(c.exit_status());
  s.set_signal(c.exit_signal());
  s.set_duration_ms(c.duration_ms());
  s.set_end(c.output_end());
  s.set_ended_on_request(c.is_over() && c.ended_on_request());
  if (!c.is_over())
    for (const auto& taken : c.taken_inputs())
      *s.add_inputs() = taken;
  send(m, c.ring_fd());
}

void server::send_exit(const child& c) {
  internal::FromKeeper m;
  auto& e = *m.mutable_exited();
  e.set_id(c.id());
  e.set_attempt(c.attempt());
  e.set_exit_status(c.exit_status());
  e.set_signal(c.exit_signal());
  e.set_duration_ms(c.duration_ms());
  e.set_end(c.output_end());
  e.set_ended_on_request(c.ended_on_request());
  send(m);
}

/// A terminal gives 4 KiB at a time, and each news wakes swarmd: of a program that goes on writing they wait until there is a chunk.
bool server::send_advanced(bool quiet) {
  if (client_ == 0) {
    advanced_.clear();
    return false;
  }
  auto left = false;
  for (auto i = advanced_.begin(); i != advanced_.end();) {
    auto client = callers_.find(client_);
    if (client == callers_.end() || client->second->stream.queued_bytes() > advanced_backlog_bytes)
      return false; // when it has taken them there is a turn
    auto c = find(i->first);
    if (c && !quiet && i->second.turn == turn_ && c->output_end() - i->second.since < limits::pty_chunk_bytes_max) {
      left = true;
      ++i;
      continue;
    }
    auto id = i->first;
    i = advanced_.erase(i);
    if (!c)
      continue;
    internal::FromKeeper m;
    m.mutable_output()->set_id(id);
    m.mutable_output()->set_end(c->output_end());
    send(m);
  }
  return left;
}

} // namespace swarm::keeper
