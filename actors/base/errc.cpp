#include "actors/base/errc.hpp"

namespace swarm {

std::string to_string(errc x) {
  switch (x) {
    case errc::unknown_outcome: return "the outcome is unknown; repeat the request with the same request id";
    case errc::unavailable: return "this part of the node is starting or stopping; try again";
    case errc::overloaded: return "the node is at its limit of calls; try again in a moment";
    case errc::deadline: return "the deadline passed before there was an answer";
    case errc::low_disk: return "the disk of the state directory is nearly full; free some space";
    case errc::store_failed: return "the store cannot be read or written; see the node's log and `swarmctl doctor`";
    case errc::newer_schema: return "the store was written by a newer version; install that version or restore an older backup";
    case errc::invalid: return "the request is malformed or exceeds a limit";
    case errc::forbidden: return "this caller may not do that";
    case errc::not_found: return "there is no such thing";
    case errc::out_of_range: return "that position is no longer kept; start from the oldest one";
    case errc::keeper_failed: return "the keeper of worker processes cannot be reached; see the node's log";
    case errc::state_dir: return "the state directory cannot be used; check $SWARM_HOME";
    case errc::already_running: return "another swarmd owns this state directory";
    case errc::stale: return "this claim is no longer valid: the task was reopened, claimed again or has ended";
    case errc::away: return "the home of this scope is away; `swarmctl status` shows when it is linked again";
  }
  return "unknown error";
}

} // namespace swarm
