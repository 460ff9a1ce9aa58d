// Precompiled for the tests that start the real programs.
#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "tests/support/cluster_of_nodes.hpp"
#include "tests/support/mcp_client.hpp"
#include "tests/support/node_client.hpp"
#include "tests/support/node_process.hpp"
