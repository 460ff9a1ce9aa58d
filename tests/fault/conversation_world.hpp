// Conversations with agents whose every word is known, and what the log, the rows and the agents say of them afterwards.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "swarm/v1/conversation.grpc.pb.h"
#include "tests/fault/fault_world.hpp"

namespace swarm::testing {

/// A prompt as it was sent.
struct said_prompt {
  std::string id, name, harm; // what was killed in its round
  int texts = 0;
  int asks = 0;
};

/// One conversation.
class fault_talk {
public:
  fault_talk(const test_node&, fault_client&, const std::string& name);

  const std::string& id() const { return id_; }
  /// Stored when this returns, however often the node dies meanwhile.
  void send(int texts, int asks, int pause_ms);
  /// In the round of the prompts since the last call; `loses_words`: what its agent has said last may be lost with the driver.
  void was_harmed(const std::string& what, bool loses_words);
  /// Until nothing runs and nothing waits; what waits because too many starts failed is told to go on. Empty, or what it is instead.
  std::string come_to_rest();
  /// Of its driver below this keeper, and of its agent; 0 = none.
  pid_t driver(pid_t keeper) const;
  pid_t agent(pid_t keeper) const;

  /// Against the journal of its agents. Empty, or what is wrong.
  std::string check();
  std::size_t prompts() const { return prompts_.size(); }
  std::size_t consumed = 0, unknown = 0, undeliverable = 0, decisions = 0; // counted by check

private:
  struct journal;
  struct turn;
  v1::Conversation row();
  std::vector<v1::Prompt> prompt_rows();
  std::vector<v1::ConversationItem> items();
  std::map<std::string, turn> turns_of(const std::vector<v1::ConversationItem>&);
  void found(const std::string& what);
  std::string check_prompt(const said_prompt&, const v1::Prompt*, const journal&, const std::map<std::string, turn>&);
  std::string check_texts(const said_prompt&, const turn&, const journal&) const;
  std::string check_decisions(const journal&, const std::vector<v1::ConversationItem>&);

  const test_node& node_;
  fault_client& client_;
  node_client operator_;
  std::string name_, journal_, id_;
  std::vector<said_prompt> prompts_;
  std::set<std::string> lossy_;                          // names of prompts
  std::map<std::string, int> user_items_, lost_notices_; // of the log, by prompt
  std::string wrong_;
  std::size_t wrongs_ = 0;
};

/// Two people who decide whatever is asked, each as it likes and without regard for the other.
class deciders {
public:
  deciders(const test_node&, history::recorder&, unsigned seed);
  ~deciders();

private:
  std::atomic<bool> stop_{false};
  std::vector<std::unique_ptr<fault_client>> clients_;
  std::vector<std::thread> threads_;
};

} // namespace swarm::testing
