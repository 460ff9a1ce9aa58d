// Frames (4-byte little-endian length, then a message of keeper.proto) over a non-blocking Unix stream socket, with descriptors
// as ancillary data. Used by both ends.
#pragma once

#include <cstdint>
#include <deque>
#include <string>

#include <google/protobuf/message_lite.h>

#include "actors/base/unique_fd.hpp"

namespace swarm::keeper {

/// The keeper and its client must have the same version.
inline constexpr std::uint32_t protocol_version = 1;

/// The length and the message, ready for the wire. Empty when it exceeds limits::keeper_frame_bytes_max.
std::string encode_frame(const google::protobuf::MessageLite&);

class frame_stream {
public:
  enum class status { ok, closed, malformed };

  explicit frame_stream(unique_fd socket) : socket_(std::move(socket)) {}

  int fd() const noexcept { return socket_.get(); }

  /// Reads what is there without blocking, at most a bounded amount: call again while the socket is readable. After closed
  /// or malformed, next() still returns the whole frames that came before.
  status receive();
  /// Takes the next whole frame's message; false when there is none.
  bool next(std::string& message);
  /// The oldest descriptor received and not yet taken. Descriptors arrive in the order of the frames that carry them.
  unique_fd take_fd();
  std::size_t fds_waiting() const noexcept { return fds_.size(); }

  /// Queues a frame, which must not be empty; `attached` travels with its first byte.
  void queue(std::string frame, unique_fd attached = {});
  /// Writes what the socket takes now; queued_bytes() tells what is left.
  status flush();
  std::size_t queued_bytes() const noexcept { return queued_; }

private:
  struct outgoing {
    std::string bytes;
    unique_fd attached;
    std::size_t sent = 0;
  };

  status check_length() const;

  unique_fd socket_;
  std::string in_;
  std::size_t parsed_ = 0;
  std::deque<unique_fd> fds_;
  std::deque<outgoing> out_;
  std::size_t queued_ = 0;
};

} // namespace swarm::keeper
