// Precompiled for these tests.
#include "actors/runtime/pch.hpp"

#include <doctest/doctest.h>

#include "actors/runtime/defaults.hpp"
#include "tests/support/sim_world.hpp"
#include "tests/unit/runtime/quiet.hpp"
