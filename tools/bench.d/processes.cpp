#include "tools/bench.d/suite.hpp"

namespace swarm::bench {

namespace {

constexpr int repetitions = 30; // per round

double run_ms(std::vector<std::string> argv, std::vector<std::string> environment) {
  auto what = argv[0];
  auto began = steady::now();
  child process{std::move(argv), std::move(environment)};
  auto status = process.end(0);
  auto taken = ms_since(began);
  if (status != 0)
    throw std::runtime_error(what + " failed with " + std::to_string(status));
  return taken;
}

class process_suite final : public suite {
public:
  explicit process_suite(const settings& s) : settings_(s), echo_(s.tools, s.dir), node_(s.bin, s.dir / "process") { node_.start(); }

  void round() override {
    std::vector<double> ours, bare;
    for (int i = 0; i < repetitions; ++i) {
      ours.push_back(run_ms({settings_.bin / "swarmctl", "locks", "--json"}, {"SWARM_HOME=" + node_.dir().string()}));
      bare.push_back(run_ms({settings_.tools / "bare-echo-client", echo_.socket()}, {}));
    }
    samples_.add("swarmctl", median(ours));
    samples_.add("bare", median(bare));
  }

  std::vector<row> rows() const override {
    return {{"swarmctl locks --json, whole process",
             samples_.median_of("swarmctl"),
             "ms",
             "bare static gRPC call, process",
             samples_.median_of("bare"),
             {goal::ratio_at_most, 1.3}}};
  }

private:
  settings settings_;
  echo_server echo_;
  node node_;
};

} // namespace

std::unique_ptr<suite> make_process_suite(const settings& s) { return std::make_unique<process_suite>(s); }

} // namespace swarm::bench
