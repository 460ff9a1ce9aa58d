// Conversations that were deleted while the node runs: a late read or write of one must not make its directory again.
#pragma once

#include <deque>
#include <set>
#include <string>

#include "actors/base/limits.hpp"

namespace swarm {

class forgotten_conversations {
public:
  void add(const std::string& id) {
    if (!ids_.insert(id).second)
      return;
    order_.push_back(id);
    if (order_.size() > limits::conversations_forgotten_max) {
      ids_.erase(order_.front());
      order_.pop_front();
    }
  }
  bool has(const std::string& id) const { return ids_.count(id) > 0; }

private:
  std::set<std::string> ids_;
  std::deque<std::string> order_;
};

} // namespace swarm
