// --on and --where: which host starts a worker.
#pragma once

#include <string>
#include <vector>

#include "actors/domain/variables_text.hpp"
#include "cli/verb.hpp"

namespace swarm::cli {

struct placement_options {
  std::string on;
  std::vector<std::string> where;
  bool explain = false;
};

inline constexpr const char* default_node_of_worker = "the least busy node that fits; this node outside a shared checkout";

inline void add_placement(CLI::App& app, placement_options& o, const std::string& otherwise = default_node_of_worker) {
  option(app, "--on", o.on, "node that starts the worker: its name or id (default: " + otherwise + ")", argument::node);
  option(app, "--where", o.where, "label the node must have, NAME=VALUE; may be repeated");
}

/// Of a v1::Dispatch, v1::RequestSpawn or v1::CreatePtyRequest. Throws `failure` (usage) for a malformed label.
template <class Body>
void set_placement(Body& body, const placement_options& o) {
  body.set_on(o.on);
  for (const auto& text : comma_separated(o.where)) {
    auto equals = text.find('=');
    if (equals == 0 || equals == std::string::npos)
      throw usage("--where takes NAME=VALUE, for instance --where gpu=yes");
    auto& label = *body.add_where();
    label.set_name(text.substr(0, equals));
    label.set_value(text.substr(equals + 1));
  }
}

/// Of a worker or terminal with variables of --env, which stay with this node: true when nothing is asked for and it has to be said that it starts
/// here. Throws `failure` when another node is asked for.
inline bool is_kept_here(const invocation& cli, const placement_options& o) {
  if (o.on.empty() && o.where.empty())
    return true;
  const auto here = cli.node().admin.status();
  if (!o.where.empty() || (o.on != here.node_name() && o.on != here.node_id()))
    throw failure(code::refused, domain::variables_stay);
  return false;
}

/// For --explain. `placement`: as the node gives it.
inline void print_placement(console& io, const std::string& placement) {
  io.error(placement.empty() ? "placed here: this node has no others to choose from" : "placed on " + placement);
}

} // namespace swarm::cli
