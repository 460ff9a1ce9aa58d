// SQLite with owners: a connection, a statement that always resets, errors as exceptions that stay within this room.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

struct sqlite3;
struct sqlite3_stmt;

namespace swarm::sqlite {

/// A statement failed, the connection is fine: a constraint, a value too big, a row that does not decode.
class error : public std::runtime_error {
public:
  error(int code, const std::string& what, std::string reason = {}) : std::runtime_error(what), code_(code), reason_(std::move(reason)) {}
  /// SQLite's extended result code.
  int code() const noexcept { return code_; }
  /// The file is no database, or a damaged one.
  bool is_damage() const noexcept;
  /// Why, without what was being done.
  std::string reason() const { return reason_.empty() ? what() : reason_; }

private:
  int code_;
  std::string reason_;
};

/// The file, the disk or the memory failed (IOERR, FULL, CORRUPT, NOTADB, CANTOPEN, READONLY, NOMEM, BUSY, ...): what was being
/// done may or may not have happened, and the connection must be closed.
class io_failure : public error {
public:
  using error::error;
};

/// The disk has no space left for the file, its log or its index.
class disk_full : public io_failure {
public:
  using io_failure::io_failure;
};

/// Throws disk_full, io_failure or error, whichever the code calls for.
[[noreturn]] void raise(int code, sqlite3* db, std::string_view doing);

/// What can be bound: NULL, an integer, text, bytes.
struct blob {
  std::string bytes;
  bool operator==(const blob&) const = default;
};
using value = std::variant<std::monostate, std::int64_t, std::string, blob>;

/// One use of a statement, from binding to the last row; resets the statement and its bindings when it goes. Text and bytes
/// bound by view must outlive it.
class cursor {
public:
  explicit cursor(sqlite3_stmt* st) noexcept : st_(st) {}
  ~cursor();
  cursor(const cursor&) = delete;
  cursor& operator=(const cursor&) = delete;

  cursor& integer(std::int64_t v);
  cursor& text(std::string_view v);
  cursor& bytes(std::string_view v);
  cursor& null();
  cursor& bind(const value& v);

  /// True while a row is there.
  bool step();
  /// Steps a statement that yields no rows to its end.
  void run();

  std::int64_t integer_at(int column) const;
  /// Text or bytes; valid until the next step.
  std::string_view view_at(int column) const;

private:
  void check(int rc) const;
  sqlite3_stmt* st_;
  int next_ = 1;
};

/// A prepared statement, kept for the life of its connection.
class statement {
public:
  statement(sqlite3* db, std::string_view sql);
  ~statement();
  statement(const statement&) = delete;
  statement& operator=(const statement&) = delete;

  /// One use at a time.
  cursor use() noexcept { return cursor{st_}; }

private:
  sqlite3_stmt* st_ = nullptr;
};

struct open_options {
  bool query_only = false;
  bool create = true;
  /// Name of a registered VFS; empty = the default one.
  std::string vfs;
  /// Pages cached in memory.
  std::size_t cache_kib = 64 * 1024;
};

/// A connection in WAL mode with synchronous=FULL. Used by one thread at a time.
class connection {
public:
  connection(const std::string& path, const open_options&);
  ~connection();
  connection(const connection&) = delete;
  connection& operator=(const connection&) = delete;

  sqlite3* handle() const noexcept { return db_; }
  /// Runs statements without parameters or results.
  void run(const char* sql);
  /// The prepared statement of that text. At most `limits::statements_cached_max` are kept; the longest unused goes first.
  statement& prepared(std::string_view sql);
  /// First column of the first row of a statement without parameters; 0 without a row.
  std::int64_t number(std::string_view sql);
  /// Prepares and runs a statement without parameters or results once more.
  void repeat(std::string_view sql) { prepared(sql).use().run(); }
  /// After a failure: closing must not touch the file again.
  void abandon() noexcept;
  /// False once SQLite itself has rolled the transaction back.
  bool in_transaction() const noexcept;

private:
  using entry = std::pair<std::string, statement>;
  sqlite3* db_ = nullptr;
  std::list<entry> recent_; // most recently used first
  std::unordered_map<std::string_view, std::list<entry>::iterator> by_text_;
};

} // namespace swarm::sqlite
