// The commit log: what makes an answer durable before the database is written.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

struct sqlite3_file;

namespace swarm {

/// A file of records, appended and synced one by one: some hundred bytes where a transaction of the database syncs a page of 4 KiB for
/// every row and index it touched. Starting over writes from the beginning again, so that the file keeps its size and a sync only has
/// to write data. Goes through SQLite's VFS, so that tests can cut the power. Errors: sqlite::io_failure.
///
/// Record: generation (16 bytes), number from 1 (8, little-endian), length (8), checksum (16, BLAKE2b of the three and the payload),
/// payload. The first that does not fit the line ends the log.
class commit_log {
public:
  /// Opens or creates the file (mode 0600). `vfs`: name of a registered VFS, empty = the default one.
  commit_log(const std::string& path, const std::string& vfs);
  ~commit_log();
  commit_log(const commit_log&) = delete;
  commit_log& operator=(const commit_log&) = delete;

  /// Hands over the payloads of that generation with numbers above `after`, in order; appending goes on behind them.
  void read(std::string_view generation, std::uint64_t after, const std::function<void(std::string_view)>&);
  /// From now on only records of this generation (16 bytes, never used before) count. Whoever reads must have learned of it before.
  void start(std::string generation);
  /// It has reached limits::commit_log_bytes_max and should start over; the last record may go beyond.
  bool full() const noexcept;
  /// Durable when it returns.
  void append(std::string_view payload);
  /// Number of the newest record, 0 before the first.
  std::uint64_t newest() const noexcept { return newest_; }

  static std::string new_generation();

private:
  void read_at(std::int64_t offset, std::string& to);
  void write(std::string_view bytes);

  std::unique_ptr<char[]> storage_; // of the VFS's file object
  sqlite3_file* file_ = nullptr;
  std::string path_; // the VFS keeps a pointer to it
  std::string generation_;
  std::string buffer_;
  std::uint64_t newest_ = 0;
  std::int64_t end_ = 0;  // of the newest record
  std::int64_t size_ = 0; // of the file
};

} // namespace swarm
