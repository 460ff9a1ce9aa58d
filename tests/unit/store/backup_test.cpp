#include <doctest/doctest.h>

#include <fstream>

#include <sqlite3.h>

#include "actors/base/limits.hpp"
#include "actors/store/backup.hpp"
#include "tests/unit/store/store_fixture.hpp"

using namespace swarm;
using namespace swarm::test;

TEST_CASE("a store made by a newer program is refused with both versions named, and left alone") {
  scratch_dir dir;
  manual_clock clock;
  { ledger{dir.file(), options_for(clock)}; }
  {
    sqlite::connection db{dir.file(), {}};
    db.run("PRAGMA user_version=99");
  }
  try {
    ledger book{dir.file(), options_for(clock)};
    FAIL("opened a newer store");
  } catch (const store_error& e) {
    CHECK(e.code() == errc::newer_schema);
    std::string text = e.what();
    CHECK(text.find("99") != std::string::npos);
    CHECK(text.find(std::to_string(schema_version())) != std::string::npos);
  }
  sqlite::connection db{dir.file(), {}};
  CHECK(stored_schema_version(db) == 99);
  CHECK_THROWS_AS(require_schema(db), store_error);
}

TEST_CASE("an older store is brought forward step by step and a failing step leaves the version before it") {
  sqlite::connection db{":memory:", {}};
  std::vector<const char*> steps{"CREATE TABLE t(a INTEGER NOT NULL) STRICT; INSERT INTO t VALUES(1)"};
  migrate(db, steps);
  CHECK(stored_schema_version(db) == 1);
  steps.push_back("ALTER TABLE t ADD COLUMN b INTEGER NOT NULL DEFAULT 7");
  steps.push_back("UPDATE t SET a=2; INSERT INTO missing VALUES(1)");
  CHECK_THROWS_AS(migrate(db, steps), sqlite::error);
  CHECK(stored_schema_version(db) == 2);
  CHECK(db.number("SELECT a*10+b FROM t") == 17);
  steps.back() = "UPDATE t SET a=3";
  migrate(db, steps);
  CHECK(stored_schema_version(db) == 3);
  CHECK(db.number("SELECT a*10+b FROM t") == 37);
}

TEST_CASE("a connection that only reads wants the current schema and cannot write") {
  scratch_dir dir;
  manual_clock clock;
  {
    sqlite::connection empty{dir.file("empty.db"), {}};
    CHECK_THROWS_AS(require_schema(empty), store_error);
  }
  ledger book{dir.file(), options_for(clock)};
  sqlite::connection db{dir.file(), {.query_only = true, .create = false, .vfs = {}, .cache_kib = 1024}};
  CHECK_NOTHROW(require_schema(db));
  CHECK_THROWS_AS(set_fact(db, "node_id", "x"), sqlite::error);
}

TEST_CASE("the statement cache is bounded and its statements survive what pushes others out") {
  sqlite::connection db{":memory:", {}};
  for (std::size_t i = 0; i < limits::statements_cached_max * 2; ++i)
    CHECK(db.number("SELECT " + std::to_string(i)) == static_cast<std::int64_t>(i));
  CHECK(db.number("SELECT 0") == 0);
}

TEST_CASE("a backup of a live store is one snapshot, private, and a node started on it raises its fences") {
  scratch_dir dir;
  manual_clock clock;
  ledger book{dir.file(), options_for(clock)};
  auto request = numbered(1, set_kv("k", std::string(50'000, 'v')));
  auto before = reply_to(book, request);
  book.catch_up();
  sqlite::connection source{dir.file(), {.query_only = true, .create = false, .vfs = {}, .cache_kib = 1024}};

  auto size = backup_to(source, dir.file("copy.db"));
  CHECK(size == std::filesystem::file_size(dir.file("copy.db")));
  CHECK_FALSE(std::filesystem::exists(dir.file("copy.db-wal")));
  CHECK((std::filesystem::status(dir.file("copy.db")).permissions() & std::filesystem::perms::mask) ==
        (std::filesystem::perms::owner_read | std::filesystem::perms::owner_write));
  CHECK_FALSE(source.in_transaction());
  auto after = reply_to(book, numbered(2, set_kv("later", "v")));
  CHECK(after.has_kv_written());

  ledger restored{dir.file("copy.db"), options_for(clock)};
  auto again = reply_to(restored, request);
  CHECK(again.repeated());
  CHECK(first_form(again) == first_form(before));
  auto next = reply_to(restored, numbered(2, set_kv("other", "v")));
  CHECK(next.revision() > after.revision());
  CHECK((next.revision() >> limits::epoch_shift) == (before.revision() >> limits::epoch_shift) + 1);
  sqlite::connection copy{dir.file("copy.db"), {}};
  CHECK(check_integrity(copy, true) == "ok");
  CHECK_FALSE(sqlite_rows{copy}.row<v1::KvEntry>(domain::key("build", "later")));
}

TEST_CASE("a backup of a store that a crash left has what was answered and is only in its commit log, and leaves that store as it is") {
  scratch_dir dir, crashed;
  manual_clock clock;
  ledger book{dir.file(), options_for(clock)};
  reply_to(book, numbered(1, set_kv("caught-up", "v")));
  book.catch_up();
  auto request = numbered(2, set_kv("logged", "v"));
  auto answered = reply_to(book, request);
  REQUIRE(book.behind());
  for (const auto* suffix : {"", "-wal", ".commits"})
    std::filesystem::copy_file(dir.file() + suffix, crashed.file() + suffix);
  {
    sqlite::connection left{crashed.file(), {.query_only = true, .create = false, .vfs = {}, .cache_kib = 1024}};
    CHECK(has_commit_log(left, crashed.file()));
  }
  backup_with_log(crashed.file(), crashed.file("copy.db"));
  std::size_t files = 0;
  for (const auto& file : std::filesystem::directory_iterator{crashed.path})
    files += file.path().filename().string().starts_with("copy.db");
  CHECK(files == 1);
  ledger restored{crashed.file("copy.db"), options_for(clock, 2)};
  CHECK(first_form(reply_to(restored, request)) == first_form(answered));
  CHECK((reply_to(restored, numbered(3, set_kv("k", "v"))).revision() >> limits::epoch_shift) == (answered.revision() >> limits::epoch_shift) + 1);
  ledger next{crashed.file(), options_for(clock, 3)};
  CHECK(reply_to(next, request).repeated());
  next.close();
  sqlite::connection closed{crashed.file(), {}};
  CHECK_FALSE(has_commit_log(closed, crashed.file()));
}

TEST_CASE("a backup never replaces a file and leaves none behind when it fails") {
  scratch_dir dir;
  manual_clock clock;
  ledger book{dir.file(), options_for(clock)};
  sqlite::connection source{dir.file(), {}};
  std::ofstream{dir.file("mine")} << "precious";
  try {
    backup_to(source, dir.file("mine"));
    FAIL("replaced a file");
  } catch (const store_error& e) {
    CHECK(e.code() == errc::invalid);
  }
  CHECK(std::filesystem::file_size(dir.file("mine")) == 8);
  CHECK_THROWS_AS(backup_to(source, dir.file("no/such/place")), store_error);
  source.run("BEGIN");
  CHECK_THROWS_AS(backup_to(source, dir.file("half")), store_error); // a transaction is open already
  source.run("ROLLBACK");
  CHECK_FALSE(std::filesystem::exists(dir.file("half")));
}

TEST_CASE("a full disk is named as such, without the statement that met it") {
  sqlite::connection db{":memory:", {}};
  auto text_of = [&](int code, sqlite3* of) -> std::string {
    try {
      sqlite::raise(code, of, "PRAGMA cache_size=-1024");
    } catch (const sqlite::disk_full& e) {
      return e.what();
    } catch (const sqlite::error&) {
      return "something else";
    }
  };
  CHECK(text_of(SQLITE_FULL, nullptr) == "the disk is full");
  CHECK(text_of(SQLITE_FULL, db.handle()) == "the disk is full");
  CHECK(text_of(SQLITE_IOERR_READ, db.handle()) == "something else");
  CHECK(text_of(SQLITE_CORRUPT, nullptr) == "something else");
}

TEST_CASE("what is wrong with a file is said without the statement that met it") {
  scratch_dir dir;
  std::ofstream{dir.file()} << "no database, and long enough to have a header that is read, which takes a hundred bytes of some text or other";
  try {
    sqlite::connection db{dir.file(), {}};
    FAIL("opened it");
  } catch (const sqlite::error& e) {
    CHECK(std::string{e.what()}.find("PRAGMA") == std::string::npos);
    CHECK(std::string{e.what()}.find("file is not a database") != std::string::npos);
  }
}

TEST_CASE("an integrity check names damage") {
  scratch_dir dir;
  manual_clock clock;
  {
    ledger book{dir.file(), options_for(clock)};
    reply_to(book, numbered(1, set_kv("k", "v")));
  }
  sqlite::connection db{dir.file(), {}};
  CHECK(check_integrity(db, false) == "ok");
  db.run("PRAGMA writable_schema=ON; DELETE FROM sqlite_schema WHERE name='kv_by_expiry'; PRAGMA writable_schema=OFF");
  sqlite::connection again{dir.file(), {}};
  CHECK(check_integrity(again, true) != "ok");
}
