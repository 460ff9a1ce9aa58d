// What events tell of a task and of the worker that was asked for it. Shared by the MCP server and the command line.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "swarm/v1/coordination.pb.h"

namespace swarm::mcp {

namespace v1 = ::swarm::v1;

/// An object, empty when the event says nothing more.
nlohmann::ordered_json payload_of(const v1::Event&);
/// The event is about this task: its subject, or named in its payload.
bool concerns(const v1::Event&, const std::string& task_id);

/// What became of the worker.
struct worker_news {
  bool bound = false;      // a worker process runs or ran for the task
  std::string spawn_error; // why the last worker asked for never ran; empty while one may
  /// An event that concerns the task.
  void take(const v1::Event&);
};

bool asked_for_worker(const v1::DispatchReply&);

} // namespace swarm::mcp
