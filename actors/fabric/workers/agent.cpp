#include "actors/fabric/workers/agent.hpp"

#include <algorithm>
#include <cctype>

#include <caf/send.hpp>
#include <nlohmann/json.hpp>

#include "actors/base/log.hpp"
#include "actors/domain/rules.hpp"

namespace swarm {

// -- when to wake --------------------------------------------------------------------------

void agent_waking::on_state(v1::AgentReport::State state) {
  if (state == v1::AgentReport::WORKING)
    turned_ = true;
  if (state == v1::AgentReport::IDLE || state == v1::AgentReport::DONE)
    ready_ = true;
  state_ = state;
}

bool agent_waking::wants(const agent_mail& mail) const {
  if (mail.newest == 0 || !ready_)
    return false;
  if (mail.newest_forced > woken_up_to_)
    return true;
  if (!domain::takes_typed_text(state_))
    return false;
  // Told already, it reads what has come since as well.
  if (told())
    return false;
  // The same mail once more only after a turn that did not read it, and not for ever.
  return mail.newest > woken_up_to_ || wakes_ < limits::agent_wakes_max();
}

void agent_waking::on_woken(const agent_mail& mail) {
  wakes_ = mail.newest > woken_up_to_ ? 1 : wakes_ + 1;
  woken_up_to_ = std::max(woken_up_to_, mail.newest);
  // Forced into a turn: that turn reads it, and no other begins.
  turned_ = state_ == v1::AgentReport::WORKING;
}

std::string wake_line(const agent_mail& mail) {
  auto task = mail.task.empty() ? std::string{} : " for task " + mail.task;
  return "A peer sent you a swarm message" + task +
         ". Call the swarm tool bootstrap (or poll_messages) to read it, act on it, and report the outcome with the swarm tools.";
}

namespace {

using self_ptr = agent_actor::stateful_pointer<agent_state>;

void after(self_ptr self, std::chrono::milliseconds delay, std::function<void()> then) {
  auto id = self->state.next_timer++;
  self->state.timers.emplace(id, std::move(then));
  self->delayed_send(self, delay, tick_atom_v, id);
}

/// The one that was asked is being replaced; our spawn starts us again with the new ones.
void give_up(self_ptr self, const char* what, const caf::error& e) {
  log::warn({"agent ", self->state.place.id, ": ", what, ": ", caf::to_string(e)});
  self->quit(fail(errc::unavailable));
}

void look_at_mail(self_ptr self);

/// The source of what the program says of itself on its terminal.
constexpr const char* program_source = "program";

bool is_hook(const std::string& source) { return source != domain::output_source && source != program_source; }

bool hooks_report(self_ptr self) {
  const auto& reports = self->state.reports;
  return std::any_of(reports.begin(), reports.end(), [](const auto& r) { return is_hook(r.first); });
}

/// A program with hooks that has called none yet asks its user something.
v1::AgentReport::State what_silence_means(self_ptr self) {
  const auto& st = self->state;
  auto asks = st.program.said() == v1::AgentReport::BLOCKED || (st.hooked && !hooks_report(self));
  return asks ? v1::AgentReport::BLOCKED : v1::AgentReport::IDLE;
}

void tell_waking(self_ptr self) {
  auto& st = self->state;
  auto now = st.place.links.node->clock->unix_ms();
  v1::Session row;
  for (const auto& [source, r] : st.reports)
    *row.add_reports() = r;
  auto state = domain::agent_state(row, now);
  if (state == v1::AgentReport::UNKNOWN && st.quiet)
    state = what_silence_means(self);
  st.state = state;
  st.waking.on_state(state);
}

void on_change(self_ptr self) {
  tell_waking(self);
  look_at_mail(self);
}

// -- the terminal's silence ------------------------------------------------------------------

void report(self_ptr self, const char* source, v1::AgentReport::State state, std::chrono::milliseconds ttl = {}, const char* note = "") {
  const auto& st = self->state;
  auto cmd = internal_command(*st.place.links.node, st.place.scope, [&](v1::Command& c) {
    auto* r = c.mutable_report_agent();
    r->set_session_id(st.session);
    r->set_source(source);
    r->set_state(state);
    r->set_ttl_ms(ttl.count());
    r->set_note(note);
  });
  ask_writer(
    self, st.place.links.writer, cmd, [](const reply_ptr&) {}, [](caf::error&) {});
}

void report_output(self_ptr self, v1::AgentReport::State state) {
  if (hooks_report(self))
    return;
  auto asks = state == v1::AgentReport::BLOCKED;
  report(self, domain::output_source, state, {},
         asks ? "it is silent and no hook of it has been called yet: it may ask something; see: swarmctl pty attach" : "");
}

/// Its hooks tell when a turn begins or a question is asked, but not that a person has said No or has broken the turn off. Then it says
/// something else of itself than they did. Only once the terminal is silent: then everything is read that it has said.
void report_program(self_ptr self) {
  const auto& st = self->state;
  const auto said = st.program.said();
  const auto ends_question = st.state == v1::AgentReport::BLOCKED && said != v1::AgentReport::BLOCKED;
  const auto ends_turn = st.state == v1::AgentReport::WORKING && said != v1::AgentReport::WORKING;
  if (said == v1::AgentReport::UNKNOWN || !hooks_report(self) || (!ends_question && !ends_turn))
    return;
  // As with a hook's: should its end not be told, it is not at work for ever.
  report(self, program_source, said, said == v1::AgentReport::WORKING ? limits::hook_report_ttl() : std::chrono::milliseconds{});
}

constexpr unsigned looks_per_silence = 3;

/// Output that flows does not restart the timer: now and then one looks how far it has got, and when it stands still for long enough, that is
/// silence.
void await_silence(self_ptr self) {
  after(self, limits::agent_silence() / looks_per_silence, [self] {
    auto& st = self->state;
    auto moved = std::exchange(st.looked_at, st.read_to) != st.read_to;
    st.unchanged = moved || st.read_to == 0 ? 0 : st.unchanged + 1;
    if (st.unchanged < looks_per_silence)
      return await_silence(self);
    st.unchanged = 0;
    st.quiet = true;
    report_program(self);
    report_output(self, what_silence_means(self));
    on_change(self);
  });
}

void type(self_ptr self, std::string text, std::function<void(bool)> then);

void take_output(self_ptr self, const v1::PtyChunk& chunk) {
  auto& st = self->state;
  if (chunk.gap() > 0)
    st.program = {};
  st.read_to = chunk.offset() + chunk.data().size();
  st.program.read(chunk.data());
  if (st.program.asked() && st.read_to > st.heard_before)
    type(self, std::string{program_status::answer}, [](bool) {}); // unanswered, it says nothing: that does no harm
  if (!std::exchange(st.quiet, false))
    return;
  report_output(self, v1::AgentReport::WORKING);
  on_change(self);
  await_silence(self);
}

void read_output(self_ptr self) {
  auto read = std::make_shared<pty_read>();
  read->from = self->state.read_to;
  self
    ->request(self->state.terminal, caf::infinite, pty_read_ptr{read}) // lint: edge deadline
    .then(
      [self](const pty_chunk_ptr& chunk) {
        if (chunk->ended())
          return;
        take_output(self, *chunk);
        read_output(self);
      },
      [self](caf::error& e) { give_up(self, "its terminal does not answer", e); });
}

/// From its first screen on, for there it may ask whether anybody listens; what a node before this one has read is not answered again.
void begin_to_read(self_ptr self) {
  self->request(self->state.terminal, limits::call_deadline_default(), status_atom_v)
    .then(
      [self](const pty_info_ptr& info) {
        if (!info->running())
          return;
        auto& st = self->state;
        if (hooks_report(self) || info->end() > limits::pty_chunk_bytes_max)
          st.read_to = info->end();
        if (!st.reports.empty())
          st.heard_before = info->end();
        read_output(self);
        await_silence(self);
      },
      [self](caf::error& e) { give_up(self, "its terminal does not answer", e); });
}

// -- waking --------------------------------------------------------------------------------

/// As a terminal brackets a paste: typed in one burst, some programs take the Enter for a part of the text.
const std::string paste_begin = "\x1b[200~";
const std::string paste_end = "\x1b[201~";

void type(self_ptr self, std::string text, std::function<void(bool)> then) {
  auto input = std::make_shared<pty_input>();
  input->data = std::move(text);
  self->request(self->state.terminal, limits::call_deadline_default(), pty_input_ptr{input})
    .then([then](std::uint64_t) { then(true); },
          [self, then](caf::error& e) {
            // A person types, or the program does not read: a moment later it may.
            log::debug({"agent ", self->state.place.id, ": not typed: ", caf::to_string(e)});
            then(false);
          });
}

void note_delivered(self_ptr self, std::uint64_t newest) {
  auto& st = self->state;
  st.delivered_to = newest;
  auto cmd = internal_command(*st.place.links.node, st.place.scope, [&](v1::Command& c) {
    c.mutable_deliver_messages()->set_session_id(st.session);
    c.mutable_deliver_messages()->set_up_to(newest);
  });
  ask_writer(
    self, st.place.links.writer, cmd, [](const reply_ptr&) {}, [self](caf::error&) { self->state.delivered_to = 0; });
}

void wake(self_ptr self, const agent_mail& mail) {
  self->state.typing = true;
  auto later = [self] {
    after(self, limits::pty_person_hold(), [self] {
      self->state.typing = false;
      look_at_mail(self);
    });
  };
  type(self, paste_begin + wake_line(mail) + paste_end, [self, mail, later](bool typed) {
    if (!typed)
      return later();
    after(self, limits::agent_enter_delay(), [self, mail, later] {
      // It has asked its user something meanwhile: this Enter would be the answer.
      if (self->state.state == v1::AgentReport::BLOCKED && mail.newest_forced == 0)
        return later();
      type(self, "\r", [self, mail, later](bool entered) {
        if (!entered)
          return later();
        auto& st = self->state;
        st.typing = false;
        st.waking.on_woken(mail);
        note_delivered(self, mail.newest);
        // A program that is still drawing its first screen loses what is typed. Its hook may take its time to say that it was heard.
        after(self, 2 * (limits::agent_silence() + limits::hook_call_deadline()) + limits::pty_person_hold(), [self, nth = ++st.wakes] {
          if (nth != self->state.wakes)
            return;
          self->state.waking.on_time_to_begin();
          look_at_mail(self);
        });
        look_at_mail(self);
      });
    });
  });
}

/// The id of a `[task:<id>]` prefix. It is typed into a terminal, so nothing but an id will do, whatever the sender.
std::string task_named_in(const std::string& content) {
  const std::string mark = "[task:";
  auto end = content.find(']');
  if (content.compare(0, mark.size(), mark) != 0 || end == std::string::npos || end - mark.size() > limits::id_bytes_max)
    return {};
  auto id = content.substr(mark.size(), end - mark.size());
  auto plain = [](unsigned char c) { return std::isalnum(c) != 0 || c == '-' || c == '_'; };
  return std::all_of(id.begin(), id.end(), plain) ? id : std::string{};
}

agent_mail mail_of(const v1::Messages& newest) {
  agent_mail out;
  for (const auto& m : newest.messages()) {
    if (m.read() || m.no_wake())
      continue;
    out.newest = std::max(out.newest, m.id());
    if (m.force_wake())
      out.newest_forced = std::max(out.newest_forced, m.id());
    out.task = task_named_in(m.content());
  }
  return out;
}

void look_at_mail(self_ptr self) {
  auto& st = self->state;
  if (std::exchange(st.asking, true)) {
    st.again = true;
    return;
  }
  auto q = internal_query(*st.place.links.node, st.place.scope, [&](v1::Query& x) {
    // The newest ones, read or not: of the unread ones it would be the oldest, and what has come since would wake nobody.
    x.mutable_list_messages()->set_to(st.session);
  });
  self->request(st.place.links.readers.front(), limits::call_deadline_default(), q)
    .then(
      [self](const answer_ptr& a) {
        auto& s = self->state;
        s.asking = false;
        auto mail = mail_of(a->messages());
        if (!s.typing && s.waking.wants(mail))
          return wake(self, mail);
        if (!s.typing && s.waking.told() && mail.newest > s.delivered_to)
          note_delivered(self, mail.newest);
        if (std::exchange(s.again, false))
          look_at_mail(self);
      },
      [self](caf::error& e) { give_up(self, "its mail could not be read", e); });
}

// -- news ----------------------------------------------------------------------------------

void take_report(self_ptr self, const v1::Event& e) {
  auto payload = nlohmann::json::parse(e.payload(), nullptr, false);
  if (!payload.is_object() || !payload.contains("source"))
    return;
  v1::AgentReport r;
  r.set_source(payload.value("source", ""));
  r.set_state(domain::agent_state_from(payload.value("reported", "")));
  r.set_reported_at_ms(e.at_ms());
  r.set_until_ms(payload.value("until", std::int64_t{0}));
  if (self->state.reports.size() < 4 * limits::agent_sources_max || self->state.reports.count(r.source()))
    self->state.reports[r.source()] = r;
  if (is_hook(r.source()))
    self->state.program.forget();
  if (auto left = r.until_ms() - self->state.place.links.node->clock->unix_ms(); r.until_ms() != 0 && left > 0)
    after(self, std::chrono::milliseconds{left + 1}, [self] { on_change(self); });
}

void listen(self_ptr self);

void on_events(self_ptr self, const std::vector<v1::Event>& events) {
  auto mail = false;
  for (const auto& e : events) {
    if (e.type() == "agent.state")
      take_report(self, e);
    else
      mail = true;
  }
  // Somebody who waits for the mail takes it before we need to.
  if (mail)
    after(self, limits::agent_wake_grace(), [self] { on_change(self); });
  else
    on_change(self);
}

/// The row's reports and the position to listen from belong together; what happened in between is heard again, which does no harm.
void learn(self_ptr self) {
  auto& st = self->state;
  auto q = internal_query(*st.place.links.node, st.place.scope, [&](v1::Query& x) { x.mutable_find_session()->set_who(st.session); });
  self->request(st.place.links.readers.front(), limits::call_deadline_default(), q)
    .then(
      [self](const answer_ptr& a) {
        auto& s = self->state;
        s.revision = a->revision();
        s.reports.clear();
        for (const auto& r : a->session().reports())
          s.reports[r.source()] = r;
        if (!std::exchange(s.reading, true))
          begin_to_read(self);
        listen(self);
        on_change(self);
      },
      [self](caf::error& e) { give_up(self, "its session could not be read", e); });
}

void listen(self_ptr self) {
  auto& st = self->state;
  auto p = std::make_shared<watch_poll>();
  p->scope = st.place.scope;
  p->after = st.revision;
  p->types = {"message.sent", "agent.state"};
  p->subject = st.session;
  self
    ->request(st.place.links.watch, caf::infinite, watch_poll_ptr{p}) // lint: edge deadline
    .then(
      [self](const watch_page_ptr& page) {
        if (page->too_old)
          return learn(self);
        self->state.revision = page->revision;
        listen(self);
        on_events(self, page->events);
      },
      [self](caf::error& e) { give_up(self, "events are not told", e); });
}

} // namespace

agent_actor::behavior_type agent(self_ptr self, entity_place place, std::string session, bool hooked) {
  runtime::install_defaults(self);
  auto& st = self->state;
  st.place = std::move(place);
  st.session = std::move(session);
  st.hooked = hooked;
  self->request(st.place.links.processes, limits::call_deadline_default(), pty_atom_v, st.place.id)
    .then(
      [self](const pty_actor& terminal) {
        self->state.terminal = terminal;
        learn(self);
      },
      [self](caf::error& e) { give_up(self, "it has no terminal", e); });
  return {
    [self](tick_atom, std::uint64_t id) {
      if (auto timer = self->state.timers.extract(id); !timer.empty())
        timer.mapped()();
    },
  };
}

} // namespace swarm
