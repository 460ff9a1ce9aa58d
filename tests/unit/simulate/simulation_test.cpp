// The simulation of docs/scale.md in small: what it counts adds up, and equal seeds give equal runs.
#include <doctest/doctest.h>

#include <sstream>

#include "actors/base/crypto.hpp"
#include "tools/simulate.d/scenarios.hpp"

using namespace swarm;
using namespace swarm::simulate;

namespace {

/// A small cluster whose machine takes given times.
class small_cluster {
public:
  small_cluster() {
    made.nodes = 10;
    made.sessions = 120;
    made.scope_sessions = 40;
    made.workers_per_node = 2;
    made.claims_percent = 50;
    made.commands_per_second = 5;
    made.length = 2 * one_second;
    made.per_command = 100;
    made.per_row = 10;
    made.dir = std::filesystem::temp_directory_path() / ("simulation-test-" + to_hex(random_bytes(8)));
    std::filesystem::create_directories(made.dir);
  }
  ~small_cluster() {
    std::error_code left;
    std::filesystem::remove_all(made.dir, left);
  }
  settings made;
};

/// Everything but what this machine's processor took.
std::string without_processor(const figures& all) {
  std::ostringstream out;
  for (const auto& f : all.all())
    if (f.unit.find("of a core") == std::string::npos)
      out << f.scenario << "|" << f.name << "|" << f.value << "\n";
  return out.str();
}

} // namespace

TEST_CASE("every session and worker of a lost host ends once in the simulation, no other one does, and the host finds its scopes again") {
  small_cluster small;
  figures out;
  host_loss(small.made, 0.3, out);
  CHECK(out.value("host loss", "sessions lost, with a lock each") == 36);
  CHECK(out.value("host loss", "sessions ended") == 36);
  CHECK(out.value("host loss", "workers lost") == 6);
  CHECK(out.value("host loss", "workers ended") == 6);
  CHECK(out.value("host loss", "commands to end them") == 42);
  CHECK(out.value("host loss", "ended twice") == 0);
  CHECK(out.value("host loss", "ended although their node is there") == 0);
  CHECK(out.value("host loss", "from the loss until it counts as one (silence and host_lease)") >= 40);
  CHECK(out.value("host loss", "others meanwhile without an answer in 30 s, or refused") == 0);
  CHECK(out.value("they come back", "nodes that have read what they hold") == 3);
}

TEST_CASE("a home that is too slow answers late or refuses aloud in the simulation, with a bounded line") {
  small_cluster small;
  small.made.nodes = 4;
  small.made.sessions = 400;
  small.made.length = 12 * one_second;
  small.made.per_command = 40 * one_ms;
  figures out;
  heartbeats(small.made, out);
  const auto* where = "heartbeats: 4 nodes, 400 sessions";
  auto asked = out.value(where, "asked");
  auto answered = out.value(where, "answered");
  auto not_done = out.value(where, "not done (refused as overloaded, or no answer within 30 s)");
  CHECK(asked >= 400);
  CHECK(answered + not_done == asked);
  CHECK(out.value(where, "the writer's time that is taken, syncs included") > 0.95);
  CHECK(out.value(where, "longest line before the writer") <= static_cast<double>(limits::writer_line_commands_max()));
}

TEST_CASE("a slow node among fast ones in the simulation costs bounded memory, its link starts over and no other one does") {
  small_cluster small;
  small.made.nodes = 3;
  small.made.length = 8 * one_second;
  figures out;
  slow_node(small.made, 500, out);
  CHECK(out.value("fan-out", "messages that found no room") >= 1);
  CHECK(out.value("fan-out", "messages given up when a link started over") >= 1);
  CHECK(out.value("fan-out", "times the slow node's link started over") >= 1);
  CHECK(out.value("fan-out", "times that another link started over") == 0);
  CHECK(out.value("fan-out", "most messages that waited on a link") <= out.value("fan-out", "most messages that may wait"));
}

TEST_CASE("the simulation is the same again for a seed and another for another") {
  auto played = [](std::uint64_t seed) {
    small_cluster small;
    small.made.seed = seed;
    figures out;
    host_loss(small.made, 0.3, out);
    rejoin(small.made, out);
    return without_processor(out);
  };
  auto first = played(7);
  CHECK(first == played(7));
  CHECK(first != played(8));
}
