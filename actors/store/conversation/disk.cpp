#include "actors/store/conversation/disk.hpp"

#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "actors/base/text.hpp"
#include "actors/base/unique_fd.hpp"

namespace swarm {

namespace fs = std::filesystem;

namespace {

std::error_code last_error() { return {errno, std::generic_category()}; }

std::error_code outcome(int rc) { return rc == 0 ? std::error_code{} : last_error(); }

class system_file final : public disk_file {
public:
  explicit system_file(unique_fd fd) : fd_(std::move(fd)) {}

  disk_result<std::uint64_t> size() override {
    struct stat about {};
    if (::fstat(fd_.get(), &about) != 0)
      return last_error();
    return static_cast<std::uint64_t>(about.st_size);
  }

  disk_result<std::size_t> read_at(std::uint64_t offset, std::span<char> to) override {
    std::size_t done = 0;
    while (done < to.size()) {
      auto n = ::pread(fd_.get(), to.data() + done, to.size() - done, static_cast<off_t>(offset + done));
      if (n < 0 && errno == EINTR)
        continue;
      if (n < 0)
        return last_error();
      if (n == 0)
        break;
      done += static_cast<std::size_t>(n);
    }
    return done;
  }

  std::error_code write_at(std::uint64_t offset, std::string_view bytes) override {
    while (!bytes.empty()) {
      auto n = ::pwrite(fd_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
      if (n < 0 && errno == EINTR)
        continue;
      if (n < 0)
        return last_error();
      bytes.remove_prefix(static_cast<std::size_t>(n));
      offset += static_cast<std::uint64_t>(n);
    }
    return {};
  }

  std::error_code resize(std::uint64_t bytes) override { return outcome(::ftruncate(fd_.get(), static_cast<off_t>(bytes))); }
  std::error_code sync() override { return outcome(::fdatasync(fd_.get())); }

  disk_result<std::int64_t> changed_ms() override {
    struct stat about {};
    if (::fstat(fd_.get(), &about) != 0)
      return last_error();
    return std::int64_t{about.st_mtim.tv_sec} * 1'000 + about.st_mtim.tv_nsec / 1'000'000;
  }

private:
  unique_fd fd_;
};

class machine final : public disk {
public:
  disk_result<std::unique_ptr<disk_file>> open(const fs::path& path, how mode) override {
    auto flags = mode == how::read ? O_RDONLY : mode == how::write ? O_RDWR : O_RDWR | O_CREAT | O_EXCL;
    // Nobody is waited for at the other end of a pipe that stands in a file's place.
    unique_fd fd{::open(path.c_str(), flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600)};
    struct stat info {};
    if (!fd || ::fstat(fd.get(), &info) != 0)
      return last_error();
    if (S_ISDIR(info.st_mode))
      return std::make_error_code(std::errc::is_a_directory);
    if (!S_ISREG(info.st_mode))
      return std::make_error_code(std::errc::no_such_device_or_address);
    return std::unique_ptr<disk_file>{std::make_unique<system_file>(std::move(fd))};
  }

  disk_result<std::vector<std::string>> list(const fs::path& directory) override {
    std::vector<std::string> out;
    std::error_code error;
    for (fs::directory_iterator i{directory, error}, last; !error && i != last; i.increment(error))
      out.push_back(i->path().filename().string());
    if (error)
      return error;
    return out;
  }

  std::error_code rename(const fs::path& from, const fs::path& to) override { return outcome(::rename(from.c_str(), to.c_str())); }

  std::error_code remove(const fs::path& path) override { return ::unlink(path.c_str()) == 0 || errno == ENOENT ? std::error_code{} : last_error(); }

  std::error_code sync_directory(const fs::path& path) override {
    unique_fd fd{::open(path.empty() ? "." : path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    if (!fd)
      return last_error();
    // Some file systems cannot, and need it not.
    return ::fsync(fd.get()) == 0 || errno == EINVAL ? std::error_code{} : last_error();
  }

private:
  std::error_code make_one_directory(const fs::path& path) override { return outcome(::mkdir(path.c_str(), 0700)); }
};

} // namespace

std::error_code disk::make_directory(const fs::path& path) {
  const auto above = path.parent_path();
  if (above == path)
    return {};
  auto is_old = static_cast<bool>(list(path));
  if (!is_old) {
    // Before this one is made: the name of what an old one stands in is durable.
    if (auto error = make_directory(above))
      return error;
    auto error = make_one_directory(path);
    is_old = error == std::errc::file_exists;
    if (error && !is_old)
      return error;
  }
  // Whoever made an old one may have failed, or died, before its name was durable.
  auto error = sync_directory(above);
  // Such as a home directory among those of others.
  const auto is_of_others = is_old && error == std::errc::permission_denied;
  return is_of_others ? std::error_code{} : error;
}

disk& system_disk() {
  static machine the_machine;
  return the_machine;
}

bool is_lost(std::error_code error) noexcept { return error == std::errc::io_error || error == std::errc::no_such_file_or_directory; }

bool disk_failure::is_full() const noexcept {
  return code == std::errc::no_space_on_device || (code.category() == std::generic_category() && code.value() == EDQUOT);
}

disk_failure failed_to(std::string_view what, std::error_code why) {
  disk_failure out{why, concat({what, ": ", why.message()})};
  if (out.is_full())
    out.text += "; free some space on this disk";
  return out;
}

} // namespace swarm
