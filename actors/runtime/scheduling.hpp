// How actors share the worker threads: what an actor sends stays on its worker, what comes from outside goes to an idle one.
//
// CAF's own policies fit a store behind a socket badly. `stealing` answers an idle system in 92 us instead of 17, and its idle workers
// poll. `sharing` has one queue for all: with a second worker every message from one actor to the next wakes an idle thread, and the
// steps of a call wander over the threads. Here the steps of a call run one after the other on the worker that took it.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>

#include <caf/actor_system.hpp>
#include <caf/policy/unprofiled.hpp>
#include <caf/resumable.hpp>
#include <caf/scheduler/abstract_coordinator.hpp>

namespace swarm::runtime {

/// The queue all workers share. Thread-safe; a worker is woken only when one sleeps that nobody has woken yet.
class shared_jobs {
public:
  using job = caf::resumable*;

  void put(job);
  /// Moves all of them here, in order.
  void put_all(std::deque<job>&);
  /// Blocks until there is one.
  job take();
  /// Null when there is none.
  job try_take();
  /// How many workers sleep that nobody has woken yet; a moment later it may be another number.
  std::size_t idle() const;

private:
  void wake(std::size_t jobs);

  mutable std::mutex mutex_;
  std::condition_variable filled_;
  std::deque<job> jobs_;
  std::size_t sleeping_ = 0;
  std::size_t woken_ = 0;
};

/// What a worker has set aside for itself; touched by its own thread only.
struct own_jobs {
  shared_jobs* shared = nullptr;
  std::deque<caf::resumable*> jobs;
  std::size_t turns = 0;

  void put(caf::resumable*);
  caf::resumable* take();
  /// Gives away what is waiting here.
  void release() { shared->put_all(jobs); }

  /// Waiting here at most, else others help.
  static constexpr std::size_t jobs_max = 4;
  /// After a guest's own business is done it goes on for so many turns of so many messages: usually that is all there was, and
  /// nobody needs to be woken for it.
  static constexpr std::size_t guest_turns_after = 4;
  static constexpr std::size_t guest_messages = 8;
  /// Every so many turns the shared queue comes first, so that actors which keep sending to each other hold up nobody.
  static constexpr std::size_t turns_between_shared = 16;
};

/// The calling thread's; null on a thread that is no worker.
own_jobs* own_jobs_of_this_thread() noexcept;

/// Runs `post`, and then on the calling thread what it sent and what came of that, as a worker would: until nothing is left here or
/// `done` says that the rest is for others. For threads of gRPC: waking a worker and being woken for its answer costs more than the
/// work. On a thread that is a worker, or with another policy than local_first, it only runs `post`.
void run_here(caf::actor_system& sys, const std::function<void()>& post, const std::function<bool()>& done);

/// To be called by an actor that is about to block (a COMMIT): what waits on its worker goes to the others meanwhile.
void before_blocking();

namespace detail {
void set_own_jobs_of_this_thread(own_jobs*) noexcept;
}

/// Policy for caf::scheduler::coordinator.
class local_first : public caf::policy::unprofiled {
public:
  struct coordinator_data {
    explicit coordinator_data(caf::scheduler::abstract_coordinator*) {}
    shared_jobs shared;
  };
  struct worker_data : own_jobs {
    explicit worker_data(caf::scheduler::abstract_coordinator*) {}
  };

  template <class Coordinator>
  void central_enqueue(Coordinator* self, caf::resumable* job) {
    // Also what an actor sends without saying that it is the sender (anon_send) comes here.
    if (auto* own = own_jobs_of_this_thread(); own != nullptr && own->shared == &d(self).shared)
      own->put(job);
    else
      d(self).shared.put(job);
  }
  template <class Worker>
  void external_enqueue(Worker* self, caf::resumable* job) {
    d(self->parent()).shared.put(job);
  }
  template <class Worker>
  void internal_enqueue(Worker* self, caf::resumable* job) {
    d(self).put(job);
  }
  /// It has had its turn: behind everything else.
  template <class Worker>
  void resume_job_later(Worker* self, caf::resumable* job) {
    d(self->parent()).shared.put(job);
  }
  template <class Worker>
  caf::resumable* dequeue(Worker* self) {
    auto& own = d(self);
    if (own.shared == nullptr) {
      own.shared = &d(self->parent()).shared;
      detail::set_own_jobs_of_this_thread(&own);
    }
    return own.take();
  }
  template <class Worker>
  void before_shutdown(Worker* self) {
    d(self).release();
    detail::set_own_jobs_of_this_thread(nullptr);
  }
  template <class Worker, class UnaryFunction>
  void foreach_resumable(Worker*, UnaryFunction) {}
  template <class Coordinator, class UnaryFunction>
  void foreach_central_resumable(Coordinator* self, UnaryFunction f) {
    while (auto* job = d(self).shared.try_take())
      f(job);
  }
};

} // namespace swarm::runtime
