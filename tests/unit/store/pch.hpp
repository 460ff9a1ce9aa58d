// Precompiled for these tests.
#include "actors/store/pch.hpp"

#include <doctest/doctest.h>

#include "tests/unit/store/store_fixture.hpp"
