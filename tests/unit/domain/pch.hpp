// Precompiled for these tests.
#include "actors/domain/pch.hpp"

#include <doctest/doctest.h>

#include "tests/support/domain_world.hpp"
#include "tests/unit/domain/task/task_world.hpp"
