// Passphrases: typed without an echo, or read from a file. Never from an argument or the environment.
#pragma once

#include <istream>
#include <string>

namespace swarm::cli {

/// The first line, without its end. Throws `failure` when it is longer than `bytes_max`.
std::string read_line_of(std::istream&, std::size_t bytes_max);
/// From the file ("-" = standard input), or typed at the terminal after the question. Throws `failure` when there is no terminal.
std::string read_passphrase(const std::string& file, const std::string& question);
/// Typed at the terminal of this process, and nowhere else. Throws `failure` (usage) with `without_terminal` when there is none.
std::string typed_passphrase(const std::string& question, const std::string& without_terminal);
/// The same, typed twice; refuses one that is empty.
std::string new_passphrase(const std::string& file);

} // namespace swarm::cli
