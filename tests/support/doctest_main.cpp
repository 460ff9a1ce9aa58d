// The only file that carries doctest's implementation: it saves about three seconds in every other one.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include "tests/support/apart.hpp"

int main(int argc, char** argv) {
  if (auto status = swarm::testing::run_apart(argv))
    return *status;
  return doctest::Context{argc, argv}.run();
}
