// How a session describes itself when its agent starts: label, role and work tracker, from the environment and the repository
// (docs/hooks.md). And the greeting that the model gets.
#pragma once

#include <optional>
#include <string>

#include "cli/environment.hpp"
#include "cli/hook/event.hpp"

namespace swarm::cli {

struct hook_identity {
  std::string label;
  std::string identity; // name without `identity:`, empty = none
  bool coordinator = false;
  std::string scope;     // from the agent's own variable (SWARM_CC_SCOPE); empty = as for any command
  std::string file_root; // likewise (SWARM_CC_FILE_ROOT)
  std::int64_t lease_ms = 0;
};

/// `directory` and `scope` bound the search for .swarm-role; `platform` is where the agent says it runs, empty = cli.
hook_identity identity_of(const agents::agent&, const environment&, const std::string& session, const std::string& directory,
                          const std::string& scope, const std::string& platform);

struct tracker_setting {
  std::string key;   // config/work_tracker/<identity>
  std::string value; // JSON
  std::string provider;
  std::string mcp;
};
/// The work tracker from the variables, or from the repository's .swarm-work-tracker.json. Nothing when none is configured or it cannot be read.
std::optional<tracker_setting> work_tracker_of(const agents::agent&, const environment&, const std::string& identity, const std::string& directory,
                                               const std::string& scope);

/// What the greeting says. An empty `id` means that registration failed, for `reason`.
struct hook_greeting {
  std::string id;
  bool coordinator = false;
  std::string reason;
  std::optional<tracker_setting> tracker; // as published
  std::string soul;                       // see soul_of()
  std::string block;                      // the ambient block
};
std::string greeting_text(const hook_greeting&);
/// The text of the file that $SWARM_<agent>_SOUL_FILE or $SWARM_SOUL_FILE names, for a coordinator; empty when there is none.
std::string soul_of(const agents::agent&, const environment&);

} // namespace swarm::cli
