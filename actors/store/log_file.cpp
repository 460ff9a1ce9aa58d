#include "actors/store/log_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include <sqlite3.h>

#include "actors/store/sqlite.hpp"

namespace swarm {

namespace {

[[noreturn]] void fail(int code, const char* doing, const std::string& why) {
  throw sqlite::io_failure{code, std::string{"the commit log cannot be "} + doing + ": " + why};
}

class system_file final : public log_file {
public:
  explicit system_file(const std::string& path) : fd_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600)) {
    if (fd_ < 0)
      fail_with_errno(SQLITE_CANTOPEN, "opened");
  }
  ~system_file() override { ::close(fd_); }
  system_file(const system_file&) = delete;
  system_file& operator=(const system_file&) = delete;

  std::int64_t size() override {
    struct stat about {};
    if (::fstat(fd_, &about) != 0)
      fail_with_errno(SQLITE_IOERR_FSTAT, "measured");
    return about.st_size;
  }

  void read_at(std::int64_t offset, std::span<char> to) override {
    go_direct(false);
    while (!to.empty()) {
      auto n = ::pread(fd_, to.data(), to.size(), offset);
      if (n < 0 && errno == EINTR)
        continue;
      if (n < 0)
        fail_with_errno(SQLITE_IOERR_READ, "read");
      if (n == 0)
        break;
      offset += n;
      to = to.subspan(static_cast<std::size_t>(n));
    }
    std::ranges::fill(to, '\0');
  }

  void write(std::int64_t offset, std::span<const log_block> blocks) override {
    go_direct(true);
    std::span<const char> rest{blocks.front().bytes, blocks.size_bytes()};
    while (!rest.empty()) {
      auto n = ::pwrite(fd_, rest.data(), rest.size(), offset);
      if (n < 0 && errno == EINTR)
        continue;
      // Some file systems take the flag and refuse the write.
      if (n < 0 && errno == EINVAL && direct_) {
        can_be_direct_ = false;
        go_direct(false);
        continue;
      }
      if (n <= 0)
        fail_with_errno(errno == ENOSPC ? SQLITE_FULL : SQLITE_IOERR_WRITE, "written");
      offset += n;
      rest = rest.subspan(static_cast<std::size_t>(n));
    }
    if (::fdatasync(fd_) != 0)
      fail_with_errno(SQLITE_IOERR_FSYNC, "synced");
  }

private:
  [[noreturn]] static void fail_with_errno(int code, const char* doing) { fail(code, doing, std::generic_category().message(errno)); }

  /// Reading is rare, of any length, and goes through the page cache.
  void go_direct(bool direct) {
    direct = direct && can_be_direct_;
    if (direct == direct_)
      return;
    auto flags = ::fcntl(fd_, F_GETFL);
    if (flags >= 0 && ::fcntl(fd_, F_SETFL, direct ? flags | O_DIRECT : flags & ~O_DIRECT) == 0)
      direct_ = direct;
    else if (direct)
      can_be_direct_ = false;
    else
      fail_with_errno(SQLITE_IOERR, "read");
  }

  int fd_;
  bool direct_ = false;
  bool can_be_direct_ = true;
};

class vfs_file final : public log_file {
public:
  vfs_file(const std::string& path, const std::string& vfs) : path_(path + std::string(3, '\0')) {
    auto* v = sqlite3_vfs_find(vfs.c_str());
    if (v == nullptr)
      fail(SQLITE_CANTOPEN, "opened", "there is no VFS named " + vfs);
    storage_ = std::make_unique<char[]>(static_cast<std::size_t>(v->szOsFile));
    auto* file = reinterpret_cast<sqlite3_file*>(storage_.get());
    check(v->xOpen(v, path_.c_str(), file, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_MAIN_JOURNAL, nullptr), "opened");
    file_ = file;
  }
  ~vfs_file() override {
    if (file_ != nullptr)
      file_->pMethods->xClose(file_);
  }
  vfs_file(const vfs_file&) = delete;
  vfs_file& operator=(const vfs_file&) = delete;

  std::int64_t size() override {
    sqlite3_int64 bytes = 0;
    check(file_->pMethods->xFileSize(file_, &bytes), "measured");
    return bytes;
  }

  void read_at(std::int64_t offset, std::span<char> to) override {
    auto rc = file_->pMethods->xRead(file_, to.data(), static_cast<int>(to.size()), offset);
    if (rc != SQLITE_IOERR_SHORT_READ) // the rest is zeros
      check(rc, "read");
  }

  void write(std::int64_t offset, std::span<const log_block> blocks) override {
    // A VFS takes less than 128 KiB at once.
    constexpr std::size_t at_once = 16;
    for (; !blocks.empty(); blocks = blocks.subspan(std::min(at_once, blocks.size()))) {
      auto part = blocks.first(std::min(at_once, blocks.size()));
      check(file_->pMethods->xWrite(file_, part.front().bytes, static_cast<int>(part.size_bytes()), offset), "written");
      offset += static_cast<std::int64_t>(part.size_bytes());
    }
    check(file_->pMethods->xSync(file_, SQLITE_SYNC_NORMAL | SQLITE_SYNC_DATAONLY), "synced");
  }

private:
  static void check(int rc, const char* doing) {
    if (rc != SQLITE_OK)
      fail(rc, doing, sqlite3_errstr(rc));
  }

  std::string path_; // the VFS keeps a pointer to it; SQLite's file names are followed by parameters, of which there are none
  std::unique_ptr<char[]> storage_;
  sqlite3_file* file_ = nullptr;
};

} // namespace

std::unique_ptr<log_file> open_log_file(const std::string& path, const std::string& vfs) {
  if (vfs.empty())
    return std::make_unique<system_file>(path);
  return std::make_unique<vfs_file>(path, vfs);
}

} // namespace swarm
