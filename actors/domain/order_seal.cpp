#include "actors/domain/order_seal.hpp"

#include "actors/base/crypto.hpp"
#include "actors/domain/rows.hpp"

namespace swarm::domain {

namespace {

/// A key of its own: workers' tokens are made with the node's key as well.
std::string seal_key(const order_sealer& node) { return keyed_hash(node.node_key, "swarm-fabric: seals of orders 1"); }

/// With its length before it, so that no two lists of parts are the same bytes.
void add(std::string& text, std::string_view part) {
  text += std::to_string(part.size());
  text += ':';
  text += part;
}

/// `Described`: a command's body or the row it became.
template <class Described>
std::string seal_of(const Described& worker, std::string_view scope, std::string_view spawn_id, const order_sealer& node) {
  std::string text;
  for (auto part : {scope, spawn_id, std::string_view{worker.harness()}, std::string_view{worker.directory()}, std::string_view{node.node_id}})
    add(text, part);
  for (const auto& argument : worker.argv())
    add(text, argument);
  return keyed_hash(seal_key(node), text);
}

template <class Body>
void seal(Body& body, const v1::Command& cmd, const v1::RequestId& request, const order_sealer& node) {
  std::string name{"spawn of "};
  for (auto part : {principal_key(cmd.principal()), request.client(), std::to_string(request.seq())})
    add(name, part);
  auto& order = *body.mutable_order();
  order.set_spawn_id(uuid_of(keyed_hash(seal_key(node), name)));
  order.set_seal(seal_of(body, cmd.scope(), order.spawn_id(), node));
}

} // namespace

void seal_order(v1::Command& cmd, const v1::RequestId& request, const order_sealer& node) {
  if (cmd.has_dispatch() && !cmd.dispatch().harness().empty())
    seal(*cmd.mutable_dispatch(), cmd, request, node);
  if (cmd.has_request_spawn())
    seal(*cmd.mutable_request_spawn(), cmd, request, node);
}

bool is_sealed_here(const v1::Spawn& row, std::string_view scope, const order_sealer& node) {
  return row.scope() == scope && equal_secrets(row.seal(), seal_of(row, scope, row.id(), node));
}

} // namespace swarm::domain
