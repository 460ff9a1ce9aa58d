// How callers reach the rules: decide() and answer(), and the checks that come before them.
#pragma once

#include "actors/domain/transaction.hpp"
#include "swarm/v1/query.pb.h"

namespace swarm::domain {

/// Decides one command on the rows given: pure, no clock, no I/O. The same inputs give the same batch.
/// `valid`: validate() has passed the command before.
v1::Batch decide(const v1::Command& cmd, const rows_view& rows, const inputs& in, bool valid = false);

/// Answers one query on the rows given: pure as well.
v1::Answer answer(const v1::Query& query, const rows_view& rows, const inputs& in);

/// Checks lengths, counts and required fields before anything is decided; nullopt = fine.
std::optional<v1::Refusal> validate(const v1::Command& cmd);
std::optional<v1::Refusal> validate(const v1::Query& query);
/// Only lengths and counts, of any message that comes from outside.
std::optional<v1::Refusal> check_bounds(const google::protobuf::Message&);

/// True for the questions answered from all scopes together: they need no scope, and show names and counts but no rows of sessions.
bool about_the_node(const v1::Query& query);

/// May this principal send this command in that role? The operator may act as any session; a session only as itself; only the
/// node itself reports processes and expiries.
std::optional<v1::Refusal> authorize(const v1::Command& cmd);
std::optional<v1::Refusal> authorize(const v1::Query& query);
/// May the node that the command or query came from speak for the session or worker it names? Only for what lives there; this node's own
/// callers have been identified by the services.
std::optional<v1::Refusal> authorize_place(const v1::Command& cmd, const rows_view& rows);
std::optional<v1::Refusal> authorize_place(const v1::Query& query, const rows_view& rows);

/// SHA-256 of a command as its sender made it: what the server fills in is left out.
std::string digest_of(v1::Command sent);

/// True when the command makes the store grow (refused below the low-disk mark); releases, expiries and completions do not.
bool grows_store(const v1::Command& cmd);

} // namespace swarm::domain
