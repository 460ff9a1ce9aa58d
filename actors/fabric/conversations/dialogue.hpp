// What a node does with the driver of a conversation: no clock, no I/O, no actors.
//
// What the driver tells is dealt with in its order, one thing after the other: an item stands in the log, and is synced where a row refers to it,
// before the row is changed; only then does the driver hear that it is stored. So whatever dies in between, the driver tells the rest again, and what
// the log has already is not written twice. Commands may be repeated, and the rules take them as often as they come.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "actors/agents/driver_frames.hpp"
#include "actors/fabric/messages/log_tail.hpp"
#include "actors/store/conversation/frame.hpp"
#include "swarm/internal/driver.pb.h"
#include "swarm/v1/command.pb.h"
#include "swarm/v1/conversation.pb.h"

namespace swarm {

/// Frames of the log in their order; those of other generations say nothing.
void take_frame(log_tail&, std::uint32_t generation, const conversation_frame&);

/// One place in the log, as rows have it.
struct log_place {
  std::uint64_t epoch = 0;
  std::uint64_t end = 0;
};

class dialogue {
public:
  // What is to be done, in this order.
  struct to_driver { // one frame
    std::string frame;
    std::uint32_t interrupt = 0; // interrupt_taken() follows when its input has it; 0 = nothing follows
  };
  struct file_to_driver { // frames for all of an attachment; file_missing() follows if they cannot be made
    internal::PromptPart head;
    v1::Attachment file;
    bool last = false; // of its prompt
  };
  struct ask { // a command; answered() follows
    v1::Command command;
  };
  struct keep { // behind the log's end; kept() follows
    std::vector<conversation_frame> frames;
    bool sync = false;
  };
  struct keep_blob { // under the SHA-256 of its bytes; blob_kept() follows
    std::string bytes;
  };
  struct shown { // of an item that is not final yet
    internal::Delta more;
  };
  struct judge { // judged() follows
    internal::HookQuestion question;
  };
  struct judge_answer { // may what was allowed be done still? answer_judged() follows
    std::string approval_id;
    internal::HookQuestion question;
  };
  struct hello_again {}; // its output does not fit: connected() is to follow
  using effect = std::variant<to_driver, file_to_driver, ask, keep, keep_blob, shown, judge, judge_answer, hello_again>;

  dialogue(v1::Conversation row, log_tail tail);

  // -- what the rows say; of an older revision than was heard it counts nothing -----------
  void row_is(const v1::Conversation&, std::uint64_t revision);
  void prompt_is(const v1::Prompt&, std::uint64_t revision);
  /// Of this generation: the row says that nobody knows whether its agent has it.
  void prompt_unknown(const v1::Prompt& p) { prompts_[p.id()] = {p, 0}; }
  void prompt_gone(const std::string& id) { prompts_.erase(id); }
  /// A command that will be its row has just been sent: the intent to give it, when it can be given now, is sent behind, into the same commit.
  void prompt_comes();
  void approval_is(const v1::Approval&, std::uint64_t revision);
  /// What peers hold.
  void locks_are(internal::Locks);

  // -- the driver -------------------------------------------------------------------------
  /// Its input can be written and its output is read from here on.
  void connected(std::string nonce);
  /// Nothing reaches it, until connected().
  void disconnected() { ready_ = false; }
  bool is_ready() const noexcept { return ready_; }
  /// Something stands in the log without its end, or waits to be written there.
  bool is_unfinished() const noexcept;
  void heard(std::string_view output);
  /// Its input has the frame.
  void interrupt_taken(std::uint32_t interrupt);
  /// It died before anybody could say hello again: what is kept of its output, and the nonces that it may have answered with, the newest first.
  /// driver_ended() follows.
  void last_words(std::string_view output, const std::vector<std::string>& nonces);
  /// There is no more output.
  void driver_ended(std::string reason, std::int64_t now_ms = 0);
  /// More output is wanted: what was heard is dealt with.
  bool wants_output() const { return !waits_ && ops_.empty() && inbox_.empty(); }

  // -- answers ------------------------------------------------------------------------------
  void answered(const v1::Reply&);
  void kept(const log_place&);
  /// `why_not` is empty when it stands on the disk.
  void blob_kept(const std::string& why_not);
  void judged(const internal::HookAnswer&);
  /// `why_not` is empty when nothing stands in its way.
  void answer_judged(const std::string& approval_id, const std::string& why_not);
  void file_missing(const std::string& prompt_id, const std::string& why);

  /// It has had no turn for long: its agent ends.
  void rest();
  /// So does the driver.
  void end();
  /// Its agent waits for a prompt.
  bool is_idle() const;
  /// It has no agent, and waits for a prompt.
  bool is_resting() const;
  /// It is to end, and has not.
  bool is_stopping() const noexcept { return (stop_given_ || ends_ || row_.state() == v1::Conversation::ENDED) && !gone_; }
  /// The end of this generation is committed.
  bool is_over() const noexcept { return over_; }
  const v1::Conversation& row() const noexcept { return row_; }
  std::uint32_t generation() const noexcept { return generation_; }

  std::vector<effect> take() { return std::exchange(effects_, {}); }

  static std::string key_of(const v1::ConversationItem&);

private:
  using then = std::function<void(const v1::Reply&)>;
  struct frame_op {
    conversation_frame frame;
    std::uint64_t done = 0; // the driver's frame that is dealt with by it; 0 = more follows
  };
  struct sync_op {};
  struct blob_op {
    std::string bytes;
    std::function<void(const std::string& why_not)> kept;
  };
  struct ask_op {
    v1::Command command;
    then answered;
  };
  struct done_op {
    std::uint64_t seq = 0;
  };
  struct shown_op {
    internal::Delta more;
  };
  using op = std::variant<frame_op, sync_op, blob_op, ask_op, done_op, shown_op>;
  template <class Row>
  struct known {
    Row row;
    std::uint64_t revision = 0;
  };

  /// The node has denied it without a person.
  struct denial {
    std::string frame;
    bool given = false; // since hello
  };

  // dialogue.cpp
  void run();
  void start_ask(ask_op&);
  bool ask_in_short(const v1::Refusal&);
  void keep_frames();
  void take_frames();
  bool in_order(const internal::FromDriver&);
  void say(const internal::ToDriver&);
  void say_stored();
  void ask_for(
    v1::Command, then = [](const v1::Reply&) {});
  /// About this frame of the driver; 0 = about none.
  v1::ReportConversation& report(v1::Command&, std::uint64_t seq = 0) const;
  void end_generation();
  bool has_got(const v1::Prompt&) const noexcept;
  // dialogue_wishes.cpp
  void wish();
  void wish_rules();
  void say_changed(const internal::ToDriver&, std::string& given);
  void wish_options();
  void wish_prompts();
  void wish_interrupt();
  void wish_answers();
  void give_answer(const v1::Approval&);
  void send_prompt(const v1::Prompt&);
  bool takes_prompts() const;
  void send_next();
  void ask_to_send(const std::string& which);
  void may_send(const v1::Reply&, const std::string& which);
  const v1::Prompt* next_prompt() const;
  bool waits_for_prompt() const;
  std::string wish_id(std::uint32_t number) const;
  // dialogue_frames.cpp
  void handle(const internal::FromDriver&);
  void on_item(const internal::FromDriver&);
  void on_turn_started(const internal::FromDriver&);
  void on_turn_ended(const internal::FromDriver&);
  void tell_ended_turn();
  void on_prompt_state(const internal::FromDriver&);
  void on_option_state(const internal::FromDriver&);
  void on_agent_exited(const internal::FromDriver&);
  void on_background(std::uint32_t running, std::uint64_t seq);
  /// What a person has said, once.
  void write_prompt(const std::string& id, const internal::FromDriver&);
  /// That it is lost, or may be, with its words.
  v1::ConversationItem lost_prompt(const std::string& id, v1::Prompt::State, const std::string& why) const;
  void note(std::int64_t at_ms, std::uint64_t seq, const std::string& kind, const std::string& text, std::uint64_t done);
  /// Unless the log has it.
  void write(v1::ConversationItem, std::int64_t at_ms, std::uint64_t seq, std::uint64_t done);
  void write_own(v1::ConversationItem);
  void done(std::uint64_t seq);
  // dialogue_requests.cpp
  void on_request(const internal::FromDriver&);
  void ask_person(const internal::FromDriver&, std::string body);
  void before_the_rest(const std::function<void()>&);
  void on_asked(const internal::FromDriver&, const std::string& body, const v1::Reply&);
  void deny(const internal::FromDriver&, const std::string& digest, const std::string& kind, const std::string& why);
  void deny(const std::string& request, const std::string& digest, const std::string& why);
  void on_ruled(const internal::FromDriver&);
  void on_withdrawn(const internal::FromDriver&);
  void end_asked(const internal::FromDriver&);
  void on_hook_question(const internal::HookQuestion&);
  void on_answer_state(const internal::FromDriver&);
  void note_what_it_got(const v1::Approval&, const internal::AnswerState&);
  /// What the log says of it, as far as that was read, does not end it.
  bool lacks_end(const v1::Approval& a) const { return unended_.contains(a.id()) || !tail_.requests.contains(a.id()); }
  void write_request(const v1::Approval&, std::int64_t at_ms, std::uint64_t seq, std::uint64_t done);
  void take_approval(const v1::Approval&, std::uint64_t revision);
  const v1::Approval* approval_of(const std::string& native_id) const;

  v1::Conversation row_;
  std::uint64_t row_revision_ = 0;
  const std::uint32_t generation_;
  log_tail tail_;
  std::map<std::string, known<v1::Prompt>> prompts_;
  std::map<std::string, known<v1::Approval>> approvals_; // of this generation: open, or with a decision that is on its way
  std::map<std::string, v1::ConversationItem> unended_;  // what the log has of approvals without their end
  std::optional<internal::Locks> locks_;

  agents::driver_frame_reader reader_;
  bool ready_ = false; // it has answered hello, and can be told something
  bool is_dead_ = false;
  std::deque<internal::FromDriver> inbox_;
  std::uint64_t received_ = 0; // seq
  std::uint64_t handled_ = 0;
  std::uint64_t stored_ = 0;
  std::deque<op> ops_;
  bool waits_ = false; // for answered() or kept()
  then answered_;
  std::function<void(const std::string& why_not)> blob_kept_;
  v1::Command asked_; // what answered() answers
  bool asked_in_short_ = false;
  std::uint64_t keeping_ = 0; // handled_ once it is kept
  bool syncing_ = false;
  std::size_t unsynced_ = 0; // bytes
  log_place log_;
  std::int64_t now_ms_ = 0; // of the newest thing told

  std::string open_turn_;
  std::string ended_turn_;
  std::uint32_t background_ = 0; // tasks beside the turns
  std::optional<v1::ConversationItem> part_;
  std::string request_; // what was told of its body
  bool request_is_cut_ = false;
  std::set<std::string> said_; // prompts that stand in the log

  std::set<std::string> given_, answers_given_; // since hello
  std::map<std::string, std::string> judged_;   // approvals that were allowed, and why that cannot be; empty = it can
  std::set<std::string> judging_;
  std::map<std::string, denial> denials_; // that the driver has not acknowledged, by the request
  std::uint32_t interrupts_given_ = 0, wishes_given_ = 0;
  std::string locks_given_, permissions_given_;
  bool rules_told_ = false; // as they are now
  std::string sending_;
  std::string expected_;          // a prompt that may be given; its row is not heard of yet
  std::set<std::string> refused_; // prompts that may not be sent as things are
  bool ends_ = false, stop_given_ = false;
  bool gone_ = false, ending_ = false, over_ = false;
  std::string gone_reason_;

  std::vector<effect> effects_;
};

/// The newest generation that is over and of which the log says something.
struct former_generation {
  std::uint32_t generation = 0; // 0 = none
  log_tail tail;
  std::uint32_t next = 0; // the first that is not over
};

/// What ends what drivers have begun that are over, for the log: nobody has written it when swarmd and the driver died together.
std::vector<conversation_frame> unfinished(v1::Conversation row, const former_generation&, const std::vector<v1::Prompt>& unknown,
                                           const std::string& why, std::int64_t now_ms);

} // namespace swarm
