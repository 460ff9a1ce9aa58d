#include "gateway/json/conversation.hpp"

#include "actors/base/crypto.hpp"
#include "actors/base/text.hpp"
#include "actors/domain/json_text.hpp"
#include "actors/domain/permissions.hpp"

namespace swarm::mcp {

const char* conversation_state(v1::Conversation::State s) noexcept {
  switch (s) {
    case v1::Conversation::SUSPENDED: return "suspended";
    case v1::Conversation::STARTING: return "starting";
    case v1::Conversation::IDLE: return "idle";
    case v1::Conversation::RUNNING: return "running";
    case v1::Conversation::BLOCKED: return "blocked";
    case v1::Conversation::ENDED: return "ended";
    case v1::Conversation::LOST: return "lost";
    default: return "unknown";
  }
}

const char* prompt_state(v1::Prompt::State s) noexcept {
  switch (s) {
    case v1::Prompt::QUEUED: return "queued";
    case v1::Prompt::SENDING: return "sending";
    case v1::Prompt::SUBMITTED: return "submitted";
    case v1::Prompt::CONSUMED: return "consumed";
    case v1::Prompt::UNDELIVERABLE: return "undeliverable";
    default: return "unknown";
  }
}

json usage(const v1::Usage& u) {
  return {{"turns", u.turns()},
          {"input_tokens", u.input_tokens()},
          {"output_tokens", u.output_tokens()},
          {"cache_read_tokens", u.cache_read_tokens()},
          {"cache_write_tokens", u.cache_write_tokens()},
          {"cost_usd", u.cost_known() ? json(u.cost_usd()) : json(nullptr)}};
}

json attachment(const v1::Attachment& a) {
  return {{"name", text_or_null(a.name())}, {"media_type", a.media_type()}, {"bytes", a.bytes()}, {"digest", to_hex(a.digest())}};
}

std::optional<v1::Conversation::Permissions> permissions_named(std::string_view name) {
  for (auto p : {v1::Conversation::ASK, v1::Conversation::AUTO_EDIT, v1::Conversation::AUTO, v1::Conversation::PLAN, v1::Conversation::DENY})
    if (name == domain::to_text(p))
      return p;
  return std::nullopt;
}

json conversation(const v1::Conversation& c) {
  return {{"id", c.id()},
          {"scope", c.scope()},
          {"node_id", c.node_id()},
          {"harness", c.harness()},
          {"title", c.title()},
          {"directory", c.directory()},
          {"state", conversation_state(c.state())},
          {"reason", text_or_null(c.reason())},
          {"instance_id", text_or_null(c.session_id())},
          {"generation", c.generation()},
          {"native_session", text_or_null(c.native_session())},
          {"agent_version", text_or_null(c.agent_version())},
          {"model", text_or_null(c.model())},
          {"mode", text_or_null(c.mode())},
          {"permissions", domain::to_text(c.permissions())},
          {"permissions_end", seconds_or_null(c.permissions_end_ms())},
          {"allowed", json(c.allowed())},
          {"task_id", text_or_null(c.task_id())},
          {"turn", text_or_null(c.open_turn())},
          {"background", c.background()},
          {"queued", c.queued()},
          {"held", c.held()},
          {"last_text", text_or_null(c.last_text())},
          {"usage", usage(c.usage())},
          {"created_at", seconds(c.created_at_ms())},
          {"changed_at", seconds(c.changed_at_ms())},
          {"ended_at", seconds_or_null(c.ended_at_ms())}};
}

std::optional<v1::ConversationItem> whole_items::take(const v1::ConversationItem& part) {
  if (open_ && (open_->id() != part.id() || open_->kind() != part.kind() || open_->generation() != part.generation()))
    open_.reset();
  if (!open_) {
    open_ = part;
  } else {
    auto body = std::move(*open_->mutable_body());
    body += part.body();
    open_ = part;
    *open_->mutable_body() = std::move(body);
  }
  return part.last() ? std::exchange(open_, std::nullopt) : std::nullopt;
}

namespace {

/// JSON as a value; what is none as a text.
json value_of(const std::string& text) {
  auto value = domain::parse_json(text);
  return value ? std::move(*value) : json(to_utf8(text));
}

bool is_text(const std::string& media_type) { return media_type.empty() || media_type.starts_with("text/"); }

/// Of what is no text only what it is.
void add_output(json& out, const v1::ConversationItem& item) {
  if (item.media_type() == "application/json")
    out["output"] = value_of(item.body());
  else
    out["output"] = is_text(item.media_type()) ? json(to_utf8(item.body())) : json(nullptr);
  if (!item.media_type().empty())
    out["media_type"] = item.media_type();
  if (out["output"].is_null())
    out["bytes"] = item.body().size();
}

void add_nesting(json& out, const v1::ConversationItem& item) {
  if (item.nested())
    out["nested_in"] = item.of();
  if (item.aborted())
    out["aborted"] = true;
}

json attachments_of(const v1::ConversationItem& item) {
  auto out = json::array();
  for (const auto& a : item.attachments())
    out.push_back(attachment(a));
  return out;
}

json prompts_of(const v1::ConversationItem& item) {
  auto out = json::array();
  for (const auto& id : item.prompts())
    out.push_back(id);
  return out;
}

/// For scripts a turn has three states: one that somebody has interrupted has ended.
const char* turn_state(const v1::ConversationItem& item) {
  return item.state() == "started" ? "started" : item.state() == "failed" ? "failed" : "ended";
}

bool has_used(const v1::Usage& u) {
  return u.cost_known() || u.input_tokens() + u.output_tokens() + u.cache_read_tokens() + u.cache_write_tokens() > 0;
}

/// Behind the cursor before an item: its usage was read, its end was not.
constexpr std::string_view behind_usage = "+usage";

} // namespace

std::string log_cursor(const std::string& line_cursor) {
  return line_cursor.ends_with(behind_usage) ? line_cursor.substr(0, line_cursor.size() - behind_usage.size()) : line_cursor;
}

conversation_lines::conversation_lines(std::string cursor) : cursor_(std::move(cursor)) {
  auto of_log = log_cursor(cursor_);
  has_usage_ = of_log != cursor_;
  cursor_ = std::move(of_log);
}

json conversation_lines::head(const v1::ConversationItem& item, const char* kind, const std::string& cursor) const {
  return {{"cursor", cursor}, {"kind", kind}, {"at", seconds(item.at_ms())}, {"id", item.id()}, {"generation", item.generation()}};
}

std::string conversation_lines::tool_of(const v1::ConversationItem& result) const {
  const auto known = tools_.find({result.generation(), result.of()});
  return !result.title().empty() ? result.title() : known != tools_.end() ? known->second : std::string{};
}

std::vector<json> conversation_lines::take(const v1::ConversationChunk& chunk) {
  if (chunk.has_resumed()) {
    const auto& r = chunk.resumed();
    if (r.gap().empty())
      return {};
    parts_.forget();
    has_usage_ = false;
    return {{{"cursor", cursor_}, {"kind", "gap"}, {"at", nullptr}, {"reason", r.gap()}, {"from", r.from()}, {"to", r.to()}}};
  }
  std::vector<json> out;
  if (chunk.has_item())
    if (auto whole = parts_.take(chunk.item())) {
      out = of(*whole);
      cursor_ = whole->cursor();
      has_usage_ = false;
    }
  // In the middle of an item a reader that goes on would take the rest for the whole of it.
  if (chunk.has_caught_up() && !chunk.caught_up().cursor().empty() && !parts_.is_open())
    cursor_ = chunk.caught_up().cursor();
  return out;
}

std::vector<json> conversation_lines::of(const v1::ConversationItem& item) {
  const auto& behind = item.cursor();
  auto words = [&](const char* kind) {
    auto out = head(item, kind, behind);
    out["text"] = to_utf8(item.body());
    add_nesting(out, item);
    return out;
  };
  switch (item.kind()) {
    case v1::CONVERSATION_USER: {
      auto out = words("user");
      out["prompts"] = prompts_of(item);
      if (!item.attachments().empty())
        out["attachments"] = attachments_of(item);
      return {out};
    }
    case v1::CONVERSATION_TEXT: return {words("text")};
    case v1::CONVERSATION_THOUGHT: return {words("thought")};
    case v1::CONVERSATION_TOOL_CALL: {
      tools_[{item.generation(), item.id()}] = item.title();
      auto out = head(item, "tool", behind);
      out.update({{"state", "called"}, {"tool", item.title()}, {"input", value_of(item.body())}});
      add_nesting(out, item);
      return {out};
    }
    case v1::CONVERSATION_TOOL_RESULT: {
      auto out = head(item, "tool", behind);
      out.update({{"state", item.failed() ? "failed" : "done"}, {"tool", tool_of(item)}, {"of", item.of()}});
      add_output(out, item);
      add_nesting(out, item);
      return {out};
    }
    case v1::CONVERSATION_PLAN: {
      auto out = head(item, "plan", behind);
      out["plan"] = value_of(item.body());
      return {out};
    }
    case v1::CONVERSATION_PERMISSION:
    case v1::CONVERSATION_QUESTION: {
      auto out = head(item, item.kind() == v1::CONVERSATION_PERMISSION ? "permission" : "question", behind);
      out.update({{"state", item.state()},
                  {"approval", text_or_null(item.approval_id())},
                  {"title", text_or_null(item.title())},
                  {"body", text_or_null(to_utf8(item.body()))}});
      if (!item.rule().empty())
        out["rule"] = item.rule();
      if (!item.attachments().empty())
        out["attachments"] = attachments_of(item);
      return {out};
    }
    case v1::CONVERSATION_TURN: {
      std::vector<json> out;
      // Before the end, which a reader may stop at.
      if (item.state() != "started" && has_used(item.usage()) && !has_usage_) {
        out.push_back(head(item, "usage", cursor_ + std::string{behind_usage}));
        out.back().update(usage(item.usage()));
        out.back().erase("turns");
      }
      auto turn = head(item, "turn", behind);
      turn.update({{"state", turn_state(item)},
                   {"interrupted", item.state() == "interrupted"},
                   {"prompts", prompts_of(item)},
                   {"text", text_or_null(to_utf8(item.body()))}});
      out.push_back(std::move(turn));
      return out;
    }
    default: {
      auto out = head(item, "notice", behind);
      out.update({{"notice", item.title()}, {"text", to_utf8(item.body())}});
      return {out};
    }
  }
}

} // namespace swarm::mcp
