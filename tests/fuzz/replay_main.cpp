// Runs a fuzz target over its first inputs and over what chance makes of them: the same inputs at every run. In earnest, with an eye on what
// they reach, libFuzzer does it (tools/fuzz); this is for the build of every day.
//   fuzz_replay TARGET                   SWARM_TEST_SEED=N: other chances
//   fuzz_replay TARGET --inputs 100000   more of them
//   fuzz_replay TARGET FILE...           these inputs
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/fuzz/seeds.hpp"

// targets.inc has one line for each target: SWARM_FUZZ_TARGET(name).
#define SWARM_FUZZ_TARGET(name) extern "C" int swarm_fuzz_##name(const std::uint8_t*, std::size_t);
#include "targets.inc"
#undef SWARM_FUZZ_TARGET

namespace {

constexpr std::size_t inputs_default = 1'000;
constexpr std::size_t input_bytes_max = 16'384; // as tools/fuzz has it
constexpr unsigned input_seconds_max = 60;      // sanitizers, and a machine that does other things

using function = int (*)(const std::uint8_t*, std::size_t);

function target_of(const std::string& name) {
#define SWARM_FUZZ_TARGET(each)                                                                                                                      \
  if (name == #each)                                                                                                                                 \
    return swarm_fuzz_##each;
#include "targets.inc"
#undef SWARM_FUZZ_TARGET
  return nullptr;
}

class inputs {
public:
  inputs(std::vector<swarm::fuzz::seed> seeds, std::uint64_t chance) : seeds_(std::move(seeds)), chance_(chance) {}

  std::size_t first() const { return seeds_.size(); }
  std::string name(std::size_t i) const { return i < seeds_.size() ? seeds_[i].name : "chance " + std::to_string(i); }
  std::string at(std::size_t i) const {
    if (i < seeds_.size())
      return seeds_[i].bytes;
    std::mt19937_64 random{chance_ * 1'000'003 + i};
    auto below = [&random](std::size_t n) { return n == 0 ? 0 : static_cast<std::size_t>(random() % n); };
    auto out = seeds_[below(seeds_.size())].bytes;
    for (auto changes = 1 + below(6); changes > 0; --changes)
      change(out, below);
    out.resize(std::min(out.size(), input_bytes_max));
    return out;
  }

private:
  template <class Below>
  void change(std::string& text, const Below& below) const {
    constexpr std::string_view telling{"\0\x01\x7f\x80\xff\xc3\xa9\xe2\x80\xa8 \t\r\n\"'`{}[]()<>,:;=#|&-*!?$\\/.@%~0a_", 45};
    auto at = below(text.size() + 1);
    auto some = below(below(4) == 0 ? 200 : 8) + 1;
    const auto& other = seeds_[below(seeds_.size())].bytes;
    auto from = below(other.size() + 1);
    switch (below(7)) {
      case 0: text.insert(at, 1, telling[below(telling.size())]); break;
      case 1: text.erase(at, some); break;
      case 2: text.insert(at, other.substr(from, some)); break;
      case 3: text.replace(at, some, other.substr(from, some)); break;
      case 4: text.insert(below(text.size() + 1), text.substr(at, some)); break;
      case 5: text.resize(at); break;
      default:
        if (at < text.size())
          text[at] = below(2) == 0 ? telling[below(telling.size())] : static_cast<char>(text[at] ^ (1 << below(8)));
    }
  }

  std::vector<swarm::fuzz::seed> seeds_;
  std::uint64_t chance_;
};

void run(function target, const std::string& bytes) {
  alarm(input_seconds_max);
  target(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
}

/// In a child; the number it has come to is where the parent sees it.
int run_all(const std::string& name, function target, const inputs& all, std::size_t count) {
  auto* now = static_cast<std::size_t*>(mmap(nullptr, sizeof(std::size_t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  if (now == MAP_FAILED) {
    std::perror("mmap");
    return 2;
  }
  auto child = fork();
  if (child < 0) {
    std::perror("fork");
    return 2;
  }
  if (child == 0) {
    for (; *now < count; ++*now)
      run(target, all.at(*now));
    alarm(0);
    std::exit(0); // and what the leak sanitizer has to say
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR)
    ;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
    std::cout << name << ": " << all.first() << " first inputs, " << count - all.first() << " by chance\n";
    return 0;
  }
  std::cerr << name << ": ended with "
            << (WIFSIGNALED(status) ? "signal " + std::string{strsignal(WTERMSIG(status))} : std::to_string(WEXITSTATUS(status)));
  if (*now == count) {
    std::cerr << " after all inputs\n";
    return 1;
  }
  auto file = std::filesystem::current_path() / ("crash-" + name);
  std::ofstream(file, std::ios::binary) << all.at(*now);
  std::cerr << " at the input \"" << all.name(*now) << "\"\nreproduce: fuzz_replay " << name << " " << file.string() << "\n";
  return 1;
}

int run_files(function target, const std::vector<std::string>& files) {
  for (const auto& file : files) {
    std::ifstream in{file, std::ios::binary};
    std::string bytes{std::istreambuf_iterator<char>(in), {}};
    if (!in) {
      std::cerr << file << " cannot be read\n";
      return 2;
    }
    run(target, bytes);
  }
  return 0;
}

} // namespace

int main(int argc, char** argv) {
  std::vector<std::string> arguments{argv + 1, argv + argc};
  auto* target = arguments.empty() ? nullptr : target_of(arguments[0]);
  if (!target) {
    std::cerr << "usage: fuzz_replay TARGET [--inputs N | FILE...]; there are:";
#define SWARM_FUZZ_TARGET(each) std::cerr << " " #each;
#include "targets.inc"
#undef SWARM_FUZZ_TARGET
    std::cerr << "\n";
    return 2;
  }
  auto name = arguments[0];
  arguments.erase(arguments.begin());
  auto count = inputs_default;
  if (arguments.size() == 2 && arguments[0] == "--inputs")
    count = std::stoull(arguments[1]);
  else if (!arguments.empty())
    return run_files(target, arguments);
  const auto* chance = std::getenv("SWARM_TEST_SEED");
  auto first = swarm::fuzz::all_seeds()[name];
  if (first.empty()) {
    std::cerr << "seeds.cpp has no first input for " << name << "\n";
    return 1;
  }
  inputs all{std::move(first), chance ? std::stoull(chance) : 1};
  return run_all(name, target, all, all.first() + count);
}
