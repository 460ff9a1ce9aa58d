#include "services/swarmd/start_check.hpp"

#include <filesystem>
#include <fstream>
#include <sstream>

#include "actors/base/config.hpp"
#include "actors/base/limits_config.hpp"
#include "actors/base/owner.hpp"
#include "actors/base/text.hpp"
#include "actors/domain/config.hpp"
#include "actors/store/schema.hpp"
#include "services/federation/cluster.hpp"
#include "services/federation/listen_address.hpp"
#include "services/swarmd/node_identity.hpp"
#include "services/swarmd/store_file.hpp"

namespace swarm {

namespace fs = std::filesystem;

namespace {

void look_at_store(const fs::path& database, std::vector<std::string>& out) try {
  sqlite::connection db{database.string(), {.query_only = true, .create = false, .vfs = {}, .cache_kib = 1024}};
  if (auto version = stored_schema_version(db); version > schema_version())
    out.push_back(concat({"the store ", database.string(), " was written by a newer version (schema ", version, ", this one knows ", schema_version(),
                          "): install that version again, or restore a backup made before the upgrade"}));
} catch (const sqlite::disk_full& e) {
  out.push_back(concat({"the store ", database.string(), " cannot be opened: ", e.what(), "; free some space"}));
} catch (const sqlite::error& e) {
  out.push_back(store_failure(database, e));
} catch (const std::exception& e) {
  out.push_back(concat({"the store ", database.string(), " cannot be opened: ", e.what(), "; restore a backup with: swarmctl restore FILE"}));
}

/// Only while no node runs, which would find itself.
void look_for_twin(const state_dir& dir, std::vector<std::string>& out) {
  auto authority = authority_store::open(dir.root / "cluster");
  if (!authority)
    return; // said already
  if (auto twin = twin_of_home(**authority, system_clock_port().unix_ms()))
    out.push_back(*std::move(twin));
}

} // namespace

std::string store_failure(const fs::path& database, const sqlite::error& e) {
  if (e.is_damage())
    return concat({database.string(), " is not a database; restore a backup with: swarmctl restore FILE (", e.reason(), ")"});
  return concat({"the store ", database.string(), " cannot be opened: ", e.reason(), "; to restore a backup: swarmctl restore FILE"});
}

std::optional<std::string> configure(const state_dir& dir) {
  const auto& registry = domain::whole_config(); // its defaults are those of before
  const auto document = read_config(dir.config_file(), registry);
  if (!document.faults.empty())
    return document.faults.front().told(dir.config_file().string());
  return configure_limits(dir.config_file());
}

std::optional<std::string> obstacle_at_sockets(const state_dir& dir) {
  std::error_code ec;
  for (const auto& socket : {dir.socket(), dir.keeper_socket()})
    if (fs::symlink_status(socket, ec).type() == fs::file_type::directory)
      return socket.string() + " is a directory, and a socket belongs there: remove it";
  return std::nullopt;
}

std::vector<std::string> obstacles_to_start(const state_dir& dir) {
  auto out = cluster::obstacles(dir);
  // All faults of the file, of which the cluster has named the first.
  std::erase_if(out, [&](const auto& text) { return text.starts_with(dir.config_file().string()); });
  const auto document = read_config(dir.config_file(), domain::whole_config());
  for (auto fault = document.faults.rbegin(); fault != document.faults.rend(); ++fault)
    out.insert(out.begin(), fault->told(dir.config_file().string()));
  if (document.faults.empty())
    (void)configure(dir);
  if (auto wrong = obstacle_at_sockets(dir))
    out.push_back(*wrong);
  std::error_code ec;
  if (fs::exists(dir.node_file(), ec)) {
    std::stringstream text;
    text << std::ifstream{dir.node_file()}.rdbuf();
    if (!parse_identity(text.str()))
      out.push_back(dir.node_file().string() + " is damaged; it holds the id and name of the node");
  }
  if (auto wrong = missing_store(dir))
    out.push_back(*wrong);
  if (fs::exists(dir.database(), ec) && take_ownership(dir.lock_file())) {
    look_at_store(dir.database(), out);
    std::vector<std::string> twins;
    look_for_twin(dir, twins);
    // A node that has started meanwhile is no copy of this one.
    if (take_ownership(dir.lock_file()))
      out.insert(out.end(), twins.begin(), twins.end());
  }
  return out;
}

} // namespace swarm
