#include "services/keeper/frame_stream.hpp"

#include <cerrno>
#include <cstring>

#include <sys/socket.h>

#include "actors/base/limits.hpp"

namespace swarm::keeper {

namespace {

constexpr std::size_t length_bytes = 4;
constexpr std::size_t read_bytes_max = 256 * limits::kib;
constexpr std::size_t fds_per_message = 16;

std::size_t length_at(const char* p) {
  auto byte = [p](int i) { return static_cast<std::size_t>(static_cast<unsigned char>(p[i])); };
  return byte(0) | byte(1) << 8 | byte(2) << 16 | byte(3) << 24;
}

void collect_fds(msghdr& header, std::deque<unique_fd>& out) {
  for (auto c = CMSG_FIRSTHDR(&header); c; c = CMSG_NXTHDR(&header, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
      continue;
    auto n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < n; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof fd);
      out.emplace_back(fd);
    }
  }
}

} // namespace

std::string encode_frame(const google::protobuf::MessageLite& message) {
  auto n = message.ByteSizeLong();
  if (n > limits::keeper_frame_bytes_max)
    return {};
  std::string out;
  out.reserve(length_bytes + n);
  for (unsigned i = 0; i < length_bytes; ++i)
    out.push_back(static_cast<char>(n >> (8 * i) & 0xff));
  message.AppendToString(&out);
  return out;
}

frame_stream::status frame_stream::check_length() const {
  auto left = in_.size() - parsed_;
  return left >= length_bytes && length_at(in_.data() + parsed_) > limits::keeper_frame_bytes_max ? status::malformed : status::ok;
}

frame_stream::status frame_stream::receive() {
  if (parsed_ > 0)
    in_.erase(0, std::exchange(parsed_, 0));
  for (std::size_t total = 0; total < read_bytes_max;) {
    char buffer[64 * limits::kib];
    iovec part{buffer, sizeof buffer};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * fds_per_message)];
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof control;
    auto n = recvmsg(socket_.get(), &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0)
      return errno == EAGAIN ? check_length() : status::closed;
    collect_fds(header, fds_);
    if (n == 0)
      return status::closed;
    in_.append(buffer, static_cast<std::size_t>(n));
    total += static_cast<std::size_t>(n);
    if (check_length() != status::ok)
      return status::malformed;
    if (static_cast<std::size_t>(n) < sizeof buffer)
      break; // there was no more, or poll says so
  }
  return status::ok;
}

bool frame_stream::next(std::string& message) {
  auto left = in_.size() - parsed_;
  if (left < length_bytes)
    return false;
  auto n = length_at(in_.data() + parsed_);
  if (n > limits::keeper_frame_bytes_max || left - length_bytes < n)
    return false;
  message.assign(in_, parsed_ + length_bytes, n);
  parsed_ += length_bytes + n;
  return true;
}

unique_fd frame_stream::take_fd() {
  if (fds_.empty())
    return {};
  auto fd = std::move(fds_.front());
  fds_.pop_front();
  return fd;
}

void frame_stream::queue(std::string frame, unique_fd attached) {
  queued_ += frame.size();
  out_.push_back({std::move(frame), std::move(attached)});
}

frame_stream::status frame_stream::flush() {
  while (!out_.empty()) {
    auto& o = out_.front();
    iovec part{o.bytes.data() + o.sent, o.bytes.size() - o.sent};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))]{};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    if (o.attached) {
      header.msg_control = control;
      header.msg_controllen = sizeof control;
      auto c = CMSG_FIRSTHDR(&header);
      c->cmsg_level = SOL_SOCKET;
      c->cmsg_type = SCM_RIGHTS;
      c->cmsg_len = CMSG_LEN(sizeof(int));
      auto fd = o.attached.get();
      std::memcpy(CMSG_DATA(c), &fd, sizeof fd);
    }
    auto n = sendmsg(socket_.get(), &header, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0)
      return errno == EAGAIN ? status::ok : status::closed;
    o.attached.reset();
    o.sent += static_cast<std::size_t>(n);
    queued_ -= static_cast<std::size_t>(n);
    if (o.sent == o.bytes.size())
      out_.pop_front();
  }
  return status::ok;
}

} // namespace swarm::keeper
