// A tool's arguments against its input schema, judged in the words of zod 3, as in swarm-mcp, which clients have learnt to
// read. Of JSON schema this knows what tool_schemas.hpp builds: type (one, or one and "null"), enum, const, minimum,
// exclusiveMinimum, maximum, items, minItems, maxItems, properties, required, additionalProperties, anyOf and default.
//
// No deeper into the arguments than the schema goes, so what is dropped may be nested as it likes. A free-form object is taken
// over whole: parse arguments with domain::parse_json, which bounds the depth.
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace swarm::mcp {

using json = nlohmann::ordered_json;

/// What is wrong with the arguments: zod's issue objects in the order of the schema's properties, an empty array when all is well.
/// Arguments that were not sent at all are a discarded value (`json::value_t::discarded`), which is refused. Of very many issues
/// only the first are told.
json issues_with(const json& schema, const json& arguments);
/// The arguments in the schema's order, with its defaults and without what it does not name; an integer is one also when it came
/// as 1.0. Only for arguments without issues.
json accepted(const json& schema, const json& arguments);
/// The text of the error reply; `issues` as from issues_with(). Malformed UTF-8 becomes U+FFFD.
std::string validation_error(std::string_view tool, const json& issues);

} // namespace swarm::mcp
