// swarm-bench: how fast the fabric is, beside what the machine and etcd can do. docs/performance.md explains the rows.
#include <iostream>

#include <unistd.h>

#include <CLI/CLI.hpp>

#include "tools/bench.d/suite.hpp"

namespace {

using namespace swarm::bench;

struct named_suite {
  const char* name;
  std::unique_ptr<suite> (*make)(const settings&);
};

constexpr named_suite suites[] = {{"load", make_load_suite},  {"wake", make_wake_suite},     {"process", make_process_suite},
                                  {"size", make_size_suite},  {"memory", make_memory_suite}, {"mcp", make_mcp_suite},
                                  {"hosts", make_hosts_suite}};

/// A folder that goes away with us.
class scratch {
public:
  explicit scratch(const std::filesystem::path& below) {
    std::filesystem::create_directories(below);
    auto name = (std::filesystem::absolute(below) / "XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr)
      throw std::runtime_error("cannot make a folder in " + below.string());
    path = name;
  }
  ~scratch() {
    std::error_code left;
    std::filesystem::remove_all(path, left);
  }
  std::filesystem::path path;
};

/// One suite after the other, each with all of its rounds: a suite's servers would otherwise disturb the next one.
std::vector<row> run(const settings& base, const std::vector<std::string>& only) {
  std::vector<row> rows;
  for (const auto& s : suites) {
    if (!only.empty() && std::find(only.begin(), only.end(), s.name) == only.end())
      continue;
    auto mine = base;
    mine.dir = base.dir / s.name;
    std::filesystem::create_directories(mine.dir);
    auto suite = s.make(mine);
    for (int i = 1; i <= base.rounds; ++i) {
      std::cerr << "   " << s.name << ": round " << i << " of " << base.rounds << "\n";
      suite->round();
    }
    for (auto& r : suite->rows())
      rows.push_back(std::move(r));
  }
  return rows;
}

} // namespace

int main(int argc, char** argv) {
  CLI::App app{"swarm-bench: measures the node beside fdatasync, a bare gRPC echo and etcd, in alternating rounds."};
  settings s;
  s.bin = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  std::string json, dir = std::filesystem::temp_directory_path();
  std::vector<std::string> only;
  long length_ms = s.length.count();
  app.add_option("--json", json, "also write the rows to this file");
  app.add_option("--dir", dir, "folder for the state directories, on the disk to measure");
  app.add_option("--rounds", s.rounds, "rounds; the medians are shown")->check(CLI::PositiveNumber);
  app.add_option("--length-ms", length_ms, "length of each measurement under load")->check(CLI::PositiveNumber);
  std::vector<std::string> names;
  for (const auto& suite : suites)
    names.emplace_back(suite.name);
  app.add_option("suite,--only", only, "suites to run: " + CLI::detail::join(names, " "))->check(CLI::IsMember(names));
  CLI11_PARSE(app, argc, argv);
  s.length = std::chrono::milliseconds{length_ms};
  try {
    scratch folder{dir};
    s.dir = folder.path;
    auto rows = run(s, only);
    print(rows);
    if (!json.empty())
      write_json(rows, json);
    return 0;
  } catch (const std::exception& e) {
    std::cerr << "swarm-bench: " << e.what() << "\n";
    return 1;
  }
}
