// Stopping in order, and stopping for certain.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <caf/actor.hpp>
#include <caf/fwd.hpp>

namespace swarm::runtime {

/// Runs named steps one after the other. From run() on, a watchdog thread waits for the sum of all graces plus `margin`, and once all steps are
/// over for no longer than `margin`, until destruction. Then it logs which step runs and which are still to come, and ends the process with
/// exit_code (the store is transactional, so that is safe). Declare it before the actor system: destroying the latter is what can hang in CAF
/// 0.17.6, for instance as long as another library's thread lives that has ever spawned an actor.
class shutdown {
public:
  static constexpr int exit_code = 75; // as EX_TEMPFAIL: start it again

  /// Stops something within the grace; false when it was not done by then, which is logged and does not stop the next steps.
  using step = std::function<bool(std::chrono::milliseconds grace)>;

  explicit shutdown(std::chrono::milliseconds margin = std::chrono::seconds{5});
  ~shutdown();
  shutdown(const shutdown&) = delete;
  shutdown& operator=(const shutdown&) = delete;

  /// Steps run in the order they were added. Not after run().
  void add(std::string name, std::chrono::milliseconds grace, step what);
  /// Once, from one thread. Returns the names of the steps that were not done within their grace or threw.
  std::vector<std::string> run();

private:
  struct named_step {
    std::string name;
    std::chrono::milliseconds grace;
    step what;
  };

  void watch();
  std::string left() const;

  const std::chrono::milliseconds margin_;
  std::vector<named_step> steps_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::chrono::steady_clock::time_point deadline_;
  std::size_t current_ = 0; // steps before it are over
  bool disarmed_ = false;
  std::thread watchdog_;
};

/// For a step: asks the actor to end, kills it when the grace has passed, and waits a second more. Blocks; main thread only.
/// True when it ended within the grace.
bool stop_actor(caf::actor_system& system, const caf::actor& who, std::chrono::milliseconds grace);

} // namespace swarm::runtime
