// What the driver is told.
#include <algorithm>

#include "actors/base/crypto.hpp"
#include "actors/base/limits.hpp"
#include "actors/base/log.hpp"
#include "actors/base/text.hpp"
#include "actors/domain/oldest_prompt.hpp"
#include "actors/domain/rules.hpp"
#include "actors/fabric/conversations/dialogue.hpp"

namespace swarm {

namespace {

constexpr auto stop_grace_ms = static_cast<std::uint32_t>(limits::driver_stop_grace.count());

bool is_under_way(const v1::Prompt& p) { return p.state() == v1::Prompt::SENDING || p.state() == v1::Prompt::SUBMITTED; }

internal::Permissions::Kind kind_of(v1::Conversation::Permissions p) {
  switch (p) {
    case v1::Conversation::AUTO_EDIT: return internal::Permissions::AUTO_EDIT;
    case v1::Conversation::AUTO: return internal::Permissions::AUTO;
    case v1::Conversation::PLAN: return internal::Permissions::PLAN;
    case v1::Conversation::DENY: return internal::Permissions::DENY;
    default: return internal::Permissions::ASK;
  }
}

bool allows(const v1::Approval& a) {
  return (a.kind() == v1::Approval::TOOL || a.kind() == v1::Approval::COMMAND || a.kind() == v1::Approval::FILE) &&
         (a.decision() == "allow" || a.decision() == "always");
}

} // namespace

void dialogue::judged(const internal::HookAnswer& a) {
  internal::ToDriver out;
  *out.mutable_hook_answer() = a;
  if (ready_)
    say(out);
}

void dialogue::answer_judged(const std::string& approval_id, const std::string& why_not) {
  judging_.erase(approval_id);
  judged_[approval_id] = why_not;
  run();
}

void dialogue::interrupt_taken(std::uint32_t interrupt) {
  if (interrupt <= row_.interrupts_told())
    return;
  v1::Command told;
  report(told).set_interrupts_told(interrupt);
  ask_for(std::move(told));
  run();
}

void dialogue::file_missing(const std::string& prompt_id, const std::string& why) {
  write_own(lost_prompt(prompt_id, v1::Prompt::UNDELIVERABLE, why));
  ops_.emplace_back(sync_op{});
  v1::Command command;
  auto& p = *report(command).add_prompts();
  p.set_prompt_id(prompt_id);
  p.set_state(v1::Prompt::UNDELIVERABLE);
  p.set_reason(std::string{utf8_prefix(why, 1 * limits::kib)});
  ask_for(std::move(command));
  run();
}

void dialogue::rest() {
  if (!is_idle())
    return;
  internal::ToDriver stop;
  stop.mutable_stop()->set_grace_ms(stop_grace_ms);
  stop.mutable_stop()->set_agent_only(true);
  say(stop);
}

void dialogue::end() {
  ends_ = true;
  run();
}

bool dialogue::waits_for_prompt() const {
  const bool one_comes = !sending_.empty() || !expected_.empty();
  return ready_ && !ends_ && !one_comes && open_turn_.empty() && (prompts_.empty() || row_.held()) && approvals_.empty() && background_ == 0;
}

bool dialogue::is_idle() const { return row_.state() == v1::Conversation::IDLE && waits_for_prompt(); }

bool dialogue::is_resting() const { return row_.state() == v1::Conversation::SUSPENDED && waits_for_prompt(); }

void dialogue::wish() {
  if (!ready_ || over_ || gone_)
    return;
  if (ends_ || row_.state() == v1::Conversation::ENDED) {
    internal::ToDriver stop;
    stop.mutable_stop()->set_grace_ms(stop_grace_ms);
    if (!std::exchange(stop_given_, true))
      say(stop);
    return;
  }
  wish_rules();
  wish_options();
  wish_prompts(); // an interrupt is about those that came before it
  wish_interrupt();
  wish_answers();
  send_next();
}

/// A frame that is too large is not sent, and does not count as told.
void dialogue::say_changed(const internal::ToDriver& what, std::string& given) {
  auto now = what.SerializeAsString();
  if (now == given)
    return;
  auto frame = agents::encode_driver_frame(what);
  if (frame.empty())
    return log::warn({"conversation ", row_.id(), ": its driver cannot be told of ", now.size(), " bytes at once"});
  given = std::move(now);
  effects_.emplace_back(to_driver{std::move(frame)});
}

/// Only when they may be others: it is looked for with everything that the driver says.
void dialogue::wish_rules() {
  if (std::exchange(rules_told_, true))
    return;
  internal::ToDriver rules;
  auto& p = *rules.mutable_permissions();
  p.set_kind(kind_of(row_.permissions()));
  p.set_end_ms(row_.permissions_end_ms());
  *p.mutable_allowed() = row_.allowed();
  while (rules.ByteSizeLong() > limits::driver_frame_bytes_max && !p.allowed().empty())
    p.mutable_allowed()->RemoveLast(); // of an earlier version: with fewer patterns a person is asked more often
  say_changed(rules, permissions_given_);
  if (!locks_)
    return;
  internal::ToDriver held;
  *held.mutable_locks() = *locks_;
  say_changed(held, locks_given_);
}

/// The same for each life of the node, so that the driver knows a repeat.
std::string dialogue::wish_id(std::uint32_t number) const {
  return uuid_of(sha256(concat({row_.id(), "/", generation_, "/wish/", number})).substr(0, 16));
}

void dialogue::wish_options() {
  const auto n = row_.wishes();
  if (n <= row_.wishes_told() || n <= wishes_given_)
    return;
  wishes_given_ = n;
  internal::ToDriver out;
  out.mutable_set()->set_id(wish_id(n));
  out.mutable_set()->set_model(row_.wished_model());
  out.mutable_set()->set_mode(row_.wished_mode());
  say(out);
}

void dialogue::wish_interrupt() {
  const auto n = row_.interrupts();
  if (n <= row_.interrupts_told() || n <= interrupts_given_)
    return;
  interrupts_given_ = n;
  internal::ToDriver out;
  out.mutable_interrupt()->set_id(uuid_of(sha256(concat({row_.id(), "/", generation_, "/interrupt/", n})).substr(0, 16)));
  effects_.emplace_back(to_driver{agents::encode_driver_frame(out), n});
}

// -- decisions -----------------------------------------------------------------------------------

namespace {

/// Nor does it show that there is more. What a node of an earlier version has asked for says neither.
bool writes_nothing(const v1::Approval& a) { return a.writes().empty() && !a.more_writes() && !a.tool().empty(); }

/// What the driver has seen that it writes. What a person has edited the driver looks at itself, when it has the answer.
internal::HookQuestion question_of(const v1::Approval& a) {
  internal::HookQuestion q;
  q.set_id("approval/" + a.id());
  q.set_tool(a.tool());
  q.set_more_writes(a.more_writes() || a.tool().empty());
  for (const auto& w : a.writes()) {
    auto& to = *q.add_writes();
    to.set_name(w.name());
    to.set_real(w.real());
    to.set_pattern(w.pattern());
    to.set_tree(w.tree());
  }
  return q;
}

} // namespace

void dialogue::wish_answers() {
  for (auto& [id, d] : denials_)
    if (!std::exchange(d.given, true))
      effects_.emplace_back(to_driver{d.frame});
  for (const auto& [id, known] : approvals_) {
    const auto& a = known.row;
    if (a.delivery() != v1::Approval::PENDING || answers_given_.contains(id))
      continue;
    if (!allows(a) || writes_nothing(a) || judged_.contains(id)) {
      answers_given_.insert(id);
      give_answer(a);
    } else if (judging_.insert(id).second) {
      effects_.emplace_back(judge_answer{id, question_of(a)});
    }
  }
}

/// A peer may have locked the file while the person thought about it.
void dialogue::give_answer(const v1::Approval& a) {
  const auto checked = judged_.find(a.id());
  const auto& why_not = checked == judged_.end() ? std::string{} : checked->second;
  const auto fill = [&](std::string option, const std::string& text) {
    internal::ToDriver out;
    auto& answer = *out.mutable_answer();
    answer.set_request_id(a.native_id());
    answer.set_generation(generation_);
    answer.set_option(std::move(option));
    answer.set_text(text);
    answer.set_digest(a.action_digest());
    return out;
  };
  if (!why_not.empty())
    return say(fill("deny", why_not));
  auto out = fill(a.decision().empty() ? "deny" : a.decision(), a.message());
  out.mutable_answer()->set_edited_input(a.edited_input());
  for (const auto& part : a.answers())
    (*out.mutable_answer()->mutable_answers())[part.question()] = part.choice();
  auto frame = agents::encode_driver_frame(out);
  if (frame.empty())
    return say(fill("deny", judged_[a.id()] = "The answer is too long for the agent. Ask in smaller parts."));
  effects_.emplace_back(to_driver{std::move(frame)});
}

// -- prompts -------------------------------------------------------------------------------------

void dialogue::send_prompt(const v1::Prompt& p) {
  internal::PromptPart part;
  part.set_id(p.id());
  part.set_generation(generation_);
  part.set_steer(p.steer());
  std::string_view rest = p.text();
  part.set_begins(true);
  do {
    auto piece = utf8_prefix(rest, limits::driver_part_bytes_max);
    if (piece.empty())
      piece = rest.substr(0, limits::driver_part_bytes_max);
    rest.remove_prefix(piece.size());
    internal::ToDriver out;
    *out.mutable_prompt() = part;
    out.mutable_prompt()->set_text(std::string{piece});
    out.mutable_prompt()->set_last(rest.empty() && p.attachments().empty());
    say(out);
    part.set_begins(false);
  } while (!rest.empty());
  for (int i = 0; i < p.attachments_size(); ++i) {
    const auto& file = p.attachments(i);
    part.set_media_type(file.media_type());
    part.set_name(file.name());
    effects_.emplace_back(file_to_driver{part, file, i + 1 == p.attachments_size()});
  }
}

void dialogue::wish_prompts() {
  for (const auto& [id, known] : prompts_)
    if (known.row.state() == v1::Prompt::SENDING && known.row.generation() == generation_ && given_.insert(id).second)
      send_prompt(known.row);
}

/// Into the turn that is open the first that may join it; else, when nothing is under way, the oldest: no other may begin a turn.
const v1::Prompt* dialogue::next_prompt() const {
  const bool in_turn = !open_turn_.empty() || !row_.open_turn().empty();
  const v1::Prompt* next = nullptr;
  for (const auto& [id, known] : prompts_) {
    const auto& p = known.row;
    if (is_under_way(p) && !in_turn)
      return nullptr;
    if (p.state() != v1::Prompt::QUEUED || (in_turn && !domain::joins_turns(row_, p)))
      continue;
    if (!next || p.number() < next->number())
      next = &p;
  }
  return next;
}

bool dialogue::takes_prompts() const {
  const auto state = row_.state();
  return !row_.held() && (state == v1::Conversation::STARTING || state == v1::Conversation::IDLE || state == v1::Conversation::SUSPENDED ||
                          state == v1::Conversation::RUNNING || state == v1::Conversation::BLOCKED);
}

void dialogue::send_next() {
  if (!sending_.empty() || !expected_.empty() || !inbox_.empty() || !takes_prompts())
    return;
  if (const auto* next = next_prompt(); next && !refused_.contains(next->id()))
    ask_to_send(next->id());
}

void dialogue::prompt_comes() {
  const bool is_free = ready_ && !over_ && !gone_ && !ends_ && !waits_ && ops_.empty() && inbox_.empty() && prompts_.empty();
  if (is_free && open_turn_.empty() && row_.open_turn().empty() && sending_.empty() && expected_.empty() && takes_prompts())
    ask_to_send(domain::oldest_prompt);
}

void dialogue::ask_to_send(const std::string& which) {
  sending_ = which;
  v1::Command command;
  report(command).set_sending(which);
  ask_for(std::move(command), [this](const v1::Reply& r) { may_send(r, std::exchange(sending_, {})); });
  run();
}

void dialogue::may_send(const v1::Reply& r, const std::string& which) {
  const auto& p = r.conversation().prompt();
  const auto& id = which == domain::oldest_prompt ? p.id() : which;
  auto known = prompts_.find(id);
  const bool may = !r.has_refusal() && p.state() == v1::Prompt::SENDING;
  if (known == prompts_.end()) {
    if (may && which == domain::oldest_prompt)
      expected_ = id;
    return;
  }
  if (!may) {
    // A row that is newer than the answer may let it pass: nothing would tell that once more.
    if (r.has_refusal() || r.revision() >= row_revision_)
      refused_.insert(id);
    return;
  }
  known->second.revision = r.revision();
  known->second.row.set_state(v1::Prompt::SENDING);
  known->second.row.set_generation(generation_);
}

} // namespace swarm
