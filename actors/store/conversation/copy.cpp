#include "actors/store/conversation/copy.hpp"

#include <optional>
#include <vector>

#include "actors/base/limits.hpp"
#include "actors/base/text.hpp"

namespace fs = std::filesystem;

namespace swarm {

namespace {

constexpr std::size_t piece_bytes = 1 * limits::mib;
/// A conversation's directory holds its log and, one level below, its blobs.
constexpr int levels_max = 2;

disk_failure not_copied(const fs::path& what, std::error_code why) { return failed_to(concat({what.string(), " cannot be copied"}), why); }

/// So many bytes as the file has now; nullopt = there is no such file any more.
or_failure<std::optional<std::uint64_t>> copy_file(disk& d, const fs::path& from, const fs::path& to) {
  auto source = d.open(from, disk::how::read);
  if (!source && source.failure() == std::errc::no_such_file_or_directory)
    return std::optional<std::uint64_t>{};
  if (!source)
    return not_copied(from, source.failure());
  const auto size = (*source)->size();
  if (!size)
    return not_copied(from, size.failure());
  auto target = d.open(to, disk::how::make);
  if (!target)
    return not_copied(to, target.failure());
  std::vector<char> piece(piece_bytes);
  std::uint64_t done = 0;
  while (done < *size) {
    const auto wanted = std::min<std::uint64_t>(piece.size(), *size - done);
    const auto got = (*source)->read_at(done, {piece.data(), static_cast<std::size_t>(wanted)});
    if (!got)
      return not_copied(from, got.failure());
    if (*got == 0)
      break; // it was cut meanwhile
    if (auto failed = (*target)->write_at(done, {piece.data(), *got}))
      return not_copied(to, failed);
    done += *got;
  }
  if (auto failed = (*target)->sync())
    return not_copied(to, failed);
  return std::optional{done};
}

std::optional<disk_failure> copy_directory(disk& d, const fs::path& from, const fs::path& to, int levels, copied_conversations& sum) {
  const auto names = d.list(from);
  if (!names)
    return names.failure() == std::errc::no_such_file_or_directory ? std::nullopt : std::optional{not_copied(from, names.failure())};
  if (auto failed = d.make_directory(to))
    return not_copied(to, failed);
  for (const auto& name : *names) {
    std::error_code ec;
    const auto kind = fs::symlink_status(from / name, ec).type();
    if (kind == fs::file_type::directory && levels > 0) {
      if (auto failed = copy_directory(d, from / name, to / name, levels - 1, sum))
        return failed;
    } else if (kind == fs::file_type::regular) {
      auto bytes = copy_file(d, from / name, to / name);
      if (!bytes)
        return bytes.failure();
      sum.bytes += bytes->value_or(0);
    }
  }
  if (auto failed = d.sync_directory(to))
    return not_copied(to, failed);
  return std::nullopt;
}

} // namespace

fs::path conversations_of(const state_dir& dir) { return dir.root / "conversations"; }
fs::path conversations_beside(const fs::path& backup) { return backup.string() + ".conversations"; }

or_failure<copied_conversations> copy_conversations(disk& d, const fs::path& from, const fs::path& to) {
  if (std::error_code ec; fs::exists(fs::symlink_status(to, ec)))
    return not_copied(to, std::make_error_code(std::errc::file_exists));
  copied_conversations sum;
  if (auto failed = d.make_directory(to))
    return not_copied(to, failed);
  const auto ids = d.list(from);
  if (!ids && ids.failure() != std::errc::no_such_file_or_directory)
    return not_copied(from, ids.failure());
  for (const auto& id : ids ? *ids : std::vector<std::string>{}) {
    std::error_code ec;
    if (fs::symlink_status(from / id, ec).type() != fs::file_type::directory)
      continue;
    if (auto failed = copy_directory(d, from / id, to / id, levels_max, sum))
      return *failed;
    ++sum.conversations;
  }
  if (auto failed = d.sync_directory(to))
    return not_copied(to, failed);
  return sum;
}

} // namespace swarm
