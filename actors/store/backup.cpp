#include "actors/store/backup.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <system_error>

#include <sqlite3.h>

#include "actors/store/ledger.hpp"
#include "actors/store/schema.hpp"

namespace swarm {

namespace {

/// Pages copied before SQLite's locks are let go for a moment.
constexpr int pages_per_step = 1024;

/// Keeps one snapshot for as long as the copying takes: without it every commit of the writer would start the copy again.
class snapshot {
public:
  explicit snapshot(sqlite::connection& db) : db_(db) {
    db_.run("BEGIN");
    try {
      db_.number("SELECT count(*) FROM sqlite_schema");
    } catch (...) {
      db_.run("ROLLBACK");
      throw;
    }
  }
  ~snapshot() { sqlite3_exec(db_.handle(), "ROLLBACK", nullptr, nullptr, nullptr); }
  snapshot(const snapshot&) = delete;
  snapshot& operator=(const snapshot&) = delete;

private:
  sqlite::connection& db_;
};

/// The new file; gone again unless it was completed.
class target_file {
public:
  explicit target_file(const std::string& path) : path_(path) {
    auto fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
      throw store_error{errc::invalid, "cannot create the backup " + path + ": " + std::generic_category().message(errno)};
    ::close(fd);
  }
  ~target_file() {
    if (complete_)
      return;
    std::error_code ignored;
    for (const auto* suffix : {"", "-wal", "-shm", "-journal"})
      std::filesystem::remove(path_ + suffix, ignored);
  }
  target_file(const target_file&) = delete;
  target_file& operator=(const target_file&) = delete;
  void keep() noexcept { complete_ = true; }

private:
  std::string path_;
  bool complete_ = false;
};

struct closer {
  void operator()(sqlite3* db) const noexcept { sqlite3_close_v2(db); }
};

void copy(sqlite::connection& source, const std::string& path) {
  sqlite3* raw = nullptr;
  auto rc = sqlite3_open_v2(path.c_str(), &raw, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, nullptr);
  std::unique_ptr<sqlite3, closer> target{raw};
  if (rc != SQLITE_OK)
    sqlite::raise(rc, raw, "open " + path);
  auto* job = sqlite3_backup_init(raw, "main", source.handle(), "main");
  if (job == nullptr)
    sqlite::raise(sqlite3_extended_errcode(raw), raw, "backup to " + path);
  do
    rc = sqlite3_backup_step(job, pages_per_step);
  while (rc == SQLITE_OK);
  auto finished = sqlite3_backup_finish(job);
  if (rc != SQLITE_DONE || finished != SQLITE_OK)
    sqlite::raise(rc != SQLITE_DONE ? rc : finished, raw, "backup to " + path);
}

void sync_directory(const std::string& path) {
  auto directory = std::filesystem::absolute(path).parent_path();
  auto fd = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0)
    return;
  ::fsync(fd);
  ::close(fd);
}

} // namespace

std::uint64_t backup_to(sqlite::connection& source, const std::string& path) {
  target_file target{path};
  try {
    {
      snapshot held{source};
      copy(source, path);
    }
    sqlite::connection copied{path, {.query_only = false, .create = false, .vfs = {}, .cache_kib = 1024}};
    set_fact(copied, "restored", "1");
    set_fact(copied, "commit_log", ""); // what is logged beside the original goes on from there, not from here
    set_fact(copied, "clean", "1");
    copied.run("PRAGMA wal_checkpoint(TRUNCATE)");
  } catch (const sqlite::disk_full&) {
    // Not the store's failure, and repeating does not help: the node goes on.
    throw store_error{errc::low_disk, "the backup " + path + " could not be written: its disk is full"};
  } catch (const sqlite::error& e) {
    throw store_error{errc::invalid, "the backup " + path + " could not be written: " + e.what()};
  }
  sync_directory(path);
  target.keep();
  return std::filesystem::file_size(path);
}

namespace {

/// Copies of a store's files, to be opened in their place; gone with this.
class copied_files {
public:
  explicit copied_files(std::string path) : path_(std::move(path)) { remove(); }
  ~copied_files() { remove(); }
  copied_files(const copied_files&) = delete;
  copied_files& operator=(const copied_files&) = delete;
  /// A copy that fails leaves nothing: this is whole by then, so that its end removes what there is.
  void copy(const std::string& store) {
    for (const auto* suffix : {"", "-wal", ".commits"}) { // SQLite makes the index file again
      if (!std::filesystem::exists(store + suffix))
        continue;
      std::filesystem::copy_file(store + suffix, path_ + suffix);
      std::filesystem::permissions(path_ + suffix, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
    }
  }
  const std::string& path() const noexcept { return path_; }

private:
  void remove() const {
    std::error_code ignored;
    for (const auto* suffix : {"", "-wal", "-shm", ".commits"})
      std::filesystem::remove(path_ + suffix, ignored);
  }
  std::string path_;
};

} // namespace

bool has_commit_log(sqlite::connection& store, const std::string& path) {
  return !fact(store, "commit_log").empty() && std::filesystem::exists(path + ".commits");
}

std::uint64_t backup_with_log(const std::string& store, const std::string& path) {
  copied_files copies{path + ".source"};
  copies.copy(store);
  { ledger{copies.path(), {}}.close(); } // as the next start of its node would
  sqlite::connection source{copies.path(), {.query_only = true, .create = false, .vfs = {}, .cache_kib = 4096}};
  return backup_to(source, path);
}

std::string check_integrity(sqlite::connection& db, bool full) {
  std::string found;
  auto row = db.prepared(full ? "PRAGMA integrity_check(10)" : "PRAGMA quick_check(10)").use();
  while (row.step())
    found += std::string{found.empty() ? "" : "\n"} + std::string{row.view_at(0)};
  return found;
}

} // namespace swarm
