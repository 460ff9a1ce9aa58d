#include "services/call/status.hpp"

#include <caf/sec.hpp>

#include "actors/runtime/error_text.hpp"

namespace swarm {

namespace {

grpc::StatusCode code_of(errc e) {
  using enum grpc::StatusCode;
  switch (e) {
    case errc::unknown_outcome:
    case errc::unavailable:
    case errc::keeper_failed:
    case errc::store_failed: return UNAVAILABLE;
    case errc::overloaded: return RESOURCE_EXHAUSTED;
    case errc::deadline: return DEADLINE_EXCEEDED;
    case errc::invalid: return INVALID_ARGUMENT;
    case errc::forbidden: return PERMISSION_DENIED;
    case errc::not_found: return NOT_FOUND;
    case errc::out_of_range: return OUT_OF_RANGE;
    case errc::newer_schema:
    case errc::state_dir:
    case errc::already_running:
    case errc::low_disk: // space does not come by trying again
    case errc::away:     // nor does a home that is away, within a call
    case errc::stale: return FAILED_PRECONDITION;
  }
  return UNKNOWN;
}

} // namespace

grpc::Status to_status(errc e, const std::string& text) { return {code_of(e), text.empty() ? to_string(e) : text}; }

grpc::Status status_of(const std::optional<security_failure>& f) {
  if (!f)
    return grpc::Status::OK;
  if (f->code == security_error::malformed || f->code == security_error::mistyped || f->code == security_error::truncated)
    return {grpc::StatusCode::INVALID_ARGUMENT, f->text};
  if (f->code == security_error::wrong_passphrase)
    return {grpc::StatusCode::PERMISSION_DENIED, f->text};
  return {grpc::StatusCode::FAILED_PRECONDITION, f->text};
}

grpc::Status to_status(const caf::error& e) {
  if (e.category() == caf::detail::error_factory<errc>::category)
    return {code_of(static_cast<errc>(e.code())), runtime::error_text(e)};
  if (e == caf::sec::request_timeout)
    return to_status(errc::deadline);
  // The actor asked ended in the middle of it: the outcome is unknown, the request id makes a repetition safe.
  return {grpc::StatusCode::UNAVAILABLE, to_string(errc::unknown_outcome)};
}

} // namespace swarm
