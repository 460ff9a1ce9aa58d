#include <doctest/doctest.h>

#include "actors/domain/decide.hpp"
#include "tests/unit/store/store_fixture.hpp"

using namespace swarm;
using namespace swarm::test;

namespace {

struct book_fixture {
  scratch_dir dir;
  manual_clock clock;
  std::unique_ptr<ledger> book = open();

  std::unique_ptr<ledger> open() { return std::make_unique<ledger>(dir.file(), options_for(clock)); }
  void reopen() {
    book.reset();
    book = open();
  }
  std::string value(const std::string& key) {
    book->catch_up();
    sqlite::connection db{dir.file(), {}};
    auto row = sqlite_rows{db}.row<v1::KvEntry>(domain::key("build", key));
    return row ? row->value() : std::string{"(absent)"};
  }
};

} // namespace

TEST_CASE_FIXTURE(book_fixture, "a repeated request gets the first answer, also from the next process, and runs once") {
  auto request = numbered(1, create_kv("k", "first"));
  auto first = reply_to(*book, request);
  REQUIRE(first.has_kv_written());
  auto again = reply_to(*book, request);
  CHECK(again.repeated());
  CHECK(first_form(again) == first_form(first));
  reopen();
  auto later = reply_to(*book, request);
  CHECK(later.repeated());
  CHECK(first_form(later) == first_form(first));
}

TEST_CASE_FIXTURE(book_fixture, "a refusal is remembered even when the reason for it has gone") {
  reply_to(*book, numbered(1, create_kv("k", "taken")));
  auto refused = reply_to(*book, numbered(2, create_kv("k", "mine")));
  REQUIRE(refused.has_refusal());
  reply_to(*book, numbered(3, delete_kv("k")));
  reopen();
  auto again = reply_to(*book, numbered(2, create_kv("k", "mine")));
  CHECK(again.repeated());
  CHECK(first_form(again) == first_form(refused));
  CHECK(value("k") == "(absent)");
}

TEST_CASE_FIXTURE(book_fixture, "two copies of a request in one transaction run once") {
  auto request = numbered(1, create_kv("k", "v"));
  auto done = book->execute_all(std::vector<execution_ptr>{request, request});
  REQUIRE(done.outcomes.size() == 2);
  CHECK_FALSE(done.outcomes[0].reply->repeated());
  CHECK(done.outcomes[1].reply->repeated());
  CHECK(done.outcomes[1].reply->has_kv_written());
  CHECK(done.committed->batches.size() == 1);
}

TEST_CASE_FIXTURE(book_fixture, "a request id used again for another command is invalid and changes nothing") {
  reply_to(*book, numbered(1, set_kv("k", "one")));
  auto other = reply_to(*book, numbered(1, set_kv("k", "two")));
  CHECK(other.refusal().code() == v1::Refusal::INVALID);
  CHECK(other.refusal().text() == "request id was already used for another command");
  CHECK(value("k") == "one");
}

TEST_CASE_FIXTURE(book_fixture, "the same request id of another principal is another request") {
  reply_to(*book, numbered(1, register_session("session-a")));
  auto mine = session_command("session-a");
  mine.mutable_set_kv()->set_key("k");
  mine.mutable_set_kv()->set_value("of a");
  auto reply = reply_to(*book, numbered(1, mine));
  CHECK(reply.has_kv_written());
  CHECK_FALSE(reply.repeated());
}

TEST_CASE_FIXTURE(book_fixture, "what a server fills in does not make a repeated request another one") {
  auto cmd = register_session("session-a");
  auto elsewhere = cmd;
  elsewhere.mutable_register_session()->set_node_id("node-2");
  elsewhere.mutable_principal()->add_grants("extra");
  CHECK(domain::digest_of(cmd) == domain::digest_of(elsewhere));
  elsewhere.mutable_register_session()->set_label("other");
  CHECK(domain::digest_of(cmd) != domain::digest_of(elsewhere));
}

TEST_CASE_FIXTURE(book_fixture, "acknowledged replies go and their ids are refused as stale, never run again") {
  auto last = reply_memory::ack_stride + 2;
  for (std::uint64_t seq = 1; seq < last; ++seq)
    reply_to(*book, numbered(seq, set_kv("k", std::to_string(seq))));
  reply_to(*book, numbered(last, set_kv("k", "last"), "client-aa", last));
  for (int round = 0; round < 2; ++round) {
    auto old = reply_to(*book, numbered(1, set_kv("k", "1")));
    CHECK(old.refusal().code() == v1::Refusal::STALE);
    CHECK_FALSE(old.repeated());
    CHECK(value("k") == "last");
    reopen();
  }
  CHECK(reply_to(*book, numbered(last, set_kv("k", "last"))).repeated());
}

TEST_CASE_FIXTURE(book_fixture, "beyond a principal's share the oldest replies are evicted and their ids refused") {
  std::vector<execution_ptr> all;
  for (std::uint64_t seq = 1; seq <= limits::replies_per_principal_max() + 1; ++seq)
    all.push_back(numbered(seq, delete_kv("none")));
  book->execute_all(all);
  book->catch_up();
  sqlite::connection db{dir.file(), {}};
  CHECK(db.number("SELECT count(*) FROM replies") <= static_cast<std::int64_t>(limits::replies_per_principal_max()));
  CHECK(reply_to(*book, all.front()).refusal().code() == v1::Refusal::STALE);
  CHECK(reply_to(*book, all.back()).repeated());
  reopen(); // counts are loaded again
  all.clear();
  for (std::uint64_t seq = 1; seq <= 200; ++seq)
    all.push_back(numbered(seq, delete_kv("none"), "client-bb"));
  book->execute_all(all);
  book->catch_up();
  CHECK(db.number("SELECT count(*) FROM replies") <= static_cast<std::int64_t>(limits::replies_per_principal_max()));
}

TEST_CASE_FIXTURE(book_fixture, "replies are forgotten after their retention, a few with every commit") {
  reply_to(*book, numbered(1, set_kv("k", "v")));
  clock.advance(limits::reply_retention());
  CHECK(reply_to(*book, numbered(1, set_kv("k", "v"))).repeated());
  clock.advance(std::chrono::seconds{1}); // it looks once a second
  reply_to(*book, from_node(set_kv("other", "v")));
  book->catch_up();
  {
    sqlite::connection db{dir.file(), {}};
    CHECK(db.number("SELECT count(*) FROM replies") == 0);
  }
  // What was forgotten is not run again, also after a restart.
  CHECK(reply_to(*book, numbered(1, set_kv("k", "v"))).refusal().code() == v1::Refusal::STALE);
  reopen();
  CHECK(reply_to(*book, numbered(1, set_kv("k", "v"))).refusal().code() == v1::Refusal::STALE);
  CHECK(reply_to(*book, numbered(2, set_kv("k", "v"))).has_kv_written());
}

TEST_CASE_FIXTURE(book_fixture, "the node's own commands are not remembered") {
  CHECK(reply_to(*book, from_node(set_kv("k", "v"))).has_kv_written());
  auto again = reply_to(*book, from_node(set_kv("k", "v")));
  CHECK(again.has_kv_written());
  CHECK_FALSE(again.repeated());
  book->catch_up();
  sqlite::connection db{dir.file(), {}};
  CHECK(db.number("SELECT count(*) FROM replies") == 0);
}

TEST_CASE_FIXTURE(book_fixture, "a malformed request id is invalid") {
  CHECK(reply_to(*book, numbered(0, set_kv("k", "v"))).refusal().code() == v1::Refusal::INVALID);
  CHECK(reply_to(*book, numbered(~0ull, set_kv("k", "v"))).refusal().code() == v1::Refusal::INVALID);
  CHECK(reply_to(*book, numbered(1, set_kv("k", "v"), std::string(65, 'c'))).refusal().code() == v1::Refusal::INVALID);
  CHECK(value("k") == "(absent)");
}

TEST_CASE_FIXTURE(book_fixture, "a damaged row refuses the command that reads it and no other of the transaction") {
  reply_to(*book, numbered(1, set_kv("bad", "v")));
  book->catch_up();
  {
    sqlite::connection db{dir.file(), {}};
    db.run("UPDATE kv SET body=x'ff' WHERE name='bad'");
  }
  reopen(); // it knows by heart what it has written
  auto done =
    book->execute_all(std::vector<execution_ptr>{numbered(2, set_kv("a", "1")), numbered(3, set_kv("bad", "2")), numbered(4, set_kv("b", "3"))});
  CHECK(done.outcomes[0].reply->has_kv_written());
  CHECK(done.outcomes[1].reply->refusal().code() == v1::Refusal::UNAVAILABLE);
  CHECK(done.outcomes[2].reply->has_kv_written());
  CHECK(done.committed->batches.size() == 2);
  CHECK(value("a") == "1");
  CHECK(value("b") == "3");
}

TEST_CASE_FIXTURE(book_fixture, "a command whose writes break a constraint half-way leaves nothing behind") {
  {
    sqlite::connection db{dir.file(), {}};
    // The row goes in before the event, which this makes fail.
    db.run("CREATE TRIGGER no_event BEFORE INSERT ON events WHEN new.subject='broken' BEGIN SELECT raise(ABORT, 'planted'); END");
  }
  auto done =
    book->execute_all(std::vector<execution_ptr>{numbered(1, set_kv("a", "1")), numbered(2, set_kv("broken", "2")), numbered(3, set_kv("b", "3"))});
  CHECK(done.outcomes[1].reply->has_refusal());
  CHECK(value("a") == "1");
  CHECK(value("broken") == "(absent)");
  CHECK(value("b") == "3");
  CHECK(done.outcomes[2].reply->revision() == done.outcomes[0].reply->revision() + 1);
}

TEST_CASE_FIXTURE(book_fixture, "what is answered but not caught up with survives a command that has to be taken back") {
  {
    sqlite::connection db{dir.file(), {}};
    db.run("CREATE TRIGGER no_event BEFORE INSERT ON events WHEN new.subject='broken' BEGIN SELECT raise(ABORT, 'planted'); END");
  }
  auto before = numbered(1, set_kv("a", "1"));
  auto first = reply_to(*book, before);
  REQUIRE(first.has_kv_written());
  REQUIRE(book->behind());
  CHECK(reply_to(*book, numbered(2, set_kv("broken", "2"))).has_refusal());
  auto again = reply_to(*book, before);
  CHECK(again.repeated());
  CHECK(first_form(again) == first_form(first));
  CHECK(reply_to(*book, numbered(3, set_kv("b", "3"))).revision() == first.revision() + 1);
  CHECK(value("a") == "1");
  CHECK(value("broken") == "(absent)");
}

TEST_CASE_FIXTURE(book_fixture, "when the tables refuse a row that is written late, everything else that was answered stays") {
  reply_to(*book, numbered(1, register_session("session-a")));
  book->catch_up();
  {
    sqlite::connection db{dir.file(), {}};
    db.run("CREATE TRIGGER no_lock BEFORE INSERT ON locks WHEN new.path='/src/broken' BEGIN SELECT raise(ABORT, 'planted'); END");
  }
  REQUIRE(reply_to(*book, numbered(1, acquire("session-a", "/src/f"))).has_lock());
  REQUIRE(reply_to(*book, numbered(2, acquire("session-a", "/src/broken"))).has_lock());
  auto last = numbered(2, set_kv("k", "v"));
  auto answered = reply_to(*book, last);
  CHECK(value("k") == "v");
  auto paths = [&] {
    std::vector<std::string> out;
    sqlite::connection db{dir.file(), {}};
    for (const auto& l : sqlite_rows{db}.rows<v1::Lock>({.scope = "build"}))
      out.push_back(l.path());
    return out;
  };
  CHECK(paths() == std::vector<std::string>{"/src/f"});
  CHECK(first_form(reply_to(*book, last)) == first_form(answered));
  // The writer knows that it is missing, too.
  CHECK(reply_to(*book, numbered(3, release("session-a", "/src/broken"))).lock().released() == false);
  CHECK(reply_to(*book, numbered(4, release("session-a", "/src/f"))).lock().released());
  book->catch_up();
  CHECK(paths().empty());
}

TEST_CASE_FIXTURE(book_fixture, "an answer that was given stays the answer, and its fence is not given again, though the tables refuse its row") {
  reply_to(*book, numbered(1, register_session("session-a")));
  book->catch_up();
  {
    sqlite::connection db{dir.file(), {}};
    db.run("CREATE TRIGGER no_lock BEFORE INSERT ON locks WHEN new.path='/src/broken' BEGIN SELECT raise(ABORT, 'planted'); END");
  }
  auto request = numbered(1, acquire("session-a", "/src/broken"));
  auto answered = reply_to(*book, request);
  REQUIRE(answered.has_lock());
  book->catch_up();
  auto again = reply_to(*book, request);
  CHECK(again.repeated());
  CHECK(first_form(again) == first_form(answered));
  auto next = reply_to(*book, numbered(2, acquire("session-a", "/src/f")));
  CHECK(next.lock().lock().fence() > answered.lock().lock().fence());
  CHECK(next.revision() > answered.revision());
}

TEST_CASE_FIXTURE(book_fixture, "a ledger that ends without a word leaves what it answered to the next one") {
  scratch_dir copy;
  auto request = numbered(1, create_kv("k", "v"));
  auto refused = numbered(2, create_kv("k", "other"));
  auto first = reply_to(*book, request);
  auto no = reply_to(*book, refused);
  REQUIRE(no.has_refusal());
  REQUIRE(book->behind());
  for (const auto* suffix : {"", "-wal", ".commits"})
    std::filesystem::copy_file(dir.file() + suffix, copy.file() + suffix);
  ledger next{copy.file(), options_for(clock, 2)};
  CHECK(first_form(reply_to(next, request)) == first_form(first));
  CHECK(first_form(reply_to(next, refused)) == first_form(no));
  // Not twice: the log started over.
  for (const auto* suffix : {"", "-wal", ".commits"})
    std::filesystem::copy_file(copy.file() + suffix, copy.file("later.db") + suffix, std::filesystem::copy_options::overwrite_existing);
  ledger after{copy.file("later.db"), options_for(clock, 3)};
  CHECK(reply_to(after, numbered(3, create_kv("k", "again"))).has_refusal());
}

TEST_CASE_FIXTURE(book_fixture, "a full commit log starts over, and nothing that was in it is lost") {
  auto big = std::string(100 * limits::kib, 'x');
  auto rounds = 2 * limits::commit_log_bytes_max() / big.size();
  for (std::uint64_t i = 1; i <= rounds; ++i)
    REQUIRE(reply_to(*book, numbered(i, set_kv("k" + std::to_string(i), big), "client-aa", i)).has_kv_written());
  CHECK(std::filesystem::file_size(dir.file() + ".commits") <= limits::commit_log_bytes_max() + 512 * limits::kib);
  scratch_dir copy;
  for (const auto* suffix : {"", "-wal", ".commits"})
    std::filesystem::copy_file(dir.file() + suffix, copy.file() + suffix);
  ledger next{copy.file(), options_for(clock, 2)};
  next.catch_up();
  sqlite::connection db{copy.file(), {}};
  CHECK(db.number("SELECT count(*) FROM kv") == static_cast<std::int64_t>(rounds));
  CHECK(reply_to(next, numbered(rounds, set_kv("k" + std::to_string(rounds), big), "client-aa", rounds)).repeated());
}

TEST_CASE_FIXTURE(book_fixture, "other connections see what was answered once the ledger has caught up") {
  auto options = options_for(clock, 2);
  options.barrier = std::make_shared<read_barrier>();
  CHECK_FALSE(options.barrier->open());
  scratch_dir other;
  ledger watched{other.file(), options};
  CHECK(options.barrier->open());
  reply_to(watched, numbered(1, set_kv("k", "v")));
  CHECK_FALSE(options.barrier->open());
  watched.catch_up();
  CHECK(options.barrier->open());
  sqlite::connection db{other.file(), {}};
  CHECK(db.number("SELECT count(*) FROM kv") == 1);
}

TEST_CASE_FIXTURE(book_fixture, "a waiter's remembered answer is replaced when its wait ends") {
  reply_to(*book, numbered(1, register_session("session-a")));
  reply_to(*book, numbered(2, register_session("session-b")));
  REQUIRE(reply_to(*book, numbered(1, acquire("session-a", "/src/f"))).has_lock());
  auto waits = numbered(1, acquire("session-b", "/src/f", 60'000));
  REQUIRE(reply_to(*book, waits).has_lock_waiting());
  CHECK(reply_to(*book, waits).has_lock_waiting());
  REQUIRE_FALSE(reply_to(*book, numbered(2, release("session-a", "/src/f"))).has_refusal());
  reopen();
  auto granted = reply_to(*book, waits);
  CHECK(granted.repeated());
  REQUIRE(granted.has_lock());
  CHECK(granted.lock().lock().session_id() == "session-b");
}

TEST_CASE_FIXTURE(book_fixture, "a session that stands in line keeps its place however many others ask meanwhile") {
  reply_to(*book, numbered(1, register_session("session-a")));
  reply_to(*book, numbered(2, register_session("session-b")));
  REQUIRE(reply_to(*book, numbered(3, acquire("session-a", "/src/f"))).has_lock());
  auto waits = numbered(1, acquire("session-b", "/src/f", 60'000), "client-of-b");
  REQUIRE(reply_to(*book, waits).has_lock_waiting());
  // The same principal, other clients: as many command lines do.
  for (std::uint64_t i = 0; i < limits::replies_per_principal_max() + 100; i += 50) {
    std::vector<execution_ptr> others;
    for (int k = 0; k < 50; ++k) {
      auto cmd = delete_kv("none");
      *cmd.mutable_principal() = waits->command.principal();
      cmd.set_actor(waits->command.actor());
      others.push_back(numbered(1, cmd, "other-" + std::to_string(i) + "-" + std::to_string(k)));
    }
    book->execute_all(others);
  }
  CHECK(reply_to(*book, waits).has_lock_waiting());
  REQUIRE_FALSE(reply_to(*book, numbered(4, release("session-a", "/src/f"))).has_refusal());
  CHECK(reply_to(*book, waits).lock().lock().session_id() == "session-b");
}

TEST_CASE("growth is refused on a low disk, everything on a critical one, and neither refusal is remembered") {
  scratch_dir dir;
  manual_clock clock;
  auto free_bytes = plenty;
  auto probes = 0;
  auto options = options_for(clock);
  options.free_disk_bytes = [&] { return ++probes, free_bytes; };
  ledger book{dir.file(), options};
  auto first = numbered(1, set_kv("k", "v"));
  CHECK(one(book, first).reply);
  CHECK(one(book, numbered(2, set_kv("k", "w"))).reply);
  CHECK(probes == 1);

  free_bytes = limits::disk_low_bytes() - 1;
  clock.advance(std::chrono::seconds{1});
  auto refused = numbered(3, set_kv("k", "x"));
  CHECK(one(book, refused).error == errc::low_disk);
  CHECK(one(book, numbered(4, delete_kv("k"))).reply);
  CHECK(one(book, first).reply->repeated());
  CHECK(book.status().low_disk);

  free_bytes = limits::disk_critical_bytes() - 1;
  clock.advance(std::chrono::seconds{1});
  CHECK(one(book, numbered(5, delete_kv("k"))).error == errc::low_disk);
  CHECK(book.status().critical_disk);

  free_bytes = plenty;
  clock.advance(std::chrono::seconds{1});
  auto late = one(book, refused);
  REQUIRE(late.reply);
  CHECK(late.reply->has_kv_written());
  CHECK_FALSE(late.reply->repeated());
  CHECK(probes == 4);
}

TEST_CASE("a disk that fills while no command comes is low in the status, and has space again there") {
  scratch_dir dir;
  manual_clock clock;
  auto free_bytes = plenty;
  auto options = options_for(clock);
  options.free_disk_bytes = [&] { return free_bytes; };
  ledger book{dir.file(), options};
  CHECK_FALSE(book.status().low_disk);
  free_bytes = limits::disk_low_bytes() - 1;
  clock.advance(std::chrono::seconds{1});
  CHECK(book.status().low_disk);
  free_bytes = plenty;
  clock.advance(std::chrono::seconds{1});
  CHECK_FALSE(book.status().low_disk);
}

TEST_CASE_FIXTURE(book_fixture, "a clean stop is told from a crash, and the file is private") {
  CHECK(book->was_clean());
  reopen();
  CHECK(book->was_clean());
  scratch_dir copy;
  reply_to(*book, numbered(1, set_kv("k", "v")));
  for (const auto* suffix : {"", "-wal", ".commits"})
    std::filesystem::copy_file(dir.file() + suffix, copy.file() + suffix);
  ledger crashed{copy.file(), options_for(clock)};
  CHECK_FALSE(crashed.was_clean());
  CHECK(crashed.status().integrity == "unchecked");
  CHECK(reply_to(crashed, numbered(1, set_kv("k", "v"))).repeated());
  CHECK((std::filesystem::status(dir.file()).permissions() & std::filesystem::perms::mask) ==
        (std::filesystem::perms::owner_read | std::filesystem::perms::owner_write));
}
