// What clients do over and over, and what the machine needs for the least of it.
#pragma once

#include <filesystem>
#include <string>

#include "actors/base/unique_fd.hpp"
#include "tools/bench.d/measure.hpp"
#include "tools/bench.d/peers.hpp"

namespace swarm::bench {

/// A file of constant size that is written a page at a time, each page synced, as SQLite does to its write-ahead log.
class synced_file {
public:
  explicit synced_file(const std::filesystem::path& file);
  void write_page();

private:
  std::string name_;
  unique_fd fd_;
  std::string block_;
  std::size_t at_ = 0;
};

operation sync_operation(const std::filesystem::path& file);
/// One call of a bare server, with about the bytes of a lock command.
operation echo_operation(const echo_server&);

v1::Command acquire(const std::string& scope, const std::string& session, const std::string& path);
v1::Command release(const std::string& scope, const std::string& session, const std::string& path, std::uint64_t fence);
/// Takes a lock and gives it back.
operation lock_operation(const std::string& socket, const std::string& scope, const std::string& session, const std::string& path);

} // namespace swarm::bench
