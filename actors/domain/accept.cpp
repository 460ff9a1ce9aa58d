#include "actors/domain/accept.hpp"

#include <algorithm>
#include <array>

#include "actors/base/paths.hpp"
#include "actors/domain/rights.hpp"

namespace swarm::domain {

namespace {

bool holds(const std::vector<std::string>& list, std::string_view name) {
  return std::any_of(list.begin(), list.end(), [&](const auto& x) { return x == "*" || x == name; });
}

/// "*" is all whom a rule can name: what has no such name on its own host has no rights on another one either.
bool lists(const std::vector<std::string>& principals, std::string_view name) { return is_accept_principal(name) && holds(principals, name); }

std::string refusal(std::string_view rule, std::string_view what) {
  return std::string{rule} + " of this node's config.toml does not list " + std::string{what};
}

} // namespace

bool is_accept_principal(std::string_view name) noexcept {
  constexpr std::array<std::string_view, 5> known{"operator", "gateway", "session", "device", "*"};
  return std::find(known.begin(), known.end(), name) != known.end();
}

std::optional<std::string> refused_spawn(const accept_policy& p, const v1::Spawn& asked, const std::string& directory) {
  const auto kind = asked.requested_by().kind();
  if (const auto who = name_of(kind); !lists(p.spawn.principals, who))
    return refusal("accept.spawn.principals", who);
  if (!holds(p.spawn.harnesses, asked.harness()))
    return refusal("accept.spawn.harnesses", asked.harness());
  if (kind == v1::Principal::SESSION && !holds(p.spawn.session_harnesses, asked.harness()))
    return refusal("accept.spawn.session_harnesses", asked.harness());
  const auto& allowed = p.spawn.directories;
  if (std::none_of(allowed.begin(), allowed.end(), [&](const auto& d) { return d == "*" || is_inside(d, directory); }))
    return refusal("accept.spawn.directories", directory);
  return std::nullopt;
}

std::optional<std::string> refused_terminal(const accept_policy& p, const v1::Principal& who, bool writes) {
  if (lists(writes ? p.terminals.write : p.terminals.read, name_of(who.kind())))
    return std::nullopt;
  return refusal(writes ? "accept.terminals.write" : "accept.terminals.read", name_of(who.kind()));
}

} // namespace swarm::domain
