// Writes the first inputs of every target below a directory, for libFuzzer.
#include <filesystem>
#include <fstream>
#include <iostream>

#include "tests/fuzz/seeds.hpp"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: fuzz_seeds DIRECTORY\n";
    return 2;
  }
  for (const auto& [target, all] : swarm::fuzz::all_seeds()) {
    auto directory = std::filesystem::path{argv[1]} / target;
    std::filesystem::create_directories(directory);
    for (const auto& seed : all)
      std::ofstream(directory / seed.name, std::ios::binary) << seed.bytes;
  }
  return 0;
}
