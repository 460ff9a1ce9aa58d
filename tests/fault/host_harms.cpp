// What is done to three hosts while clients work on all of them.
#include <algorithm>

#include <poll.h>

#include "tests/fault/host_world.hpp"

namespace swarm::testing {

namespace {

using chance = std::mt19937;

/// How long a harm lasts is an input of the test that is left to chance, not a wait for something.
void pass_time(chance& rng, unsigned least_ms, unsigned most_ms) { poll(nullptr, 0, static_cast<int>(least_ms + rng() % (most_ms - least_ms + 1))); }

std::size_t some_member(chance& rng) { return 1 + rng() % (host_world::hosts - 1); }
std::size_t some_host(chance& rng) { return rng() % host_world::hosts; }
std::size_t some_proxied(const host_world& w, chance& rng) {
  auto m = some_member(rng);
  return w.proxy(m) ? m : 2;
}

std::string killed(host_world& w, chance& rng, std::size_t host) {
  w.kill_node(host);
  pass_time(rng, 0, 1'500);
  w.start_node(host);
  return "kill -9 of swarmd on " + w.name(host);
}

std::string keeper_killed(host_world& w, std::size_t host) {
  w.kill_keeper(host);
  return "kill -9 of the keeper on " + w.name(host);
}

std::string frozen(host_world& w, chance& rng, std::size_t host) {
  w.freeze(host);
  pass_time(rng, 300, 5'000);
  w.thaw(host);
  return "swarmd on " + w.name(host) + " stopped";
}

std::string partitioned(host_world& w, chance& rng) {
  auto m = some_member(rng);
  auto which = rng() % 3;
  w.cut(m, which != 1, which != 2);
  pass_time(rng, 300, 6'000);
  w.mend(m);
  return std::string{which == 0 ? "both ways" : which == 1 ? "way to the member" : "way to the home"} + " cut, " + w.name(m);
}

/// Links are cut one after another and healed in another order.
std::string swizzled(host_world& w, chance& rng) {
  std::vector<std::size_t> members{1, 2};
  std::shuffle(members.begin(), members.end(), rng);
  for (auto m : members) {
    auto which = rng() % 3;
    w.cut(m, which != 1, which != 2);
    pass_time(rng, 200, 2'000);
  }
  std::shuffle(members.begin(), members.end(), rng);
  for (auto m : members) {
    w.mend(m);
    pass_time(rng, 100, 1'500);
  }
  return "swizzle";
}

std::string home_killed_behind_a_cut(host_world& w, chance& rng) {
  auto m = some_member(rng);
  w.cut(m, true, true);
  pass_time(rng, 100, 1'000);
  killed(w, rng, host_world::home);
  pass_time(rng, 100, 1'000);
  w.mend(m);
  return "kill -9 of swarmd on a while " + w.name(m) + " is cut off";
}

std::string slow_and_sliced(host_world& w, chance& rng) {
  auto m = some_proxied(w, rng);
  proxy_way way;
  way.slice_most = 1 + rng() % 200;
  way.delay_most = std::chrono::milliseconds{rng() % 30};
  way.stall_chance = 0.01;
  way.stall = std::chrono::milliseconds{50 + rng() % 500};
  w.proxy(m)->set_both(way);
  pass_time(rng, 1'000, 4'000);
  w.mend(m);
  return "slices, delay and stalls, " + w.name(m);
}

std::string breaking(host_world& w, chance& rng) {
  auto m = some_proxied(w, rng);
  proxy_way way;
  way.reset_chance = 0.02;
  w.proxy(m)->set_both(way);
  pass_time(rng, 1'000, 4'000);
  w.mend(m);
  return "connections reset by chance, " + w.name(m);
}

std::string half_open(host_world& w, chance& rng) {
  auto m = some_proxied(w, rng);
  auto told = rng() % 2 == 0 ? tcp_proxy::to_client : tcp_proxy::to_server;
  w.proxy(m)->leave_half_open(told);
  pass_time(rng, 500, 3'000);
  return std::string{told == tcp_proxy::to_client ? "half open at the home, " : "half open at the member, "} + w.name(m);
}

std::string dropped(host_world& w, chance& rng) {
  auto m = some_proxied(w, rng);
  proxy_way way;
  way.fate = proxy_way::drop;
  w.proxy(m)->set(rng() % 2 == 0 ? tcp_proxy::to_client : tcp_proxy::to_server, way);
  pass_time(rng, 300, 5'000);
  w.mend(m);
  return "bytes of one way dropped, " + w.name(m);
}

std::string refused(host_world& w, chance& rng) {
  auto m = some_proxied(w, rng);
  w.proxy(m)->refuse(true);
  w.proxy(m)->reset_all();
  pass_time(rng, 300, 3'000);
  w.mend(m);
  return "reset and refused, " + w.name(m);
}

std::string disk_filled(host_world& w, chance& rng, std::size_t host) {
  w.fill_disk(host);
  pass_time(rng, 500, 4'000);
  w.free_disk(host);
  return "full disk, " + w.name(host);
}

std::string clock_jumped(host_world& w, chance& rng) {
  auto by = std::chrono::seconds{60 + rng() % 7'200};
  if (rng() % 2 == 0)
    by = -by;
  w.clock().set_off(by);
  pass_time(rng, 500, 4'000);
  w.clock().set_right();
  return "the clock jumps by " + std::to_string(by.count()) + " s, and back";
}

std::string home_killed(host_world& w, chance& rng) { return killed(w, rng, host_world::home); }
std::string member_killed(host_world& w, chance& rng) { return killed(w, rng, some_member(rng)); }
std::string some_keeper_killed(host_world& w, chance& rng) { return keeper_killed(w, some_host(rng)); }
std::string home_frozen(host_world& w, chance& rng) { return frozen(w, rng, host_world::home); }
std::string member_frozen(host_world& w, chance& rng) { return frozen(w, rng, some_member(rng)); }

std::string home_disk_filled(host_world& w, chance& rng) { return disk_filled(w, rng, host_world::home); }
std::string member_disk_filled(host_world& w, chance& rng) { return disk_filled(w, rng, some_member(rng)); }

} // namespace

harms::harms(const host_world& w, unsigned seed) : rng_(seed) {
  possible_ = {home_killed, member_killed,   some_keeper_killed, home_frozen, member_frozen, partitioned, swizzled, home_killed_behind_a_cut,
               refused,     slow_and_sliced, breaking,           half_open,   dropped};
  if (w.has_small_disks())
    possible_.insert(possible_.end(), {home_disk_filled, member_disk_filled});
  if (machine_clock::may_be_set())
    possible_.push_back(clock_jumped);
}

std::string harms::next(host_world& w) {
  if (left_.empty()) {
    left_ = possible_;
    std::shuffle(left_.begin(), left_.end(), rng_);
  }
  auto* next = left_.back();
  left_.pop_back();
  return next(w, rng_);
}

} // namespace swarm::testing
