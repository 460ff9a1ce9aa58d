#include "actors/base/ring.hpp"

#include <atomic>
#include <cstring>
#include <random>
#include <stdexcept>
#include <thread>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "actors/base/limits.hpp"

using namespace swarm;

namespace {

constexpr std::uint64_t smallest = limits::ring_bytes_min;

ring_reader reader_of(const ring_writer& w) { return ring_reader{unique_fd{dup(w.fd())}}; }

/// The byte that belongs at an absolute offset, so that any piece of a ring can be checked alone.
char byte_at(std::uint64_t offset) { return static_cast<char>((offset * 0x9e3779b97f4a7c15u) >> 56); }

std::string bytes_from(std::uint64_t offset, std::size_t n) {
  std::string out;
  for (std::size_t i = 0; i < n; ++i)
    out.push_back(byte_at(offset + i));
  return out;
}

bool is_right(const ring_chunk& c) { return c.bytes == bytes_from(c.offset, c.bytes.size()); }

} // namespace

TEST_CASE("a reader gets what was written, from any offset") {
  ring_writer w{smallest};
  auto r = reader_of(w);
  CHECK(r.end() == 0);
  CHECK(r.read(0, 10).bytes.empty());
  w.append("hello ");
  w.append("world");
  CHECK(r.end() == 11);
  CHECK(r.read(0, 100).bytes == "hello world");
  auto c = r.read(3, 4);
  CHECK(c.offset == 3);
  CHECK(c.bytes == "lo w");
  CHECK(c.gap == 0);
  CHECK(c.next() == 7);
  CHECK(r.read(11, 4).bytes.empty());
}

TEST_CASE("an offset beyond the end gives no bytes at the end") {
  ring_writer w{smallest};
  auto r = reader_of(w);
  w.append("abc");
  auto c = r.read(99, 4);
  CHECK(c.offset == 3);
  CHECK(c.bytes.empty());
  CHECK(c.gap == 0);
}

TEST_CASE("a reader that is too old is told how much it missed") {
  ring_writer w{smallest};
  auto r = reader_of(w);
  w.append(bytes_from(0, smallest));
  CHECK(r.read(0, smallest).gap == 0);
  w.append(bytes_from(smallest, 10));
  auto c = r.read(4, smallest);
  CHECK(c.offset == 10);
  CHECK(c.gap == 6);
  CHECK(c.bytes.size() == smallest);
  CHECK(is_right(c));
}

TEST_CASE("one append larger than the ring keeps its newest bytes and counts all") {
  ring_writer w{smallest};
  auto r = reader_of(w);
  w.append("x");
  w.append(bytes_from(1, 3 * smallest + 5));
  CHECK(w.end() == 3 * smallest + 6);
  auto c = r.read(0, 4 * smallest);
  CHECK(c.offset == w.end() - smallest);
  CHECK(c.bytes.size() == smallest);
  CHECK(is_right(c));
}

TEST_CASE("random appends and reads agree with the whole history across many wraps") {
  for (unsigned seed = 1; seed <= 8; ++seed) {
    CAPTURE(seed);
    std::mt19937 rng{seed};
    ring_writer w{smallest};
    auto r = reader_of(w);
    while (w.end() < 10 * smallest) {
      w.append(bytes_from(w.end(), rng() % (rng() % 8 == 0 ? smallest + 100 : 700)));
      auto from = w.end() > 0 ? rng() % w.end() : 0;
      auto max = rng() % 5000;
      auto c = r.read(from, max);
      auto oldest = w.end() > smallest ? w.end() - smallest : 0;
      CHECK(c.offset == std::max(from, oldest));
      CHECK(c.gap == c.offset - from);
      CHECK(c.bytes.size() == std::min<std::uint64_t>(max, w.end() - c.offset));
      CHECK(is_right(c));
    }
  }
}

TEST_CASE("a reader beside a fast writer never sees a torn byte, and offsets only grow") {
  ring_writer w{smallest};
  auto r = reader_of(w);
  constexpr std::uint64_t total = 400 * smallest;
  std::thread producer{[&w] {
    std::mt19937 rng{7};
    while (w.end() < total)
      w.append(bytes_from(w.end(), 1 + rng() % 3000));
  }};
  std::uint64_t at = 0, received = 0, missed = 0, torn = 0, backwards = 0;
  while (at < total) {
    auto c = r.read(at, 1 + static_cast<std::size_t>(at % 60'000));
    torn += !is_right(c);
    backwards += c.offset < at;
    missed += c.gap;
    received += c.bytes.size();
    at = c.next();
  }
  producer.join();
  CHECK(torn == 0);
  CHECK(backwards == 0);
  CHECK(received + missed == at);
  CHECK(received > 0);
}

TEST_CASE("the ring outlives its reader and its writer's object") {
  auto w = std::make_unique<ring_writer>(smallest);
  w->append("one");
  { CHECK(reader_of(*w).read(0, 9).bytes == "one"); }
  auto second = reader_of(*w);
  w->append("two");
  CHECK(second.read(3, 9).bytes == "two");
  w.reset();
  CHECK(second.read(0, 9).bytes == "onetwo");
}

TEST_CASE("a reader cannot write, shrink or fake a ring") {
  ring_writer w{smallest};
  CHECK(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, w.fd(), 0) == MAP_FAILED);
  CHECK(ftruncate(w.fd(), 0) != 0);
  unique_fd plain{memfd_create("plain", MFD_CLOEXEC)};
  CHECK_THROWS_AS(ring_reader{std::move(plain)}, std::runtime_error);
  CHECK_THROWS_AS(ring_reader{unique_fd{open("/dev/null", O_RDONLY | O_CLOEXEC)}}, std::runtime_error);
  unique_fd empty{memfd_create("sealed", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  REQUIRE(ftruncate(empty.get(), static_cast<off_t>(4096 + smallest)) == 0);
  REQUIRE(fcntl(empty.get(), F_ADD_SEALS, F_SEAL_SHRINK) == 0);
  CHECK_THROWS_AS(ring_reader{std::move(empty)}, std::runtime_error);
}

TEST_CASE("what a broken producer claims never leads a reader beyond the end, nor back") {
  ring_writer w{smallest};
  w.append(bytes_from(0, 1000));
  std::string memory(4096 + smallest, '\0');
  REQUIRE(pread(w.fd(), memory.data(), memory.size(), 0) == static_cast<ssize_t>(memory.size()));
  for (std::uint64_t reserved : {smallest + 900, smallest + 1000, 3 * smallest, ~std::uint64_t{0}}) {
    CAPTURE(reserved);
    std::memcpy(memory.data() + 24, &reserved, sizeof reserved); // see ring_header
    unique_fd copy{memfd_create("copy", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
    REQUIRE(write(copy.get(), memory.data(), memory.size()) == static_cast<ssize_t>(memory.size()));
    REQUIRE(fcntl(copy.get(), F_ADD_SEALS, F_SEAL_SHRINK) == 0);
    ring_reader r{std::move(copy)};
    auto c = r.read(100, smallest);
    CHECK(c.next() == 1000);
    CHECK(c.gap == c.offset - 100);
    CHECK(r.read(c.next(), smallest).offset == 1000);
  }
}

TEST_CASE("a ring's size is a power of two within its bounds") {
  for (std::uint64_t bad : {std::uint64_t{0}, smallest - 1, smallest + 1, smallest / 2, 3 * smallest, 2 * std::uint64_t{limits::ring_bytes_max}}) {
    CAPTURE(bad);
    CHECK_FALSE(is_ring_capacity(bad));
    CHECK_THROWS_AS(ring_writer{bad}, std::runtime_error);
  }
  CHECK(ring_capacity_rule() == "a power of two between 64 KiB and 16 MiB");
  CHECK(is_ring_capacity(smallest));
  CHECK(is_ring_capacity(limits::pty_ring_bytes()));
  CHECK(is_ring_capacity(limits::ring_bytes_max));
}
