// Precompiled for the tests of gateway.
#include "gateway/mcp/pch.hpp"

#include <doctest/doctest.h>
