#include "actors/base/stopped_mark.hpp"

#include <fstream>
#include <string>

#include "actors/base/atomic_file.hpp"

namespace swarm {

namespace {

constexpr const char* ended = "stopped by swarmctl down; swarmctl up starts it again\n";
constexpr const char* paused = "stopped by swarmctl down, its programs go on; swarmctl up starts it again\n";

} // namespace

std::optional<stopped_mark> read_stopped_mark(const state_dir& dir) {
  std::error_code ec;
  if (!std::filesystem::exists(dir.stopped_mark(), ec))
    return std::nullopt;
  std::ifstream in{dir.stopped_mark()};
  std::string line;
  std::getline(in, line);
  return stopped_mark{line + "\n" == paused};
}

std::error_code write_stopped_mark(const state_dir& dir, stopped_mark mark) {
  return replace_file(dir.stopped_mark(), mark.programs_go_on ? paused : ended);
}

} // namespace swarm
