// The stream of Claude Code, driven by a program (--input-format stream-json --output-format stream-json --verbose --permission-prompt-tool stdio
// --include-partial-messages): its lines become what swarmd hears of a driver, and what swarmd says becomes lines for it. Without I/O, clock and
// threads. tests/agents/README.md says what was seen of the program.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "actors/agents/claude_lines.hpp"
#include "actors/agents/json_view.hpp"
#include "actors/base/limits.hpp"
#include "actors/base/result.hpp"
#include "swarm/internal/driver.pb.h"

namespace swarm::agents {

/// What comes of something that happened.
struct claude_output {
  std::vector<internal::FromDriver> said; // bodies only: seq and at_ms are the driver's
  std::string to_agent;                   // lines that the program is to read
};

/// Why the program gets no line.
struct claude_refusal {
  std::string why;
};
using claude_line = result<std::string, claude_refusal>;

/// Names of requests, none of them twice in the lives of the program that share it: a program may use its own ids again.
class request_names {
public:
  /// The id itself, or with a number when it was used before.
  std::string name_of(std::string_view native);

private:
  std::unordered_map<std::size_t, std::uint32_t> used_; // hash of a name to how often
  std::uint64_t further_ = 0;
};

class claude_stream {
public:
  static constexpr std::size_t part_bytes_max = limits::driver_part_bytes_max; // of an item and a delta
  static constexpr std::size_t hook_bytes_max = limits::hook_script_bytes_max; // of what a tool of a hook question is given
  static constexpr std::size_t path_bytes_max = 4 * limits::kib;

  /// Turns are numbered on from turns() of the program's life before, as it was after end(), and `names` are its take_names(). `line_max` is smaller
  /// in tests.
  explicit claude_stream(std::uint64_t turns_before = 0, std::size_t line_max = limits::agent_line_bytes_max, request_names names = {})
    : turns_(turns_before), line_max_(line_max), names_(std::move(names)) {}

  /// What the program has written, cut anywhere.
  claude_output read(std::string_view bytes);
  /// The program writes nothing more. A turn that is open ends, and nobody waits for answers.
  claude_output end();

  /// The first line for the program; its answer is agent_started, or a notice when the program would not hold back a tool until we have answered.
  std::string initialize();
  /// Not before the program has answered to initialize() as it has to.
  claude_line prompt(const std::string& id, std::span<const claude_lines::prompt_part> parts);
  /// Each request is answered once. An answer that is refused for what it says, or because it is to something else, leaves the request open.
  claude_line answer(const internal::Answer&);
  /// What waits for an answer, without its body and with it; null when nothing does under this name.
  std::optional<std::pair<internal::Request, std::string_view>> asked_under(const std::string& request) const;
  /// After an answer that was refused for what it says: a person is asked once more, under another name, and is told why.
  claude_output ask_again(const internal::Answer&, std::string_view why);
  claude_line answer_hook(const internal::HookAnswer&);
  bool waits_for_hook(const std::string& question) const { return hooks_.contains(question); }
  claude_output interrupt();
  claude_output set(const internal::SetOption&);

  /// Empty between turns.
  std::string open_turn() const { return turn_ ? turn_->id : std::string{}; }
  std::uint64_t turns() const noexcept { return turns_; }
  request_names take_names() { return std::exchange(names_, {}); }
  std::vector<std::string> open_requests() const;
  /// Tasks that it runs beside its turns.
  std::uint32_t background() const noexcept { return background_; }
  /// In which the agent is; empty before its first turn.
  const std::string& directory() const noexcept { return directory_; }
  /// The end of what streams now; nothing when no item is open.
  std::optional<internal::Delta> open_item() const;
  /// What it said in place of introducing itself; empty when it said nothing.
  const std::string& not_begun() const noexcept { return not_begun_; }
  /// Prompts of which no turn has been heard.
  const std::vector<std::string>& waiting_prompts() const noexcept { return waiting_; }

private:
  using members = json_view::members;

  struct turn {
    std::string id;
    std::string last_text;               // its end
    std::vector<std::string> calls = {}; // of tools, without a result yet
    bool is_retried = false;             // its service had no answer
  };
  /// A permission or a question that waits for its answer.
  struct request {
    std::string native;
    std::string input;      // JSON as it came
    std::string digest;     // SHA-256 of it
    internal::Request head; // as it was asked, without its body

    bool is_question() const { return head.kind() == internal::Request::QUESTION; }
  };
  enum class control : std::uint8_t { initialize, model, mode };
  /// What was asked of the program, by the id of the request.
  struct asked {
    control what;
    std::string option;
  };
  struct option {
    int unanswered = 0;
    std::string text;
  };
  struct streamed {
    std::string message;
    std::uint64_t block = 0;
    internal::ItemKind kind = internal::ITEM_KIND_UNSPECIFIED; // unspecified = no item is open
    std::uint64_t bytes = 0;
    std::string text; // the end of a long one
  };

  // claude_stream.cpp
  void take(std::string_view line);
  void take_frame(const members& frame);
  void unreadable(std::string_view line);
  void notice(std::string_view kind, std::string_view text);
  void system(const members& frame);
  void began_session(const members& frame);
  void announce();
  void lifecycle(const members& frame);
  void consumed(const std::string& prompt);
  void dropped(const std::string& prompt, internal::PromptState::State, std::string_view why);
  void begin_turn(const std::string* prompt);
  void result_of_turn(const members& frame);
  void end_turn(internal::TurnEnded::Reason reason, std::string_view text, internal::TurnUsage usage, std::int64_t duration_ms);
  bool forget_waiting(const std::string& prompt);
  internal::FromDriver& say() { return out_.said.emplace_back(); }

  // claude_items.cpp
  void assistant(const members& frame);
  void assistant_block(const json_view& block, const std::string& message, const internal::ItemPart& head);
  void user(const members& frame);
  void user_block(const json_view& block, const internal::ItemPart& head);
  void tool_result(const members& block, const internal::ItemPart& head);
  void put_item(const internal::ItemPart& head, std::string_view body);
  void put_cut_off();
  std::string own_item_id();
  void stream_event(const members& frame);
  void stream_delta(const json_view& delta);
  std::string item_id(const std::string& message, std::uint64_t block) const;
  std::uint64_t& next_block(const std::string& message);

  // claude_requests.cpp
  void control_request(const members& frame);
  void can_use_tool(const std::string& native, const members& request);
  void open_request(request);
  void hook_callback(const std::string& native, const members& request);
  void control_cancelled(const std::string& native);
  void control_response(const json_view& response);
  void initialized(const json_view& response);
  void interrupted(const json_view& response);
  void option_answered(const asked&, const members& response);
  void put_option(const std::string& id, std::string_view text);
  void give_up_options(std::string_view why);
  void withdraw(const std::string& id, std::string_view reason);
  void withdraw_hook(const std::string& native);
  void withdraw_native(const std::string& native, std::string_view reason);
  void withdraw_calls_of(const std::string& call, std::string_view reason);
  std::string next_id();
  std::string next_request(control, std::string option = {});
  std::size_t open_bytes() const;

  claude_output out_;
  std::string line_; // that is not whole yet
  bool skips_line_ = false;
  bool ended_ = false;
  std::size_t notices_ = 0;

  std::uint64_t turns_;
  std::size_t line_max_;
  std::optional<turn> turn_;
  std::vector<std::string> waiting_;
  std::string closed_{"The agent has not introduced itself yet"}; // why it takes no prompt; empty = it does
  internal::AgentStarted about_;
  std::string announced_; // about_ as it was said last
  std::string directory_;
  std::string not_begun_;
  std::uint32_t background_ = 0; // tasks
  internal::TurnUsage cost_;     // session_cost_usd, cost_known, context_*: what holds until the next result

  streamed streamed_;
  std::deque<std::pair<std::string, std::uint64_t>> blocks_; // the newest messages and their next block
  std::uint64_t items_ = 0;                                  // that had no id
  bool has_item_of_no_turn_ = false;                         // since the last turn, with an id of ours

  request_names names_;
  std::map<std::string, request> requests_;  // by name
  std::map<std::string, std::string> hooks_; // id to native id
  std::map<std::string, asked> controls_;
  std::deque<std::string> interrupts_; // the newest that are not answered yet
  std::map<std::string, option> options_;
  std::uint64_t controls_begun_ = 0;
};

/// An id of the program's as it is known outside: itself, or its SHA-256 in hex when it is longer than 128 bytes.
std::string claude_id(std::string_view native);

} // namespace swarm::agents
