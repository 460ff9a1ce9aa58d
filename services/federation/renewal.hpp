// Renews this node's certificate before it ends. The home issues its own if the authority is unlocked; a member asks the home for one. The same
// thread wipes the authority's key from memory when the time has passed for which it was unlocked.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "services/federation/cluster.hpp"
#include "services/federation/links.hpp"

namespace swarm {

class renewal {
public:
  /// Starts a thread, which calls `renewed` when there is a new certificate.
  renewal(cluster& of, const links& transport, const clock_port& clock, std::function<void()> renewed);
  ~renewal();

  /// Tries again now: the authority was unlocked, or this node has joined a cluster.
  void wake();
  /// Ends the thread. Returns when it has ended.
  void stop();

private:
  void run();
  /// Empty when the certificate was renewed.
  std::optional<security_failure> renew();
  security_result<std::string> ask_home(const cluster_facts& facts, const std::string& csr) const;

  cluster& cluster_;
  const links& links_;
  const clock_port& clock_;
  std::function<void()> renewed_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool woken_ = false;
  bool stopping_ = false;
  std::thread thread_;
};

} // namespace swarm
