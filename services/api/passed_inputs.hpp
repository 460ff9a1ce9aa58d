// Whose standard input becomes that of a command: the node must know when such a caller goes before all of it was passed, for nobody else can bring
// the rest. Any thread may call.
#pragma once

#include <deque>
#include <map>
#include <mutex>
#include <string>

namespace swarm {

/// A caller is known by the client name of what it sends.
class passed_inputs {
public:
  /// The caller has a stream open that ends with it.
  void stand(const std::string& client);
  void leave(const std::string& client);
  bool stands(const std::string& client) const;
  /// All of its input was passed, or the command takes no more. It may have no stream open just then.
  void end(const std::string& client);
  /// It was not taken after all.
  void go_on(const std::string& client);
  bool has_ended(const std::string& client) const;

private:
  struct caller {
    std::size_t streams = 0;
    bool ended = false;
  };
  mutable std::mutex mutex_;
  std::map<std::string, caller> callers_;
  std::deque<std::string> ended_; // the newest ones
};

} // namespace swarm
