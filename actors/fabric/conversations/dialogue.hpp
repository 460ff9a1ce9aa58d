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
  };
  struct ask { // a command; answered() follows
    v1::Command command;
  };
  struct keep { // behind the log's end; kept() follows
    std::vector<conversation_frame> frames;
    bool sync = false;
  };
  struct shown { // of an item that is not final yet
    internal::Delta more;
  };
  struct judge { // judged() follows
    internal::HookQuestion question;
  };
  struct hello_again {}; // its output does not fit: connected() is to follow
  using effect = std::variant<to_driver, ask, keep, shown, judge, hello_again>;

  dialogue(v1::Conversation row, log_tail tail);

  // -- what the rows say; of an older revision than was heard it counts nothing -----------
  void row_is(const v1::Conversation&, std::uint64_t revision);
  void prompt_is(const v1::Prompt&, std::uint64_t revision);
  void prompt_gone(const std::string& id) { prompts_.erase(id); }
  void approval_is(const v1::Approval&, std::uint64_t revision);

  // -- the driver -------------------------------------------------------------------------
  /// Its input can be written and its output is read from here on.
  void connected(std::string nonce);
  void heard(std::string_view output);
  /// There is no more output.
  void driver_ended(std::string reason);
  /// More output is wanted: what was heard is dealt with.
  bool wants_output() const { return !waits_ && ops_.empty() && inbox_.empty(); }

  // -- answers ------------------------------------------------------------------------------
  void answered(const v1::Reply&);
  void kept(const log_place&);
  void judged(const internal::HookAnswer&);

  /// It has had no turn for long: it ends.
  void rest();
  /// It waits for a prompt.
  bool is_idle() const;
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
  using op = std::variant<frame_op, sync_op, ask_op, done_op, shown_op>;
  template <class Row>
  struct known {
    Row row;
    std::uint64_t revision = 0;
  };

  // dialogue.cpp
  void run();
  void keep_frames();
  void take_frames();
  bool in_order(const internal::FromDriver&);
  void say(const internal::ToDriver&);
  void say_stored();
  void ask_for(
    v1::Command, then = [](const v1::Reply&) {});
  /// About this frame of the driver; 0 = about none.
  v1::ReportConversation& report(v1::Command&, std::uint64_t seq = 0) const;
  void wish();
  void wish_interrupt();
  void wish_answers();
  void wish_prompts();
  void send_prompt(const v1::Prompt&);
  void send_next();
  void end_generation();
  // dialogue_frames.cpp
  void handle(const internal::FromDriver&);
  void on_item(const internal::FromDriver&);
  void on_request(const internal::FromDriver&);
  void ask_person(const internal::FromDriver&, std::string body);
  void deny(const internal::Request&, const std::string& body, const std::string& why);
  void on_withdrawn(const internal::FromDriver&);
  void on_turn_started(const internal::FromDriver&);
  void on_turn_ended(const internal::FromDriver&);
  void on_prompt_state(const internal::FromDriver&);
  void on_answer_state(const internal::FromDriver&);
  void on_agent_exited(const internal::FromDriver&);
  void note(std::int64_t at_ms, std::uint64_t seq, const std::string& kind, const std::string& text, std::uint64_t done);
  /// Unless the log has it.
  void write(v1::ConversationItem, std::int64_t at_ms, std::uint64_t seq, std::uint64_t done);
  void write_own(v1::ConversationItem);
  void write_request(const v1::Approval&, std::int64_t at_ms, std::uint64_t seq, std::uint64_t done);
  void done(std::uint64_t seq);
  void take_approval(const v1::Approval&, std::uint64_t revision);
  const v1::Approval* approval_of(const std::string& native_id) const;

  v1::Conversation row_;
  std::uint64_t row_revision_ = 0;
  const std::uint32_t generation_;
  log_tail tail_;
  std::map<std::string, known<v1::Prompt>> prompts_;
  std::map<std::string, known<v1::Approval>> approvals_; // of this generation

  agents::driver_frame_reader reader_;
  bool ready_ = false; // it has answered hello
  std::deque<internal::FromDriver> inbox_;
  std::uint64_t received_ = 0; // seq
  std::uint64_t handled_ = 0;
  std::uint64_t stored_ = 0;
  std::deque<op> ops_;
  bool waits_ = false; // for answered() or kept()
  then answered_;
  v1::Command::BodyCase asked_ = v1::Command::BODY_NOT_SET;
  std::uint64_t keeping_ = 0; // handled_ once it is kept
  bool syncing_ = false;
  std::size_t unsynced_ = 0; // bytes
  log_place log_;
  std::int64_t now_ms_ = 0; // of the newest thing told

  std::string open_turn_;
  std::string ended_turn_;
  std::optional<v1::ConversationItem> part_;
  std::string request_; // what was told of its body
  double session_cost_ = 0;

  std::set<std::string> given_, answers_given_; // since hello
  std::uint32_t interrupts_given_ = 0;
  std::string sending_;
  std::set<std::string> refused_; // prompts that may not be sent as things are
  bool rests_ = false, stop_given_ = false;
  bool gone_ = false, ending_ = false, over_ = false;
  std::string gone_reason_;

  std::vector<effect> effects_;
};

} // namespace swarm
