#include "services/security/private_file.hpp"

#include <cerrno>
#include <cstring>
#include <string>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "actors/base/atomic_file.hpp"
#include "actors/base/unique_fd.hpp"

namespace swarm {

namespace fs = std::filesystem;

namespace {

security_failure failed(const char* what, const fs::path& path, int error) {
  return {security_error::storage, std::string{what} + " " + path.string() + ": " + std::strerror(error)};
}

} // namespace

std::optional<security_failure> prepare_private_directory(const fs::path& path) {
  if (mkdir(path.c_str(), 0700) == 0)
    sync_directory(path.parent_path());
  else if (errno != EEXIST)
    return failed("cannot make", path, errno);
  unique_fd fd{open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)};
  struct stat info {};
  if (!fd || fstat(fd.get(), &info) != 0)
    return failed("cannot use", path, errno);
  if (info.st_uid != geteuid())
    return security_failure{security_error::storage, path.string() + " belongs to somebody else"};
  if ((info.st_mode & 07777) != 0700 && fchmod(fd.get(), 0700) != 0)
    return failed("cannot use", path, errno);
  return std::nullopt;
}

security_result<std::optional<secret>> read_private_file(const fs::path& path, std::size_t bytes_max) {
  // O_NONBLOCK: a pipe in its place must not make us wait.
  unique_fd fd{open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)};
  if (!fd && errno == ENOENT)
    return std::optional<secret>{};
  struct stat info {};
  if (!fd || fstat(fd.get(), &info) != 0)
    return failed("cannot read", path, errno);
  if (!S_ISREG(info.st_mode) || info.st_uid != geteuid())
    return security_failure{security_error::storage, path.string() + " is no file of yours"};
  if ((info.st_mode & 077) != 0)
    return security_failure{security_error::storage, path.string() + " can be read by others: chmod 600 " + path.string()};
  if (static_cast<std::uint64_t>(info.st_size) > bytes_max)
    return security_failure{security_error::malformed, path.string() + " is longer than " + std::to_string(bytes_max) + " bytes"};
  auto bytes = secret::of_size(static_cast<std::size_t>(info.st_size));
  std::size_t filled = 0;
  while (filled < bytes.size()) {
    auto n = read(fd.get(), bytes.data() + filled, bytes.size() - filled);
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0)
      return failed("cannot read", path, errno);
    if (n == 0)
      break;
    filled += static_cast<std::size_t>(n);
  }
  return std::optional{filled == bytes.size() ? std::move(bytes) : bytes.prefix(filled)};
}

std::optional<security_failure> write_private_file(const fs::path& path, std::string_view bytes) {
  if (auto error = replace_file(path, bytes))
    return failed("cannot write", path, error.value());
  return std::nullopt;
}

std::optional<security_failure> remove_private_file(const fs::path& path) {
  if (unlink(path.c_str()) != 0 && errno != ENOENT)
    return failed("cannot remove", path, errno);
  sync_directory(path.parent_path());
  return std::nullopt;
}

} // namespace swarm
