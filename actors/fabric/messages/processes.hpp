// Programs that the keeper runs, and its news of them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <caf/allowed_unsafe_message_type.hpp>

#include "actors/base/ring.hpp"
#include "swarm/internal/keeper.pb.h"
#include "swarm/v1/pty.pb.h"
#include "swarm/v1/state.pb.h"

namespace swarm {

/// What the keeper is asked to start: what is in memory only. The worker's row has the rest.
using start_request_ptr = std::shared_ptr<const internal::StartChild>;

/// Of a worker's terminal; 80 by 24 where nobody asked for another.
inline v1::TerminalSize terminal_size(const v1::Spawn& s) {
  v1::TerminalSize size;
  size.set_columns(s.columns() == 0 ? 80 : s.columns());
  size.set_rows(s.rows() == 0 ? 24 : s.rows());
  return size;
}

/// What is known of a child of the keeper.
struct child_info {
  bool exists = false;
  std::string id;
  std::uint32_t attempt = 0;
  std::int64_t pid = 0;
  std::uint64_t pid_start = 0;
  bool at_gate = false;
  bool exited = false;
  std::int32_t exit_status = 0;
  std::int32_t signal = 0;
  std::int64_t duration_ms = 0;
  std::uint64_t end = 0; // bytes of output
  bool ended_on_request = false;
  std::shared_ptr<const ring_reader> ring;
  std::vector<std::pair<std::string, std::uint64_t>> inputs; // taken before we were attached: requests and sizes, oldest first
  std::string error;                                         // why it could not be started
};
using child_info_ptr = std::shared_ptr<const child_info>;

/// The keeper's news, in the order they happened.
struct keeper_news {
  enum kind_t { attached, child_listed, list_complete, at_gate, start_failed, output, exited, input_accepted, lost } kind = lost;
  child_info child;
  std::uint64_t ticket = 0;
  std::uint64_t bytes = 0;
  bool closed = false;
  std::int64_t keeper_pid = 0;
};
using keeper_news_ptr = std::shared_ptr<const keeper_news>;

using spawn_ptr = std::shared_ptr<const v1::Spawn>;

} // namespace swarm

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(swarm::start_request_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(swarm::child_info_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(swarm::keeper_news_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(swarm::spawn_ptr)
