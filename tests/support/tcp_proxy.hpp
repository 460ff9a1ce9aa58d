// A TCP proxy between two programs that behaves as badly as a network may, and as it is told while it runs. One thread; what is left to
// chance comes from the seed.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <list>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "actors/base/unique_fd.hpp"

struct pollfd;

namespace swarm::testing {

/// What happens to the bytes of one direction.
struct proxy_way {
  std::chrono::milliseconds delay_least{0}; // of each piece; pieces stay in order
  std::chrono::milliseconds delay_most{0};
  std::size_t slice_most = 0; // pieces of 1 to so many bytes, each written by itself; 0: as they come
  double stall_chance = 0;    // that a piece, and all behind it, is late by `stall`, as after a lost segment
  std::chrono::milliseconds stall{200};
  double reset_chance = 0; // that the connection ends with a piece: both ends are reset
  enum { pass, hold, drop } fate = pass;
};

class tcp_proxy {
public:
  /// As seen by the one who connects.
  enum direction : std::size_t { to_server, to_client };
  struct counts {
    std::uint64_t accepted = 0;
    std::uint64_t refused = 0;            // reset as soon as they came
    std::uint64_t resets = 0;             // by chance, by an end, by reset_all(), or because bytes of theirs were dropped
    std::uint64_t stalls = 0;             // by chance
    std::uint64_t writes = 0;             // of pieces
    std::array<std::uint64_t, 2> bytes{}; // passed on, by direction
    std::uint64_t dropped = 0;            // bytes
  };

  /// Listens at an IPv4 address (port 0: any) and calls the server for each who connects. Both in the network namespace of the thread that
  /// makes it. Throws when it cannot listen.
  tcp_proxy(const std::string& listen_host, int listen_port, const std::string& server_host, int server_port, unsigned seed);
  ~tcp_proxy();
  tcp_proxy(const tcp_proxy&) = delete;
  tcp_proxy& operator=(const tcp_proxy&) = delete;

  int port() const { return port_; }
  counts so_far() const;
  std::size_t connections() const;

  /// From now on, for all connections. Bytes that are held are neither lost nor passed on. A connection of which bytes were dropped is
  /// reset when its direction passes again, as one whose sender has given up; until then both ends keep it.
  void set(direction, const proxy_way&);
  void set_both(const proxy_way&);
  /// Who connects is reset at once.
  void refuse(bool);
  /// Of those who connect from now on, the next `let_in` pass and the one after them is reset at once.
  void refuse_one_after(std::size_t let_in);
  void reset_all();
  /// One end of every connection is reset, and the other is never told: what that one sends is swallowed.
  void leave_half_open(direction told);
  /// Everything passes plainly again. Those half open stay so.
  void heal();

private:
  struct pipe;
  struct connection;
  using steady = std::chrono::steady_clock;
  void run();
  int prepare(std::vector<pollfd>&, steady::time_point now) const;
  void accept_all();
  void call_server(connection&);
  void pump(connection&, steady::time_point now);
  void take(connection&, direction, steady::time_point now);
  void give(connection&, direction, steady::time_point now);
  void reset(connection&);
  void apply(direction, const proxy_way&);
  void wake() const;

  unique_fd listener_;
  unique_fd wakeup_;
  int port_ = 0;
  std::array<std::uint8_t, 16> server_{}; // a sockaddr_in
  mutable std::mutex mutex_;
  std::mt19937 rng_;
  std::array<proxy_way, 2> ways_;
  bool refusing_ = false;
  std::optional<std::size_t> let_in_; // before one is refused
  bool stopping_ = false;
  counts counts_;
  std::list<connection> open_;
  std::thread thread_;
};

} // namespace swarm::testing
