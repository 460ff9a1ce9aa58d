#include "services/swarmd/start_check.hpp"

#include <filesystem>
#include <fstream>
#include <sstream>

#include "actors/base/limits_config.hpp"
#include "actors/base/owner.hpp"
#include "actors/base/text.hpp"
#include "actors/store/schema.hpp"
#include "services/federation/node_config.hpp"
#include "services/swarmd/node_identity.hpp"

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
} catch (const std::exception& e) {
  out.push_back(concat({"the store ", database.string(), " cannot be opened: ", e.what(), "; restore a backup: swarmctl restore FILE"}));
}

} // namespace

std::vector<std::string> obstacles_to_start(const state_dir& dir) {
  std::vector<std::string> out;
  if (auto wrong = configure_limits(dir.config_file()))
    out.push_back(*wrong);
  else if (auto config = read_node_config(dir.config_file()); !config)
    out.push_back(config.failure().text);
  std::error_code ec;
  if (fs::exists(dir.node_file(), ec)) {
    std::stringstream text;
    text << std::ifstream{dir.node_file()}.rdbuf();
    if (!parse_identity(text.str()))
      out.push_back(dir.node_file().string() + " is damaged; it holds the id and name of the node");
  }
  if (fs::exists(dir.database(), ec) && take_ownership(dir.lock_file()))
    look_at_store(dir.database(), out);
  return out;
}

} // namespace swarm
