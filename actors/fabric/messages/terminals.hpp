// Input, output and files of terminals.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <caf/allowed_unsafe_message_type.hpp>

#include "swarm/v1/pty.pb.h"

namespace swarm {

/// Asks for the output of a terminal.
struct pty_read {
  std::uint64_t from = 0;
  std::uint64_t max_bytes = 0; // at most limits::pty_chunk_bytes_max
  bool wait = true;            // park until there is something or the program has ended
  bool tail = false;           // start max_bytes before the end instead of at `from`
};
using pty_read_ptr = std::shared_ptr<const pty_read>;
using pty_chunk_ptr = std::shared_ptr<const v1::PtyChunk>;
using pty_info_ptr = std::shared_ptr<const v1::PtyInfo>;

/// Bytes for the program in a terminal.
struct pty_input {
  std::string request; // deduplicated per terminal; empty = not
  std::string data;
  v1::Principal who;  // who types; the terminal refuses what domain::refused_use does
  bool stale = false; // its fence is not that of the worker's task: it is not typed, and only a repeated request gets its answer
};
using pty_input_ptr = std::shared_ptr<const pty_input>;

/// What happens to a terminal besides output.
struct pty_change {
  std::uint64_t number = 0;  // of the change
  std::uint64_t answers = 0; // inputs of a person that may answer what its program asks
  std::uint32_t columns = 0;
  std::uint32_t rows = 0;
  std::uint64_t sized_at = 0; // the output from this offset on was written for this size
};
using pty_change_ptr = std::shared_ptr<const pty_change>;

/// Bytes of a terminal on their way to or from its segment files.
struct log_slice {
  std::string id;
  std::uint64_t offset = 0;
  std::string bytes;
  std::uint64_t start = 0; // lowest offset kept
  std::uint64_t end = 0;   // highest offset written
  bool fresh = false;      // a new program begins: what is kept of the terminal goes first
};
using log_slice_ptr = std::shared_ptr<const log_slice>;

} // namespace swarm

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(swarm::pty_read_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(swarm::pty_chunk_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(swarm::pty_info_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(swarm::pty_input_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(swarm::pty_change_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(swarm::log_slice_ptr)
