// JSON-RPC 2.0 as MCP speaks it over a stream: one message a line.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace swarm::mcp {

using json = nlohmann::ordered_json;

namespace rpc {

inline constexpr int parse_error = -32700;
inline constexpr int invalid_request = -32600;
inline constexpr int method_not_found = -32601;
inline constexpr int invalid_params = -32602;
inline constexpr int internal_error = -32603;
/// The stateless protocol's own: a version that is not spoken.
inline constexpr int unsupported_version = -32022;

/// A failure of a request as JSON-RPC tells it.
struct error : std::runtime_error {
  error(int c, const std::string& text, json more = nullptr) : std::runtime_error(text), code(c), data(std::move(more)) {}
  int code;
  json data; // null = none
};

/// What a client sent. A notification has no id.
struct message {
  json id = nullptr; // text or integer
  std::string method;
  json params = json::object();
  bool is_notification() const noexcept { return id.is_null(); }
};

/// What the line holds: a message, or the answer to a malformed line, or neither for an answer to a request nobody made, which is passed over.
struct parsed_line {
  std::optional<message> received;
  std::optional<json> answer;
};
parsed_line parse(std::string_view line);

json result_of(const json& id, json result);
json error_of(const json& id, const error&);
json notification(std::string_view method, json params);
/// One line, without its end; malformed UTF-8 in it becomes U+FFFD.
std::string to_line(const json&);

} // namespace rpc

} // namespace swarm::mcp
