// Notices the end of processes that are not our children: one thread on their pidfds.
#pragma once

#include <map>
#include <mutex>
#include <thread>

#include "actors/base/unique_fd.hpp"
#include "actors/fabric/node_environment.hpp"

namespace swarm {

class process_watch final : public process_watch_port {
public:
  process_watch();
  ~process_watch() override;
  std::uint64_t watch(std::int64_t pid, std::uint64_t pid_start, std::function<void()> gone) override;
  void forget(std::uint64_t) override;

private:
  struct watched {
    unique_fd pidfd;
    std::function<void()> gone;
  };
  struct wanted {
    std::int64_t pid = 0;
    std::uint64_t pid_start = 0;
    std::function<void()> gone;
  };
  enum class begun { watching, gone, no_room };
  begun begin(std::uint64_t id, wanted&);
  void begin_waiting();
  void run();

  unique_fd epoll_;
  unique_fd stop_;
  std::mutex mutex_;
  std::map<std::uint64_t, watched> watched_;
  std::map<std::uint64_t, wanted> waiting_; // there was no descriptor for them; tried again when one has become free
  std::uint64_t next_ = 1;
  std::thread thread_;
};

} // namespace swarm
