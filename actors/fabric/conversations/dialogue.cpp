#include "actors/fabric/conversations/dialogue.hpp"

#include <algorithm>

#include "actors/base/crypto.hpp"
#include "actors/base/limits.hpp"
#include "actors/base/text.hpp"

namespace swarm {

namespace {

constexpr std::uint32_t protocol = 1;
/// The driver keeps what is not stored; it has to hear of it long before it stops reading its agent.
constexpr std::size_t unsynced_bytes_max = limits::driver_unstored_bytes_max / 4;

bool is_waited_for(const v1::Prompt& p) {
  return p.state() == v1::Prompt::QUEUED || p.state() == v1::Prompt::SENDING || p.state() == v1::Prompt::SUBMITTED;
}

/// Whether a question that was refused may have another answer now.
bool is_other(const v1::Conversation& a, const v1::Conversation& b) {
  return a.state() != b.state() || a.held() != b.held() || a.open_turn() != b.open_turn() || a.generation() != b.generation();
}

void take_turn(log_tail& tail, const v1::ConversationItem& item, std::uint64_t seq) {
  const bool begins = item.state() == "started";
  tail.open_turn = begins ? item.id() : std::string{};
  tail.open_turn_seq = seq;
  tail.denied.clear();
  tail.ended_turn = begins ? std::nullopt : std::optional{item};
  tail.ended_turn_seq = begins ? 0 : seq;
  if (begins)
    tail.last_text.clear();
}

bool goes_on(const log_tail& tail, const v1::ConversationItem& item) {
  return tail.part && tail.part->kind() == item.kind() && tail.part->id() == item.id();
}

void take_text(log_tail& tail, const v1::ConversationItem& item) {
  constexpr auto bytes_max = 2 * limits::conversation_last_text_bytes_max;
  if (!goes_on(tail, item))
    tail.last_text.clear();
  tail.last_text += item.body();
  tail.last_text.erase(0, tail.last_text.size() - std::min(tail.last_text.size(), bytes_max));
}

void take_part(log_tail& tail, v1::ConversationItem item) {
  if (item.last()) {
    tail.part.reset();
    return;
  }
  tail.part_bytes = (goes_on(tail, item) ? tail.part_bytes : 0) + item.body().size();
  item.clear_body();
  tail.part = std::move(item);
}

} // namespace

std::string dialogue::key_of(const v1::ConversationItem& i) {
  return concat({static_cast<int>(i.kind()), "/", i.id(), "/", i.state(), "/", i.title()});
}

void take_frame(log_tail& tail, std::uint32_t generation, const conversation_frame& frame) {
  v1::ConversationItem item;
  if (frame.generation != generation || !item.ParseFromString(frame.body))
    return;
  if (tail.since_ms == 0)
    tail.since_ms = frame.at_ms;
  if (frame.driver_seq != 0) {
    tail.seq = std::max(tail.seq, frame.driver_seq);
    tail.own.clear();
  } else {
    tail.own.insert(dialogue::key_of(item));
  }
  if (item.kind() == v1::CONVERSATION_TURN)
    take_turn(tail, item, frame.driver_seq);
  if (item.kind() == v1::CONVERSATION_TEXT && !item.nested())
    take_text(tail, item);
  if (item.kind() == v1::CONVERSATION_NOTICE && !item.of().empty())
    tail.denied[item.of()] = item.attachments_size() == 0 ? std::string{} : item.attachments(0).digest();
  if (item.kind() == v1::CONVERSATION_NOTICE)
    tail.lost.insert(item.prompts().begin(), item.prompts().end());
  if (item.kind() == v1::CONVERSATION_USER && item.last())
    tail.said.insert(item.id());
  tail.last_request = item.approval_id();
  if (!item.approval_id().empty())
    tail.requests.insert(item.approval_id());
  if (item.state() == "asked") {
    auto& asked = tail.asked[item.approval_id()] = item;
    asked.clear_body();
    asked.clear_attachments();
  } else if (!item.approval_id().empty()) {
    tail.asked.erase(item.approval_id());
  }
  take_part(tail, std::move(item));
}

dialogue::dialogue(v1::Conversation row, log_tail tail) : row_(std::move(row)), generation_(row_.generation()), tail_(std::move(tail)) {
  // The last frame may have been kept and its command not; the driver tells it once more.
  received_ = handled_ = stored_ = tail_.seq == 0 ? 0 : tail_.seq - 1;
  // What has followed the begin of the turn may be lost with a damaged log. The row knows of it when it knows the begin.
  open_turn_ = row_.driver_seq() != 0 && row_.driver_seq() >= tail_.open_turn_seq ? row_.open_turn() : tail_.open_turn;
  background_ = row_.background();
  part_ = tail_.part;
  said_ = tail_.said;
  unended_ = tail_.asked;
  for (const auto& [request, digest] : tail_.denied)
    deny(request, digest, "The node has denied it.");
}

// -- rows ------------------------------------------------------------------------------------

void dialogue::row_is(const v1::Conversation& row, std::uint64_t revision) {
  if (revision < row_revision_ && revision != 0)
    return;
  row_revision_ = revision;
  if (is_other(row_, row))
    refused_.clear();
  row_ = row;
  rules_told_ = false;
  if (row_.generation() != generation_)
    over_ = true;
  run();
}

void dialogue::prompt_is(const v1::Prompt& p, std::uint64_t revision) {
  auto& known = prompts_[p.id()];
  if (revision != 0 && revision < known.revision)
    return;
  if (p.id() == expected_ && p.state() != v1::Prompt::QUEUED)
    expected_.clear();
  refused_.clear(); // one that was on its way may have been in the way of others
  // The row may hear of the driver's end first: the log is to say it as well.
  const bool is_lost = p.state() == v1::Prompt::UNKNOWN && has_got(p) && !ending_ && !tail_.lost.contains(p.id());
  if (is_waited_for(p) || is_lost)
    known = {p, revision};
  else
    prompts_.erase(p.id());
  run();
}

void dialogue::approval_is(const v1::Approval& a, std::uint64_t revision) {
  take_approval(a, revision);
  // Nothing older than a batch follows it.
  if (!approvals_.contains(a.id())) {
    answers_given_.erase(a.id());
    judged_.erase(a.id());
    judging_.erase(a.id());
  }
  run();
}

void dialogue::locks_are(internal::Locks locks) {
  locks_ = std::move(locks);
  rules_told_ = false;
  run();
}

// -- the driver --------------------------------------------------------------------------------

void dialogue::connected(std::string nonce) {
  reader_ = {};
  ready_ = false;
  given_.clear();
  answers_given_.clear();
  interrupts_given_ = wishes_given_ = 0;
  locks_given_.clear();
  permissions_given_.clear();
  rules_told_ = false;
  for (auto& [id, d] : denials_)
    d.given = false;
  stop_given_ = false;
  internal::ToDriver hello;
  auto& h = *hello.mutable_hello();
  h.set_protocol(protocol);
  h.set_nonce(nonce);
  h.set_last_seq(stored_);
  h.set_generation(generation_);
  reader_.skip_to(std::move(nonce));
  say(hello);
}

/// Whether it is the next one of the driver; one that is known already is not.
bool dialogue::in_order(const internal::FromDriver& f) {
  if (f.has_ready()) {
    const auto& r = f.ready();
    const auto next = r.first_seq() != 0 ? r.first_seq() : r.last_seq() + 1;
    received_ = std::max(received_, next - 1); // what it does not keep was stored
    ready_ = !is_dead_;
    return true;
  }
  if (f.seq() == 0)
    return true;
  if (f.seq() <= received_)
    return false;
  if (f.seq() != received_ + 1 && !is_dead_) {
    ready_ = false;
    effects_.emplace_back(hello_again{});
    return false;
  }
  received_ = f.seq();
  return true;
}

void dialogue::heard(std::string_view output) {
  reader_.push(output);
  std::string message;
  for (;;) {
    const auto got = reader_.next(message);
    if (got == agents::driver_frame_reader::status::incomplete)
      break;
    internal::FromDriver f;
    if (got == agents::driver_frame_reader::status::malformed || !f.ParseFromString(message)) {
      ready_ = false;
      if (!is_dead_)
        effects_.emplace_back(hello_again{});
      break;
    }
    if (in_order(f) && !ending_)
      inbox_.push_back(std::move(f));
  }
  run();
}

void dialogue::last_words(std::string_view output, const std::vector<std::string>& nonces) {
  const auto known = std::find_if(nonces.begin(), nonces.end(), [&](const auto& n) { return !n.empty() && output.find(n) != output.npos; });
  is_dead_ = true;
  ready_ = false;
  if (known == nonces.end())
    return;
  reader_ = {};
  reader_.skip_to(*known);
  heard(output);
}

void dialogue::driver_ended(std::string reason, std::int64_t now_ms) {
  now_ms_ = std::max(now_ms_, now_ms);
  gone_ = true;
  ready_ = false;
  gone_reason_ = std::move(reason);
  run();
}

void dialogue::say(const internal::ToDriver& what) { effects_.emplace_back(to_driver{agents::encode_driver_frame(what)}); }

void dialogue::say_stored() {
  if (stored_ >= handled_)
    return;
  stored_ = handled_;
  internal::ToDriver stored;
  stored.mutable_stored()->set_seq(stored_);
  if (ready_)
    say(stored);
}

// -- one thing after the other -----------------------------------------------------------------

void dialogue::ask_for(v1::Command command, then answered) { ops_.emplace_back(ask_op{std::move(command), std::move(answered)}); }

v1::ReportConversation& dialogue::report(v1::Command& command, std::uint64_t seq) const {
  auto& r = *command.mutable_report_conversation();
  r.set_conversation_id(row_.id());
  r.set_generation(generation_);
  r.set_driver_seq(seq);
  return r;
}

void dialogue::take_frames() {
  auto f = std::move(inbox_.front());
  inbox_.pop_front();
  now_ms_ = std::max(now_ms_, f.at_ms());
  handle(f);
}

/// Frames that follow each other go to the log together.
void dialogue::keep_frames() {
  keep out;
  std::size_t bytes = 0;
  while (bytes < limits::conversation_write_bytes) {
    if (ops_.empty() && !inbox_.empty()) {
      take_frames();
      continue;
    }
    if (ops_.empty())
      break;
    if (auto* frame = std::get_if<frame_op>(&ops_.front())) {
      bytes += frame->frame.body.size();
      keeping_ = std::max(keeping_, frame->done);
      out.frames.push_back(std::move(frame->frame));
    } else if (std::holds_alternative<sync_op>(ops_.front())) {
      out.sync = true;
      ops_.pop_front();
      break;
    } else {
      break;
    }
    ops_.pop_front();
  }
  unsynced_ += bytes;
  syncing_ = out.sync = out.sync || unsynced_ >= unsynced_bytes_max;
  waits_ = true;
  effects_.emplace_back(std::move(out));
}

void dialogue::start_ask(ask_op& o) {
  answered_ = std::move(o.answered);
  waits_ = true;
  asked_in_short_ = false;
  if (o.command.has_report_conversation() && unsynced_ == 0 && log_.end != 0) {
    o.command.mutable_report_conversation()->set_log_epoch(log_.epoch);
    o.command.mutable_report_conversation()->set_log_end(log_.end);
  }
  asked_ = std::move(o.command);
  effects_.emplace_back(ask{asked_});
}

/// What has happened has to be known, if not in which words: those may be longer than this node takes.
bool dialogue::ask_in_short(const v1::Refusal& why) {
  if (!asked_.has_report_conversation() || (why.code() != v1::Refusal::INVALID && why.code() != v1::Refusal::LIMIT) ||
      std::exchange(asked_in_short_, true))
    return false;
  auto& r = *asked_.mutable_report_conversation();
  r.clear_reason();
  if (r.has_turn_ended()) {
    r.mutable_turn_ended()->clear_failure();
    r.mutable_turn_ended()->clear_last_text();
  }
  for (auto& p : *r.mutable_prompts())
    p.clear_reason();
  effects_.emplace_back(ask{asked_});
  return true;
}

void dialogue::run() {
  while (!waits_ && !over_) {
    if (ops_.empty() && !inbox_.empty()) {
      take_frames();
      continue;
    }
    if (ops_.empty()) {
      if (!gone_ || std::exchange(ending_, true))
        break;
      end_generation();
      continue;
    }
    auto& next = ops_.front();
    if (auto* ask_now = std::get_if<ask_op>(&next)) {
      start_ask(*ask_now);
    } else if (auto* blob = std::get_if<blob_op>(&next)) {
      waits_ = true;
      blob_kept_ = std::move(blob->kept);
      effects_.emplace_back(keep_blob{std::move(blob->bytes)});
    } else if (auto* dealt_with = std::get_if<done_op>(&next)) {
      handled_ = std::max(handled_, dealt_with->seq);
      if (unsynced_ == 0)
        say_stored();
    } else if (auto* more = std::get_if<shown_op>(&next)) {
      effects_.emplace_back(shown{std::move(more->more)});
    } else if (!std::holds_alternative<sync_op>(next) || unsynced_ != 0) {
      keep_frames();
      continue;
    }
    ops_.pop_front();
  }
  wish();
}

void dialogue::answered(const v1::Reply& r) {
  if (r.has_refusal() && ask_in_short(r.refusal()))
    return;
  waits_ = false;
  const auto of_generation = asked_.has_report_conversation() || asked_.has_request_approval();
  if (of_generation && (r.refusal().code() == v1::Refusal::STALE || r.refusal().code() == v1::Refusal::NOT_FOUND))
    over_ = true;
  if (!r.has_refusal() && r.has_conversation() && r.revision() >= row_revision_) {
    if (is_other(row_, r.conversation().conversation()))
      refused_.clear();
    row_ = r.conversation().conversation();
    rules_told_ = false;
    row_revision_ = r.revision();
    over_ = over_ || row_.generation() != generation_;
  }
  if (auto f = std::exchange(answered_, nullptr))
    f(r);
  run();
}

void dialogue::blob_kept(const std::string& why_not) {
  waits_ = false;
  if (auto f = std::exchange(blob_kept_, nullptr))
    f(why_not);
  run();
}

void dialogue::kept(const log_place& place) {
  waits_ = false;
  log_ = place;
  handled_ = std::max(handled_, keeping_);
  if (std::exchange(syncing_, false)) {
    unsynced_ = 0;
    say_stored();
  }
  run();
}

// -- its end -----------------------------------------------------------------------------------------

/// Its row may be over before that: another generation was asked for.
bool dialogue::is_unfinished() const noexcept {
  return !open_turn_.empty() || part_ || !unended_.empty() || !expected_.empty() ||
         std::any_of(ops_.begin(), ops_.end(), [](const op& o) { return std::holds_alternative<frame_op>(o); }) ||
         std::any_of(prompts_.begin(), prompts_.end(), [this](const auto& p) { return has_got(p.second.row); });
}

/// This driver, or it may have.
bool dialogue::has_got(const v1::Prompt& p) const noexcept { return p.state() != v1::Prompt::QUEUED && p.generation() == generation_; }

/// What is open ends, and what was to be told cannot be told any more.
void dialogue::end_generation() {
  if (part_) {
    auto end = *part_;
    end.set_last(true);
    end.set_aborted(true);
    write_own(std::move(end));
    part_.reset();
  }
  for (const auto& [id, known] : prompts_)
    if (has_got(known.row) && !tail_.lost.contains(id))
      write_own(lost_prompt(id, v1::Prompt::UNKNOWN, "Its driver ended before it told whether the agent has it"));
  std::erase_if(prompts_, [this](const auto& p) { return has_got(p.second.row); });
  // It may be given, and that was not heard of its row before the driver's end.
  if (auto id = std::exchange(expected_, {}); !id.empty() && !tail_.lost.contains(id))
    write_own(lost_prompt(id, v1::Prompt::UNKNOWN, "Its driver ended before it told whether the agent has it"));
  for (const auto& [id, known] : approvals_) {
    v1::Approval a = known.row;
    if (!lacks_end(a))
      continue;
    if (!unended_.contains(id) && a.created_at_ms() >= tail_.since_ms) { // its row was committed, and nobody lived to log it
      auto asked = a;
      asked.clear_decided_at_ms();
      write_request(asked, now_ms_, 0, 0);
    }
    if (a.decided_at_ms() == 0)
      a.set_withdrawn(gone_reason_.empty() ? "the driver ended" : gone_reason_);
    write_request(a, now_ms_, 0, 0);
  }
  for (auto& [id, item] : std::exchange(unended_, {})) {
    auto end = item;
    end.set_state("withdrawn");
    write_own(std::move(end));
  }
  if (!open_turn_.empty()) {
    v1::ConversationItem turn;
    turn.set_kind(v1::CONVERSATION_TURN);
    turn.set_id(open_turn_);
    turn.set_state("failed");
    turn.set_body(gone_reason_.empty() ? "the driver ended" : gone_reason_);
    turn.set_last(true);
    write_own(std::move(turn));
    open_turn_.clear();
  }
  ops_.emplace_back(sync_op{});
  tell_ended_turn();
  v1::Command command;
  auto& r = report(command);
  r.set_driver_ended(true);
  r.set_reason(gone_reason_);
  ask_for(std::move(command), [this](const v1::Reply&) { over_ = true; });
}

namespace {

/// Behind the others.
void end_in_log(dialogue& before, const std::string& why, std::int64_t now_ms, std::vector<conversation_frame>& out) {
  before.driver_ended(why, now_ms);
  const auto take = [&out](std::vector<dialogue::effect> effects) {
    const auto so_far = out.size();
    for (auto& e : effects)
      if (auto* frames = std::get_if<dialogue::keep>(&e))
        std::move(frames->frames.begin(), frames->frames.end(), std::back_inserter(out));
    return out.size() != so_far;
  };
  while (take(before.take()))
    before.kept({});
}

} // namespace

std::vector<conversation_frame> unfinished(v1::Conversation row, const former_generation& former, const std::vector<v1::Prompt>& unknown,
                                           const std::string& why, std::int64_t now_ms) {
  std::map<std::uint32_t, std::vector<const v1::Prompt*>> generations;
  if (former.generation != 0)
    generations[former.generation];
  for (const auto& p : unknown) {
    // Those of a generation of which the log has nothing are lost as well.
    const bool is_newer = p.generation() > former.generation;
    if (is_newer ? p.generation() < former.next : p.generation() == former.generation && p.changed_at_ms() >= former.tail.since_ms)
      generations[p.generation()].push_back(&p);
  }
  std::vector<conversation_frame> out;
  row.clear_driver_seq(); // what it says of the open turn is of a later time than the log
  for (const auto& [generation, prompts] : generations) {
    row.set_generation(generation);
    dialogue before{row, generation == former.generation ? former.tail : log_tail{}};
    for (const auto* p : prompts)
      before.prompt_unknown(*p);
    end_in_log(before, why, now_ms, out);
  }
  return out;
}

} // namespace swarm
