// Who registers a session, and what of it is his to say: which rows he may take over, and the parts of a label that give rights.
#pragma once

#include "actors/domain/rules.hpp"

namespace swarm::domain {

/// The row was made for the caller: by himself, for the session that he is, below the same agent program, under the id that this program was
/// started with, or under the agent's own name for the session. To a person every row may be.
bool is_made_for_caller(const transaction&, const v1::Session&, const v1::RegisterSession&);

/// A label as the caller may give it. Below an agent program its start environment says the identity and whether it is a coordinator, or the row
/// `present` that is taken over; what the call says beyond that is left out, and `note` says so.
std::string label_in_rights(const transaction&, const v1::RegisterSession&, const v1::Session* present, std::string& note);

/// A label gives rights, so a session may only register what it is: not itself under another identity or as a coordinator, and not a second
/// session that is one, whose token it would hold. Refuses the row that would do it. Below an agent program the label has been taken care of.
std::optional<v1::Reply> check_registrant(const transaction&, const v1::RegisterSession&, const v1::Session& wanted);

/// The session of the caller's agent program that nobody holds yet: the one that the caller is, else the only one in the scope.
std::optional<v1::Session> session_of_agent(const transaction&, const v1::RegisterSession&);

/// Adds what the start of the caller's agent program grants to its sessions. What is no grant is left out.
void add_grants_of_start(const transaction&, v1::Session&, const v1::RegisterSession&);

/// Writes down who has made or taken over the row, by which a later call is known.
void remember_registrant(const transaction&, v1::Session&, const v1::RegisterSession&);

} // namespace swarm::domain
