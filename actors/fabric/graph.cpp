#include "actors/fabric/graph.hpp"

#include "actors/base/limits.hpp"

namespace swarm {

void add_rows(v1::ActorGraph& graph, const std::vector<runtime::tree_entry>& rows, const std::string& filter, const std::string& node) {
  std::size_t bytes = 0;
  for (const auto& r : rows) {
    auto path = r.path.empty() ? std::string{"node"} : "node/" + r.path;
    if (!filter.empty() && path.find(filter) == std::string::npos)
      continue;
    if (static_cast<std::size_t>(graph.nodes_size()) >= limits::tree_rows_max() || bytes > limits::page_encoded_bytes_max)
      break;
    auto* n = graph.add_nodes();
    n->set_path(std::move(path));
    n->set_kind(r.path.empty() ? "node" : r.kind);
    n->set_state(r.state);
    n->set_age_ms(r.age_ms);
    n->set_restarts(static_cast<std::uint32_t>(r.restarts));
    n->set_mailbox(r.mailbox_depth < 0 ? 0 : static_cast<std::uint64_t>(r.mailbox_depth));
    n->set_detail(r.detail);
    n->set_node(node);
    bytes += n->ByteSizeLong();
  }
}

void add_rows(v1::ActorGraph& graph, const v1::ActorGraph& other) {
  auto bytes = graph.ByteSizeLong();
  for (const auto& n : other.nodes()) {
    if (static_cast<std::size_t>(graph.nodes_size()) >= limits::tree_rows_max() || bytes > limits::page_encoded_bytes_max)
      break;
    *graph.add_nodes() = n;
    bytes += n.ByteSizeLong();
  }
}

} // namespace swarm
