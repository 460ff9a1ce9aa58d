// swarmd's end of the keeper: finds or starts it, sends without blocking, reports on a thread of its own.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "actors/base/limits.hpp"
#include "actors/base/paths.hpp"
#include "actors/base/ring.hpp"
#include "services/keeper/connect.hpp"
#include "services/keeper/frame_stream.hpp"
#include "swarm/internal/keeper.pb.h"

namespace swarm {

/// A child as the keeper had it when we attached.
struct keeper_child {
  std::string id;
  std::uint32_t attempt = 0;
  std::int64_t pid = 0;
  std::uint64_t pid_start = 0;
  bool at_gate = false; // it waits for open_gate or abort
  bool exited = false;
  int exit_status = 0;
  int signal = 0; // what ended it, 0 when it exited by itself
  std::int64_t duration_ms = 0;
  std::uint64_t end = 0;
  bool ended_on_request = false; // not by itself: its status is not its verdict
  std::shared_ptr<const ring_reader> ring;
  std::vector<std::pair<std::string, std::uint64_t>> inputs; // taken: their requests and sizes, oldest first
};

struct keeper_exit {
  std::string id;
  std::uint32_t attempt = 0;
  int exit_status = 0;
  int signal = 0;
  std::int64_t duration_ms = 0;
  std::uint64_t end = 0; // everything written before the exit is in the ring up to here; dying descendants may add to it
  bool ended_on_request = false;
};

/// What the keeper reports. Called on the client's I/O thread, one at a time: return quickly, throw nothing, and do not destroy
/// the client from here. Until welcome has been called nothing else but disconnected is.
class keeper_events {
public:
  virtual ~keeper_events() = default;
  virtual void welcome(std::int64_t keeper_pid, std::vector<keeper_child> children) = 0;
  /// Also the answer to a start that was repeated, then possibly for a child that runs already; opening the gate again is harmless.
  virtual void at_gate(const std::string& id, std::uint32_t attempt, std::int64_t pid, std::uint64_t pid_start,
                       std::shared_ptr<const ring_reader> ring) = 0;
  virtual void start_failed(const std::string& id, std::uint32_t attempt, const std::string& text) = 0;
  virtual void output_advanced(const std::string& id, std::uint64_t end) = 0;
  virtual void exited(const keeper_exit&) = 0;
  /// `bytes` 0 and not `closed`: refused, too much input waits. `closed`: the program takes no input any more.
  virtual void input_accepted(const std::string& id, std::uint64_t ticket, std::uint64_t bytes, bool closed) = 0;
  /// The last call. Whether to attach again is the owner's decision.
  virtual void disconnected(const std::string& reason) = 0;
};

struct keeper_client_options {
  state_dir dir;
  /// False: attach to a running keeper or fail.
  bool may_start = true;
  /// For all of connecting and starting.
  std::chrono::milliseconds deadline = limits::keeper_start_deadline();
  /// Empty: swarm-keeper in the directory of the running executable.
  std::filesystem::path program;
  /// True: programs wait until their output is taken; see output_taken().
  bool takes_output = false;
  /// Asked with the process of the keeper that was found or started: why it is not to be talked to; empty = it is. Null: any will do.
  std::function<std::string(const keeper::pinned_process&)> objection = {};
};

class keeper_client {
public:
  /// Blocks up to the deadline. Throws std::runtime_error with a text for the user when there is no keeper to talk to. The events
  /// must outlive the client.
  keeper_client(const keeper_client_options&, keeper_events&);
  /// Ends the I/O thread; the keeper and its children stay. disconnected() is not called for this.
  ~keeper_client();
  keeper_client(const keeper_client&) = delete;
  keeper_client& operator=(const keeper_client&) = delete;

  // Thread-safe, never blocking. False: disconnected, too large, or (start, write) limits::keeper_queue_bytes_max() wait already;
  // nothing was sent.

  /// False from the moment on in which `disconnected` is about to be told.
  bool connected() const;
  /// Repeatable: the same id and attempt answer with the child that exists.
  bool start(const internal::StartChild&);
  bool open_gate(const std::string& id);
  /// Ends a child that waits at its gate; it is then reported as exited by signal 9.
  bool abort(const std::string& id);
  /// At most limits::pty_input_bytes_max. With pipes, no bytes end the program's stdin. The next client that attaches is told of the request.
  bool write(const std::string& id, std::uint64_t ticket, std::string_view bytes, const std::string& request = {});
  bool resize(const std::string& id, std::uint32_t columns, std::uint32_t rows);
  /// To the whole subtree. Signal 0: hang up and terminate, then kill after the grace.
  bool kill(const std::string& id, int signal, std::chrono::milliseconds grace = limits::kill_grace());
  /// Output up to here is kept elsewhere. A keeper of before this was known is not told.
  bool output_taken(const std::string& id, std::uint32_t attempt, std::uint64_t end);
  /// The exit status is committed: the keeper drops it and the ring.
  bool forget(const std::string& id);
  /// Ends every child, then the keeper.
  bool quit(std::chrono::milliseconds grace = limits::kill_grace());

private:
  /// Input and starts obey the queue's bound; what ends, opens or forgets a child is small, rare and must not be lost to it.
  bool send(const internal::ToKeeper&, bool bounded = false);
  void run();
  bool turn(std::string& reason);
  bool flush(std::string& reason);
  bool receive(std::string& reason);
  void handle(const internal::FromKeeper&);
  std::shared_ptr<const ring_reader> take_ring();

  keeper_events& events_;
  unique_fd wake_;
  unique_fd epoll_;
  keeper::frame_stream stream_; // the I/O thread's
  bool waits_to_write_ = false; // likewise
  mutable std::mutex mutex_;
  std::vector<std::string> outgoing_; // guarded by mutex_
  std::size_t outgoing_bytes_ = 0;    // guarded by mutex_; what is in stream_ included
  bool connected_ = true;             // guarded by mutex_
  std::atomic<bool> stopping_{false};
  std::atomic<bool> holds_output_{false}; // the keeper does
  std::int64_t keeper_pid_ = 0;
  std::vector<keeper_child> listed_;
  std::thread thread_;
};

} // namespace swarm
