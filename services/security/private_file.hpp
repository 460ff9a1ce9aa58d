// Files that only their owner may read, whole and durable or not there.
#pragma once

#include <filesystem>
#include <optional>
#include <string_view>

#include "services/security/failure.hpp"
#include "services/security/secret.hpp"

namespace swarm {

/// Made with mode 0700, or tightened; refused if it is somebody else's or no directory.
std::optional<security_failure> prepare_private_directory(const std::filesystem::path&);
/// Nothing when there is no such file. Refused: a symbolic link, somebody else's, one that others may read, one of more than so many bytes.
security_result<std::optional<secret>> read_private_file(const std::filesystem::path&, std::size_t bytes_max);
/// Mode 0600. On the disk when it returns; after a crash there is the old file or the new one.
std::optional<security_failure> write_private_file(const std::filesystem::path&, std::string_view bytes);
/// No file of that name from now on.
std::optional<security_failure> remove_private_file(const std::filesystem::path&);

} // namespace swarm
