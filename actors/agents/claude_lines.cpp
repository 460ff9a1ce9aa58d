#include "actors/agents/claude_lines.hpp"

#include <algorithm>

#include <sodium.h>

#include "actors/base/limits.hpp"
#include "actors/base/text.hpp"

namespace swarm::agents::claude_lines {

namespace {

std::string control(std::string_view request, std::string_view subtype, std::string_view further = {}) {
  return concat(
    {R"({"type":"control_request","request_id":)", json_quoted(request), R"(,"request":{"subtype":)", json_quoted(subtype), further, "}}\n"});
}

std::string reply(std::string_view request, std::string_view response) {
  return concat(
    {R"({"type":"control_response","response":{"subtype":"success","request_id":)", json_quoted(request), R"(,"response":)", response, "}}\n"});
}

std::string base64(std::string_view bytes) {
  std::string out(sodium_base64_encoded_len(bytes.size(), sodium_base64_VARIANT_ORIGINAL), '\0');
  sodium_bin2base64(out.data(), out.size(), reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), sodium_base64_VARIANT_ORIGINAL);
  out.pop_back(); // the NUL
  return out;
}

/// By its first bytes: its media type; empty for any other.
std::string_view image_type_of(std::string_view bytes) {
  using namespace std::string_view_literals;
  if (bytes.starts_with("\x89PNG\r\n\x1a\n"sv))
    return "image/png";
  if (bytes.starts_with("\xff\xd8\xff"sv))
    return "image/jpeg";
  if (bytes.starts_with("GIF87a"sv) || bytes.starts_with("GIF89a"sv))
    return "image/gif";
  return bytes.starts_with("RIFF"sv) && bytes.substr(0, 12).ends_with("WEBP"sv) ? "image/webp"sv : ""sv;
}

bool is_pdf(std::string_view bytes) { return bytes.starts_with("%PDF-"); }
bool is_text(std::string_view bytes) { return bytes.find('\0') == bytes.npos && is_utf8(bytes); }

std::string name_of(const prompt_part& part) { return part.name.empty() ? std::string{"the file"} : escape_control(part.name, false); }

std::string text_block(std::string_view text) { return concat({R"({"type":"text","text":)", json_quoted(text), "}"}); }

/// Of a file: its name stands beside it.
std::string blocks_of(const prompt_part& part) {
  if (part.media_type.empty())
    return text_block(part.text);
  if (auto type = image_type_of(part.text); !type.empty())
    return concat({part.name.empty() ? std::string{} : text_block(name_of(part) + ":") + ",",
                   R"({"type":"image","source":{"type":"base64","media_type":)", json_quoted(type), R"(,"data":")", base64(part.text), R"("}})"});
  if (is_pdf(part.text))
    return concat({R"({"type":"document","source":{"type":"base64","media_type":"application/pdf","data":")", base64(part.text), R"("})",
                   part.name.empty() ? std::string{} : R"(,"title":)" + json_quoted(part.name), "}"});
  return text_block(concat({name_of(part), ":\n", part.text}));
}

/// JSON that goes into a line. In JSON a line break stands only between values.
std::string on_one_line(std::string_view json) {
  std::string out{json};
  std::replace_if(
    out.begin(), out.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
  return out;
}

} // namespace

std::string initialize(std::string_view request) {
  // Before every tool: one that is not known here may run a command.
  return control(
    request, "initialize",
    concat({R"(,"hooks":{"PreToolUse":[{"matcher":".*","hookCallbackIds":[)", json_quoted(before_tool),
            R"(],"timeout":10,"onFailure":"block"}],"PostToolUse":[{"matcher":"Write|Edit|MultiEdit|NotebookEdit|Bash|Monitor|mcp__.*",)",
            R"("hookCallbackIds":[)", json_quoted(after_tool), R"(],"timeout":10}]})"}));
}

std::string prompt(std::string_view id, std::span<const prompt_part> parts) {
  std::string content;
  if (parts.size() == 1 && parts.front().media_type.empty()) {
    content = json_quoted(parts.front().text);
  } else {
    for (const auto& p : parts)
      if (!p.media_type.empty() || !p.text.empty()) // its service takes no empty text
        content += (content.empty() ? "[" : ",") + blocks_of(p);
    content += content.empty() ? "[]" : "]";
  }
  return concat({R"({"type":"user","message":{"role":"user","content":)", content, R"(},"parent_tool_use_id":null,"session_id":"","uuid":)",
                 json_quoted(id), "}\n"});
}

std::string why_not_taken(const prompt_part& part) {
  constexpr std::string_view otherwise = "; put it into the agent's directory and say its path";
  if (part.media_type.empty() || is_pdf(part.text))
    return {};
  if (!image_type_of(part.text).empty())
    return part.text.size() <= limits::agent_image_bytes_max
             ? std::string{}
             : concat({name_of(part), " is larger than the ", limits::agent_image_bytes_max / limits::kib,
                       " KiB that the agent takes of an image; make it smaller"});
  if (part.media_type.starts_with("image/"))
    return concat({name_of(part), " cannot be shown to the agent, which takes PNG, JPEG, GIF and WebP", otherwise});
  if (!is_text(part.text))
    return concat({name_of(part), " (", escape_control(part.media_type, false),
                   ") is neither text nor an image nor PDF, and the agent takes nothing else", otherwise});
  return part.text.size() <= limits::agent_text_file_bytes_max
           ? std::string{}
           : concat({name_of(part), " is larger than the ", limits::agent_text_file_bytes_max / limits::kib, " KiB of text that the agent takes",
                     otherwise});
}

std::string allow(std::string_view request, std::string_view input, std::string_view permissions) {
  auto kept = permissions.empty() ? std::string{} : concat({R"(,"updatedPermissions":)", permissions});
  return reply(request, concat({R"({"behavior":"allow","updatedInput":)", on_one_line(input), on_one_line(kept), "}"}));
}

std::string deny(std::string_view request, std::string_view reason, bool ends_turn) {
  return reply(request, concat({R"({"behavior":"deny","message":)", json_quoted(reason), R"(,"interrupt":)", ends_turn ? "true}" : "false}"}));
}

std::string interrupt(std::string_view request, bool drops_prompts) {
  return control(request, "interrupt", drops_prompts ? R"(,"cancel_queued":true)" : "");
}
std::string set_model(std::string_view request, std::string_view model) {
  return control(request, "set_model", concat({R"(,"model":)", json_quoted(model)}));
}
std::string set_mode(std::string_view request, std::string_view mode) {
  return control(request, "set_permission_mode", concat({R"(,"mode":)", json_quoted(mode)}));
}

std::string pass_hook(std::string_view request) { return reply(request, "{}"); }

std::string deny_hook(std::string_view request, std::string_view reason) {
  return reply(request, concat({R"({"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":)",
                                json_quoted(reason), "}}"}));
}

std::string unsupported(std::string_view request) {
  return concat({R"({"type":"control_response","response":{"subtype":"error","request_id":)", json_quoted(request),
                 R"(,"error":"This driver does not support the request"}})", "\n"});
}

std::string with_answers(const json_view& input, std::string_view answers) {
  if (!input.is_object())
    return concat({R"({"answers":)", answers, "}"});
  auto members = trimmed(input.raw().substr(1, input.raw().size() - 2));
  return concat({"{", members, members.empty() ? "" : ",", R"("answers":)", answers, "}"});
}

bool may_keep_rule(const json_view& suggestions, std::string_view tool, std::string_view command) {
  // In a rule `*` stands for anything, a trailing `:*` among it; with the others a line is more than one command, or another one each time.
  if (tool != "Bash" || command.empty() || command.find_first_of("*;&|<>()`$\n\r") != command.npos)
    return false;
  bool is_suggested = false;
  for (const auto& s : suggestions.elements(limits::agent_suggestions_max)) {
    if (!s["type"].is("addRules") || !s["behavior"].is("allow"))
      continue;
    for (const auto& rule : s["rules"].elements(limits::agent_suggestions_max)) {
      if (!rule["toolName"].is(tool) || !rule["ruleContent"].is(command))
        return false;
      is_suggested = true;
    }
  }
  return is_suggested;
}

std::string rule_of(std::string_view command) {
  return concat({R"([{"type":"addRules","rules":[{"toolName":"Bash","ruleContent":)", json_quoted(command),
                 R"(}],"behavior":"allow","destination":"session"}])"});
}

} // namespace swarm::agents::claude_lines
