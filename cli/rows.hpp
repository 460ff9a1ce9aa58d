// Rows that more than one verb prints with --json (as in swarm-mcp).
#pragma once

#include <cstdint>
#include <string>

#include "cli/output.hpp"
#include "swarm/v1/cluster.pb.h"
#include "swarm/v1/command.pb.h"

namespace swarm::cli {

/// Who holds a lock across the identity boundary, in place of a label.
inline constexpr const char* hidden_holder = "another identity";

/// The holder as people are told: label, else the beginning of the id.
std::string holder_of(const v1::LockView&);

/// The node is the home, and has revoked the node that was asked.
bool has_revoked_us(const v1::ClusterNode&);
/// What to say when the node that was asked is a home that does not listen for the others; else empty.
std::string unreached_home(const v1::ClusterView&);
/// The name by which the cluster knows the node that was asked, if that is not this one, with which it was started; else empty.
std::string name_in_cluster(const v1::ClusterView&, const std::string& node_name);
/// What to say then.
std::string name_is_taken(const std::string& name, const std::string& name_there);
/// How the link to a node of the cluster is, in a word.
const char* link_text(v1::ClusterNode::Link);
/// The same with since when, how fast, and what else is to be known of the node.
std::string link_state(const v1::ClusterNode&, std::int64_t now_ms);
/// The same of a node of the cluster as this one sees it: another member is out of reach when there is no way through the home.
std::string link_state(const v1::ClusterNode&, const v1::ClusterView&, std::int64_t now_ms);
/// What is known of the node is as of now: it is this one, or linked, or another member while the home is linked.
bool is_reachable(const v1::ClusterNode&, const v1::ClusterView&);

/// Why a prompt woke nobody who was not to be woken (as in swarm-mcp).
inline constexpr const char* nudge_off = "nudge=false";

/// A row of `messages`; times in seconds.
json message_row(const v1::Message&);
/// A row of `locks`, which hooks read (as in swarm-mcp): they take a lock without an `instance_id` for none, so that one across the
/// identity boundary has a word there that is nobody's id. `waiters` only with a line.
json lock_row(const v1::LockView&);

} // namespace swarm::cli
