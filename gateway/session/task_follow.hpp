// Following a dispatched task: what events tell of it and of its worker, when it is as far as the caller wants, and how that is told. The command
// line and the MCP server follow with it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include <nlohmann/json.hpp>

#include "swarm/v1/coordination.pb.h"

namespace swarm::mcp {

namespace v1 = ::swarm::v1;

/// An object, empty when the event says nothing more.
nlohmann::ordered_json payload_of(const v1::Event&);
/// The event is about this task: its subject, or named in its payload.
bool concerns(const v1::Event&, const std::string& task_id);

bool asked_for_worker(const v1::DispatchReply&);

/// Why a worker ended, or its task was reopened, in words for people.
std::string end_in_words(std::string reason);
/// The same of an event's payload or of a command's result, with the host if that was lost; empty when it says no reason.
std::string told_end(const nlohmann::ordered_json& what);

/// What is known of the task and of the worker that was asked for it.
struct task_follow {
  /// How far the task is followed: until a worker runs or cannot, or to the end of the task.
  enum class target { worker, end };

  v1::Task task; // as last read
  target until = target::end;
  bool bound = false;                // a worker process runs or ran for the task
  std::string last_spawn_error = {}; // why the last worker asked for never ran; empty while one may

  bool done() const;
  /// Of a command: exit_status, signal, duration_ms, output_tail, reason. Null for other tasks.
  nlohmann::ordered_json details() const;
  /// Why there is no worker; empty when there is one, was one or may be one.
  std::string spawn_error() const;
  /// The worker runs or has run.
  bool has_run() const;
  /// Takes an event that concerns the task. True when the row must be read again: the row decides, for an event may be older than a later attempt.
  bool take(const v1::Event&);
};

/// The follower's world. What the functions throw passes through.
struct follow_port {
  /// The row as it is now.
  std::function<v1::Task(const v1::Task&)> read;
  /// Delivers the events of the request in order until `on` returns false or the caller's time is over. When the position is no longer kept, it
  /// calls `on_reset` instead, and goes on from now if that returns true.
  std::function<void(const v1::WatchRequest&, const std::function<bool(const v1::Event&)>& on, const std::function<bool()>& on_reset)> watch;
  /// Hears each event that concerns the task.
  std::function<void(const v1::Event&)> tell;
  /// Hears of each approval of the scope; may be empty.
  std::function<void(const v1::Event&)> tell_approval = {};
};

/// Follows until done(), or until the watch ends by itself. `after`: the revision after which events matter; 0 = those from now on.
void follow(task_follow&, std::uint64_t after, const follow_port&);

// -- how it is told: parts of the answer to a dispatch ------------------------------------------

/// `status`, `error` and `spawned_instance` of the worker that was asked for.
void add_worker(nlohmann::ordered_json& payload, const v1::DispatchReply&, const task_follow&);
/// `timeout_ms` 0 = none.
nlohmann::ordered_json completion(const task_follow&, std::int64_t timeout_ms, std::int64_t waited_ms);
/// Marks the messages about the task as read and gives them: a caller that has waited for the end needs no mail about it. A failure leaves the rest
/// unread, because the result of the work matters more. `command`: of the caller, with its actor.
nlohmann::ordered_json consume_messages(const v1::Command& command, const std::string& task_id,
                                        const std::function<v1::Reply(const v1::Command&)>& execute);

} // namespace swarm::mcp
