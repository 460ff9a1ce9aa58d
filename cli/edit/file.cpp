#include "cli/edit/file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "actors/base/atomic_file.hpp"
#include "actors/base/limits.hpp"
#include "actors/base/paths.hpp"
#include "actors/base/unique_fd.hpp"
#include "gateway/client/failure.hpp"

namespace swarm::cli {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view backup_mark = ".swarm-backup-";
constexpr int links_max = 40; // as the kernel

[[noreturn]] void fail(const fs::path& path, const std::string& why) { throw failure(code::refused, path.string() + ": " + why); }
[[noreturn]] void fail_with(const fs::path& path, const char* what, int error) { fail(path, std::string{what} + ": " + std::strerror(error)); }

fs::path behind_links(fs::path path) {
  std::error_code ec;
  for (int i = 0; i < links_max; ++i) {
    auto to = fs::read_symlink(path, ec);
    if (ec)
      return path;
    path = to.is_absolute() ? to : path.parent_path() / to;
  }
  fail(path, "too many symbolic links");
}

void make_directories(const fs::path& directory) {
  std::error_code ec;
  if (directory.empty() || fs::is_directory(directory, ec))
    return;
  make_directories(directory.parent_path());
  if (mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST)
    fail_with(directory, "cannot be made", errno);
}

std::size_t number_of_backup(const fs::path& name, const fs::path& of) {
  auto prefix = of.filename().string() + std::string{backup_mark};
  auto text = name.filename().string();
  if (!text.starts_with(prefix) || text.size() - prefix.size() > 9)
    return 0;
  auto digits = text.substr(prefix.size());
  bool number = !digits.empty() && std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; });
  return number ? std::stoul(digits) : 0;
}

fs::path make_backup(const settings_file& file) {
  auto before = backups_of(file);
  auto n = before.empty() ? 1 : number_of_backup(before.back(), file.target) + 1;
  for (;; ++n) {
    auto path = fs::path{file.target.string() + std::string{backup_mark} + std::to_string(n)};
    auto error = write_new_file(path, *file.bytes);
    if (!error)
      return path;
    if (error != std::errc::file_exists)
      fail_with(path, "cannot be written", error.value());
  }
}

} // namespace

settings_file read_settings(const fs::path& path) {
  settings_file out{path, behind_links(path), std::nullopt};
  unique_fd fd{open(out.target.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)};
  if (fd.get() < 0) {
    if (errno == ENOENT)
      return out;
    fail_with(path, "cannot be read", errno);
  }
  struct stat info {};
  if (fstat(fd.get(), &info) != 0)
    fail_with(path, "cannot be read", errno);
  if (!S_ISREG(info.st_mode))
    fail(path, "this is not a file");
  if (info.st_uid != geteuid())
    fail(path, "this file belongs to somebody else");
  if (static_cast<std::uint64_t>(info.st_size) > limits::agent_settings_bytes_max)
    fail(path, "longer than " + std::to_string(limits::agent_settings_bytes_max) + " bytes");
  std::string bytes;
  char part[65536];
  for (;;) {
    auto n = ::read(fd.get(), part, sizeof part);
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0)
      fail_with(path, "cannot be read", errno);
    if (n == 0)
      break;
    bytes.append(part, static_cast<std::size_t>(n));
    if (bytes.size() > limits::agent_settings_bytes_max)
      fail(path, "longer than " + std::to_string(limits::agent_settings_bytes_max) + " bytes");
  }
  out.bytes = std::move(bytes);
  return out;
}

fs::path repository_of(const settings_file& file) {
  std::error_code ec;
  for (const auto& path : {file.path, file.target}) {
    auto root = fs::path{git_root(fs::weakly_canonical(path.parent_path(), ec).string())};
    if (!ec && fs::exists(root / ".git", ec))
      return root;
  }
  return {};
}

std::vector<fs::path> backups_of(const settings_file& file) {
  std::vector<fs::path> out;
  std::error_code ec;
  for (fs::directory_iterator i{file.target.parent_path(), ec}, end; !ec && i != end; i.increment(ec))
    if (number_of_backup(i->path(), file.target) > 0)
      out.push_back(i->path());
  std::sort(out.begin(), out.end(),
            [&](const auto& a, const auto& b) { return number_of_backup(a, file.target) < number_of_backup(b, file.target); });
  return out;
}

fs::path replace_settings(const settings_file& file, const std::optional<std::string>& bytes, bool keep) {
  if (read_settings(file.path).bytes != file.bytes)
    throw changed_meanwhile{};
  fs::path backup;
  if (file.bytes && keep)
    backup = make_backup(file);
  if (!bytes) {
    if (unlink(file.target.c_str()) != 0 && errno != ENOENT)
      fail_with(file.path, "cannot be removed", errno);
    return backup;
  }
  make_directories(file.target.parent_path());
  // As late as can be: the program that owns the file may write it at any time.
  auto error = replace_file(file.target, *bytes, durability::synced, [&] { return read_settings(file.path).bytes == file.bytes; });
  if (error == std::errc::operation_canceled)
    throw changed_meanwhile{};
  if (error)
    fail_with(file.path, "cannot be written", error.value());
  return backup;
}

} // namespace swarm::cli
