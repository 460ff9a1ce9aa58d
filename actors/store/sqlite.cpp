#include "actors/store/sqlite.hpp"

#include <cerrno>

#include <sqlite3.h>
#include <sys/statvfs.h>

#include "actors/base/limits.hpp"
#include "actors/domain/rows.hpp"

namespace swarm::sqlite {

namespace {

bool fails_alone(int code) {
  switch (code & 0xff) {
    case SQLITE_CONSTRAINT:
    case SQLITE_TOOBIG:
    case SQLITE_MISMATCH:
    case SQLITE_RANGE:
    case SQLITE_ERROR:
    case SQLITE_MISUSE: return true;
    default: return false;
  }
}

/// The index beside the file fails to grow with a general error, whose errno may be lost by then: the disk is asked, too.
bool is_for_want_of_space(int code, sqlite3* db) {
  constexpr std::uint64_t index_bytes = 64 * limits::kib;
  if ((code & 0xff) == SQLITE_FULL)
    return true;
  if ((code & 0xff) != SQLITE_IOERR || db == nullptr)
    return false;
  const auto* file = sqlite3_db_filename(db, "main");
  struct statvfs disk {};
  return sqlite3_system_errno(db) == ENOSPC ||
         (file != nullptr && statvfs(file, &disk) == 0 && std::uint64_t{disk.f_bavail} * disk.f_frsize < index_bytes);
}

std::string_view view_of(sqlite3_value* v) {
  const auto* data = static_cast<const char*>(sqlite3_value_blob(v));
  return data == nullptr ? std::string_view{} : std::string_view{data, static_cast<std::size_t>(sqlite3_value_bytes(v))};
}

/// swarm_like(text, pattern): the rules' own definition, so that both sides agree on every byte.
void sql_like(sqlite3_context* context, int, sqlite3_value** args) {
  sqlite3_result_int(context, domain::like(view_of(args[0]), view_of(args[1])) ? 1 : 0);
}

/// swarm_starts(message body, prefix): for prefixes longer than the indexed head of a message.
void sql_message_starts(sqlite3_context* context, int, sqlite3_value** args) {
  v1::Message row;
  auto body = view_of(args[0]);
  auto decoded = row.ParseFromArray(body.data(), static_cast<int>(body.size()));
  sqlite3_result_int(context, decoded && row.content().starts_with(view_of(args[1])) ? 1 : 0);
}

} // namespace

void raise(int code, sqlite3* db, std::string_view doing) {
  if (is_for_want_of_space(code, db))
    throw disk_full{code, "the disk is full"};
  std::string reason = db != nullptr ? sqlite3_errmsg(db) : sqlite3_errstr(code);
  auto text = std::string{doing} + ": " + reason;
  if (fails_alone(code))
    throw error{code, text, reason};
  throw io_failure{code, text, reason};
}

bool error::is_damage() const noexcept {
  const auto primary = code_ & 0xff;
  return primary == SQLITE_NOTADB || primary == SQLITE_CORRUPT;
}

// -- cursor ------------------------------------------------------------------------------

cursor::~cursor() {
  sqlite3_reset(st_);
  sqlite3_clear_bindings(st_);
}

void cursor::check(int rc) const {
  if (rc != SQLITE_OK) {
    auto* db = sqlite3_db_handle(st_);
    raise(sqlite3_extended_errcode(db), db, sqlite3_sql(st_));
  }
}

cursor& cursor::integer(std::int64_t v) {
  check(sqlite3_bind_int64(st_, next_++, v));
  return *this;
}

cursor& cursor::text(std::string_view v) {
  check(sqlite3_bind_text64(st_, next_++, v.empty() ? "" : v.data(), v.size(), SQLITE_STATIC, SQLITE_UTF8));
  return *this;
}

cursor& cursor::bytes(std::string_view v) {
  check(sqlite3_bind_blob64(st_, next_++, v.empty() ? "" : v.data(), v.size(), SQLITE_STATIC));
  return *this;
}

cursor& cursor::null() {
  check(sqlite3_bind_null(st_, next_++));
  return *this;
}

cursor& cursor::bind(const value& v) {
  if (const auto* n = std::get_if<std::int64_t>(&v))
    return integer(*n);
  if (const auto* s = std::get_if<std::string>(&v))
    return text(*s);
  if (const auto* b = std::get_if<blob>(&v))
    return bytes(b->bytes);
  return null();
}

bool cursor::step() {
  auto rc = sqlite3_step(st_);
  if (rc == SQLITE_ROW)
    return true;
  if (rc != SQLITE_DONE) {
    auto* db = sqlite3_db_handle(st_);
    raise(sqlite3_extended_errcode(db), db, sqlite3_sql(st_));
  }
  return false;
}

void cursor::run() {
  while (step()) {
  }
}

std::int64_t cursor::integer_at(int column) const { return sqlite3_column_int64(st_, column); }

std::string_view cursor::view_at(int column) const {
  const auto* data = static_cast<const char*>(sqlite3_column_blob(st_, column));
  auto size = static_cast<std::size_t>(sqlite3_column_bytes(st_, column));
  return data == nullptr ? std::string_view{} : std::string_view{data, size};
}

// -- statement ---------------------------------------------------------------------------

statement::statement(sqlite3* db, std::string_view sql) {
  auto rc = sqlite3_prepare_v3(db, sql.data(), static_cast<int>(sql.size()), SQLITE_PREPARE_PERSISTENT, &st_, nullptr);
  if (rc != SQLITE_OK)
    raise(sqlite3_extended_errcode(db), db, sql);
}

statement::~statement() { sqlite3_finalize(st_); }

// -- connection --------------------------------------------------------------------------

connection::connection(const std::string& path, const open_options& options) {
  // A reader of a WAL file has to write the shared-memory index, hence READWRITE and query_only instead of READONLY.
  auto flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | (options.create ? SQLITE_OPEN_CREATE : 0);
  auto rc = sqlite3_open_v2(path.c_str(), &db_, flags, options.vfs.empty() ? nullptr : options.vfs.c_str());
  try {
    if (rc != SQLITE_OK)
      raise(db_ != nullptr ? sqlite3_extended_errcode(db_) : rc, db_, "open " + path);
    sqlite3_extended_result_codes(db_, 1);
    // Two connections meet only while one of them opens, recovers or checkpoints: short waits inside SQLite, never a refusal.
    sqlite3_busy_timeout(db_, 5'000);
    constexpr auto pure = SQLITE_UTF8 | SQLITE_DETERMINISTIC;
    sqlite3_create_function_v2(db_, "swarm_like", 2, pure, nullptr, sql_like, nullptr, nullptr, nullptr);
    sqlite3_create_function_v2(db_, "swarm_starts", 2, pure, nullptr, sql_message_starts, nullptr, nullptr, nullptr);
    // What fails here is the opening, for people who read of it.
    auto set_up = [&](const char* sql) {
      if (sqlite3_exec(db_, sql, nullptr, nullptr, nullptr) != SQLITE_OK)
        raise(sqlite3_extended_errcode(db_), db_, "open " + path);
    };
    auto cache = "PRAGMA cache_size=-" + std::to_string(options.cache_kib);
    set_up(cache.c_str());
    set_up("PRAGMA foreign_keys=OFF");
    set_up("PRAGMA trusted_schema=OFF");
    set_up("PRAGMA temp_store=MEMORY");
    if (options.query_only) {
      set_up("PRAGMA query_only=ON");
    } else {
      set_up("PRAGMA journal_mode=WAL");
      set_up("PRAGMA synchronous=FULL");
      set_up("PRAGMA wal_autocheckpoint=4000"); // 16 MiB: bounds the time to recover, spares most rewriting of hot pages
      set_up("PRAGMA journal_size_limit=67108864");
    }
  } catch (...) {
    sqlite3_close_v2(db_);
    throw;
  }
}

connection::~connection() {
  by_text_.clear();
  recent_.clear();
  sqlite3_close_v2(db_);
}

void connection::run(const char* sql) {
  auto rc = sqlite3_exec(db_, sql, nullptr, nullptr, nullptr);
  if (rc != SQLITE_OK)
    raise(sqlite3_extended_errcode(db_), db_, sql);
}

statement& connection::prepared(std::string_view sql) {
  if (auto found = by_text_.find(sql); found != by_text_.end()) {
    recent_.splice(recent_.begin(), recent_, found->second);
    return found->second->second;
  }
  if (recent_.size() == limits::statements_cached_max) {
    by_text_.erase(recent_.back().first);
    recent_.pop_back();
  }
  recent_.emplace_front(std::piecewise_construct, std::forward_as_tuple(sql), std::forward_as_tuple(db_, sql));
  by_text_.emplace(recent_.front().first, recent_.begin());
  return recent_.front().second;
}

std::int64_t connection::number(std::string_view sql) {
  auto row = prepared(sql).use();
  return row.step() ? row.integer_at(0) : 0;
}

void connection::abandon() noexcept { sqlite3_db_config(db_, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr); }

bool connection::in_transaction() const noexcept { return sqlite3_get_autocommit(db_) == 0; }

} // namespace swarm::sqlite
