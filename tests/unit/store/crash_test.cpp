// Power cuts and failing disks, at every single operation of a scripted workload.
#include <doctest/doctest.h>

#include <set>

#include "tests/support/fault_vfs.hpp"
#include "tests/unit/store/store_fixture.hpp"

using namespace swarm;
using namespace swarm::test;

namespace {

/// The transactions of the workload, each a group of commands.
std::vector<std::vector<execution_ptr>> workload() {
  std::vector<std::vector<execution_ptr>> script;
  script.push_back({numbered(1, register_session("session-a")), numbered(2, register_session("session-b"))});
  script.push_back({numbered(3, create_task("one", "key-1"))});
  script.push_back({numbered(1, acquire("session-a", "/src/f")), numbered(1, acquire("session-b", "/src/f")), numbered(4, set_kv("k", "1"))});
  script.push_back(
    {numbered(2, acquire("session-b", "/src/f", 60'000)), numbered(3, send_message("session-a", "session-b", std::string(9'000, 'm')))});
  script.push_back({numbered(4, release("session-a", "/src/f"))});
  script.push_back(
    {numbered(5, create_kv("k", "refused")), numbered(6, create_kv("fresh", std::string(20'000, 'v'))), numbered(7, create_task("two"))});
  script.push_back({numbered(8, create_task("again", "key-1")), numbered(9, delete_kv("k"), "client-aa", 8)});
  return script;
}

struct promise_made {
  execution_ptr command;
  std::string reply;
  bool waiting;
};

/// Runs the script until something fails; what was answered by then is what was promised.
std::vector<promise_made> run(ledger& book, const std::vector<std::vector<execution_ptr>>& script) {
  std::vector<promise_made> promised;
  for (const auto& group : script) {
    try {
      auto done = book.execute_all(group);
      for (std::size_t i = 0; i < group.size(); ++i)
        promised.push_back({group[i], first_form(*done.outcomes[i].reply), done.outcomes[i].reply->has_lock_waiting()});
      // In the middle a reader asks: then the database has a part of what the log has.
      if (&group == &script[script.size() / 2])
        book.catch_up();
    } catch (const store_error&) {
      return promised;
    }
  }
  return promised;
}

void check_promises(ledger& book, const std::vector<promise_made>& promised) {
  for (const auto& p : promised) {
    auto again = reply_to(book, p.command);
    CHECK(again.repeated());
    if (!p.waiting) // a wait may have ended since
      CHECK(first_form(again) == p.reply);
  }
}

/// Rows, events and replies of a command stand or fall together.
void check_consistent(const fault_vfs& disk, const std::string& path) {
  sqlite::connection db{path, {.query_only = false, .create = true, .vfs = disk.name(), .cache_kib = 1024}};
  auto ok = db.prepared("PRAGMA integrity_check").use();
  REQUIRE(ok.step());
  CHECK(ok.view_at(0) == "ok");
  sqlite_rows rows{db};
  auto state = rows.row<v1::ScopeState>("build");
  auto events = rows.events("build", 0, 0);
  CHECK((state ? state->revision() : 0) == (events.empty() ? 0 : events.back().revision()));
  for (std::size_t i = 1; i < events.size(); ++i)
    CHECK(events[i].revision() == events[i - 1].revision() + 1);
  CHECK(rows.total<v1::Task>({.scope = "build", .idempotency_key = "key-1"}) <= 1);
  CHECK(rows.total<v1::Lock>({.scope = "build"}) <= 1);
}

/// What the store holds, without what depends on time and chance.
std::string summary(const fault_vfs& disk, const std::string& path) {
  sqlite::connection db{path, {.query_only = false, .create = true, .vfs = disk.name(), .cache_kib = 1024}};
  sqlite_rows rows{db};
  std::string out;
  for (const auto& lock : rows.rows<v1::Lock>({}))
    out += "lock " + lock.path() + " " + lock.session_id() + "\n";
  for (const auto& waiter : rows.rows<v1::LockWaiter>({}))
    out += "waiter " + waiter.path() + " " + waiter.session_id() + "\n";
  for (const auto& entry : rows.rows<v1::KvEntry>({}))
    out += "kv " + entry.key() + " " + std::to_string(entry.value().size()) + "\n";
  std::set<std::string> titles; // their order depends on their ids
  for (const auto& task : rows.rows<v1::Task>({}))
    titles.insert(task.title());
  for (const auto& title : titles)
    out += "task " + title + "\n";
  out += "tasks " + std::to_string(rows.total<v1::Task>({})) + "\n";
  out += "messages " + std::to_string(rows.total<v1::Message>({})) + "\n";
  out += "revision " + std::to_string(rows.row<v1::ScopeState>("build")->revision()) + "\n";
  return out;
}

const std::string path = "/store.db";

/// `life` counts the openings of one disk: no two of them may make the same ids.
ledger_options faulty(const fault_vfs& disk, const clock_port& clock, std::uint64_t life = 1) {
  auto options = options_for(clock, life);
  options.vfs = disk.name();
  return options;
}

struct measured {
  std::uint64_t operations = 0;
  std::uint64_t syncs = 0;
  std::string summary;
};

measured undisturbed() {
  fault_vfs disk;
  manual_clock clock;
  measured m;
  {
    ledger book{path, faulty(disk, clock)};
    auto promised = run(book, workload());
    REQUIRE(promised.size() == 14);
    for (const auto& p : promised)
      CHECK(!p.reply.empty());
    book.close();
    m.operations = disk.operations();
    m.syncs = disk.syncs();
  }
  m.summary = summary(disk, path);
  return m;
}

/// Opens, runs and closes; the fault may strike anywhere in it.
std::vector<promise_made> live_through(fault_vfs& disk, const manual_clock& clock) {
  try {
    ledger book{path, faulty(disk, clock)};
    return run(book, workload());
  } catch (const store_error&) {
    return {};
  }
}

void check_recovery(fault_vfs& disk, const manual_clock& clock, const std::vector<promise_made>& promised, const measured& whole) {
  {
    ledger book{path, faulty(disk, clock, 2)};
    check_promises(book, promised);
  }
  check_consistent(disk, path);
  std::vector<promise_made> all;
  {
    // Clients that heard nothing send everything again: each command happens exactly once in all.
    ledger book{path, faulty(disk, clock, 3)};
    all = run(book, workload());
    CHECK(all.size() == 14);
    disk.cut_power_at(disk.operations() + 1);
  }
  disk.reboot();
  {
    ledger book{path, faulty(disk, clock, 4)};
    check_promises(book, all);
  }
  check_consistent(disk, path);
  CHECK(summary(disk, path) == whole.summary);
}

} // namespace

namespace {

/// At each write and sync in turn. `torn`: what is written just then arrives in part, each time another one; 0 = not at all.
void cut_power_everywhere(std::uint64_t torn) {
  auto whole = undisturbed();
  REQUIRE(whole.operations > 30);
  for (std::uint64_t k = 1; k <= whole.operations; ++k) {
    CAPTURE(k);
    fault_vfs disk;
    manual_clock clock;
    if (torn != 0)
      disk.tear(torn * 1'000 + k);
    disk.cut_power_at(k);
    auto promised = live_through(disk, clock);
    REQUIRE_FALSE(disk.powered());
    disk.reboot();
    check_recovery(disk, clock, promised, whole);
  }
}

} // namespace

// One test each: they run side by side.
TEST_CASE("a power cut at any write or sync loses nothing that was answered and leaves nothing half-done") { cut_power_everywhere(0); }
TEST_CASE("a power cut that tears any write loses nothing that was answered and leaves nothing half-done") { cut_power_everywhere(1); }
TEST_CASE("a power cut that tears any write elsewhere loses nothing that was answered and leaves nothing half-done") { cut_power_everywhere(2); }

TEST_CASE("a failed sync ends the ledger, loses nothing that was answered, and is not tried again in place") {
  auto whole = undisturbed();
  REQUIRE(whole.syncs > 7);
  for (std::uint64_t k = 1; k <= 2 * whole.syncs; ++k) {
    auto machine_stops = k % 2 == 0; // else the process lives on and opens the store again
    CAPTURE(k);
    fault_vfs disk;
    manual_clock clock;
    disk.fail_sync_at((k + 1) / 2);
    std::vector<promise_made> promised;
    try {
      ledger book{path, faulty(disk, clock)};
      promised = run(book, workload());
      if (promised.size() < 14) {
        auto before = disk.operations();
        CHECK_THROWS_AS(book.execute_all(workload().back()), store_error);
        CHECK(disk.operations() == before);
      }
    } catch (const store_error&) {
      CHECK(promised.empty());
    }
    if (machine_stops)
      disk.reboot();
    check_recovery(disk, clock, promised, whole);
  }
}

TEST_CASE("a disk that fills up ends the ledger and loses nothing that was answered") {
  auto whole = undisturbed();
  for (std::uint64_t k = 1; k <= whole.operations; k += 3) {
    CAPTURE(k);
    fault_vfs disk;
    manual_clock clock;
    disk.fill_disk_at(k);
    auto promised = live_through(disk, clock);
    disk.reboot();
    check_recovery(disk, clock, promised, whole);
  }
}

TEST_CASE("a start with a log to replay that fails at any write or sync loses nothing, and the next one does it") {
  auto whole = undisturbed();
  enum class fault { power, sync, space };
  // A first life that ends with answers the database has not; what is done to the second one is said to the disk then.
  auto first_life = [](fault_vfs& disk, const manual_clock& clock) {
    std::vector<promise_made> promised;
    {
      ledger book{path, faulty(disk, clock)};
      promised = run(book, workload());
      disk.cut_power_at(disk.operations() + 1);
    }
    disk.reboot();
    return promised;
  };
  auto second_start = [](fault_vfs& disk, const manual_clock& clock) {
    try {
      ledger book{path, faulty(disk, clock, 2)};
      disk.cut_power_at(disk.operations() + 1); // it has started: no clean end
      return true;
    } catch (const store_error&) {
      return false;
    }
  };
  std::uint64_t operations = 0, syncs = 0;
  {
    fault_vfs disk;
    manual_clock clock;
    first_life(disk, clock);
    auto before = disk.operations(), syncs_before = disk.syncs();
    REQUIRE(second_start(disk, clock));
    operations = disk.operations() - before;
    syncs = disk.syncs() - syncs_before;
  }
  REQUIRE(operations > 10);
  REQUIRE(syncs > 2);
  auto failed = 0;
  for (auto kind : {fault::power, fault::sync, fault::space})
    for (std::uint64_t k = 1; k <= (kind == fault::sync ? syncs : operations); ++k) {
      CAPTURE(static_cast<int>(kind));
      CAPTURE(k);
      fault_vfs disk;
      manual_clock clock;
      auto promised = first_life(disk, clock);
      REQUIRE(promised.size() == 14);
      switch (kind) {
        case fault::power: disk.cut_power_at(disk.operations() + k); break;
        case fault::sync: disk.fail_sync_at(disk.syncs() + k); break;
        case fault::space: disk.fill_disk_at(disk.operations() + k); break;
      }
      failed += second_start(disk, clock) ? 0 : 1;
      disk.reboot();
      check_recovery(disk, clock, promised, whole);
    }
  CHECK(failed > 10);
}
