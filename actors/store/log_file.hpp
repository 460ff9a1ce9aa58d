// The file under the commit log: blocks written past the page cache, durable when written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace swarm {

inline constexpr std::size_t log_block_bytes = 4096; // what O_DIRECT asks of every disk in use

/// One block of a log, where O_DIRECT wants it in memory.
struct alignas(log_block_bytes) log_block {
  char bytes[log_block_bytes] = {};
};

/// One writer and no other reader. Errors: sqlite::io_failure.
class log_file {
public:
  virtual ~log_file() = default;
  /// In bytes.
  virtual std::int64_t size() = 0;
  /// Fills `to` from that offset; beyond the end with zeros.
  virtual void read_at(std::int64_t offset, std::span<char> to) = 0;
  /// Writes whole blocks at a multiple of their size. Durable when it returns.
  virtual void write(std::int64_t offset, std::span<const log_block> blocks) = 0;
};

/// Opens or creates it (mode 0600). `vfs`: the name of a registered VFS of SQLite, so that tests can cut the power; empty = a file of the system,
/// written with O_DIRECT where its file system can, which takes some 15 us less than through the page cache.
std::unique_ptr<log_file> open_log_file(const std::string& path, const std::string& vfs);

} // namespace swarm
