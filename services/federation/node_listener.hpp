// Keeps a node listening for the others of its cluster. Where the address cannot be taken, it tries again until it can: nothing tells a process that
// a port has become free.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "services/federation/cluster.hpp"
#include "services/federation/links.hpp"

namespace swarm {

class node_listener {
public:
  struct hooks {
    std::function<void()> changed;                         // whether the others can reach this node
    std::function<void(const std::string& why)> displaced; // another node is this home
  };
  /// Starts a thread, which calls the hooks, too.
  node_listener(cluster& of, links& transport, const clock_port& clock, hooks);
  ~node_listener();

  /// Listens there from now on, with the certificate of now; empty = nowhere. Returns a text for people when it cannot yet.
  std::optional<std::string> begin(const std::string& address);
  /// The same, but where it cannot, everything stays as it was.
  std::optional<std::string> move(const std::string& address);
  /// Ends the thread. The listener goes on.
  void stop();

private:
  void run();
  void try_again();
  void settle(const std::string& address, const std::optional<std::string>& wrong);

  cluster& cluster_;
  links& links_;
  const clock_port& clock_;
  const hooks hooks_;
  std::mutex attempts_; // held during each: they come one after the other
  std::mutex mutex_;
  std::condition_variable woken_;
  std::string address_;
  std::string failed_; // why it does not listen there; empty = it does, or nowhere
  std::chrono::milliseconds pause_{};
  bool stopping_ = false;
  std::thread thread_;
};

} // namespace swarm
