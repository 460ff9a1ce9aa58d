#include "actors/runtime/scheduling.hpp"

#include <utility>

#include <caf/execution_unit.hpp>
#include <caf/scheduler/coordinator.hpp>

namespace swarm::runtime {

namespace {
thread_local own_jobs* mine = nullptr;
}

own_jobs* own_jobs_of_this_thread() noexcept { return mine; }

void detail::set_own_jobs_of_this_thread(own_jobs* jobs) noexcept { mine = jobs; }

void before_blocking() {
  if (mine != nullptr && !mine->jobs.empty())
    mine->release();
}

// -- guests --------------------------------------------------------------------------------

namespace {

class guest final : public caf::execution_unit {
public:
  guest(caf::actor_system& sys, shared_jobs& shared) : caf::execution_unit(&sys) {
    own_.shared = &shared;
    mine = &own_;
  }
  ~guest() override {
    mine = nullptr;
    if (!own_.jobs.empty())
      own_.release();
  }
  void exec_later(caf::resumable* job) override { own_.put(job); }

  void run(const std::function<bool()>& done) {
    for (std::size_t turns = 0; !own_.jobs.empty(); turns += done() ? 1 : 0) {
      if (turns > own_jobs::guest_turns_after)
        return;
      auto* job = own_.jobs.front();
      own_.jobs.pop_front();
      switch (job->resume(this, own_jobs::guest_messages)) {
        case caf::resumable::resume_later: own_.shared->put(job); break;
        case caf::resumable::done:
        case caf::resumable::awaiting_message: caf::intrusive_ptr_release(job); break;
        case caf::resumable::shutdown_execution_unit: return; // meant for workers only, and never sent to one that is named
      }
    }
  }

private:
  own_jobs own_;
};

} // namespace

void run_here(caf::actor_system& sys, const std::function<void()>& post, const std::function<bool()>& done) {
  auto* workers = mine == nullptr ? dynamic_cast<caf::scheduler::coordinator<local_first>*>(&sys.scheduler()) : nullptr;
  if (workers == nullptr)
    return post();
  guest here{sys, workers->data().shared};
  post();
  here.run(done);
}

// -- shared --------------------------------------------------------------------------------

void shared_jobs::wake(std::size_t jobs) {
  for (; jobs > 0 && woken_ < sleeping_; --jobs) {
    ++woken_;
    filled_.notify_one();
  }
}

void shared_jobs::put(job j) {
  std::lock_guard lock{mutex_};
  jobs_.push_back(j);
  wake(1);
}

void shared_jobs::put_all(std::deque<job>& from) {
  std::lock_guard lock{mutex_};
  auto n = from.size();
  for (auto* j : std::exchange(from, {}))
    jobs_.push_back(j);
  wake(n);
}

shared_jobs::job shared_jobs::take() {
  std::unique_lock lock{mutex_};
  while (jobs_.empty()) {
    ++sleeping_;
    filled_.wait(lock);
    --sleeping_;
    // Also after a wake-up for nothing: too low only means that somebody is woken twice.
    woken_ -= std::min<std::size_t>(woken_, 1);
  }
  auto* j = jobs_.front();
  jobs_.pop_front();
  return j;
}

shared_jobs::job shared_jobs::try_take() {
  std::lock_guard lock{mutex_};
  if (jobs_.empty())
    return nullptr;
  auto* j = jobs_.front();
  jobs_.pop_front();
  return j;
}

std::size_t shared_jobs::idle() const {
  std::lock_guard lock{mutex_};
  return sleeping_ - woken_;
}

// -- own -----------------------------------------------------------------------------------

void own_jobs::put(caf::resumable* job) {
  if (jobs.size() >= jobs_max && shared->idle() > 0)
    shared->put(job);
  else
    jobs.push_back(job);
}

caf::resumable* own_jobs::take() {
  if (jobs.empty())
    return shared->take();
  if (++turns % turns_between_shared == 0)
    if (auto* job = shared->try_take())
      return job;
  auto* job = jobs.front();
  jobs.pop_front();
  return job;
}

} // namespace swarm::runtime
