// What a conversation's driver has told, and what becomes of the conversation when its driver ends.
#include <algorithm>
#include <cmath>

#include "actors/base/limits.hpp"
#include "actors/base/text.hpp"
#include "actors/domain/conversation/rules.hpp"
#include "actors/domain/oldest_prompt.hpp"
#include "actors/domain/task/spawn_rules.hpp"

namespace swarm::domain {

namespace {

using conversation = v1::Conversation; // for the names of its states
using prompt_row = v1::Prompt;

constexpr std::int64_t day_ms = 24 * 3'600'000;

bool waits(const std::vector<prompt_row>& prompts) {
  return std::any_of(prompts.begin(), prompts.end(), [](const auto& p) { return p.state() == prompt_row::QUEUED; });
}

bool agent_runs(const conversation& c) {
  return c.state() == conversation::IDLE || c.state() == conversation::RUNNING || c.state() == conversation::BLOCKED;
}

void add(v1::Usage& total, const v1::Usage& turn, double cost, bool cost_known) {
  total.set_turns(total.turns() + 1);
  total.set_input_tokens(total.input_tokens() + turn.input_tokens());
  total.set_output_tokens(total.output_tokens() + turn.output_tokens());
  total.set_cache_read_tokens(total.cache_read_tokens() + turn.cache_read_tokens());
  total.set_cache_write_tokens(total.cache_write_tokens() + turn.cache_write_tokens());
  total.set_cost_usd(total.cost_usd() + cost);
  total.set_cost_known(total.cost_known() || cost_known);
}

/// Tokens are the turn's own; of costs the agent says the sum of its session, so that only the difference is this turn's.
void count_usage(transaction& tx, conversation& c, const v1::ReportConversation::TurnOutcome& turn) {
  double cost = 0;
  if (turn.cost_known() && turn.session_cost_usd() > c.session_cost_usd()) {
    cost = turn.session_cost_usd() - c.session_cost_usd();
    c.set_session_cost_usd(turn.session_cost_usd());
  }
  add(*c.mutable_usage(), turn.usage(), cost, turn.cost_known());
  v1::UsageDay today;
  today.set_conversation_id(c.id());
  today.set_day(static_cast<std::uint32_t>(std::max<std::int64_t>(tx.in().now_ms, 0) / day_ms));
  if (auto known = tx.get<v1::UsageDay>(table<v1::UsageDay>::key(today)))
    today = std::move(*known);
  today.set_scope(tx.scope());
  today.set_harness(c.harness());
  add(*today.mutable_usage(), turn.usage(), cost, turn.cost_known());
  tx.put(std::move(today));
}

const char* word_for(const v1::ReportConversation::TurnOutcome& turn) {
  return turn.finished() ? "finished" : turn.interrupted() ? "interrupted" : "failed";
}

std::optional<v1::Reply> check(const v1::ReportConversation& r) {
  if (r.turn_ended().cost_known() && !(std::isfinite(r.turn_ended().session_cost_usd()) && r.turn_ended().session_cost_usd() >= 0))
    return refuse(v1::Refusal::INVALID, "session_cost_usd must be a number that is not negative", r.conversation_id());
  const auto is_outcome = [](prompt_row::State state) {
    return state == prompt_row::SUBMITTED || state == prompt_row::CONSUMED || state == prompt_row::UNDELIVERABLE || state == prompt_row::UNKNOWN;
  };
  for (const auto& p : r.prompts())
    if (!is_outcome(p.state()))
      return refuse(v1::Refusal::INVALID, "A prompt is reported as SUBMITTED, CONSUMED, UNDELIVERABLE or UNKNOWN", p.prompt_id());
  return std::nullopt;
}

/// What was only asked for has told nothing.
bool is_running(const transaction& tx, const conversation& c) {
  const auto spawn = tx.get<v1::Spawn>(key(c.spawn_id()));
  return spawn && has_driver(tx, c) && spawn->status() != v1::Spawn::REQUESTED;
}

std::string died_in_turn(const std::string& why) { return "its agent ended in the middle of a turn" + (why.empty() ? "" : ": " + why); }

/// One report on one conversation.
class report {
public:
  report(transaction& tx, conversation& c, const v1::ReportConversation& r) : tx_(tx), c_(c), r_(r), lives_(is_running(tx, c)) {}

  std::optional<prompt_row> take() {
    const bool was_lost = is_found();
    if (r_.driver_seq() == 0 || r_.driver_seq() > c_.driver_seq())
      take_frames();
    c_.set_interrupts_told(std::max(c_.interrupts_told(), std::min(r_.interrupts_told(), c_.interrupts())));
    c_.set_wishes_told(std::max(c_.wishes_told(), std::min(r_.wishes_told(), c_.wishes())));
    take_log();
    if (r_.driver_ended())
      end_driver();
    else if (!r_.agent_exited() && r_.reason().starts_with(log_trouble) && c_.state() != conversation::ENDED)
      c_.set_reason(r_.reason());
    auto sent = r_.sending().empty() ? std::nullopt : send();
    if (was_lost && !c_.held() && !has_driver(tx_, c_) && waits(underway(tx_, c_)))
      start_driver(tx_, c_); // last: what was told is of the driver before
    return sent;
  }

private:
  /// A node that reports is there.
  bool is_found() {
    const bool is_copy = !is_here(tx_, c_) && tx_.command().principal().node().empty();
    if (c_.state() != conversation::LOST || is_copy)
      return false;
    c_.set_state(conversation::SUSPENDED);
    c_.clear_reason();
    tx_.event("conversation.found", c_.id(), {{"generation", c_.generation()}}, "system");
    return true;
  }

  void take_frames() {
    c_.set_driver_seq(std::max(c_.driver_seq(), r_.driver_seq()));
    if (r_.has_agent())
      introduce(r_.agent());
    if (r_.has_background() && lives_)
      take_background(tx_, c_, r_.background());
    for (const auto& p : r_.prompts())
      take_outcome(p);
    // A turn that has ended is another than one that has started, or the same.
    const bool ended_first = r_.has_turn_ended() && r_.turn_ended().turn() != r_.turn_started();
    if (ended_first)
      end_turn(r_.turn_ended());
    if (!r_.turn_started().empty())
      start_turn();
    if (r_.has_turn_ended() && !ended_first)
      end_turn(r_.turn_ended());
    if (r_.agent_exited())
      end_agent();
  }

  void introduce(const v1::ReportConversation::Agent& a) {
    const auto set = [](const std::string& value, std::string* field) {
      if (!value.empty())
        *field = value;
    };
    if (!a.native_session().empty() && a.native_session() != c_.native_session()) {
      c_.clear_session_cost_usd();
      c_.clear_saved_cost_usd();
    }
    set(a.native_session(), c_.mutable_native_session());
    set(a.version(), c_.mutable_agent_version());
    set(a.model(), c_.mutable_model());
    set(a.mode(), c_.mutable_mode());
    if (!lives_ || c_.state() == conversation::ENDED || agent_runs(c_))
      return;
    c_.set_state(state_of_agent(tx_, c_));
    c_.clear_reason();
  }

  void take_outcome(const v1::ReportConversation::PromptOutcome& said) {
    auto p = tx_.get<prompt_row>(key(said.prompt_id()));
    if (!p || p->conversation_id() != c_.id() || p->generation() != c_.generation() || p->generation() == 0)
      return;
    const bool is_of_task = is_instruction(c_, *p);
    const bool is_taken = said.state() == prompt_row::CONSUMED;
    if (is_taken && p->state() != prompt_row::CONSUMED)
      p->set_turn(said.turn());
    if (!move_prompt(tx_, *p, said.state(), is_taken ? std::string{} : said.reason()))
      return;
    if (is_taken) {
      if (is_of_task)
        begin_task(tx_, c_);
      note_taken(tx_, c_, *p, is_of_task);
      take_mail(tx_, c_);
    } else if (said.state() != prompt_row::SUBMITTED) {
      settle_lost_prompt(tx_, c_, *p);
    }
  }

  void start_turn() {
    if (!lives_ || c_.open_turn() == r_.turn_started())
      return;
    c_.set_open_turn(r_.turn_started());
    c_.clear_background_until_ms(); // its end says whether the task waits on
    if (c_.state() != conversation::ENDED)
      c_.set_state(state_of_agent(tx_, c_));
    tx_.event("conversation.turn_started", c_.id(), {{"turn", c_.open_turn()}, {"generation", c_.generation()}});
  }

  void end_turn(const v1::ReportConversation::TurnOutcome& turn) {
    const bool is_open = !turn.turn().empty() && turn.turn() == c_.open_turn();
    if (!is_open && r_.driver_seq() == 0)
      return; // it has ended before
    count_usage(tx_, c_, turn);
    if (!turn.last_text().empty())
      c_.set_last_text(
        to_utf8(std::string_view(turn.last_text()).substr(turn.last_text().size() - std::min(turn.last_text().size(), last_text_max))));
    if (is_open) {
      c_.clear_open_turn();
      if (agent_runs(c_))
        c_.set_state(conversation::IDLE);
    }
    tx_.event("conversation.turn_ended", c_.id(), {{"turn", turn.turn()}, {"generation", c_.generation()}, {"outcome", word_for(turn)}});
    if (is_open)
      settle_task(tx_, c_,
                  turn.finished()      ? turn_end::finished
                  : turn.interrupted() ? turn_end::interrupted
                                       : turn_end::failed,
                  turn.finished() ? c_.last_text() : turn.failure());
  }

  /// The driver stays, and starts its agent with the next prompt.
  void end_agent() {
    const bool in_turn = !c_.open_turn().empty();
    fail_turn(tx_, c_, "exited");
    if (in_turn)
      settle_task(tx_, c_, turn_end::failed, died_in_turn(r_.reason()));
    end_background(tx_, c_, r_.reason());
    if (r_.agent_killed())
      c_.set_session_cost_usd(c_.saved_cost_usd());
    else
      c_.set_saved_cost_usd(c_.session_cost_usd());
    if (!agent_runs(c_) && c_.state() != conversation::STARTING)
      return;
    c_.set_state(conversation::SUSPENDED);
    c_.set_reason(r_.reason());
    tx_.event("conversation.suspended", c_.id(), {{"generation", c_.generation()}});
    if (c_.held() || !waits(underway(tx_, c_)))
      return;
    if (c_.restarts() + 1 >= limits::conversation_starts_max)
      return note_given_up();
    c_.set_restarts(c_.restarts() + 1);
    c_.set_state(conversation::STARTING);
  }

  void note_given_up() {
    c_.set_reason("its agent has ended " + std::to_string(limits::conversation_starts_max) + " times before it took a prompt" +
                  (r_.reason().empty() ? "" : ": " + std::string{utf8_prefix(r_.reason(), limits::note_bytes_max() / 2)}));
    settle_task(tx_, c_, turn_end::failed, c_.reason());
    c_.set_held(true); // what waits does not go on by itself
  }

  void end_driver() {
    if (!lives_)
      return;
    lose_driver(tx_, c_, r_.reason());
  }

  void take_log() {
    if (r_.log_epoch() == 0 || r_.log_end() == 0)
      return;
    c_.set_log_end(r_.log_epoch() == c_.log_epoch() ? std::max(c_.log_end(), r_.log_end()) : r_.log_end());
    c_.set_log_epoch(r_.log_epoch());
    if (c_.reason().starts_with(log_trouble))
      c_.clear_reason();
  }

  /// The intent to give the driver a prompt is stored before the prompt is given.
  std::optional<prompt_row> send() {
    auto p = r_.sending() == oldest_prompt ? oldest() : tx_.get<prompt_row>(key(r_.sending()));
    if (!p || p->conversation_id() != c_.id())
      return std::nullopt;
    if (may_send(*p)) {
      p->set_generation(c_.generation());
      move_prompt(tx_, *p, prompt_row::SENDING);
      if (c_.state() == conversation::SUSPENDED)
        c_.set_state(conversation::STARTING); // the prompt starts the agent
    }
    return p;
  }

  std::optional<prompt_row> oldest() const {
    std::optional<prompt_row> out;
    for (auto& p : underway(tx_, c_))
      if (p.state() == prompt_row::QUEUED && (!out || p.number() < out->number()))
        out = std::move(p);
    return out;
  }

  bool may_send(const prompt_row& p) const {
    if (p.state() != prompt_row::QUEUED || !lives_ || r_.driver_ended() || c_.held())
      return false;
    return c_.open_turn().empty() ? may_begin_turn(p) : may_join_turn(p);
  }

  bool may_begin_turn(const prompt_row& p) const {
    if (c_.state() != conversation::IDLE && c_.state() != conversation::STARTING && c_.state() != conversation::SUSPENDED)
      return false;
    const auto all = underway(tx_, c_);
    return std::none_of(all.begin(), all.end(), [&](const auto& other) { return is_given(other) || other.number() < p.number(); });
  }

  /// Before what waits, and in the order of those that steer.
  bool may_join_turn(const prompt_row& p) const {
    if (!joins_turns(c_, p) || (c_.state() != conversation::RUNNING && c_.state() != conversation::BLOCKED))
      return false;
    const auto all = underway(tx_, c_);
    return std::none_of(all.begin(), all.end(), [&](const auto& other) {
      return other.state() == prompt_row::SENDING || (joins_turns(c_, other) && other.state() == prompt_row::QUEUED && other.number() < p.number());
    });
  }

  static constexpr std::size_t last_text_max = limits::conversation_last_text_bytes_max;

  transaction& tx_;
  conversation& c_;
  const v1::ReportConversation& r_;
  bool lives_;
};

} // namespace

std::optional<v1::Conversation> find_conversation(const transaction& tx, const std::string& id) {
  auto c = tx.get<v1::Conversation>(key(id));
  if (c && c->scope() != tx.scope())
    c.reset();
  return c;
}

v1::Reply no_conversation(const std::string& id) {
  return refuse(v1::Refusal::NOT_FOUND, "There is no conversation " + id + " in this scope. List them: swarmctl chat list", id);
}

bool has_driver(const transaction& tx, const v1::Conversation& c) {
  const auto spawn = tx.get<v1::Spawn>(key(c.spawn_id()));
  return spawn && is_live(*spawn) && spawn->attempt() == c.generation();
}

void put_changed(transaction& tx, v1::Conversation& c) {
  c.set_queued(static_cast<std::uint32_t>(tx.count<v1::Prompt>({.scope = tx.scope(), .conversation_id = c.id(), .open = true})));
  c.set_changed_at_ms(tx.in().now_ms);
  tx.put(c);
}

v1::Reply conversation_reply(v1::Conversation c, std::optional<v1::Prompt> p) {
  v1::Reply reply;
  end_bypass(c, 0); // nobody is shown permissions that are not said
  *reply.mutable_conversation()->mutable_conversation() = std::move(c);
  if (p) {
    *reply.mutable_conversation()->mutable_prompt() = std::move(*p);
    reply.mutable_conversation()->mutable_prompt()->clear_text(); // whoever asks has it
  }
  return reply;
}

conversation_state state_of_agent(const transaction& tx, const v1::Conversation& c) {
  if (c.open_turn().empty())
    return conversation::IDLE;
  const bool asks = tx.count<v1::Approval>({.scope = tx.scope(), .open = true, .conversation_id = c.id()}) > 0;
  return asks ? conversation::BLOCKED : conversation::RUNNING;
}

void start_driver(transaction& tx, v1::Conversation& c) {
  auto spawn = tx.get<v1::Spawn>(key(c.spawn_id()));
  if (!spawn || is_live(*spawn))
    return;
  next_attempt(*spawn);
  issue_spawn(tx, *spawn);
  follow_driver(c, *spawn);
}

void follow_driver(v1::Conversation& c, const v1::Spawn& spawn) {
  c.set_generation(spawn.attempt());
  c.set_session_id(spawn.session_id());
  c.set_driver_seq(0);
  c.set_interrupts_told(c.interrupts());
  c.set_wishes_told(0); // a new driver knows of none
  c.set_state(conversation::STARTING);
}

void fail_turn(transaction& tx, v1::Conversation& c, const std::string& why) {
  if (c.open_turn().empty())
    return;
  tx.event("conversation.turn_ended", c.id(), {{"turn", c.open_turn()}, {"generation", c.generation()}, {"outcome", "failed"}, {"reason", why}});
  c.clear_open_turn();
}

void lose_driver(transaction& tx, v1::Conversation& c, const std::string& why) {
  bool was_at_work = !c.open_turn().empty();
  fail_turn(tx, c, "exited");
  c.set_session_cost_usd(c.saved_cost_usd()); // its agent, if one ran, was killed with it
  for (auto& p : underway(tx, c))
    if (is_given(p)) {
      was_at_work = was_at_work || is_instruction(c, p) || waits_on(c);
      move_prompt(tx, p, prompt_row::UNKNOWN, "its driver ended before it told whether the agent has it");
    }
  withdraw_agent_requests(tx, c.id(), "the agent has ended", true);
  if (was_at_work)
    settle_task(tx, c, turn_end::failed, died_in_turn(why));
  end_background(tx, c, why);
  if (c.state() == conversation::ENDED || c.state() == conversation::SUSPENDED)
    return;
  c.set_state(conversation::SUSPENDED);
  c.set_reason(why);
  tx.event("conversation.suspended", c.id(), {{"generation", c.generation()}});
}

v1::Reply report_conversation(transaction& tx, const v1::ReportConversation& r) {
  auto c = find_conversation(tx, r.conversation_id());
  if (!c)
    return no_conversation(r.conversation_id());
  if (r.generation() != c->generation() || r.generation() == 0)
    return refuse(v1::Refusal::STALE, "This driver of the conversation is over or was never asked for", c->id());
  if (auto wrong = check(r))
    return *wrong;
  auto p = report(tx, *c, r).take();
  put_changed(tx, *c);
  return conversation_reply(std::move(*c), std::move(p));
}

std::string conversation_of(const rows_view& rows, const v1::Session& s) {
  const auto spawn = s.spawn_id().empty() ? std::nullopt : rows.row<v1::Spawn>(key(s.spawn_id()));
  return spawn ? spawn->conversation_id() : std::string{};
}

void follow_agent_requests(transaction& tx, const std::string& conversation_id) {
  auto c = conversation_id.empty() ? std::nullopt : find_conversation(tx, conversation_id);
  if (!c || !agent_runs(*c) || c->state() == state_of_agent(tx, *c))
    return;
  c->set_state(state_of_agent(tx, *c));
  put_changed(tx, *c);
}

bool wants_no_driver(const transaction& tx, const v1::Spawn& s) {
  if (s.conversation_id().empty())
    return false;
  const auto c = find_conversation(tx, s.conversation_id());
  return !c || c->state() == conversation::ENDED || c->generation() != s.attempt();
}

void driver_ended(transaction& tx, const v1::Spawn& s, bool has_run, const std::string& reason, const std::string& how) {
  auto c = s.conversation_id().empty() ? std::nullopt : find_conversation(tx, s.conversation_id());
  if (!c || c->generation() != s.attempt())
    return;
  const auto why = how.empty() ? reason : how;
  lose_driver(tx, *c, why);
  if (c->state() == conversation::ENDED)
    settle_task(tx, *c, turn_end::failed, conversation_stopped); // one that its driver had not taken
  const bool lost = reason == host_lost;
  const bool is_wanted = c->state() == conversation::SUSPENDED && !c->held() && waits(underway(tx, *c));
  if (lost && c->state() != conversation::ENDED) {
    c->set_state(conversation::LOST);
    c->set_reason(why);
  } else if (is_wanted && !has_run) {
    c->set_reason(why);
    settle_task(tx, *c, turn_end::failed, "its agent could not be started: " + why);
    c->set_held(true); // what waits does not go on by itself
  } else if (is_wanted && c->restarts() + 1 >= limits::conversation_starts_max) {
    const auto given_up = "its agent was started " + std::to_string(limits::conversation_starts_max) + " times and took no prompt" +
                          (why.empty() ? "" : ": " + std::string{utf8_prefix(why, limits::note_bytes_max() / 2)});
    c->set_reason(given_up + ". A further prompt, or resume, starts it again");
    settle_task(tx, *c, turn_end::failed, given_up);
    c->set_held(true);
  } else if (is_wanted) {
    c->set_restarts(c->restarts() + 1);
    start_driver(tx, *c);
  }
  put_changed(tx, *c);
}

} // namespace swarm::domain
