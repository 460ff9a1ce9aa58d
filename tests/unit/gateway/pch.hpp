// Precompiled for the tests of gateway.
#include "gateway/pch.hpp"

#include <doctest/doctest.h>
