// The variables of this process, as values, so that tests give their own.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "gateway/client/ports.hpp"

namespace swarm::cli {

using variables = std::map<std::string, std::string, std::less<>>;

class environment {
public:
  environment() = default;
  explicit environment(variables values) : values_(std::move(values)) {}
  /// What this process was started with.
  static environment of_process();

  /// Empty when unset: swarm-mcp treats both alike.
  std::string get(std::string_view name) const;
  bool has(std::string_view name) const { return values_.contains(name); }
  /// 1, true, yes or on, in any case, blanks trimmed.
  bool truthy(std::string_view name) const;
  /// What a worker of this harness inherits.
  environment_list inheritable(std::string_view harness) const;
  /// Identity of this process: the first of AGENT_IDENTITY, SWARM_IDENTITY and the harness-specific ones.
  std::string identity() const;
  /// Name of the tracker that $SWARM_WORK_TRACKER configures, as `provider:mcp` or a JSON object with a `provider`; empty when unset.
  /// Throws `failure` (usage) for anything else.
  std::string work_tracker() const;
  /// With further variables, which count where this has none, or first.
  environment over(const variables& others) const;
  environment under(const variables& others) const;
  /// This process runs inside a worker.
  bool in_worker() const { return !get("SWARM_SPAWN_ID").empty(); }

private:
  variables values_;
};

/// For a help text.
inline constexpr const char* variable_words = "NAME=VALUE, or NAME as it is here, for the program's environment (repeatable)";
inline constexpr const char* identity_words = "the session gets the label identity:NAME ($AGENT_IDENTITY)";
/// Puts what --env has given into what is inherited, and returns it. Throws `failure` (usage) for what is no variable, for one that is not set
/// here, and for SWARM_*.
variables add_variables(environment_list&, const environment& here, const std::vector<std::string>& given);

} // namespace swarm::cli
