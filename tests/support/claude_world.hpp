// A stream of Claude Code in whose first turn tests write what the program would.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "actors/agents/claude_stream.hpp"
#include "tests/support/claude_recording.hpp"

namespace swarm::test {

/// Lets the agent introduce itself; otherwise than it has to where `but` says so.
inline agents::claude_output introduce(agents::claude_stream& stream, const nlohmann::json& but = nlohmann::json::object()) {
  const auto asked = nlohmann::json::parse(stream.initialize());
  nlohmann::json response{
    {"subtype", "success"}, {"request_id", asked["request_id"]}, {"response", {{"hooks_applied", true}, {"hook_on_failure_supported", true}}}};
  response.merge_patch(but);
  const nlohmann::json frame{{"type", "control_response"}, {"response", response}};
  return stream.read(frame.dump() + "\n");
}

class claude_world {
public:
  explicit claude_world(std::size_t line_max = limits::agent_line_bytes_max) : stream(0, line_max) {
    introduce(stream);
    read({{"type", "system"}, {"subtype", "init"}, {"session_id", "s"}, {"model", "m"}, {"cwd", "/repo"}});
    said.clear();
  }
  agents::claude_output write(const std::string& bytes) { return take(stream.read(bytes)); }
  agents::claude_output take(agents::claude_output o) {
    said.insert(said.end(), o.said.begin(), o.said.end());
    return o;
  }
  agents::claude_output read(const nlohmann::json& frame) { return write(frame.dump() + "\n"); }
  agents::claude_output ask(const std::string& id, const nlohmann::json& input, const std::string& tool = "Write",
                            const nlohmann::json& further = nlohmann::json::object()) {
    nlohmann::json request{{"subtype", "can_use_tool"}, {"tool_name", tool}, {"input", input}, {"tool_use_id", "call of " + id}};
    request.update(further);
    return read({{"type", "control_request"}, {"request_id", id}, {"request", request}});
  }
  agents::claude_output block(const std::string& message, const nlohmann::json& content, const std::string& parent = {}) {
    nlohmann::json frame{{"type", "assistant"}, {"message", {{"id", message}, {"content", nlohmann::json::array({content})}}}};
    if (!parent.empty())
      frame["parent_tool_use_id"] = parent;
    return read(frame);
  }
  agents::claude_output result(const std::string& call, const nlohmann::json& content) {
    nlohmann::json block{{"type", "tool_result"}, {"tool_use_id", call}, {"content", content}};
    return read({{"type", "user"}, {"message", {{"content", nlohmann::json::array({block})}}}});
  }
  agents::claude_output ends(double cost) { return read({{"type", "result"}, {"is_error", false}, {"total_cost_usd", cost}}); }
  /// An answer to what was asked last under this id.
  internal::Answer to(const std::string& id, const std::string& option, const std::string& edited = {}) const {
    internal::Answer a;
    a.set_request_id(id);
    a.set_digest(digest_of(said, id));
    a.set_option(option);
    a.set_edited_input(edited);
    return a;
  }
  agents::claude_line answer(const std::string& id, const std::string& option, const std::string& edited = {}) {
    return stream.answer(to(id, option, edited));
  }
  std::vector<std::string> story() const { return story_of(said); }

  agents::claude_stream stream;
  std::vector<internal::FromDriver> said;
};

inline nlohmann::json text_block(const std::string& words) { return {{"type", "text"}, {"text", words}}; }
inline nlohmann::json call_block(const std::string& id, const std::string& tool) {
  return {{"type", "tool_use"}, {"id", id}, {"name", tool}, {"input", nlohmann::json::object()}};
}

inline std::string body_of(const std::vector<internal::FromDriver>& said) {
  std::string out;
  for (const auto& f : said)
    out += f.has_item() ? f.item().body() : f.request().body();
  return out;
}

} // namespace swarm::test
