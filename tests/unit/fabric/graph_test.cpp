#include "tests/support/fabric_world.hpp"

using namespace std::chrono_literals;
using namespace swarm;
using runtime::tree_entry;
using test::fabric_world;

namespace {

tree_entry row_of(const std::vector<tree_entry>& rows, const std::string& path) {
  for (const auto& r : rows)
    if (r.path == path)
      return r;
  FAIL("no row ", path);
  return {};
}

} // namespace

TEST_CASE("every supervised actor tells its age, its restarts and how much mail waits for it") {
  fabric_world f;
  auto a = f.session(100), b = f.session(101);
  f.run(f.acquire(a, "/repo/x"));
  auto waiting = f.send(f.acquire(b, "/repo/x", 60'000));
  auto activity = f.wait(a, 60'000);
  auto worker = f.run(f.dispatch("talk")).dispatch().spawn().id();
  f.w.advance(2s);
  auto rows = f.rows();
  for (const auto& r : rows) {
    CAPTURE(r.path);
    CHECK(r.mailbox_depth >= 0);
    CHECK(r.age_ms == 2'000);
    CHECK(r.restarts == 0);
    CHECK(r.state != "silent");
  }
  for (const auto* path : {"", "watch", "writer", "reader-0", "reader-1", "reader-maintenance", "pty-log", "conversation-logs", "conversation-blobs",
                           "lock-judge", "resting-drivers", "processes", "scopes", "scopes/s", "short-calls"})
    row_of(rows, path);
  for (const auto& path : {"session/" + a, std::string{"lock//repo/x"}, "mailbox/" + a, "spawn/" + worker + "#1"})
    row_of(rows, "scopes/s/" + path);
  CHECK(row_of(rows, "processes/pty/" + worker).state == "running");
}

TEST_CASE("mail that waits is counted although the question overtakes it") {
  fabric_world f;
  auto hub = f.board->get().watch;
  for (int i = 0; i < 7; ++i)
    caf::anon_send(hub, commit_ptr{std::make_shared<const commit>()});
  auto pending = f.w.me->request(f.root, caf::infinite, tree_atom_v);
  while (f.w.sched.prioritize(f.root))
    f.w.sched.run_once();
  f.w.settle();
  std::vector<tree_entry> rows;
  pending.receive([&](std::vector<tree_entry>& r) { rows = std::move(r); }, [](const caf::error&) {});
  CHECK(row_of(rows, "watch").mailbox_depth == 7);
  CHECK(row_of(rows, "writer").mailbox_depth == 0);
}

TEST_CASE("a terminal's actor that was killed shows that it is younger than its program, and its restart") {
  fabric_world f;
  auto id = f.run(f.dispatch("talk")).dispatch().spawn().id();
  f.w.advance(5s);
  f.drill("processes/pty/" + id);
  f.w.settle();
  f.w.advance(1s);
  auto terminal = row_of(f.rows(), "processes/pty/" + id);
  CHECK(terminal.age_ms == 1'000);
  CHECK(terminal.restarts == 1);
  CHECK(terminal.mailbox_depth == 0);
  CHECK(row_of(f.rows(), "processes").age_ms == 6'000);
}

TEST_CASE("a part that is down has no mailbox to tell of") {
  fabric_world f;
  f.drill("reader-1");
  f.w.settle();
  auto down = row_of(f.rows(), "reader-1");
  CHECK(down.state == "waiting");
  CHECK(down.mailbox_depth == tree_entry::depth_unknown);
  CHECK(down.age_ms == 0);
  f.w.advance_by(1s, 100ms);
  auto up = row_of(f.rows(), "reader-1");
  CHECK(up.state == "up");
  CHECK(up.restarts == 1);
  CHECK(up.mailbox_depth == 0);
}
