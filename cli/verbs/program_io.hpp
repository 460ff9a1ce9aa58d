// The input and output of a worker that this command has dispatched: its output is printed here as it arrives, and our standard input becomes
// its input.
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

/// Whether somebody has given us input: standard input is a pipe, a device, or a file with something left to read. A terminal, /dev/null and an
/// inherited socket do not count as input.
bool has_standard_input();
/// Whether that input can be read without waiting for it.
bool standard_input_is_waiting();

/// Runs a function that prints, so that its output does not mix with a line that is being drawn.
using printing = std::function<void(const std::function<void()>&)>;

class program_io {
public:
  struct options {
    output_filter::target target = output_filter::target::text;
    std::string input_of; // the task whose command gets our standard input; empty = none does
    printing around;
  };
  program_io(invocation&, std::string pty_id, options);
  /// Stops both directions without waiting for the program.
  ~program_io();
  program_io(const program_io&) = delete;
  program_io& operator=(const program_io&) = delete;

  enum class patience : std::uint8_t { bounded, with_reader };
  /// Call this after the program's end. Waits until all of its output is printed; returns false when that takes longer than
  /// limits::worker_output_patience, or the output cannot be read. printed() then tells whether a part of it was. `with_reader`: only the wait for
  /// the node is limited, not that for a slow reader of our own output; for a caller that a signal may end.
  bool finish(patience = patience::bounded);
  bool printed() const noexcept { return printed_; }
  /// What the program has got of our input.
  enum class input_state : std::uint8_t { passed, nothing, broken_off };
  /// Call this when nobody waits for the program any more. A program that has got nothing gets the end of its input.
  input_state stop_input();
  /// How many bytes of the output the node no longer kept.
  std::uint64_t lost() const noexcept { return lost_; }

private:
  void carry_output();
  void carry_input();
  void say_what_result_waits_for();
  void print(const std::string&);

  invocation& cli_;
  const std::string id_;
  const options options_;
  const std::string input_client_; // under which our input is sent
  output_filter filter_;
  std::unique_ptr<node_line> reading_, writing_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<bool> stopping_ = false;
  std::atomic<bool> printed_ = false;
  std::atomic<bool> input_begun_ = false;
  std::atomic<bool> input_is_over_ = false; // the program has got all of it, or takes no more
  bool is_over_ = false;                    // the output thread has ended; guarded by mutex_
  bool is_printing_ = false;                // guarded by mutex_
  std::uint64_t chunks_printed_ = 0;        // guarded by mutex_
  // Only the output thread uses these until is_over_.
  bool complete_ = false;
  std::atomic<std::uint64_t> lost_ = 0;
  int stop_[2] = {-1, -1}; // a pipe that ends the wait for input
  std::thread output_, input_;
};

} // namespace swarm::cli
