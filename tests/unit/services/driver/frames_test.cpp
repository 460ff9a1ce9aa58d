#include "actors/agents/driver_frames.hpp"

#include <doctest/doctest.h>

#include "actors/base/limits.hpp"
#include "swarm/internal/driver.pb.h"

using namespace swarm;
using status = agents::driver_frame_reader::status;

namespace {

std::string frame_of(std::uint64_t seq) {
  internal::FromDriver f;
  f.set_seq(seq);
  return agents::encode_driver_frame(f);
}

} // namespace

TEST_CASE("a frame comes out whole however its bytes are cut") {
  agents::driver_frame_reader reader;
  std::string message;
  for (auto c : frame_of(1) + frame_of(2)) {
    CHECK(reader.next(message) == status::incomplete);
    reader.push({&c, 1});
    if (reader.next(message) == status::frame)
      CHECK(internal::FromDriver().ParseFromString(message));
  }
  CHECK(message == frame_of(2).substr(4));
}

TEST_CASE("what stands before the nonce is no frame") {
  const std::string nonce = "0123456789abcdef";
  for (std::size_t cut = 0; cut < nonce.size(); ++cut) {
    agents::driver_frame_reader reader;
    reader.skip_to(nonce);
    std::string message;
    reader.push(frame_of(7) + "half a frame" + nonce.substr(0, cut));
    CHECK(reader.next(message) == status::incomplete);
    reader.push(nonce.substr(cut) + frame_of(1));
    CHECK(reader.next(message) == status::frame);
    CHECK(message == frame_of(1).substr(4));
  }
}

TEST_CASE("a frame above the bound is neither made nor read") {
  internal::FromDriver f;
  f.mutable_notice()->set_text(std::string(limits::driver_frame_bytes_max, 'x'));
  CHECK(agents::encode_driver_frame(f).empty());
  agents::driver_frame_reader reader;
  reader.push(std::string("\x01\xf0\x00\x00", 4));
  std::string message;
  CHECK(reader.next(message) == status::malformed);
}
