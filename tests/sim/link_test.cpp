// Two ends of a link over a network that cuts connections, holds frames back and brings them when their connection is gone, while either
// end restarts, stands still or forgets. A seed fixes everything: SWARM_SIM_SEED=N runs one alone.
#include <doctest/doctest.h>

#include <cstdlib>
#include <random>
#include <string>

#include "tests/support/link_world.hpp"

using namespace swarm;

namespace {

constexpr std::uint64_t seeds_everyday = 1'500, seeds_full = 200'000;

/// Windows, queues and versions of every size, the same for all runs of a side.
test::link_world::change chosen_by(std::uint64_t seed) {
  return [seed](std::size_t side, runtime::link_options& o) {
    std::mt19937_64 dice{seed * 2 + side};
    o.window_bytes = 1'000 + dice() % 6'000;
    o.outbox_messages_max = 3 + dice() % 20;
    o.outbox_bytes_max = 1'256 + dice() % 8'000;
    o.protocol_min = 1;
    o.protocol = 1 + static_cast<std::uint32_t>(dice() % 2);
  };
}

} // namespace

TEST_CASE("two ends of a link lose nothing silently and bring nothing twice, whatever happens to them and between them") {
  std::size_t sent = 0, delivered = 0, lost = 0, announced = 0, restarts = 0, resumed = 0, silent = 0;
  std::uint64_t resent = 0;
  auto one = std::getenv("SWARM_SIM_SEED");
  std::uint64_t first = one ? std::strtoull(one, nullptr, 10) : 1;
  std::uint64_t last = one ? first : std::getenv("SWARM_TEST_FULL") ? seeds_full : seeds_everyday;
  for (auto seed = first; seed <= last; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 dice{seed * 977 + 13};
    auto below = [&dice](unsigned n) { return static_cast<unsigned>(dice() % n); };
    test::link_world w{chosen_by(seed)};
    try {
      for (auto rounds = 1 + below(3); rounds > 0; --rounds) {
        for (int i = 0; i < 600; ++i)
          w.step(below);
        w.heal();
      }
    } catch (const std::logic_error& e) {
      FAIL(std::string{e.what()});
    }
    sent += w.sent, delivered += w.delivered, lost += w.lost, announced += w.announced, restarts += w.restarts, resumed += w.resumed;
    silent += w.silent, resent += w.counters(0).resent + w.counters(1).resent;
  }
  MESSAGE(sent, " messages sent, ", delivered, " arrived, ", lost, " given up in ", announced, " new beginnings, ", resent, " sent again, ", resumed,
          " connections that went on, ", silent, " that fell silent, ", restarts, " restarts");
  if (!one) {
    CHECK(delivered > sent / 4);
    CHECK(resent > 100);
    CHECK(resumed > 500);
    CHECK(silent > 20);
    CHECK(announced > 500);
  }
}
