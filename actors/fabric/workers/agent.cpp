#include "actors/fabric/workers/agent.hpp"

#include <algorithm>
#include <cctype>

#include <caf/send.hpp>
#include <nlohmann/json.hpp>

#include "actors/agents/input_line.hpp"
#include "actors/base/log.hpp"
#include "actors/domain/rules.hpp"

namespace swarm {

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

bool is_hook(const std::string& source) { return source != domain::output_source && source != domain::program_source; }

bool asks_person(self_ptr self) { return domain::asks_person(self->state.told); }

bool hooks_report(self_ptr self) {
  const auto& reports = self->state.told.reports();
  return std::any_of(reports.begin(), reports.end(), [](const auto& r) { return is_hook(r.source()); });
}

/// A program with hooks that has called none yet asks its user something.
v1::AgentReport::State what_silence_means(self_ptr self) {
  const auto& st = self->state;
  auto asks = st.program.said() == v1::AgentReport::BLOCKED || (st.hooked && !hooks_report(self));
  return asks ? v1::AgentReport::BLOCKED : v1::AgentReport::IDLE;
}

/// Who types there is decided by it: where the program itself says that it asks, no report says otherwise.
void tell_terminal(self_ptr self) {
  auto& st = self->state;
  const auto does = st.program.said() == v1::AgentReport::BLOCKED ? v1::AgentReport::BLOCKED : st.state;
  if (st.told_terminal != does)
    self->send(st.terminal, gate_atom_v, static_cast<std::int32_t>(does));
  st.told_terminal = does;
}

void tell_waking(self_ptr self) {
  auto& st = self->state;
  auto now = st.place.links.node->clock->unix_ms();
  auto state = domain::agent_state(st.told, now);
  // A question whose report has run out is still one: silence does not say that it was answered.
  if (state == v1::AgentReport::UNKNOWN && st.quiet && !asks_person(self))
    state = what_silence_means(self);
  st.state = state;
  st.waking.on_state(state);
  tell_terminal(self);
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
/// something else of itself than they did; so it does when its own tools call its hooks. That something is over counts only once the terminal is
/// silent: then everything is read that it has said.
void report_program(self_ptr self) {
  const auto& st = self->state;
  const auto said = st.program.said();
  const auto ends_question = st.state == v1::AgentReport::BLOCKED && said != v1::AgentReport::BLOCKED;
  const auto ends_turn = st.state == v1::AgentReport::WORKING && said != v1::AgentReport::WORKING;
  const auto asks_all_the_same = st.state != v1::AgentReport::BLOCKED && said == v1::AgentReport::BLOCKED;
  if (said == v1::AgentReport::UNKNOWN || !hooks_report(self) || (!ends_question && !ends_turn && !asks_all_the_same))
    return;
  // As with a hook's: should its end not be told, it is not at work for ever.
  report(self, domain::program_source, said, said == v1::AgentReport::WORKING ? limits::hook_report_ttl() : std::chrono::milliseconds{});
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
    if (!hooks_report(self))
      st.waking.on_time_to_begin();
    report_program(self);
    report_output(self, what_silence_means(self));
    on_change(self);
  });
}

void type(self_ptr self, std::string text, std::function<void(bool)> then);

void note_answer(self_ptr self) {
  auto& st = self->state;
  auto cmd = internal_command(*st.place.links.node, st.place.scope, [&](v1::Command& c) {
    c.mutable_report_agent()->set_session_id(st.session);
    c.mutable_report_agent()->set_answered(true);
  });
  ask_writer(
    self, st.place.links.writer, cmd, [](const reply_ptr&) {},
    [self](caf::error&) { after(self, limits::pty_person_hold(), [self] { note_answer(self); }); });
}

/// A person at the terminal may have answered what the program asks: the next report counts.
void take_answer(self_ptr self) {
  auto& st = self->state;
  if (!asks_person(self))
    return;
  for (auto& r : *st.told.mutable_reports())
    r.set_answered(true);
  note_answer(self);
  on_change(self);
}

/// A program that says of itself that it asks also says when that is over. Until then the person has only looked what there is to choose.
void on_answer(self_ptr self) {
  auto& st = self->state;
  st.person_typed_ms = st.place.links.node->clock->unix_ms();
  st.typed_in_question = st.program.said() == v1::AgentReport::BLOCKED;
  if (st.typed_in_question)
    return;
  st.program.forget();
  take_answer(self);
}

/// What was written before the size changed was written for the old one.
void show(self_ptr self, const v1::PtyChunk& chunk) {
  auto& st = self->state;
  std::string_view output{chunk.data()};
  const auto& is = st.terminal_is;
  if (is.sized_at > chunk.offset() && is.sized_at < chunk.offset() + output.size()) {
    st.shown->write(output.substr(0, is.sized_at - chunk.offset()));
    output.remove_prefix(is.sized_at - chunk.offset());
  }
  if (is.number != 0 && is.sized_at < chunk.offset() + chunk.data().size())
    st.shown->resize(is.columns, is.rows);
  st.shown->write(output);
}

void take_output(self_ptr self, const v1::PtyChunk& chunk) {
  auto& st = self->state;
  if (chunk.gap() > 0)
    st.program = {};
  show(self, chunk);
  st.read_to = chunk.offset() + chunk.data().size();
  if (st.read_to <= st.heeded_from)
    return;
  std::string_view news{chunk.data()};
  news.remove_prefix(std::min<std::uint64_t>(news.size(), st.heeded_from - std::min(st.heeded_from, chunk.offset())));
  st.program.read(news);
  tell_terminal(self);
  if (st.typed_in_question && st.program.said() != v1::AgentReport::BLOCKED) {
    st.typed_in_question = false;
    take_answer(self);
  }
  if (st.program.asked() && st.read_to > st.heard_before)
    type(self, std::string{program_status::answer}, [](bool) {}); // unanswered, it says nothing: that does no harm
  if (st.on_output)
    std::exchange(st.on_output, nullptr)();
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

/// What a person types there, and its size.
void follow_terminal(self_ptr self) {
  self
    ->request(self->state.terminal, caf::infinite, attach_atom_v, self->state.terminal_is.number) // lint: edge deadline
    .then(
      [self](const pty_change_ptr& now) {
        auto& st = self->state;
        const auto before = std::exchange(st.terminal_is, *now);
        if (st.read_to >= now->sized_at && (before.columns != now->columns || before.rows != now->rows))
          st.shown->resize(now->columns, now->rows);
        follow_terminal(self);
        if (before.number != 0 && now->answers != before.answers)
          on_answer(self);
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
          st.heeded_from = info->end();
        if (!st.told.reports().empty())
          st.heard_before = info->end();
        st.read_to = info->end() - std::min<std::uint64_t>(info->end(), limits::agent_screen_bytes);
        st.shown.emplace(info->size().columns(), info->size().rows());
        read_output(self);
        await_silence(self);
        follow_terminal(self);
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
  input->who.set_kind(v1::Principal::NODE);
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

/// One try to wake it.
struct wake_try {
  std::uint64_t number;
  agent_mail mail;
  std::uint64_t questions; // before it
  bool in_turn;            // it began in one
};

void end_try(self_ptr self) {
  self->state.typing = false;
  self->state.on_output = nullptr;
}

/// A person types, or the program does not read: a moment later it may.
void try_later(self_ptr self) {
  end_try(self);
  self->state.typing = true;
  after(self, limits::pty_person_hold(), [self] {
    self->state.typing = false;
    look_at_mail(self);
  });
}

bool line_stands(self_ptr self) {
  const auto line = agents::find_input_line(self->state.shown->view());
  return line && line->at_end && is_wake_line(line->text);
}

/// Whether it asks its user, or has asked since the try began: this Enter would be the answer.
bool asks_meanwhile(self_ptr self, const wake_try& t) {
  const auto& st = self->state;
  return st.questions != t.questions || st.state == v1::AgentReport::BLOCKED || st.program.said() == v1::AgentReport::BLOCKED || asks_person(self);
}

void on_entered(self_ptr self, const wake_try& t) {
  auto& st = self->state;
  end_try(self);
  st.unseen = 0;
  // Without hooks the terminal's output counts as work, and the paste itself is output.
  st.waking.on_woken(t.mail, t.in_turn || hooks_report(self));
  note_delivered(self, t.mail.newest);
  // A program that is still drawing its first screen loses what is typed. Its hook may take its time to say that it was heard.
  after(self, 2 * (limits::agent_silence() + limits::hook_call_deadline()) + limits::pty_person_hold(), [self, nth = ++st.wakes] {
    if (nth != self->state.wakes)
      return;
    self->state.waking.on_time_to_begin();
    look_at_mail(self);
  });
  look_at_mail(self);
}

/// Enters the line once it can be seen in the input line. What was pasted and does not stand there, or not alone, is not entered; the next try
/// finds it and pastes nothing.
void enter(self_ptr self, const wake_try& t) {
  auto& st = self->state;
  if (!st.typing || st.tries != t.number)
    return;
  if (asks_meanwhile(self, t))
    return try_later(self);
  if (!line_stands(self)) {
    st.on_output = [self, t] { enter(self, t); };
    return;
  }
  type(self, "\r", [self, t](bool entered) { entered ? on_entered(self, t) : try_later(self); });
}

void enter_when_it_stands(self_ptr self, const wake_try& t) {
  after(self, limits::agent_enter_delay(), [self, t] { enter(self, t); });
  after(self, limits::agent_enter_delay() + limits::agent_line_wait(), [self, t] {
    auto& st = self->state;
    if (!st.on_output || st.tries != t.number)
      return;
    st.unseen = st.unseen_mail == t.mail.newest ? st.unseen + 1 : 1;
    st.unseen_mail = t.mail.newest;
    try_later(self);
  });
}

/// Whether a try began.
bool wake(self_ptr self, const agent_mail& mail) {
  auto& st = self->state;
  const auto line = st.shown ? agents::find_input_line(st.shown->view()) : std::nullopt;
  // No input line: it asks something, or draws. Another text: somebody's draft. Its next silence is the time to look again.
  if (!line || (!line->text.empty() && !is_wake_line(line->text)))
    return false;
  // A program that shows nothing of it is not filled with it.
  if (line->text.empty() && st.unseen_mail == mail.newest && st.unseen >= limits::agent_wakes_max())
    return false;
  st.typing = true;
  const wake_try t{++st.tries, mail, st.questions, st.state == v1::AgentReport::WORKING};
  if (line->text.empty())
    type(self, paste_begin + wake_line(mail) + paste_end, [self, t](bool typed) { typed ? enter_when_it_stands(self, t) : try_later(self); });
  else
    enter_when_it_stands(self, t);
  return true;
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
        s.waking.on_mail(mail);
        if (!s.typing && s.waking.wants(mail) && wake(self, mail))
          return;
        if (!s.typing && s.waking.told() && mail.newest > s.delivered_to)
          note_delivered(self, mail.newest);
        if (std::exchange(s.again, false))
          look_at_mail(self);
      },
      [self](caf::error& e) { give_up(self, "its mail could not be read", e); });
}

// -- news ----------------------------------------------------------------------------------

/// The newest last, as in the row: of two in one millisecond the later one counts.
void keep(google::protobuf::RepeatedPtrField<v1::AgentReport>& reports, const v1::AgentReport& r) {
  reports.erase(std::remove_if(reports.begin(), reports.end(), [&](const auto& other) { return other.source() == r.source(); }), reports.end());
  if (reports.size() < static_cast<int>(4 * limits::agent_sources_max))
    *reports.Add() = r;
}

void take_report(self_ptr self, const v1::Event& e) {
  auto payload = nlohmann::json::parse(e.payload(), nullptr, false);
  if (!payload.is_object() || !payload.contains("source"))
    return;
  v1::AgentReport r;
  r.set_source(payload.value("source", ""));
  r.set_state(domain::agent_state_from(payload.value("reported", "")));
  r.set_reported_at_ms(e.at_ms());
  r.set_until_ms(payload.value("until", std::int64_t{0}));
  r.set_answered(!payload.value("asks", false));
  auto& st = self->state;
  // While it asks, only what ends that is told.
  if (r.state() == v1::AgentReport::BLOCKED)
    ++st.questions;
  else
    for (auto& other : *st.told.mutable_reports())
      other.set_answered(true);
  keep(*st.told.mutable_reports(), r);
  // The person was faster than this news.
  if (domain::is_question(r) && st.person_typed_ms > e.at_ms())
    on_answer(self);
  if (is_hook(r.source()) && st.program.said() != v1::AgentReport::BLOCKED)
    st.program.forget();
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
  tell_waking(self);
  // A dialog may blink, or nothing follows after which the terminal would be silent.
  if (self->state.program.said() == v1::AgentReport::BLOCKED)
    report_program(self);
  // Somebody who waits for the mail takes it before we need to.
  if (mail)
    after(self, limits::agent_wake_grace(), [self] { on_change(self); });
  else
    look_at_mail(self);
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
        *s.told.mutable_reports() = a->session().reports();
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
