// swarm-simulate: a home with its members in virtual time; docs/scale.md says what that shows.
#include <algorithm>
#include <fstream>
#include <iostream>

#include <unistd.h>

#include <CLI/CLI.hpp>

#include "actors/base/crypto.hpp"
#include "tools/simulate.d/scenarios.hpp"

int main(int argc, char** argv) {
  using namespace swarm;
  using namespace swarm::simulate;
  CLI::App app{"swarm-simulate: a home and its members in virtual time, on the parts of the product that need neither actors nor sockets."};
  settings s;
  std::string dir = std::filesystem::temp_directory_path(), json;
  std::vector<std::string> only;
  long length = s.length / one_second;
  micros per_command = 0, per_row = 0;
  app.add_option("--nodes", s.nodes, "members besides the home")->check(CLI::Range(2, 100'000));
  app.add_option("--sessions", s.sessions, "of all nodes together")->check(CLI::Range(2, 10'000'000));
  app.add_option("--seed", s.seed, "equal seeds, sizes and times give equal runs");
  app.add_option("--only", only, "scenarios: heartbeats fan-out claims loss-10 loss-50 rejoin")
    ->check(CLI::IsMember({"heartbeats", "fan-out", "claims", "loss-10", "loss-50", "rejoin"}));
  app.add_option("--claims-percent", s.claims_percent, "of the sessions that loss-10 and loss-50 begin with have a claimed task")
    ->check(CLI::Range(0, 100));
  app.add_option("--seconds", length, "of virtual time that a load lasts")->check(CLI::PositiveNumber);
  app.add_option("--effort", s.effort_seconds, "seconds of this machine after which a part is broken off")->check(CLI::PositiveNumber);
  app.add_option("--command-us", per_command, "the writer's time for a command; 0: as measured")->check(CLI::NonNegativeNumber);
  app.add_option("--row-us", per_row, "a reader's time for a row; 0: as measured")->check(CLI::NonNegativeNumber);
  app.add_option("--json", json, "also write the figures to this file");
  app.add_option("--dir", dir, "folder for the home's store");
  CLI11_PARSE(app, argc, argv);
  s.length = length * one_second;
  if (per_command > 0)
    s.per_command = per_command;
  if (per_row > 0)
    s.per_row = per_row;
  try {
    s.dir = std::filesystem::path{dir} / ("swarm-simulate-" + to_hex(random_bytes(8)));
    scratch folder{s};
    figures out;
    auto wanted = [&](const char* name) { return only.empty() || std::ranges::find(only, name) != only.end(); };
    auto play = [&](const char* name, auto scenario) {
      if (!wanted(name))
        return;
      std::cerr << "   " << name << "\n";
      scenario();
    };
    play("heartbeats", [&] { heartbeats(folder.made, out); });
    play("fan-out", [&] { fan_out(folder.made, out); });
    play("claims", [&] { claims_lost(folder.made, out); });
    play("loss-10", [&] { host_loss(folder.made, 0.1, out); });
    play("loss-50", [&] { host_loss(folder.made, 0.5, out); });
    play("rejoin", [&] { rejoin(folder.made, out); });
    out.print(std::cout);
    if (!json.empty()) {
      std::ofstream file{json};
      out.print_json(file);
      if (!file.flush())
        throw std::runtime_error("cannot write " + json);
    }
    std::filesystem::remove_all(s.dir);
    return 0;
  } catch (const std::exception& e) {
    std::cerr << "swarm-simulate: " << e.what() << "\n";
    std::error_code left;
    std::filesystem::remove_all(s.dir, left);
    return 1;
  }
}
