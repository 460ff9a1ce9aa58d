#include "actors/base/ring.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <system_error>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "actors/base/limits.hpp"
#include "actors/base/text.hpp"

namespace swarm {

namespace {

constexpr std::uint64_t ring_magic = 0x31676e6972777377; // the bytes "wswring1", little-endian
constexpr std::uint32_t ring_version = 1;
constexpr std::size_t header_bytes = 4096;
constexpr std::size_t word_bytes = sizeof(std::uint64_t);

// The bytes travel as atomic words, stored with release and loaded with acquire: a reader that saw a word of a later lap therefore
// also sees the `reserved` that was published before it, and knows that its copy is torn. No fence is needed.
struct ring_header {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t unused;
  std::uint64_t capacity;
  std::atomic<std::uint64_t> reserved; // nothing older than reserved - capacity can be trusted
  std::atomic<std::uint64_t> end;
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free && sizeof(ring_header) <= header_bytes);

ring_header& header(std::byte* map) { return *reinterpret_cast<ring_header*>(map); }
const ring_header& header(const std::byte* map) { return *reinterpret_cast<const ring_header*>(map); }

std::atomic_ref<std::uint64_t> word_at(const std::byte* map, std::uint64_t position) {
  auto address = const_cast<std::byte*>(map) + header_bytes + position;
  return std::atomic_ref<std::uint64_t>{*reinterpret_cast<std::uint64_t*>(address)};
}

std::runtime_error failure(const char* what) { return std::runtime_error(std::string{what} + ": " + std::generic_category().message(errno)); }

} // namespace

bool is_ring_capacity(std::uint64_t bytes) noexcept {
  return bytes >= limits::ring_bytes_min && bytes <= limits::ring_bytes_max && (bytes & (bytes - 1)) == 0;
}

std::string ring_capacity_rule() {
  return concat({"a power of two between ", limits::ring_bytes_min / limits::kib, " KiB and ", limits::ring_bytes_max / limits::mib, " MiB"});
}

ring_writer::ring_writer(std::uint64_t capacity) : capacity_(capacity) {
  if (!is_ring_capacity(capacity))
    throw std::runtime_error(concat({"a ring's size must be ", ring_capacity_rule(), ", not ", capacity}));
  fd_.reset(memfd_create("swarm-ring", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd_)
    throw failure("memfd_create");
  if (ftruncate(fd_.get(), static_cast<off_t>(header_bytes + capacity)) != 0)
    throw failure("ftruncate of a ring");
  auto map = mmap(nullptr, header_bytes + capacity, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0);
  if (map == MAP_FAILED)
    throw failure("mmap of a ring");
  map_ = static_cast<std::byte*>(map);
  new (map_) ring_header{ring_magic, ring_version, 0, capacity, {0}, {0}};
  // After our own mapping exists nobody can make another writable one, nor shrink the file under a reader.
  if (fcntl(fd_.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) != 0) {
    auto e = failure("sealing a ring");
    munmap(map_, header_bytes + capacity);
    throw e;
  }
}

ring_writer::~ring_writer() { munmap(map_, header_bytes + capacity_); }

void ring_writer::append(std::string_view bytes) noexcept {
  auto new_end = end_ + bytes.size();
  auto first = end_;
  if (bytes.size() > capacity_) {
    first = new_end - capacity_;
    bytes.remove_prefix(bytes.size() - capacity_);
  }
  header(map_).reserved.store(new_end, std::memory_order_relaxed);
  put(first, bytes);
  end_ = new_end;
  header(map_).end.store(new_end, std::memory_order_release);
}

void ring_writer::put(std::uint64_t offset, std::string_view bytes) noexcept {
  while (!bytes.empty()) {
    auto position = offset & (capacity_ - 1);
    auto skip = position % word_bytes;
    auto n = std::min(word_bytes - skip, bytes.size());
    auto word = word_at(map_, position - skip);
    auto value = n == word_bytes ? 0 : word.load(std::memory_order_relaxed);
    std::memcpy(reinterpret_cast<char*>(&value) + skip, bytes.data(), n);
    word.store(value, std::memory_order_release);
    bytes.remove_prefix(n);
    offset += n;
  }
}

ring_reader::ring_reader(unique_fd memfd) {
  struct stat st {};
  auto seals = fcntl(memfd.get(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || fstat(memfd.get(), &st) != 0)
    throw std::runtime_error("not a sealed ring");
  auto size = static_cast<std::uint64_t>(st.st_size);
  if (size < header_bytes || !is_ring_capacity(size - header_bytes))
    throw std::runtime_error("a ring has the wrong size");
  capacity_ = size - header_bytes;
  auto map = mmap(nullptr, size, PROT_READ, MAP_SHARED, memfd.get(), 0);
  if (map == MAP_FAILED)
    throw failure("mmap of a ring");
  map_ = static_cast<const std::byte*>(map);
  const auto& h = header(map_);
  if (h.magic != ring_magic || h.version != ring_version || h.capacity != capacity_) {
    munmap(map, size);
    throw std::runtime_error("a ring of another version");
  }
}

ring_reader::~ring_reader() { munmap(const_cast<std::byte*>(map_), header_bytes + capacity_); }

std::uint64_t ring_reader::end() const noexcept { return header(map_).end.load(std::memory_order_acquire); }

ring_chunk ring_reader::read(std::uint64_t from, std::size_t max) const {
  auto oldest = [this](std::uint64_t written) { return written > capacity_ ? written - capacity_ : 0; };
  auto newest = end();
  if (from >= newest)
    return {newest, {}, 0};
  auto start = std::max(from, oldest(newest));
  auto bytes = copy(start, static_cast<std::size_t>(std::min<std::uint64_t>(max, newest - start)));
  // What was overwritten while we copied is a gap like any other. The next read finds out what goes beyond the end we saw.
  auto trusted = std::min(newest, oldest(header(map_).reserved.load(std::memory_order_relaxed)));
  if (trusted > start) {
    bytes.erase(0, static_cast<std::size_t>(std::min<std::uint64_t>(trusted - start, bytes.size())));
    start = trusted;
  }
  return {start, std::move(bytes), start - from};
}

std::string ring_reader::copy(std::uint64_t from, std::size_t n) const {
  std::string out(n, '\0');
  for (std::size_t done = 0; done < n;) {
    auto position = (from + done) & (capacity_ - 1);
    auto skip = position % word_bytes;
    auto part = std::min(word_bytes - skip, n - done);
    auto value = word_at(map_, position - skip).load(std::memory_order_acquire);
    std::memcpy(out.data() + done, reinterpret_cast<const char*>(&value) + skip, part);
    done += part;
  }
  return out;
}

} // namespace swarm
