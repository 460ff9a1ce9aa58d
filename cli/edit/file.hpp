// One settings file in the user's home: read whole, replaced atomically, with a copy of what was there.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace swarm::cli {

struct settings_file {
  std::filesystem::path path;       // as the program that owns it names it
  std::filesystem::path target;     // behind symbolic links; the same if there are none
  std::optional<std::string> bytes; // empty when there is no file
};

/// Throws `failure` for anything but a regular file of this user, up to limits::agent_settings_bytes_max.
settings_file read_settings(const std::filesystem::path&);
/// The Git worktree it lies in; empty for none.
std::filesystem::path repository_of(const settings_file&);

/// Replaces the file as it was read by these bytes, mode 0600, or removes it (no bytes). `keep`: what was there goes to
/// <target>.swarm-backup-<n>, whose path is returned. Throws `failure`, and `changed_meanwhile` when somebody wrote it since.
std::filesystem::path replace_settings(const settings_file&, const std::optional<std::string>& bytes, bool keep);
struct changed_meanwhile {};

/// Its backups, oldest first.
std::vector<std::filesystem::path> backups_of(const settings_file&);

} // namespace swarm::cli
