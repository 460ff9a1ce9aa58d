// The power goes at each change that a conversation's log makes to its disk, one after the other.
#include <algorithm>

#include "tests/unit/store/conversation/log_fixture.hpp"

using namespace swarm;
using namespace swarm::test;

namespace {

struct outcome {
  std::vector<std::string> written, synced;
  std::vector<std::pair<log_cursor, std::vector<std::string>>> cursors; // and what precedes them
};

/// Appends, syncs, begins files, drops the oldest; as far as it gets.
outcome live(log_world& w) {
  outcome out;
  auto opened = conversation_log::open(w.disk, "/log", w.options);
  if (!opened)
    return out;
  auto& log = **opened;
  for (int i = 0; i < 12; ++i) {
    const auto body = "frame " + std::to_string(10 + i);
    if (log.append(text_frame(body))) {
      out.written.push_back(body);
      out.cursors.emplace_back(log.cursor(log.end()), out.written);
    }
    if (i % 3 == 1 && !log.sync())
      out.synced = out.written;
  }
  return out;
}

bool begins_with(const std::vector<std::string>& all, const std::vector<std::string>& first) {
  return first.size() <= all.size() && std::equal(first.begin(), first.end(), all.begin());
}

} // namespace

TEST_CASE("a power cut at any write of a conversation's log leaves what was synced, and nothing that was not written") {
  std::uint64_t operations = 0;
  {
    log_world w;
    live(w);
    operations = w.disk.operations();
  }
  REQUIRE(operations > 30);
  for (std::uint64_t k = 1; k <= operations; ++k)
    for (std::uint64_t seed = 0; seed < 24; ++seed) {
      CAPTURE(k);
      CAPTURE(seed);
      log_world w;
      w.disk.cut_power_at(k);
      const auto before = live(w);
      REQUIRE_FALSE(w.disk.powered());
      w.disk.reboot(seed == 0 ? std::nullopt : std::optional{seed});
      auto& log = w.open();
      CHECK_FALSE(log.opened().lost);
      const auto found = read_all(log);
      CHECK(found.gaps.empty());
      CHECK(begins_with(found.bodies(), before.synced));
      CHECK(begins_with(before.written, found.bodies()));
      // Others in their place, as long as the lost ones.
      while (log.end().offset < 12 * (frame_head_bytes + 8))
        w.append("FRAME 00");
      for (const auto& [cursor, read] : before.cursors)
        if (auto resumed = w.resume(cursor); !resumed.gap)
          CHECK(begins_with(found.bodies(), read));
      w.sync();
      w.open();
      CHECK(w.log->opened().cut == 0);
    }
}
