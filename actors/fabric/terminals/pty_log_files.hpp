// Segment files of terminals: <state>/pty/<id>/<offset in hex>.seg, plus `started` while the program runs and `info` after its end, all 0600.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "swarm/v1/pty.pb.h"

namespace swarm {

/// One terminal's files. Blocking; used by the detached log actor and by tests. Throws std::filesystem::filesystem_error or
/// std::system_error when the disk refuses.
class pty_log_files {
public:
  /// Opens what exists below `dir`, strangers passed over; nothing is created before the first append.
  explicit pty_log_files(std::filesystem::path dir);

  /// Appends at `offset`; a hole before it stays a gap, what is already there is skipped.
  void append(std::uint64_t offset, std::string_view bytes);
  /// At most `max` bytes from the first kept offset >= `from`. Returns the offset of the first byte.
  std::uint64_t read(std::uint64_t from, std::size_t max, std::string& out) const;

  /// Deletes everything.
  void clear();

  bool empty() const noexcept { return segments_.empty(); }
  std::uint64_t start() const noexcept { return empty() ? 0 : segments_.begin()->first; }
  std::uint64_t end() const noexcept;

private:
  std::filesystem::path segment_path(std::uint64_t offset) const;
  void drop_oldest();

  std::filesystem::path dir_;
  std::map<std::uint64_t, std::uint64_t> segments_; // first offset → bytes
};

inline constexpr auto terminal_record_name = "info";
inline constexpr auto terminal_started_name = "started";

/// What is known of a terminal: in `dir`/started while its program runs, which outlasts the node but not a power cut; in `dir`/info once it has
/// ended. Throws like pty_log_files.
void write_terminal_record(const std::filesystem::path& dir, const v1::PtyInfo&);
/// Nothing if there is no readable record of that name.
std::optional<v1::PtyInfo> read_terminal_record(const std::filesystem::path& dir, const char* name = terminal_record_name);
/// The same from the file's bytes: nothing for bytes that are no record, or the record of another terminal.
std::optional<v1::PtyInfo> parse_terminal_record(std::string_view bytes, std::string_view id);
/// The terminal is listed no more; its output stays.
void remove_terminal_records(const std::filesystem::path& dir) noexcept;

} // namespace swarm
