// A thread for what blocks: files, passphrases, a call to another host.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace swarm {

class blocking_worker {
public:
  blocking_worker() : thread_([this] { run(); }) {}
  ~blocking_worker();
  /// False: too much waits already, or it ends.
  bool post(std::function<void()> work);
  /// For the work itself: returns false at once when the worker ends, otherwise true after that time.
  bool pause(std::chrono::milliseconds);

private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::condition_variable ends_;
  std::deque<std::function<void()>> waiting_;
  bool ending_ = false;
  std::thread thread_;
};

} // namespace swarm
