// Files as the logs of conversations need them. They are passed in, so that a test can let any write fail or cut the power at it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "actors/base/result.hpp"

namespace swarm {

template <class T>
using disk_result = result<T, std::error_code>;

/// One open file. One thread writes it; others may read it meanwhile.
class disk_file {
public:
  virtual ~disk_file() = default;
  /// In bytes.
  virtual disk_result<std::uint64_t> size() = 0;
  /// How many bytes it read: less than asked for only where the file ends.
  virtual disk_result<std::size_t> read_at(std::uint64_t offset, std::span<char> to) = 0;
  /// After an error any part of the bytes may have been written.
  virtual std::error_code write_at(std::uint64_t offset, std::string_view bytes) = 0;
  virtual std::error_code resize(std::uint64_t bytes) = 0;
  /// What was written before is durable when it returns without an error.
  virtual std::error_code sync() = 0;
  /// When its bytes were changed last: Unix time in milliseconds, by the clock of the file system.
  virtual disk_result<std::int64_t> changed_ms() = 0;
};

/// A file system. Names become durable with sync_directory, not before.
class disk {
public:
  enum class how {
    read,
    write, // a file that exists
    make,  // a new one, of mode 0600
  };

  virtual ~disk() = default;
  /// A symbolic link is never followed.
  virtual disk_result<std::unique_ptr<disk_file>> open(const std::filesystem::path&, how) = 0;
  /// Names of what is in the directory.
  virtual disk_result<std::vector<std::string>> list(const std::filesystem::path& directory) = 0;
  /// With those above it, of mode 0700, unless it exists. Their names are durable when it returns without an error.
  std::error_code make_directory(const std::filesystem::path&);
  /// Replaces a file of the new name atomically.
  virtual std::error_code rename(const std::filesystem::path& from, const std::filesystem::path& to) = 0;
  /// Also succeeds when there is no such file.
  virtual std::error_code remove(const std::filesystem::path&) = 0;
  virtual std::error_code sync_directory(const std::filesystem::path&) = 0;

private:
  /// In one that exists, of mode 0700; file_exists if anything of that name does.
  virtual std::error_code make_one_directory(const std::filesystem::path&) = 0;
};

/// The machine's. Any thread may use it.
disk& system_disk();

/// The disk has lost what was to be read, so trying again is of little use.
bool is_lost(std::error_code) noexcept;

/// What the disk refused, in words for people.
struct disk_failure {
  std::error_code code;
  std::string text;

  /// There is no space left: nothing is broken, and the same works again when there is.
  bool is_full() const noexcept;
};

template <class T>
using or_failure = result<T, disk_failure>;

/// "what: why".
disk_failure failed_to(std::string_view what, std::error_code why);

} // namespace swarm
