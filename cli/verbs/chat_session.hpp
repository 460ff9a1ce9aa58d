// An attached conversation without its terminal and its node: chunks, keys and answers go in; bytes for the terminal and wishes come out.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "cli/verbs/chat_lines.hpp"
#include "cli/verbs/chat_question.hpp"
#include "cli/verbs/chat_screen.hpp"
#include "cli/verbs/line_editor.hpp"
#include "gateway/json/conversation.hpp"

namespace swarm::cli {

/// What the node is to be asked for.
struct chat_wish {
  enum class kind : std::uint8_t {
    prompt,
    interrupt,
    decide,
    look,      // at one approval
    look_open, // at those of the conversation that nobody has decided
  } what = kind::prompt;
  std::string text = {};        // of a prompt
  std::string approval_id = {}; // to decide, or to look at
  v1::DecideApproval decision = {};
};

class chat_session {
public:
  struct outlet {
    std::function<void(std::string_view)> write;
    std::function<void(chat_wish)> wish;
    std::function<std::int64_t()> now_ms;       // of a clock that only goes on
    std::function<std::int64_t()> unix_ms = {}; // what time it is, for deadlines; without it none is shown
  };
  chat_session(outlet out, std::string title, std::size_t columns, bool colours);

  void take(const v1::ConversationChunk&);
  /// False when the person leaves.
  bool type(std::string_view bytes);
  /// When pass() is to be called, by now_ms(); nothing = not at all.
  std::optional<std::int64_t> due_ms() const;
  /// Time has passed.
  void pass();
  /// What a wish to look has brought.
  void found(const v1::Approval&);
  /// It has brought nothing: the person may read what is asked, and not decide it.
  void not_found(const std::string& approval_id);
  /// A wish was refused, or nobody knows what became of it.
  void failed(const chat_wish&, const std::string& why, bool may_have_arrived = false);
  /// The person has left; what was typed before may still be on its way.
  void left(bool is_sending, bool what_was_typed = true);
  /// What was said before has been shown, and what waits for a decision is looked for.
  bool is_live() const noexcept { return live_; }
  /// Of that something has failed.
  bool has_lost() const noexcept { return has_lost_; }
  /// The node is away, or back.
  void away(bool);
  void resize(std::size_t columns) { out_.write(screen_.resize(columns)); }
  void start();
  void leave() { out_.write(screen_.leave()); }

private:
  void take_item(const v1::ConversationItem& whole);
  void take_request(const v1::ConversationItem& whole);
  /// The end of the text that was streamed.
  void take_streamed(const v1::ConversationItem& whole);
  void take_delta(const v1::ConversationDelta&);
  void take_state(const v1::Conversation&);
  void caught_up();
  void show(const chat_text&);
  void ask_next();
  void forget(const std::string& approval_id);
  bool is_answerable() const;
  /// Whether the key was dealt with. One that answers stands in the line first, and counts when no other follows.
  bool answers(char key);
  void answer_by(char key);
  /// Something was said below the question that is shown.
  void said_behind();
  /// Then it is shown again, and a key counts once it can have been read. Whether that was so.
  bool asks_again();
  /// More of the text that is being said.
  void stream(std::string_view more, v1::ConversationItemKind);
  void end_stream();
  /// A line of nothing but keys of what is asked, which came together with Enter.
  bool answer_by_line();
  void act_on(chat_question::outcome);
  /// Something runs or waits that an interrupt ends.
  bool has_work() const;
  std::int64_t unix_ms() const { return out_.unix_ms ? out_.unix_ms() : 0; }
  /// When the countdown of what is asked changes, by now_ms().
  std::optional<std::int64_t> countdown_ms() const;
  bool interrupt();
  void submit();
  void draw();
  std::string hint() const;

  outlet out_;
  std::string title_;
  chat_screen screen_;
  chat_lines lines_;
  line_editor editor_;
  mcp::whole_items parts_;
  std::deque<chat_line> past_; // until caught up: the newest of what was said before
  bool past_cut_ = false;
  bool live_ = false;
  bool away_ = false;
  v1::Conversation state_;
  // Of the text that is being said: what was shown of it, and where that begins in the item.
  v1::ConversationItemKind open_kind_ = v1::CONVERSATION_ITEM_KIND_UNSPECIFIED;
  std::string open_id_;
  std::string open_text_;
  std::uint64_t open_begin_ = 0;
  said_text said_;
  std::map<std::string, v1::ConversationItem> asked_; // by approval, not yet decided
  std::map<std::string, std::string> by_native_;      // approvals by the item's id
  std::deque<chat_question> waiting_;                 // the first one is asked
  std::optional<chat_question> gone_;                 // the last one that somebody else has answered
  std::optional<chat_question::outcome> words_for_;   // what is typed goes with an answer to it
  bool stale_words_ = false;                          // what is typed was for an answer that nobody waits for any more
  std::set<std::string> mine_;                        // approvals that were decided here
  std::set<std::string> over_;                        // approvals that nobody waits for any more
  struct pressed {
    char key;
    std::int64_t at_ms;
  };
  std::optional<pressed> held_; // stands in the line: an answer, or the begin of a word
  std::optional<std::int64_t> interrupted_at_ms_;
  std::optional<std::int64_t> said_behind_ms_;
  std::multiset<std::string> unheard_; // prompts of this terminal that the agent has not begun
  bool has_left_ = false;
  bool has_lost_ = false;
};

} // namespace swarm::cli
