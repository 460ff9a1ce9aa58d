// Frames between swarmd and the driver of a conversation (driver.proto): a 4-byte little-endian length, then a message. Without I/O; used by both
// ends.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include <google/protobuf/message_lite.h>

namespace swarm::agents {

/// Of DriverHello.
inline constexpr std::size_t driver_nonce_bytes = 16;

/// Empty when the message exceeds limits::driver_frame_bytes_max.
std::string encode_driver_frame(const google::protobuf::MessageLite&);

class driver_frame_reader {
public:
  enum class status { frame, incomplete, malformed };

  /// What the other end has written, cut anywhere.
  void push(std::string_view bytes) { bytes_ += bytes; }
  /// Takes the next frame's message. After malformed the place of the next frame is not known any more.
  status next(std::string& message);
  /// Until the nonce has come, next() finds nothing; what stands before it is dropped. What was pushed before counts, unless it was taken.
  void skip_to(std::string nonce) { nonce_ = std::move(nonce); }

private:
  bool find_nonce();

  std::string bytes_;
  std::size_t at_ = 0;
  std::string nonce_; // that has not come yet
};

} // namespace swarm::agents
