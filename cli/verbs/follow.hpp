// Following events: across restarts of the node, with a deadline, with live lines for one task.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "cli/invocation.hpp"
#include "gateway/session/task_news.hpp"

namespace swarm::cli {

/// Calls `on_tick` every period (0 = never) and `on_deadline` once after `timeout_ms` (0 = never), on a thread of its own.
class ticker {
public:
  ticker(std::int64_t period_ms, std::function<void()> on_tick, std::int64_t timeout_ms, std::function<void()> on_deadline);
  ~ticker();
  ticker(const ticker&) = delete;
  ticker& operator=(const ticker&) = delete;

private:
  void run(std::int64_t period_ms, std::int64_t timeout_ms);

  std::function<void()> on_tick_;
  std::function<void()> on_deadline_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
  std::thread thread_;
};

enum class follow_end { finished, timed_out, interrupted };

/// Delivers events after `request.after` until `on` returns false, Ctrl-C, or `timeout_ms` (0 = none). A node that goes away is
/// waited for as long as --timeout says, and the stream resumes where it was. `on_reset` is called when the position is no
/// longer kept; following then goes on from now.
follow_end follow_events(invocation&, v1::WatchRequest request, std::int64_t timeout_ms, const std::function<bool(const v1::Event&)>& on,
                         const std::function<bool()>& on_reset, const std::function<void()>& on_tick = nullptr);

/// How following a task ended.
struct task_follow : mcp::worker_news {
  v1::Task task; // as last seen
  follow_end end = follow_end::finished;
  std::int64_t waited_ms = 0;
};

struct follow_options {
  bool until_bound = false;    // stop as soon as a worker runs or cannot
  bool bound = false;          // one runs already
  std::int64_t timeout_ms = 0; // 0 = none
  bool quiet = false;          // no live lines
};

/// Follows a task to its end, printing what happens to it.
task_follow follow_task(invocation&, v1::Task task, std::uint64_t after, const follow_options&);

/// The line that tells what an event means for the task; empty if it is not worth one.
std::string live_line(const v1::Event&);

} // namespace swarm::cli
