#include "cli/verbs/graph_conversations.hpp"

#include <map>
#include <set>

#include "actors/base/text.hpp"
#include "cli/rows.hpp"

namespace swarm::cli {

namespace {

constexpr std::string_view scopes = "node/scopes/";
constexpr std::string_view family = "/conversation/";

/// "opus, turn 3 is open, 2 turns, $0.12": state and harness are in the graph.
std::string what_it_does(const v1::Conversation& c) {
  auto out = c.model().empty() ? std::string{} : c.model() + ", ";
  if (!c.open_turn().empty())
    out += "turn " + c.open_turn() + " is open, ";
  out += concat({c.usage().turns(), c.usage().turns() == 1 ? " turn" : " turns"});
  if (c.usage().cost_known())
    out += ", $" + fixed(c.usage().cost_usd(), 4);
  return out;
}

void add_of_scope(const invocation& cli, const std::string& scope, std::map<std::string, v1::Conversation>& to) {
  auto q = cli.query();
  q.set_scope(scope);
  q.mutable_list_conversations()->set_open_only(true);
  try {
    for (auto& c : all_rows<v1::Conversation>(cli, std::move(q)))
      to.emplace(c.id(), std::move(c));
  } catch (const failure&) {
    // Its home is away. The graph says the rest.
  }
}

} // namespace

void add_conversations(const invocation& cli, v1::ActorGraph& graph) {
  std::set<std::string> asked;
  std::map<std::string, v1::Conversation> known;
  for (auto& n : *graph.mutable_nodes()) {
    const auto& path = n.path();
    const auto at = path.rfind(family);
    if (n.kind() != "conversation" || !n.node().empty() || !path.starts_with(scopes) || at == path.npos || at < scopes.size())
      continue;
    if (const auto scope = path.substr(scopes.size(), at - scopes.size()); asked.insert(scope).second)
      add_of_scope(cli, scope, known);
    if (const auto c = known.find(path.substr(at + family.size())); c != known.end())
      n.set_detail(concat({n.detail(), n.detail().empty() ? "" : ", ", what_it_does(c->second)}));
  }
}

} // namespace swarm::cli
