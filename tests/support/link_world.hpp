// Two ends of a link and a network that loses connections, holds frames back and hands them over when their connection is long gone. What
// must hold of a link is checked at every step; what does not is thrown.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "actors/runtime/link_protocol.hpp"

namespace swarm::test {

/// A message that is known again; its bytes are only counted.
struct link_note {
  std::uint64_t serial = 0; // of its sender, over all of its runs
  std::size_t bytes = 0;
};

struct link_note_size {
  std::size_t operator()(const link_note& n) const { return n.bytes; }
};

using note_link = runtime::link_end<link_note, link_note_size>;

/// Small bounds, so that they are met.
inline runtime::link_options link_options_of(std::size_t side, std::uint64_t incarnation) {
  runtime::link_options o;
  o.cluster_id = "cluster";
  o.node_id = o.node_name = side == 0 ? "a" : "b";
  o.other_id = side == 0 ? "b" : "a";
  o.version = "0.1.0";
  o.incarnation = incarnation;
  o.message_bytes_max = 1'000;
  o.window_bytes = 3'000;
  o.outbox_messages_max = 8;
  o.outbox_bytes_max = 6'000;
  return o;
}

/// A value: it can be copied to go on from one state in several ways.
class link_world {
public:
  using change = std::function<void(std::size_t side, runtime::link_options&)>;
  /// `adapt` changes the options of every run.
  explicit link_world(change adapt = {}) : adapt_(std::move(adapt)) {
    for (std::size_t s = 0; s < 2; ++s)
      start(s);
  }

  // -- single steps; a step that cannot be made now is skipped -----------------------

  /// A new connection, to which this side already belongs.
  std::size_t dial(std::size_t s) {
    connections_.push_back({});
    attach(s, connections_.size() - 1);
    return connections_.size() - 1;
  }
  /// The other side belongs to it as well, and no more to the one before. What somebody wrote who is gone can still be read.
  void accept(std::size_t s, std::size_t c) {
    if (!connections_[c].id[s] && (!connections_[c].severed || !connections_[c].frames[1 - s].empty()))
      attach(s, c);
  }
  /// The side writes one frame.
  bool write(std::size_t s) {
    auto& me = sides_[s];
    if (!me.on || connections_[*me.on].severed || connections_[*me.on].frames[s].size() >= pipe_frames)
      return false;
    auto f = me.end->next_frame(id_of(s), now_);
    settle(s);
    if (f && me.on)
      connections_[*me.on].frames[s].push_back(std::move(*f));
    return f.has_value();
  }
  /// The side reads the next frame that the other one has written to this connection, be it gone or not.
  bool read(std::size_t s, std::size_t c) {
    auto& from = connections_[c].frames[1 - s];
    if (connections_[c].run[s] != sides_[s].run || from.empty())
      return false;
    auto f = std::move(from.front());
    from.pop_front();
    sides_[s].end->received(*connections_[c].id[s], std::move(f), now_);
    settle(s);
    return true;
  }
  std::optional<errc> send(std::size_t s, std::size_t bytes) {
    auto& me = sides_[s];
    auto refused = me.end->send({me.serial + 1, bytes});
    if (!refused) {
      me.pending.insert(++me.serial);
      ++sent;
    } else if (*refused == errc::invalid)
      holds(bytes > me.end->options().message_bytes_max, "only what is too large is invalid");
    settle(s);
    return refused;
  }
  void consume(std::size_t s) {
    auto& me = sides_[s];
    if (me.held.empty())
      return;
    me.end->consumed(me.held.front());
    me.held.pop_front();
    settle(s);
  }
  void pass(runtime::link_time t) { now_ += t; }
  void tick(std::size_t s) {
    if (auto at = sides_[s].end->next_deadline(); at && *at <= now_) {
      sides_[s].end->tick(now_);
      settle(s);
      auto next = sides_[s].end->next_deadline();
      holds(!next || *next > now_, "a deadline that was met is over");
    }
  }
  /// Some of what is on its way may still be read.
  void sever(std::size_t c, std::size_t first_kept, std::size_t second_kept) {
    auto& each = connections_[c];
    each.severed = true;
    each.frames[0].resize(std::min(each.frames[0].size(), first_kept));
    each.frames[1].resize(std::min(each.frames[1].size(), second_kept));
  }
  /// The side sees that its connection is gone.
  void notice(std::size_t s) {
    auto& me = sides_[s];
    if (!me.on || !connections_[*me.on].severed)
      return;
    me.end->disconnected(id_of(s));
    me.on.reset();
    settle(s);
  }
  void restart(std::size_t s) {
    start(s);
    ++restarts;
  }
  void forget(std::size_t s) {
    sides_[s].end->forget();
    settle(s);
  }

  // -- by chance ---------------------------------------------------------------------

  /// One step; `below(n)` is a number below n.
  template <class Below>
  void step(const Below& below) {
    std::size_t s = below(2);
    auto any = connections_.empty() ? 0 : below(static_cast<unsigned>(connections_.size()));
    auto what = below(256);
    if (what >= 252) { // of what is rare
      switch (below(8)) {
        case 0: restart(s); break;
        case 1: forget(s); break;
        case 2: frozen_[s] = !frozen_[s]; break;
        case 3: pass(std::chrono::seconds{below(60)}); break;
        default: pass(std::chrono::seconds{1 + below(5)});
      }
    } else if (what >= 247) {
      if (!connections_.empty())
        sever(any, below(5), below(5));
    } else if (frozen_[s])
      return;
    else if (what < 4) {
      dial(s);
      if (connections_.size() > 6)
        forget_oldest();
    } else if (what < 16) {
      if (!connections_.empty())
        accept(s, any);
    } else if (what < 26) {
      if (!connections_.empty())
        read(s, any); // also what is long out of date
    } else if (what < 90) {
      if (sides_[s].on)
        read(s, *sides_[s].on);
    } else if (what < 154)
      write(s);
    else if (what < 185)
      send(s, below(10) == 0 ? below(1'200) : below(100));
    else if (what < 210)
      consume(s);
    else if (what < 220)
      notice(s);
    else {
      pass(std::chrono::microseconds{below(4'000)});
      tick(s);
    }
  }

  // -- the end of all faults -----------------------------------------------------------

  /// Everything that was sent has arrived or was given up aloud, and all that is sent from now on arrives.
  void heal() {
    frozen_ = {};
    for (std::size_t c = 0; c < connections_.size(); ++c)
      sever(c, 2, 2);
    for (std::size_t s = 0; s < 2; ++s)
      notice(s);
    // Both dial at the same time. What an older connection still holds comes in between.
    auto first = dial(0);
    auto second = dial(1);
    for (std::size_t c = 0; c < connections_.size(); ++c)
      for (std::size_t s = 0; s < 2; ++s)
        while (c != first && read(s, c))
          ;
    for (auto dialler : {0u, 1u}) {
      auto stays = runtime::which_connection_stays("a", "b", dialler == 0);
      holds(stays == (dialler == 0) && stays == runtime::which_connection_stays("b", "a", dialler == 1), "both keep the same connection");
    }
    accept(1, first);
    sever(second, 0, 0);
    run();
    check_settled();
    auto before = announced;
    for (std::size_t s = 0; s < 2; ++s)
      for (auto bytes : {std::size_t{0}, sides_[s].end->options().message_bytes_max, std::size_t{7}}) {
        holds(!send(s, bytes), "an empty queue takes messages");
        run();
      }
    check_settled();
    holds(announced == before, "a healthy link does not start over");
    for (auto& me : sides_)
      holds(me.end->round_trip().has_value(), "the time there and back is known");
  }

  std::size_t sent = 0, delivered = 0, lost = 0, announced = 0, restarts = 0, resumed = 0, silent = 0;
  const runtime::link_counters& counters(std::size_t s) const { return sides_[s].end->counters(); }
  note_link& end(std::size_t s) { return *sides_[s].end; }

  static void holds(bool what, const char* text) {
    if (!what)
      throw std::logic_error(std::string{"broken: "} + text);
  }

private:
  static constexpr std::size_t pipe_frames = 4;

  struct wire {
    std::array<std::optional<note_link::connection>, 2> id; // of each side
    std::array<std::uint64_t, 2> run{};                     // that it belongs to
    std::array<std::deque<note_link::frame>, 2> frames;     // by each side
    std::array<std::optional<bool>, 2> resumed;             // what each side made of the hellos
    bool severed = false;
  };

  struct one_side {
    std::optional<note_link> end;
    std::uint64_t run = 0;
    std::optional<std::size_t> on;   // its connection
    std::uint64_t serial = 0;        // of its last message
    std::set<std::uint64_t> pending; // of this run: neither arrived nor given up
    std::uint64_t heard = 0;         // last serial of the other side
    std::deque<std::size_t> held;    // delivered, not consumed
  };

  note_link::connection id_of(std::size_t s) const { return *connections_[*sides_[s].on].id[s]; }

  void start(std::size_t s) {
    auto options = link_options_of(s, ++incarnations_);
    if (adapt_)
      adapt_(s, options);
    auto& me = sides_[s];
    for (auto& c : connections_)
      c.severed = c.severed || c.id[s];
    me.end.emplace(options);
    me.run = incarnations_;
    me.on.reset();
    me.pending.clear();
    me.held.clear();
  }

  void attach(std::size_t s, std::size_t c) {
    if (auto old = sides_[s].on)
      connections_[*old].severed = true;
    sides_[s].on = c;
    connections_[c].run[s] = sides_[s].run;
    connections_[c].id[s] = sides_[s].end->connected(now_, 1);
    settle(s);
  }

  void forget_oldest() {
    for (auto& me : sides_) {
      if (me.on == 0u)
        me.end->disconnected(*connections_[0].id[&me == &sides_[0] ? 0 : 1]);
      me.on = me.on && *me.on > 0 ? std::optional{*me.on - 1} : std::nullopt;
    }
    connections_.erase(connections_.begin());
  }

  void take_lost(std::size_t s, const std::vector<link_note>& notes) {
    ++announced;
    for (const auto& n : notes)
      sides_[s].pending.erase(n.serial);
    lost += notes.size();
    // What has arrived and was not acknowledged is among them; nothing else is missing afterwards.
    holds(sides_[s].pending.empty(), "a message that was lost is given back");
  }

  void settle(std::size_t s) {
    auto& me = sides_[s];
    for (auto& e : me.end->take_events()) {
      if (auto* note = std::get_if<runtime::link_delivery<link_note>>(&e))
        deliver(s, *note);
      else if (auto* over = std::get_if<runtime::link_begun_anew<link_note>>(&e))
        take_lost(s, over->lost);
      else if (auto* up = std::get_if<runtime::link_up>(&e))
        agree(s, *up);
      else
        drop(s, std::get<runtime::link_dropped>(e));
    }
    const auto& o = me.end->options();
    std::size_t held = 0;
    for (auto cost : me.held)
      held += cost;
    holds(held == me.end->unconsumed_bytes() && held <= o.window_bytes, "no more is taken in than the window holds");
    holds(me.end->waiting_messages() <= o.outbox_messages_max && me.end->waiting_bytes() <= o.outbox_bytes_max, "no more waits than may");
  }

  void deliver(std::size_t s, const runtime::link_delivery<link_note>& d) {
    auto& me = sides_[s];
    auto& other = sides_[1 - s];
    holds(d.message.serial > me.heard, "a message comes once, and in order");
    me.heard = d.message.serial;
    me.held.push_back(d.cost);
    auto first = other.pending.begin();
    holds(first == other.pending.end() || *first >= d.message.serial, "no message is left out");
    other.pending.erase(d.message.serial);
    ++delivered;
  }

  void agree(std::size_t s, const runtime::link_up& up) {
    auto& c = connections_[*sides_[s].on];
    c.resumed[s] = up.resumed;
    holds(!c.resumed[1 - s] || *c.resumed[1 - s] == up.resumed, "both go on, or both start over");
    resumed += up.resumed ? 1 : 0;
  }

  void drop(std::size_t s, const runtime::link_dropped& d) {
    auto reason = d.why.reason;
    if (reason != runtime::link_reason::silent && reason != runtime::link_reason::going)
      throw std::logic_error("broken: an end closes with " + std::to_string(static_cast<int>(reason)) + ", " + d.why.text);
    silent += reason == runtime::link_reason::silent ? 1 : 0;
    auto c = *sides_[s].on;
    auto written = 0;
    while (!d.by_other && !connections_[c].severed) {
      auto f = sides_[s].end->next_frame(id_of(s), now_);
      if (!f)
        break;
      connections_[c].frames[s].push_back(std::move(*f));
      holds(++written <= 2, "a hello and a close at most come after the end");
    }
    connections_[c].severed = true;
    sides_[s].end->disconnected(id_of(s));
    sides_[s].on.reset();
  }

  /// Until nothing moves any more.
  void run() {
    for (int rounds = 0, idle = 0; idle < 12; ++rounds, ++idle) { // an acknowledgement is never that late
      holds(rounds < 2'000, "it comes to rest");
      for (std::size_t s = 0; s < 2; ++s) {
        while (write(s))
          idle = 0;
        while (!sides_[s].held.empty())
          consume(s);
        holds(sides_[s].on.has_value(), "a healthy connection stays");
      }
      for (std::size_t s = 0; s < 2; ++s)
        while (read(s, *sides_[s].on))
          idle = 0;
      pass(std::chrono::milliseconds{1});
      for (std::size_t s = 0; s < 2; ++s)
        tick(s);
    }
  }

  void check_settled() {
    for (auto& me : sides_) {
      holds(me.end->up(), "both ends are up");
      holds(me.end->waiting_messages() == 0 && me.end->waiting_bytes() == 0, "everything was acknowledged");
      holds(me.pending.empty(), "everything has arrived, or was given up aloud");
      holds(me.end->unconsumed_bytes() == 0, "everything was dealt with");
    }
  }

  change adapt_;
  runtime::link_time now_{1'000'000};
  std::uint64_t incarnations_ = 100;
  std::array<one_side, 2> sides_;
  std::vector<wire> connections_;
  std::array<bool, 2> frozen_{};
};

} // namespace swarm::test
