// The commit log: what makes an answer durable before the database is written.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "actors/store/log_file.hpp"

namespace swarm {

/// A file of records, appended and synced one by one: some hundred bytes where a transaction of the database syncs a page of 4 KiB for
/// every row and index it touched. Starting over writes from the beginning again, so that the file keeps its size and a sync only has
/// to write data; for the same reason it is written in whole blocks. Errors: sqlite::io_failure.
///
/// Record: generation (16 bytes), number from 1 (8, little-endian), length (8), checksum (16, BLAKE2b of the three and the payload),
/// payload. The first that does not fit the line ends the log.
class commit_log {
public:
  /// Opens or creates the file (mode 0600). `vfs`: name of a registered VFS, empty = the default one.
  commit_log(const std::string& path, const std::string& vfs);

  /// Hands over the payloads of that generation with numbers above `after`, in order; appending goes on behind them.
  void read(std::string_view generation, std::uint64_t after, const std::function<void(std::string_view)>&);
  /// From now on only records of this generation (16 bytes, never used before) count. A reader must have learned of it before.
  void start(std::string generation);
  /// It has reached limits::commit_log_bytes_max and should start over; the last record may go beyond.
  bool full() const noexcept;
  /// Durable when it returns.
  void append(std::string_view payload);
  /// Number of the newest record, 0 before the first.
  std::uint64_t newest() const noexcept { return newest_; }

  static std::string new_generation();

private:
  void follow(std::string_view generation, std::uint64_t after, const std::function<void(std::string_view)>& next);
  std::size_t end_in_block() const noexcept;

  std::unique_ptr<log_file> file_;
  std::string generation_;
  std::vector<log_block> blocks_{1}; // the first: what the file's block has, in which the log ends
  std::uint64_t newest_ = 0;
  std::int64_t end_ = 0;  // of the newest record
  std::int64_t size_ = 0; // of the file
};

} // namespace swarm
