// Shows a person what is too long for a terminal's page, and runs the program that does it.
#pragma once

#include <filesystem>
#include <string>

#include "cli/invocation.hpp"

namespace swarm::cli {

/// Runs `command`, which may hold arguments, with the file as its last one, on this terminal. Its exit status; -1 when it could not be started.
int run_with_file(const std::string& command, const std::filesystem::path& file);

/// In $PAGER, else in less; where that does not run, as it is. Then comes `read_on`.
void show_long(const invocation&, const std::string& text, const std::function<void()>& read_on);

} // namespace swarm::cli
