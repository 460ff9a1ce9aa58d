#include "actors/fabric/terminals/pty_log_files.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <iterator>
#include <limits>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "actors/base/atomic_file.hpp"
#include "actors/base/limits.hpp"
#include "actors/base/text.hpp"
#include "actors/base/unique_fd.hpp"

namespace fs = std::filesystem;

namespace swarm {

namespace {

constexpr auto offset_max = std::numeric_limits<std::uint64_t>::max();

[[noreturn]] void fail_io(const fs::path& p) { throw std::system_error(errno, std::generic_category(), p.string()); }

void write_at(int fd, std::string_view bytes, std::uint64_t at, const fs::path& p) {
  while (!bytes.empty()) {
    auto n = pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(at));
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      fail_io(p);
    bytes.remove_prefix(static_cast<std::size_t>(n));
    at += static_cast<std::uint64_t>(n);
  }
}

} // namespace

pty_log_files::pty_log_files(fs::path dir) : dir_(std::move(dir)) {
  std::error_code ec;
  for (fs::directory_iterator i{dir_, ec}, last; !ec && i != last; i.increment(ec)) {
    auto stem = i->path().stem().string();
    std::uint64_t offset = 0;
    std::from_chars(stem.data(), stem.data() + stem.size(), offset, 16);
    if (i->path() != segment_path(offset))
      continue;
    std::error_code none;
    auto size = fs::file_size(i->path(), none);
    // An empty one, as a crash may leave it, would hide those behind it.
    if (!none && size > 0 && size <= offset_max - offset)
      segments_.emplace(offset, size);
  }
  // Files that grew by damage do not reach into the next one.
  for (auto i = segments_.begin(); i != segments_.end() && std::next(i) != segments_.end(); ++i)
    i->second = std::min(i->second, std::next(i)->first - i->first);
}

std::uint64_t pty_log_files::end() const noexcept { return empty() ? 0 : segments_.rbegin()->first + segments_.rbegin()->second; }

fs::path pty_log_files::segment_path(std::uint64_t offset) const { return dir_ / concat({hex(offset, 16), ".seg"}); }

void pty_log_files::append(std::uint64_t offset, std::string_view bytes) {
  if (bytes.size() > offset_max - offset)
    throw std::system_error(std::make_error_code(std::errc::value_too_large), "offset " + std::to_string(offset));
  if (auto have = end(); !empty() && offset < have) {
    auto skip = std::min<std::uint64_t>(have - offset, bytes.size());
    bytes.remove_prefix(skip);
    offset += skip;
  }
  while (!bytes.empty()) {
    auto fits = !empty() && end() == offset && segments_.rbegin()->second < limits::pty_segment_bytes();
    if (!fits) {
      fs::create_directories(dir_);
      fs::permissions(dir_, fs::perms::owner_all);
      segments_.emplace(offset, 0);
    }
    auto& [first, size] = *segments_.rbegin();
    auto n = std::min<std::size_t>(bytes.size(), limits::pty_segment_bytes() - size);
    auto path = segment_path(first);
    unique_fd fd{open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600)};
    if (!fd)
      fail_io(path);
    write_at(fd.get(), bytes.substr(0, n), size, path);
    size += n;
    offset += n;
    bytes.remove_prefix(n);
    drop_oldest();
  }
}

void pty_log_files::drop_oldest() {
  auto total = [&] {
    std::uint64_t sum = 0;
    for (const auto& [first, size] : segments_)
      sum += size;
    return sum;
  };
  while (segments_.size() > 1 && total() > limits::pty_segments_total_bytes()) {
    std::error_code ec;
    fs::remove(segment_path(segments_.begin()->first), ec);
    segments_.erase(segments_.begin());
  }
}

void pty_log_files::clear() {
  for (const auto& [first, size] : std::exchange(segments_, {}))
    fs::remove(segment_path(first));
  remove_terminal_records(dir_);
}

std::uint64_t pty_log_files::read(std::uint64_t from, std::size_t max, std::string& out) const {
  out.clear();
  auto i = segments_.upper_bound(from);
  if (i != segments_.begin() && std::prev(i)->first + std::prev(i)->second > from)
    --i;
  if (i == segments_.end())
    return from;
  auto offset = std::max(from, i->first);
  auto skip = offset - i->first;
  out.resize(std::min<std::uint64_t>(max, i->second - skip));
  auto path = segment_path(i->first);
  unique_fd fd{open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW)};
  if (!fd)
    fail_io(path);
  auto n = pread(fd.get(), out.data(), out.size(), static_cast<off_t>(skip));
  if (n < 0)
    fail_io(path);
  out.resize(static_cast<std::size_t>(n));
  return offset;
}

void write_terminal_record(const fs::path& dir, const v1::PtyInfo& info) {
  fs::create_directories(dir);
  fs::permissions(dir, fs::perms::owner_all);
  auto path = dir / (info.running() ? terminal_started_name : terminal_record_name);
  if (auto error = replace_file(path, info.SerializeAsString(), info.running() ? durability::cached : durability::synced))
    throw std::system_error(error, path.string());
  std::error_code ec;
  if (!info.running())
    fs::remove(dir / terminal_started_name, ec);
}

void remove_terminal_records(const fs::path& dir) noexcept {
  std::error_code ec;
  for (const auto* name : {terminal_record_name, terminal_started_name})
    fs::remove(dir / name, ec);
}

std::optional<v1::PtyInfo> read_terminal_record(const fs::path& dir, const char* name) {
  auto path = dir / name;
  unique_fd fd{open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW)};
  struct stat st = {};
  if (!fd || fstat(fd.get(), &st) != 0 || st.st_size > static_cast<off_t>(limits::terminal_record_bytes_max))
    return std::nullopt;
  std::string bytes(static_cast<std::size_t>(st.st_size), '\0');
  if (pread(fd.get(), bytes.data(), bytes.size(), 0) != st.st_size)
    return std::nullopt;
  return parse_terminal_record(bytes, dir.filename().string());
}

std::optional<v1::PtyInfo> parse_terminal_record(std::string_view bytes, std::string_view id) {
  v1::PtyInfo info;
  if (!info.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) || info.id() != id)
    return std::nullopt;
  return info;
}

} // namespace swarm
