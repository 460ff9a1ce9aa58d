#include "tools/simulate.d/star.hpp"

#include <fmt/format.h>

namespace swarm::simulate {

namespace {

constexpr side other(side s) { return s == home ? member : home; }
constexpr const char* home_id = "00000000-0000-4000-8000-ffffffffffff";

} // namespace

std::string star::node_id(std::size_t node) { return fmt::format("00000000-0000-4000-8000-{:012x}", node + 1); }

star::star(schedule& time, const settings& s, events e) : time_(time), settings_(s), events_(std::move(e)), spokes_(s.nodes) {
  for (std::size_t n = 0; n < spokes_.size(); ++n) {
    spokes_[n].bytes_per_second = s.node_bytes_per_second;
    start(home, n);
    start(member, n);
  }
  look_at_queues();
}

void star::start(side s, std::size_t node) {
  runtime::link_options o;
  o.cluster_id = "cluster";
  o.node_id = s == home ? home_id : node_id(node);
  o.other_id = s == home ? node_id(node) : home_id;
  o.node_name = s == home ? "home" : "n" + std::to_string(node);
  o.version = "0.1.0";
  o.incarnation = ++incarnations_;
  auto& spoke = spokes_[node];
  spoke.end[s].emplace(std::move(o));
  spoke.queued[s] = 0;
}

// -- connections ---------------------------------------------------------------------------

void star::dial(std::size_t node) {
  auto& spoke = spokes_[node];
  if (!spoke.there || spoke.wire[member] != 0 || std::exchange(spoke.dialling, true))
    return;
  spoke.dialled = time_.now();
  ++totals_.dials;
  time_.in(2 * settings_.latency, [this, node] {
    auto& at = spokes_[node];
    if (!std::exchange(at.dialling, false) || !at.there)
      return;
    if (!home_there_)
      return redial_later(node);
    auto wire = ++wires_;
    for (auto s : {home, member}) {
      at.wire[s] = wire;
      at.writing[s] = false;
      at.connection[s] = at.end[s]->connected(runtime::link_time{time_.now()}, time_.unix_ms());
    }
    pump(home, node);
    pump(member, node);
  });
}

void star::redial_later(std::size_t node) {
  auto& spoke = spokes_[node];
  if (!spoke.there)
    return;
  runtime::restart_options waits;
  waits.backoff_min = limits::link_redial_min();
  waits.backoff_max = limits::link_redial_max();
  auto lived = std::chrono::milliseconds{(time_.now() - spoke.dialled) / one_ms};
  auto wait = spoke.redials.after_failure(waits, lived, static_cast<std::size_t>(time_.boot_ms() % 97));
  time_.in(wait.count() * one_ms, [this, node] { dial(node); });
}

/// The side's connection is over. The other side hears of it, unless its host or the way to it is gone.
void star::detach(side s, std::size_t node) {
  auto& spoke = spokes_[node];
  auto wire = std::exchange(spoke.wire[s], 0);
  if (wire == 0)
    return;
  spoke.end[s]->disconnected(spoke.connection[s]);
  spoke.writing[s] = false;
  if (spoke.there)
    time_.in(settings_.latency, [this, s, node, wire] {
      if (spokes_[node].there && spokes_[node].wire[other(s)] == wire)
        detach(other(s), node);
    });
  if (s == member)
    return redial_later(node);
  time_.in(limits::host_lease().count() * one_ms, [this, node, absence = ++spoke.absence] {
    if (spokes_[node].absence == absence && !spokes_[node].end[home]->up())
      events_.gone(node);
  });
}

void star::vanish(std::size_t node) {
  auto& spoke = spokes_[node];
  spoke.there = false;
  spoke.dialling = false;
  spoke.wire[member] = 0;
  spoke.timer_ms[member] = 0;
}

void star::come_back(std::size_t node) {
  spokes_[node].there = true;
  spokes_[node].redials = {};
  start(member, node);
  dial(node);
}

void star::restart_home(micros away) {
  home_there_ = false;
  for (std::size_t n = 0; n < spokes_.size(); ++n) {
    auto wire = std::exchange(spokes_[n].wire[home], 0);
    ++spokes_[n].absence;
    start(home, n);
    time_.in(settings_.latency, [this, n, wire] {
      if (wire != 0 && spokes_[n].there && spokes_[n].wire[member] == wire)
        detach(member, n);
    });
  }
  time_.in(away, [this] { home_there_ = true; });
}

// -- what goes over them -------------------------------------------------------------------

std::optional<errc> star::send(side s, std::size_t node, link_message m) {
  auto& spoke = spokes_[node];
  std::optional<errc> refused;
  {
    std::int64_t ignored = 0;
    charged cost{s == home ? home_ns : ignored};
    refused = spoke.end[s]->send(std::move(m));
  }
  if (refused) {
    ++totals_.refused;
    return refused;
  }
  ++spoke.queued[s];
  if (s == home) {
    totals_.waiting_messages = std::max(totals_.waiting_messages, spoke.end[s]->waiting_messages());
    totals_.waiting_bytes = std::max(totals_.waiting_bytes, spoke.end[s]->waiting_bytes());
  }
  pump(s, node);
  return std::nullopt;
}

void star::begin_anew(std::size_t node) {
  spokes_[node].end[home]->forget();
  pump(home, node);
}

void star::take_events(side s, std::size_t node) {
  auto& spoke = spokes_[node];
  for (auto& e : spoke.end[s]->take_events()) {
    if (auto* up = std::get_if<runtime::link_up>(&e)) {
      if (s == home)
        ++spoke.absence;
      else
        spoke.redials = {};
      events_.up(s, node, up->resumed);
    } else if (auto* fresh = std::get_if<runtime::link_begun_anew<link_message>>(&e)) {
      if (s == home)
        ++totals_.begun_anew;
      totals_.lost += fresh->lost.size();
      spoke.queued[s] = spoke.end[s]->counters().messages_sent;
      events_.begun_anew(s, node);
    } else if (auto* d = std::get_if<runtime::link_delivery<link_message>>(&e)) {
      // What is small is dealt with at once, as in actors/fabric/cluster/link; nothing large is asked here.
      spoke.end[s]->consumed(d->cost);
      events_.message(s, node, *d->message);
    } else if (std::get<runtime::link_dropped>(e).by_other)
      detach(s, node);
  }
}

void star::pump(side s, std::size_t node) {
  auto& spoke = spokes_[node];
  take_events(s, node);
  while (spoke.wire[s] != 0 && !spoke.writing[s]) {
    std::optional<federation_link::frame> f;
    {
      std::int64_t ignored = 0;
      charged cost{s == home ? home_ns : ignored};
      f = spoke.end[s]->next_frame(spoke.connection[s], runtime::link_time{time_.now()});
    }
    if (!f) {
      if (s == home && spoke.end[s]->up() && spoke.queued[s] > spoke.end[s]->counters().messages_sent)
        ++totals_.stalled;
      break;
    }
    auto last = std::holds_alternative<runtime::link_close>(f->body);
    write(s, node, std::move(*f));
    if (last)
      detach(s, node);
  }
  take_events(s, node);
  arm(s, node);
}

/// When the last byte has left the sender; the line of the home is everybody's.
micros star::carry(side from, link_state& on, std::size_t bytes) {
  auto took = [&](std::int64_t bytes_per_second) { return static_cast<micros>(bytes) * one_second / bytes_per_second; };
  auto& all = home_line_free_[from];
  auto& own = on.line_free[from];
  if (from == home) {
    all = std::max(all, time_.now()) + took(settings_.home_bytes_per_second);
    return own = std::max(own, all) + took(on.bytes_per_second);
  }
  own = std::max(own, time_.now()) + took(on.bytes_per_second);
  return all = std::max(all, own) + took(settings_.home_bytes_per_second);
}

void star::write(side from, std::size_t node, federation_link::frame f) {
  auto& spoke = spokes_[node];
  std::string encoded;
  {
    std::int64_t ignored = 0;
    charged cost{from == home ? home_ns : ignored};
    encoded = to_wire(f).SerializeAsString();
  }
  auto bytes = encoded.size() + settings_.frame_overhead_bytes;
  ++totals_.frames[from];
  totals_.bytes[from] += bytes;
  totals_.messages[from] += f.seq != 0 ? 1 : 0;
  spoke.writing[from] = true;
  auto wire = spoke.wire[from];
  if (from == home)
    encoded.clear(); // what members do with it is not this simulation's
  auto written = carry(from, spoke, bytes);
  time_.at(written, [this, from, node, wire] {
    if (spokes_[node].wire[from] != wire)
      return;
    spokes_[node].writing[from] = false;
    pump(from, node);
  });
  time_.at(written + settings_.latency, [this, from, node, wire, frame = std::move(f), encoded = std::move(encoded)] {
    if (spokes_[node].there && spokes_[node].wire[other(from)] == wire)
      arrive(other(from), node, wire, frame, encoded);
  });
}

void star::arrive(side to, std::size_t node, std::uint64_t wire, federation_link::frame f, const std::string& encoded) {
  auto& spoke = spokes_[node];
  {
    std::int64_t ignored = 0;
    charged cost{to == home ? home_ns : ignored};
    if (to == home) {
      v1::LinkFrame body;
      body.ParseFromString(encoded);
      f = from_wire(std::move(body));
    }
    spoke.end[to]->received(spoke.connection[to], std::move(f), runtime::link_time{time_.now()});
  }
  if (spoke.wire[to] == wire)
    pump(to, node);
}

// -- time ----------------------------------------------------------------------------------

void star::arm(side s, std::size_t node) {
  auto& spoke = spokes_[node];
  auto next = spoke.end[s]->next_deadline();
  if (!next || (s == member && !spoke.there))
    return;
  auto at = std::chrono::ceil<std::chrono::milliseconds>(*next).count();
  if (spoke.timer_ms[s] != 0 && spoke.timer_ms[s] <= at)
    return;
  spoke.timer_ms[s] = at;
  timers_.set(2 * node + s, at);
  if (timers_ms_ != 0 && timers_ms_ <= at)
    return;
  timers_ms_ = at;
  time_.at(at * one_ms, [this, at] {
    if (timers_ms_ == at)
      run_timers();
  });
}

void star::run_timers() {
  timers_ms_ = 0;
  while (auto key = timers_.take_due(time_.boot_ms())) {
    auto s = static_cast<side>(*key % 2);
    auto node = *key / 2;
    spokes_[node].timer_ms[s] = 0;
    if (s == member && !spokes_[node].there)
      continue;
    {
      std::int64_t ignored = 0;
      charged cost{s == home ? home_ns : ignored};
      spokes_[node].end[s]->tick(runtime::link_time{time_.now()});
    }
    pump(s, node);
  }
  if (auto next = timers_.next(); next && (timers_ms_ == 0 || *next < timers_ms_)) {
    timers_ms_ = *next;
    time_.at(*next * one_ms, [this, at = *next] {
      if (timers_ms_ == at)
        run_timers();
    });
  }
}

void star::look_at_queues() {
  std::size_t all = 0;
  for (const auto& spoke : spokes_)
    all += spoke.end[home]->waiting_bytes();
  totals_.waiting_bytes_together = std::max(totals_.waiting_bytes_together, all);
  time_.in(100 * one_ms, [this] { look_at_queues(); });
}

} // namespace swarm::simulate
