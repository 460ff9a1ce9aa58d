// Which streams to other nodes may open while all of them end.
#include "services/federation/links.hpp"

#include <chrono>
#include <thread>

#include <doctest/doctest.h>

using namespace swarm;
using namespace std::chrono_literals;

TEST_CASE("a stream that would open while all of them end is turned away: nobody would end it") {
  link_board board;
  const int first = 0, second = 0;
  std::atomic<bool> second_opens = true;
  std::thread gives_back;
  auto ends_late = [&] {
    gives_back = std::thread{[&] {
      second_opens = board.opened(&second, "b", link_lane::bulk, [] {});
      board.over(&first, nullptr);
    }};
  };
  REQUIRE(board.opened(&first, "a", link_lane::control, ends_late));
  board.end_all(std::chrono::steady_clock::now() + 30s);
  gives_back.join();
  CHECK_FALSE(second_opens);
  board.close();
}
