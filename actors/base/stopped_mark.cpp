#include "actors/base/stopped_mark.hpp"

#include <cerrno>
#include <fstream>
#include <string>

#include <fcntl.h>
#include <sys/stat.h>

#include "actors/base/atomic_file.hpp"
#include "actors/base/unique_fd.hpp"

namespace swarm {

namespace {

constexpr const char* ended = "stopped by swarmctl down; swarmctl up starts it again\n";
constexpr const char* paused = "stopped by swarmctl down, its programs go on; swarmctl up starts it again\n";

// On a full disk the mark is empty, which takes no space: then its mode says what its text would.
constexpr mode_t mode_of_ended = 0600, mode_of_paused = 0400;

} // namespace

std::optional<stopped_mark> read_stopped_mark(const state_dir& dir) {
  std::error_code ec;
  if (!std::filesystem::exists(dir.stopped_mark(), ec))
    return std::nullopt;
  std::ifstream in{dir.stopped_mark()};
  std::string line;
  std::getline(in, line);
  struct stat info {};
  const bool is_empty = stat(dir.stopped_mark().c_str(), &info) == 0 && info.st_size == 0;
  return stopped_mark{is_empty ? (info.st_mode & 0777) == mode_of_paused : line + "\n" == paused};
}

std::error_code write_stopped_mark(const state_dir& dir, stopped_mark mark) {
  auto error = replace_file(dir.stopped_mark(), mark.programs_go_on ? paused : ended);
  if (error != std::errc::no_space_on_device && error.value() != EDQUOT)
    return error;
  unlink(dir.stopped_mark().c_str()); // its mode may forbid to write it
  unique_fd empty{open(dir.stopped_mark().c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600)};
  if (!empty || fchmod(empty.get(), mark.programs_go_on ? mode_of_paused : mode_of_ended) != 0)
    return {errno, std::generic_category()};
  return {};
}

} // namespace swarm
