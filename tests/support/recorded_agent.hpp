// A node with an agent that plays its part of a recording.
#pragma once

#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>

#include "tests/support/node_client.hpp"

namespace swarm::testing {

struct recorded_agent {
  /// A file of tests/agents/fixtures/claude/streams, and the prompt there.
  struct part {
    std::string recording = "tools";
    std::string prompt = "87916540-ed07-41dd-b0f0-984e9a4fb95a";
  };

  test_node node;
  std::unique_ptr<node_client> client;
  std::string agent, heard, agent_pid;

  /// With `hears_on` the agent also notes what it hears after the recording.
  explicit recorded_agent(const part& p, bool hears_on = false) {
    agent = node.work() + "/agent";
    heard = node.work() + "/heard";
    agent_pid = node.work() + "/agent.pid";
    std::ofstream{agent} << "#!/bin/bash\nexport HEARD=" << heard << " RECORDING=" << std::getenv("SWARM_SOURCE_DIR")
                         << "/tests/agents/fixtures/claude/streams/" << p.recording << ".jsonl\necho $$ > " << agent_pid
                         << "\nwas_init=init-1\nwas_prompt=" << p.prompt << "\n"
                         << player << (hears_on ? listener : "cat > /dev/null\n");
    fs::permissions(agent, fs::perms::owner_all);
    node.start();
    reconnect();
  }
  void reconnect() { client = std::make_unique<node_client>(node); }

  v1::Conversation conversation(const std::string& id) {
    auto q = client->query();
    q.mutable_list_conversations()->set_id(id);
    const auto a = client->ask(q);
    REQUIRE(a.conversations().conversations_size() == 1);
    return a.conversations().conversations(0);
  }
  v1::Approval open_permission() {
    v1::Approval found;
    REQUIRE(eventually([&] {
      auto q = client->query();
      q.mutable_list_approvals()->set_open_only(true);
      const auto a = client->ask(q);
      if (a.approvals().approvals_size() != 1)
        return false;
      found = a.approvals().approvals(0);
      return true;
    }));
    return found;
  }
  void decide(const v1::Approval& a, const std::string& option) {
    auto c = client->command();
    c.mutable_decide_approval()->set_approval_id(a.id());
    c.mutable_decide_approval()->set_option(option);
    c.mutable_decide_approval()->set_action_digest(a.action_digest());
    const auto r = client->execute(c);
    CHECK_MESSAGE(!r.has_refusal(), r.refusal().text());
  }

private:
  /// Of what it hears, one line takes the place of each that was recorded, and its own words take the place of those that were.
  static constexpr const char* player = R"(while IFS= read -r recorded <&3; do
  if [[ $recorded == *'"to":'* ]]; then
    IFS= read -r heard || exit 0
    printf '%s\n' "$heard" >> "$HEARD"
    if [[ $recorded == *'"subtype":"initialize"'* && $heard =~ \"request_id\":\"([^\"]*)\" ]]; then init=${BASH_REMATCH[1]}; fi
    if [[ $recorded == *'"to":{"type":"user"'* && $heard =~ \"uuid\":\"([^\"]*)\" ]]; then prompt=${BASH_REMATCH[1]}; fi
  elif [[ $recorded =~ ^\{\"at\":[0-9]+,\"from\":(.*)\}$ ]]; then
    said=${BASH_REMATCH[1]}
    said=${said//$was_init/$init}
    printf '%s\n' "${said//$was_prompt/$prompt}"
  fi
done 3< "$RECORDING"
)";
  static constexpr const char* listener = R"(while IFS= read -r heard; do printf '%s\n' "$heard" >> "$HEARD"; done
)";
};

} // namespace swarm::testing
