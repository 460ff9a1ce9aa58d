#include "actors/fabric/node_environment.hpp"

namespace swarm {

namespace {

void set_node_principal(const node_environment& node, v1::Principal& p) {
  p.set_kind(v1::Principal::NODE);
  p.set_id(node.facts.node_id);
}

} // namespace

execution_ptr internal_command(const node_environment& node, const std::string& scope, std::function<void(v1::Command&)> fill) {
  auto e = std::make_shared<execution>();
  e->command.set_scope(scope);
  set_node_principal(node, *e->command.mutable_principal());
  fill(e->command);
  return e;
}

query_ptr internal_query(const node_environment& node, const std::string& scope, std::function<void(v1::Query&)> fill) {
  auto q = std::make_shared<v1::Query>();
  q->set_scope(scope);
  set_node_principal(node, *q->mutable_principal());
  fill(*q);
  return q;
}

} // namespace swarm
