// A ring whose shared memory says anything: the reader refuses it, or gives at most what was asked for and what the ring can hold, and
// reading on comes to an end.
#include <stdexcept>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "actors/base/limits.hpp"
#include "actors/base/ring.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace swarm;

namespace {

constexpr std::size_t header_bytes = 4096;
constexpr std::size_t capacity = limits::ring_bytes_min;

/// What a well-behaved producer leaves, after a few laps.
const std::string& well_formed() {
  static const std::string bytes = [] {
    ring_writer w{capacity};
    for (int i = 0; i < 3; ++i)
      w.append(std::string(capacity / 2 + 5, static_cast<char>('a' + i)));
    std::string out(header_bytes + capacity, '\0');
    if (pread(w.fd(), out.data(), out.size(), 0) != static_cast<ssize_t>(out.size()))
      std::abort();
    return out;
  }();
  return bytes;
}

unique_fd memory_of(const std::string& bytes, bool sealed) {
  unique_fd fd{memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  if (!fd || write(fd.get(), bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size()))
    std::abort();
  if (sealed && fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK) != 0)
    std::abort();
  return fd;
}

void check_read(const ring_reader& r, std::uint64_t from, std::size_t max) {
  auto c = r.read(from, max);
  SWARM_HOLDS(c.bytes.size() <= max && c.bytes.size() <= r.capacity());
  SWARM_HOLDS(c.next() <= r.end());
  if (from >= r.end()) {
    SWARM_HOLDS(c.offset == r.end() && c.bytes.empty() && c.gap == 0);
    return;
  }
  SWARM_HOLDS(c.offset >= from && c.gap == c.offset - from);
  // Reading on: every byte the ring can hold once, and then nothing.
  std::size_t total = 0;
  for (auto at = c.next(); at < r.end() && !c.bytes.empty(); at = c.next()) {
    total += c.bytes.size();
    SWARM_HOLDS(total <= r.capacity());
    c = r.read(at, limits::pty_chunk_bytes_max);
  }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::input in{data, size};
  auto sealed = in.byte() % 8 != 0;
  auto number = [&in] {
    std::uint64_t n = 0;
    for (int i = 0; i < 8; ++i)
      n |= static_cast<std::uint64_t>(in.byte()) << (8 * i);
    return n;
  };
  auto from = number();
  auto max = static_cast<std::size_t>(number() % (2 * capacity));
  auto bytes = well_formed();
  for (auto patches = in.byte() % 8; patches > 0; --patches) {
    auto at = in.byte(); // the header's fields lie at its beginning
    auto piece = in.piece();
    bytes.replace(at, piece.size(), piece);
  }
  bytes.resize(header_bytes + capacity - in.byte() % 2);
  if (in.byte() % 8 == 1)
    bytes.resize(static_cast<std::size_t>(number() % (4 * capacity)));
  try {
    ring_reader r{memory_of(bytes, sealed)};
    SWARM_HOLDS(sealed && bytes.size() == header_bytes + r.capacity());
    SWARM_HOLDS(is_ring_capacity(r.capacity()));
    check_read(r, from, max);
    for (std::uint64_t back : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{capacity}, std::uint64_t{capacity} + 1})
      check_read(r, r.end() - back, max);
  } catch (const std::runtime_error&) {
    SWARM_HOLDS(!sealed || bytes != well_formed()); // that one is a ring
  }
  return 0;
}
