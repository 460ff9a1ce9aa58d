// What the MCP server needs of the world: the node, and the process it runs in. The command line implements both; tests put a fake in
// their place.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gateway/client/connection.hpp"
#include "gateway/client/failure.hpp"
#include "swarm/v1/coordination.pb.h"
#include "swarm/v1/pty.pb.h"

namespace swarm::mcp {

namespace v1 = ::swarm::v1;

// Calls fail, and are made, as everywhere in front of a node.
using cli::call_failed;
using cli::connection;
using cli::environment_list;
namespace code = cli::code;

struct worker_settings {
  std::string harness;
  environment_list environment;
};

/// The process the server runs in.
class host {
public:
  virtual ~host() = default;
  /// Whether a call may start a node when none runs.
  enum class start { if_needed, never };
  /// With an empty token the process itself decides who calls.
  virtual std::unique_ptr<connection> connect(const std::string& token, start = start::if_needed) const = 0;
  /// A variable of the environment; empty when unset.
  virtual std::string variable(std::string_view name) const = 0;
  /// Overrides that the environment gives, and the work tracker. Throws std::exception when the latter cannot be read.
  virtual v1::Caller caller() const = 0;
  virtual std::string working_directory() const = 0;
  virtual std::string state_directory() const = 0;
  virtual std::int64_t now_ms() const = 0;
  /// For durations.
  virtual std::int64_t boot_ms() const = 0;
  /// A secret nobody else knows, as hex of 32 bytes.
  virtual std::string new_token() const = 0;
  /// Of this process, with its start in clock ticks since boot.
  virtual std::pair<std::int64_t, std::uint64_t> process() const = 0;
  /// Whether that process is the agent's program that has started this one.
  virtual bool is_agent(std::int64_t pid, std::uint64_t start) const = 0;
  /// Throws std::exception when this host has no such directory.
  virtual void check_directory(const std::string& directory) const = 0;
  /// Throws std::exception when the label's identity is confined to other directories (as in swarm-mcp).
  virtual void check_directories(const std::string& label, const std::string& directory, const std::string& file_root) const = 0;
  /// How a worker of that requester is asked for (as in swarm-mcp). Throws std::exception when it may not start in `directory`.
  virtual worker_settings worker(const v1::Session& requester, const std::string& label, const std::string& harness,
                                 const std::string& directory) const = 0;
  /// A line for the reader of the server's stderr.
  virtual void note(const std::string&) const = 0;
};

} // namespace swarm::mcp
