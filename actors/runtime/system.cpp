#include "actors/runtime/system.hpp"

#include <algorithm>
#include <atomic>
#include <string>

#include <pthread.h>

#include <caf/atom.hpp>
#include <caf/message.hpp>
#include <caf/scheduler/coordinator.hpp>
#include <caf/thread_hook.hpp>

#include "actors/runtime/scheduling.hpp"

namespace swarm::runtime {

namespace {

// Workers, the clock and detached actors alike; the kernel keeps 15 characters.
class name_threads final : public caf::thread_hook {
public:
  void init(caf::actor_system&) override {}
  void thread_started() override { pthread_setname_np(pthread_self(), ("swarm-caf-" + std::to_string(++started_ % 10'000)).c_str()); }
  void thread_terminates() override {}

private:
  std::atomic<unsigned> started_{0};
};

} // namespace

void announce_errors(caf::actor_system_config& cfg) {
  cfg.add_error_category(caf::atom("swarm"), [](std::uint8_t code, caf::atom_value, const caf::message& context) {
    auto text = to_string(static_cast<errc>(code));
    if (context.match_elements<std::string>())
      text += " (" + context.get_as<std::string>(0) + ")";
    return text;
  });
}

// gRPC's pollers take their share of the cores; one worker is blocked by the writer while it commits.
std::size_t default_threads(std::size_t cores) { return std::clamp<std::size_t>(cores / 2, 1, 16) + 1; }

namespace detail {

void apply_settings(caf::actor_system_config& cfg, std::size_t threads) {
  announce_errors(cfg);
  cfg.load<caf::scheduler::coordinator<local_first>>();
  // Unlimited by default: an actor that keeps its own mailbox filled would starve the others.
  cfg.set("scheduler.max-throughput", 100);
  cfg.set("scheduler.max-threads", static_cast<std::int64_t>(std::max<std::size_t>(threads, 1)));
  cfg.add_thread_hook<name_threads>();
}

} // namespace detail

} // namespace swarm::runtime
