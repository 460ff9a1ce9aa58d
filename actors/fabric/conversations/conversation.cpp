#include "actors/fabric/conversations/conversation.hpp"

#include <algorithm>
#include <variant>

#include <nlohmann/json.hpp>

#include "actors/base/crypto.hpp"
#include "actors/base/log.hpp"
#include "actors/base/paths.hpp"
#include "actors/base/text.hpp"
#include "actors/domain/rules.hpp"
#include "actors/runtime/error_text.hpp"

namespace swarm {

bool has_driver(const v1::Conversation& c) {
  return c.state() == v1::Conversation::STARTING || c.state() == v1::Conversation::IDLE || c.state() == v1::Conversation::RUNNING ||
         c.state() == v1::Conversation::BLOCKED;
}

namespace {

using self_ptr = conversation_actor::stateful_pointer<conversation_state>;

constexpr std::chrono::milliseconds again_soon{200};
constexpr std::chrono::milliseconds again_later{1'000};
constexpr std::size_t followers_max = limits::pty_readers_max;

void after(self_ptr self, std::chrono::milliseconds delay, std::function<void()> then) {
  auto id = self->state.next_timer++;
  self->state.timers.emplace(id, std::move(then));
  self->delayed_send(self, delay, tick_atom_v, id);
}

/// Made again by the scope, it reads log and rows anew and asks the driver for what they do not have.
void give_up(self_ptr self, const char* what, const caf::error& e) {
  log::warn({"conversation ", self->state.place.id, ": ", what, ": ", runtime::error_text(e)});
  self->quit(fail(errc::unavailable));
}

conversation_log_name log_name(self_ptr self) { return {self->state.place.id, self->state.row.log_end()}; }

// -- followers ---------------------------------------------------------------------------------

conversation_news_ptr news_for(const conversation_state& st, const conversation_poll& poll) {
  auto out = std::make_shared<conversation_news>();
  out->at = poll.at;
  out->state_number = st.state_number;
  // It may have read what we have not heard yet to be written.
  const bool ahead = poll.at.epoch == st.end.epoch && poll.at.at.offset > st.end.at.offset;
  out->log_grew = !ahead && (poll.at.at != st.end.at || poll.at.epoch != st.end.epoch);
  if (!ahead && !out->log_grew && st.open.is_open()) {
    const auto from = st.open.continues(poll.at).value_or(st.open.begin());
    const auto text = st.open.text(from, limits::driver_part_bytes_max);
    if (!text.empty()) {
      auto& d = out->delta.emplace();
      out->at = st.open.mark(st.end, from + text.size());
      d.set_cursor(to_text(out->at));
      d.set_kind(static_cast<v1::ConversationItemKind>(st.open.kind()));
      d.set_id(st.open.id());
      d.set_offset(from);
      d.set_text(std::string{text});
    }
  }
  if (poll.state_seen != st.state_number && !out->log_grew)
    out->state = st.row;
  return out->log_grew || out->delta || out->state ? out : nullptr;
}

void tell_followers(self_ptr self) {
  auto& st = self->state;
  for (auto i = st.followers.begin(); i != st.followers.end();) {
    auto news = news_for(st, *i->poll);
    if (!news) {
      ++i;
      continue;
    }
    if (i->who)
      self->demonitor(i->who);
    i->promise.answer(std::move(news));
    i = st.followers.erase(i);
  }
}

void show_row(self_ptr self, const v1::Conversation& row) {
  self->state.row = row;
  ++self->state.state_number;
  tell_followers(self);
}

// -- what the dialogue wants done -----------------------------------------------------------------

void pump(self_ptr self);
void connect(self_ptr self);
void type(self_ptr self);

v1::Principal this_node(self_ptr self) {
  v1::Principal p;
  p.set_kind(v1::Principal::NODE);
  p.set_id(self->state.place.links.node->facts.node_id);
  return p;
}

void lose_pipes(self_ptr self) {
  auto& st = self->state;
  ++st.connection;
  st.pipes = nullptr;
  st.reading = st.typing = st.connecting = false;
  st.input.clear();
}

/// One frame after the other: the keeper takes each whole or not at all.
void type(self_ptr self) {
  auto& st = self->state;
  if (st.typing || st.input.empty() || !st.pipes)
    return;
  st.typing = true;
  auto in = std::make_shared<pty_input>();
  in->request = st.input.front().first;
  in->data = st.input.front().second;
  in->who = this_node(self);
  self->request(st.pipes, limits::call_deadline_default(), pty_input_ptr{in})
    .then(
      [self, n = st.connection](std::uint64_t) {
        auto& s = self->state;
        if (n != s.connection)
          return;
        s.typing = false;
        s.input.pop_front();
        type(self);
      },
      [self, n = st.connection](caf::error& e) {
        auto& s = self->state;
        if (n != s.connection)
          return;
        if (e == errc::not_found)
          return; // it has ended, which its output says
        after(self, again_soon, [self, n] {
          if (n == self->state.connection) {
            self->state.typing = false;
            type(self);
          }
        });
      });
}

void execute(self_ptr self, const v1::Command& command) {
  const auto& place = self->state.place;
  auto exec = internal_command(*place.links.node, place.scope, [&](v1::Command& c) { c.MergeFrom(command); });
  ask_writer(
    self, place.links.writer, exec,
    [self](const reply_ptr& r) {
      auto& st = self->state;
      if (r->has_refusal())
        log::info({"conversation ", st.place.id, ": refused: ", r->refusal().text()});
      if (!st.talk)
        return;
      st.talk->answered(*r);
      pump(self);
    },
    [self, command](caf::error& e) {
      log::warn({"conversation ", self->state.place.id, ": the store does not take it: ", runtime::error_text(e)});
      after(self, again_later, [self, command] { execute(self, command); });
    });
}

/// What is final is open no more.
void close_open(conversation_state& st, const std::vector<conversation_frame>& frames) {
  for (const auto& f : frames)
    if (st.open.is_open() && (f.kind == st.open.kind() || f.kind == v1::CONVERSATION_TURN))
      st.open.clear();
}

void write_log(self_ptr self, const std::shared_ptr<const log_frames>& frames) {
  self->request(self->state.place.links.conversation_logs, limits::call_deadline_default(), log_frames_ptr{frames})
    .then(
      [self, frames](const log_state_ptr& now) {
        auto& st = self->state;
        st.end = now->end;
        close_open(st, frames->frames);
        if (st.talk)
          st.talk->kept({now->end.epoch, now->end.at.offset});
        tell_followers(self);
        pump(self);
      },
      [self, frames](caf::error& e) {
        if (e != errc::low_disk && e != errc::store_failed)
          return give_up(self, "its log was not written", e);
        log::warn({"conversation ", self->state.place.id, ": ", runtime::error_text(e)});
        after(self, limits::low_disk_retry, [self, frames] { write_log(self, frames); });
      });
}

void show(self_ptr self, const internal::Delta& more) {
  auto& open = self->state.open;
  const auto kind = static_cast<std::uint32_t>(more.kind());
  const bool same = open.is_open() && open.kind() == kind && (more.item_id() == open.id() || (more.offset() != 0 && more.offset() == open.end()));
  if (!same)
    open.start(more.item_id(), kind);
  open.add(more.offset(), more.text());
  tell_followers(self);
}

// -- locks -----------------------------------------------------------------------------------------

/// The file that a tool names to write it, absolute; empty = none.
std::string file_of(const internal::HookQuestion& q) {
  if (q.tool() == "Read" || q.tool() == "Glob" || q.tool() == "Grep" || q.tool() == "LS")
    return {};
  const auto input = nlohmann::json::parse(q.input(), nullptr, false);
  if (!input.is_object())
    return {};
  for (const auto* name : {"file_path", "notebook_path"})
    if (auto i = input.find(name); i != input.end() && i->is_string())
      return target_path(normalize_path(i->get<std::string>(), q.directory().empty() ? "/" : q.directory()));
  return {};
}

void answer_hook(self_ptr self, const std::string& id, const std::string& why_not) {
  internal::HookAnswer a;
  a.set_question_id(id);
  a.set_denied(!why_not.empty());
  a.set_text(why_not);
  if (self->state.talk)
    self->state.talk->judged(a);
  pump(self);
}

/// A peer's lock on the file, or on a directory above it, denies the write.
void judge_hook(self_ptr self, const internal::HookQuestion& q) {
  const auto file = file_of(q);
  if (file.empty())
    return answer_hook(self, q.id(), {});
  const auto& place = self->state.place;
  auto locks = internal_query(*place.links.node, place.scope, [](v1::Query& x) { x.mutable_list_locks(); });
  self->request(place.links.readers.front(), limits::call_deadline_default(), locks)
    .then(
      [self, file, id = q.id(), tool = q.tool()](const answer_ptr& a) {
        for (const auto& l : a->locks().locks()) {
          const auto& lock = l.lock();
          if (lock.session_id() != self->state.row.session_id() && (lock.path() == file || is_inside(lock.path(), file)))
            return answer_hook(self, id,
                               concat({"swarm lock blocked ", tool, " for ", lock.path(), ": held by ",
                                       l.owner().label().empty() ? lock.session_id().substr(0, 8) : l.owner().label()}));
        }
        answer_hook(self, id, {});
      },
      // Nobody knows: the driver decides by its list.
      [](caf::error&) {});
}

// -- the driver's output -----------------------------------------------------------------------------

void read_output(self_ptr self) {
  auto& st = self->state;
  if (st.reading || !st.pipes || !st.talk || !st.talk->wants_output())
    return;
  st.reading = true;
  auto read = std::make_shared<pty_read>();
  read->from = st.read_to;
  self
    ->request(st.pipes, caf::infinite, pty_read_ptr{read}) // lint: edge deadline
    .then(
      [self, n = st.connection](const pty_chunk_ptr& c) {
        auto& s = self->state;
        if (n != s.connection || !s.talk)
          return;
        s.reading = false;
        s.read_to = c->offset() + c->data().size();
        if (c->gap() > 0 && !c->ended()) {
          lose_pipes(self);
          return connect(self);
        }
        s.talk->heard(c->data());
        if (c->ended()) {
          s.talk->driver_ended(c->signal() != 0        ? concat({"the driver was ended by signal ", c->signal()})
                               : c->exit_status() != 0 ? concat({"the driver ended with status ", c->exit_status()})
                                                       : std::string{});
          s.pipes = nullptr;
        }
        pump(self);
      },
      [self, n = st.connection](caf::error&) {
        if (n != self->state.connection)
          return;
        lose_pipes(self);
        after(self, again_soon, [self] { connect(self); });
      });
}

void say_hello(self_ptr self, const pty_info_ptr& info) {
  auto& st = self->state;
  st.read_to = info->end();
  if (!info->running()) {
    st.read_to = 0; // nobody will answer; what it has told is read as far as it is known from where
    st.talk->driver_ended("the driver ended while nobody listened");
    st.pipes = nullptr;
    return pump(self);
  }
  st.talk->connected(random_bytes(agents::driver_nonce_bytes));
  pump(self);
}

/// Once its gate is open.
void connect(self_ptr self) {
  auto& st = self->state;
  if (!st.talk || st.talk->is_over() || st.pipes || st.connecting)
    return;
  if (!st.spawn || st.spawn->attempt() != st.talk->generation() || st.spawn->status() != v1::Spawn::RUNNING)
    return;
  st.connecting = true;
  const auto n = ++st.connection;
  auto later = [self, n](caf::error&) {
    if (n != self->state.connection)
      return;
    self->state.connecting = false;
    after(self, again_soon, [self] { connect(self); });
  };
  self->request(st.place.links.processes, limits::call_deadline_default(), pty_atom_v, child_atom_v, st.row.spawn_id())
    .then(
      [self, n, later](const pty_actor& pipes) {
        if (n != self->state.connection)
          return;
        self->request(pipes, limits::call_deadline_default(), status_atom_v)
          .then(
            [self, n, pipes](const pty_info_ptr& info) {
              auto& s = self->state;
              if (n != s.connection || !s.talk)
                return;
              s.connecting = false;
              s.pipes = pipes;
              say_hello(self, info);
            },
            later);
      },
      later);
}

/// It has been idle for long when nothing happens until the timer ends.
void watch_idle(self_ptr self) {
  auto& st = self->state;
  if (!st.talk || !st.talk->is_idle()) {
    st.idle_stamp = 0;
    return;
  }
  if (st.idle_stamp != 0)
    return;
  st.idle_stamp = st.next_timer;
  after(self, limits::conversation_idle(), [self, stamp = st.idle_stamp] {
    if (stamp != self->state.idle_stamp || !self->state.talk)
      return;
    self->state.talk->rest();
    pump(self);
  });
}

void perform(self_ptr self, dialogue::effect e) {
  auto& st = self->state;
  if (auto* frame = std::get_if<dialogue::to_driver>(&e)) {
    if (frame->frame.empty() || !st.pipes)
      return;
    st.input.emplace_back(concat({st.activation, "-", ++st.inputs}), std::move(frame->frame));
    type(self);
  } else if (auto* command = std::get_if<dialogue::ask>(&e)) {
    execute(self, command->command);
  } else if (auto* frames = std::get_if<dialogue::keep>(&e)) {
    write_log(self, std::make_shared<const log_frames>(log_frames{log_name(self), std::move(frames->frames), frames->sync}));
  } else if (auto* more = std::get_if<dialogue::shown>(&e)) {
    show(self, more->more);
  } else if (auto* hook = std::get_if<dialogue::judge>(&e)) {
    judge_hook(self, hook->question);
  } else if (std::holds_alternative<dialogue::hello_again>(e)) {
    lose_pipes(self);
    after(self, again_soon, [self] { connect(self); });
  }
}

void pump(self_ptr self) {
  auto& st = self->state;
  while (st.talk) {
    auto effects = st.talk->take();
    if (effects.empty())
      break;
    for (auto& e : effects)
      perform(self, std::move(e));
  }
  watch_idle(self);
  read_output(self);
}

// -- rows ------------------------------------------------------------------------------------------

void begin_generation(self_ptr self, log_tail tail) {
  auto& st = self->state;
  lose_pipes(self);
  st.open.clear();
  st.talk = std::make_unique<dialogue>(st.row, std::move(tail));
  for (const auto& [id, p] : st.prompts)
    st.talk->prompt_is(p, 0);
  for (const auto& [id, a] : st.approvals)
    st.talk->approval_is(a, 0);
}

void keep_prompt(conversation_state& st, const v1::Prompt& p) {
  if (p.state() == v1::Prompt::QUEUED || p.state() == v1::Prompt::SENDING || p.state() == v1::Prompt::SUBMITTED)
    st.prompts[p.id()] = p;
  else
    st.prompts.erase(p.id());
}

void keep_approval(conversation_state& st, const v1::Approval& a) {
  if (a.generation() == st.row.generation() && (a.decided_at_ms() == 0 || a.delivery() == v1::Approval::PENDING))
    st.approvals[a.id()] = a;
  else
    st.approvals.erase(a.id());
}

/// Its pipe says it when it is read; else nobody does.
void on_spawn(self_ptr self, const v1::Spawn& s) {
  auto& st = self->state;
  if (s.id() != st.row.spawn_id())
    return;
  st.spawn = domain::is_live(s) ? std::optional{s} : std::nullopt;
  if (!st.spawn && st.talk && s.attempt() == st.talk->generation() && !st.pipes && !st.connecting)
    st.talk->driver_ended(s.reason());
  connect(self);
}

void on_batch(self_ptr self, const v1::Batch& b) {
  auto& st = self->state;
  const auto revision = b.reply().revision();
  for (const auto& p : b.patches()) {
    // What was read after the batch was committed is newer.
    if (!p.has_conversation() || p.conversation().id() != st.place.id || p.conversation().generation() < st.row.generation())
      continue;
    const auto fresh = p.conversation().generation() != st.row.generation();
    show_row(self, p.conversation());
    if (has_driver(st.row) && (fresh || !st.talk || st.talk->generation() != st.row.generation()))
      begin_generation(self, {});
    else if (st.talk)
      st.talk->row_is(st.row, revision);
  }
  for (const auto& p : b.patches()) {
    if (p.has_prompt() && p.prompt().conversation_id() == st.place.id) {
      keep_prompt(st, p.prompt());
      if (st.talk)
        st.talk->prompt_is(p.prompt(), revision);
    } else if (p.has_approval() && p.approval().conversation_id() == st.place.id) {
      keep_approval(st, p.approval());
      if (st.talk)
        st.talk->approval_is(p.approval(), revision);
    } else if (p.has_spawn()) {
      on_spawn(self, p.spawn());
    } else if (p.has_erased() && p.erased().table() == v1::Erased::CONVERSATIONS && p.erased().key() == st.place.id) {
      return self->quit();
    }
  }
  pump(self);
}

// -- loading -----------------------------------------------------------------------------------------

template <class Fill, class Then>
void ask_reader(self_ptr self, Fill fill, Then then) {
  const auto& place = self->state.place;
  self->request(place.links.readers.front(), limits::call_deadline_default(), internal_query(*place.links.node, place.scope, fill))
    .then([then](const answer_ptr& a) { then(*a); }, [self](caf::error& e) { give_up(self, "its rows could not be read", e); });
}

void loaded(self_ptr self, const log_state_ptr& log) {
  auto& st = self->state;
  st.end = log->end;
  st.loaded = true;
  ++st.state_number;
  if (st.spawn || has_driver(st.row)) {
    begin_generation(self, log->tail);
    if (!st.spawn || st.spawn->attempt() != st.row.generation())
      st.talk->driver_ended("the node was restarted");
  }
  connect(self);
  for (const auto& b : std::exchange(st.missed, {}))
    on_batch(self, *b);
  pump(self);
  tell_followers(self);
}

void load_log(self_ptr self) {
  auto q = std::make_shared<log_question>();
  q->log = log_name(self);
  q->generation = self->state.row.generation();
  self->request(self->state.place.links.conversation_logs, limits::call_deadline_default(), log_question_ptr{q})
    .then([self](const log_state_ptr& log) { loaded(self, log); }, [self](caf::error& e) { give_up(self, "its log could not be read", e); });
}

void load_spawn(self_ptr self, std::string page = {}) {
  ask_reader(
    self,
    [&](v1::Query& x) {
      x.mutable_list_spawns()->set_live_only(true);
      x.mutable_list_spawns()->mutable_page()->set_token(page);
    },
    [self](const v1::Answer& a) {
      for (const auto& s : a.spawns().spawns())
        if (s.id() == self->state.row.spawn_id())
          self->state.spawn = s;
      const auto& next = a.spawns().page().token();
      next.empty() || self->state.spawn ? load_log(self) : load_spawn(self, next);
    });
}

void load_approvals(self_ptr self) {
  ask_reader(
    self, [](v1::Query& x) { x.mutable_list_approvals(); },
    [self](const v1::Answer& a) {
      for (const auto& row : a.approvals().approvals())
        if (row.conversation_id() == self->state.place.id)
          keep_approval(self->state, row);
      load_spawn(self);
    });
}

void load(self_ptr self) {
  const auto id = self->state.place.id;
  ask_reader(
    self, [&](v1::Query& x) { x.mutable_list_conversations()->set_id(id); },
    [self, id](const v1::Answer& a) {
      if (a.conversations().conversations_size() != 1)
        return self->quit();
      self->state.row = a.conversations().conversations(0);
      ask_reader(
        self,
        [&](v1::Query& x) {
          x.mutable_list_prompts()->set_conversation_id(id);
          x.mutable_list_prompts()->set_open_only(true);
        },
        [self](const v1::Answer& p) {
          for (const auto& row : p.prompts().prompts())
            keep_prompt(self->state, row);
          load_approvals(self);
        });
    });
}

caf::result<conversation_news_ptr> follow(self_ptr self, const conversation_poll_ptr& poll) {
  auto& st = self->state;
  if (st.loaded)
    if (auto news = news_for(st, *poll))
      return news;
  if (st.followers.size() >= followers_max)
    return fail(errc::overloaded, "too many follow this conversation");
  auto who = caf::actor_cast<caf::actor_addr>(self->current_sender());
  auto promise = self->make_response_promise<conversation_news_ptr>();
  if (who)
    self->monitor(who);
  st.followers.push_back({poll, runtime::parked<conversation_news_ptr>{promise}, who});
  return promise;
}

} // namespace

conversation_actor::behavior_type conversation(self_ptr self, entity_place place) {
  runtime::install_defaults(self);
  auto& st = self->state;
  st.place = std::move(place);
  st.activation = random_uuid();
  st.state_number = static_cast<std::uint64_t>(st.place.links.node->clock->unix_ms()) * 1'000;
  self->set_down_handler([self](caf::down_msg& dm) { self->state.followers.remove_if([&](const auto& f) { return f.who == dm.source; }); });
  load(self);
  return {
    [self](const execution_ptr& exec) -> caf::result<reply_ptr> { return self->delegate(self->state.place.links.writer, exec); },
    [self](const batch_ptr& b) {
      if (self->state.loaded)
        on_batch(self, *b);
      else
        self->state.missed.push_back(b);
    },
    [self](passivate_atom) {
      const auto& s = self->state;
      const auto goes = s.loaded && !s.spawn && s.followers.empty() && (!s.talk || s.talk->is_over());
      if (goes)
        self->quit();
      return goes;
    },
    [self](tree_atom) {
      const auto& s = self->state;
      auto name = v1::Conversation::State_Name(s.row.state());
      std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
      return runtime::self_row(self, s.loaded ? name : "loading", concat({s.row.harness(), ", ", s.followers.size(), " follow"}));
    },
    [self](const conversation_poll_ptr& poll) { return follow(self, poll); },
    [self](tick_atom, std::uint64_t timer) {
      if (auto t = self->state.timers.extract(timer); !t.empty())
        t.mapped()();
    },
  };
}

} // namespace swarm
