// Which file a program's name stands for.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace swarm {

/// The program's absolute path on that PATH, or nothing. What is not absolute (a program with a slash, a PATH entry) is meant
/// from `directory`, where the worker starts; without a directory it is nowhere.
std::optional<std::string> find_program(const std::string& program, const std::string& path, const std::string& directory);
/// Value of a variable in NAME=value entries.
std::string variable(const std::vector<std::string>& environment, const std::string& name);
/// PATH in NAME=value entries, or what stands for one that is not set.
std::string search_path(const std::vector<std::string>& environment);

} // namespace swarm
