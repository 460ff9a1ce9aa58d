// What the MCP server needs of the world: the node, and the process it runs in. The command line implements both; tests put a fake in
// their place.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "swarm/v1/coordination.pb.h"
#include "swarm/v1/pty.pb.h"

namespace swarm::mcp {

namespace v1 = ::swarm::v1;

using environment_list = std::vector<std::pair<std::string, std::string>>;

/// A call that brought no decision; what() is for people and says what to do next.
struct call_failed : std::runtime_error {
  enum class why {
    cancelled,       // by connection::cancel
    unknown_session, // the node does not know the session whose token was shown
    no_node,         // none is running and none may be started
    deadline,        // no answer in time
    refused,         // the node does not take this call
  };
  call_failed(why w, const std::string& text) : std::runtime_error(text), reason(w) {}
  why reason;
};

/// One caller's way to the node: one call at a time, except cancel(). A call goes on over a restart of the node, with the same request
/// id, until its deadline. Throws call_failed; a decision against the caller is a Refusal inside the answer.
class connection {
public:
  virtual ~connection() = default;
  /// `extra_ms` lengthens the deadline, for what waits in the node.
  virtual v1::Reply execute(const v1::Command&, const environment_list& environment = {}, std::int64_t extra_ms = 0) = 0;
  virtual v1::Answer ask(const v1::Query&) = 0;
  virtual v1::Activity wait_for_activity(const v1::WaitRequest&) = 0;
  /// Events in order until `on` returns false or `timeout_ms` (0 = none) has passed. Goes on where it was after a restart; a position that
  /// is no longer kept is told by an empty event list. `on` makes no call of its own on this connection.
  virtual void watch(v1::WatchRequest, std::int64_t timeout_ms, const std::function<bool(const v1::WatchReply&)>& on) = 0;
  virtual v1::PtyList list_ptys(const v1::ListPtysRequest&) = 0;
  /// Output in order until `on` returns false, the program has ended, `timeout_ms` (0 = none) has passed, or, unless the request follows,
  /// there is no more. Goes on where it was after a restart.
  virtual void read_pty(v1::ReadPtyRequest, std::int64_t timeout_ms, const std::function<bool(const v1::PtyChunk&)>& on) = 0;
  virtual v1::SendPtyReply send_to_pty(const v1::SendPtyRequest&) = 0;
  /// Ends the call in progress, or the next one; from any thread.
  virtual void cancel() = 0;
};

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
  /// What another process is to this one: the agent's program that has started it; somebody who runs and has nothing to do with it; or
  /// neither can be said.
  enum class kinship { agent, unclear, stranger };
  virtual kinship kin_of(std::int64_t pid, std::uint64_t start) const = 0;
  /// Throws std::exception when the label's identity is confined to other directories (contract 1.2).
  virtual void check_directories(const std::string& label, const std::string& directory, const std::string& file_root) const = 0;
  /// How a worker of that requester is asked for (contract 4.6). Throws std::exception when it may not start in `directory`.
  virtual worker_settings worker(const v1::Session& requester, const std::string& label, const std::string& harness,
                                 const std::string& directory) const = 0;
  /// A line for whoever reads the server's stderr.
  virtual void note(const std::string&) const = 0;
};

} // namespace swarm::mcp
