// Sees to it that this node's certificate is renewed before it ends: at the home by the authority, if that is unlocked, elsewhere by asking
// the home. And that the authority's key does not stay in memory for longer than it was unlocked for, whether somebody asks for it or not.
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
  /// `renewed` is called, on a thread of its own, when there is a new certificate.
  renewal(cluster& of, const links& transport, const clock_port& clock, std::function<void()> renewed);
  ~renewal();

  /// Something has changed that may let it go now: the authority was unlocked, this node is in a cluster.
  void wake();
  void stop();

private:
  void run();
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
