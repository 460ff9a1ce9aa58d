// The agent of the driver: its start, what it says, what it is given, and its end.
#include <algorithm>

#include "actors/agents/held_paths.hpp"
#include "actors/base/crypto.hpp"
#include "actors/base/text.hpp"
#include "services/driver/core.hpp"

namespace swarm::driver {

namespace {

/// Of Claude Code, after the arguments that swarmd gives.
constexpr const char* const protocol_arguments[] = {
  "--print",   "--input-format",           "stream-json", "--output-format",           "stream-json",
  "--verbose", "--permission-prompt-tool", "stdio",       "--include-partial-messages"};
constexpr std::size_t complaint_shown_bytes_max = 512;

std::string ending_of(std::string text, std::size_t bytes) {
  text = to_utf8(text);
  if (text.size() > bytes) {
    auto at = text.size() - bytes;
    while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xc0U) == 0x80U)
      ++at;
    text.erase(0, at);
  }
  return text;
}

} // namespace

// ---- start ----

void core::start_if_wanted(moment now) {
  if (agent_ || held_.empty() || stopping_)
    return;
  agent_ = std::make_unique<life>(turns_, std::exchange(names_, {}));
  agent_->introduced_by = now.boot_ms + limits::driver_introduction.count();
  agent_->heard_at = now.boot_ms;
  action start{action::kind::start, {std::begin(protocol_arguments), std::end(protocol_arguments)}};
  // Always: its user's settings may name a mode in which it asks nobody.
  start.arguments.push_back("--permission-mode=" + (mode_.empty() ? std::string{"default"} : mode_));
  if (!native_session_.empty())
    start.arguments.insert(start.arguments.end(), {"--resume", native_session_});
  if (!model_.empty())
    start.arguments.push_back("--model=" + model_);
  actions_.push_back(std::move(start));
  give(agent_->stream.initialize());
}

bool core::takes_prompts() const { return agent_ && agent_->introduced && agent_->unusable.empty() && !agent_->end && !agent_->terminate_at; }

void core::give_held(moment now) {
  if (agent_ && !agent_->unusable.empty() && !agent_->end) {
    refuse_held(agent_->unusable, now);
    for (const auto& wish : std::exchange(held_options_, {}))
      option_refused(wish, agent_->unusable, now);
    if (!agent_->terminate_at)
      end_agent(limits::driver_kill_after, now);
    return;
  }
  start_if_wanted(now);
  if (!takes_prompts())
    return;
  while (!held_options_.empty()) {
    const auto wish = std::move(held_options_.front());
    held_options_.pop_front();
    wishes_[wish.id()] = wish;
    take(agent_->stream.set(wish), now);
  }
  while (!held_.empty() && (held_.front().steer || !is_busy())) { // one prompt is one turn
    const auto p = std::move(held_.front());
    held_.pop_front();
    held_bytes_ -= p.bytes;
    auto line = agent_->stream.prompt(p.id, p.parts);
    if (line)
      give_marked(std::move(*line), {0, 0, p.id});
    else
      prompt_state(p.id, internal::PromptState::REFUSED, line.failure().why, now);
  }
}

// ---- what it is given ----

void core::give_marked(std::string line, mark m) {
  m.begin = agent_->taken_all + agent_->input.size() - agent_->taken;
  m.end = m.begin + line.size();
  agent_->marks.push_back(std::move(m));
  give(std::move(line));
}

std::string_view core::to_agent() const {
  return agent_ && !agent_->end && !agent_->terminate_at ? std::string_view{agent_->input}.substr(agent_->taken) : std::string_view{};
}

void core::agent_took(std::size_t bytes, moment now) {
  if (!agent_)
    return;
  auto& a = *agent_;
  a.taken += bytes;
  a.taken_all += bytes;
  if (a.taken == a.input.size())
    a.input = {}, a.taken = 0; // also the room of a large one
  else if (a.taken > limits::mib)
    a.input.erase(0, std::exchange(a.taken, 0));
  while (!a.marks.empty() && a.marks.front().end <= a.taken_all) {
    auto m = std::move(a.marks.front());
    a.marks.pop_front();
    if (m.ruled) {
      internal::FromDriver f;
      *f.mutable_ruled() = std::move(*m.ruled);
      keep(std::move(f), now);
    } else if (m.prompt.empty()) {
      answer_state(std::move(m.answer), now);
    } else {
      a.heard_at = now.boot_ms;
      prompt_state(m.prompt, internal::PromptState::SUBMITTED, {}, now);
    }
  }
}

// ---- what it says ----

/// True while the outbox has no room for more of the agent's output.
bool core::is_held_back() const {
  return out_.unstored_bytes() >= (stopping_ ? limits::driver_ring_bytes : limits::driver_unstored_bytes_max) || out_.is_clogged();
}

/// Bytes queued for the agent that answer its own requests. An agent that asks without reading must not fill memory.
std::size_t core::unasked_bytes() const {
  auto out = agent_->input.size() - agent_->taken;
  for (const auto& m : agent_->marks)
    if (!m.prompt.empty())
      out -= m.end - std::max(m.begin, agent_->taken_all);
  return out;
}

bool core::reads_agent() const {
  return agent_ && !agent_->output_ended && !is_held_back() && (agent_->end || unasked_bytes() < limits::driver_unasked_bytes_max);
}

void core::agent_wrote(std::string_view bytes, moment now) {
  if (!agent_)
    return;
  agent_->heard_at = now.boot_ms;
  agent_->silence_told = false;
  take(agent_->stream.read(bytes), now);
  if (!agent_)
    return;
  std::erase_if(agent_->hooks, [this](const auto& h) { return !agent_->stream.waits_for_hook(h.first); });
  give_held(now);
}

void core::agent_complained(std::string_view bytes, moment now) {
  if (!agent_)
    return;
  auto& tail = agent_->complaints;
  tail += bytes;
  if (tail.size() <= limits::driver_stderr_bytes)
    return;
  tail.erase(0, tail.size() - limits::driver_stderr_bytes);
  if (!std::exchange(agent_->complains_much, true))
    notice("stderr", "The agent writes much to its standard error; only the end is kept, for when it exits", now);
}

void core::take(agents::claude_output output, moment now) {
  give(std::move(output.to_agent));
  for (auto& f : output.said)
    take_frame(std::move(f), now);
}

void core::take_frame(internal::FromDriver f, moment now) {
  auto& a = *agent_;
  if (f.has_delta()) {
    out_.join(std::move(*f.mutable_delta()), now);
    return;
  }
  if (f.has_hook_question())
    return take_hook(std::move(f), now);
  if (f.has_request())
    return take_request(std::move(f), now);
  if (f.has_prompt_state()) {
    auto state = f.prompt_state();
    prompts_.put(state, keep(std::move(f), now));
    return;
  }
  if (f.has_agent_started()) {
    auto& about = *f.mutable_agent_started();
    about.set_pid(a.pid);
    if (!about.native_session().empty())
      native_session_ = about.native_session();
    if (a.introduced && !mode_.empty() && !about.mode().empty()) // it has left the one that was wished for
      mode_ = about.mode();
    a.introduced = true;
    early_ends_ = 0;
  } else if (f.has_option_state()) {
    auto wish = wishes_.extract(f.option_state().id());
    if (wish && f.option_state().text().empty()) {
      model_ = wish.mapped().model().empty() ? model_ : wish.mapped().model();
      mode_ = wish.mapped().mode().empty() ? mode_ : wish.mapped().mode();
    }
  } else if (f.has_withdrawn()) {
    a.with_pattern.erase(f.withdrawn().request_id());
  } else if (f.has_item() && !f.item().nested()) {
    if (f.item().kind() == internal::ITEM_TOOL_CALL && f.item().last() && a.calls.size() < limits::agent_calls_open_max)
      a.calls.insert(f.item().id());
    else if (f.item().kind() == internal::ITEM_TOOL_RESULT)
      a.calls.erase(f.item().of());
  } else if (f.has_turn_ended()) {
    a.calls.clear();
  } else if (f.has_notice() && f.notice().kind() == "unusable") {
    a.unusable = f.notice().text();
  }
  keep(std::move(f), now);
}

/// A rule decides, or swarmd is asked: then it gets all the parts.
void core::take_request(internal::FromDriver part, moment now) {
  auto& a = *agent_;
  a.asked += part.request().body();
  const bool is_whole = part.request().last();
  a.asking.push_back(std::move(part));
  if (!is_whole)
    return;
  auto parts = std::exchange(a.asking, {});
  const auto body = std::exchange(a.asked, {});
  auto& head = *parts.back().mutable_request();
  if (answered_.erase(head.id()) > 0) // the agent has used the id again
    answered_order_.erase(std::find(answered_order_.begin(), answered_order_.end(), head.id()));
  if (rule(head, body, now))
    return;
  head.set_pattern(rules_.pattern_of(head, body));
  agents::put_writes(rules_.writes_of(head, body, here()), head);
  if (!head.pattern().empty())
    a.with_pattern.insert(head.id());
  else if (rules_.are_known()) // nobody would see the rule that the agent keeps, or could take it back
    head.set_can_be_always(false);
  for (auto& p : parts)
    keep(std::move(p), now);
}

bool core::rule(const internal::Request& request, const std::string& body, moment now) {
  auto& a = *agent_;
  auto verdict = rules_.decide(request, body, here(), locks_, now);
  if (verdict.what == ruling::kind::ask && body.size() > asked_bytes_max)
    verdict = {ruling::kind::deny, concat({"larger than ", asked_bytes_max / limits::kib, " KiB, and nobody can be asked"}),
               concat({"This is larger than the ", asked_bytes_max / limits::kib, " KiB that a person can be asked about; do it in smaller steps"})};
  if (verdict.what == ruling::kind::ask)
    return false;
  internal::Answer answer;
  answer.set_request_id(request.id());
  answer.set_option(verdict.what == ruling::kind::allow ? "allow" : "deny");
  answer.set_text(verdict.reason);
  answer.set_digest(sha256(body));
  auto line = a.stream.answer(answer);
  if (!line)
    return false;
  internal::Ruled ruled;
  ruled.set_id(request.id());
  ruled.set_kind(request.kind());
  ruled.set_title(request.title());
  ruled.set_tool(request.tool());
  ruled.set_call(request.call());
  ruled.set_allowed(verdict.what == ruling::kind::allow);
  ruled.set_rule(std::string{utf8_prefix(verdict.rule, limits::kib)});
  mark m{0, 0};
  m.ruled = std::move(ruled);
  give_marked(std::move(*line), std::move(m));
  return true;
}

void core::take_hook(internal::FromDriver f, moment now) {
  auto& q = *f.mutable_hook_question();
  if (!q.after()) {
    // The driver alone denies what may not run and passes what writes nothing, so that both also hold while the node is away.
    internal::HookAnswer answer;
    answer.set_question_id(q.id());
    answer.set_text(rules_.why_not_run(q));
    answer.set_denied(!answer.text().empty());
    if (!answer.denied())
      agents::put_writes(rules_.writes_of(q), q);
    if (answer.denied() || (q.writes().empty() && !q.more_writes()))
      return hook_answer(answer);
  }
  if (q.ByteSizeLong() > limits::driver_part_bytes_max) {
    q.clear_input();
    q.set_too_long(true);
  }
  if (!q.after())
    agent_->hooks.insert_or_assign(q.id(), hook{q, now.boot_ms + limits::hook_question_deadline().count()});
  out_.pass(std::move(f), now);
}

void core::unanswered_hooks(moment now) {
  std::vector<internal::HookQuestion> due;
  for (const auto& [id, hook] : agent_->hooks)
    if (hook.until <= now.boot_ms)
      due.push_back(hook.question);
  for (const auto& q : due) {
    internal::HookAnswer answer;
    answer.set_question_id(q.id());
    answer.set_text(agents::why_held(agents::held_against(locks_, agents::told_writes(q))));
    answer.set_denied(!answer.text().empty());
    agent_->hooks.erase(q.id());
    auto line = agent_->stream.answer_hook(answer);
    if (!line)
      continue; // the agent has stopped waiting
    give(std::move(*line));
    notice("hook-unanswered",
           concat({"The node has not answered whether ", q.tool(), " may run; the driver has let it ", answer.denied() ? "not run: " : "run",
                   answer.text()}),
           now);
  }
}

// ---- its end ----

void core::agent_exited(const agent_end& end, moment now) {
  if (!agent_ || agent_->end)
    return;
  agent_->end = end;
  agent_->ended_at = now.boot_ms;
  over_when_ended(now);
}

void core::agent_output_ended(moment now) {
  if (!agent_ || std::exchange(agent_->output_ended, true))
    return;
  if (!agent_->end && !agent_->terminate_at) // it lives on, and nobody hears of it
    end_agent(limits::driver_kill_after, now);
  over_when_ended(now);
}

/// What it had been given, and is not heard of any more.
void core::end_of_prompts(moment now) {
  for (const auto& m : agent_->marks) {
    if (m.ruled)
      continue; // the agent's end says that nothing came of it
    if (m.prompt.empty()) {
      auto state = m.answer;
      state.set_delivered(false);
      state.set_text("The agent exited before it had taken the answer");
      answer_state(std::move(state), now);
    } else if (m.begin >= agent_->taken_all) {
      prompt_state(m.prompt, internal::PromptState::REFUSED, "The agent exited before it had the prompt", now);
    }
  }
  for (const auto& id : agent_->stream.waiting_prompts()) {
    const auto* known = prompts_.find(id);
    if (known == nullptr || known->state.state() != internal::PromptState::REFUSED)
      prompt_state(id, internal::PromptState::UNKNOWN, "The agent exited before it said what it did with the prompt", now);
  }
}

/// Its session of before is gone: Claude Code removes them after a time, and has not kept one that ended in its first moments.
bool core::has_forgotten(const std::string& complaints) const {
  constexpr std::string_view words = "No conversation found with session ID";
  return !agent_->introduced && !native_session_.empty() &&
         (complaints.find(words) != complaints.npos || agent_->stream.not_begun().find(words) != std::string::npos);
}

/// It has died before it could have got a prompt, and has not said that it cannot begin: what waits is for another one.
bool core::is_tried_again(const std::string& complaints, moment now) {
  const auto& a = *agent_;
  if (a.introduced || held_.empty() || stopping_ || !a.unusable.empty() || !a.end->has_run || !a.stream.not_begun().empty())
    return false;
  if (!a.on_request && ++early_ends_ >= limits::conversation_starts_max)
    return false;
  notice("started-again",
         concat({"The agent ended before it had introduced itself (",
                 a.end->signal != 0 ? concat({"signal ", a.end->signal}) : concat({"status ", a.end->status}), "); it is started again",
                 complaints.empty() ? "" : ". It complained: ", ending_of(complaints, complaint_shown_bytes_max)}),
         now);
  return true;
}

void core::forget_agent() {
  turns_ = agent_->stream.turns();
  names_ = agent_->stream.take_names();
  agent_.reset();
}

void core::over_when_ended(moment now) {
  if (!agent_->end || !agent_->output_ended)
    return;
  take(agent_->stream.end(), now);
  end_of_prompts(now);
  for (const auto& [id, wish] : std::exchange(wishes_, {}))
    option_refused(wish, "The agent has exited", now);
  const auto& end = *agent_->end;
  const auto text = ending_of(agent_->complaints, limits::driver_stderr_bytes);
  const std::string complaints{trimmed(text)};
  bool begins_anew = false; // nobody needs to hear of two processes
  if (has_forgotten(text)) {
    native_session_.clear();
    notice("forgotten", "The agent does not have its session of before any more; it begins a new one, and knows nothing of what was said", now);
    begins_anew = !held_.empty() && !stopping_;
  } else if (!(begins_anew = is_tried_again(complaints, now)) && !agent_->introduced) {
    const auto said = ending_of(agent_->stream.not_begun(), complaint_shown_bytes_max);
    const auto shown = said.empty() ? ending_of(complaints, complaint_shown_bytes_max) : said;
    refuse_held(concat({early_ends_ > 1 ? concat({"The agent was started ", early_ends_, " times and ended each time"}) : "The agent ended",
                        " before it took a prompt", shown.empty() ? "" : ": ", shown}),
                now);
    early_ends_ = 0;
  }
  if (end.left_behind > 0)
    notice("left-behind",
           end.left_behind == 1 ? std::string{"The agent has left a process behind; it has ended with it"}
                                : concat({"The agent has left ", end.left_behind, " processes behind; they have ended with it"}),
           now);
  if (begins_anew) {
    forget_agent();
    return start_if_wanted(now);
  }
  internal::FromDriver f;
  auto& exited = *f.mutable_agent_exited();
  exited.set_exit_status(end.status);
  exited.set_signal(end.signal);
  exited.set_on_request(agent_->on_request);
  exited.set_text(text);
  keep(std::move(f), now);
  forget_agent();
  start_if_wanted(now);
  finish_when_over(now);
}

} // namespace swarm::driver
