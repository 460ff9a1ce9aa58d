// Prints the public contract as text: proto_describe DESCRIPTOR_SET. Used by tools/proto-baseline.
#include <exception>
#include <iostream>

#include "tests/contract/descriptor_text.hpp"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: proto_describe DESCRIPTOR_SET\n";
    return 2;
  }
  try {
    for (const auto& line : swarm::contract::describe_set(argv[1]))
      std::cout << line << '\n';
  } catch (const std::exception& e) {
    std::cerr << "proto_describe: " << e.what() << '\n';
    return 1;
  }
}
