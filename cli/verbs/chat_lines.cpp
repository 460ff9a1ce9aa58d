#include "cli/verbs/chat_lines.hpp"

#include <algorithm>

#include "actors/base/text.hpp"
#include "actors/domain/json_text.hpp"
#include "cli/verbs/chat_question.hpp"
#include "gateway/json/shapes.hpp"

namespace swarm::cli {

namespace {

constexpr std::size_t short_bytes = 100;

std::string cut(std::string_view text) {
  auto line = std::string{text.substr(0, text.find('\n'))};
  const bool more = line.size() < text.size() || line.size() > short_bytes;
  line = std::string{utf8_prefix(line, short_bytes)};
  return more ? line + " …" : line;
}

std::string text_of(const json& value) { return value.is_string() ? value.get<std::string>() : mcp::dump(value, -1); }

/// What tools call that which matters, the first one that is there.
constexpr const char* telling[] = {"command", "file_path", "notebook_path", "path", "pattern", "url", "query", "description", "prompt"};

chat_text plan_lines(const std::string& body) {
  const auto value = domain::parse_json(body).value_or(json{});
  const json* steps = &value;
  for (const auto* name : {"todos", "entries", "plan", "steps"})
    if (value.is_object() && value.contains(name))
      steps = &value.at(name);
  if (!steps->is_array())
    return lines_of_text(body, colour::cyan, "  ");
  chat_text out{{colour::cyan, "plan:"}};
  for (const auto& step : *steps) {
    const bool is_object = step.is_object() && step.contains("content");
    const auto state = is_object && step.contains("status") ? text_of(step.at("status")) : "";
    const auto* mark = state == "completed" ? "[x] " : state == "in_progress" ? "[>] " : "[ ] ";
    out.push_back({colour::cyan, concat({"  ", mark, cut(is_object ? text_of(step.at("content")) : text_of(step))})});
  }
  return out;
}

chat_text turn_lines(const v1::ConversationItem& item) {
  if (item.state() == "started")
    return {};
  const auto used = usage_text(item.usage());
  const auto behind = used.empty() ? "" : "  " + used;
  if (item.state() == "failed") {
    auto why = lines_of_text(item.body(), colour::red, "    ");
    chat_text out{{colour::red, "-- turn failed" + behind}};
    out.insert(out.end(), why.begin(), why.end());
    return out;
  }
  return {{colour::dim, (item.state() == "interrupted" ? "-- turn interrupted" : "-- turn ended") + behind}};
}

chat_text user_lines(const v1::ConversationItem& item) {
  auto out = lines_of_text(item.body(), colour::bold, "> ");
  for (const auto& a : item.attachments())
    out.push_back({colour::bold, concat({"> + ", a.name().empty() ? "" : a.name() + ", ", a.media_type(), ", ", byte_count(a.bytes())})});
  return out;
}

/// Indented JSON says nothing in its first line.
std::string in_one_line(std::string_view text) {
  constexpr std::size_t parsed_bytes_max = 64 * 1024;
  const bool may_be_json = text.size() <= parsed_bytes_max && (text.starts_with("{\n") || text.starts_with("[\n"));
  const auto value = may_be_json ? domain::parse_json(text) : std::nullopt;
  return value ? mcp::dump(*value, -1) : std::string{text};
}

chat_text result_lines(const v1::ConversationItem& item, const std::string& tool) {
  const bool is_text = item.media_type().empty() || item.media_type().starts_with("text/") || item.media_type() == "application/json";
  const auto what = is_text ? cut(in_one_line(trimmed(item.body()))) : concat({item.media_type(), ", ", byte_count(item.body().size())});
  return {{item.failed() ? colour::red : colour::green,
           concat({item.nested() ? "    " : "  ", item.failed() ? "failed" : "ok", tool.empty() ? "" : " ", tool, what.empty() ? "" : ": ", what})}};
}

const char* kind_of_request(const v1::ConversationItem& item) { return item.kind() == v1::CONVERSATION_PERMISSION ? "permission" : "question"; }

std::string bracketed(const std::string& approval_id) { return approval_id.empty() ? std::string{} : concat({"  [", short_id(approval_id), "]"}); }

} // namespace

std::string said_text::take(std::string_view more) {
  // What was said, what is asked, a tool, a thought, a notice.
  constexpr std::string_view marks = ">?*~!";
  constexpr std::string_view bar = "| ";
  std::string out;
  for (auto c : more) {
    if (!held_.empty()) {
      if (c == ' ')
        out += bar;
      out += std::exchange(held_, {});
    } else if (is_at_begin_ && marks.find(c) != marks.npos) {
      held_ = c;
      is_at_begin_ = false;
      continue;
    }
    out += c;
    is_at_begin_ = c == '\n';
  }
  return out;
}

std::string said_text::end() {
  is_at_begin_ = true;
  return std::exchange(held_, {});
}

std::string among_others(const chat_line& line) {
  if (!line.is_said)
    return line.text;
  said_text said;
  auto out = said.take(line.text);
  return out + said.end();
}

chat_text lines_of_text(std::string_view text, colour paint, std::string_view before, bool is_said) {
  chat_text out;
  while (text.ends_with('\n'))
    text.remove_suffix(1);
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    auto line = text.substr(0, end);
    if (line.ends_with('\r'))
      line.remove_suffix(1);
    out.push_back({paint, concat({before, line}), is_said});
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

std::string short_input(std::string_view json_text) {
  const auto input = domain::parse_json(json_text);
  if (input && input->is_object())
    for (const auto* name : telling)
      if (auto i = input->find(name); i != input->end() && i->is_string())
        return cut(i->get_ref<const std::string&>());
  return input && input->is_object() && input->empty() ? std::string{} : cut(input ? mcp::dump(*input, -1) : std::string{json_text});
}

chat_text action_lines(std::string_view body) {
  const auto input = domain::parse_json(body);
  if (!input || !input->is_object())
    return lines_of_text(body, colour::none, "    ");
  chat_text out;
  for (const auto& [name, value] : input->items()) {
    const auto text = text_of(value);
    if (text.find('\n') == text.npos) {
      out.push_back({colour::none, concat({"    ", name, ": ", text})});
      continue;
    }
    out.push_back({colour::none, concat({"    ", name, ":"})});
    auto lines = lines_of_text(text, colour::none, "      ");
    out.insert(out.end(), lines.begin(), lines.end());
  }
  return out;
}

std::string usage_text(const v1::Usage& u) {
  std::string out;
  const auto read = u.input_tokens() + u.cache_read_tokens() + u.cache_write_tokens();
  if (read + u.output_tokens() > 0)
    out = concat({read, " tokens in, ", u.output_tokens(), " out"});
  if (u.cost_known())
    out += concat({out.empty() ? "" : ", ", "$", fixed(u.cost_usd(), 4)});
  return out;
}

chat_text chat_lines::gap(const v1::ConversationResumed& r) { return {{colour::yellow, "! something is missing here: " + r.gap()}}; }

chat_text chat_lines::request_end(const v1::ConversationItem& item) {
  const auto known = asked_.extract({item.generation(), item.id()});
  const auto was_asked = !known.empty();
  const auto title = cut(!item.title().empty() || !was_asked ? item.title() : known.mapped().title);
  const auto id = !item.approval_id().empty() || !was_asked ? item.approval_id() : known.mapped().approval_id;
  const auto paint = item.state() == "deny" || item.state() == "expired" || item.state() == "withdrawn" ? colour::yellow : colour::green;
  const auto rule = item.rule().empty() ? std::string{} : concat({id.empty() ? "  (nobody was asked: " : "  (not as decided: ", item.rule(), ")"});
  return {{paint, concat({"  ", kind_of_request(item), ": ", item.state(), title.empty() ? "" : ": ", title, bracketed(id), rule})}};
}

chat_text chat_lines::request(const v1::ConversationItem& item) {
  if (item.state() != "asked")
    return request_end(item);
  asked_[{item.generation(), item.id()}] = {item.title(), item.approval_id()};
  chat_text out{{colour::yellow, concat({"? ", kind_of_request(item), ": ", item.title(), bracketed(item.approval_id())})}};
  const auto parts = item.kind() == v1::CONVERSATION_QUESTION ? question_parts(item.body()) : std::vector<question_part>{};
  for (const auto& part : parts)
    for (auto& line : lines_of_part(part))
      out.push_back(std::move(line));
  if (parts.empty())
    for (auto& line : action_lines(item.body()))
      out.push_back(std::move(line));
  if (item.body().empty() && !item.attachments().empty())
    out.push_back(
      {colour::none, concat({"    (", byte_count(item.attachments(0).bytes()), "; all of it: swarmctl approvals ", item.approval_id(), ")"})});
  return out;
}

chat_text chat_lines::of(const v1::ConversationItem& item) {
  switch (item.kind()) {
    case v1::CONVERSATION_USER: return user_lines(item);
    case v1::CONVERSATION_TEXT: {
      auto out = lines_of_text(item.body(), item.nested() ? colour::dim : colour::none, item.nested() ? "    " : "", !item.nested());
      if (item.aborted())
        out.push_back({colour::yellow, "  (cut off)"});
      return out;
    }
    case v1::CONVERSATION_THOUGHT: return lines_of_text(item.body(), colour::dim, "~ ");
    case v1::CONVERSATION_TOOL_CALL: {
      tools_[{item.generation(), item.id()}] = item.title();
      const auto input = short_input(item.body());
      return {{colour::cyan, concat({item.nested() ? "  * " : "* ", item.title(), input.empty() ? "" : "  ", input})}};
    }
    case v1::CONVERSATION_TOOL_RESULT: {
      const auto known = tools_.find({item.generation(), item.of()});
      return result_lines(item, !item.title().empty() ? item.title() : known != tools_.end() ? known->second : std::string{});
    }
    case v1::CONVERSATION_PLAN: return plan_lines(item.body());
    case v1::CONVERSATION_PERMISSION:
    case v1::CONVERSATION_QUESTION: return request(item);
    case v1::CONVERSATION_TURN: return turn_lines(item);
    default: {
      const auto text = trimmed(item.body());
      auto lines = lines_of_text(text, colour::yellow, "! ");
      if (lines.empty())
        lines.push_back({colour::yellow, "! " + item.title()});
      return lines;
    }
  }
}

} // namespace swarm::cli
