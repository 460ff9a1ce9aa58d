#include "cli/verbs/home_watch.hpp"

#include <doctest/doctest.h>

#include "tests/unit/cli/fake_node.hpp"

using namespace swarm;
using namespace swarm::cli;

TEST_CASE("that the home is away is known from the answer to a person and from the refusal of a session's call") {
  test::fake_node node;
  auto absence = [&] { return absence_of_home(node, v1::Query{}); };
  CHECK(absence() == "");
  node.on_query = [](const v1::Query&) {
    v1::Answer a;
    a.mutable_refusal()->set_code(v1::Refusal::UNAVAILABLE);
    a.mutable_refusal()->set_text("the home a has not been reached for 4 s");
    return a;
  };
  CHECK(absence() == "the home a has not been reached for 4 s");
  node.on_query = [](const v1::Query&) -> v1::Answer { throw call_failed(code::refused, "the home a has not been reached for 5 s"); };
  CHECK(absence() == "the home a has not been reached for 5 s");
}

TEST_CASE("a node that does not answer and a session that is gone say nothing of the home") {
  test::fake_node node;
  for (int status : {code::no_node, code::deadline, code::interrupted}) {
    node.on_query = [status](const v1::Query&) -> v1::Answer { throw call_failed(status, "no answer"); };
    CHECK_MESSAGE(!absence_of_home(node, v1::Query{}), status);
  }
  node.on_query = [](const v1::Query&) -> v1::Answer {
    call_failed gone{code::refused, "the node does not accept this token"};
    gone.unknown_token = true;
    throw gone;
  };
  CHECK_FALSE(absence_of_home(node, v1::Query{}));
}
