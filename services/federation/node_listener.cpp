#include "services/federation/node_listener.hpp"

#include <algorithm>

#include "actors/base/limits.hpp"
#include "actors/base/log.hpp"
#include "services/federation/listen_address.hpp"

namespace swarm {

node_listener::node_listener(cluster& of, links& transport, const clock_port& clock, hooks h)
  : cluster_(of), links_(transport), clock_(clock), hooks_(std::move(h)), thread_([this] { run(); }) {}

node_listener::~node_listener() { stop(); }

void node_listener::stop() {
  {
    std::lock_guard guard{mutex_};
    stopping_ = true;
  }
  woken_.notify_all();
  if (thread_.joinable())
    thread_.join();
}

std::optional<std::string> node_listener::begin(const std::string& address) {
  std::lock_guard alone{attempts_};
  auto wrong = links_.serve(address);
  settle(address, wrong);
  return wrong;
}

std::optional<std::string> node_listener::move(const std::string& address) {
  std::lock_guard alone{attempts_};
  std::string before;
  {
    std::lock_guard guard{mutex_};
    if (address_ == address && failed_.empty())
      return std::nullopt;
    before = address_;
  }
  auto wrong = links_.serve(address);
  if (!wrong)
    settle(address, wrong);
  else if (!before.empty() && !links_.listens())
    settle(before, links_.serve(before)); // somebody else took the port meanwhile
  return wrong;
}

void node_listener::settle(const std::string& address, const std::optional<std::string>& wrong) {
  bool news = false;
  {
    std::lock_guard guard{mutex_};
    const auto now = wrong.value_or("");
    news = failed_ != now;
    pause_ = failed_.empty() ? limits::link_redial_min() : std::min(2 * pause_, limits::link_redial_max());
    failed_ = now;
    address_ = address;
  }
  if (news && wrong)
    log::error({"other nodes cannot reach this one: ", *wrong});
  else if (news && !address.empty())
    log::info({"listens for other nodes at ", address});
  woken_.notify_all();
  if (!news)
    return;
  cluster_.cannot_listen(wrong.value_or(""));
  hooks_.changed();
}

void node_listener::try_again() {
  std::lock_guard alone{attempts_};
  std::string address;
  {
    std::lock_guard guard{mutex_};
    if (stopping_ || failed_.empty())
      return;
    address = address_;
  }
  auto wrong = links_.serve(address);
  settle(address, wrong);
  if (!wrong)
    return;
  // Of two nodes with one state directory that have waited for the port, one has it now.
  if (auto twin = twin_of_home(cluster_.authority(), clock_.unix_ms()))
    hooks_.displaced(*twin);
}

void node_listener::run() {
  std::unique_lock lock{mutex_};
  while (!stopping_) {
    if (failed_.empty()) {
      woken_.wait(lock);
      continue;
    }
    // It also wakes up for an attempt of somebody else, after which the pause is another.
    const auto pause = pause_;
    if (woken_.wait_for(lock, pause) == std::cv_status::no_timeout)
      continue;
    lock.unlock();
    try_again();
    lock.lock();
  }
}

} // namespace swarm
