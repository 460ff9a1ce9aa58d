#include "cli/verbs/chat_read.hpp"

#include <algorithm>
#include <atomic>

#include "actors/base/text.hpp"
#include "cli/verb.hpp"
#include "cli/verbs/chat_follow.hpp"
#include "cli/verbs/chat_lines.hpp"
#include "cli/verbs/interrupt.hpp"
#include "cli/verbs/reference.hpp"
#include "gateway/client/ticker.hpp"
#include "gateway/json/conversation.hpp"

namespace swarm::cli {

namespace {

v1::ReadConversationRequest request_of(const v1::Conversation& c, const std::string& cursor, bool follow) {
  v1::ReadConversationRequest out;
  out.set_scope(c.scope());
  out.set_conversation_id(c.id());
  out.set_cursor(mcp::log_cursor(cursor));
  out.set_follow(follow);
  return out;
}

/// Reads while the user lets it, and as long as --timeout allows when it was given.
struct bounded_read {
  bool interrupted = false;
  bool late = false;
  template <class On>
  void run(invocation& cli, const v1::ReadConversationRequest& request, On on) {
    std::atomic<bool> is_late = false;
    interrupt_guard guard{[&] { cli.node().coordination.cancel(); }};
    ticker timer{0, nullptr, request.follow() ? bounded_by_timeout(cli, 0) : 0, [&] {
                   is_late = true;
                   cli.node().coordination.cancel();
                 }};
    try {
      read_chunks(cli.node().conversations, request, on, [&] {
        if (!guard.interrupted() && !is_late)
          cli.node().finder.expect_return();
      });
    } catch (const failure& f) {
      // Cancelling may have hit a call that `on` made, instead of the stream.
      if (f.exit_status != code::interrupted || (!guard.interrupted() && !is_late))
        throw;
    }
    interrupted = guard.interrupted();
    late = is_late;
  }
};

/// Prints chunks as people read them.
class printed_items {
public:
  explicit printed_items(invocation& cli) : cli_(cli) {}
  void take(const v1::ConversationChunk& chunk) {
    if (chunk.has_resumed() && !chunk.resumed().gap().empty()) {
      parts_.forget();
      print(chat_lines::gap(chunk.resumed()));
    }
    if (chunk.has_item())
      if (auto whole = parts_.take(chunk.item()))
        print(lines_.of(*whole));
  }

private:
  void print(const chat_text& text) {
    for (const auto& line : text)
      cli_.io().painted_line(cli_.io().paint(line.paint, among_others(line)));
  }
  invocation& cli_;
  mcp::whole_items parts_;
  chat_lines lines_;
};

std::optional<v1::Conversation> conversation_of(const invocation& cli, const v1::Conversation& c) {
  auto q = cli.query();
  q.set_scope(c.scope());
  q.set_viewer(cli.named_actor_id());
  q.mutable_list_conversations()->set_id(c.id());
  const auto answer = cli.ask(q);
  return answer.conversations().conversations().empty() ? std::nullopt : std::optional{answer.conversations().conversations(0)};
}

v1::Prompt current(const invocation& cli, const v1::Conversation& c, const v1::Prompt& prompt) {
  auto q = cli.query();
  q.set_scope(c.scope());
  q.mutable_list_prompts()->set_conversation_id(c.id());
  for (auto& p : all_rows<v1::Prompt>(cli, std::move(q)))
    if (p.id() == prompt.id())
      return p;
  return prompt;
}

/// Follows one prompt.
class turn_watch {
public:
  turn_watch(invocation& cli, const v1::Conversation& c, const v1::Prompt& p) : cli_(cli), prompt_(p) { end_.conversation = c; }

  /// False at the end.
  bool take(const v1::ConversationChunk& chunk) {
    if (chunk.has_resumed() && !chunk.resumed().gap().empty()) {
      parts_.forget();
      has_gap_ = true;
    }
    if (chunk.has_item())
      if (auto whole = parts_.take(chunk.item()))
        take_item(*whole);
    is_caught_up_ |= chunk.has_caught_up();
    if (chunk.has_state())
      take_state(chunk.state());
    if (has_gap_ && is_caught_up_ && chunk.has_state() && !end_.has_ended)
      look_for_end(chunk.state());
    return !end_.has_ended;
  }
  const turn_end& end() const noexcept { return end_; }

private:
  void take_item(const v1::ConversationItem& item) {
    const auto is_turn = item.kind() == v1::CONVERSATION_TURN;
    if (is_turn && item.state() == "started")
      for (const auto& id : item.prompts())
        if (id == prompt_.id()) {
          generation_ = item.generation();
          turn_ = item.id();
        }
    if (turn_.empty())
      return;
    // The prompt is known to whoever has given it.
    if (item.kind() != v1::CONVERSATION_USER)
      print(lines_.of(item));
    if (is_turn && item.state() != "started" && item.id() == turn_ && item.generation() == generation_) {
      end_.has_ended = true;
      end_.failed = item.state() != "ended";
      if (end_.failed)
        end_.why = item.body().empty() ? "the turn was " + item.state() : item.body();
    }
    if (item.approval_id().empty() || item.state() != "asked" || cli_.json_wanted())
      return;
    cli_.io().note("it waits for a person: swarmctl decide " + item.approval_id());
  }

  /// Nothing runs: the prompt may have become nothing, or wait for somebody who does something about it.
  void take_state(const v1::Conversation& c) {
    end_.conversation = c;
    if (end_.has_ended || !turn_.empty() || !c.open_turn().empty() || c.state() == v1::Conversation::STARTING)
      return;
    const bool is_down = c.state() == v1::Conversation::SUSPENDED || c.state() == v1::Conversation::ENDED || c.state() == v1::Conversation::LOST;
    const auto p = current(cli_, c, prompt_);
    switch (p.state()) {
      case v1::Prompt::UNDELIVERABLE: return fail("the agent did not get the prompt: " + p.reason());
      case v1::Prompt::UNKNOWN: return fail("whether the agent has acted on the prompt is not known: " + p.reason());
      case v1::Prompt::QUEUED:
        if (is_down && !c.reason().empty() && (c.held() || !is_starting_again(c)))
          return fail(concat({"the prompt waits: ", c.reason(), "; try again: swarmctl chat resume ", short_id(c.id())}));
        if (c.held())
          return fail(concat({"the prompt waits, because somebody has interrupted; let it go on: swarmctl chat resume ", short_id(c.id())}));
        return;
      default: return;
    }
  }

  /// The turn, or its end, may be in the gap.
  void look_for_end(const v1::Conversation& now) {
    if (!now.open_turn().empty() || (turn_.empty() && current(cli_, now, prompt_).state() != v1::Prompt::CONSUMED))
      return;
    fail("the end of the turn is not kept; what is: swarmctl chat read " + now.id());
  }

  /// A driver that has just ended may have a next one, which the conversation's row does not say yet.
  bool is_starting_again(const v1::Conversation& c) const {
    auto q = cli_.query();
    q.set_scope(c.scope());
    q.mutable_list_spawns()->set_live_only(true);
    const auto all = all_rows<v1::Spawn>(cli_, std::move(q));
    return std::any_of(all.begin(), all.end(), [&](const auto& s) { return s.id() == c.spawn_id(); });
  }

  void fail(std::string why) {
    end_.has_ended = end_.failed = true;
    end_.why = std::move(why);
  }

  void print(const chat_text& text) {
    if (cli_.json_wanted())
      return;
    for (const auto& line : text)
      if (line.is_said)
        cli_.io().line(line.text);
      else
        cli_.io().painted_note(cli_.io().paint_note(line.paint == colour::none ? colour::dim : line.paint, line.text));
  }

  invocation& cli_;
  const v1::Prompt prompt_;
  mcp::whole_items parts_;
  chat_lines lines_;
  turn_end end_;
  std::uint32_t generation_ = 0;
  std::string turn_;
  bool has_gap_ = false;
  bool is_caught_up_ = false;
};

} // namespace

int run_chat_read(invocation& cli, const chat_read_options& o) {
  const auto c = conversation_named(cli, o.who);
  mcp::conversation_lines as_json{o.from};
  printed_items as_text{cli};
  bounded_read reading;
  reading.run(cli, request_of(c, o.from, o.follow), [&](const v1::ConversationChunk& chunk) {
    const auto lines = as_json.take(chunk);
    if (cli.json_wanted())
      for (const auto& line : lines)
        cli.io().print_compact(line);
    else
      as_text.take(chunk);
    // The agent ends after its conversation, and with it the turn that is open.
    return !chunk.has_state() || chunk.state().state() != v1::Conversation::ENDED || !chunk.state().open_turn().empty();
  });
  if (reading.late)
    throw failure(code::deadline, "stopped following: the time of --timeout is up; go on with --from " + as_json.cursor());
  return reading.interrupted ? code::interrupted : code::ok;
}

int run_chat_export(invocation& cli, const std::string& who) {
  const auto c = conversation_named(cli, who);
  mcp::conversation_lines lines{{}};
  auto items = json::array();
  if (!cli.json_wanted()) {
    cli.io().line("# " + c.title());
    cli.io().line("");
    cli.io().line(concat({"Conversation ", c.id(), " with ", c.harness(), " in ", c.directory(), ", begun ", utc(c.created_at_ms()), " UTC"}));
    cli.io().line("");
  }
  printed_items as_text{cli};
  bounded_read reading;
  reading.run(cli, request_of(c, {}, false), [&](const v1::ConversationChunk& chunk) {
    if (!cli.json_wanted())
      as_text.take(chunk);
    else
      for (auto& line : lines.take(chunk))
        items.push_back(std::move(line));
    return true;
  });
  if (cli.json_wanted() && !reading.interrupted)
    cli.io().print({{"conversation", mcp::conversation(c)}, {"items", std::move(items)}});
  return reading.interrupted ? code::interrupted : code::ok;
}

turn_end follow_turn(invocation& cli, const v1::Conversation& c, const v1::Prompt& prompt) {
  turn_watch watch{cli, c, prompt};
  bounded_read reading;
  reading.run(cli, request_of(c, {}, true), [&](const v1::ConversationChunk& chunk) { return watch.take(chunk); });
  const auto goes_on = concat({"; the conversation goes on: swarmctl chat ", short_id(c.id())});
  if (!watch.end().has_ended && reading.interrupted)
    throw failure(code::interrupted, "stopped following" + goes_on);
  if (!watch.end().has_ended && reading.late)
    throw failure(code::deadline, "stopped following: the time of --timeout is up" + goes_on);
  auto end = watch.end();
  // The last state that was heard is older than the last item.
  if (auto now = conversation_of(cli, c))
    end.conversation = *now;
  return end;
}

} // namespace swarm::cli
