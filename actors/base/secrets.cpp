#include "actors/base/secrets.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "actors/base/atomic_file.hpp"
#include "actors/base/limits.hpp"
#include "actors/base/text.hpp"
#include "actors/base/unique_fd.hpp"

namespace swarm {

namespace fs = std::filesystem;

namespace {

std::string failed(const fs::path& path, std::string_view what, int error) { return concat({path.string(), " ", what, ": ", std::strerror(error)}); }

/// Others could put files into it, or a link in its place.
std::string objection_to(const fs::path& directory) {
  struct stat info {};
  if (lstat(directory.c_str(), &info) != 0)
    return failed(directory, "cannot be read", errno);
  if (!S_ISDIR(info.st_mode) || info.st_uid != geteuid() || (info.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    return directory.string() + " is no directory of yours that only you can write; look at it, then remove it or: chmod 700 " + directory.string();
  return {};
}

} // namespace

std::string objection_to_secret_name(std::string_view name) {
  if (is_plain_name(name) && name.size() <= secret_name_bytes_max)
    return {};
  return concat(
    {"a secret is named by up to ", secret_name_bytes_max, " letters, digits, - and _. A key itself is kept with: swarmctl secret set NAME"});
}

result<private_text, std::string> read_private_text(const fs::path& path, bool only_ours) {
  unique_fd fd{open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | (only_ours ? O_NOFOLLOW : 0))};
  if (!fd)
    return failed(path, "cannot be read", errno);
  struct stat info {};
  if (fstat(fd.get(), &info) != 0)
    return failed(path, "cannot be read", errno);
  if (!S_ISREG(info.st_mode))
    return path.string() + " is no regular file";
  if (info.st_uid != geteuid())
    return path.string() + " belongs to somebody else";
  if (only_ours && (info.st_mode & (S_IRWXG | S_IRWXO)) != 0)
    return path.string() + " can be read by others: chmod 600 " + path.string();
  private_text out;
  out.bytes.resize(secret_bytes_max + 1);
  std::size_t filled = 0;
  while (filled < out.bytes.size()) {
    const auto n = ::read(fd.get(), out.bytes.data() + filled, out.bytes.size() - filled);
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0)
      return failed(path, "cannot be read", errno);
    if (n == 0)
      break;
    filled += static_cast<std::size_t>(n);
  }
  if (filled > secret_bytes_max)
    return concat({path.string(), " is longer than ", secret_bytes_max / limits::kib, " KiB"});
  out.bytes.resize(filled);
  return out;
}

std::vector<std::string> secret_store::names() const {
  std::vector<std::string> out;
  std::error_code ec;
  for (fs::directory_iterator i{directory_, ec}, end; !ec && i != end; i.increment(ec))
    if (auto name = i->path().filename().string(); is_plain_name(name) && i->symlink_status().type() == fs::file_type::regular)
      out.push_back(std::move(name));
  std::sort(out.begin(), out.end());
  return out;
}

bool secret_store::has(std::string_view name) const {
  std::error_code ec;
  return is_plain_name(name) && fs::symlink_status(directory_ / name, ec).type() == fs::file_type::regular;
}

std::string secret_store::set(std::string_view name, std::string_view value) const {
  if (auto why = objection_to_secret_name(name); !why.empty())
    return why;
  if (value.empty())
    return "a secret is not empty; to remove one: swarmctl secret rm " + std::string{name};
  if (value.size() > secret_bytes_max)
    return concat({"a secret has at most ", secret_bytes_max / limits::kib, " KiB"});
  if (value.find('\0') != value.npos)
    return "a secret holds no zero byte, which no variable of an environment can hold";
  if (mkdir(directory_.c_str(), 0700) != 0 && errno != EEXIST)
    return failed(directory_, "cannot be made", errno);
  if (auto why = objection_to(directory_); !why.empty())
    return why;
  if (!has(name) && names().size() >= secrets_max)
    return concat({"there are ", secrets_max, " secrets already; remove one with: swarmctl secret rm NAME"});
  if (auto error = replace_file(directory_ / name, value))
    return failed(directory_ / name, "cannot be written", error.value());
  return {};
}

std::string secret_store::remove(std::string_view name) const {
  if (auto why = objection_to_secret_name(name); !why.empty())
    return why;
  const auto path = directory_ / name;
  if (!has(name))
    return concat({"there is no secret ", name, "; see: swarmctl secret list"});
  if (unlink(path.c_str()) != 0)
    return failed(path, "cannot be removed", errno);
  sync_directory(directory_);
  return {};
}

result<private_text, std::string> secret_store::read(std::string_view name) const {
  if (auto why = objection_to_secret_name(name); !why.empty())
    return why;
  if (!has(name))
    return concat({"there is no secret ", name, "; set it with: swarmctl secret set ", name});
  return read_private_text(directory_ / name, true);
}

} // namespace swarm
