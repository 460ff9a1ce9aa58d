// The server's resources and prompts (as in swarm-mcp).
#pragma once

#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "gateway/mcp/member.hpp"

namespace swarm::mcp {

using json = nlohmann::ordered_json;

inline constexpr const char* inbox_uri = "swarm://inbox";
inline constexpr const char* tasks_uri = "swarm://tasks";
inline constexpr const char* instances_uri = "swarm://instances";
inline constexpr const char* context_uri = "swarm://context";

json resource_list();
json resource_templates();
/// The content as text, or nullopt when there is no such resource. `bound` may be null.
std::optional<std::string> read_resource(const std::string& uri, const host&, connection&, const binding_ptr& bound);

json prompt_list();
/// The result of prompts/get, or nullopt when there is no such prompt.
std::optional<json> get_prompt(const std::string& name);

} // namespace swarm::mcp
