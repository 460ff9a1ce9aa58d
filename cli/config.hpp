// What config.toml says of the command line itself. Limits are read at the start; labels and rules are the node's.
#pragma once

#include <filesystem>
#include <string>

namespace swarm::cli {

struct terminal_config {
  std::string detach_key; // empty: not set
};

/// `[terminal]` of the file; as if it were empty when there is no file. Throws `failure` that names file and line.
terminal_config read_terminal_config(const std::filesystem::path& file);

} // namespace swarm::cli
