// A disk that fails on command: an SQLite VFS in memory that numbers every write and sync, loses what was not synced when its
// power is cut, and can fail a chosen sync or write.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

struct sqlite3_vfs;

namespace swarm::test {

/// Registers itself under `name()` while it lives. One connection at a time: locks always succeed, nothing is shared between
/// threads. A file becomes permanent with its first sync, like its data.
class fault_vfs {
public:
  fault_vfs();
  ~fault_vfs();
  fault_vfs(const fault_vfs&) = delete;
  fault_vfs& operator=(const fault_vfs&) = delete;

  const std::string& name() const noexcept { return name_; }

  /// Writes, truncations and syncs so far.
  std::uint64_t operations() const noexcept { return operations_; }
  std::uint64_t syncs() const noexcept { return syncs_; }

  /// The power goes when operation k (counted from 1) begins: it and everything after it fails.
  void cut_power_at(std::uint64_t k) { cut_at_ = k; }
  /// Half of the unsynced changes, picked by this seed, reach the disk in spite of the cut, one of them torn in its middle.
  void tear(std::uint64_t seed) { tear_seed_ = seed; }
  /// The k-th sync fails with EIO. As on Linux, what it should have made permanent can still be read until the power goes, but no
  /// later sync writes it.
  void fail_sync_at(std::uint64_t k) { fail_sync_at_ = k; }
  /// The k-th operation fails when it is a write: the disk is full.
  void fill_disk_at(std::uint64_t k) { full_at_ = k; }

  bool powered() const noexcept { return powered_; }
  /// Power comes back: files are what was synced (and what tore through). All handles must be closed. Counting starts at 0.
  void reboot();

  // -- for the C side ----------------------------------------------------------------------
  struct file {
    std::string now;        // as the program sees it
    std::string synced;     // as the disk has it
    bool permanent = false; // survives a cut
    struct change {
      std::size_t offset = 0;
      std::string bytes = {};
      std::optional<std::size_t> size = {}; // a truncation to this
    };
    std::vector<change> unsynced;                // since the last sync
    std::vector<std::unique_ptr<char[]>> shared; // regions of the WAL index
  };
  std::map<std::string, std::shared_ptr<file>> files;
  enum class kind { write, truncate, sync };
  /// SQLITE_OK, or what the operation has to fail with.
  int admit(kind);
  sqlite3_vfs* base() const noexcept { return base_; }

private:
  void lose_unsynced(file&, std::uint64_t salt) const;

  std::string name_;
  std::unique_ptr<sqlite3_vfs> vfs_;
  sqlite3_vfs* base_;
  std::uint64_t operations_ = 0;
  std::uint64_t syncs_ = 0;
  std::uint64_t cut_at_ = 0;
  std::uint64_t fail_sync_at_ = 0;
  std::uint64_t full_at_ = 0;
  std::optional<std::uint64_t> tear_seed_;
  bool powered_ = true;
};

} // namespace swarm::test
