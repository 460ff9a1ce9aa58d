// The queue of a stream, without gRPC.
#include <doctest/doctest.h>

#include <vector>

#include "services/call/bridge.hpp"

using namespace swarm;

namespace {

grpc::ByteBuffer frame_of(std::size_t bytes) {
  const grpc::Slice s{std::string(bytes, 'x')};
  return {&s, 1};
}

/// What gRPC would be asked for.
class fake_reactor {
public:
  virtual ~fake_reactor() = default;
  virtual void OnWriteDone(bool) = 0;
  virtual void OnCancel() = 0;
  virtual void OnDone() = 0;
  void StartWrite(const grpc::ByteBuffer* frame, grpc::WriteOptions options) {
    sizes.push_back(frame->Length());
    stays.push_back(options.get_buffer_hint());
  }
  void Finish(grpc::Status s) { finished.push_back(s.error_code()); }

  std::vector<std::size_t> sizes;
  std::vector<bool> stays; // until the next write
  std::vector<grpc::StatusCode> finished;
};

class many final : public stream_writer<grpc::ByteBuffer, fake_reactor, many_bytes> {
public:
  int drains = 0;

protected:
  void drained() override { ++drains; }
};

} // namespace

TEST_CASE("frames that wait behind each other leave together, and the last one does not wait") {
  many io;
  CHECK(io.push(frame_of(1)));
  CHECK(io.push(frame_of(2)));
  CHECK(io.push(frame_of(3)));
  while (io.sizes.size() < 3)
    io.OnWriteDone(true);
  io.OnWriteDone(true);
  CHECK(io.sizes == std::vector<std::size_t>{1, 2, 3});
  CHECK(io.stays == std::vector<bool>{false, true, false});
  CHECK(io.push(frame_of(4)));
  CHECK(io.stays.back() == false);
}

TEST_CASE("a queue of many bytes is full at its bound and says once that there is room again") {
  many io;
  constexpr std::size_t part = many_bytes::most / 8;
  for (int i = 0; i < 7; ++i)
    CHECK(io.push(frame_of(part)));
  CHECK_FALSE(io.push(frame_of(part)));
  for (int i = 0; i < 3; ++i)
    io.OnWriteDone(true);
  CHECK(io.drains == 0);
  io.OnWriteDone(true);
  CHECK(io.drains == 1);
  for (int i = 0; i < 4; ++i)
    io.OnWriteDone(true);
  CHECK(io.drains == 1);
  CHECK(io.sizes.size() == 8);
  CHECK(io.push(frame_of(part)));
}

TEST_CASE("a stream that ends writes what it has taken, and nothing after a write that failed") {
  many io;
  io.push(frame_of(1));
  io.push(frame_of(2));
  io.close(grpc::Status::OK);
  CHECK_FALSE(io.push(frame_of(3)));
  SUBCASE("in order") {
    io.OnWriteDone(true);
    CHECK(io.finished.empty());
    io.OnWriteDone(true);
    CHECK(io.sizes == std::vector<std::size_t>{1, 2});
  }
  SUBCASE("or not at all") {
    io.OnWriteDone(false);
    CHECK(io.sizes == std::vector<std::size_t>{1});
  }
  CHECK(io.finished == std::vector<grpc::StatusCode>{grpc::StatusCode::OK});
}
