#include "services/call/blocking_worker.hpp"

#include <utility>

namespace swarm {

namespace {

constexpr std::size_t waiting_max = 16;

} // namespace

blocking_worker::~blocking_worker() {
  {
    std::lock_guard guard{mutex_};
    ending_ = true;
  }
  changed_.notify_all();
  ends_.notify_all();
  thread_.join();
}

bool blocking_worker::pause(std::chrono::milliseconds span) {
  std::unique_lock lock{mutex_};
  return !ends_.wait_for(lock, span, [this] { return ending_; });
}

bool blocking_worker::post(std::function<void()> work) {
  {
    std::lock_guard guard{mutex_};
    if (ending_ || waiting_.size() >= waiting_max)
      return false;
    waiting_.push_back(std::move(work));
  }
  changed_.notify_all();
  return true;
}

/// What was posted is done before it ends: somebody waits for the answer.
void blocking_worker::run() {
  std::unique_lock lock{mutex_};
  for (;;) {
    changed_.wait(lock, [this] { return ending_ || !waiting_.empty(); });
    if (waiting_.empty())
      return;
    auto work = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    work();
    lock.lock();
  }
}

} // namespace swarm
