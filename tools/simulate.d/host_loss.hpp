// What the home does for a node that is gone, as actors/fabric front and scope do: every scope is read, and what lived there is ended by a
// command each.
#pragma once

#include <set>
#include <unordered_map>

#include "tools/simulate.d/cluster.hpp"

namespace swarm::simulate {

class host_loss_watch {
public:
  explicit host_loss_watch(cluster&);
  host_loss_watch(const host_loss_watch&) = delete;
  host_loss_watch& operator=(const host_loss_watch&) = delete;

  /// Its sessions and workers are expected to end.
  void lose(std::size_t node);

  std::size_t sessions_lost() const { return ends_.size(); }
  std::size_t workers_lost = 0;
  std::size_t sessions_ended = 0, workers_ended = 0; // of them, once
  std::size_t ended_twice = 0, ended_by_mistake = 0;
  std::uint64_t commands = 0, not_taken = 0; // of the home for this; those that the writer's line had no room for
  std::uint64_t mail = 0;                    // messages to others about it
  micros first_gone = 0, last_end = 0;
  /// Nothing is under way any more.
  bool quiet() const { return lost_.empty() && reading_ == 0 && commands == answered_ + not_taken; }

private:
  void gone(std::size_t node);
  void read(const std::string& node_id, const std::string& scope, bool workers, const std::string& page);
  void end(const std::string& scope, const std::function<void(v1::Command&)>& fill);
  void note(const v1::Batch&);

  cluster& c_;
  std::set<std::size_t> lost_; // not known to be gone yet
  std::unordered_map<std::string, int> ends_, worker_ends_;
  std::set<std::string> living_;
  std::size_t reading_ = 0;
  std::uint64_t answered_ = 0;
};

} // namespace swarm::simulate
