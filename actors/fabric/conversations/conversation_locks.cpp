// What peers hold, before an agent writes. Of one conversation the judge has one case at a time: what agents ask without end waits here, bounded.
#include <algorithm>

#include "actors/base/text.hpp"
#include "actors/fabric/conversations/conversation_internal.hpp"
#include "actors/fabric/conversations/scope_locks.hpp"

namespace swarm::conversation_internal {

namespace {

using verdict_told = std::function<void(const lock_verdict*)>; // null = nobody knows

ask_rows asks_reader(self_ptr self) {
  return asks(self, self->state.place.links.node, [self]() -> const reader_actor& { return self->state.place.links.readers.front(); });
}

void hand_over(self_ptr self, lock_case c, const verdict_told& end) {
  self->request(self->state.place.links.lock_judge, limits::lock_judge_patience, std::make_shared<const lock_case>(std::move(c)))
    .then([end](const lock_verdict_ptr& v) { end(v.get()); }, [end](caf::error&) { end(nullptr); });
}

void read_others(self_ptr self, lock_case c, const verdict_told& end) {
  if (!c.question)
    return hand_over(self, std::move(c), end);
  const auto& place = self->state.place;
  auto read = [self, c, end](std::vector<scope_locks_ptr> others) {
    auto all = c;
    all.others = std::move(others);
    hand_over(self, std::move(all), end);
  };
  read_locks_around(asks_reader(self), place.links.node, place.scope, *c.question, std::move(read), [end] { end(nullptr); });
}

/// Reads what the case needs, and has it judged.
void judge_case(self_ptr self, lock_case c, const verdict_told& end) {
  if (c.locks)
    return read_others(self, std::move(c), end);
  const auto& place = self->state.place;
  auto read = [self, c, end](scope_locks_ptr locks) {
    auto known = c;
    known.locks = std::move(locks);
    read_others(self, std::move(known), end);
  };
  read_scope_locks(asks_reader(self), *place.links.node, place.scope, std::move(read), [end] { end(nullptr); });
}

void judge_next(self_ptr self) {
  auto& st = self->state;
  if (st.lock_questions.empty() || std::exchange(st.judging, true))
    return;
  auto next = std::move(st.lock_questions.front());
  st.lock_questions.pop_front();
  lock_case c{st.row.session_id(), std::move(next.locks), {}, std::move(next.question)};
  judge_case(self, std::move(c), [self, told = std::move(next.told)](const lock_verdict* v) {
    self->state.judging = false;
    told(v);
    judge_next(self);
  });
}

/// The newest takes the place of the same one.
void judge(self_ptr self, conversation_state::lock_question q) {
  auto& waiting = self->state.lock_questions;
  std::erase_if(waiting, [&](const auto& w) {
    return w.question.has_value() == q.question.has_value() && (!w.question || (!w.question->id().empty() && w.question->id() == q.question->id()));
  });
  if (waiting.size() == limits::lock_questions_max)
    waiting.pop_front();
  waiting.push_back(std::move(q));
  judge_next(self);
}

/// Nothing when another dialogue has taken its place.
dialogue* talk_of(self_ptr self, std::uint64_t number) {
  auto& st = self->state;
  return st.talk && st.talk_number == number ? st.talk.get() : nullptr;
}

} // namespace

/// Without an answer the driver decides by its own list.
void judge_hook(self_ptr self, const internal::HookQuestion& q) {
  auto tell = [self, n = self->state.talk_number, id = q.id()](const lock_verdict* v) {
    auto* talk = talk_of(self, n);
    if (talk == nullptr || v == nullptr)
      return;
    internal::HookAnswer a;
    a.set_question_id(id);
    a.set_denied(!v->why_not.empty());
    a.set_text(v->why_not);
    talk->judged(a);
    pump(self);
  };
  judge(self, {q, tell});
}

/// An answer that nobody judges must come all the same. Nothing is asked once more before the tool runs, so it is a denial.
void judge_answer(self_ptr self, const dialogue::judge_answer& answer) {
  auto tell = [self, n = self->state.talk_number, id = answer.approval_id, is_told = std::make_shared<bool>(false)](const std::string& why_not) {
    if (std::exchange(*is_told, true))
      return;
    if (auto* talk = talk_of(self, n)) {
      talk->answer_judged(id, why_not);
      pump(self);
    }
  };
  const auto unknown =
    concat({"swarm lock blocked ", answer.question.tool(), ": whether others hold what it writes was not found out in time. Ask again."});
  judge(self, {answer.question, [tell, unknown](const lock_verdict* v) { tell(v == nullptr ? unknown : v->why_not); }});
  after(self, limits::hook_call_deadline(), [tell, unknown] { tell(unknown); });
}

/// One at a time: of what changes meanwhile the newest is looked at next.
void refresh_locks(self_ptr self, scope_locks_ptr locks) {
  auto& st = self->state;
  if (!st.talk || st.talk->is_over())
    return;
  st.locks_now = std::move(locks);
  st.locks_changed = true;
  if (std::exchange(st.asking_locks, true))
    return;
  st.locks_changed = false;
  auto tell = [self, n = st.talk_number](const lock_verdict* v) {
    auto* talk = talk_of(self, n);
    if (talk == nullptr)
      return;
    if (v == nullptr)
      return after(self, again_later, [self] { refresh_locks(self); });
    talk->locks_are(v->locks);
    pump(self);
  };
  judge(self, {std::nullopt, tell, std::exchange(st.locks_now, nullptr)});
  after(self, again_later, [self] {
    auto& s = self->state;
    s.asking_locks = false;
    if (s.locks_changed)
      refresh_locks(self, std::exchange(s.locks_now, nullptr));
  });
}

} // namespace swarm::conversation_internal
