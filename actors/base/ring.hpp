// A bounded log of bytes in shared memory: one producer, any number of readers in other processes. The newest `capacity` bytes
// are kept; every byte has an absolute offset, so a reader that was away for too long learns how much it missed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "actors/base/unique_fd.hpp"

namespace swarm {

/// What ring_reader::read found. `bytes` begin at `offset`; `gap` bytes before it were asked for and are gone.
struct ring_chunk {
  std::uint64_t offset = 0;
  std::string bytes;
  std::uint64_t gap = 0;

  std::uint64_t next() const noexcept { return offset + bytes.size(); }
};

/// True for a power of two within limits::ring_bytes_min and ring_bytes_max.
bool is_ring_capacity(std::uint64_t bytes) noexcept;
/// That rule for people: "a power of two between ... and ...".
std::string ring_capacity_rule();

/// The producer's end. One process and thread at a time.
class ring_writer {
public:
  /// Allocates a sealed memfd. Throws std::runtime_error for a bad capacity or when the system has no memory for it.
  explicit ring_writer(std::uint64_t capacity);
  ~ring_writer();
  ring_writer(const ring_writer&) = delete;
  ring_writer& operator=(const ring_writer&) = delete;

  /// Never blocks and never fails; the oldest bytes give way.
  void append(std::string_view bytes) noexcept;
  /// Bytes written since the ring exists.
  std::uint64_t end() const noexcept { return end_; }
  std::uint64_t capacity() const noexcept { return capacity_; }
  /// To be passed to readers, who can map it for reading only. Stays owned by the ring.
  int fd() const noexcept { return fd_.get(); }

private:
  void put(std::uint64_t offset, std::string_view bytes) noexcept;

  std::uint64_t capacity_;
  std::uint64_t end_ = 0;
  unique_fd fd_;
  std::byte* map_ = nullptr;
};

/// A reader's end. Reads are const and may come from several threads.
class ring_reader {
public:
  /// Maps the memfd of a ring_writer and keeps no descriptor. Throws std::runtime_error when it is not a sealed ring of this version.
  explicit ring_reader(unique_fd memfd);
  ~ring_reader();
  ring_reader(const ring_reader&) = delete;
  ring_reader& operator=(const ring_reader&) = delete;

  /// At most `max` bytes from absolute offset `from`, or from the oldest kept byte if that is later. An offset beyond the end gives
  /// no bytes at the end. Never blocks; against a producer that overwrites faster than we copy it may give no bytes and a gap.
  ring_chunk read(std::uint64_t from, std::size_t max) const;
  std::uint64_t end() const noexcept;
  std::uint64_t capacity() const noexcept { return capacity_; }

private:
  std::string copy(std::uint64_t from, std::size_t n) const;

  std::uint64_t capacity_ = 0;
  const std::byte* map_ = nullptr;
};

} // namespace swarm
