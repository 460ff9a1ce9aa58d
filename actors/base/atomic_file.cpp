#include "actors/base/atomic_file.hpp"

#include <atomic>
#include <cerrno>
#include <string>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "actors/base/unique_fd.hpp"

namespace swarm {

namespace fs = std::filesystem;

namespace {

std::error_code last_error() { return {errno, std::generic_category()}; }

/// No two writers of one file share it, and what a process that died has left of it is found again by one of the same number.
fs::path beside(const fs::path& path) {
  static std::atomic<unsigned> counter{0};
  auto out = path;
  out += ".new-" + std::to_string(getpid()) + "-" + std::to_string(counter++);
  return out;
}

} // namespace

std::error_code write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    auto n = write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0 && errno == EAGAIN) {
      pollfd has_room{fd, POLLOUT, 0};
      poll(&has_room, 1, -1);
      continue;
    }
    if (n < 0)
      return last_error();
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return {};
}

void sync_directory(const fs::path& path) noexcept {
  if (unique_fd directory{open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)})
    fsync(directory.get());
}

std::error_code write_new_file(const fs::path& path, std::string_view bytes, durability how) {
  unique_fd fd{open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600)};
  if (!fd)
    return last_error();
  auto error = write_all(fd.get(), bytes);
  if (!error && how == durability::synced && fsync(fd.get()) != 0)
    error = last_error();
  if (error)
    unlink(path.c_str());
  return error;
}

std::error_code replace_file(const fs::path& path, std::string_view bytes, durability how, const std::function<bool()>& still_wanted) {
  auto fresh = beside(path);
  unlink(fresh.c_str());
  if (auto error = write_new_file(fresh, bytes, how))
    return error;
  std::error_code error;
  try {
    if (still_wanted && !still_wanted())
      error = std::make_error_code(std::errc::operation_canceled);
  } catch (...) {
    unlink(fresh.c_str());
    throw;
  }
  if (!error && rename(fresh.c_str(), path.c_str()) != 0)
    error = last_error();
  if (error)
    unlink(fresh.c_str());
  else if (how == durability::synced)
    sync_directory(path.parent_path());
  return error;
}

} // namespace swarm
