// What followers of a scope ask for and are told.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <caf/allowed_unsafe_message_type.hpp>

#include "swarm/v1/coordination.pb.h"

namespace swarm {

/// One command's effects, pointing into the commit they came with.
using batch_ptr = std::shared_ptr<const v1::Batch>;

/// "Give me events of this scope after that revision; wait if there are none."
struct watch_poll {
  std::string scope; // empty = the feed over all scopes, whose revisions are numbers of its own
  std::uint64_t after = 0;
  std::vector<std::string> types; // prefixes, empty = all
  std::string subject;            // empty = all
  bool wait = true;
};
using watch_poll_ptr = std::shared_ptr<const watch_poll>;

/// The answer to a poll.
struct watch_page {
  std::vector<v1::Event> events;
  std::uint64_t revision = 0; // considered up to here; the next poll starts after it
  std::uint64_t newest = 0;   // of the scope, as far as the hub has heard
  bool too_old = false;       // `after` is no longer buffered: read the store first
};
using watch_page_ptr = std::shared_ptr<const watch_page>;

using wait_request_ptr = std::shared_ptr<const v1::WaitRequest>;
using activity_ptr = std::shared_ptr<const v1::Activity>;

} // namespace swarm

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(swarm::batch_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(swarm::watch_poll_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(swarm::watch_page_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(swarm::wait_request_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(swarm::activity_ptr)
