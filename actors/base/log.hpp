// The node's log. Nothing here is a template, and no header of the library behind it is included: a file that logs compiles as fast as one
// that does not.
#pragma once

#include <initializer_list>
#include <iosfwd>
#include <memory>
#include <string>

#include "actors/base/text.hpp"

namespace swarm::log {

// One line each, from any thread. The pieces follow one another as concat() joins them.
void debug(std::initializer_list<piece>);
void info(std::initializer_list<piece>);
void warn(std::initializer_list<piece>);
void error(std::initializer_list<piece>);
void critical(std::initializer_list<piece>);

struct destination {
  std::string file;       // rotated at limits::node_log_bytes_max
  bool to_stderr = false; // there as well
  bool verbose = false;   // debug() is written, too
};
/// Until then lines go to stdout. Throws std::exception when the file cannot be opened.
void open(const destination&);
/// What was logged before is in the file.
void flush();
/// Flushes, and ends the log: what is logged afterwards is dropped.
void close();

/// While it lives, everything that is logged goes into `out`.
class redirection {
public:
  explicit redirection(std::ostream& out);
  ~redirection();
  redirection(const redirection&) = delete;
  redirection& operator=(const redirection&) = delete;

private:
  struct earlier;
  std::unique_ptr<earlier> earlier_;
};

} // namespace swarm::log
