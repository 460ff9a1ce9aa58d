// The keeper's log file: lines with the time, bounded by moving it aside once (keeper.log.1). Never holds arguments, environments,
// input or output of programs.
#pragma once

#include <filesystem>
#include <string_view>

#include "actors/base/clock.hpp"

namespace swarm::keeper {

class log_file {
public:
  log_file(std::filesystem::path path, const clock_port& clock) : path_(std::move(path)), clock_(clock) {}

  /// Makes the file (0600) standard output and error. False when it cannot be opened.
  bool open_as_stdio();
  /// To standard error; control characters are escaped.
  void line(std::string_view text);

private:
  std::filesystem::path path_;
  const clock_port& clock_;
};

} // namespace swarm::keeper
