// What flows between hosts while they are harmed: mail, events and the bytes of terminals. Each flow knows what was put in, and says what is
// wrong with what came out.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/fault/fault_world.hpp"
#include "tests/fault/host_world.hpp"

namespace swarm::testing {

/// A session of one host sends numbered messages to one of another, which takes them as they come: each once, in order, none missing.
class mail_flow {
public:
  mail_flow(const host_world&, history::recorder&, std::size_t from, std::size_t to);
  ~mail_flow();
  /// Stops sending, waits for the rest. Empty, or what is wrong.
  std::string finish();
  std::size_t messages() const { return sent_; }

private:
  void send_all();
  void take_all();
  const std::string name_;
  history::recorder& history_;
  fault_client sender_;
  fault_client recipient_;
  std::atomic<bool> stop_{false};
  std::atomic<bool> over_{false}; // nothing more will be sent
  std::atomic<std::size_t> sent_{0};
  std::atomic<std::size_t> taken_{0};
  std::vector<std::string> found_;
  std::string failed_;
  std::string failed_to_take_;
  std::thread sending_;
  std::thread taking_;
};

/// Somebody on a host follows all events of the shared scope, and goes on after the last one seen when the stream breaks.
class watch_flow {
public:
  watch_flow(const host_world&, std::size_t host);
  ~watch_flow();
  /// Waits until it has seen all that the home has. Empty, or what is wrong.
  std::string finish(const host_world&);
  std::size_t events() const;
  std::size_t breaks() const { return breaks_; }

private:
  using seen = std::map<std::uint64_t, std::string>; // by revision
  void follow();
  /// One stream, to its end. False: it said that something is wrong.
  static bool read(node_client&, grpc::ClientContext&, seen& into, std::mutex&, bool to_now, std::string& wrong);
  const std::string name_;
  node_client client_;
  std::atomic<bool> stop_{false};
  mutable std::mutex mutex_;
  grpc::ClientContext* current_ = nullptr;
  seen seen_;
  std::string wrong_;
  std::atomic<std::size_t> breaks_{0};
  std::thread thread_;
};

/// A terminal on one host; somebody on a second types numbered lines into it, somebody on a third reads what comes out: the same, in
/// order, minus announced gaps.
class terminal_flow {
public:
  terminal_flow(const host_world&, std::size_t on, std::size_t typed_on, std::size_t read_on);
  ~terminal_flow();
  std::string finish();
  std::size_t lines() const { return lines_; }
  std::uint64_t bytes() const { return bytes_; }
  std::uint64_t gaps() const { return gaps_; }
  std::size_t breaks() const { return breaks_; }

private:
  void type_all();
  /// One terminal; false when there is nothing more to do.
  bool type_one();
  void read_one(const std::string& id);
  bool keeper_is_gone() const { return world_.keeper_kills(on_) != keepers_; }
  const host_world& world_;
  const std::size_t on_;
  const std::string name_;
  node_client maker_;
  node_client typist_;
  node_client reader_;
  std::atomic<bool> stop_{false};
  std::atomic<bool> all_typed_{false};
  unsigned keepers_ = 0; // killed before the terminal was made
  mutable std::mutex mutex_;
  std::string typed_; // all that was sent to this terminal, also what is not acknowledged yet
  std::string wrong_;
  std::size_t lines_ = 0;
  std::atomic<std::uint64_t> bytes_{0};
  std::atomic<std::uint64_t> gaps_{0};
  std::atomic<std::size_t> breaks_{0};
  std::thread typing_;
};

/// A program on one host writes far more than is kept of a terminal, and somebody on another one reads along: each byte that comes is the one
/// that was written there, and all others are reported as lost.
class flood_flow {
public:
  flood_flow(const host_world&, std::size_t on, std::size_t read_on);
  ~flood_flow();
  /// Waits for the end of the program. Empty, or what is wrong.
  std::string finish();
  std::uint64_t bytes() const { return bytes_; }
  std::uint64_t gaps() const { return gaps_; }

private:
  void flood();
  /// False: lost with its keeper.
  bool flood_once();
  /// All of it from the beginning, to the end of the program. False: lost with its keeper.
  bool read_all(const std::string& id);
  bool read_on(const std::string& id, std::uint64_t& at, bool& ended);
  bool keeper_is_gone() const { return world_.keeper_kills(on_) != keepers_; }
  const host_world& world_;
  const std::size_t on_;
  const std::string name_;
  node_client maker_;
  node_client reader_;
  unsigned keepers_ = 0; // killed before the terminal was made
  std::atomic<bool> stop_{false};
  std::string wrong_;
  std::uint64_t bytes_ = 0;
  std::uint64_t gaps_ = 0;
  std::thread thread_;
};

} // namespace swarm::testing
