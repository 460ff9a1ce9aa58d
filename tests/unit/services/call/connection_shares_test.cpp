#include "services/call/connection_shares.hpp"

#include <doctest/doctest.h>

using namespace swarm;
using verdict = connection_shares::verdict;

TEST_CASE("each caller has its share of the connections, and the last ones are kept for the operator") {
  connection_shares s{{.total = 8, .per_caller = 3, .for_operator = 2}};
  for (const auto* caller : {"a", "a", "a", "b", "b"})
    CHECK(s.take(caller, false) == verdict::taken);
  CHECK(s.take("a", false) == verdict::caller_full);
  CHECK(s.take("c", false) == verdict::taken);
  CHECK(s.take("c", false) == verdict::node_full);
  CHECK(s.take("d", true) == verdict::taken);
  CHECK(s.take("d", true) == verdict::taken);
  CHECK(s.take("d", true) == verdict::node_full);
  CHECK(s.open() == 8);
}

TEST_CASE("a connection that is closed makes room for its caller and for others") {
  connection_shares s{{.total = 2, .per_caller = 1, .for_operator = 0}};
  CHECK(s.take("a", false) == verdict::taken);
  CHECK(s.take("a", false) == verdict::caller_full);
  s.give_back("a");
  CHECK(s.open("a") == 0);
  CHECK(s.take("a", false) == verdict::taken);
  s.give_back("nobody");
  CHECK(s.open() == 1);
}
