// Which keys of an attached terminal are sent after the node was away.
#include "cli/verbs/typed_keys.hpp"

#include <doctest/doctest.h>

using namespace swarm;
using swarm::cli::typed_keys;

TEST_CASE("keys that were typed while the node was away are sent once it is back, in order") {
  typed_keys keys;
  keys.sent();
  keys.taken();
  CHECK_FALSE(keys.lost());
  CHECK(keys.keep("uild"));
  CHECK(keys.keep("/cache\r"));
  CHECK(keys.back() == "uild/cache\r");
  CHECK(keys.back().empty());
}

TEST_CASE("what was on its way when the node went away is not sent again, nor anything behind it until the node is back") {
  typed_keys keys;
  keys.sent();
  keys.sent();
  keys.taken();
  CHECK(keys.lost());
  CHECK_FALSE(keys.keep("x"));
  CHECK_FALSE(keys.keep("\r"));
  CHECK(keys.back().empty());
  CHECK_FALSE(keys.lost());
  CHECK(keys.keep("y"));
  CHECK(keys.back() == "y");
}

TEST_CASE("of more keys than are kept, and of an absence that is too long, nothing is sent: no line loses its middle") {
  typed_keys keys;
  CHECK_FALSE(keys.lost());
  CHECK(keys.keep(std::string(limits::pty_input_bytes_max, 'x')));
  CHECK_FALSE(keys.keep("y"));
  CHECK_FALSE(keys.keep("z"));
  CHECK(keys.back().empty());
  CHECK(keys.keep("a"));
  CHECK(keys.drop());
  CHECK_FALSE(keys.drop());
  CHECK_FALSE(keys.keep("b"));
  CHECK(keys.back().empty());
}
