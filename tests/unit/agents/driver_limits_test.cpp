#include "actors/agents/driver_limits.hpp"

#include <doctest/doctest.h>

#include "actors/base/limits.hpp"

using namespace swarm;

TEST_CASE("a driver is told the limits that the node's configuration sets, and takes no others") {
  const auto before = agents::driver_limits();
  CHECK(before.find("conversation_silence=300000") != std::string::npos);
  CHECK_FALSE(agents::set_driver_limits("conversation_silence=60000,delta_join=10"));
  CHECK(limits::conversation_silence() == std::chrono::minutes{1});
  CHECK(agents::driver_limits() != before);
  CHECK(agents::set_driver_limits("conversation_silence=1"));
  CHECK(agents::set_driver_limits("actor_idle=60000"));
  CHECK(agents::set_driver_limits("delta_join=x"));
  CHECK(agents::set_driver_limits("delta_join"));
  CHECK(limits::delta_join() == std::chrono::milliseconds{10});
  CHECK_FALSE(agents::set_driver_limits(before));
}
