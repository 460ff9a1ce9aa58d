// A file system of a few MiB for a node's state directory, and a file on it that takes its space away. Mounted where only this program and
// what it starts from then on can see it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace swarm::testing {

class small_disk {
public:
  /// Why there can be none here; empty when there can. The calling thread, and those it starts from now on, get mounts of their own.
  static std::string obstacle();

  /// Throws where there is an obstacle.
  small_disk(std::filesystem::path at, std::uint64_t bytes);
  ~small_disk();
  small_disk(const small_disk&) = delete;
  small_disk& operator=(const small_disk&) = delete;

  std::uint64_t free_bytes() const;
  /// So much is left.
  void leave(std::uint64_t bytes) const;
  /// Not a byte is left, however fast others write.
  void fill() const;
  void empty() const;

private:
  std::filesystem::path ballast() const { return at_ / "ballast"; }
  std::filesystem::path at_;
};

} // namespace swarm::testing
