// The node's log. Nothing here is a template, and no header of the library behind it is included: a file that logs compiles as fast as one
// that does not.
#pragma once

#include <initializer_list>
#include <iosfwd>
#include <memory>
#include <string>

#include "actors/base/text.hpp"

namespace swarm::log {

// Each call writes one line; the pieces are joined as concat() joins them. Any thread may call them, but not during open(), close(), or the
// construction or destruction of a redirection.
void debug(std::initializer_list<piece>);
void info(std::initializer_list<piece>);
void warn(std::initializer_list<piece>);
void error(std::initializer_list<piece>);
void critical(std::initializer_list<piece>);

struct destination {
  std::string file;       // path; rotates at limits::node_log_bytes_max, limits::node_log_files_max older files are kept
  bool to_stderr = false; // also writes each line to stderr
  bool verbose = false;   // also writes the lines of debug()
};
/// Writes all further lines there; before the first call they go to stdout. Throws std::exception when the file cannot be opened.
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
