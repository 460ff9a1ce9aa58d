// What is too large for a conversation's log: images, results of megabytes, bodies of approvals. A file for each, named by its SHA-256.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "actors/store/conversation/disk.hpp"

namespace swarm {

/// A blob that stands on the disk. The digest, in hexadecimal, is its name.
struct blob {
  std::string sha256;
  std::uint64_t bytes = 0;

  bool operator==(const blob&) const = default;
};

/// One of those that stand there.
struct blob_file {
  blob what;
  std::int64_t written_ms = 0; // Unix time, when its bytes were written last

  bool operator==(const blob_file&) const = default;
};

/// Takes a blob in parts. Unless it is finished, nothing is left of it.
class blob_writer {
public:
  blob_writer(blob_writer&&) noexcept;
  blob_writer& operator=(blob_writer&&) = delete;
  ~blob_writer();

  /// After a failure the blob cannot be finished. It fails when the blob becomes larger than it may.
  std::optional<disk_failure> add(std::string_view part);
  /// Durable, under its name. Once.
  or_failure<blob> finish();

private:
  friend class blobs;
  struct state;
  explicit blob_writer(std::unique_ptr<state>);
  std::unique_ptr<state> state_;
};

/// Those in one directory. Blobs never change, so any thread may read them.
class blobs {
public:
  /// Removes what writers that died have left: nobody else may be writing there.
  static or_failure<blobs> open(disk&, std::filesystem::path directory);
  /// The same removal alone; without the directory there is nothing to remove.
  static std::optional<disk_failure> remove_unfinished(disk&, const std::filesystem::path& directory);
  /// For reading those that may be there: nothing is made or removed.
  static blobs at(disk& d, std::filesystem::path directory) { return {d, std::move(directory)}; }

  or_failure<blob_writer> write(std::uint64_t bytes_max);
  /// A part of it, shorter only at its end.
  or_failure<std::string> read(std::string_view sha256, std::uint64_t offset, std::size_t bytes) const;
  /// All of it, if it has at most so many bytes and they are those that it is named for.
  or_failure<std::string> read_whole(std::string_view sha256, std::size_t bytes_max) const;
  or_failure<std::uint64_t> size(std::string_view sha256) const;
  /// Its size, if all of its bytes are those that it is named for.
  or_failure<std::uint64_t> check(std::string_view sha256) const;
  /// All that stand there, by their names; none without the directory.
  or_failure<std::vector<blob_file>> list() const;
  /// Also succeeds when there is none.
  std::optional<disk_failure> remove(std::string_view sha256);

private:
  blobs(disk& d, std::filesystem::path directory) : disk_(&d), directory_(std::move(directory)) {}
  or_failure<std::unique_ptr<disk_file>> open_one(std::string_view sha256) const;

  disk* disk_;
  std::filesystem::path directory_;
};

} // namespace swarm
