// The rows of a conversation: as they are when its actor begins, and as they change.
#include <algorithm>
#include <set>

#include "actors/base/text.hpp"
#include "actors/domain/rules.hpp"
#include "actors/fabric/conversations/conversation_internal.hpp"

namespace swarm::conversation_internal {

namespace {

void keep_prompt(conversation_state& st, const v1::Prompt& p) {
  if (p.state() == v1::Prompt::QUEUED || p.state() == v1::Prompt::SENDING || p.state() == v1::Prompt::SUBMITTED)
    st.prompts[p.id()] = p;
  else
    st.prompts.erase(p.id());
}

/// For a notice in the log, which has the begin of its words.
void keep_unknown(conversation_state& st, v1::Prompt p) {
  constexpr std::size_t words_max = 4 * limits::kib;
  p.mutable_text()->resize(std::min(p.text().size(), words_max));
  st.unknown.push_back(std::move(p));
}

bool is_underway(const conversation_state& st, const v1::Approval& a) {
  return a.generation() == st.row.generation() && (a.decided_at_ms() == 0 || a.delivery() == v1::Approval::PENDING);
}

void keep_approval(conversation_state& st, const v1::Approval& a) {
  if (is_underway(st, a))
    st.approvals[a.id()] = a;
  else
    st.approvals.erase(a.id());
}

/// The end of the driver is told by its pipe while that is read. Without a pipe it is told here.
void on_spawn(self_ptr self, const v1::Spawn& s) {
  auto& st = self->state;
  if (s.id() != st.row.spawn_id())
    return;
  st.spawn = domain::is_live(s) ? std::optional{s} : std::nullopt;
  if (!st.spawn && st.talk && s.attempt() == st.talk->generation() && !st.pipes && !st.connecting)
    st.talk->driver_ended(s.reason(), now_ms(self));
  connect(self);
}

void on_conversation(self_ptr self, const v1::Conversation& row, std::uint64_t revision) {
  auto& st = self->state;
  if (st.given_up)
    return;
  const auto fresh = row.generation() != st.row.generation();
  show_row(self, row);
  if (fresh && st.talk && st.talk->is_unfinished())
    return give_up(self, "its driver was not heard out in time", fail(errc::unavailable));
  if (has_driver(st.row) && (fresh || !st.talk || st.talk->generation() != st.row.generation()))
    begin_generation(self, {});
  else if (st.talk)
    st.talk->row_is(st.row, revision);
}

template <class Fill, class Then>
void ask_rows(self_ptr self, Fill fill, Then then) {
  ask_reader(self, fill, then, [self](caf::error& e) { give_up(self, "its rows could not be read", e); });
}

void loaded(self_ptr self, const log_tail& tail) {
  auto& st = self->state;
  st.loaded = true;
  ++st.state_number;
  if (st.spawn || has_driver(st.row)) {
    begin_generation(self, tail);
    if (!st.spawn || st.spawn->attempt() != st.row.generation())
      st.talk->driver_ended("the node was restarted", now_ms(self));
  }
  connect(self);
  pump(self); // what ends goes to the log before another generation begins
  for (const auto& b : std::exchange(st.missed, {}))
    on_batch(self, *b);
  pump(self);
  tell_followers(self);
}

/// Those that wait for a decision, or whose decision is on its way, stand in the log: what was asked and is not there yet the driver asks again.
void load_approvals(self_ptr self, const log_state_ptr& log, std::vector<std::string> ids) {
  if (ids.empty()) {
    self->state.end = log->end;
    self->state.nonces = log->nonces;
    return loaded(self, log->tail);
  }
  auto id = std::move(ids.back());
  ids.pop_back();
  ask_rows(
    self, [&](v1::Query& x) { x.mutable_list_approvals()->set_id(id); },
    [self, log, ids = std::move(ids)](const v1::Answer& a) {
      for (const auto& row : a.approvals().approvals())
        if (row.conversation_id() == self->state.place.id)
          keep_approval(self->state, row);
      load_approvals(self, log, ids);
    });
}

/// That is also what the log has asked longer ago than was read, and what was committed and not logged.
void load_approvals_of(self_ptr self, const log_state_ptr& log) {
  ask_rows(
    self, [self](v1::Query& x) { x.mutable_list_approvals()->set_conversation_id(self->state.place.id); },
    [self, log](const v1::Answer& a) {
      std::set<std::string> ids;
      for (const auto& [id, item] : log->tail.asked)
        ids.insert(id);
      if (!log->tail.last_request.empty())
        ids.insert(log->tail.last_request);
      for (const auto& row : a.approvals().approvals())
        if (is_underway(self->state, row))
          ids.insert(row.id());
      load_approvals(self, log, {ids.begin(), ids.end()});
    });
}

/// The row may have heard of the end of a driver before anybody has ended in the log what was begun there.
void end_former_generation(self_ptr self, const log_state_ptr& log) {
  auto& st = self->state;
  auto frames = std::make_shared<log_frames>();
  frames->log = {st.place.id, st.row.log_end()};
  frames->sync = true;
  const bool is_over = !st.spawn && !has_driver(st.row);
  const bool has_any = log->tail.since_ms != 0;
  former_generation former{log->generation_before, log->before, st.row.generation()};
  if (is_over)
    ++former.next;
  if (is_over && has_any)
    former = {st.row.generation(), log->tail, former.next};
  if (is_over || !has_any) // else that was done when this generation began
    frames->frames = unfinished(st.row, former, st.unknown, ended_with_node, now_ms(self));
  st.unknown.clear();
  if (frames->frames.empty())
    return load_approvals_of(self, log);
  self->request(st.place.links.conversation_logs, limits::call_deadline_default(), log_frames_ptr{frames})
    .then(
      [self, log](const log_state_ptr& now) {
        auto out = std::make_shared<log_state>(*log);
        out->end = now->end;
        load_approvals_of(self, out);
      },
      [self](caf::error& e) { give_up(self, "its log was not written", e); });
}

void load_log(self_ptr self) {
  auto q = std::make_shared<log_question>();
  q->log = {self->state.place.id, self->state.row.log_end()};
  q->generation = self->state.row.generation();
  self->request(self->state.place.links.conversation_logs, limits::call_deadline_default(), log_question_ptr{q})
    .then([self](const log_state_ptr& log) { end_former_generation(self, log); },
          [self](caf::error& e) { give_up(self, "its log could not be read", e); });
}

void load_spawn(self_ptr self, std::string page = {}) {
  ask_rows(
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

void load_prompts(self_ptr self, std::string page = {}) {
  ask_rows(
    self,
    [&](v1::Query& x) {
      x.mutable_list_prompts()->set_conversation_id(self->state.place.id);
      x.mutable_list_prompts()->mutable_page()->set_token(page);
    },
    [self](const v1::Answer& a) {
      for (const auto& row : a.prompts().prompts()) {
        keep_prompt(self->state, row);
        if (row.state() == v1::Prompt::UNKNOWN)
          keep_unknown(self->state, row);
      }
      const auto& next = a.prompts().page().token();
      next.empty() ? load_spawn(self) : load_prompts(self, next);
    });
}

} // namespace

void on_batch(self_ptr self, const v1::Batch& b) {
  auto& st = self->state;
  const auto revision = b.reply().revision();
  for (const auto& p : b.patches())
    // What was read after the batch was committed is newer.
    if (p.has_conversation() && p.conversation().id() == st.place.id && p.conversation().generation() >= st.row.generation())
      on_conversation(self, p.conversation(), revision);
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

void load(self_ptr self) {
  const auto id = self->state.place.id;
  ask_rows(
    self, [&](v1::Query& x) { x.mutable_list_conversations()->set_id(id); },
    [self](const v1::Answer& a) {
      if (a.conversations().conversations_size() != 1)
        return self->quit();
      self->state.row = a.conversations().conversations(0);
      load_prompts(self);
    });
}

} // namespace swarm::conversation_internal
