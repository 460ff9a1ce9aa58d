// Following events: across restarts of the node, with a deadline, with live lines for one task.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "cli/invocation.hpp"
#include "cli/verbs/program_io.hpp"
#include "gateway/client/ticker.hpp"
#include "gateway/session/task_follow.hpp"

namespace swarm::cli {

enum class follow_end { finished, timed_out, interrupted };

/// Delivers events after `request.after` until `on` returns false, Ctrl-C, or `timeout_ms` (0 = none). A node that goes away is
/// waited for as long as --timeout says, and the stream resumes where it was. `on_reset` is called when the position is no
/// longer kept; following then goes on from now.
follow_end follow_events(invocation&, v1::WatchRequest request, std::int64_t timeout_ms, const std::function<bool(const v1::Event&)>& on,
                         const std::function<bool()>& on_reset, const std::function<void()>& on_tick = nullptr);

struct follow_options {
  mcp::task_follow::target until = mcp::task_follow::target::end;
  bool bound = false;          // a worker runs already
  std::int64_t timeout_ms = 0; // 0 = none
  bool quiet = false;          // no live lines
  /// Called once when the worker runs, or at once when it does already; prints around the line that is being drawn.
  std::function<void(const printing&)> on_running;
};

struct followed_task : mcp::task_follow {
  follow_end end = follow_end::finished;
  std::int64_t waited_ms = 0;
};

/// Follows a task, printing what happens to it. `after`: as mcp::follow.
followed_task follow_task(invocation&, v1::Task task, std::uint64_t after, const follow_options&);

/// The line that tells what an event means for the task; empty if it is not worth one.
std::string live_line(const v1::Event&);

} // namespace swarm::cli
