#include "gateway/client/status.hpp"

#include <string>

namespace swarm::cli {

namespace {

bool over_limit(const grpc::Status& s) {
  return s.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED && s.error_message().find("larger than max") != std::string::npos;
}

} // namespace

bool worth_repeating(const grpc::Status& s) {
  switch (s.error_code()) {
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::UNKNOWN:
    case grpc::StatusCode::ABORTED:
    case grpc::StatusCode::INTERNAL:
    case grpc::StatusCode::CANCELLED: return true;
    case grpc::StatusCode::RESOURCE_EXHAUSTED: return !over_limit(s);
    default: return false;
  }
}

call_failed as_failure(const grpc::Status& s) {
  const auto& text = s.error_message();
  switch (s.error_code()) {
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return {code::deadline, "no answer by the deadline; try again with a longer --timeout, or see what the node does: swarmctl status"};
    case grpc::StatusCode::UNAVAILABLE: return {code::deadline, "this could not be done by the deadline (" + text + "); see: swarmctl status"};
    // gRPC's own words say nothing to people.
    case grpc::StatusCode::CANCELLED: return {code::refused, "the node gave this call up, as it does when it stops; see: swarmctl status"};
    case grpc::StatusCode::UNIMPLEMENTED:
      return {code::refused, "the running node does not know this call; it is of another version: swarmctl down, then swarmctl up"};
    case grpc::StatusCode::UNAUTHENTICATED: {
      call_failed f{code::refused, "the node does not accept this token: " + text};
      f.unknown_token = true;
      return f;
    }
    default: return {code::refused, text.empty() ? "the call failed" : text};
  }
}

call_failed as_failure(const grpc::Status& s, bool may_have_arrived) {
  if (!may_have_arrived || s.error_code() != grpc::StatusCode::FAILED_PRECONDITION)
    return as_failure(s);
  const auto& text = s.error_message();
  auto f =
    as_failure({s.error_code(), text + (text.ends_with('.') ? " " : ". ") + "An earlier try of this call may have arrived: its outcome is unknown"});
  f.may_have_arrived = true;
  return f;
}

call_failed interrupted() { return {code::interrupted, ""}; }

} // namespace swarm::cli
