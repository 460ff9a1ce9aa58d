#include <doctest/doctest.h>

#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/runtime/defaults.hpp"
#include "actors/store/reader.hpp"
#include "actors/store/writer.hpp"
#include "tests/support/fault_vfs.hpp"
#include "tests/support/sim_world.hpp"
#include "tests/unit/store/store_fixture.hpp"

using namespace swarm;
using namespace swarm::test;

namespace {

using store_world = world<caf::id_block::swarm_store>;

/// Who heard what, in order.
using journal = std::shared_ptr<std::vector<std::string>>;

struct nothing {};

commit_sink_actor::behavior_type sink(commit_sink_actor::stateful_pointer<nothing> self, journal heard) {
  runtime::install_defaults(self);
  return {[heard](const commit_ptr& c) { heard->push_back("commit of " + std::to_string(c->batches.size())); }};
}

/// Sends its commands in one go and notes each answer.
caf::behavior caller(caf::event_based_actor* self, writer_actor to, std::vector<execution_ptr> commands, journal heard) {
  runtime::install_defaults(self);
  for (const auto& c : commands)
    self->request(to, std::chrono::seconds{30}, c)
      .then([heard](const reply_ptr& r) { heard->push_back(r->has_refusal() ? "refused" : "done"); },
            [heard](const caf::error& e) {
              heard->push_back(e == errc::unknown_outcome ? "unknown" : e == errc::low_disk ? "low disk" : e == errc::invalid ? "invalid" : "error");
            });
  return {[](int) {}};
}

writer_options writing(const std::string& path, const clock_port& clock, commit_sink_actor to = {}) {
  return {path, options_for(clock), std::move(to)};
}

reader_options reading(const std::string& path, const clock_port& clock) {
  reader_options o;
  o.path = path;
  o.clock = &clock;
  o.node_id = "node-1";
  o.user_identity = "user:test";
  return o;
}

std::uint64_t counted(const std::vector<std::string>& heard, const std::string& what) {
  return static_cast<std::uint64_t>(std::count(heard.begin(), heard.end(), what));
}

} // namespace

TEST_CASE("commands that wait together share one transaction, and watchers hear of it before the callers") {
  scratch_dir dir;
  store_world w;
  auto heard = std::make_shared<std::vector<std::string>>();
  auto to = w.sys.spawn(sink, heard);
  auto store = w.sys.spawn(writer, writing(dir.file(), w.clock, to));
  std::vector<execution_ptr> commands;
  for (std::uint64_t seq = 1; seq <= 10; ++seq)
    commands.push_back(numbered(seq, create_kv("k" + std::to_string(seq % 5), "v")));
  w.sys.spawn(caller, store, commands, heard);
  w.settle();
  auto status = w.ask<store_status_ptr>(store, status_atom_v);
  REQUIRE(status);
  CHECK(std::get<0>(*status)->commits == 1);
  CHECK(std::get<0>(*status)->commands == 10);
  REQUIRE(heard->size() == 11);
  CHECK(heard->front() == "commit of 5");
  CHECK(counted(*heard, "done") == 5);
  CHECK(counted(*heard, "refused") == 5);
  w.end(store);
}

TEST_CASE("a line longer than one transaction takes is worked off in several") {
  scratch_dir dir;
  store_world w;
  auto heard = std::make_shared<std::vector<std::string>>();
  auto store = w.sys.spawn(writer, writing(dir.file(), w.clock));
  std::vector<execution_ptr> commands;
  for (std::uint64_t i = 0; i < limits::writer_batch_commands_max() + 1; ++i)
    commands.push_back(from_node(delete_kv("none")));
  w.sys.spawn(caller, store, commands, heard);
  w.settle();
  CHECK(heard->size() == commands.size());
  auto status = w.ask<store_status_ptr>(store, status_atom_v);
  REQUIRE(status);
  CHECK(std::get<0>(*status)->commits == 2);
  w.end(store);
}

TEST_CASE("when the file fails every caller hears that the outcome is unknown, and the writer ends") {
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    CAPTURE(seed);
    fault_vfs disk;
    store_world w{seed};
    auto heard = std::make_shared<std::vector<std::string>>();
    auto options = writing("/store.db", w.clock, w.sys.spawn(sink, heard));
    options.ledger.vfs = disk.name();
    auto store = w.sys.spawn(writer, options);
    w.settle();
    disk.fail_sync_at(disk.syncs() + 1);
    w.sys.spawn(caller, store, std::vector<execution_ptr>{numbered(1, set_kv("a", "1")), numbered(2, set_kv("b", "2"))}, heard);
    w.settle();
    CHECK(counted(*heard, "done") == 0);
    CHECK(heard->size() == 2);
    // The one who came after the end may also hear CAF's own word for it.
    CHECK(counted(*heard, "unknown") >= 1);
    CHECK(counted(*heard, "unknown") + counted(*heard, "error") == 2);

    heard->clear();
    auto next = w.sys.spawn(writer, options);
    w.sys.spawn(caller, next, std::vector<execution_ptr>{numbered(1, set_kv("a", "1")), numbered(2, set_kv("b", "2"))}, heard);
    w.settle();
    CHECK(counted(*heard, "done") == 2);
    w.end(next);
  }
}

TEST_CASE("callers in line when the writer is killed are answered") {
  scratch_dir dir;
  store_world w;
  auto heard = std::make_shared<std::vector<std::string>>();
  auto store = w.sys.spawn(writer, writing(dir.file(), w.clock));
  w.settle();
  w.sys.spawn(caller, store, std::vector<execution_ptr>{numbered(1, set_kv("a", "1")), from_node({}), nullptr}, heard);
  caf::anon_send_exit(store, caf::exit_reason::kill);
  w.settle();
  CHECK(heard->size() == 3);
  CHECK(counted(*heard, "done") == 0);
}

TEST_CASE("an empty message is invalid and a low disk is told as such") {
  scratch_dir dir;
  store_world w;
  auto heard = std::make_shared<std::vector<std::string>>();
  auto options = writing(dir.file(), w.clock);
  options.ledger.free_disk_bytes = [] { return std::uint64_t{1}; };
  auto store = w.sys.spawn(writer, options);
  w.sys.spawn(caller, store, std::vector<execution_ptr>{nullptr, numbered(1, set_kv("a", "1"))}, heard);
  w.settle();
  CHECK(counted(*heard, "invalid") == 1);
  CHECK(counted(*heard, "low disk") == 1);
  w.end(store);
}

TEST_CASE("a store that cannot be opened ends writer and reader with the reason") {
  scratch_dir dir;
  store_world w;
  std::filesystem::create_directory(dir.file());
  std::vector<caf::error> reasons;
  auto watch = [&](auto handle) {
    w.me->monitor(handle);
    w.settle();
    w.me->receive([&](caf::down_msg& m) { reasons.push_back(m.reason); });
  };
  watch(w.sys.spawn(writer, writing(dir.file(), w.clock)));
  watch(w.sys.spawn(reader, reading(dir.file("absent"), w.clock)));
  REQUIRE(reasons.size() == 2);
  CHECK(reasons[0] == errc::store_failed);
  CHECK(reasons[1] == errc::store_failed);
}

TEST_CASE("a reader answers from what was answered before, backs up and checks") {
  scratch_dir dir;
  store_world w;
  auto heard = std::make_shared<std::vector<std::string>>();
  auto barrier = std::make_shared<read_barrier>();
  auto options = writing(dir.file(), w.clock);
  options.ledger.barrier = barrier;
  auto store = w.sys.spawn(writer, options);
  w.settle();
  auto settings = reading(dir.file(), w.clock);
  settings.barrier = barrier;
  settings.writer = store;
  auto eyes = w.sys.spawn(reader, settings);
  w.sys.spawn(caller, store, std::vector<execution_ptr>{numbered(1, set_kv("a", "1"))}, heard);
  w.settle();
  REQUIRE(*heard == std::vector<std::string>{"done"});
  REQUIRE_FALSE(barrier->open()); // it is in the commit log only

  auto query = std::make_shared<v1::Query>();
  query->set_scope("build");
  query->mutable_principal()->set_kind(v1::Principal::OPERATOR);
  query->mutable_get_kv()->set_key("a");
  auto answer = w.ask<answer_ptr>(eyes, query_ptr{query});
  REQUIRE(answer);
  REQUIRE(answer->index() == 0);
  CHECK(std::get<0>(*answer)->kv().value() == "1");

  auto size = w.ask<std::uint64_t>(eyes, backup_atom_v, dir.file("copy.db"));
  REQUIRE(size);
  REQUIRE(size->index() == 0);
  CHECK(std::get<0>(*size) == std::filesystem::file_size(dir.file("copy.db")));
  auto twice = w.ask<std::uint64_t>(eyes, backup_atom_v, dir.file("copy.db"));
  REQUIRE(twice);
  REQUIRE(twice->index() == 1);
  CHECK(std::get<1>(*twice) == errc::invalid);
  auto health = w.ask<std::string>(eyes, check_atom_v, true);
  REQUIRE(health);
  REQUIRE(health->index() == 0);
  CHECK(std::get<0>(*health) == "ok");
  w.end(eyes);
  w.end(store);
}

TEST_CASE("the writer catches up by itself after a moment") {
  scratch_dir dir;
  store_world w;
  auto barrier = std::make_shared<read_barrier>();
  auto options = writing(dir.file(), w.clock);
  options.ledger.barrier = barrier;
  auto store = w.sys.spawn(writer, options);
  auto heard = std::make_shared<std::vector<std::string>>();
  w.sys.spawn(caller, store, std::vector<execution_ptr>{numbered(1, set_kv("a", "1"))}, heard);
  w.settle();
  REQUIRE(*heard == std::vector<std::string>{"done"});
  CHECK_FALSE(barrier->open());
  w.advance(limits::writer_window);
  CHECK(barrier->open());
  w.end(store);
}
