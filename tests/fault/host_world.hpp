// Three hosts on a network that can be harmed: a, the home, and the members b and c. b's link to the home is a plain route, c's goes
// through a proxy; without namespaces both do.
#pragma once

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/support/host_network.hpp"
#include "tests/support/machine_clock.hpp"
#include "tests/support/node_process.hpp"
#include "tests/support/small_disk.hpp"
#include "tests/support/tcp_proxy.hpp"

namespace swarm::testing {

/// The scope that all hosts share.
inline constexpr auto shared_scope = "shared";

class host_world {
public:
  static constexpr std::size_t hosts = 3;
  static constexpr std::size_t home = 0;

  /// All nodes are up and linked. `limits`: lines of [limits] for each of them. SWARM_TEST_LOOPBACK=1: without namespaces, also where they
  /// could be made.
  host_world(unsigned seed, const std::string& limits);
  ~host_world();

  const test_node& node(std::size_t host) const { return *nodes_[host]; }
  static std::string name(std::size_t host) { return std::string(1, static_cast<char>('a' + host)); }
  std::vector<const test_node*> nodes() const;
  const std::string& kind() const { return kind_; }

  run_result ctl(std::size_t host, std::vector<std::string> arguments) const;
  json ctl_json(std::size_t host, std::vector<std::string> arguments) const;
  /// How the one says its link to the other is.
  std::string link(std::size_t seen_by, std::size_t other) const;
  /// Every member and the home see each other; `but`: without this one. False at the deadline.
  bool linked(std::chrono::milliseconds deadline = patience, std::size_t but = hosts) const;

  /// With a token of its own.
  void join(std::size_t member);
  /// What the node and the programs of its host have logged.
  std::string log(std::size_t host) const;

  // Harms. A member's link is cut in the directions named, with whatever is there to cut it.
  void cut(std::size_t member, bool to_home, bool to_member);
  void mend(std::size_t member);
  void kill_node(std::size_t host);
  void start_node(std::size_t host);
  void kill_keeper(std::size_t host);
  void freeze(std::size_t host) const;
  void thaw(std::size_t host) const;
  /// Where state directories lie on file systems of their own; elsewhere these do nothing.
  bool has_small_disks() const { return disks_.front() != nullptr; }
  void fill_disk(std::size_t host) const;
  /// A node that gave up meanwhile, as its store failed again and again, is started again.
  void free_disk(std::size_t host);
  /// Of all hosts, which share the machine's.
  machine_clock& clock() { return clock_; }
  /// Only for a member whose link goes through one; null for others.
  tcp_proxy* proxy(std::size_t member) const { return proxies_[member].get(); }
  /// Everything that this class has harmed is well again, but for nodes that were killed.
  void heal();
  /// How often this host's keeper was killed: so often its terminals were lost.
  unsigned keeper_kills(std::size_t host) const { return keeper_kills_[host]; }
  /// By how many bytes a node was seen to have grown since all were up, at most.
  std::uint64_t grown_most() const { return grown_most_; }

  /// Looks at the nodes, keepers and workers that run just now, for `misdeeds`.
  void look();
  /// What has happened that must not: a node that ended without being killed or has taken far too much memory, a secret in a log, an argument
  /// list or a file, a file that others may read. Empty: nothing.
  std::string misdeeds();

private:
  void configure(std::size_t host, const std::string& limits);
  void found();
  void unlock();
  void misdeed(std::string what);
  void look_at_memory(std::size_t host);
  void look_at_arguments(std::size_t host);
  void look_at_files(std::size_t host);
  void lead_through_proxy(std::size_t member);

  unsigned seed_;
  std::string kind_;
  host_network network_;
  int port_ = 0;
  std::array<std::unique_ptr<test_node>, hosts> nodes_;
  std::array<std::unique_ptr<small_disk>, hosts> disks_;
  std::array<std::unique_ptr<tcp_proxy>, hosts> proxies_;
  std::array<std::atomic<unsigned>, hosts> keeper_kills_{};
  std::set<std::string> secrets_; // but for the sessions' tokens
  std::array<std::uint64_t, hosts> resident_at_first_{};
  std::uint64_t grown_most_ = 0;
  std::string misdeeds_;
  machine_clock clock_;
};

/// Every kind of harm once, in an order left to chance, then all of them again in another one.
class harms {
public:
  harms(const host_world&, unsigned seed);
  /// How many kinds can be done here.
  std::size_t kinds() const { return possible_.size(); }
  /// Does the next one, for a time left to chance, and makes it good. What it was, for people.
  std::string next(host_world&);

private:
  using harm = std::string (*)(host_world&, std::mt19937&);
  std::mt19937 rng_;
  std::vector<harm> possible_;
  std::vector<harm> left_;
};

} // namespace swarm::testing
