// What a session says of itself when its agent starts: label, role and work tracker from the environment and the repository (contract
// 5.3), and the words it is greeted with.
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
  std::string scope;     // as given by the host's own variables; empty = as for any command
  std::string file_root; // the same
  std::int64_t lease_ms = 0;
};

/// `directory` and `scope` bound the search for .swarm-role; `platform` is what the host says it runs on, empty = cli.
hook_identity identity_of(const agents::agent&, const environment&, const std::string& session, const std::string& directory,
                          const std::string& scope, const std::string& platform);

struct tracker_setting {
  std::string key;   // config/work_tracker/<identity>
  std::string value; // JSON
  std::string provider;
  std::string mcp;
};
/// From the variables, or the repository's .swarm-work-tracker.json. Nothing when none is configured or it cannot be read.
std::optional<tracker_setting> work_tracker_of(const agents::agent&, const environment&, const std::string& identity, const std::string& directory,
                                               const std::string& scope);

/// What is printed for the model; `id` empty: registration failed for `reason`.
struct hook_greeting {
  std::string id;
  bool coordinator = false;
  std::string reason;
  std::optional<tracker_setting> tracker; // published
  std::string soul;                       // text of the configured file
  std::string block;                      // of ambient_block.hpp
};
std::string greeting_text(const hook_greeting&);
/// The file a gateway's $SWARM_<host>_SOUL_FILE or $SWARM_SOUL_FILE names; empty when there is none.
std::string soul_of(const agents::agent&, const environment&);

} // namespace swarm::cli
