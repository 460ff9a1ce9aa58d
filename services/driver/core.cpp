#include "services/driver/core.hpp"

#include <algorithm>
#include <limits>

#include "actors/agents/held_paths.hpp"
#include "actors/base/text.hpp"

namespace swarm::driver {

namespace {

constexpr std::uint32_t protocol = 1;

} // namespace

// ---- swarmd ----

void core::from_swarmd(std::string_view bytes, moment now) {
  reader_.push(bytes);
  using status = agents::driver_frame_reader::status;
  std::string message;
  for (auto s = status::frame; !is_broken_ && (s = reader_.next(message)) != status::incomplete;) {
    if (s == status::malformed) {
      is_broken_ = true;
      notice("unreadable", "What the node says is no protocol; the driver ends", now);
      stop(limits::kill_grace(), 1, now);
      return;
    }
    internal::ToDriver frame;
    if (frame.ParseFromString(message))
      heard(frame, now);
  }
}

void core::heard(const internal::ToDriver& frame, moment now) {
  if (frame.has_hello())
    hello(frame.hello(), now);
  if (!out_.is_connected())
    return;
  if (frame.has_stored())
    stored(frame.stored().seq(), now);
  else if (frame.has_stop())
    stop(frame.stop(), now);
  else if (frame.has_locks() && frame.locks().ByteSizeLong() <= limits::driver_locks_bytes_max)
    locks_ = frame.locks();
  else if (frame.has_permissions())
    rules_.set(frame.permissions(), now);
  else if (frame.has_hook_answer())
    hook_answer(frame.hook_answer());
  else if (frame.has_interrupt())
    interrupt(frame.interrupt(), now);
  else if (frame.has_prompt() || frame.has_answer() || frame.has_set())
    wished(frame, now);
}

/// Prompts, answers and options produce frames, so they wait while too many frames are unstored.
void core::wished(const internal::ToDriver& frame, moment now) {
  if (out_.waiting() > limits::driver_waiting_frames_max || !later_.empty()) {
    later_bytes_ += frame.ByteSizeLong();
    later_.push_back(frame);
    if (later_bytes_ <= limits::driver_waiting_bytes_max)
      return;
    is_broken_ = true; // it stores nothing and asks for ever
    notice("unreadable", "The node asks for more than the driver has room for and stores nothing; the driver ends", now);
    stop(limits::kill_grace(), 1, now);
  } else if (frame.has_prompt()) {
    prompt(frame.prompt(), now);
  } else if (frame.has_answer()) {
    answer(frame.answer(), now);
  } else {
    set(frame.set(), now);
  }
}

void core::stored(std::uint64_t seq, moment now) {
  out_.stored(seq);
  if (later_.empty() || out_.waiting() > limits::driver_waiting_frames_max)
    return;
  later_bytes_ = 0;
  for (const auto& frame : std::exchange(later_, {}))
    wished(frame, now);
}

void core::hello(const internal::DriverHello& h, moment now) {
  if (h.nonce().size() != agents::driver_nonce_bytes)
    return;
  if (settings_.generation == 0)
    settings_.generation = h.generation();
  prompts_.drop_unfinished(); // its other parts went to whoever was here before
  later_.clear();             // and who comes says it again
  later_bytes_ = 0;
  internal::Ready ready;
  ready.set_protocol(std::clamp(h.protocol(), 1U, protocol));
  ready.set_driver_version(settings_.version);
  if (agent_) {
    ready.set_agent_runs(!agent_->end);
    ready.set_open_turn(agent_->stream.open_turn());
    ready.set_background(agent_->stream.background());
    for (auto& id : agent_->stream.open_requests())
      ready.add_open_requests(std::move(id));
    if (auto item = agent_->stream.open_item())
      *ready.mutable_open_item() = std::move(*item);
  }
  out_.connect(h.nonce(), std::move(ready), h.last_seq(), now);
  if (!agent_)
    return;
  for (const auto& [id, hook] : agent_->hooks) {
    internal::FromDriver again;
    *again.mutable_hook_question() = hook.question;
    out_.pass(std::move(again), now);
  }
}

void core::swarmd_took(std::size_t bytes, moment now) {
  out_.written(bytes);
  finish_when_over(now);
}

void core::notice(std::string_view kind, std::string_view text, moment now) {
  internal::FromDriver f;
  f.mutable_notice()->set_kind(std::string{kind});
  f.mutable_notice()->set_text(std::string{text});
  keep(std::move(f), now);
}

// ---- the end ----

void core::stop(const internal::StopDriver& s, moment now) {
  const auto grace = std::min<std::chrono::milliseconds>(std::chrono::milliseconds{s.grace_ms()}, limits::driver_stop_grace_max);
  if (!s.agent_only())
    return stop(grace, 0, now);
  if (!agent_ || agent_->end)
    return;
  agent_->on_request = true;
  end_agent(grace, now);
}

void core::stop(std::chrono::milliseconds grace, int status, moment now) {
  stopping_ = std::max(stopping_.value_or(0), status);
  refuse_held("The driver ends", now);
  for (const auto& wish : std::exchange(held_options_, {}))
    option_refused(wish, "The driver ends", now);
  if (agent_) {
    agent_->on_request = true;
    end_agent(grace, now);
  }
  finish_when_over(now);
}

/// Its input ends now; after the grace its group does.
void core::end_agent(std::chrono::milliseconds grace, moment now) {
  const auto at = now.boot_ms + grace.count();
  if (!agent_->terminate_at)
    actions_.push_back({action::kind::close_input});
  agent_->terminate_at = std::min(agent_->terminate_at.value_or(at), at);
  if (!agent_->kill_at || *agent_->kill_at > *agent_->terminate_at + limits::driver_kill_after.count())
    agent_->kill_at = *agent_->terminate_at + limits::driver_kill_after.count();
}

void core::finish_when_over(moment now) {
  if (!stopping_ || agent_ || exited_)
    return;
  out_.release();
  if (!linger_until_)
    linger_until_ = now.boot_ms + limits::driver_linger.count();
  if (!out_.is_connected() || out_.pending().empty() || now.boot_ms >= *linger_until_) {
    exited_ = true;
    actions_.push_back({action::kind::exit, {}, *stopping_});
  }
}

// ---- time ----

void core::tick(moment now) {
  if (auto due = out_.joined_until(); due && *due <= now.boot_ms)
    out_.send_joined(now);
  if (agent_ && !agent_->end) {
    unanswered_hooks(now);
    auto& a = *agent_;
    if (!a.introduced && a.unusable.empty() && now.boot_ms >= a.introduced_by) {
      a.unusable = concat({"The agent cannot be driven: it has not introduced itself within ", limits::driver_introduction.count() / 1000, " s"});
      notice("unusable", a.unusable, now);
      give_held(now);
    }
    tell_silence(now);
    if (a.kill_at && now.boot_ms >= *a.kill_at) {
      actions_.push_back({action::kind::kill});
      a.kill_at = now.boot_ms + limits::driver_kill_after.count();
    } else if (a.terminate_at && now.boot_ms >= *a.terminate_at) {
      actions_.push_back({action::kind::terminate});
      a.terminate_at = std::numeric_limits<std::int64_t>::max();
    }
  }
  // Its output may be more than anybody will store.
  if (stopping_ && agent_ && agent_->end && now.boot_ms >= agent_->ended_at + limits::driver_linger.count())
    agent_output_ended(now);
  finish_when_over(now);
}

/// A tool runs, a person is asked, it has nothing to do, or nobody reads it.
bool core::may_be_silent() const {
  const auto& a = *agent_;
  return !a.calls.empty() || !a.hooks.empty() || !is_busy() || !a.stream.open_requests().empty() || is_held_back();
}

void core::tell_silence(moment now) {
  auto& a = *agent_;
  const auto most = limits::conversation_silence().count();
  if (may_be_silent()) {
    a.heard_at = now.boot_ms;
  } else if (!a.silence_told && now.boot_ms >= a.heard_at + most) {
    a.silence_told = true;
    const bool works = !a.stream.open_turn().empty();
    notice(
      "silent",
      concat({works ? "The agent works on a turn and has said nothing for " : "The agent has a prompt and has not begun it for ", duration(most)}),
      now);
  }
}

std::optional<std::int64_t> core::next_deadline() const {
  std::int64_t next = std::numeric_limits<std::int64_t>::max();
  auto at = [&](std::optional<std::int64_t> t) { next = std::min(next, t.value_or(next)); };
  at(out_.joined_until());
  at(linger_until_);
  if (agent_ && !agent_->end) {
    const auto& a = *agent_;
    for (const auto& [id, hook] : a.hooks)
      at(hook.until);
    if (!a.introduced && a.unusable.empty())
      at(a.introduced_by);
    if (!may_be_silent() && !a.silence_told)
      at(a.heard_at + limits::conversation_silence().count());
    at(a.terminate_at);
    at(a.kill_at);
  }
  if (stopping_ && agent_ && agent_->end)
    at(agent_->ended_at + limits::driver_linger.count());
  return next == std::numeric_limits<std::int64_t>::max() || exited_ ? std::nullopt : std::optional{next};
}

} // namespace swarm::driver
