// What the driver tells, one frame after the other.
#include <algorithm>
#include <csignal>

#include "actors/base/crypto.hpp"
#include "actors/base/limits.hpp"
#include "actors/base/text.hpp"
#include "actors/fabric/conversations/dialogue.hpp"
#include "actors/fabric/conversations/dialogue_internal.hpp"

namespace swarm {

namespace {

using driver = internal::FromDriver;

v1::Prompt::State state_of(internal::PromptState::State s) {
  switch (s) {
    case internal::PromptState::SUBMITTED: return v1::Prompt::SUBMITTED;
    case internal::PromptState::CONSUMED: return v1::Prompt::CONSUMED;
    case internal::PromptState::REFUSED: return v1::Prompt::UNDELIVERABLE;
    case internal::PromptState::UNKNOWN: return v1::Prompt::UNKNOWN;
    default: return v1::Prompt::STATE_UNSPECIFIED;
  }
}

/// As long as this node takes it.
std::string note_of(std::string_view text) { return std::string{utf8_prefix(text, limits::note_bytes_max())}; }

/// Not more of it, cut between characters.
std::string end_of(const std::string& text, std::size_t bytes) {
  auto from = text.size() - std::min(text.size(), bytes);
  while (from != 0 && from < text.size() && (static_cast<unsigned char>(text[from]) & 0xc0) == 0x80)
    ++from;
  return text.substr(from);
}

} // namespace

void dialogue::done(std::uint64_t seq) {
  if (seq != 0)
    ops_.emplace_back(done_op{seq});
}

void dialogue::write(v1::ConversationItem item, std::int64_t at_ms, std::uint64_t seq, std::uint64_t done_seq) {
  item.set_at_ms(at_ms);
  item.set_generation(generation_);
  if (seq != 0 && seq <= tail_.seq)
    return done(done_seq);
  frame_op o;
  o.done = done_seq;
  o.frame.generation = generation_;
  o.frame.driver_seq = seq;
  o.frame.at_ms = at_ms;
  o.frame.kind = static_cast<std::uint32_t>(item.kind());
  o.frame.body = item.SerializeAsString();
  ops_.emplace_back(std::move(o));
}

void dialogue::write_own(v1::ConversationItem item) {
  if (!tail_.own.contains(key_of(item)))
    write(std::move(item), now_ms_, 0, 0);
}

void dialogue::note(std::int64_t at_ms, std::uint64_t seq, const std::string& kind, const std::string& text, std::uint64_t done_seq) {
  v1::ConversationItem item;
  item.set_kind(v1::CONVERSATION_NOTICE);
  item.set_id(concat({"notice-", seq}));
  item.set_title(kind);
  item.set_body(text);
  item.set_last(true);
  write(std::move(item), at_ms, seq, done_seq);
}

void dialogue::handle(const driver& f) {
  switch (f.body_case()) {
    case driver::kReady:
      if (f.ready().has_open_item())
        ops_.emplace_back(shown_op{f.ready().open_item()});
      if (f.ready().background() != 0) // a driver of an earlier version says nothing
        on_background(f.ready().background(), 0);
      return;
    case driver::kAgentStarted: {
      const auto& a = f.agent_started();
      v1::Command command;
      auto& agent = *report(command, f.seq()).mutable_agent();
      agent.set_native_session(a.native_session());
      agent.set_version(a.version());
      agent.set_model(a.model());
      agent.set_mode(a.mode());
      ask_for(std::move(command));
      return done(f.seq());
    }
    case driver::kItem: return on_item(f);
    case driver::kDelta: ops_.emplace_back(shown_op{f.delta()}); return;
    case driver::kRequest: return on_request(f);
    case driver::kWithdrawn: return on_withdrawn(f);
    case driver::kTurnStarted: return on_turn_started(f);
    case driver::kTurnEnded: return on_turn_ended(f);
    case driver::kHookQuestion: return on_hook_question(f.hook_question());
    case driver::kPromptState: return on_prompt_state(f);
    case driver::kAnswerState: return on_answer_state(f);
    case driver::kOptionState: return on_option_state(f);
    case driver::kRuled: return on_ruled(f);
    case driver::kNotice: return note(f.at_ms(), f.seq(), f.notice().kind(), f.notice().text(), f.seq());
    case driver::kBackground: on_background(f.background().running(), f.seq()); return done(f.seq());
    case driver::kAgentExited:
      denials_.clear(); // nobody waits for them
      background_ = 0;
      return on_agent_exited(f);
    default: return done(f.seq()); // of a later version, or nothing to keep
  }
}

void dialogue::on_item(const driver& f) {
  const auto& part = f.item();
  v1::ConversationItem item;
  item.set_kind(static_cast<v1::ConversationItemKind>(part.kind())); // the first six are the same
  item.set_id(part.id());
  item.set_of(part.of());
  item.set_nested(part.nested());
  item.set_title(part.title());
  item.set_media_type(part.media_type());
  item.set_failed(part.failed());
  item.set_aborted(part.aborted());
  item.set_last(part.last());
  part_.reset();
  if (!part.last())
    part_ = item;
  item.set_body(part.body());
  write(std::move(item), f.at_ms(), f.seq(), f.seq());
}

/// In parts, of which the log may have some: the driver's number goes with the last one.
void dialogue::write_prompt(const std::string& id, const driver& f) {
  const auto known = prompts_.find(id);
  if (known == prompts_.end() || !said_.insert(id).second)
    return;
  const auto& p = known->second.row;
  v1::ConversationItem item;
  item.set_kind(v1::CONVERSATION_USER);
  item.set_id(id);
  item.add_prompts(id);
  *item.mutable_attachments() = p.attachments();
  std::string_view rest = p.text();
  if (part_ && part_->kind() == v1::CONVERSATION_USER && part_->id() == id)
    rest.remove_prefix(std::min<std::size_t>(tail_.part_bytes, rest.size()));
  part_.reset();
  do {
    auto piece = utf8_prefix(rest, limits::driver_part_bytes_max);
    if (piece.empty())
      piece = rest.substr(0, limits::driver_part_bytes_max);
    rest.remove_prefix(piece.size());
    item.set_body(std::string{piece});
    item.set_last(rest.empty());
    write(item, f.at_ms(), rest.empty() ? f.seq() : 0, 0);
  } while (!rest.empty());
}

// -- turns and prompts -----------------------------------------------------------------------------

void dialogue::on_turn_started(const driver& f) {
  const auto& t = f.turn_started();
  open_turn_ = t.id();
  v1::ConversationItem item;
  item.set_kind(v1::CONVERSATION_TURN);
  item.set_id(t.id());
  item.set_state("started");
  *item.mutable_prompts() = t.prompts();
  item.set_last(true);
  write(std::move(item), f.at_ms(), f.seq(), 0);
  v1::Command command;
  report(command, f.seq()).set_turn_started(t.id());
  ask_for(std::move(command));
  done(f.seq());
}

void dialogue::on_turn_ended(const driver& f) {
  const auto& t = f.turn_ended();
  const auto& u = t.usage();
  using ended = internal::TurnEnded;
  open_turn_.clear();
  ended_turn_ = t.id();
  v1::Usage usage;
  usage.set_turns(1);
  usage.set_input_tokens(u.input_tokens());
  usage.set_output_tokens(u.output_tokens());
  usage.set_cache_read_tokens(u.cache_read_tokens());
  usage.set_cache_write_tokens(u.cache_write_tokens());

  v1::ConversationItem item;
  item.set_kind(v1::CONVERSATION_TURN);
  item.set_id(t.id());
  item.set_state(t.reason() == ended::FINISHED ? "ended" : t.reason() == ended::INTERRUPTED ? "interrupted" : "failed");
  item.set_body(head(t.text(), 8 * limits::kib));
  item.set_last(true);
  *item.mutable_usage() = usage;
  if (u.cost_known()) {
    // As the row counts it.
    item.mutable_usage()->set_cost_known(true);
    item.mutable_usage()->set_cost_usd(std::max(u.session_cost_usd() - row_.session_cost_usd(), 0.0));
  }
  write(std::move(item), f.at_ms(), f.seq(), 0);
  ops_.emplace_back(sync_op{});

  v1::Command command;
  auto& outcome = *report(command, f.seq()).mutable_turn_ended();
  outcome.set_turn(t.id());
  outcome.set_finished(t.reason() == ended::FINISHED);
  outcome.set_interrupted(t.reason() == ended::INTERRUPTED);
  outcome.set_failure(outcome.finished() || outcome.interrupted() ? std::string{} : note_of(t.text()));
  *outcome.mutable_usage() = usage;
  outcome.set_session_cost_usd(u.session_cost_usd());
  outcome.set_cost_known(u.cost_known());
  outcome.set_last_text(end_of(t.last_text(), std::min(limits::conversation_last_text_bytes_max, limits::note_bytes_max())));
  ask_for(std::move(command));
  done(f.seq());
}

/// The log has the end of the last turn, and the row has not: the node died in between, and its driver has not told it again.
void dialogue::tell_ended_turn() {
  if (!tail_.ended_turn || tail_.ended_turn_seq <= row_.driver_seq())
    return;
  const auto& t = *tail_.ended_turn;
  v1::Command command;
  auto& outcome = *report(command, tail_.ended_turn_seq).mutable_turn_ended();
  outcome.set_turn(t.id());
  outcome.set_finished(t.state() == "ended");
  outcome.set_interrupted(t.state() == "interrupted");
  outcome.set_failure(outcome.finished() || outcome.interrupted() ? std::string{} : note_of(t.body()));
  *outcome.mutable_usage() = t.usage();
  outcome.mutable_usage()->clear_cost_usd();
  outcome.mutable_usage()->clear_cost_known();
  // The log has what the turn has cost, and the row counts by what its session has.
  outcome.set_session_cost_usd(row_.session_cost_usd() + t.usage().cost_usd());
  outcome.set_cost_known(t.usage().cost_known());
  outcome.set_last_text(end_of(tail_.last_text, std::min(limits::conversation_last_text_bytes_max, limits::note_bytes_max())));
  ask_for(std::move(command));
}

v1::ConversationItem dialogue::lost_prompt(const std::string& id, v1::Prompt::State state, const std::string& why) const {
  constexpr std::size_t words_max = 1 * limits::kib;
  const auto known = prompts_.find(id);
  v1::ConversationItem item;
  item.set_kind(v1::CONVERSATION_NOTICE);
  item.set_id(concat({"prompt-", id}));
  item.set_title(state == v1::Prompt::UNKNOWN ? "outcome-unknown" : "undelivered");
  item.add_prompts(id);
  item.set_body(concat(
    {why, known == prompts_.end() || known->second.row.text().empty() ? std::string{} : concat({": ", head(known->second.row.text(), words_max)})}));
  item.set_last(true);
  return item;
}

void dialogue::on_prompt_state(const driver& f) {
  const auto& s = f.prompt_state();
  const auto state = state_of(s.state());
  if (state == v1::Prompt::STATE_UNSPECIFIED)
    return done(f.seq());
  // It is part of a turn that has begun or is about to.
  if (state == v1::Prompt::CONSUMED && !s.turn().empty() && s.turn() != ended_turn_)
    open_turn_ = s.turn();
  if (state == v1::Prompt::SUBMITTED || state == v1::Prompt::CONSUMED) {
    write_prompt(s.id(), f);
    if (state == v1::Prompt::CONSUMED)
      ops_.emplace_back(sync_op{}); // the row has its text no more
  } else if (prompts_.contains(s.id())) {
    write(lost_prompt(s.id(), state, s.text()), f.at_ms(), f.seq(), 0);
    tail_.lost.insert(s.id());
    ops_.emplace_back(sync_op{});
  }
  v1::Command command;
  auto& p = *report(command, f.seq()).add_prompts();
  p.set_prompt_id(s.id());
  p.set_state(state);
  p.set_turn(s.turn());
  p.set_reason(s.text());
  ask_for(std::move(command), [this, id = s.id(), state](const v1::Reply& r) {
    auto known = prompts_.find(id);
    if (known == prompts_.end() || r.has_refusal())
      return;
    if (state != v1::Prompt::SUBMITTED) {
      prompts_.erase(known);
      said_.erase(id);
      return;
    }
    known->second.row.set_state(state);
    known->second.revision = r.revision();
  });
  done(f.seq());
}

void dialogue::on_option_state(const driver& f) {
  const auto& s = f.option_state();
  if (s.id() != wish_id(row_.wishes()) || row_.wishes() <= row_.wishes_told())
    return done(f.seq()); // of a wish that another one has replaced
  if (!s.text().empty())
    note(f.at_ms(), f.seq(), "not-set", s.text(), 0);
  v1::Command command;
  auto& r = report(command, f.seq());
  r.set_wishes_told(row_.wishes());
  if (!s.model().empty() || !s.mode().empty()) {
    r.mutable_agent()->set_model(s.model());
    r.mutable_agent()->set_mode(s.mode());
  }
  ask_for(std::move(command));
  done(f.seq());
}

void dialogue::on_background(std::uint32_t running, std::uint64_t seq) {
  if (std::exchange(background_, running) == running)
    return;
  v1::Command command;
  report(command, seq).set_background(running);
  ask_for(std::move(command));
}

/// The driver stays for a while: the next prompt starts another agent.
void dialogue::on_agent_exited(const driver& f) {
  const auto& e = f.agent_exited();
  auto why = e.on_request()    ? std::string{}
             : e.signal() != 0 ? concat({"the agent was ended by signal ", e.signal()})
                               : concat({"the agent exited with status ", e.exit_status()});
  if (!e.on_request() && !e.text().empty())
    why += ": " + e.text();
  if (!why.empty())
    note(f.at_ms(), f.seq(), "exited", why, 0);
  v1::Command command;
  auto& r = report(command, f.seq());
  r.set_agent_exited(true);
  r.set_agent_killed(e.signal() != 0 && e.signal() != SIGTERM);
  r.set_reason(note_of(why));
  ask_for(std::move(command));
  done(f.seq());
}

} // namespace swarm
