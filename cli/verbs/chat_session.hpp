// An attached conversation without its terminal and its node: chunks, keys and answers go in; bytes for the terminal and wishes come out.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/verbs/chat_lines.hpp"
#include "cli/verbs/chat_screen.hpp"
#include "cli/verbs/line_editor.hpp"
#include "gateway/json/conversation.hpp"

namespace swarm::cli {

/// What the node is to be asked for.
struct chat_wish {
  enum class kind : std::uint8_t { prompt, interrupt, decide, look } what = kind::prompt;
  std::string text = {};        // of a prompt
  std::string approval_id = {}; // to decide, or to look at
  std::string option = {};      // to decide
  std::string message = {};     // for the agent, with a decision
  std::string shown = {};       // the action that was shown: what the decision is about
};

class chat_session {
public:
  struct outlet {
    std::function<void(std::string_view)> write;
    std::function<void(chat_wish)> wish;
    std::function<std::int64_t()> now_ms; // of a clock that only goes on
  };
  chat_session(outlet out, std::string title, std::size_t columns, bool colours);

  void take(const v1::ConversationChunk&);
  /// False when the person leaves.
  bool type(std::string_view bytes);
  /// What a wish to look has brought.
  void found(const v1::Approval&);
  /// A wish was refused.
  void failed(const chat_wish&, const std::string& why);
  /// The node is away, or back.
  void away(bool);
  void resize(std::size_t columns) { out_.write(screen_.resize(columns)); }
  void start();
  void leave() { out_.write(screen_.leave()); }

private:
  struct question {
    v1::Approval approval;
    std::int64_t shown_at_ms = 0;
    std::string body; // as it was shown
    struct choice {
      char key;
      std::string option;
    };
    std::vector<choice> choices;
  };

  void take_item(const v1::ConversationItem& whole);
  void take_delta(const v1::ConversationDelta&);
  void take_state(const v1::Conversation&);
  void caught_up();
  void show(const chat_text&);
  void ask_next();
  void forget(const std::string& approval_id);
  /// Whether the key was an answer to what is asked.
  bool decides(char key);
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
  std::string open_text_;
  std::uint64_t open_begin_ = 0;
  std::map<std::string, v1::ConversationItem> asked_; // by approval, not yet decided
  std::map<std::string, std::string> by_native_;      // approvals by the item's id
  std::deque<question> waiting_;                      // the first one is asked
  std::optional<question> message_for_;               // a denial for which words are typed
  std::string mine_;                                  // the approval that was decided here last
  std::optional<std::int64_t> interrupted_at_ms_;
};

} // namespace swarm::cli
