// What the driver tells, one frame after the other.
#include <algorithm>

#include "actors/base/crypto.hpp"
#include "actors/base/limits.hpp"
#include "actors/base/text.hpp"
#include "actors/fabric/conversations/dialogue.hpp"

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

v1::Approval::Kind kind_of(internal::Request::Kind k) {
  switch (k) {
    case internal::Request::COMMAND: return v1::Approval::COMMAND;
    case internal::Request::FILE: return v1::Approval::FILE;
    case internal::Request::QUESTION: return v1::Approval::QUESTION;
    default: return v1::Approval::TOOL;
  }
}

/// "allow", "deny", a choice; or how it ended without one.
std::string end_of(const v1::Approval& a) {
  if (!a.withdrawn().empty())
    return "withdrawn";
  if (a.decided_at_ms() == 0)
    return "asked";
  return a.decision().empty() ? "expired" : a.decision();
}

std::string head(std::string_view text, std::size_t bytes) { return std::string{utf8_prefix(text, bytes)}; }

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
    case driver::kHookQuestion:
      if (!f.hook_question().after())
        effects_.emplace_back(judge{f.hook_question()});
      return;
    case driver::kPromptState: return on_prompt_state(f);
    case driver::kAnswerState: return on_answer_state(f);
    case driver::kNotice: return note(f.at_ms(), f.seq(), f.notice().kind(), f.notice().text(), f.seq());
    case driver::kAgentExited: return on_agent_exited(f);
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

// -- requests ------------------------------------------------------------------------------------

const v1::Approval* dialogue::approval_of(const std::string& native_id) const {
  const v1::Approval* found = nullptr;
  for (const auto& [id, known] : approvals_)
    if (known.row.native_id() == native_id && (!found || known.row.created_at_ms() >= found->created_at_ms()))
      found = &known.row;
  return found;
}

/// Nothing of it is dealt with before its last part, so a driver that is asked again tells all of it.
void dialogue::on_request(const driver& f) {
  request_ += f.request().body();
  if (f.request().last())
    ask_person(f, std::exchange(request_, {}));
}

void dialogue::deny(const internal::Request& r, const std::string& body, const std::string& why) {
  internal::ToDriver out;
  auto& answer = *out.mutable_answer();
  answer.set_request_id(r.id());
  answer.set_generation(generation_);
  answer.set_option("deny");
  answer.set_text(head(why, 8 * limits::kib));
  answer.set_digest(sha256(body));
  say(out);
}

void dialogue::ask_person(const driver& f, std::string body) {
  const auto& r = f.request();
  const auto seq = f.seq();
  if (body.size() > limits::approval_action_bytes_max) {
    const std::string why = "The request is too large to be shown to a person. Ask for less at once.";
    deny(r, body, why);
    return note(f.at_ms(), seq, "too-large", concat({r.title(), ": ", why}), seq);
  }
  v1::Command command;
  auto& ask_now = *command.mutable_request_approval();
  ask_now.set_subject(concat({"conversation/", row_.id()}));
  ask_now.set_kind(kind_of(r.kind()));
  ask_now.set_title(r.title().empty() ? r.tool() : r.title());
  ask_now.set_body(body);
  ask_now.set_request_key(concat({"conversation/", row_.id(), "/", generation_, "/", to_hex(sha256(r.id())).substr(0, 32)}));
  if (r.kind() == internal::Request::QUESTION && r.choices_size() == 1)
    for (const auto& option : r.choices(0).options())
      ask_now.add_options(head(option, limits::approval_choice_bytes_max));
  if (r.kind() == internal::Request::QUESTION && r.choices_size() != 1)
    for (const auto* option : {"answer", "deny"})
      ask_now.add_options(option);
  auto& of = *ask_now.mutable_conversation();
  of.set_conversation_id(row_.id());
  of.set_generation(generation_);
  of.set_native_id(r.id());
  of.set_can_be_always(r.can_be_always());
  ask_for(std::move(command), [this, r, body, seq, at_ms = f.at_ms()](const v1::Reply& reply) {
    std::deque<op> later;
    std::swap(later, ops_);
    if (reply.has_refusal()) {
      deny(r, body, reply.refusal().text());
      note(at_ms, seq, "not-asked", concat({r.title(), ": ", reply.refusal().text()}), seq);
    } else {
      take_approval(reply.approval(), reply.revision());
      auto open = reply.approval();
      open.clear_decided_at_ms();
      open.clear_withdrawn();
      write_request(open, at_ms, seq, 0);
      ops_.emplace_back(sync_op{});
      done(seq);
    }
    std::move(later.begin(), later.end(), std::back_inserter(ops_));
  });
}

/// Asked, with the body; else how it ended.
void dialogue::write_request(const v1::Approval& a, std::int64_t at_ms, std::uint64_t seq, std::uint64_t done_seq) {
  v1::ConversationItem item;
  item.set_kind(a.kind() == v1::Approval::QUESTION ? v1::CONVERSATION_QUESTION : v1::CONVERSATION_PERMISSION);
  item.set_id(a.native_id());
  item.set_title(a.title());
  item.set_approval_id(a.id());
  item.set_state(end_of(a));
  if (item.state() == "asked") {
    item.set_body(a.body());
    item.set_media_type("application/json");
  }
  item.set_last(true);
  if (seq == 0)
    return write_own(std::move(item));
  write(std::move(item), at_ms, seq, done_seq);
}

void dialogue::on_withdrawn(const driver& f) {
  const auto* a = approval_of(f.withdrawn().request_id());
  if (!a || a->delivery() == v1::Approval::DELIVERED)
    return done(f.seq());
  auto over = *a;
  over.set_withdrawn(f.withdrawn().reason().empty() ? "the agent stopped waiting" : f.withdrawn().reason());
  write_request(over, f.at_ms(), f.seq(), 0);
  ops_.emplace_back(sync_op{});
  v1::Command command;
  command.mutable_withdraw_approval()->set_approval_id(a->id());
  command.mutable_withdraw_approval()->set_reason(head(over.withdrawn(), 1 * limits::kib));
  ask_for(std::move(command));
  done(f.seq());
}

void dialogue::on_answer_state(const driver& f) {
  const auto& s = f.answer_state();
  const auto* a = approval_of(s.request_id());
  if (!a || a->delivery() != v1::Approval::PENDING || (!s.digest().empty() && s.digest() != a->action_digest()))
    return done(f.seq());
  if (s.delivered())
    write_request(*a, f.at_ms(), f.seq(), 0);
  else
    note(f.at_ms(), f.seq(), "not-delivered", concat({a->title(), ": ", s.text()}), 0);
  ops_.emplace_back(sync_op{});
  v1::Command command;
  auto& d = *command.mutable_report_delivery();
  d.set_approval_id(a->id());
  d.set_generation(generation_);
  d.set_delivery(s.delivered() ? v1::Approval::DELIVERED : v1::Approval::REFUSED);
  d.set_reason(s.text());
  ask_for(std::move(command), [this](const v1::Reply& r) {
    if (r.has_approval())
      take_approval(r.approval(), r.revision());
  });
  done(f.seq());
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
    // What the session has cost so far: a lower one is that of another session.
    const auto before = u.session_cost_usd() < session_cost_ ? 0 : session_cost_;
    item.mutable_usage()->set_cost_known(true);
    item.mutable_usage()->set_cost_usd(u.session_cost_usd() - before);
    session_cost_ = u.session_cost_usd();
  }
  write(std::move(item), f.at_ms(), f.seq(), 0);
  ops_.emplace_back(sync_op{});

  v1::Command command;
  auto& outcome = *report(command, f.seq()).mutable_turn_ended();
  outcome.set_turn(t.id());
  outcome.set_finished(t.reason() == ended::FINISHED);
  outcome.set_interrupted(t.reason() == ended::INTERRUPTED);
  outcome.set_failure(outcome.finished() || outcome.interrupted() ? std::string{} : head(t.text(), 8 * limits::kib));
  *outcome.mutable_usage() = usage;
  outcome.set_session_cost_usd(u.session_cost_usd());
  outcome.set_cost_known(u.cost_known());
  outcome.set_last_text(std::string{utf8_prefix(t.last_text(), limits::conversation_last_text_bytes_max)});
  ask_for(std::move(command));
  done(f.seq());
}

void dialogue::on_prompt_state(const driver& f) {
  const auto& s = f.prompt_state();
  const auto state = state_of(s.state());
  if (state == v1::Prompt::STATE_UNSPECIFIED)
    return done(f.seq());
  // It is part of a turn that has begun or is about to.
  if (state == v1::Prompt::CONSUMED && !s.turn().empty() && s.turn() != ended_turn_)
    open_turn_ = s.turn();
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
      return;
    }
    known->second.row.set_state(state);
    known->second.revision = r.revision();
  });
  done(f.seq());
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
  r.set_reason(head(why, 8 * limits::kib));
  ask_for(std::move(command));
  done(f.seq());
}

} // namespace swarm
