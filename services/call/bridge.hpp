// The only place where gRPC threads and actors meet.
//
//  * a gRPC thread never waits for another thread: it posts, does what it can of a short call itself, and returns;
//  * a call that is over soon is worked on by the actor of short calls, one that may wait or takes several steps by an actor of its own;
//  * every call is finished exactly once on every path, the death of its actor included;
//  * a cancelled call (the client left, or its deadline passed: gRPC cancels it here too) ends its actor;
//  * reads start only when the actor asks for more, writes go through a bounded queue: back-pressure reaches HTTP/2.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include <caf/actor.hpp>
#include <caf/actor_system.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/send.hpp>
#include <grpcpp/grpcpp.h>

#include "actors/base/limits.hpp"
#include "actors/base/tsan.hpp"
#include "actors/fabric/short_calls.hpp"
#include "actors/runtime/defaults.hpp"
#include "actors/runtime/scheduling.hpp"
#include "services/call/status.hpp"

namespace swarm {

/// Turns "the call is over" into an exit message, whichever of the two is known first: the actor or the cancellation.
class call_actor {
public:
  void attach(caf::actor who) {
    std::lock_guard guard{mutex_};
    if (over_)
      caf::anon_send_exit(who, caf::exit_reason::user_shutdown);
    else
      who_ = std::move(who);
  }
  void end() {
    std::lock_guard guard{mutex_};
    over_ = true;
    if (auto who = std::exchange(who_, nullptr))
      caf::anon_send_exit(who, caf::exit_reason::user_shutdown);
  }
  /// Null until attached and after the end.
  caf::actor get() {
    std::lock_guard guard{mutex_};
    return who_;
  }

private:
  std::mutex mutex_;
  bool over_ = false;
  caf::actor who_;
};

/// Owns "this call has not been answered yet". Held by the actor that works on the call only.
class unary_answer {
public:
  explicit unary_answer(grpc::ServerUnaryReactor* reactor) : reactor_(reactor) {}
  unary_answer(const unary_answer&) = delete;
  unary_answer& operator=(const unary_answer&) = delete;
  ~unary_answer() { finish({grpc::StatusCode::UNAVAILABLE, "the part of the node serving this call went away; try again"}); }
  bool open() const noexcept { return reactor_ != nullptr; }
  void finish(grpc::Status status) {
    if (auto* r = std::exchange(reactor_, nullptr))
      r->Finish(std::move(status));
  }

private:
  grpc::ServerUnaryReactor* reactor_;
};

class unary_reactor final : public grpc::ServerUnaryReactor {
public:
  call_actor& actor() noexcept { return actor_; }
  /// Kept until the call is over, for instance an admission slot.
  void keep(std::shared_ptr<void> what) { kept_ = std::move(what); }
  void OnCancel() override {
    actor_.end();
    comes_before(this);
  }
  void OnDone() override {
    comes_after(this);
    delete this;
  }

private:
  call_actor actor_;
  std::shared_ptr<void> kept_;
};

using unary_ptr = std::shared_ptr<unary_answer>;

/// Spawns the call's actor: `run(self, answer)` starts the work and keeps `answer` in its continuations; when the last copy is
/// gone the call is finished.
template <class Run>
grpc::ServerUnaryReactor* run_unary(caf::actor_system& sys, std::shared_ptr<void> keep, Run run) {
  auto* reactor = new unary_reactor;
  reactor->keep(std::move(keep));
  auto answer = std::make_shared<unary_answer>(reactor);
  auto who = sys.spawn([answer = std::move(answer), run = std::move(run)](caf::event_based_actor* self) mutable {
    runtime::install_defaults(self);
    run(self, std::exchange(answer, nullptr));
  });
  reactor->actor().attach(std::move(who));
  comes_before(reactor);
  return reactor;
}

/// A call that the actor of short calls works on. `run(short_calls, call)` asks and keeps the call in its continuations, which touch the request and
/// the reply only while the call is open: after that they are gone.
class short_call final : public any_short_call, public std::enable_shared_from_this<short_call> {
public:
  using work = std::function<void(short_calls_ptr, std::shared_ptr<short_call>)>;

  short_call(grpc::ServerUnaryReactor* reactor, work run, std::shared_ptr<std::atomic<bool>> over)
    : answer_(reactor), run_(std::move(run)), over_(std::move(over)) {}
  bool open() const noexcept { return answer_.open(); }
  /// To be done when the client goes before it is answered.
  void on_abort(std::function<void()> f) { on_abort_ = std::move(f); }
  void finish(grpc::Status status) {
    on_abort_ = nullptr;
    answer_.finish(std::move(status));
    over_->store(true, std::memory_order_relaxed);
  }
  void begin(short_calls_ptr short_calls) override {
    if (auto run = std::exchange(run_, nullptr); open())
      run(short_calls, shared_from_this());
  }
  void abort() override {
    auto gone = std::exchange(on_abort_, nullptr);
    finish({grpc::StatusCode::CANCELLED, "the call was given up"});
    if (gone)
      gone();
  }

private:
  unary_answer answer_;
  work run_;
  std::function<void()> on_abort_;
  std::shared_ptr<std::atomic<bool>> over_;
};
using short_call_ptr = std::shared_ptr<short_call>;

class short_reactor final : public grpc::ServerUnaryReactor {
public:
  short_reactor(short_calls_actor short_calls, std::shared_ptr<void> keep) : short_calls_(std::move(short_calls)), kept_(std::move(keep)) {}
  /// Goes as far as it can on this thread; the rest, if any, on others.
  void begin(caf::actor_system& sys, short_call::work run) {
    auto over = std::make_shared<std::atomic<bool>>(false);
    auto call = std::make_shared<short_call>(this, std::move(run), over);
    call_ = call;
    runtime::run_here(
      sys, [&] { caf::anon_send(short_calls_, any_short_call_ptr{std::move(call)}); }, [&] { return over->load(std::memory_order_relaxed); });
  }
  void OnCancel() override {
    if (auto call = call_.lock())
      caf::anon_send(short_calls_, abort_atom_v, any_short_call_ptr{std::move(call)});
    comes_before(this);
  }
  void OnDone() override {
    comes_after(this);
    delete this;
  }
  /// Both reactions only post or delete: gRPC need not wake another thread for them.
  bool InternalInlineable() override { return true; }

private:
  short_calls_actor short_calls_;
  std::weak_ptr<short_call> call_;
  std::shared_ptr<void> kept_;
};

/// Hands the call to the actor of short calls. `keep` lives until the call is over, for instance an admission slot.
inline grpc::ServerUnaryReactor* run_short(caf::actor_system& sys, const short_calls_actor& short_calls, std::shared_ptr<void> keep,
                                           short_call::work run) {
  auto* reactor = new short_reactor{short_calls, std::move(keep)};
  reactor->begin(sys, std::move(run));
  comes_before(reactor);
  return reactor;
}

/// Answers at once.
inline grpc::ServerUnaryReactor* finish_now(grpc::Status status) {
  auto* reactor = new unary_reactor;
  comes_before(reactor);
  reactor->Finish(std::move(status));
  return reactor;
}

/// A request whose deadline is that of the gRPC call: at the deadline the call's actor is ended from outside. A timer per request
/// would stay in CAF's clock until it fires, long after the answer.
template <class Self, class Target, class... Ts>
auto ask(Self* self, const Target& target, Ts&&... xs) {
  return self->request(target, caf::infinite, std::forward<Ts>(xs)...); // lint: edge deadline
}

/// Each frame goes out at once: for those who wait for the next one.
struct few_frames {
  static constexpr std::size_t most = limits::stream_frames_queued_max;
  static constexpr std::size_t low = most - 1; // there is room again
  static constexpr bool together = false;
  template <class Frame>
  static std::size_t size_of(const Frame&) {
    return 1;
  }
};

/// Frames that wait behind each other leave together, so that small ones do not cost a write to the socket each.
struct many_bytes {
  static constexpr std::size_t most = 256 * limits::kib;
  static constexpr std::size_t low = most / 2;
  static constexpr bool together = true;
  static std::size_t size_of(const grpc::ByteBuffer& frame) { return frame.Length(); }
};

/// The socket end of a server-to-client stream. Holds no state of ours but the write queue.
template <class Frame, class Base, class Queue = few_frames>
class stream_writer : public Base {
public:
  /// Takes the frame (unless the stream is closing) and says whether there is room for another; if not, produce no more until
  /// `drained` was called.
  bool push(Frame frame) {
    std::lock_guard guard{mutex_};
    if (closing_)
      return false;
    waiting_ += Queue::size_of(frame);
    queue_.push_back(std::move(frame));
    if (queue_.size() == 1)
      write_front();
    full_ |= waiting_ >= Queue::most;
    return !full_;
  }
  /// Idempotent; what was accepted is written first.
  void close(grpc::Status status) {
    std::lock_guard guard{mutex_};
    if (std::exchange(closing_, true))
      return;
    final_ = std::move(status);
    if (queue_.empty())
      this->Finish(final_);
  }
  void OnWriteDone(bool ok) override {
    bool wake = false;
    {
      std::lock_guard guard{mutex_};
      waiting_ -= Queue::size_of(queue_.front());
      queue_.pop_front();
      if (!ok) {
        queue_.clear();
        waiting_ = 0;
      }
      if (!queue_.empty())
        write_front();
      else if (closing_)
        this->Finish(final_);
      wake = ok && !closing_ && full_ && waiting_ <= Queue::low;
      full_ &= !wake;
    }
    if (wake)
      drained();
    comes_before(this);
  }
  void OnCancel() override {
    actor_.end();
    comes_before(this);
  }
  void OnDone() override {
    comes_after(this);
    keep_.reset();
  }
  call_actor& actor() noexcept { return actor_; }
  void hold(std::shared_ptr<void> self, std::shared_ptr<void> slot) {
    keep_ = std::move(self);
    slot_ = std::move(slot);
    comes_before(this);
  }

protected:
  /// There is room in the queue again.
  virtual void drained() {}

private:
  void write_front() {
    grpc::WriteOptions options;
    if (Queue::together && queue_.size() > 1)
      options.set_buffer_hint(); // the last one takes them along
    this->StartWrite(&queue_.front(), options);
  }

  std::mutex mutex_;
  std::deque<Frame> queue_; // the front is in flight; a deque keeps its address
  std::size_t waiting_ = 0; // in the queue, as Queue counts it
  bool full_ = false;       // `drained` is to be called
  bool closing_ = false;
  grpc::Status final_;
  call_actor actor_;
  std::shared_ptr<void> slot_;
  std::shared_ptr<void> keep_;
};

} // namespace swarm
