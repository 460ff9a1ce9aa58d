// Starting swarmd: in a session of its own, with a clean environment, waiting until it says that it is ready.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "actors/base/paths.hpp"

namespace swarm::cli {

/// The swarmd that lies beside this program.
std::filesystem::path swarmd_path();

enum class start_outcome {
  started, // and ready
  owned,   // another swarmd has the state directory: it may be coming up or stopping
};

/// Returns once swarmd is ready or another one turned out to own the state directory. Throws `call_failed` with the end of its log
/// when it could not start.
start_outcome start_node(const state_dir&, const std::string& node_name, std::int64_t timeout_ms);

/// Replaces this process by swarmd in the foreground. Throws `call_failed` if that is not possible.
[[noreturn]] void become_node(const state_dir&, const std::string& node_name);

} // namespace swarm::cli
