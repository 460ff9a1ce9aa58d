#include "actors/agents/claude_lines.hpp"

#include <algorithm>

#include <sodium.h>

#include "actors/base/text.hpp"

namespace swarm::agents::claude_lines {

namespace {

constexpr std::size_t suggestions_max = 64;

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

std::string block_of(const prompt_part& part) {
  if (part.media_type.empty())
    return concat({R"({"type":"text","text":)", json_quoted(part.text), "}"});
  const char* type = part.media_type.starts_with("image/") ? "image" : "document";
  return concat({R"({"type":")", type, R"(","source":{"type":"base64","media_type":)", json_quoted(part.media_type), R"(,"data":")",
                 base64(part.text), R"("}})"});
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
  constexpr std::string_view writing = R"("matcher":"Edit|Write|NotebookEdit|Bash",)";
  return control(request, "initialize",
                 concat({R"(,"hooks":{"PreToolUse":[{)", writing, R"("hookCallbackIds":[)", json_quoted(before_tool),
                         R"(],"timeout":10,"onFailure":"block"}],"PostToolUse":[{)", writing, R"("hookCallbackIds":[)", json_quoted(after_tool),
                         R"(],"timeout":10}]})"}));
}

std::string prompt(std::string_view id, std::span<const prompt_part> parts) {
  std::string content;
  if (parts.size() == 1 && parts.front().media_type.empty()) {
    content = json_quoted(parts.front().text);
  } else {
    for (const auto& p : parts)
      content += (content.empty() ? "[" : ",") + block_of(p);
    content += content.empty() ? "[]" : "]";
  }
  return concat({R"({"type":"user","message":{"role":"user","content":)", content, R"(},"parent_tool_use_id":null,"session_id":"","uuid":)",
                 json_quoted(id), "}\n"});
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
  for (const auto& s : suggestions.elements(suggestions_max)) {
    if (!s["type"].is("addRules") || !s["behavior"].is("allow"))
      continue;
    for (const auto& rule : s["rules"].elements(suggestions_max)) {
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
