#include "cli/verbs/confirmation.hpp"

#include <iostream>
#include <string>

namespace swarm::cli {

bool is_confirmed(console& io, std::string_view question) {
  io.raw_error(std::string{question} + " [y/N] ");
  std::string answer;
  std::getline(std::cin, answer);
  return answer == "y" || answer == "Y" || answer == "yes";
}

} // namespace swarm::cli
