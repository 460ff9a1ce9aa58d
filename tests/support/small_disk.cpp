#include "tests/support/small_disk.hpp"

#include <cerrno>
#include <fstream>
#include <system_error>

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "actors/base/limits.hpp"
#include "actors/base/unique_fd.hpp"

namespace swarm::testing {

namespace {

constexpr std::uint64_t step = 4096; // a file system gives whole blocks

std::string why(const std::string& what) { return what + ": " + std::generic_category().message(errno); }

bool write_file(const char* path, const std::string& text) {
  std::ofstream out{path};
  return static_cast<bool>(out << text << std::flush);
}

/// Others than root need a user namespace for that.
std::string own_mounts() {
  auto uid = std::to_string(geteuid()), gid = std::to_string(getegid());
  if (geteuid() == 0) {
    if (unshare(CLONE_NEWNS) != 0)
      return why("no mount namespace of its own");
  } else {
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0)
      return why("neither root nor a user namespace");
    if (!write_file("/proc/self/setgroups", "deny") || !write_file("/proc/self/uid_map", uid + " " + uid + " 1") ||
        !write_file("/proc/self/gid_map", gid + " " + gid + " 1"))
      return why("no user in a namespace of its own");
  }
  if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
    return why("mounts cannot be made private");
  return {};
}

[[noreturn]] void fail(const std::string& what) { throw std::system_error{errno, std::generic_category(), what}; }

} // namespace

std::string small_disk::obstacle() {
  static const auto text = own_mounts();
  return text;
}

small_disk::small_disk(std::filesystem::path at, std::uint64_t bytes) : at_(std::move(at)) {
  if (auto text = obstacle(); !text.empty())
    throw std::runtime_error(text);
  std::filesystem::create_directories(at_);
  auto options = "mode=0700,size=" + std::to_string(bytes);
  if (mount("tmpfs", at_.c_str(), "tmpfs", 0, options.c_str()) != 0)
    fail("a tmpfs cannot be mounted");
}

small_disk::~small_disk() { umount2(at_.c_str(), MNT_DETACH); }

std::uint64_t small_disk::free_bytes() const {
  struct statvfs s {};
  if (statvfs(at_.c_str(), &s) != 0)
    fail("statvfs");
  return s.f_bavail * s.f_frsize;
}

void small_disk::leave(std::uint64_t bytes) const {
  auto taken = std::filesystem::exists(ballast()) ? std::filesystem::file_size(ballast()) : 0;
  auto wanted = taken + free_bytes() - bytes;
  std::filesystem::remove(ballast());
  unique_fd fd{open(ballast().c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)};
  if (auto failed = posix_fallocate(fd.get(), 0, static_cast<off_t>(wanted)))
    throw std::system_error{failed, std::generic_category(), "posix_fallocate"};
}

void small_disk::fill() const {
  unique_fd fd{open(ballast().c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600)};
  const std::string block(limits::mib, 'x');
  for (auto size = block.size(); size >= step;)
    if (write(fd.get(), block.data(), size) <= 0)
      size /= 2;
}

void small_disk::empty() const { std::filesystem::remove(ballast()); }

} // namespace swarm::testing
