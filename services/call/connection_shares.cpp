#include "services/call/connection_shares.hpp"

#include <algorithm>

namespace swarm {

connection_shares::verdict connection_shares::take(const std::string& caller, bool is_operator) {
  const auto kept = is_operator ? 0 : std::min(bounds_.for_operator, bounds_.total);
  if (open_ + kept >= bounds_.total)
    return verdict::node_full;
  if (open(caller) >= bounds_.per_caller)
    return verdict::caller_full;
  ++open_;
  ++by_caller_[caller];
  return verdict::taken;
}

void connection_shares::give_back(const std::string& caller) {
  auto i = by_caller_.find(caller);
  if (i == by_caller_.end())
    return;
  --open_;
  if (--i->second == 0)
    by_caller_.erase(i);
}

std::size_t connection_shares::open(const std::string& caller) const {
  auto i = by_caller_.find(caller);
  return i == by_caller_.end() ? 0 : i->second;
}

} // namespace swarm
