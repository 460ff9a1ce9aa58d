// swarm-bench: how fast the fabric is, beside what the machine and etcd can do. docs/performance.md explains the rows.
#include <algorithm>
#include <array>
#include <iostream>
#include <set>

#include <unistd.h>

#include <CLI/CLI.hpp>

#include "tools/bench.d/suite.hpp"

namespace {

using namespace swarm::bench;

struct named_suite {
  const char* name;
  std::unique_ptr<suite> (*make)(const settings&);
};

constexpr named_suite suites[] = {{"load", make_load_suite},   {"wake", make_wake_suite},     {"process", make_process_suite},
                                  {"size", make_size_suite},   {"memory", make_memory_suite}, {"mcp", make_mcp_suite},
                                  {"hosts", make_hosts_suite}, {"chat", make_chat_suite}};

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

settings in(const settings& base, const std::filesystem::path& bin, const std::string& dir) {
  auto out = base;
  out.bin = bin;
  out.dir = base.dir / dir;
  std::filesystem::create_directories(out.dir);
  return out;
}

/// One suite after the other, each with all of its rounds: a suite's servers would otherwise disturb the next one.
template <class Each>
void for_each_suite(const std::vector<std::string>& only, Each each) {
  for (const auto& s : suites)
    if (only.empty() || std::find(only.begin(), only.end(), s.name) != only.end())
      each(s);
}

void say(const named_suite& s, int round, const settings& base) {
  std::cerr << "   " << s.name << ": round " << round << " of " << base.rounds << "\n";
}

std::vector<row> run(const settings& base, const std::vector<std::string>& only) {
  std::vector<row> rows;
  for_each_suite(only, [&](const named_suite& s) {
    auto suite = s.make(in(base, base.bin, s.name));
    for (int i = 1; i <= base.rounds; ++i) {
      say(s, i, base);
      suite->round();
    }
    for (auto& r : suite->rows())
      rows.push_back(std::move(r));
  });
  return rows;
}

/// Ours and theirs in turn, each beginning every other round, so that neither has the quieter moments.
std::vector<compared> compare(const settings& base, const std::filesystem::path& their_bin, const std::vector<std::string>& only) {
  std::vector<compared> rows;
  for_each_suite(only, [&](const named_suite& s) {
    auto ours = s.make(in(base, base.bin, std::string{s.name} + "-a"));
    auto theirs = s.make(in(base, their_bin, std::string{s.name} + "-b"));
    for (int i = 1; i <= base.rounds; ++i) {
      say(s, i, base);
      for (auto* one : i % 2 == 1 ? std::array{ours.get(), theirs.get()} : std::array{theirs.get(), ours.get()})
        one->round();
    }
    auto our_rows = ours->rows(), their_rows = theirs->rows();
    std::set<std::string> seen; // a value beside several references is one row here
    for (std::size_t r = 0; r < our_rows.size(); ++r) {
      if (!seen.insert(our_rows[r].name).second)
        continue;
      compared c{our_rows[r], their_rows[r], their_rows[r].value, their_rows[r].value};
      for (int i = 0; i < base.rounds; ++i) {
        auto value = theirs->rows_of(static_cast<std::size_t>(i))[r].value;
        c.least = std::min(c.least, value);
        c.most = std::max(c.most, value);
      }
      rows.push_back(std::move(c));
    }
  });
  return rows;
}

} // namespace

int main(int argc, char** argv) {
  CLI::App app{"swarm-bench: measures the node beside fdatasync, a bare gRPC echo and etcd, in alternating rounds."};
  settings s;
  s.bin = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  s.tools = s.bin;
  std::string json, against, dir = std::filesystem::temp_directory_path();
  std::vector<std::string> only;
  long length_ms = s.length.count();
  app.add_option("--json", json, "also write the rows to this file");
  app.add_option("--dir", dir, "folder for the state directories, on the disk to measure");
  app.add_option("--rounds", s.rounds, "rounds; the medians are shown")->check(CLI::PositiveNumber);
  app.add_option("--length-ms", length_ms, "length of each measurement under load")->check(CLI::PositiveNumber);
  app
    .add_option("--against", against, "folder with another build's programs, which are measured in turn with ours; exits with 2 when ours are worse")
    ->check(CLI::ExistingDirectory);
  std::vector<std::string> names;
  for (const auto& suite : suites)
    names.emplace_back(suite.name);
  app.add_option("suite,--only", only, "suites to run: " + CLI::detail::join(names, " "))->check(CLI::IsMember(names));
  CLI11_PARSE(app, argc, argv);
  s.length = std::chrono::milliseconds{length_ms};
  try {
    scratch folder{dir};
    s.dir = folder.path;
    auto report = [&](const auto& rows) {
      print(rows);
      if (!json.empty())
        write_json(rows, json);
    };
    if (against.empty()) {
      report(run(s, only));
      return 0;
    }
    auto rows = compare(s, std::filesystem::absolute(against), only);
    report(rows);
    return std::any_of(rows.begin(), rows.end(), [](const compared& c) { return c.is_regression(); }) ? 2 : 0;
  } catch (const std::exception& e) {
    std::cerr << "swarm-bench: " << e.what() << "\n";
    return 1;
  }
}
