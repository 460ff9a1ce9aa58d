// Precompiled for these tests, and for the simulations.
#include "actors/fabric/pch.hpp"

#include <doctest/doctest.h>

#include "tests/support/fabric_world.hpp"
