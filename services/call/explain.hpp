// Tells a caller who it is to the node, and why.
#pragma once

#include <string>
#include <vector>

#include "actors/domain/rights.hpp"
#include "services/call/principals.hpp"
#include "swarm/v1/node.pb.h"

namespace swarm {

/// Rule, reason and chain. The principal, and what follows from it, come with add_rights() when it is known.
v1::Explanation explanation_of(const claim&, const caller_look&, const worker_registry&);
/// What this principal may do, what it may not, and how a person gets further.
void add_rights(v1::Explanation&, const v1::Principal&);
/// What people are told about in one line: rows of the table of rights that every principal has to the same extent.
struct subject {
  std::string text;
  std::vector<const domain::right*> rights; // not empty
};
const std::vector<subject>& subjects();
enum class extent { none, own, by_rule, all };
extent extent_of(const v1::Principal&, const domain::right&);
/// Nobody: every other call of this caller is refused with this text.
void add_refusal(v1::Explanation&, v1::Explanation::Rule, const std::string& why);

} // namespace swarm
