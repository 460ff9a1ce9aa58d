// What peers hold, before an agent writes.
#include "actors/base/program.hpp"
#include "actors/base/text.hpp"
#include "actors/fabric/conversations/conversation_internal.hpp"
#include "actors/fabric/conversations/lock_judge.hpp"

namespace swarm::conversation_internal {

namespace {

constexpr std::size_t pages_max = 4;

lock_case_ptr case_of(self_ptr self, std::vector<v1::LockView> locks, bool more, std::optional<internal::HookQuestion> question) {
  const auto& st = self->state;
  auto out = std::make_shared<lock_case>();
  out->session_id = st.row.session_id();
  if (const auto* cluster = st.place.links.node->cluster)
    out->checkout = cluster->checkout_of(st.place.scope);
  out->home = variable(st.place.links.node->facts.base_environment, "HOME");
  out->locks = std::move(locks);
  out->more = more;
  out->question = std::move(question);
  return out;
}

/// All of the scope, or more than a driver is told of. Without an answer nobody knows: the driver decides by its list.
template <class Then>
void read_locks(self_ptr self, Then then, std::vector<v1::LockView> known = {}, std::string page = {}, std::size_t pages = 1) {
  ask_reader(
    self, [&](v1::Query& x) { x.mutable_list_locks()->mutable_page()->set_token(page); },
    [self, then, known = std::move(known), pages](const v1::Answer& a) {
      auto all = known;
      all.insert(all.end(), a.locks().locks().begin(), a.locks().locks().end());
      const auto& next = a.locks().page().token();
      next.empty() || pages == pages_max ? then(std::move(all), !next.empty()) : read_locks(self, then, std::move(all), next, pages + 1);
    },
    [](caf::error&) {});
}

template <class Then>
void judge(self_ptr self, std::optional<internal::HookQuestion> question, Then then) {
  read_locks(self, [self, question, then](std::vector<v1::LockView> locks, bool more) {
    self->request(self->state.place.links.lock_judge, limits::call_deadline_default(), case_of(self, std::move(locks), more, question))
      .then([then](const lock_verdict_ptr& v) { then(*v); }, [](caf::error&) {});
  });
}

} // namespace

void judge_hook(self_ptr self, const internal::HookQuestion& q) {
  judge(self, q, [self, id = q.id()](const lock_verdict& v) {
    internal::HookAnswer a;
    a.set_question_id(id);
    a.set_denied(!v.why_not.empty());
    a.set_text(v.why_not);
    if (self->state.talk)
      self->state.talk->judged(a);
    pump(self);
  });
}

/// An answer that nobody judges must come all the same: the tool's hook asks once more before the tool runs.
void judge_answer(self_ptr self, const dialogue::judge_answer& answer) {
  const auto n = self->state.talk_number;
  auto tell = [self, n, id = answer.approval_id, told = std::make_shared<bool>(false)](const std::string& why_not) {
    auto& st = self->state;
    if (std::exchange(*told, true) || !st.talk || st.talk_number != n)
      return;
    st.talk->answer_judged(id, why_not);
    pump(self);
  };
  judge(self, answer.question, [tell](const lock_verdict& v) { tell(v.why_not); });
  after(self, limits::hook_call_deadline(), [tell] { tell({}); });
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
  judge(self, std::nullopt, [self, n = st.talk_number](const lock_verdict& v) {
    auto& s = self->state;
    if (!s.talk || s.talk_number != n)
      return;
    s.talk->locks_are(v.locks);
    pump(self);
  });
  after(self, again_later, [self] {
    self->state.asking_locks = false;
    if (self->state.locks_changed)
      refresh_locks(self);
  });
}

} // namespace swarm::conversation_internal
