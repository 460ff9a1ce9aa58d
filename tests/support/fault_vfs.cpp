#include "tests/support/fault_vfs.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>
#include <random>

#include <sqlite3.h>

namespace swarm::test {

namespace {

struct handle {
  sqlite3_file base; // first, as SQLite wants it
  fault_vfs* disk;
  std::shared_ptr<fault_vfs::file> data;
};

handle* of(sqlite3_file* f) { return reinterpret_cast<handle*>(f); }
fault_vfs* disk_of(sqlite3_vfs* v) { return static_cast<fault_vfs*>(v->pAppData); }

int close(sqlite3_file* f) {
  of(f)->data.~shared_ptr();
  f->pMethods = nullptr;
  return SQLITE_OK;
}

int read(sqlite3_file* f, void* to, int amount, sqlite3_int64 offset) {
  if (!of(f)->disk->powered())
    return SQLITE_IOERR_READ;
  const auto& bytes = of(f)->data->now;
  auto at = static_cast<std::size_t>(offset);
  auto wanted = static_cast<std::size_t>(amount);
  auto there = at < bytes.size() ? std::min(wanted, bytes.size() - at) : 0;
  std::memcpy(to, bytes.data() + (there != 0 ? at : 0), there);
  std::memset(static_cast<char*>(to) + there, 0, wanted - there);
  return there == wanted ? SQLITE_OK : SQLITE_IOERR_SHORT_READ;
}

void overwrite(std::string& bytes, std::size_t at, std::string_view with) {
  if (bytes.size() < at)
    bytes.resize(at);
  bytes.replace(at, with.size(), with);
}

void perform(std::string& bytes, const fault_vfs::file::change& c) {
  if (c.size)
    bytes.resize(*c.size);
  else
    overwrite(bytes, c.offset, c.bytes);
}

int write(sqlite3_file* f, const void* from, int amount, sqlite3_int64 offset) {
  if (auto rc = of(f)->disk->admit(fault_vfs::kind::write); rc != SQLITE_OK)
    return rc;
  std::string_view bytes{static_cast<const char*>(from), static_cast<std::size_t>(amount)};
  auto& data = *of(f)->data;
  data.unsynced.push_back({static_cast<std::size_t>(offset), std::string{bytes}, std::nullopt});
  perform(data.now, data.unsynced.back());
  return SQLITE_OK;
}

int truncate(sqlite3_file* f, sqlite3_int64 size) {
  if (auto rc = of(f)->disk->admit(fault_vfs::kind::truncate); rc != SQLITE_OK)
    return rc;
  auto& data = *of(f)->data;
  data.unsynced.push_back({0, {}, static_cast<std::size_t>(size)});
  perform(data.now, data.unsynced.back());
  return SQLITE_OK;
}

int sync(sqlite3_file* f, int) {
  auto& data = *of(f)->data;
  auto rc = of(f)->disk->admit(fault_vfs::kind::sync);
  if (rc == SQLITE_OK) {
    for (const auto& c : data.unsynced)
      perform(data.synced, c);
    data.permanent = true;
  }
  if (of(f)->disk->powered())
    data.unsynced.clear(); // also after a failed sync: the kernel forgets that these pages were dirty
  return rc;
}

int file_size(sqlite3_file* f, sqlite3_int64* size) {
  *size = static_cast<sqlite3_int64>(of(f)->data->now.size());
  return SQLITE_OK;
}

int lock(sqlite3_file*, int) { return SQLITE_OK; }
int check_reserved(sqlite3_file*, int* held) {
  *held = 0;
  return SQLITE_OK;
}
int control(sqlite3_file*, int, void*) { return SQLITE_NOTFOUND; }
int sector_size(sqlite3_file*) { return 4096; }
int characteristics(sqlite3_file*) {
  return SQLITE_IOCAP_POWERSAFE_OVERWRITE; // as SQLite assumes of every Unix disk
}

int shm_map(sqlite3_file* f, int region, int size, int extend, void volatile** mapped) {
  auto& shared = of(f)->data->shared;
  auto wanted = static_cast<std::size_t>(region);
  if (wanted >= shared.size() && extend == 0) {
    *mapped = nullptr;
    return SQLITE_OK;
  }
  while (shared.size() <= wanted)
    shared.push_back(std::make_unique<char[]>(static_cast<std::size_t>(size)));
  *mapped = shared[wanted].get();
  return SQLITE_OK;
}
int shm_lock(sqlite3_file*, int, int, int) { return SQLITE_OK; }
void shm_barrier(sqlite3_file*) {}
int shm_unmap(sqlite3_file* f, int) {
  of(f)->data->shared.clear(); // the last connection is gone
  return SQLITE_OK;
}

constexpr sqlite3_io_methods methods{2,         close,          read,    write,       truncate,        sync,    file_size, lock,
                                     lock,      check_reserved, control, sector_size, characteristics, shm_map, shm_lock,  shm_barrier,
                                     shm_unmap, nullptr,        nullptr};

int open(sqlite3_vfs* v, const char* path, sqlite3_file* f, int flags, int* out_flags) {
  f->pMethods = nullptr;
  auto* disk = disk_of(v);
  if (!disk->powered())
    return SQLITE_CANTOPEN;
  auto name = path != nullptr ? std::string{path} : "temporary-" + std::to_string(disk->files.size());
  auto found = disk->files.find(name);
  if (found == disk->files.end() && (flags & SQLITE_OPEN_CREATE) == 0)
    return SQLITE_CANTOPEN;
  auto& data = disk->files[name];
  if (!data)
    data = std::make_shared<fault_vfs::file>();
  of(f)->disk = disk;
  new (&of(f)->data) std::shared_ptr<fault_vfs::file>(data);
  f->pMethods = &methods;
  if (out_flags != nullptr)
    *out_flags = flags;
  return SQLITE_OK;
}

/// Permanent at once.
int remove(sqlite3_vfs* v, const char* path, int) {
  auto* disk = disk_of(v);
  if (!disk->powered())
    return SQLITE_IOERR_DELETE;
  auto found = disk->files.find(path);
  if (found == disk->files.end())
    return SQLITE_IOERR_DELETE_NOENT;
  disk->files.erase(found);
  return SQLITE_OK;
}

int access(sqlite3_vfs* v, const char* path, int, int* there) {
  *there = disk_of(v)->files.count(path) > 0 ? 1 : 0;
  return SQLITE_OK;
}

int full_path(sqlite3_vfs*, const char* path, int size, char* out) {
  sqlite3_snprintf(size, out, "%s", path);
  return SQLITE_OK;
}

int randomness(sqlite3_vfs* v, int size, char* out) {
  auto* base = disk_of(v)->base();
  return base->xRandomness(base, size, out);
}
int sleep(sqlite3_vfs*, int microseconds) { return microseconds; }
int current_time(sqlite3_vfs* v, double* now) {
  auto* base = disk_of(v)->base();
  return base->xCurrentTime(base, now);
}
int last_error(sqlite3_vfs*, int, char*) { return 0; }

} // namespace

fault_vfs::fault_vfs() : vfs_(std::make_unique<sqlite3_vfs>()), base_(sqlite3_vfs_find(nullptr)) {
  static std::atomic<unsigned> counter{0};
  name_ = "fault-" + std::to_string(++counter);
  *vfs_ = {};
  vfs_->iVersion = 1;
  vfs_->szOsFile = sizeof(handle);
  vfs_->mxPathname = 512;
  vfs_->zName = name_.c_str();
  vfs_->pAppData = this;
  vfs_->xOpen = open;
  vfs_->xDelete = remove;
  vfs_->xAccess = access;
  vfs_->xFullPathname = full_path;
  vfs_->xRandomness = randomness;
  vfs_->xSleep = sleep;
  vfs_->xCurrentTime = current_time;
  vfs_->xGetLastError = last_error;
  sqlite3_vfs_register(vfs_.get(), 0);
}

fault_vfs::~fault_vfs() { sqlite3_vfs_unregister(vfs_.get()); }

int fault_vfs::admit(kind what) {
  if (!powered_)
    return SQLITE_IOERR;
  ++operations_;
  if (what == kind::sync)
    ++syncs_;
  if (operations_ == cut_at_) {
    powered_ = false;
    return SQLITE_IOERR;
  }
  if (what == kind::sync && syncs_ == fail_sync_at_)
    return SQLITE_IOERR_FSYNC;
  if (what == kind::write && full_at_ != 0 && operations_ >= full_at_)
    return SQLITE_FULL;
  return SQLITE_OK;
}

void fault_vfs::lose_unsynced(file& f, std::uint64_t salt) const {
  f.now = f.synced;
  if (tear_seed_ && f.permanent) {
    std::mt19937_64 rng{*tear_seed_ + salt};
    auto torn = false;
    for (auto& c : f.unsynced) {
      if (rng() % 2 == 0)
        continue;
      if (!torn && rng() % 2 == 0) {
        torn = true;
        c.bytes.resize(c.bytes.size() / 2);
      }
      perform(f.now, c);
    }
    f.synced = f.now;
  }
  f.unsynced.clear();
  f.shared.clear();
}

void fault_vfs::reboot() {
  std::uint64_t salt = 0;
  for (auto i = files.begin(); i != files.end();) {
    lose_unsynced(*i->second, ++salt);
    i = i->second->permanent ? std::next(i) : files.erase(i);
  }
  powered_ = true;
  operations_ = syncs_ = cut_at_ = fail_sync_at_ = full_at_ = 0;
}

} // namespace swarm::test
