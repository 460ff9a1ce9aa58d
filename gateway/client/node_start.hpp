// Starting swarmd: in a session of its own, with a clean environment, waiting until it says that it is ready.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "actors/base/paths.hpp"
#include "swarm/v1/pty.pb.h"

namespace swarm::cli {

/// The swarmd that lies beside this program.
std::filesystem::path swarmd_path();

/// No node answers at the socket: what to say, and what to do next.
std::string no_node_text(const state_dir&);

enum class start_outcome {
  started, // and ready
  owned,   // another swarmd has the state directory: it may be coming up or stopping
  stopped, // the operator has stopped the node, and `wanted` was not said
};

/// Why a node is started: because somebody asks for it, which ends what `swarmctl down` began, or because a command needs one.
enum class start_reason { wanted, needed };

struct start_wish {
  start_reason why = start_reason::wanted;
  bool take_keeper = false; // the keeper that runs, whatever restricts it
};

/// Returns once swarmd is ready or another one turned out to own the state directory. Throws `call_failed` with the end of its log
/// when it could not start.
start_outcome start_node(const state_dir&, const std::string& node_name, const start_wish&, std::int64_t timeout_ms);

/// The keeper of this directory's node, which may live without it.
std::optional<pid_t> keeper_of(const state_dir&);

/// Keeps a node that does not run down until somebody wants it. Returns whether programs go on with its keeper. Throws `call_failed`.
bool mark_stopped(const state_dir&);

/// What goes on with the keeper of a node that does not run. Throws `call_failed`.
std::vector<v1::PtyInfo> kept_programs(const state_dir&);
/// Ends them, and says so in the mark. Returns what it ended. Throws `call_failed`.
std::vector<v1::PtyInfo> end_kept_programs(const state_dir&);

/// What would keep a node from starting, a text each; none when it can. Throws `call_failed` when that cannot be found out.
std::vector<std::string> obstacles_to_start(const state_dir&);

/// Puts a backup in the place of the store of a node that does not run. Where the old files went; empty when there were none. Throws `call_failed`.
std::string restore_backup(const state_dir&, const std::string& file);

/// Replaces this process by swarmd in the foreground. Throws `call_failed` if that is not possible.
[[noreturn]] void become_node(const state_dir&, const std::string& node_name);

} // namespace swarm::cli
