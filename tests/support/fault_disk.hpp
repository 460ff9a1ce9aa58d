// A disk in memory that fails on command: it numbers everything that changes it, loses what was not synced when its power is cut, and can refuse a
// chosen change. The same for plain files as fault_vfs is for SQLite.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "actors/store/conversation/disk.hpp"

namespace swarm::test {

/// One thread. The root exists; names of files and directories become durable with sync_directory of where they stand.
class fault_disk final : public disk {
public:
  struct file {
    std::string now;    // as the program sees it
    std::string synced; // as the disk has it
    struct change {
      std::size_t offset = 0;
      std::string bytes = {};
      std::optional<std::size_t> size = {}; // a new size
    };
    std::vector<change> unsynced;
    std::int64_t changed_ms = 0;
  };
  using names = std::map<std::string, std::shared_ptr<file>>;

  disk_result<std::unique_ptr<disk_file>> open(const std::filesystem::path&, how) override;
  disk_result<std::vector<std::string>> list(const std::filesystem::path&) override;
  /// Within one directory.
  std::error_code rename(const std::filesystem::path& from, const std::filesystem::path& to) override;
  std::error_code remove(const std::filesystem::path&) override;
  std::error_code sync_directory(const std::filesystem::path&) override;

  /// Changes and syncs so far.
  std::uint64_t operations() const noexcept { return operations_; }
  /// The power goes when the k-th operation from now begins: it and everything after it fails.
  void cut_power_at(std::uint64_t k) { cut_at_ = operations_ + k; }
  bool powered() const noexcept { return powered_; }
  /// The k-th operation from now fails with this error. A write then has written a half; what a sync should have made durable stays readable until
  /// the power goes, but no later sync writes it.
  void fail_at(std::uint64_t k, std::errc why) {
    fail_at_ = operations_ + k;
    why_ = why;
  }
  /// Reads so far.
  std::uint64_t reads() const noexcept { return reads_; }
  /// The k-th read from now fails.
  void fail_read_at(std::uint64_t k) { fail_read_at_ = reads_ + k; }
  /// Writes of more than nothing fail from now on, after a half of their bytes, and neither files nor directories are made.
  void fill(bool full) { full_ = full; }
  /// By its clock, which stands still otherwise.
  void set_time(std::int64_t unix_ms) noexcept { now_ms_ = unix_ms; }
  /// Nothing fails any more. What was lost before stays lost.
  void heal() {
    cut_at_ = fail_at_ = fail_read_at_ = 0;
    full_ = false;
  }
  /// The power goes, if it has not, and comes back. Of what was not synced, names up to a random one survive, and random changes to files, some of
  /// them torn; without a seed nothing of it.
  void reboot(std::optional<std::uint64_t> seed = {});

  /// Changes a file behind the program's back; nothing of it is left to sync then. Nothing happens without such a file.
  void damage(const std::string& path, const std::function<void(std::string&)>&);
  const names& files() const noexcept { return now_.files; }

private:
  friend class open_fault_file;
  struct tree {
    names files;
    std::set<std::string> directories; // besides the root

    bool has_directory(const std::filesystem::path&) const;
    /// Whatever stands in a directory that is not there.
    void remove_orphans();
  };
  struct change {
    std::string directory;
    std::function<void(tree&)> perform;
  };

  std::error_code make_one_directory(const std::filesystem::path&) override;
  void change_names(const std::filesystem::path& directory, std::function<void(tree&)>);
  static std::error_code dead() { return std::make_error_code(std::errc::io_error); }
  std::error_code admit();
  std::error_code admit_read();

  tree now_, synced_;
  std::vector<change> unsynced_; // to names
  std::uint64_t operations_ = 0;
  std::uint64_t reads_ = 0;
  std::uint64_t cut_at_ = 0;
  std::uint64_t fail_at_ = 0;
  std::uint64_t fail_read_at_ = 0;
  std::errc why_ = std::errc::io_error;
  bool full_ = false;
  bool powered_ = true;
  std::int64_t now_ms_ = 0;
};

} // namespace swarm::test
