#include "actors/agents/driver_frames.hpp"

#include <algorithm>

#include "actors/base/limits.hpp"

namespace swarm::agents {

namespace {

constexpr std::size_t length_bytes = 4;

std::size_t length_at(const char* p) {
  auto byte = [p](int i) { return static_cast<std::size_t>(static_cast<unsigned char>(p[i])); };
  return byte(0) | byte(1) << 8 | byte(2) << 16 | byte(3) << 24;
}

} // namespace

std::string encode_driver_frame(const google::protobuf::MessageLite& message) {
  const auto n = message.ByteSizeLong();
  if (n > limits::driver_frame_bytes_max)
    return {};
  std::string out;
  out.reserve(length_bytes + n);
  for (unsigned i = 0; i < length_bytes; ++i)
    out.push_back(static_cast<char>(n >> (8 * i) & 0xff));
  message.AppendToString(&out);
  return out;
}

bool driver_frame_reader::find_nonce() {
  if (const auto found = bytes_.find(nonce_); found != bytes_.npos) {
    bytes_.erase(0, found + nonce_.size());
    nonce_.clear();
    return true;
  }
  bytes_.erase(0, bytes_.size() - std::min(bytes_.size(), nonce_.size() - 1)); // its begin may be there
  return false;
}

driver_frame_reader::status driver_frame_reader::next(std::string& message) {
  if (at_ > 0 && (at_ == bytes_.size() || at_ > limits::driver_frame_bytes_max || !nonce_.empty()))
    bytes_.erase(0, std::exchange(at_, 0));
  if (!nonce_.empty() && !find_nonce())
    return status::incomplete;
  const auto left = bytes_.size() - at_;
  if (left < length_bytes)
    return status::incomplete;
  const auto n = length_at(bytes_.data() + at_);
  if (n > limits::driver_frame_bytes_max)
    return status::malformed;
  if (left - length_bytes < n)
    return status::incomplete;
  message.assign(bytes_, at_ + length_bytes, n);
  at_ += length_bytes + n;
  return status::frame;
}

} // namespace swarm::agents
