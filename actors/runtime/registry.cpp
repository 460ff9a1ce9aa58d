#include "actors/runtime/registry.hpp"

namespace swarm::runtime {

// The dead are remembered so that late news of them is recognised, but not for ever: names come and go.
void registry::remember_dead(const binding& b) {
  dead_.emplace_back(b.name, b.incarnation);
  if (dead_.size() <= limits::registry_dead_names_max())
    return;
  auto [name, incarnation] = std::move(dead_.front());
  dead_.pop_front();
  auto i = by_name_.find(name);
  if (i != by_name_.end() && !i->second.who && i->second.incarnation == incarnation)
    by_name_.erase(i);
}

void registry::bind(const binding& news) {
  {
    std::lock_guard guard{mutex_};
    auto& known = by_name_[news.name];
    // Equal incarnations: the death of that very one; a birth cannot follow its own death.
    if (news.incarnation < known.incarnation || (news.incarnation == known.incarnation && news.who && !known.name.empty()))
      return;
    known = news;
    if (!news.who)
      remember_dead(news);
  }
  changed_.notify_all();
}

std::optional<binding> registry::lookup(const std::string& name) const {
  std::lock_guard guard{mutex_};
  auto i = by_name_.find(name);
  return i == by_name_.end() ? std::nullopt : std::optional{i->second};
}

caf::strong_actor_ptr registry::wait_for(const std::string& name, const caf::strong_actor_ptr& other_than,
                                         std::chrono::steady_clock::time_point deadline) const {
  std::unique_lock lock{mutex_};
  caf::strong_actor_ptr found;
  changed_.wait_until(lock, deadline, [&] {
    auto i = by_name_.find(name);
    found = i == by_name_.end() || i->second.who == other_than ? nullptr : i->second.who;
    return found != nullptr;
  });
  return found;
}

void registry::clear() {
  std::unordered_map<std::string, binding> dropped; // outside of the lock
  std::lock_guard guard{mutex_};
  dropped.swap(by_name_);
  dead_.clear();
}

} // namespace swarm::runtime
