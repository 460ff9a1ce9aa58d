// What swarmd asks of the driver.
#include <algorithm>

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include "actors/agents/held_paths.hpp"
#include "actors/base/crypto.hpp"
#include "actors/base/text.hpp"
#include "services/driver/core.hpp"

namespace swarm::driver {

namespace {

constexpr std::size_t text_bytes_max = 1 * limits::kib;

std::string bounded(std::string_view text) { return std::string{utf8_prefix(text, text_bytes_max)}; }

/// The same for the same answer: a map has no order of its own.
std::string digest_of(const internal::Answer& a) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream to{&bytes};
    google::protobuf::io::CodedOutputStream coded{&to};
    coded.SetSerializationDeterministic(true);
    a.SerializeToCodedStream(&coded);
  }
  return sha256(bytes);
}

bool is_id(std::string_view id) { return !id.empty() && id.size() <= limits::id_bytes_max; }

} // namespace

// ---- prompts ----

void core::prompt_state(const std::string& id, internal::PromptState::State state, std::string_view text, moment now) {
  internal::FromDriver f;
  auto& s = *f.mutable_prompt_state();
  s.set_id(id);
  s.set_state(state);
  s.set_text(bounded(text));
  auto copy = s;
  prompts_.put(copy, keep(std::move(f), now));
}

void core::prompt(const internal::PromptPart& part, moment now) {
  if (!is_id(part.id()))
    return;
  if (is_other_generation(part.generation())) {
    if (part.last())
      prompt_state(part.id(), internal::PromptState::REFUSED, "The prompt is for another attempt of the driver", now);
    return;
  }
  auto taken = prompts_.take(part);
  if (taken.repeated != nullptr && out_.is_stored(taken.repeated->seq) && taken.repeated->seq > 0) {
    internal::FromDriver f;
    *f.mutable_prompt_state() = taken.repeated->state;
    auto copy = taken.repeated->state;
    prompts_.put(copy, keep(std::move(f), now));
  }
  if (!taken.whole && taken.refused.empty())
    return;
  if (taken.refused.empty() && stopping_)
    taken.refused = "The driver ends";
  const auto waiting = held_bytes_ + (agent_ ? agent_->input.size() - agent_->taken : 0);
  if (taken.refused.empty() && (held_.size() >= limits::prompts_open_max || waiting + taken.whole->bytes > limits::driver_waiting_bytes_max))
    taken.refused = "Too many prompts wait for the agent";
  if (!taken.refused.empty()) {
    prompt_state(part.id(), internal::PromptState::REFUSED, taken.refused, now);
    return;
  }
  held_bytes_ += taken.whole->bytes;
  internal::PromptState none;
  none.set_id(part.id());
  prompts_.put(none, 0);
  const auto first_other = std::find_if(held_.begin(), held_.end(), [](const auto& p) { return !p.steer; });
  held_.insert(taken.whole->steer ? first_other : held_.end(), std::move(*taken.whole));
  give_held(now);
}

void core::refuse_held(std::string_view why, moment now) {
  if (auto half = prompts_.drop_unfinished())
    prompt_state(*half, internal::PromptState::REFUSED, why, now);
  std::erase_if(later_, [&](const internal::ToDriver& f) {
    if (f.has_prompt() && f.prompt().last() && prompts_.find(f.prompt().id()) == nullptr)
      prompt_state(f.prompt().id(), internal::PromptState::REFUSED, why, now);
    return f.has_prompt();
  });
  held_bytes_ = 0;
  for (const auto& p : std::exchange(held_, {}))
    prompt_state(p.id, internal::PromptState::REFUSED, why, now);
}

void core::interrupt(const internal::InterruptTurn& i, moment now) {
  if (!is_id(i.id()) || std::find(interrupts_.begin(), interrupts_.end(), i.id()) != interrupts_.end())
    return;
  if (interrupts_.size() == limits::driver_answers_remembered_max)
    interrupts_.pop_front();
  interrupts_.push_back(i.id());
  refuse_held("The turn was interrupted before the agent had the prompt", now);
  if (agent_ && agent_->introduced && !agent_->end)
    take(agent_->stream.interrupt(), now);
}

// ---- answers ----

void core::answer_state(internal::AnswerState state, moment now) {
  auto found = answered_.find(state.request_id());
  internal::FromDriver f;
  *f.mutable_answer_state() = state;
  const auto seq = keep(std::move(f), now);
  if (found != answered_.end() && found->second.seq == 0) {
    found->second.state = std::move(state);
    found->second.seq = seq;
  }
}

/// What was allowed may lead elsewhere by now, and what a person has edited nobody has looked at yet. Empty when nothing is in its way.
std::string core::why_not_allowed(const internal::Answer& a) const {
  const auto asked = agent_->stream.asked_under(a.request_id());
  if (!asked || asked->first.kind() == internal::Request::QUESTION || (a.option() != "allow" && a.option() != "always"))
    return {};
  const bool is_edited = !a.edited_input().empty();
  const std::string_view input = is_edited ? std::string_view{a.edited_input()} : asked->second;
  if (auto why = rules_.why_kept_out(asked->first, input, here()); !why.empty())
    return why;
  if (!is_edited)
    return {}; // the node has compared it with the locks of this moment
  const auto held = agents::held_against(locks_, rules_.writes_of(asked->first, input, here()));
  switch (held.what) {
    case agents::held_path::kind::free: return {};
    case agents::held_path::kind::held: return concat({"A peer holds ", held.path, ". Do something else first, and try again later"});
    case agents::held_path::kind::perhaps: break;
  }
  return "Peers hold more files than the driver knows of, and it may write one of them. Do it in smaller parts, or later";
}

void core::answer(const internal::Answer& a, moment now) {
  if (!is_id(a.request_id()))
    return;
  internal::AnswerState state;
  state.set_request_id(a.request_id());
  state.set_digest(a.digest().substr(0, 32));
  auto refuse = [&](std::string_view why) {
    state.set_text(bounded(why));
    internal::FromDriver f;
    *f.mutable_answer_state() = std::move(state);
    keep(std::move(f), now);
  };
  if (is_other_generation(a.generation()))
    return refuse("The answer is for another attempt of the driver");
  const auto what = digest_of(a);
  if (auto before = answered_.find(a.request_id()); before != answered_.end()) {
    if (before->second.what != what && state.digest() != before->second.state.digest())
      return refuse("The agent has another answer to this already");
    // Also to another answer: its option says what the agent has got.
    if (before->second.seq == 0 || !out_.is_stored(before->second.seq))
      return; // it is told, or will be
    internal::FromDriver f;
    *f.mutable_answer_state() = before->second.state;
    before->second.seq = keep(std::move(f), now);
    return;
  }
  if (!agent_ || agent_->end)
    return refuse("The agent does not run any more, and nobody waits for an answer");
  // The fabric keeps the pattern, where a person can take it back; the agent would keep a rule that nobody sees. Only a node that has no patterns
  // leaves it to the agent, as far as that can.
  auto once = a;
  state.set_option(a.option());
  const bool is_pattern = a.option() == "always" && a.edited_input().empty() && (rules_.are_known() || agent_->with_pattern.contains(a.request_id()));
  if (is_pattern)
    once.set_option("allow");
  auto stopped = why_not_allowed(a);
  if (!stopped.empty()) {
    state.set_option("deny");
    state.set_text(bounded(stopped));
    once.set_option("deny");
    once.set_text(std::move(stopped));
    once.clear_edited_input();
  }
  const bool is_changed = once.option() == "deny" || (is_pattern && rules_.are_known());
  auto line = agent_->stream.answer(is_changed ? once : a);
  if (!line && is_pattern)
    line = agent_->stream.answer(once);
  if (!line) {
    refuse(line.failure().why);
    return take(agent_->stream.ask_again(a, line.failure().why), now);
  }
  agent_->with_pattern.erase(a.request_id());
  if (answered_order_.size() == limits::driver_answers_remembered_max) {
    answered_.erase(answered_order_.front());
    answered_order_.pop_front();
  }
  answered_order_.push_back(a.request_id());
  answered_[a.request_id()] = {what, state, 0};
  state.set_delivered(true);
  give_marked(std::move(*line), {.begin = 0, .end = 0, .answer = std::move(state)});
}

void core::hook_answer(const internal::HookAnswer& a) {
  if (!agent_)
    return;
  agent_->hooks.erase(a.question_id());
  if (auto line = agent_->stream.answer_hook(a))
    give(std::move(*line));
}

// ---- model and mode ----

void core::option_refused(const internal::SetOption& wish, std::string_view why, moment now) {
  internal::FromDriver f;
  f.mutable_option_state()->set_id(wish.id());
  f.mutable_option_state()->set_text(std::string{why});
  keep(std::move(f), now);
}

void core::set(const internal::SetOption& wish, moment now) {
  const auto is_same = [&](const auto& w) { return w.id() == wish.id(); };
  if (!is_id(wish.id()) || wishes_.contains(wish.id()) || std::any_of(held_options_.begin(), held_options_.end(), is_same))
    return;
  if (wish.model().size() > limits::agent_name_bytes_max || wish.mode().size() > limits::agent_name_bytes_max ||
      (wish.model() + wish.mode()).find('\0') != std::string::npos)
    return option_refused(wish, "The name of a model or mode has at most 256 bytes, and none of them is zero", now);
  if (stopping_)
    return option_refused(wish, "The driver ends", now);
  if (held_options_.size() == limits::driver_options_held_max)
    return option_refused(wish, "Too many options wait for the agent", now);
  held_options_.push_back(wish);
  if (takes_prompts())
    give_held(now);
}

} // namespace swarm::driver
