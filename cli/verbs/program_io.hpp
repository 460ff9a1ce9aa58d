// The input and the output of a worker that this command has dispatched: what it prints comes out here as it comes, and what comes in here is its
// input.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "cli/invocation.hpp"
#include "cli/verbs/output_filter.hpp"

namespace swarm::cli {

/// Something comes in on standard input that somebody has put there: a pipe, or a file with something left in it. A terminal, /dev/null and an
/// inherited socket are not.
bool has_standard_input();

/// How whatever is printed goes around a line that is being drawn.
using printing = std::function<void(const std::function<void()>&)>;

class program_io {
public:
  struct options {
    output_filter::target target = output_filter::target::text;
    bool forward_input = false;
    printing around;
  };
  program_io(invocation&, std::string pty_id, options);
  /// Ends both directions at once.
  ~program_io();
  program_io(const program_io&) = delete;
  program_io& operator=(const program_io&) = delete;

  /// After the program's end: returns when all of its output is printed, or is not to be had in time. False then; `printed` tells whether a part was.
  bool finish();
  bool printed() const noexcept { return printed_; }
  /// How many bytes at its beginning were no longer kept.
  std::uint64_t lost() const noexcept { return lost_; }

private:
  void carry_output();
  void carry_input();
  void print(const std::string&);

  invocation& cli_;
  const std::string id_;
  const options options_;
  output_filter filter_;
  std::unique_ptr<node_line> reading_, writing_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<bool> stopping_ = false;
  std::atomic<bool> printed_ = false;
  bool is_over_ = false; // the output's thread is; under the mutex
  // Of the output's thread until it is over.
  bool complete_ = false;
  std::uint64_t lost_ = 0;
  int stop_[2] = {-1, -1}; // a pipe that ends the wait for input
  std::thread output_, input_;
};

} // namespace swarm::cli
