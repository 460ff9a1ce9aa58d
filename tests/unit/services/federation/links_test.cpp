// Which streams to other nodes may start while all of them are aborted.
#include "services/federation/links.hpp"

#include <chrono>
#include <thread>

#include <doctest/doctest.h>

using namespace swarm;
using namespace std::chrono_literals;

TEST_CASE("a stream that starts while all of them are aborted is refused: nobody would end it") {
  link_board board;
  const int first = 0, second = 0;
  std::atomic<bool> second_starts = true;
  std::thread done;
  auto done_late = [&] {
    done = std::thread{[&] {
      second_starts = board.add_dialled(&second, "b", link_lane::bulk, [] {});
      board.remove_dialled(&first, nullptr);
    }};
  };
  REQUIRE(board.add_dialled(&first, "a", link_lane::control, done_late));
  board.abort_all(std::chrono::steady_clock::now() + 30s);
  done.join();
  CHECK_FALSE(second_starts);
  board.stop_reports();
}
