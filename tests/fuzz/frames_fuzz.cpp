// Frames of the keeper's socket, arriving in any cuts: exactly the frames that are whole come out, a too long one ends the
// connection, and what decodes can be framed again.
#include <sys/socket.h>
#include <unistd.h>

#include "actors/base/limits.hpp"
#include "services/keeper/frame_stream.hpp"
#include "swarm/internal/keeper.pb.h"
#include "tests/fuzz/fuzz.hpp"

using namespace swarm;
using keeper::frame_stream;

namespace {

/// The rule, read naively.
struct expected {
  std::vector<std::string> frames;
  bool malformed = false;

  explicit expected(std::string_view bytes) {
    while (bytes.size() >= 4) {
      std::size_t n = 0;
      for (unsigned i = 0; i < 4; ++i)
        n |= static_cast<std::size_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
      if (n > limits::keeper_frame_bytes_max) {
        malformed = true;
        return;
      }
      if (bytes.size() - 4 < n)
        return;
      frames.emplace_back(bytes.substr(4, n));
      bytes.remove_prefix(4 + n);
    }
  }
};

template <class Message>
void check_message(const std::string& bytes) {
  Message m;
  if (!m.ParseFromString(bytes))
    return;
  auto framed = keeper::encode_frame(m);
  if (framed.empty()) {
    SWARM_HOLDS(m.ByteSizeLong() > limits::keeper_frame_bytes_max);
    return;
  }
  expected back{framed};
  SWARM_HOLDS(back.frames.size() == 1 && !back.malformed);
  Message again;
  SWARM_HOLDS(again.ParseFromString(back.frames[0]));
  SWARM_HOLDS(again.SerializeAsString() == m.SerializeAsString());
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::input in{data, size};
  auto cut = static_cast<std::size_t>(in.byte()) + 1;
  auto bytes = in.rest();
  if (bytes.size() > 64 * 1024)
    return 0;
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    std::abort();
  unique_fd ours{ends[0]};
  frame_stream stream{unique_fd{ends[1]}};
  expected want{bytes};
  std::vector<std::string> got;
  auto malformed = false;
  for (std::size_t at = 0; at < bytes.size() && !malformed; at += cut) {
    auto n = std::min(cut, bytes.size() - at);
    SWARM_HOLDS(write(ours.get(), bytes.data() + at, n) == static_cast<ssize_t>(n));
    malformed = stream.receive() == frame_stream::status::malformed;
    for (std::string message; stream.next(message);)
      got.push_back(message);
    // A bad length is known once the frames before it are taken.
    malformed = malformed || stream.receive() == frame_stream::status::malformed;
  }
  SWARM_HOLDS(malformed == want.malformed);
  SWARM_HOLDS(got == want.frames);
  ours.reset();
  if (!malformed)
    SWARM_HOLDS(stream.receive() == frame_stream::status::closed);
  for (const auto& m : got) {
    check_message<internal::ToKeeper>(m);
    check_message<internal::FromKeeper>(m);
  }
  return 0;
}
