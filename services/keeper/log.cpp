#include "services/keeper/log.hpp"

#include <cstdio>
#include <ctime>
#include <string>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "actors/base/limits.hpp"
#include "actors/base/text.hpp"
#include "actors/base/unique_fd.hpp"

namespace swarm::keeper {

namespace {

std::string stamp(std::int64_t unix_ms) {
  auto seconds = static_cast<std::time_t>(unix_ms / 1000);
  std::tm t{};
  gmtime_r(&seconds, &t);
  char text[32];
  auto n = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ ", &t);
  return {text, n};
}

} // namespace

bool log_file::open_as_stdio() {
  unique_fd fd{open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600)};
  return fd && dup2(fd.get(), STDOUT_FILENO) >= 0 && dup2(fd.get(), STDERR_FILENO) >= 0;
}

void log_file::line(std::string_view text) {
  auto out = stamp(clock_.unix_ms()) + escape_control(utf8_prefix(text, limits::keeper_log_line_bytes_max), false) + '\n';
  // A full disk must not stop the keeper: a line that cannot be written is lost.
  [[maybe_unused]] auto n = write(STDERR_FILENO, out.data(), out.size());
  struct stat st {};
  if (fstat(STDERR_FILENO, &st) != 0 || !S_ISREG(st.st_mode) || static_cast<std::size_t>(st.st_size) < limits::keeper_log_bytes_max())
    return;
  auto aside = path_;
  aside += ".1";
  if (std::rename(path_.c_str(), aside.c_str()) == 0)
    open_as_stdio();
}

} // namespace swarm::keeper
