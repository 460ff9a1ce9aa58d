// Shell completion, made from the command tree itself, for both names of the program: swarm-mcp with a verb is swarmctl.
#pragma once

#include <string>

#include <CLI/App.hpp>

namespace swarm::cli {

std::string bash_completion(const CLI::App& root);
std::string zsh_completion(const CLI::App& root);
std::string fish_completion(const CLI::App& root);

} // namespace swarm::cli
