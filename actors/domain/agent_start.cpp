#include "actors/domain/agent_start.hpp"

#include <algorithm>

#include "actors/base/limits.hpp"
#include "actors/base/text.hpp"
#include "actors/domain/rules.hpp"

namespace swarm::domain {

namespace {

void add_grants(std::string_view list, v1::AgentStart& out) {
  constexpr std::string_view separators = ", \t";
  for (auto start = list.find_first_not_of(separators); start != list.npos; start = list.find_first_not_of(separators)) {
    list.remove_prefix(start);
    const std::string grant{list.substr(0, list.find_first_of(separators))};
    list.remove_prefix(grant.size());
    if (grant.size() <= limits::id_bytes_max && std::find(out.grants().begin(), out.grants().end(), grant) == out.grants().end() &&
        static_cast<std::size_t>(out.grants_size()) < limits::grants_max)
      out.add_grants(grant);
  }
}

} // namespace

std::string identity_name_of_start(std::string_view prefix, const variable_reader& variable) {
  for (const auto& value : {own_variable(prefix, variable, "IDENTITY"), variable("AGENT_IDENTITY"), variable("SWARM_IDENTITY")})
    if (auto name = identity_name(trimmed(value)); !name.empty() && name.size() <= limits::id_bytes_max)
      return name;
  return {};
}

std::string own_variable(std::string_view prefix, const variable_reader& variable, std::string_view name) {
  return std::string{trimmed(variable(concat({"SWARM_", prefix, "_", name})))};
}

std::string own_or_common_variable(std::string_view prefix, const variable_reader& variable, std::string_view name) {
  auto value = own_variable(prefix, variable, name);
  return value.empty() ? std::string{trimmed(variable(concat({"SWARM_", name})))} : value;
}

v1::AgentStart agent_start(std::string_view prefix, const variable_reader& variable) {
  v1::AgentStart out;
  auto label = own_variable(prefix, variable, "LABEL");
  if (label.empty())
    label = trimmed(variable("SWARM_MCP_LABEL"));
  if (auto token = identity_token(label); token.size() <= limits::id_bytes_max)
    out.set_identity(token);
  if (auto name = identity_name_of_start(prefix, variable); out.identity().empty() && !name.empty())
    out.set_identity("identity:" + name);
  auto role = own_or_common_variable(prefix, variable, "ROLE");
  std::transform(role.begin(), role.end(), role.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c; });
  out.set_coordinator(role == "gateway" || has_token(label, gateway_token));
  add_grants(own_or_common_variable(prefix, variable, "GRANTS"), out);
  auto id = std::string{trimmed(variable("SWARM_MCP_INSTANCE_ID"))};
  out.set_instance_id(id.size() <= limits::id_bytes_max ? id : std::string{});
  return out;
}

} // namespace swarm::domain
