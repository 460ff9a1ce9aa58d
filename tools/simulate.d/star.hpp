// The home of a cluster and its members, each linked to it: the product's two ends of every link over a network of ours, with its latency,
// its bandwidth and hosts that vanish. What a node does around its link is done as actors/fabric/cluster/link does it.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <vector>

#include "actors/fabric/cluster/link_frames.hpp"
#include "actors/runtime/deadline_heap.hpp"
#include "actors/runtime/restarts.hpp"
#include "tools/simulate.d/schedule.hpp"

namespace swarm::simulate {

enum side : std::size_t { home = 0, member = 1 };

class star {
public:
  struct events {
    std::function<void(side, std::size_t node, const v1::LinkMessage&)> message;
    std::function<void(side, std::size_t node, bool resumed)> up;
    std::function<void(side, std::size_t node)> begun_anew;
    std::function<void(std::size_t node)> gone; // the home has not heard from it for limits::host_lease()
  };
  /// Frames and bytes by who sent them.
  struct traffic {
    std::array<std::uint64_t, 2> frames{}, bytes{}, messages{};
    std::uint64_t begun_anew = 0; // links, as the home saw it
    std::uint64_t refused = 0;    // messages that found no room
    std::uint64_t lost = 0;       // given up when a link was reset
    std::uint64_t stalled = 0;    // times a message of the home's had to wait for credit
    std::uint64_t dials = 0;
    std::size_t waiting_messages = 0, waiting_bytes = 0; // most of one link's at the home
    std::size_t waiting_bytes_together = 0;              // most of all of them, looked at every 100 ms
  };

  star(schedule&, const settings&, events);
  star(const star&) = delete;
  star& operator=(const star&) = delete;

  std::size_t nodes() const { return spokes_.size(); }
  static std::string node_id(std::size_t node);

  void dial(std::size_t node);
  /// Nothing: it is on its way, now or when the link is up.
  std::optional<errc> send(side, std::size_t node, link_message);
  /// Nothing that was sent before can be relied on.
  void begin_anew(std::size_t node);
  bool up(side s, std::size_t node) const { return spokes_[node].end[s]->up(); }

  /// The host stops without a word.
  void vanish(std::size_t node);
  /// It is started again, and dials until it gets through.
  void come_back(std::size_t node);
  /// The home ends and is started again after that long.
  void restart_home(micros away);
  /// It takes in no more than that.
  void slow_down(std::size_t node, std::int64_t bytes_per_second) { spokes_[node].bytes_per_second = bytes_per_second; }

  const traffic& totals() const { return totals_; }
  void forget_totals() { totals_ = {}; }
  const runtime::link_options& options(std::size_t node) const { return spokes_[node].end[home]->options(); }
  /// Of the processor, for what the home does with links: their protocol, encoding and decoding.
  std::int64_t home_ns = 0;

private:
  struct link_state {
    std::array<std::optional<federation_link>, 2> end;
    std::array<federation_link::connection, 2> connection{};
    std::array<std::uint64_t, 2> wire{}; // 0: that side knows of no connection
    std::array<bool, 2> writing{};
    std::array<std::int64_t, 2> timer_ms{}; // 0: none
    std::array<std::uint64_t, 2> queued{};  // messages of this side since it was made
    bool there = true;
    bool dialling = false;
    runtime::backoff redials;
    micros dialled = 0;
    std::uint64_t absence = 0; // counts them, so that an end of one is not mistaken for that of another
    std::int64_t bytes_per_second = 0;
    std::array<micros, 2> line_free{}; // its own line, by who sends
  };

  void start(side, std::size_t node);
  void pump(side, std::size_t node);
  void take_events(side, std::size_t node);
  void write(side from, std::size_t node, federation_link::frame);
  void arrive(side to, std::size_t node, std::uint64_t wire, federation_link::frame, const std::string& encoded);
  void detach(side, std::size_t node);
  void redial_later(std::size_t node);
  void arm(side, std::size_t node);
  void run_timers();
  void look_at_queues();
  micros carry(side from, link_state&, std::size_t bytes);

  schedule& time_;
  settings settings_;
  events events_;
  std::vector<link_state> spokes_;
  std::uint64_t wires_ = 0, incarnations_ = 0;
  bool home_there_ = true;
  std::array<micros, 2> home_line_free_{}; // by who sends
  runtime::deadline_heap<std::size_t> timers_;
  std::int64_t timers_ms_ = 0;
  traffic totals_;
};

} // namespace swarm::simulate
