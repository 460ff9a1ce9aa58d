#include "services/api/passed_inputs.hpp"

#include <algorithm>

#include "actors/base/limits.hpp"

namespace swarm {

void passed_inputs::stand(const std::string& client) {
  std::lock_guard guard{mutex_};
  auto& c = callers_[client];
  ++c.streams;
  c.ended = c.ended || std::find(ended_.begin(), ended_.end(), client) != ended_.end();
}

void passed_inputs::leave(const std::string& client) {
  std::lock_guard guard{mutex_};
  auto i = callers_.find(client);
  if (i == callers_.end() || --i->second.streams > 0)
    return;
  if (i->second.ended)
    ended_.push_back(client);
  if (ended_.size() > limits::pty_inputs_remembered_max)
    ended_.pop_front();
  callers_.erase(i);
}

bool passed_inputs::stands(const std::string& client) const {
  std::lock_guard guard{mutex_};
  return callers_.contains(client);
}

void passed_inputs::end(const std::string& client) {
  if (client.empty())
    return;
  std::lock_guard guard{mutex_};
  if (auto i = callers_.find(client); i != callers_.end()) {
    i->second.ended = true;
    return;
  }
  ended_.push_back(client);
  if (ended_.size() > limits::pty_inputs_remembered_max)
    ended_.pop_front();
}

void passed_inputs::go_on(const std::string& client) {
  std::lock_guard guard{mutex_};
  if (auto i = callers_.find(client); i != callers_.end())
    i->second.ended = false;
  std::erase(ended_, client);
}

bool passed_inputs::has_ended(const std::string& client) const {
  std::lock_guard guard{mutex_};
  auto i = callers_.find(client);
  return i != callers_.end() ? i->second.ended : std::find(ended_.begin(), ended_.end(), client) != ended_.end();
}

} // namespace swarm
