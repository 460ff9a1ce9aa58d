// Virtual actors: every key has an actor, but only the busy ones exist.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include <caf/actor_addr.hpp>
#include <caf/actor_clock.hpp>
#include <caf/actor_system.hpp>
#include <caf/scheduled_actor.hpp>
#include <caf/sec.hpp>

#include "actors/base/limits.hpp"
#include "actors/runtime/deadline_heap.hpp"
#include "actors/runtime/ending.hpp"
#include "actors/runtime/parked.hpp"
#include "actors/runtime/restarts.hpp"

namespace swarm::runtime {

struct directory_options {
  /// Above this many awake actors the coldest is asked to go.
  std::size_t awake_max = limits::awake_actors_max();
  /// At this many awake or draining actors (all of them busy) a new key is refused with errc::overloaded.
  std::size_t awake_hard_max = 2 * limits::awake_actors_max();
  /// An actor that is unused for this long is asked to go.
  std::chrono::milliseconds idle = limits::actor_idle();
  /// Commands waiting for one draining key, and for all of them; more are refused with errc::overloaded.
  std::size_t waiting_per_key_max = limits::directory_waiting_per_key_max();
  std::size_t waiting_max = limits::directory_waiting_max();
  /// When a crashed actor is made again.
  restart_options restarts = at_once_first({});
  /// A crashed actor is made again also when nobody uses it.
  bool permanent = false;
};

/// A row for the tree.
template <class Key>
struct directory_entry {
  Key key;
  std::int64_t age_ms = 0;
  std::int64_t idle_ms = 0;
  std::uint64_t restarts = 0;
  bool draining = false;
  bool down = false; // crashed, and not yet made again
  std::size_t waiting = 0;
};

/// A plain member of an actor's state; that actor (the owner) is the only one who touches it.
///
/// What the actors it keeps ("entities") must do:
///  * their interface has `replies_to<passivate_atom>::with<bool>`: true means "I quit now", false "I am busy, ask again later".
///    An entity is busy while it waits for an answer, has waiters or watchers, or holds anything that lives only in memory.
///  * a caller that bypasses the owner with a handle of its own may find the entity gone (caf::sec::request_receiver_down).
/// What the owner must do:
///  * open() once, before the first use;
///  * the down handler calls on_down(down), the `(tick_atom, std::uint64_t)` handler calls on_tick(stamp).
///
/// Two activations of one key never live at once: what arrives while the old one drains waits for its `down` (or its refusal to
/// go), in order. A crashed entity is activated again by its next use, but not before its back-off is over: what arrives until then
/// waits too, or is refused with errc::unavailable if it crashes too often. The owner's death ends every entity and answers every
/// waiting command with errc::unavailable.
template <class Key, class Handle, class Hash = std::hash<Key>>
class directory {
public:
  /// Spawns the actor of a key; runs inside the owner, must not block. A null handle refuses the key with errc::unavailable.
  using factory = std::function<Handle(const Key&)>;
  using entry = directory_entry<Key>;

  directory() = default;
  directory(const directory&) = delete;
  directory& operator=(const directory&) = delete;
  ~directory() {
    for (auto& [key, s] : slots_)
      ask_to_end(s.who);
  }

  /// `self` is the owner.
  template <class Self>
  void open(Self* self, factory make, directory_options options = {}) {
    self_ = self;
    make_ = std::move(make);
    options_ = options;
    options_.awake_max = std::max<std::size_t>(options.awake_max, 1); // else the newest would be asked to go before its first command
    arm_ = [this, self] { timer_.arm(self, now_ms(), next_tick_ms()); };
    ask_ = [this, self](const Key& key, const slot& s) {
      auto number = s.activation;
      self->request(s.who, limits::passivation_patience(), passivate_atom_v)
        .then([this, key, number](bool goes) { on_answer(key, number, goes); },
              [this, key, number](const caf::error& e) { on_silence(key, number, e); });
    };
  }

  /// The awake actor of the key, activated if need be; errc::unavailable while the old activation drains or its back-off runs (then
  /// route() queues the command), errc::overloaded at awake_hard_max.
  std::variant<Handle, errc> get(const Key& key) {
    auto i = slots_.find(key);
    if (i == slots_.end())
      return activate(key);
    if (i->second.now != phase::awake)
      return errc::unavailable;
    touch(i->second);
    return i->second.who;
  }

  /// The actor of the key if there is one, awake or draining; activates nothing. For news that a sleeping actor would read from
  /// its rows anyway: a draining one gets it too, as it may refuse to go.
  Handle peek(const Key& key) const {
    auto i = slots_.find(key);
    return i == slots_.end() ? Handle{} : i->second.who;
  }

  /// Likewise, but only one that takes commands.
  Handle awake(const Key& key) const {
    auto i = slots_.find(key);
    return i == slots_.end() || i->second.now != phase::awake ? Handle{} : i->second.who;
  }

  /// Hands the message being handled to the key's actor, whose answer goes straight to the caller; waits in line while the old
  /// activation drains. Refuses with errc::overloaded when a bound is reached. Reply is void for `reacts_to`.
  template <class Reply, class... Ts>
  caf::result<Reply> route(const Key& key, Ts... xs) {
    auto found = get(key);
    if (auto* who = std::get_if<Handle>(&found))
      return self_->delegate(*who, std::move(xs)...);
    auto i = slots_.find(key);
    if (i == slots_.end())
      return fail(std::get<errc>(found));
    auto& s = i->second;
    if (s.now == phase::resting)
      return fail(errc::unavailable);
    if (s.waiting.size() >= options_.waiting_per_key_max || waiting_ >= options_.waiting_max)
      return fail(errc::overloaded);
    auto promise = self_->template make_response_promise<Reply>();
    s.waiting.push_back(std::make_unique<command<Reply, Ts...>>(promise, std::move(xs)...));
    ++waiting_;
    return promise;
  }

  /// True when the dead one was ours.
  bool on_down(const caf::down_msg& down) {
    auto i = key_of_.find(down.source);
    if (i == key_of_.end())
      return false;
    auto key = std::move(i->second);
    key_of_.erase(i);
    auto& s = slots_.at(key);
    if (s.now == phase::awake)
      lru_.erase(s.lru);
    if (down.reason) {
      crashed(key, s);
    } else {
      crashes_.erase(key);
      leave(key, false);
    }
    return true;
  }

  /// True when the tick was ours: those whose back-off is over are made again, those idle too long have been asked to go, and the
  /// next tick is armed.
  bool on_tick(std::uint64_t stamp) {
    if (!timer_.fired(stamp))
      return false;
    while (auto key = due_.take_due(now_ms()))
      leave(*key, options_.permanent);
    auto limit = now_ms() - options_.idle.count();
    for (auto n = limits::directory_passivations_per_tick_max(); n > 0 && !lru_.empty(); --n) {
      auto& coldest = slots_.at(lru_.front());
      if (coldest.used_ms > limit)
        break;
      passivate(lru_.front(), coldest);
    }
    arm_();
    return true;
  }

  /// Awake and draining ones, and those whose back-off runs.
  std::size_t size() const { return slots_.size(); }
  std::size_t draining() const { return slots_.size() - lru_.size() - due_.size(); }
  /// It has crashed and its back-off runs.
  bool is_down(const Key& key) const {
    auto i = slots_.find(key);
    return i != slots_.end() && i->second.down();
  }
  /// Commands in line.
  std::size_t waiting() const { return waiting_; }
  /// Deaths with an error, since open().
  std::uint64_t crashes() const { return crash_count_; }

  /// At most `rows_max` rows, in no particular order.
  std::vector<entry> entries(std::size_t rows_max) const {
    std::vector<entry> out;
    out.reserve(std::min(rows_max, slots_.size()));
    auto now = now_ms();
    for (const auto& [key, s] : slots_) {
      if (out.size() == rows_max)
        break;
      auto c = crashes_.find(key);
      auto restarts = c == crashes_.end() ? 0 : c->second.failures();
      out.push_back({key, s.down() ? 0 : now - s.born_ms, now - s.used_ms, restarts, s.now == phase::draining, s.down(), s.waiting.size()});
    }
    return out;
  }

private:
  /// A command in line; dropping it answers errc::unavailable.
  struct waiting_command {
    virtual ~waiting_command() = default;
    virtual void go(const Handle& who) = 0;
    virtual void refuse(errc why) = 0;
  };

  template <class Reply, class... Ts>
  struct command final : waiting_command {
    command(caf::typed_response_promise<Reply> p, Ts... xs) : promise(std::move(p)), args(std::move(xs)...) {}
    void go(const Handle& who) override {
      std::apply([&](Ts&... xs) { promise.delegate(who, std::move(xs)...); }, args);
    }
    void refuse(errc why) override { promise.answer(fail(why)); }
    parked<Reply> promise;
    std::tuple<Ts...> args;
  };

  enum class phase {
    awake,
    draining,
    waiting, // crashed, to be made again
    resting, // the same, after too many crashes: nobody is let into the line
  };

  struct slot {
    bool down() const { return now == phase::waiting || now == phase::resting; }

    Handle who; // null while down
    std::uint64_t activation = 0;
    phase now = phase::awake;
    std::int64_t born_ms = 0;
    std::int64_t used_ms = 0;
    typename std::list<Key>::iterator lru; // valid while awake
    std::deque<std::unique_ptr<waiting_command>> waiting;
  };

  std::int64_t now_ms() const {
    return std::chrono::duration_cast<std::chrono::milliseconds>(self_->home_system().clock().now().time_since_epoch()).count();
  }

  std::optional<std::int64_t> next_tick_ms() {
    auto next = due_.next();
    if (!lru_.empty()) {
      auto idle = slots_.at(lru_.front()).used_ms + options_.idle.count();
      next = next ? std::min(*next, idle) : idle;
    }
    return next;
  }

  std::variant<Handle, errc> activate(const Key& key) {
    if (slots_.size() >= options_.awake_hard_max)
      return errc::overloaded;
    auto who = make_(key);
    if (!who)
      return errc::unavailable;
    auto& s = slots_[key];
    s.who = who;
    s.activation = ++activations_;
    s.born_ms = s.used_ms = now_ms();
    s.lru = lru_.insert(lru_.end(), key);
    key_of_.emplace(who.address(), key);
    // High priority: the news of a death must overtake the commands for the dead.
    self_->template monitor<caf::message_priority::high>(who);
    if (lru_.size() > options_.awake_max)
      passivate(lru_.front(), slots_.at(lru_.front()));
    arm_();
    return who;
  }

  void touch(slot& s) {
    s.used_ms = now_ms();
    lru_.splice(lru_.end(), lru_, s.lru);
  }

  void passivate(Key key, slot& s) {
    s.now = phase::draining;
    lru_.erase(s.lru);
    ask_(key, s);
  }

  void on_answer(const Key& key, std::uint64_t activation, bool goes) {
    auto i = slots_.find(key);
    if (goes || i == slots_.end() || i->second.activation != activation)
      return;
    auto& s = i->second;
    s.now = phase::awake;
    s.used_ms = now_ms();
    s.lru = lru_.insert(lru_.end(), key);
    waiting_ -= s.waiting.size();
    for (auto& cmd : std::exchange(s.waiting, {}))
      cmd->go(s.who);
    arm_();
  }

  void crashed(const Key& key, slot& s) {
    auto next = note_crash(key).failed(options_.restarts, std::chrono::milliseconds{now_ms() - s.born_ms}, now_ms(), Hash{}(key));
    if (next.wait.count() == 0)
      return leave(key, options_.permanent);
    s.who = Handle{};
    s.activation = 0;
    s.now = next.rests ? phase::resting : phase::waiting;
    if (next.rests) {
      waiting_ -= s.waiting.size();
      for (auto& cmd : std::exchange(s.waiting, {}))
        cmd->refuse(errc::unavailable);
    }
    due_.set(key, now_ms() + next.wait.count());
    arm_();
  }

  /// The old activation is over; the next one, if there is a line or `wanted`, is made and given the line.
  void leave(const Key& key, bool wanted) {
    auto node = slots_.extract(key);
    auto& line = node.mapped().waiting;
    waiting_ -= line.size();
    if (wanted)
      get(key);
    for (auto& cmd : line) {
      auto found = get(key);
      if (auto* who = std::get_if<Handle>(&found))
        cmd->go(*who);
      else
        cmd->refuse(std::get<errc>(found));
    }
  }

  // An answer that came after the patience is lost in CAF, so a slow entity is asked again; a dead one is left to its `down`.
  void on_silence(const Key& key, std::uint64_t activation, const caf::error& e) {
    auto i = slots_.find(key);
    if (e == caf::sec::request_timeout && i != slots_.end() && i->second.activation == activation)
      ask_(key, i->second);
  }

  restart_record& note_crash(const Key& key) {
    ++crash_count_;
    if (auto i = crashes_.find(key); i != crashes_.end())
      return i->second;
    if (crashes_.size() >= limits::directory_crashes_remembered_max()) {
      // Not one of those whose back-off runs: they are no more than there may be slots.
      auto old = std::ranges::find_if(crashes_, [&](const auto& c) { return !is_down(c.first); });
      if (old != crashes_.end())
        crashes_.erase(old);
    }
    return crashes_[key];
  }

  caf::scheduled_actor* self_ = nullptr;
  factory make_;
  directory_options options_;
  std::function<void()> arm_;
  std::function<void(const Key&, const slot&)> ask_;
  std::unordered_map<Key, slot, Hash> slots_;
  std::unordered_map<caf::actor_addr, Key> key_of_;
  std::list<Key> lru_; // awake ones, coldest first
  std::unordered_map<Key, restart_record, Hash> crashes_;
  deadline_heap<Key, Hash> due_; // the ends of the back-offs
  single_timer timer_;
  std::uint64_t activations_ = 0;
  std::uint64_t crash_count_ = 0;
  std::size_t waiting_ = 0;
};

} // namespace swarm::runtime
