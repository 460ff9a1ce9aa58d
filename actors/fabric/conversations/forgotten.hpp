// Conversations that were deleted while the node runs: a late read or write of one must not make its directory again.
#pragma once

#include <cstddef>
#include <deque>
#include <set>
#include <string>

namespace swarm {

class forgotten_conversations {
public:
  void add(const std::string& id) {
    if (!ids_.insert(id).second)
      return;
    order_.push_back(id);
    if (order_.size() > newest_kept) {
      ids_.erase(order_.front());
      order_.pop_front();
    }
  }
  bool has(const std::string& id) const { return ids_.count(id) > 0; }

private:
  /// Who comes late comes soon; and what is made all the same has no row, so that the next round takes it.
  static constexpr std::size_t newest_kept = 4096;
  std::set<std::string> ids_;
  std::deque<std::string> order_;
};

} // namespace swarm
