// Which node swarmctl speaks to: the one of this user, or one that has a name in contexts.toml, on this host or behind ssh.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/environment.hpp"
#include "gateway/client/target.hpp"

namespace swarm::cli {

/// Names the node of this user, which is no entry of the file.
inline constexpr const char* default_context = "default";
inline constexpr std::size_t contexts_max = 64;
inline constexpr std::size_t contexts_file_bytes_max = 256 * 1024;
inline constexpr std::size_t context_value_bytes_max = 1024;

struct context_list {
  std::string current;          // empty = default
  std::vector<target> contexts; // by name

  const target* find(std::string_view name) const;
};

/// Why this cannot be an entry; empty when it can.
std::string objection_to(const target&);

/// $XDG_CONFIG_HOME/swarm/contexts.toml, else ~/.config/swarm/contexts.toml. Throws `failure` when neither can be formed.
std::filesystem::path contexts_file(const environment&);
/// No file is an empty list. Throws `failure`, with the line, for a file that is not as it should be.
context_list read_contexts(const std::filesystem::path&);
/// Reads, changes and replaces the file atomically, mode 0600; nothing is written when reading or `change` throws. Comments are not kept.
void change_contexts(const std::filesystem::path&, const std::function<void(context_list&)>& change);

/// Where a call may take its node from.
enum class node_choice {
  current, // --context, $SWARM_CONTEXT, $SWARM_HOME, `current` of the file, in this order
  told,    // the same without the file's `current`: hooks and MCP servers are started often, and by others
  own,     // the node of this user: what sets up this host, or is the other end of somebody else's context
};

struct chosen_node {
  std::optional<target> node; // empty = the node of this user
  std::string why;            // --context, SWARM_CONTEXT, SWARM_HOME, current; empty when nothing says anything
};

/// `flag`: value of --context. Inside a worker the answer is the node it runs on. Throws `failure`.
chosen_node choose_node(const std::string& flag, const environment&, node_choice);

} // namespace swarm::cli
