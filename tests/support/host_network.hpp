// The network between the hosts of a test. Each host is a network namespace of its own behind one router, where packets can be thrown away
// by sender and receiver, one way or both. The namespaces have no names: they go with the last of the test's descriptors and programs, however
// it ends. Where they may not be made, all hosts are on loopback, and only what goes through a proxy can be cut.
#pragma once

#include <cstddef>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "actors/base/unique_fd.hpp"

namespace swarm::testing {

class host_network {
public:
  /// A place: a host by its number, or the router, where proxies are.
  static constexpr std::size_t router = static_cast<std::size_t>(-1);

  /// Without `may_separate` on loopback in any case.
  explicit host_network(std::size_t hosts, bool may_separate = true);

  bool separate() const { return separate_; }
  /// For the one who reads what the run says.
  const std::string& kind() const { return kind_; }
  std::string address(std::size_t host) const;
  /// Where the router is reached by this host alone.
  std::string router_address(std::size_t host) const;
  /// Runs it with the calling thread in the place: its sockets, the programs it starts and the threads it makes are there.
  void inside(std::size_t place, const std::function<void()>&) const;

  /// From now on nothing of the one arrives at the other; with the router as one of them: between the host and proxies. Nothing without
  /// namespaces.
  void cut(std::size_t from, std::size_t to);
  void mend(std::size_t from, std::size_t to);
  void mend_all();

private:
  void build(std::size_t hosts);
  void ip(std::size_t place, const std::string& commands) const;
  std::string rule(std::size_t from, std::size_t to) const;
  void change(const char* verb, std::size_t from, std::size_t to) const;

  bool separate_ = false;
  std::string kind_;
  unique_fd here_;
  unique_fd router_;
  std::vector<unique_fd> hosts_;
  std::mutex mutex_;
  std::set<std::pair<std::size_t, std::size_t>> cuts_;
};

} // namespace swarm::testing
