// Which hosts of the cluster an answer does not speak for, because they are not linked.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cli/invocation.hpp"

namespace swarm::cli {

struct away_node {
  std::string id;
  std::string name;
  std::string state;   // for people: since when, and why
  bool is_out = false; // of the cluster: revoked, or gone by itself
  bool was_heard = false;
};

/// The nodes of the cluster that cannot be asked just now. Empty when the caller may not ask for them.
std::vector<away_node> away_nodes(const invocation&);
/// Another node is the home of what the hosts share, also by the directory of a shared checkout. False when the caller may not ask.
bool is_member(const invocation&);
/// The node's name and "12 s", if it is linked to this one and has missed a heartbeat: it may be away, and its link not known to be down yet.
struct silent_node {
  std::string name;
  std::string silent_for;
};
std::optional<silent_node> silent(const invocation&, const std::string& node_id);
/// "a (down for 3 min), b (out of reach: the home is down)" of those that are still in the cluster; empty when all can be asked.
std::string names_not_asked(const invocation&);
/// Says on standard error for which hosts a list does not speak.
void tell_not_asked(const invocation&, const std::string& verb);
/// The same of rows that their home keeps although their hosts are not linked: what they say is as of then.
void tell_stale(const invocation&, const std::string& verb, const std::set<std::string>& node_ids);

/// The scopes that this node knows, and those that hosts share as their home knows them. When that cannot be asked, its shared ones are left out, and
/// standard error says so.
std::vector<std::string> all_scopes(const invocation&, const std::string& verb);

} // namespace swarm::cli
