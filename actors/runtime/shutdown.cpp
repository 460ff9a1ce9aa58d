#include "actors/runtime/shutdown.hpp"

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <utility>

#include <caf/actor_system.hpp>
#include <caf/after.hpp>
#include <caf/scoped_actor.hpp>

#include "actors/base/log.hpp"
#include "actors/runtime/ending.hpp"

namespace swarm::runtime {

namespace {

bool wait_down(caf::scoped_actor& me, std::chrono::milliseconds patience) {
  auto gone = false;
  me->receive([&](const caf::down_msg&) { gone = true; }, caf::after(patience) >> [] {});
  return gone;
}

bool attempt(const std::string& name, const shutdown::step& what, std::chrono::milliseconds grace) {
  try {
    return what(grace);
  } catch (const std::exception& e) {
    log::error({"stopping ", name, " failed: ", e.what()});
    return false;
  }
}

} // namespace

shutdown::shutdown(std::chrono::milliseconds margin) : margin_(margin) {}

shutdown::~shutdown() {
  {
    std::lock_guard lock{mutex_};
    disarmed_ = true;
  }
  changed_.notify_all();
  if (watchdog_.joinable())
    watchdog_.join();
}

void shutdown::add(std::string name, std::chrono::milliseconds grace, step what) { steps_.push_back({std::move(name), grace, std::move(what)}); }

std::vector<std::string> shutdown::run() {
  deadline_ = std::chrono::steady_clock::now() + margin_;
  for (const auto& s : steps_)
    deadline_ += s.grace;
  watchdog_ = std::thread{[this] { watch(); }};
  std::vector<std::string> late;
  for (const auto& s : steps_) {
    log::info({"stopping ", s.name});
    if (!attempt(s.name, s.what, s.grace)) {
      log::warn({s.name, " did not stop within ", s.grace.count(), " ms"});
      late.push_back(s.name);
    }
    std::lock_guard lock{mutex_};
    ++current_;
  }
  {
    std::lock_guard lock{mutex_};
    deadline_ = std::min(deadline_, std::chrono::steady_clock::now() + margin_);
  }
  changed_.notify_all();
  return late;
}

void shutdown::watch() {
  std::unique_lock lock{mutex_};
  while (!disarmed_ && std::chrono::steady_clock::now() < deadline_)
    changed_.wait_until(lock, std::chrono::steady_clock::time_point{deadline_});
  if (disarmed_)
    return;
  log::critical({"shutdown took too long; still there: ", left()});
  log::flush();
  std::_Exit(exit_code);
}

std::string shutdown::left() const {
  if (current_ >= steps_.size())
    return "the actor system (all steps are over)";
  std::string out = steps_[current_].name;
  for (auto i = current_ + 1; i < steps_.size(); ++i)
    out += ", " + steps_[i].name;
  return out;
}

bool stop_actor(caf::actor_system& system, const caf::actor& who, std::chrono::milliseconds grace) {
  if (!who)
    return true;
  caf::scoped_actor me{system};
  me->monitor(who);
  ask_to_end(who);
  if (wait_down(me, grace))
    return true;
  kill(who);
  wait_down(me, std::chrono::seconds{1});
  return false;
}

} // namespace swarm::runtime
