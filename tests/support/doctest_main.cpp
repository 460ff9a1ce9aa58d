// The only file that carries doctest's implementation: it saves about three seconds in every other one.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>
