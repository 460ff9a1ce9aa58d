// Precompiled for cli: what the gateway has, the command line's library, and the room's interfaces.
#include "gateway/pch.hpp"

#include <CLI/CLI.hpp>

#include "cli/verb.hpp"
