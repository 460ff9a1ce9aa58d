// Follows events, across restarts of the node and up to a deadline. For one task it prints live lines.
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

/// Delivers the events after `request.after` until `on` returns false, the user presses Ctrl-C, or `timeout_ms` is over (0 = no limit). When the
/// node goes away, this waits for it as long as --timeout allows, and resumes where it was. When the node no longer keeps that position,
/// `on_reset` is called, and the events from now on follow. `on_lost` is called before the stream is opened again.
follow_end follow_events(invocation&, v1::WatchRequest request, std::int64_t timeout_ms, const std::function<bool(const v1::Event&)>& on,
                         const std::function<bool()>& on_reset, const std::function<void()>& on_tick = nullptr,
                         const std::function<void()>& on_lost = nullptr);

struct follow_options {
  mcp::task_follow::target until = mcp::task_follow::target::end;
  bool bound = false;          // a worker runs already
  std::uint32_t attempt = 0;   // its attempt
  std::int64_t timeout_ms = 0; // 0 = none
  bool quiet = false;          // no live lines
  /// Called when the worker runs, or at once if it runs already, and again for each further attempt. It gets the attempt's number, and the function
  /// to print with while the live line is drawn.
  std::function<void(std::uint32_t attempt, const printing&)> on_running;
  /// Called when the worker has ended, before any line says so: what the worker printed comes first.
  std::function<void()> on_ended;
};

struct followed_task : mcp::task_follow {
  follow_end end = follow_end::finished;
  std::int64_t waited_ms = 0;
};

/// Follows a task, printing what happens to it. `after`: as mcp::follow.
followed_task follow_task(invocation&, v1::Task task, std::uint64_t after, const follow_options&);

/// One line about what an event means for the task; empty for an event that is not shown.
std::string live_line(const v1::Event&);

} // namespace swarm::cli
