// The input schemas of the MCP tools, and what they are built of.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <vector>

#include "gateway/mcp/schema.hpp"

namespace swarm::mcp {

/// swarm-mcp's 33 tools, in the order of tools/list.
const std::vector<std::string_view>& tool_names();
/// The input schema of one of them, as published plus descriptions; null for any other name.
json input_schema(std::string_view tool);

/// Builders. `about` is the description an agent reads; an empty one is left out.
namespace schemas {

struct property {
  std::string_view name;
  json schema;
  bool required;
};

/// Inclusive, but for `above`.
struct range {
  std::optional<std::int64_t> minimum{};
  std::optional<std::int64_t> above{};
  std::optional<std::int64_t> maximum{};
};

property required(std::string_view name, json schema);
/// May be absent; null is refused all the same.
property optional(std::string_view name, json schema);
/// May be absent, and is then `value`.
property defaulted(std::string_view name, json schema, json value);

json text(std::string_view about = {});
json flag(std::string_view about = {});
json integer(std::string_view about = {}, const range& = {});
json number(std::string_view about = {}, const range& = {});
json one_of(std::initializer_list<std::string_view> values, std::string_view about = {});
/// Exactly this text.
json literal(std::string_view value);
/// `size` bounds the number of elements (minimum and maximum).
json list(json of, std::string_view about = {}, const range& size = {});
json object(const std::vector<property>& properties, std::string_view about = {});
/// Of any members, kept as they are.
json free_form(std::string_view about = {});
json any_of(const std::vector<json>& options, std::string_view about = {});
json or_null(json schema, std::string_view about = {});
/// All arguments of a tool: what goes to tools/list as inputSchema.
json arguments(const std::vector<property>& properties);

} // namespace schemas

} // namespace swarm::mcp
