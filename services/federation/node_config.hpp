// The tables [labels] and [accept] of config.toml: this node's labels, and what it lets other nodes do. limits_config.hpp reads [limits].
//
//   [labels]
//   gpu = "yes"
//
//   [accept.spawn]                        # principals of other nodes that may start programs here
//   principals = ["operator", "gateway"]  # also session, device; "*" = all
//   harnesses = ["*"]                     # exec, shell, claude, codex, opencode, gemini, hermes
//   session_harnesses = ["claude"]        # the part of `harnesses` that sessions of other nodes may start, if principals has session
//   directories = ["/srv"]                # and everything below them
//
//   [accept.terminals]                    # principals of other nodes that may read terminals here, and write to them
//   read = ["operator", "gateway"]
//   write = ["operator", "gateway"]
//
//   [identity]
//   boundary = true                       # a session without an identity may not lock files of one that has one, nor the other way round
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
  bool identity_boundary = false;
};

/// The defaults when there is no such file. A failure's text names the key that is wrong.
security_result<node_config> read_node_config(const std::filesystem::path& file);
/// The same with the text of such a file.
security_result<node_config> parse_node_config(std::string text);

} // namespace swarm
