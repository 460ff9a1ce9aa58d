// What Claude Code says, thinks and calls, and what its tools answer.
#include <algorithm>

#include <sodium.h>

#include "actors/agents/claude_stream.hpp"
#include "actors/base/text.hpp"

namespace swarm::agents {

namespace {

constexpr std::size_t title_bytes_max = 256;
constexpr std::string_view json_type = "application/json";

/// The end of a text, at most so many bytes, from the begin of a character on.
std::string_view utf8_suffix(std::string_view text, std::size_t bytes) {
  if (text.size() > bytes)
    text.remove_prefix(text.size() - bytes);
  while (!text.empty() && (static_cast<unsigned char>(text.front()) & 0xc0U) == 0x80U)
    text.remove_prefix(1);
  return text;
}

/// What fits into one frame, at least a byte of it.
std::string_view next_part(std::string_view body, bool is_text) {
  constexpr auto most = claude_stream::part_bytes_max;
  auto part = is_text ? utf8_prefix(body, most) : body.substr(0, most);
  return part.empty() ? body.substr(0, most) : part;
}

std::optional<std::string> from_base64(std::string_view text) {
  std::string out(text.size() / 4 * 3 + 3, '\0');
  std::size_t n = 0;
  if (sodium_base642bin(reinterpret_cast<unsigned char*>(out.data()), out.size(), text.data(), text.size(), "\r\n", &n, nullptr,
                        sodium_base64_VARIANT_ORIGINAL) != 0)
    return std::nullopt;
  out.resize(n);
  return out;
}

/// What a frame's items have in common.
internal::ItemPart head_of(const json_view::members& frame) {
  internal::ItemPart head;
  if (auto parent = frame["parent_tool_use_id"].text(); !parent.empty()) {
    head.set_nested(true);
    head.set_of(claude_id(parent));
  }
  head.set_aborted(frame["aborted"].is_true());
  return head;
}

/// What a block of words is; unspecified for any other.
internal::ItemKind kind_of_words(const json_view& type) {
  return type.is("text") ? internal::ITEM_TEXT : type.is("thinking") ? internal::ITEM_THOUGHT : internal::ITEM_KIND_UNSPECIFIED;
}

bool is_call(const json_view& type) { return type.is("tool_use") || type.is("server_tool_use") || type.is("mcp_tool_use"); }

/// The program's own words about an interrupt; the end of the turn says it.
bool is_mark_of_interrupt(std::string_view text) { return text.starts_with("[Request interrupted by user"); }

} // namespace

void claude_stream::put_item(const internal::ItemPart& head, std::string_view body) {
  const bool is_text = !head.media_type().starts_with("image/");
  do {
    auto piece = next_part(body, is_text);
    body.remove_prefix(piece.size());
    auto& part = *say().mutable_item();
    part = head;
    part.set_body(std::string{piece});
    part.set_last(body.empty());
  } while (!body.empty());
}

/// What has streamed and comes no more as an item.
void claude_stream::put_cut_off() {
  const auto kind = std::exchange(streamed_.kind, internal::ITEM_KIND_UNSPECIFIED);
  const auto text = std::exchange(streamed_.text, {});
  if (kind == internal::ITEM_KIND_UNSPECIFIED || text.empty())
    return;
  if (const auto missing = streamed_.bytes - text.size(); missing > 0) {
    auto& n = *say().mutable_notice();
    n.set_kind("gap");
    n.set_text(concat({"The agent did not finish the next item; of what it said, the first ", missing, " bytes are not kept"}));
  }
  internal::ItemPart item;
  item.set_id(item_id(streamed_.message, streamed_.block));
  if (item.id().empty())
    item.set_id(own_item_id());
  item.set_kind(kind);
  item.set_aborted(true);
  if (turn_ && kind == internal::ITEM_TEXT)
    turn_->last_text = utf8_suffix(text, limits::agent_last_text_bytes_max);
  next_block(streamed_.message) = streamed_.block + 1;
  put_item(item, text);
}

/// With the number of the turn, or of the next one: the count begins again with each life of the program.
std::string claude_stream::own_item_id() {
  has_item_of_no_turn_ = has_item_of_no_turn_ || !turn_;
  return concat({"item-", turn_ ? turns_ : turns_ + 1, "-", ++items_});
}

std::uint64_t& claude_stream::next_block(const std::string& message) {
  auto i = std::find_if(blocks_.begin(), blocks_.end(), [&](const auto& b) { return b.first == message; });
  if (i != blocks_.end())
    return i->second;
  if (blocks_.size() == limits::agent_messages_open_max)
    blocks_.pop_front();
  return blocks_.emplace_back(message, 0).second;
}

std::string claude_stream::item_id(const std::string& message, std::uint64_t block) const {
  return message.empty() ? std::string{} : concat({message, ":", block});
}

// ---- the agent's own words and calls ----

void claude_stream::assistant(const members& frame) {
  const members message{frame["message"]};
  const auto head = head_of(frame);
  const auto id = claude_id(message["id"].text());
  for (const auto& block : message["content"].elements(limits::agent_blocks_max))
    assistant_block(block, id, head);
}

void claude_stream::assistant_block(const json_view& block, const std::string& message, const internal::ItemPart& common) {
  const members b{block};
  const auto type = b["type"];
  const auto kind = kind_of_words(type);
  const auto body = b[kind == internal::ITEM_THOUGHT ? "thinking" : "text"].text();
  if (!common.nested()) {
    if (message != streamed_.message || kind != streamed_.kind || body.empty()) // not what has streamed
      put_cut_off();
    streamed_.kind = internal::ITEM_KIND_UNSPECIFIED;
    streamed_.text.clear();
  }
  const auto index = next_block(message)++;
  auto item = common;
  item.set_id(item_id(message, index));
  if (item.id().empty())
    item.set_id(own_item_id());
  if (kind != internal::ITEM_KIND_UNSPECIFIED) {
    item.set_kind(kind);
    if (turn_ && !item.nested() && kind == internal::ITEM_TEXT && !body.empty())
      turn_->last_text = utf8_suffix(body, limits::agent_last_text_bytes_max);
    if (!body.empty())
      put_item(item, body);
  } else if (is_call(type)) {
    if (auto call = b["id"].text(); !call.empty()) {
      item.set_id(claude_id(call));
      if (turn_ && !item.nested() && turn_->calls.size() < limits::agent_calls_open_max)
        turn_->calls.push_back(item.id());
    }
    auto name = b["name"].text();
    item.set_kind(name == "TodoWrite" ? internal::ITEM_PLAN : internal::ITEM_TOOL_CALL);
    item.set_title(std::string{utf8_prefix(name, title_bytes_max)});
    item.set_media_type(std::string{json_type});
    put_item(item, b["input"].exists() ? b["input"].raw() : "{}");
  } else if (b["tool_use_id"].is_text()) { // of a tool that its service runs
    tool_result(b, common);
  }
}

// ---- what is said to it ----

void claude_stream::user(const members& frame) {
  if (frame["isReplay"].is_true()) // a prompt that we have sent
    return;
  const auto head = head_of(frame);
  const auto content = frame["message"]["content"];
  if (content.is_text())
    user_block(content, head);
  for (const auto& block : content.elements(limits::agent_blocks_max))
    user_block(block, head);
}

void claude_stream::user_block(const json_view& block, const internal::ItemPart& head) {
  const members b{block};
  if (b["type"].is("tool_result")) {
    tool_result(b, head);
    return;
  }
  auto text = block.is_text() ? block.text() : b["type"].is("text") ? b["text"].text() : std::string{};
  if (text.empty() || is_mark_of_interrupt(text))
    return;
  auto item = head;
  item.set_kind(internal::ITEM_USER);
  item.set_id(own_item_id());
  put_item(item, text);
}

/// A result is one item for its text, and one for each image. What is neither stays JSON.
void claude_stream::tool_result(const members& block, const internal::ItemPart& head) {
  const auto call = claude_id(block["tool_use_id"].text());
  withdraw_calls_of(call, "the agent stopped waiting");
  if (turn_)
    turn_->calls.erase(std::remove(turn_->calls.begin(), turn_->calls.end(), call), turn_->calls.end());
  auto item = head;
  item.set_kind(internal::ITEM_TOOL_RESULT);
  item.set_of(call);
  item.set_failed(block["is_error"].is_true());
  std::uint64_t items = 0;
  auto put = [&](std::string_view media_type, std::string_view body) {
    item.set_id(call.empty() ? own_item_id() : concat({call, ":result:", items}));
    ++items;
    item.set_media_type(std::string{media_type});
    put_item(item, body);
  };
  const auto content = block["content"];
  std::string text = content.text();
  for (const auto& part : content.elements(limits::agent_blocks_max)) {
    if (part["type"].is("text")) {
      text += (text.empty() ? "" : "\n") + part["text"].text();
      continue;
    }
    const auto source = part["source"];
    const auto type = source["media_type"].text();
    auto media =
      part["type"].is("image") && type.starts_with("image/") && type.size() <= title_bytes_max ? from_base64(source["data"].text()) : std::nullopt;
    put(media ? type : json_type, media ? *media : part.raw());
  }
  if (content.is_object())
    put(json_type, content.raw());
  if (!text.empty() || items == 0)
    put("", text);
}

// ---- while it comes ----

void claude_stream::stream_event(const members& frame) {
  if (frame["parent_tool_use_id"].is_text()) // of a subagent; only its items are told
    return;
  const members event{frame["event"]};
  const auto type = event["type"];
  if (type.is("message_start")) {
    const auto message = event["message"];
    put_cut_off();
    streamed_ = {};
    streamed_.message = claude_id(message["id"].text());
    const members usage{message["usage"]};
    cost_.set_context_tokens(usage["input_tokens"].count() + usage["cache_read_input_tokens"].count() + usage["cache_creation_input_tokens"].count());
  } else if (type.is("content_block_start")) {
    put_cut_off();
    auto message = std::move(streamed_.message);
    streamed_ = {};
    streamed_.message = std::move(message);
    streamed_.block = event["index"].count();
    streamed_.kind = kind_of_words(event["content_block"]["type"]);
    next_block(streamed_.message) = streamed_.block;
  } else if (type.is("content_block_delta")) {
    stream_delta(event["delta"]);
  } else if (type.is("message_delta")) {
    cost_.set_context_tokens(cost_.context_tokens() + event["usage"]["output_tokens"].count());
  }
}

void claude_stream::stream_delta(const json_view& delta) {
  const auto type = delta["type"];
  const auto kind = type.is("text_delta")       ? internal::ITEM_TEXT
                    : type.is("thinking_delta") ? internal::ITEM_THOUGHT
                                                : internal::ITEM_KIND_UNSPECIFIED;
  if (kind == internal::ITEM_KIND_UNSPECIFIED || kind != streamed_.kind)
    return;
  const auto text = delta[kind == internal::ITEM_TEXT ? "text" : "thinking"].text();
  for (std::string_view rest = text; !rest.empty();) {
    auto piece = next_part(rest, true);
    rest.remove_prefix(piece.size());
    auto& d = *say().mutable_delta();
    d.set_item_id(item_id(streamed_.message, streamed_.block));
    d.set_kind(kind);
    d.set_text(std::string{piece});
    d.set_offset(streamed_.bytes);
    streamed_.bytes += piece.size();
  }
  streamed_.text += text;
  if (streamed_.text.size() > limits::agent_streamed_bytes_max)
    streamed_.text.erase(0, streamed_.text.size() - utf8_suffix(streamed_.text, limits::agent_streamed_bytes_max / 2).size());
}

std::optional<internal::Delta> claude_stream::open_item() const {
  if (streamed_.kind == internal::ITEM_KIND_UNSPECIFIED)
    return std::nullopt;
  internal::Delta out;
  out.set_item_id(item_id(streamed_.message, streamed_.block));
  out.set_kind(streamed_.kind);
  const auto end = utf8_suffix(streamed_.text, part_bytes_max);
  out.set_text(std::string{end});
  out.set_offset(streamed_.bytes - end.size());
  return out;
}

} // namespace swarm::agents
