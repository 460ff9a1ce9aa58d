#include "actors/fabric/pty_log.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <system_error>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <caf/send.hpp>
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "actors/base/limits.hpp"
#include "actors/base/text.hpp"
#include "actors/base/unique_fd.hpp"
#include "actors/fabric/terminal_record.hpp"
#include "actors/runtime/defaults.hpp"
#include "actors/runtime/tree.hpp"

namespace fs = std::filesystem;

namespace swarm {

namespace {

constexpr auto record_name = "info";
constexpr std::chrono::hours clean_up_every{1};

[[noreturn]] void fail_io(const fs::path& p) { throw std::system_error(errno, std::generic_category(), p.string()); }

void write_all(int fd, std::string_view bytes, std::uint64_t at, const fs::path& p) {
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
    if (i->path().extension() != ".seg" || std::from_chars(stem.data(), stem.data() + stem.size(), offset, 16).ec != std::errc{})
      continue;
    if (auto size = fs::file_size(i->path(), ec); !ec)
      segments_.emplace(offset, size);
  }
}

std::uint64_t pty_log_files::end() const noexcept { return empty() ? 0 : segments_.rbegin()->first + segments_.rbegin()->second; }

fs::path pty_log_files::segment_path(std::uint64_t offset) const { return dir_ / fmt::format("{:016x}.seg", offset); }

void pty_log_files::append(std::uint64_t offset, std::string_view bytes) {
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
    write_all(fd.get(), bytes.substr(0, n), size, path);
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
  fs::remove(dir_ / record_name);
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
  auto bytes = info.SerializeAsString();
  auto fresh = dir / (std::string{record_name} + ".new");
  {
    unique_fd fd{open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600)};
    if (!fd)
      fail_io(fresh);
    write_all(fd.get(), bytes, 0, fresh);
  }
  fs::rename(fresh, dir / record_name);
}

std::optional<v1::PtyInfo> read_terminal_record(const fs::path& dir) {
  auto path = dir / record_name;
  unique_fd fd{open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW)};
  struct stat st = {};
  if (!fd || fstat(fd.get(), &st) != 0 || st.st_size > static_cast<off_t>(limits::terminal_record_bytes_max))
    return std::nullopt;
  std::string bytes(static_cast<std::size_t>(st.st_size), '\0');
  if (pread(fd.get(), bytes.data(), bytes.size(), 0) != st.st_size)
    return std::nullopt;
  return parse_terminal_record(bytes, dir.filename().string());
}

namespace {

using self_ptr = pty_log_actor::stateful_pointer<pty_log_state>;

pty_log_files& files_of(self_ptr self, const std::string& id) {
  auto& open = self->state.open;
  if (auto i = open.find(id); i != open.end())
    return i->second;
  if (open.size() >= limits::pty_logs_open_max)
    open.erase(open.begin());
  return open.emplace(id, pty_log_files{self->state.node->facts.dir.pty_dir() / id}).first->second;
}

std::vector<pty_info_ptr> ended_terminals(self_ptr self) {
  std::vector<std::pair<fs::file_time_type, fs::path>> kept;
  std::error_code ec;
  for (fs::directory_iterator i{self->state.node->facts.dir.pty_dir(), ec}, last; !ec && i != last; i.increment(ec)) {
    std::error_code none;
    if (auto at = fs::last_write_time(i->path() / record_name, none); !none)
      kept.emplace_back(at, i->path());
  }
  std::sort(kept.begin(), kept.end());
  if (auto n = limits::ended_terminals_max(); kept.size() > n)
    kept.erase(kept.begin(), kept.end() - static_cast<std::ptrdiff_t>(n));
  std::vector<pty_info_ptr> out;
  for (const auto& [at, dir] : kept) {
    auto info = read_terminal_record(dir);
    if (!info)
      continue;
    pty_log_files files{dir};
    info->set_running(false);
    info->set_start(files.start());
    info->set_end(files.end());
    out.push_back(std::make_shared<const v1::PtyInfo>(std::move(*info)));
  }
  return out;
}

void clean_up(self_ptr self) {
  auto oldest = fs::file_time_type::clock::now() - limits::pty_retention();
  std::error_code ec;
  for (fs::directory_iterator i{self->state.node->facts.dir.pty_dir(), ec}, last; !ec && i != last; i.increment(ec)) {
    fs::file_time_type newest = fs::file_time_type::min();
    std::error_code inner;
    for (fs::directory_iterator f{i->path(), inner}, end; !inner && f != end; f.increment(inner))
      newest = std::max(newest, f->last_write_time(inner));
    if (!inner && newest < oldest) {
      self->state.open.erase(i->path().filename().string());
      fs::remove_all(i->path(), inner);
    }
  }
}

} // namespace

pty_log_actor::behavior_type pty_log(self_ptr self, node_context_ptr node) {
  runtime::install_defaults(self);
  self->state.node = std::move(node);
  self->delayed_send(self, clean_up_every, tick_atom_v);
  return {
    [self](log_atom, const log_slice_ptr& s) {
      if (!is_plain_name(s->id))
        return;
      try {
        auto& files = files_of(self, s->id);
        if (s->fresh)
          files.clear();
        files.append(s->offset, s->bytes);
      } catch (const std::exception& e) {
        // Output that cannot be kept becomes a gap; the program and its readers go on.
        spdlog::warn("terminal {}: output at {} is not kept: {}", s->id, s->offset, e.what());
        self->state.open.erase(s->id);
      }
    },
    [self](log_atom, const std::string& id, std::uint64_t from, std::uint64_t max) -> caf::result<log_slice_ptr> {
      if (!is_plain_name(id))
        return fail(errc::not_found, "no terminal " + id);
      auto out = std::make_shared<log_slice>();
      out->id = id;
      try {
        auto& files = files_of(self, id);
        if (files.empty())
          return fail(errc::not_found, "nothing is kept of terminal " + id);
        out->offset = files.read(from, std::min<std::uint64_t>(max, limits::pty_chunk_bytes_max), out->bytes);
        out->start = files.start();
        out->end = files.end();
      } catch (const std::exception& e) {
        self->state.open.erase(id);
        return fail(errc::store_failed, e.what());
      }
      return log_slice_ptr{out};
    },
    [self](log_atom, const pty_info_ptr& ended) {
      try {
        if (is_plain_name(ended->id()))
          write_terminal_record(self->state.node->facts.dir.pty_dir() / ended->id(), *ended);
      } catch (const std::exception& e) {
        spdlog::warn("terminal {}: its end is not kept: {}", ended->id(), e.what());
      }
    },
    [self](list_atom) { return ended_terminals(self); },
    [self](tick_atom) {
      clean_up(self);
      self->delayed_send(self, clean_up_every, tick_atom_v);
    },
    [self](tree_atom) { return std::vector{runtime::self_row(self, "up")}; },
  };
}

} // namespace swarm
