#include "actors/fabric/conversations/dialogue.hpp"

#include <algorithm>

#include "actors/base/crypto.hpp"
#include "actors/base/limits.hpp"
#include "actors/base/text.hpp"

namespace swarm {

namespace {

constexpr std::uint32_t protocol = 1;
constexpr std::uint32_t stop_grace_ms = 5'000;
/// The driver keeps what is not stored; it has to hear of it long before it stops reading its agent.
constexpr std::size_t unsynced_bytes_max = limits::driver_unstored_bytes_max / 4;
constexpr std::size_t kept_at_once_bytes = 256 * limits::kib;

bool is_open(const v1::Prompt& p) { return p.state() == v1::Prompt::QUEUED || p.state() == v1::Prompt::SENDING; }

bool is_under_way(const v1::Prompt& p) { return p.state() == v1::Prompt::SENDING || p.state() == v1::Prompt::SUBMITTED; }

} // namespace

std::string dialogue::key_of(const v1::ConversationItem& i) {
  return concat({static_cast<int>(i.kind()), "/", i.id(), "/", i.state(), "/", i.title()});
}

void take_frame(log_tail& tail, std::uint32_t generation, const conversation_frame& frame) {
  v1::ConversationItem item;
  if (frame.generation != generation || !item.ParseFromString(frame.body))
    return;
  if (frame.driver_seq != 0) {
    tail.seq = std::max(tail.seq, frame.driver_seq);
    tail.own.clear();
  } else {
    tail.own.insert(dialogue::key_of(item));
  }
  if (item.kind() == v1::CONVERSATION_TURN)
    tail.open_turn = item.state() == "started" ? item.id() : std::string{};
  tail.part.reset();
  if (!item.last()) {
    item.clear_body();
    tail.part = std::move(item);
  }
}

dialogue::dialogue(v1::Conversation row, log_tail tail) : row_(std::move(row)), generation_(row_.generation()), tail_(std::move(tail)) {
  // The last frame may have been kept and its command not; the driver tells it once more.
  received_ = handled_ = stored_ = tail_.seq == 0 ? 0 : tail_.seq - 1;
  open_turn_ = tail_.open_turn;
  part_ = tail_.part;
  session_cost_ = row_.session_cost_usd();
}

// -- rows ------------------------------------------------------------------------------------

void dialogue::row_is(const v1::Conversation& row, std::uint64_t revision) {
  if (revision < row_revision_ && revision != 0)
    return;
  row_revision_ = revision;
  row_ = row;
  refused_.clear();
  if (row_.generation() != generation_)
    over_ = true;
  run();
}

void dialogue::prompt_is(const v1::Prompt& p, std::uint64_t revision) {
  auto& known = prompts_[p.id()];
  if (revision != 0 && revision < known.revision)
    return;
  refused_.erase(p.id());
  if (is_open(p) || is_under_way(p))
    known = {p, revision};
  else
    prompts_.erase(p.id());
  run();
}

void dialogue::approval_is(const v1::Approval& a, std::uint64_t revision) {
  take_approval(a, revision);
  run();
}

void dialogue::take_approval(const v1::Approval& a, std::uint64_t revision) {
  if (a.conversation_id() != row_.id() || a.generation() != generation_)
    return;
  auto& known = approvals_[a.id()];
  if (revision != 0 && revision < known.revision)
    return;
  known = {a, revision};
}

// -- the driver --------------------------------------------------------------------------------

void dialogue::connected(std::string nonce) {
  reader_ = {};
  ready_ = false;
  given_.clear();
  answers_given_.clear();
  interrupts_given_ = 0;
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
    ready_ = true;
    return true;
  }
  if (f.seq() == 0)
    return true;
  if (f.seq() <= received_)
    return false;
  if (f.seq() != received_ + 1) {
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
      effects_.emplace_back(hello_again{});
      break;
    }
    if (in_order(f) && !ending_)
      inbox_.push_back(std::move(f));
  }
  run();
}

void dialogue::driver_ended(std::string reason) {
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
  while (bytes < kept_at_once_bytes) {
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

void dialogue::run() {
  while (!waits_ && !over_) {
    if (ops_.empty() && !inbox_.empty()) {
      take_frames();
    } else if (ops_.empty()) {
      if (!gone_ || std::exchange(ending_, true))
        break;
      end_generation();
    } else if (auto* ask_now = std::get_if<ask_op>(&ops_.front())) {
      answered_ = std::move(ask_now->answered);
      waits_ = true;
      auto& command = ask_now->command;
      asked_ = command.body_case();
      if (asked_ == v1::Command::kReportConversation && unsynced_ == 0 && log_.end != 0) {
        command.mutable_report_conversation()->set_log_epoch(log_.epoch);
        command.mutable_report_conversation()->set_log_end(log_.end);
      }
      effects_.emplace_back(ask{std::move(command)});
      ops_.pop_front();
    } else if (auto* dealt_with = std::get_if<done_op>(&ops_.front())) {
      handled_ = std::max(handled_, dealt_with->seq);
      ops_.pop_front();
      if (unsynced_ == 0)
        say_stored();
    } else if (auto* more = std::get_if<shown_op>(&ops_.front())) {
      effects_.emplace_back(shown{std::move(more->more)});
      ops_.pop_front();
    } else {
      keep_frames();
    }
  }
  wish();
}

void dialogue::answered(const v1::Reply& r) {
  waits_ = false;
  const auto of_generation = asked_ == v1::Command::kReportConversation || asked_ == v1::Command::kRequestApproval;
  if (of_generation && (r.refusal().code() == v1::Refusal::STALE || r.refusal().code() == v1::Refusal::NOT_FOUND))
    over_ = true;
  if (!r.has_refusal() && r.has_conversation() && r.revision() >= row_revision_) {
    row_ = r.conversation().conversation();
    row_revision_ = r.revision();
    over_ = over_ || row_.generation() != generation_;
  }
  if (auto f = std::exchange(answered_, nullptr))
    f(r);
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

// -- what the driver is told ----------------------------------------------------------------------

void dialogue::judged(const internal::HookAnswer& a) {
  internal::ToDriver out;
  *out.mutable_hook_answer() = a;
  if (ready_)
    say(out);
}

void dialogue::rest() {
  rests_ = true;
  run();
}

bool dialogue::is_idle() const {
  return ready_ && !rests_ && (row_.state() == v1::Conversation::IDLE || row_.state() == v1::Conversation::SUSPENDED) && open_turn_.empty() &&
         (prompts_.empty() || row_.held());
}

void dialogue::wish() {
  if (!ready_ || over_ || gone_)
    return;
  if (rests_ || row_.state() == v1::Conversation::ENDED) {
    internal::ToDriver stop;
    stop.mutable_stop()->set_grace_ms(stop_grace_ms);
    if (!std::exchange(stop_given_, true))
      say(stop);
    return;
  }
  wish_interrupt();
  wish_answers();
  wish_prompts();
}

void dialogue::wish_interrupt() {
  const auto n = row_.interrupts();
  if (n <= row_.interrupts_told() || n <= interrupts_given_)
    return;
  interrupts_given_ = n;
  internal::ToDriver out;
  out.mutable_interrupt()->set_id(uuid_of(sha256(concat({row_.id(), "/", generation_, "/interrupt/", n})).substr(0, 16)));
  say(out);
  v1::Command told;
  report(told).set_interrupts_told(n);
  ask_for(std::move(told));
  run();
}

void dialogue::wish_answers() {
  for (const auto& [id, known] : approvals_) {
    const auto& a = known.row;
    if (a.delivery() != v1::Approval::PENDING || !answers_given_.insert(id).second)
      continue;
    internal::ToDriver out;
    auto& answer = *out.mutable_answer();
    answer.set_request_id(a.native_id());
    answer.set_generation(generation_);
    answer.set_option(a.decision().empty() ? "deny" : a.decision());
    answer.set_text(a.message());
    answer.set_edited_input(a.edited_input());
    for (const auto& part : a.answers())
      (*answer.mutable_answers())[part.question()] = part.choice();
    answer.set_digest(a.action_digest());
    say(out);
  }
}

void dialogue::send_prompt(const v1::Prompt& p) {
  std::string_view rest = p.text();
  bool begins = true;
  do {
    auto piece = utf8_prefix(rest, limits::driver_part_bytes_max);
    if (piece.empty())
      piece = rest.substr(0, limits::driver_part_bytes_max);
    rest.remove_prefix(piece.size());
    internal::ToDriver out;
    auto& part = *out.mutable_prompt();
    part.set_id(p.id());
    part.set_generation(generation_);
    part.set_text(std::string{piece});
    part.set_begins(std::exchange(begins, false));
    part.set_last(rest.empty());
    say(out);
  } while (!rest.empty());
}

void dialogue::wish_prompts() {
  for (const auto& [id, known] : prompts_)
    if (known.row.state() == v1::Prompt::SENDING && known.row.generation() == generation_ && given_.insert(id).second)
      send_prompt(known.row);
  send_next();
}

/// The oldest that waits, when nothing is under way.
void dialogue::send_next() {
  const auto state = row_.state();
  if (!sending_.empty() || row_.held() || !open_turn_.empty() || !row_.open_turn().empty() || !inbox_.empty() ||
      (state != v1::Conversation::STARTING && state != v1::Conversation::IDLE && state != v1::Conversation::SUSPENDED))
    return;
  const v1::Prompt* next = nullptr;
  for (const auto& [id, known] : prompts_) {
    if (is_under_way(known.row))
      return;
    if (known.row.state() == v1::Prompt::QUEUED && (!next || known.row.number() < next->number()))
      next = &known.row;
  }
  if (!next || refused_.contains(next->id()))
    return;
  sending_ = next->id();
  v1::Command command;
  report(command).set_sending(sending_);
  ask_for(std::move(command), [this](const v1::Reply& r) {
    const auto id = std::exchange(sending_, {});
    auto known = prompts_.find(id);
    if (known == prompts_.end())
      return;
    if (r.has_refusal() || r.conversation().prompt().state() != v1::Prompt::SENDING) {
      refused_.insert(id);
      return;
    }
    known->second.revision = r.revision();
    known->second.row.set_state(v1::Prompt::SENDING);
    known->second.row.set_generation(generation_);
  });
  run();
}

// -- its end -----------------------------------------------------------------------------------------

/// What is open ends, and what was to be told cannot be told any more.
void dialogue::end_generation() {
  if (part_) {
    auto end = *part_;
    end.set_last(true);
    end.set_aborted(true);
    write_own(std::move(end));
    part_.reset();
  }
  for (const auto& [id, known] : approvals_)
    if (known.row.decided_at_ms() == 0 || known.row.delivery() == v1::Approval::PENDING) {
      v1::Approval a = known.row;
      if (a.decided_at_ms() == 0)
        a.set_withdrawn(gone_reason_);
      write_request(a, now_ms_, 0, 0);
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
  v1::Command command;
  auto& r = report(command);
  r.set_driver_ended(true);
  r.set_reason(gone_reason_);
  ask_for(std::move(command), [this](const v1::Reply&) { over_ = true; });
}

} // namespace swarm
