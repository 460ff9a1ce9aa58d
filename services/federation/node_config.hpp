// What config.toml says of this node to the cluster: its labels, and what it lets the other nodes do. Limits are read elsewhere.
//
//   [labels]
//   gpu = "yes"
//
//   [accept.spawn]                        # who of another node may start programs here
//   principals = ["operator", "gateway"]  # also session, device; "*" = all
//   harnesses = ["*"]                     # exec, shell, claude, codex, opencode, gemini, hermes
//   session_harnesses = ["claude"]        # of these, what agents of other nodes may start, when principals lists session
//   directories = ["/srv"]                # with what lies in them
//
//   [accept.terminals]                    # who of another node may look at terminals here, and type into them
//   read = ["operator", "gateway"]
//   write = ["operator", "gateway"]
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "actors/domain/accept.hpp"
#include "services/security/failure.hpp"

namespace swarm {

struct node_config {
  std::map<std::string, std::string> labels;
  domain::accept_policy accept;
};

/// The defaults when there is no such file. What is wrong is said with the key.
security_result<node_config> read_node_config(const std::filesystem::path& file);
/// The same from the text of such a file.
security_result<node_config> parse_node_config(std::string text);

} // namespace swarm
