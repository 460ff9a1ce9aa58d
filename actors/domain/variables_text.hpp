// What is said of variables that a caller adds to a worker's environment (docs/security.md#environment).
#pragma once

namespace swarm::domain {

/// They are kept in memory by the caller's own node alone.
inline constexpr const char* variables_stay =
  "--env does not reach a worker on another host. Leave --on and --where out, so that the worker starts on this host, or name the variables in the "
  "command: -- env NAME=VALUE PROGRAM";

} // namespace swarm::domain
