// What travels between supervisors, the registry and those who look at the tree.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <caf/actor_control_block.hpp>
#include <caf/allowed_unsafe_message_type.hpp>
#include <caf/meta/type_name.hpp>

namespace swarm::runtime {

/// Where a name lives. A later incarnation of the same name has a higher number, also across restarts of its supervisor, so a
/// cached handle is recognisably stale.
struct binding {
  std::string name;
  std::uint64_t incarnation = 0;
  caf::strong_actor_ptr who; // null while down
};

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, binding& x) {
  return f(caf::meta::type_name("swarm::runtime::binding"), x.name, x.incarnation, x.who);
}

/// One row of the live tree. An actor that answers `tree_atom` describes itself with an empty path and what is below it with
/// relative ones ("a", "a/b"); each level puts its child's name in front.
struct tree_entry {
  static constexpr std::int64_t depth_unknown = -1;

  std::string path;
  std::string kind;
  /// up, ending, waiting (to be started again), ended, draining, silent (did not answer in time), or the actor's own word.
  std::string state;
  std::int64_t age_ms = 0; // since the current incarnation started; 0 while down
  std::uint64_t restarts = 0;
  std::int64_t mailbox_depth = depth_unknown; // messages waiting
  std::string detail;
};

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, tree_entry& x) {
  return f(caf::meta::type_name("swarm::runtime::tree_entry"), x.path, x.kind, x.state, x.age_ms, x.restarts, x.mailbox_depth, x.detail);
}

struct child_spec; // supervisor.hpp; holds a function, so it never leaves the process

} // namespace swarm::runtime

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(swarm::runtime::child_spec)
