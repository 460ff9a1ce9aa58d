#include "actors/fabric/conversations/conversation.hpp"

#include <algorithm>
#include <variant>

#include "actors/base/crypto.hpp"
#include "actors/base/log.hpp"
#include "actors/base/text.hpp"
#include "actors/domain/rules.hpp"
#include "actors/fabric/conversations/conversation_internal.hpp"
#include "actors/runtime/error_text.hpp"

namespace swarm {

bool has_driver(const v1::Conversation& c) {
  return c.state() == v1::Conversation::STARTING || c.state() == v1::Conversation::IDLE || c.state() == v1::Conversation::RUNNING ||
         c.state() == v1::Conversation::BLOCKED;
}

namespace conversation_internal {

void after(self_ptr self, std::chrono::milliseconds delay, std::function<void()> then) {
  auto id = self->state.next_timer++;
  self->state.timers.emplace(id, std::move(then));
  self->delayed_send(self, delay, tick_atom_v, id);
}

namespace {

/// Prompts wait until somebody has mended it.
void tell_row(self_ptr self, const std::string& why) {
  const auto& st = self->state;
  const auto report = internal_command(*st.place.links.node, st.place.scope, [&](v1::Command& c) {
    auto& r = *c.mutable_report_conversation();
    r.set_conversation_id(st.place.id);
    r.set_generation(st.row.generation());
    r.set_reason(concat({domain::log_trouble, utf8_prefix(why, 1 * limits::kib)}));
  });
  if (st.row.reason() != report->command.report_conversation().reason())
    caf::anon_send(st.place.links.writer, report);
}

} // namespace

void give_up(self_ptr self, const char* what, const caf::error& e) {
  log::warn({"conversation ", self->state.place.id, ": ", what, ": ", runtime::error_text(e)});
  if (e == errc::state_dir || e == errc::store_failed)
    tell_row(self, runtime::error_text(e));
  // A request that follows in the same turn would keep it alive without a behavior.
  lose_pipes(self);
  self->state.talk.reset();
  self->state.given_up = true;
  self->quit(fail(errc::unavailable));
}

namespace {

constexpr std::size_t followers_max = limits::pty_readers_max;

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

} // namespace

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

namespace {

/// Nothing when another dialogue has taken its place.
dialogue* talk_of(self_ptr self, std::uint64_t number) {
  auto& st = self->state;
  return st.talk && number == st.talk_number ? st.talk.get() : nullptr;
}

void execute(self_ptr self, const v1::Command& command) {
  const auto& place = self->state.place;
  auto exec = internal_command(*place.links.node, place.scope, [&](v1::Command& c) { c.MergeFrom(command); });
  ask_writer(
    self, place.links.writer, exec,
    [self, n = self->state.talk_number](const reply_ptr& r) {
      if (r->has_refusal())
        log::info({"conversation ", self->state.place.id, ": refused: ", r->refusal().text()});
      if (auto* talk = talk_of(self, n)) {
        talk->answered(*r);
        pump(self);
      }
    },
    [self, command, n = self->state.talk_number](caf::error& e) {
      log::warn({"conversation ", self->state.place.id, ": the store does not take it: ", runtime::error_text(e)});
      after(self, again_later, [self, command, n] {
        if (talk_of(self, n))
          execute(self, command);
      });
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
      [self, frames, n = self->state.talk_number](const log_state_ptr& now) {
        auto& st = self->state;
        st.end = now->end;
        close_open(st, frames->frames);
        if (auto* talk = talk_of(self, n))
          talk->kept({now->end.epoch, now->end.at.offset});
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

void keep_blob(self_ptr self, const blob_keeping_ptr& blob) {
  self->request(self->state.place.links.conversation_blobs, limits::call_deadline_default(), blob)
    .then(
      [self, n = self->state.talk_number](const blob_kept_ptr&) {
        if (auto* talk = talk_of(self, n)) {
          talk->blob_kept({});
          pump(self);
        }
      },
      [self, blob, n = self->state.talk_number](caf::error& e) {
        auto* talk = talk_of(self, n);
        if (talk && (e == errc::overloaded || e == errc::invalid)) {
          talk->blob_kept(runtime::error_text(e));
          return pump(self);
        }
        log::warn({"conversation ", self->state.place.id, ": a request was not kept: ", runtime::error_text(e)});
        after(self, limits::low_disk_retry, [self, blob, n] {
          if (talk_of(self, n))
            keep_blob(self, blob);
        });
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

/// `then` once `is` has been so for long.
template <class Then>
void watch(self_ptr self, std::uint64_t conversation_state::*stamp, bool is, std::chrono::milliseconds longest, Then then) {
  auto& st = self->state;
  if (!is || st.*stamp != 0) {
    if (!is)
      st.*stamp = 0;
    return;
  }
  const auto n = st.*stamp = st.next_timer;
  after(self, longest, [self, stamp, n, then] {
    auto& s = self->state;
    if (s.*stamp != n || !s.talk)
      return;
    s.*stamp = 0;
    then(*s.talk);
    pump(self);
  });
}

/// It does not react: its end is read from its pipe.
void kill_driver(self_ptr self) {
  constexpr std::int32_t at_once = 9;
  if (auto& pipes = self->state.pipes)
    self->request(pipes, limits::call_deadline_default(), kill_atom_v, at_once).then([](const pty_info_ptr&) {}, [](caf::error&) {});
}

void watch_idle(self_ptr self) {
  auto& st = self->state;
  watch(self, &conversation_state::idle_stamp, st.talk && st.talk->is_idle(), limits::conversation_idle(), [](dialogue& d) { d.rest(); });
  const bool rests = st.talk && st.talk->is_resting();
  if (std::exchange(st.is_listed_as_resting, rests) != rests)
    self->send(st.place.links.resting_drivers, attach_atom_v, rests);
  const bool is_greeted = st.talk && st.pipes && !st.last_words && !st.talk->is_ready() && !st.talk->is_over();
  watch(self, &conversation_state::hello_stamp, is_greeted, limits::driver_hello_max, [self](dialogue&) { kill_driver(self); });
  watch(self, &conversation_state::stop_stamp, st.talk && st.talk->is_stopping(), limits::driver_stop_max, [self](dialogue&) { kill_driver(self); });
  watch(self, &conversation_state::resting_stamp, rests, limits::resting_driver_max(), [](dialogue& d) { d.end(); });
}

/// Its spawn waits for this.
void tell_heard(self_ptr self) {
  auto& st = self->state;
  if (!st.talk || !st.talk->is_over() || std::exchange(st.heard_out, st.talk_number) == st.talk_number)
    return;
  if (auto scope = caf::actor_cast<scope_actor>(st.place.around))
    caf::anon_send(scope, gone_atom_v, st.row.spawn_id(), st.talk->generation());
}

void perform(self_ptr self, dialogue::effect e) {
  auto& st = self->state;
  if (auto* frame = std::get_if<dialogue::to_driver>(&e)) {
    if (!frame->frame.empty() && st.pipes)
      enqueue(self, conversation_state::frame{std::move(frame->frame), frame->interrupt});
  } else if (auto* file = std::get_if<dialogue::file_to_driver>(&e)) {
    if (st.pipes)
      enqueue(self, conversation_state::sent_file{std::move(*file)});
  } else if (auto* command = std::get_if<dialogue::ask>(&e)) {
    execute(self, command->command);
  } else if (auto* frames = std::get_if<dialogue::keep>(&e)) {
    write_log(self, std::make_shared<const log_frames>(log_frames{log_name(self), std::move(frames->frames), frames->sync}));
  } else if (auto* blob = std::get_if<dialogue::keep_blob>(&e)) {
    keep_blob(self, std::make_shared<const blob_keeping>(blob_keeping{st.place.id, std::move(blob->bytes)}));
  } else if (auto* more = std::get_if<dialogue::shown>(&e)) {
    show(self, more->more);
  } else if (auto* hook = std::get_if<dialogue::judge>(&e)) {
    judge_hook(self, hook->question);
  } else if (auto* answer = std::get_if<dialogue::judge_answer>(&e)) {
    judge_answer(self, *answer);
  } else if (std::holds_alternative<dialogue::hello_again>(e)) {
    lose_pipes(self);
    after(self, again_soon, [self] { connect(self); });
  }
}

} // namespace

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
  tell_heard(self);
}

void begin_generation(self_ptr self, log_tail tail) {
  auto& st = self->state;
  lose_pipes(self);
  if (st.talk)
    st.nonces.clear(); // of the driver before
  st.open.clear();
  ++st.talk_number;
  st.talk = std::make_unique<dialogue>(st.row, std::move(tail));
  for (const auto& [id, p] : st.prompts)
    st.talk->prompt_is(p, 0);
  for (const auto& [id, a] : st.approvals)
    st.talk->approval_is(a, 0);
  refresh_locks(self);
}

// -- followers' questions ----------------------------------------------------------------------------

namespace {

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

} // namespace conversation_internal

conversation_actor::behavior_type conversation(conversation_actor::stateful_pointer<conversation_state> self, entity_place place) {
  using namespace conversation_internal;
  runtime::install_defaults(self);
  auto& st = self->state;
  st.place = std::move(place);
  st.activation = random_uuid();
  st.state_number = static_cast<std::uint64_t>(st.place.links.node->clock->unix_ms()) * 1'000;
  self->set_down_handler([self](caf::down_msg& dm) { self->state.followers.remove_if([&](const auto& f) { return f.who == dm.source; }); });
  load(self);
  return {
    [self](const execution_ptr& exec) -> caf::result<reply_ptr> {
      auto passed_on = self->delegate(self->state.place.links.writer, exec);
      if (self->state.talk && exec->command.has_send_prompt()) {
        self->state.talk->prompt_comes();
        pump(self);
      }
      return passed_on;
    },
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
    [self](const scope_locks_ptr& locks) { refresh_locks(self, locks); },
    [self](gone_atom) {
      if (!self->state.talk || !self->state.talk->is_resting())
        return;
      self->state.talk->end();
      pump(self);
    },
    [self](tick_atom, std::uint64_t timer) {
      if (auto t = self->state.timers.extract(timer); !t.empty())
        t.mapped()();
    },
  };
}

} // namespace swarm
