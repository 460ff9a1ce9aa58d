// The deterministic world of actor tests: one actor system without threads, a clock that moves only when told to, and a seed that
// picks the interleaving. Not for detached actors: those escape the coordinator.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <random>
#include <utility>
#include <variant>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/error.hpp>
#include <caf/scheduler/test_coordinator.hpp>
#include <caf/scoped_actor.hpp>
#include <caf/send.hpp>

#include "actors/base/clock.hpp"
#include "actors/runtime/system.hpp"

namespace swarm::test {

/// What a request came back with.
template <class T>
using outcome = std::variant<T, caf::error>;

/// Stands for the empty reply of a `reacts_to` handler.
struct done {};

/// A time port that shows the actor clock: leases and timers of a world agree.
class sim_clock final : public clock_port {
public:
  static constexpr std::int64_t epoch_ms = 1'700'000'000'000;

  explicit sim_clock(const caf::actor_clock& clock) : clock_(clock), start_(clock.now()) {}
  std::int64_t unix_ms() const override { return epoch_ms + jump_ms_ + boot_ms(); }
  std::int64_t boot_ms() const override { return std::chrono::duration_cast<std::chrono::milliseconds>(clock_.now() - start_).count(); }
  /// The wall clock jumps (either way); the boot clock, like the machine's, does not.
  void jump_wall(std::chrono::milliseconds d) { jump_ms_ += d.count(); }

private:
  const caf::actor_clock& clock_;
  caf::actor_clock::time_point start_;
  std::int64_t jump_ms_ = 0;
};

/// IdBlocks: the type-id blocks of the actors under test; the runtime's own is always there.
/// Seed 0 runs first come, first served; any other picks a random ready actor before each step, repeatably.
template <class... IdBlocks>
class world {
public:
  explicit world(std::uint64_t seed = 0)
    : rng{seed}, seeded_{seed != 0}, sys(init(cfg_)), me(sys, true), sched(dynamic_cast<caf::scheduler::test_coordinator&>(sys.scheduler())),
      clock(off_zero(sched.clock())) {
    sys.await_actors_before_shutdown(false);
  }

  world(const world&) = delete;
  world& operator=(const world&) = delete;

  ~world() {
    // test_coordinator::stop() fires what is pending, and what that arms again, for ever.
    sched.clock().cancel_all();
    settle();
    sched.clock().cancel_all();
  }

  /// One ready actor handles one message. False when no actor has mail.
  bool step() {
    if (seeded_ && sched.jobs.size() > 1) {
      std::uniform_int_distribution<std::size_t> pick{0, sched.jobs.size() - 1};
      std::swap(sched.jobs.front(), sched.jobs[pick(rng)]);
    }
    return sched.try_run_once();
  }

  /// Until no actor has mail; returns the number of steps. Never moves the clock.
  std::size_t settle(std::size_t limit = 1'000'000) {
    std::size_t n = 0;
    while (n < limit && step())
      ++n;
    return n;
  }

  /// Moves the clock in one go: of several timers in the interval all fire before any of their mail is handled.
  void advance(std::chrono::nanoseconds d) {
    sched.clock().advance_time(d);
    settle();
  }

  /// Moves the clock in slices, so that a timer armed by another one's effect still fires within the interval.
  void advance_by(std::chrono::nanoseconds total, std::chrono::nanoseconds slice) {
    for (; total > slice; total -= slice)
      advance(slice);
    advance(total);
  }

  /// Request, settle, and what came back; nothing when nobody answered yet. Reply is `done` for an empty reply.
  template <class Reply, class Handle, class... Ts>
  std::optional<outcome<Reply>> ask(const Handle& target, Ts&&... xs) {
    auto pending = me->request(target, caf::infinite, std::forward<Ts>(xs)...);
    settle();
    if (!me->has_next_message())
      return std::nullopt;
    std::optional<outcome<Reply>> out;
    auto failed = [&](caf::error& e) { out.emplace(std::in_place_index<1>, std::move(e)); };
    if constexpr (std::is_same_v<Reply, done>)
      pending.receive([&] { out.emplace(std::in_place_index<0>); }, failed);
    else
      pending.receive([&](Reply& r) { out.emplace(std::in_place_index<0>, std::move(r)); }, failed);
    return out;
  }

  /// Sends without asking for an answer, and settles.
  template <class Handle, class... Ts>
  void tell(const Handle& target, Ts&&... xs) {
    caf::anon_send(target, std::forward<Ts>(xs)...);
    settle();
  }

  /// Ends an actor the way a supervisor does, and settles.
  template <class Handle>
  void end(const Handle& target, caf::exit_reason why = caf::exit_reason::user_shutdown) {
    caf::anon_send_exit(target, why);
    settle();
  }

  std::mt19937_64 rng;

private:
  static caf::actor_system_config& init(caf::actor_system_config& cfg) {
    cfg.add_message_types<caf::id_block::swarm_runtime>();
    (cfg.add_message_types<IdBlocks>(), ...);
    runtime::announce_errors(cfg);
    cfg.set("scheduler.policy", caf::atom("testing"));
    return cfg;
  }

  // Time zero means "no timeout" to parts of CAF.
  static const caf::actor_clock& off_zero(caf::detail::test_actor_clock& clock) {
    clock.current_time += std::chrono::hours{1};
    return clock;
  }

  bool seeded_;
  caf::actor_system_config cfg_;

public:
  caf::actor_system sys;
  caf::scoped_actor me;
  caf::scheduler::test_coordinator& sched;
  sim_clock clock;
};

} // namespace swarm::test
