// Which locks concern each other: a lock on a directory covers what is below it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace swarm::domain {

/// The fabric's own lock names begin with this. Such a name covers only itself.
inline constexpr std::string_view lock_name_prefix = "/__swarm/";
bool is_fabric_name(std::string_view path) noexcept;

/// `path` is `held` itself or lies below it. Paths are as a scope stores them: absolute, or relative to the checkout with "." as its root.
bool lock_covers(std::string_view held, std::string_view path) noexcept;
/// True when one path covers the other, so that two sessions cannot hold both.
bool locks_conflict(std::string_view path_a, std::string_view path_b) noexcept;
/// The paths whose lock covers `path`: itself first, then each directory above it.
std::vector<std::string> covering_paths(const std::string& path);
/// What every path below `path` begins with; other paths may begin so, too, and lock_covers() decides. Nothing for a name: nothing is below it.
std::optional<std::string> below_prefix(const std::string& path);

} // namespace swarm::domain
