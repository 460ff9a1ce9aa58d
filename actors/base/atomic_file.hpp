// Replaces files atomically: a reader finds the whole old file or the whole new one, also after a crash.
#pragma once

#include <filesystem>
#include <functional>
#include <string_view>
#include <system_error>

namespace swarm {

/// All of it, whatever interrupts, and also where the descriptor does not block. The error is that of write(2); then a part may have been written.
std::error_code write_all(int fd, std::string_view bytes);

/// Makes what was renamed, made or removed in a directory outlast a power cut, where the file system can.
void sync_directory(const std::filesystem::path&) noexcept;

enum class durability {
  synced, // on the disk when the call returns
  cached, // in the kernel's cache: for what is worthless after a power cut and written too often to wait for the disk
};

/// Makes a new file of mode 0600. Fails with std::errc::file_exists when the name is taken; after any other error no file is left.
std::error_code write_new_file(const std::filesystem::path&, std::string_view bytes, durability = durability::synced);

/// Puts a file of mode 0600 in the place of what is there; a symbolic link is replaced, not followed. The old file stays after any error.
/// `still_wanted` is asked as late as can be, when the new bytes are on the disk; false: std::errc::operation_canceled. May be called by several
/// processes and threads for one file: the last one wins.
std::error_code replace_file(const std::filesystem::path&, std::string_view bytes, durability = durability::synced,
                             const std::function<bool()>& still_wanted = {});

} // namespace swarm
