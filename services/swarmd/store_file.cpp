#include "services/swarmd/store_file.hpp"

#include <cerrno>
#include <cstring>
#include <ctime>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <utility>
#include <vector>

#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "actors/base/atomic_file.hpp"
#include "actors/base/owner.hpp"
#include "actors/base/text.hpp"
#include "actors/store/backup.hpp"
#include "actors/store/conversation/copy.hpp"
#include "actors/store/schema.hpp"

namespace swarm {

namespace fs = std::filesystem;

store_file::store_file(fs::path path) : path_(std::move(path)), news_(inotify_init1(IN_CLOEXEC | IN_NONBLOCK)) {
  // Before the look, so that nothing is missed. Without it the writer's own looks remain.
  if (news_)
    inotify_add_watch(news_.get(), path_.parent_path().c_str(), IN_MOVED_FROM | IN_MOVED_TO | IN_DELETE | IN_CREATE | IN_MOVE_SELF);
  struct stat info {};
  if (stat(path_.c_str(), &info) != 0)
    throw std::runtime_error(concat({"the store ", path_.string(), " cannot be looked at: ", std::strerror(errno)}));
  device_ = info.st_dev;
  inode_ = info.st_ino;
}

bool store_file::is_same() const {
  struct stat info {};
  return stat(path_.c_str(), &info) == 0 && info.st_dev == device_ && info.st_ino == inode_;
}

void store_file::take_news() const {
  char events[4096];
  while (::read(news_.get(), events, sizeof events) > 0)
    ;
}

namespace {

std::string now_as_name() {
  auto now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y%m%d-%H%M%S", &parts)};
}

/// All files of the store: the database with its log and index, and the commit log.
std::vector<fs::path> files_of(const fs::path& database) {
  std::vector<fs::path> out;
  for (const auto* suffix : {"", "-wal", "-shm", ".commits"})
    if (auto file = fs::path{database.string() + suffix}; fs::exists(fs::symlink_status(file)))
      out.push_back(file);
  return out;
}

/// Keeps a node from starting on that store while it is read; empty when it is `dir`'s, whose lock the caller holds, or no node's.
unique_fd owned_while_read(const state_dir& dir, const fs::path& store) {
  const state_dir its{store.parent_path()};
  if (fs::equivalent(its.root, dir.root) || !fs::exists(its.lock_file()))
    return {};
  auto owned = take_ownership(its.lock_file());
  if (!owned)
    throw std::runtime_error(concat(
      {"a node works on ", store.string(), "; make a backup of it with: SWARM_HOME=", shell_quoted(its.root.string()), " swarmctl backup FILE"}));
  return owned;
}

/// Throws when no node can be started on it. True when it has a commit log beside it.
bool check_store(const fs::path& backup) {
  sqlite::connection source{backup.string(), {.query_only = true, .create = false, .vfs = {}, .cache_kib = 4096}};
  if (stored_schema_version(source) == 0)
    throw std::runtime_error(backup.string() + " is no store of a node");
  if (stored_schema_version(source) > schema_version())
    throw std::runtime_error(backup.string() + " was made by a newer version than this one; restore it with that");
  if (auto wrong = check_integrity(source, true); wrong != "ok")
    throw std::runtime_error(backup.string() + " is damaged: " + wrong);
  return has_commit_log(source, backup.string());
}

/// A sound copy that a node can be started on, with what was answered and is only in the commit log beside the backup.
void copy_checked(const state_dir& dir, const fs::path& backup, const fs::path& copy) {
  if (!fs::is_regular_file(backup))
    throw std::runtime_error(backup.string() + " is no file");
  const auto store = fs::canonical(backup); // beside that lies what belongs to it
  try {
    if (check_store(store)) {
      const auto owned = owned_while_read(dir, store);
      backup_with_log(store.string(), copy.string());
      return;
    }
    sqlite::connection source{store.string(), {.query_only = true, .create = false, .vfs = {}, .cache_kib = 4096}};
    backup_to(source, copy.string());
  } catch (const sqlite::error& e) {
    throw std::runtime_error(backup.string() + " cannot be read as a store: " + e.what());
  }
}

/// Of the backup's conversations, on its way into their place.
fs::path conversations_copy_of(const state_dir& dir) { return conversations_of(dir).string() + ".restoring"; }

/// What the backup has of them: beside it, or in the directory into which an earlier restore has put them with the store. An empty directory when it
/// has none.
void copy_conversations_of(const state_dir& dir, const fs::path& backup, const fs::path& copy) {
  const auto store = fs::canonical(backup);
  auto from = conversations_beside(store);
  if (!fs::is_directory(from) && store.filename() == dir.database().filename())
    from = conversations_of(state_dir{store.parent_path()});
  if (const auto copied = copy_conversations(system_disk(), from, copy); !copied)
    throw std::runtime_error(copied.failure().text);
}

fs::path copy_of(const state_dir& dir) { return dir.database().string() + ".restoring"; }
/// Names the directory for the old files, from when the copy is complete until it is in its place.
fs::path plan_of(const state_dir& dir) { return dir.root / "restore-under-way"; }

std::string text_of(const fs::path& file) {
  std::ifstream in{file, std::ios::binary};
  std::string text{std::istreambuf_iterator<char>{in}, {}};
  if (in.bad())
    throw std::runtime_error(file.string() + " cannot be read");
  return text;
}

fs::path new_directory(const state_dir& dir) {
  auto name = "replaced-" + now_as_name();
  auto away = dir.root / name;
  for (int n = 2; fs::exists(away); ++n)
    away = dir.root / (name + "-" + std::to_string(n));
  fs::create_directory(away);
  fs::permissions(away, fs::perms::owner_all);
  return away;
}

} // namespace

std::string objection_to_logs(const fs::path& backup) {
  const auto to = conversations_beside(backup);
  std::error_code ec;
  return fs::exists(fs::symlink_status(to, ec)) ? to.string() + " exists; choose another name, or move it away" : std::string{};
}

std::string copy_logs(const state_dir& dir, const fs::path& backup, v1::BackupReply& reply) {
  const auto copied = copy_conversations(system_disk(), conversations_of(dir), conversations_beside(backup));
  if (!copied) {
    std::error_code ec;
    fs::remove_all(conversations_beside(backup), ec);
    return copied.failure().text;
  }
  reply.set_conversations(copied->conversations);
  reply.set_conversation_bytes(copied->bytes);
  return {};
}

void finish_restore(const state_dir& dir) {
  const auto plan = plan_of(dir), copy = copy_of(dir);
  if (!fs::exists(plan))
    return;
  const auto name = text_of(plan);
  // Without the copy, it is in its place already.
  if (fs::exists(copy)) {
    if (!name.empty()) {
      const auto away = dir.root / fs::path{name}.filename();
      fs::create_directory(away);
      for (const auto& file : files_of(dir.database()))
        fs::rename(file, away / file.filename());
      // What was said after the backup belongs to rows that are gone. What has taken its place is not moved when this is repeated.
      if (fs::exists(conversations_copy_of(dir)) && fs::exists(conversations_of(dir)))
        fs::rename(conversations_of(dir), away / conversations_of(dir).filename());
      sync_directory(away);
    }
    if (fs::exists(conversations_copy_of(dir)))
      fs::rename(conversations_copy_of(dir), conversations_of(dir));
    fs::rename(copy, dir.database());
    sync_directory(dir.root);
  }
  fs::remove(plan);
}

std::optional<std::string> missing_store(const state_dir& dir) {
  const auto database = dir.database();
  if (fs::exists(database) || fs::exists(plan_of(dir)))
    return std::nullopt;
  std::string left;
  for (const auto& file : files_of(database))
    if (file != database) // a symbolic link that leads nowhere
      left += (left.empty() ? "" : " ") + file.string();
  if (left.empty())
    return std::nullopt;
  return concat({"the store ", database.string(), " is missing, of which there is still: ", left,
                 "; put it back, or restore a backup with: swarmctl restore FILE; to start over without what was in it, remove what is left of it"});
}

fs::path restore_store(const state_dir& dir, const fs::path& backup) {
  finish_restore(dir);
  std::error_code ec;
  const auto copy = copy_of(dir);
  for (const auto& left : files_of(copy))
    fs::remove(left, ec);
  fs::remove_all(conversations_copy_of(dir), ec);
  copy_checked(dir, backup, copy);
  copy_conversations_of(dir, backup, conversations_copy_of(dir));
  const bool replaces = !files_of(dir.database()).empty() || fs::exists(conversations_of(dir));
  auto away = replaces ? new_directory(dir) : fs::path{};
  if (auto failed = replace_file(plan_of(dir), away.filename().string()))
    throw std::runtime_error(plan_of(dir).string() + ": " + failed.message());
  finish_restore(dir);
  return away;
}

} // namespace swarm
