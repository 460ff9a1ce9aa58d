// What is played. Each adds its figures; each needs an empty folder.
#pragma once

#include "tools/simulate.d/cluster.hpp"
#include "tools/simulate.d/figures.hpp"

namespace swarm::simulate {

/// Sessions that live by heartbeats, over all links to one home; then twice as many, and so on, until the home does not keep up.
void heartbeats(const settings&, figures&);
/// Commits at the home that concern one node, and such that concern all, at rising rates; then slow_node().
void fan_out(const settings&, figures&);
/// One node that takes in little, among fast ones, at so many commits a second that concern all.
void slow_node(const settings&, double rate, figures&);
/// That share of the nodes vanishes at once, with locks, claims and workers, and comes back when the home has dealt with it.
void host_loss(const settings&, double share, figures&);
/// The same for few sessions of one scope that all have claimed a task, whose end everybody there is told; then for twice as many, and so on.
void claims_lost(const settings&, figures&);
/// The home is started again: every node dials, and reads again what it holds.
void rejoin(const settings&, figures&);

/// A folder in settings::dir for one cluster's store, which goes with it.
class scratch {
public:
  explicit scratch(const settings& base) : made(base) {
    static int count = 0;
    made.dir = base.dir / std::to_string(++count);
    std::filesystem::create_directories(made.dir);
  }
  ~scratch() {
    std::error_code left;
    std::filesystem::remove_all(made.dir, left);
  }
  scratch(const scratch&) = delete;
  scratch& operator=(const scratch&) = delete;
  settings made;
};

/// Whether this machine has worked long enough on something.
class effort {
public:
  explicit effort(const settings& s) : end_ns_(processor_ns() + s.effort_seconds * 1'000'000'000) {}
  bool spent() const { return processor_ns() > end_ns_; }

private:
  std::int64_t end_ns_;
};

inline double seconds(micros t) { return static_cast<double>(t) / one_second; }
inline double millis(micros t) { return static_cast<double>(t) / one_ms; }

} // namespace swarm::simulate
