// What senders and recipients of messages are called that are no session.
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "actors/domain/rules.hpp"

namespace swarm::domain {

/// The person, what an ended agent has left behind, and the node.
inline constexpr std::array<std::string_view, 3> reserved_senders{"operator", "orphan", "system"};

inline bool is_reserved_sender(std::string_view name) {
  return std::find(reserved_senders.begin(), reserved_senders.end(), name) != reserved_senders.end();
}

/// A session of that label would be taken for one of them.
inline std::optional<v1::Reply> check_no_reserved_sender(std::string_view label) {
  for (const auto name : reserved_senders)
    if (has_token(label, name) || has_token(label, "name:" + std::string{name}))
      return refuse(v1::Refusal::INVALID, "A session is not called " + std::string{name} + ": messages show that name for " +
                                            (name == "operator" ? "the person"
                                             : name == "system" ? "the node"
                                                                : "what an ended agent has left behind") +
                                            ". Take another word for the label.");
  return std::nullopt;
}

} // namespace swarm::domain
