#include "actors/agents/claude_stream.hpp"

#include <algorithm>

#include "actors/base/crypto.hpp"
#include "actors/base/json_text.hpp"
#include "actors/base/text.hpp"

namespace swarm::agents {

namespace {

constexpr std::size_t shown_bytes_max = 200; // of a line that cannot be read

std::string bounded(std::string text, std::size_t bytes) {
  text.resize(utf8_prefix(text, bytes).size());
  return text;
}

/// The text of a failure: what the program lists, else its answer, else why it ended.
std::string failure_text(const json_view::members& frame) {
  std::string out;
  for (const auto& e : frame["errors"].elements(limits::agent_models_max))
    out += (out.empty() ? "" : "\n") + e.text();
  if (out.empty())
    out = frame["result"].text();
  if (out.empty())
    out = frame["terminal_reason"].text();
  return bounded(out.empty() ? frame["subtype"].text() : std::move(out), limits::agent_reason_bytes_max);
}

/// Nothing else is given back to the program among its arguments.
bool is_session_name(std::string_view name) {
  constexpr std::string_view plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
  return !name.empty() && name.size() <= limits::id_bytes_max && name.front() != '-' && name.find_first_not_of(plain) == name.npos;
}

std::uint64_t context_window_of(const json_view& models, std::string_view model) {
  std::uint64_t most = 0;
  const json_view::members all{models, limits::agent_models_max};
  for (const auto& [name, usage] : all.all()) {
    auto window = usage["contextWindow"].count();
    if (name.is(model))
      return window;
    most = std::max(most, window);
  }
  return most;
}

} // namespace

std::string claude_id(std::string_view native) { return native.size() <= limits::id_bytes_max ? std::string{native} : to_hex(sha256(native)); }

claude_output claude_stream::read(std::string_view bytes) {
  while (!bytes.empty() && !ended_) {
    auto end = bytes.find('\n');
    auto piece = bytes.substr(0, end);
    bytes.remove_prefix(end == bytes.npos ? bytes.size() : end + 1);
    if (!skips_line_ && piece.size() > line_max_ - line_.size()) {
      notice("unreadable", concat({"A line of more than ", line_max_, " bytes was skipped"}));
      skips_line_ = true;
      line_ = {};
    }
    if (!skips_line_)
      line_ += piece;
    if (end == bytes.npos)
      break;
    if (!std::exchange(skips_line_, false)) {
      auto line = std::exchange(line_, {});
      take(line);
    }
  }
  return std::exchange(out_, {});
}

claude_output claude_stream::end() {
  if (std::exchange(ended_, true))
    return {};
  auto last = std::exchange(line_, {});
  take(last);
  closed_ = "The agent has exited";
  put_cut_off();
  for (const auto& id : open_requests())
    withdraw(id, "the agent has exited");
  hooks_.clear();
  if (std::exchange(has_item_of_no_turn_, false))
    ++turns_; // its number is in an id
  give_up_options(closed_);
  background_ = 0; // that the agent has exited says so
  if (turn_)
    end_turn(internal::TurnEnded::EXITED, "The agent's process ended in the middle of the turn", {}, 0);
  return std::exchange(out_, {});
}

void claude_stream::take(std::string_view line) {
  if (trimmed(line).empty())
    return;
  auto frame = json_view::of(line);
  std::string mended;
  if (!frame.exists()) {
    mended = with_whole_characters(line);
    frame = json_view::of(mended);
  }
  if (frame.is_object())
    take_frame(members{frame});
  else
    unreadable(line);
}

void claude_stream::take_frame(const members& frame) {
  const auto type = frame["type"];
  if (type.is("stream_event"))
    stream_event(frame);
  else if (type.is("assistant"))
    assistant(frame);
  else if (type.is("user"))
    user(frame);
  else if (type.is("system"))
    system(frame);
  else if (type.is("command_lifecycle"))
    lifecycle(frame);
  else if (type.is("result"))
    result_of_turn(frame);
  else if (type.is("control_request"))
    control_request(frame);
  else if (type.is("control_cancel_request"))
    control_cancelled(frame["request_id"].text());
  else if (type.is("control_response"))
    control_response(frame["response"]);
}

void claude_stream::unreadable(std::string_view line) {
  notice("unreadable", concat({"The agent wrote a line that is no JSON: ", escape_control(line.substr(0, shown_bytes_max), false)}));
}

void claude_stream::notice(std::string_view kind, std::string_view text) {
  if (notices_ == limits::agent_notices_max)
    return;
  auto& n = *say().mutable_notice();
  n.set_kind(std::string{kind});
  n.set_text(++notices_ == limits::agent_notices_max ? "The agent's output has further lines that cannot be read; they are not reported any more"
                                                     : std::string{text});
}

// ---- the session ----

void claude_stream::system(const members& frame) {
  const auto what = frame["subtype"];
  if (what.is("init")) {
    began_session(frame);
    if (!turn_)
      begin_turn(nullptr);
  } else if (what.is("status") && frame["permissionMode"].is_text()) {
    about_.set_mode(bounded(frame["permissionMode"].text(), limits::agent_name_bytes_max));
    announce();
  } else if (what.is("api_retry") && turn_ && !std::exchange(turn_->is_retried, true)) {
    auto& n = *say().mutable_notice();
    n.set_kind("retry");
    n.set_text(
      concat({"The agent's service has not answered (", frame["error_status"].count(), " ",
              bounded(frame["error"].text(), limits::agent_name_bytes_max), "); it is asked up to ", frame["max_retries"].count(), " times again"}));
  } else if (what.is("background_tasks_changed")) {
    background_ = static_cast<std::uint32_t>(frame["tasks"].elements(limits::agent_tasks_max).size());
    say().mutable_background()->set_running(background_);
  }
}

/// The program says this at the begin of each turn.
void claude_stream::began_session(const members& frame) {
  auto set = [&](const char* name, auto setter) {
    if (auto value = frame[name].text(); !value.empty())
      setter(bounded(std::move(value), limits::agent_name_bytes_max));
  };
  if (auto name = frame["session_id"].text(); is_session_name(name))
    about_.set_native_session(std::move(name));
  set("model", [&](auto v) { about_.set_model(std::move(v)); });
  set("permissionMode", [&](auto v) { about_.set_mode(std::move(v)); });
  set("claude_code_version", [&](auto v) { about_.set_version(std::move(v)); });
  directory_ = bounded(frame["cwd"].text(), path_bytes_max);
  announce();
}

void claude_stream::announce() {
  if (!closed_.empty())
    return;
  auto now = about_.SerializeAsString();
  if (now == announced_)
    return;
  announced_ = std::move(now);
  *say().mutable_agent_started() = about_;
}

// ---- prompts and turns ----

claude_line claude_stream::prompt(const std::string& id, std::span<const claude_lines::prompt_part> parts) {
  if (!closed_.empty())
    return claude_refusal{closed_};
  if (waiting_.size() >= limits::agent_wishes_waiting_max)
    return claude_refusal{"The agent has too many prompts that it has not begun"};
  if (std::find(waiting_.begin(), waiting_.end(), id) != waiting_.end())
    return claude_refusal{"The agent has this prompt already"};
  for (const auto& part : parts)
    if (auto why = claude_lines::why_not_taken(part); !why.empty())
      return claude_refusal{std::move(why)};
  waiting_.push_back(id);
  return claude_lines::prompt(id, parts);
}

void claude_stream::lifecycle(const members& frame) {
  const auto prompt = frame["command_uuid"].text();
  const auto state = frame["state"];
  if (state.is("started")) {
    if (forget_waiting(prompt))
      consumed(prompt);
    else if (!turn_)
      begin_turn(nullptr);
  } else if (state.is("completed") && forget_waiting(prompt)) {
    dropped(prompt, internal::PromptState::UNKNOWN, "The agent says that it has had this prompt before");
  } else if (state.is("cancelled") && forget_waiting(prompt)) {
    dropped(prompt, internal::PromptState::REFUSED, "The agent dropped the prompt before it began");
  }
}

bool claude_stream::forget_waiting(const std::string& prompt) {
  auto i = std::find(waiting_.begin(), waiting_.end(), prompt);
  if (i == waiting_.end())
    return false;
  waiting_.erase(i);
  return true;
}

void claude_stream::consumed(const std::string& prompt) {
  if (!turn_)
    begin_turn(&prompt);
  auto& state = *say().mutable_prompt_state();
  state.set_id(prompt);
  state.set_state(internal::PromptState::CONSUMED);
  state.set_turn(turn_->id);
}

void claude_stream::dropped(const std::string& prompt, internal::PromptState::State as, std::string_view why) {
  auto& state = *say().mutable_prompt_state();
  state.set_id(prompt);
  state.set_state(as);
  state.set_text(std::string{why});
}

void claude_stream::begin_turn(const std::string* prompt) {
  has_item_of_no_turn_ = false;
  turn_ = turn{.id = std::to_string(++turns_), .last_text = {}};
  auto& started = *say().mutable_turn_started();
  started.set_id(turn_->id);
  if (prompt != nullptr)
    started.add_prompts(*prompt);
}

void claude_stream::result_of_turn(const members& frame) {
  const bool failed = frame["is_error"].is_true();
  if (!turn_ && !closed_.empty()) { // it has no prompt: nothing is the turn's
    not_begun_ = failure_text(frame);
    return;
  }
  internal::TurnUsage usage;
  if (turn_) { // without one the session did not begin, and what it cost is not known
    const auto used = frame["usage"];
    usage.set_input_tokens(used["input_tokens"].count());
    usage.set_output_tokens(used["output_tokens"].count());
    usage.set_cache_read_tokens(used["cache_read_input_tokens"].count());
    usage.set_cache_write_tokens(used["cache_creation_input_tokens"].count());
    if (auto cost = frame["total_cost_usd"].number(); cost && *cost >= 0) {
      cost_.set_session_cost_usd(*cost);
      cost_.set_cost_known(true);
    }
    if (auto window = context_window_of(frame["modelUsage"], about_.model()); window > 0)
      cost_.set_context_window(window);
  } else {
    begin_turn(nullptr);
  }
  const bool interrupted = failed && frame["terminal_reason"].text().starts_with("aborted");
  const auto reason = interrupted ? internal::TurnEnded::INTERRUPTED : failed ? internal::TurnEnded::FAILED : internal::TurnEnded::FINISHED;
  end_turn(reason, reason == internal::TurnEnded::FAILED ? failure_text(frame) : std::string{}, std::move(usage),
           static_cast<std::int64_t>(frame["duration_ms"].count()));
}

void claude_stream::end_turn(internal::TurnEnded::Reason reason, std::string_view text, internal::TurnUsage usage, std::int64_t duration_ms) {
  put_cut_off();
  streamed_ = {};
  for (const auto& call : turn_->calls)
    withdraw_calls_of(call, "the turn has ended");
  if (background_ == 0) // nothing goes on that could wait for an answer
    for (const auto& id : open_requests()) {
      out_.to_agent += claude_lines::deny(requests_[id].native, "The turn has ended", false);
      withdraw(id, "the turn has ended");
    }
  usage.MergeFrom(cost_);
  auto& ended = *say().mutable_turn_ended();
  ended.set_id(turn_->id);
  ended.set_reason(reason);
  ended.set_text(std::string{text});
  *ended.mutable_usage() = std::move(usage);
  ended.set_last_text(std::move(turn_->last_text));
  ended.set_duration_ms(duration_ms);
  turn_.reset();
}

} // namespace swarm::agents
