// What peers hold, before an agent writes. Of one conversation the judge has one case at a time: what agents ask without end waits here, bounded.
#include <algorithm>

#include "actors/base/text.hpp"
#include "actors/fabric/conversations/conversation_internal.hpp"
#include "actors/fabric/conversations/lock_judge.hpp"

namespace swarm::conversation_internal {

namespace {

lock_case_ptr case_of(self_ptr self, std::vector<v1::LockView> locks, bool more, std::optional<internal::HookQuestion> question) {
  const auto& st = self->state;
  auto out = std::make_shared<lock_case>();
  out->session_id = st.row.session_id();
  if (const auto* cluster = st.place.links.node->cluster)
    out->checkout = cluster->checkout_of(st.place.scope);
  out->locks = std::move(locks);
  out->more = more;
  out->question = std::move(question);
  return out;
}

/// All of the scope, as far as the bound goes.
template <class Then, class Failed>
void read_locks(self_ptr self, Then then, Failed failed, std::vector<v1::LockView> known = {}, std::string page = {}, std::size_t pages = 1) {
  ask_reader(
    self, [&](v1::Query& x) { x.mutable_list_locks()->mutable_page()->set_token(page); },
    [self, then, failed, known = std::move(known), pages](const v1::Answer& a) {
      auto all = known;
      all.insert(all.end(), a.locks().locks().begin(), a.locks().locks().end());
      const auto& next = a.locks().page().token();
      next.empty() || pages == limits::conversation_lock_pages_max ? then(std::move(all), !next.empty())
                                                                   : read_locks(self, then, failed, std::move(all), next, pages + 1);
    },
    [failed](caf::error&) { failed(); });
}

void judge_next(self_ptr self) {
  auto& st = self->state;
  if (st.lock_questions.empty() || std::exchange(st.judging, true))
    return;
  auto next = std::move(st.lock_questions.front());
  st.lock_questions.pop_front();
  auto end = [self, told = std::move(next.told)](const lock_verdict* v) {
    self->state.judging = false;
    told(v);
    judge_next(self);
  };
  auto judge = [self, question = std::move(next.question), end](std::vector<v1::LockView> locks, bool more) {
    self->request(self->state.place.links.lock_judge, limits::lock_judge_patience, case_of(self, std::move(locks), more, question))
      .then([end](const lock_verdict_ptr& v) { end(v.get()); }, [end](caf::error&) { end(nullptr); });
  };
  read_locks(self, judge, [end] { end(nullptr); });
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

/// One question at a time: what changes meanwhile is asked for by the next.
void refresh_locks(self_ptr self) {
  auto& st = self->state;
  if (!st.talk || st.talk->is_over())
    return;
  st.locks_changed = true;
  if (std::exchange(st.asking_locks, true))
    return;
  st.locks_changed = false;
  judge(self, {std::nullopt, [self, n = st.talk_number](const lock_verdict* v) {
                 auto* talk = talk_of(self, n);
                 if (talk == nullptr)
                   return;
                 if (v == nullptr)
                   return after(self, again_later, [self] { refresh_locks(self); });
                 talk->locks_are(v->locks);
                 pump(self);
               }});
  after(self, again_later, [self] {
    self->state.asking_locks = false;
    if (self->state.locks_changed)
      refresh_locks(self);
  });
}

} // namespace swarm::conversation_internal
