#include "actors/fabric/terminals/processes.hpp"
#include "actors/fabric/terminals/pty.hpp"
#include "actors/fabric/terminals/pty_log.hpp"
#include "tests/support/fabric_world.hpp"

using namespace std::chrono_literals;
using namespace swarm;
using test::fabric_world;

namespace {

/// A running worker and its terminal.
struct terminal_world : fabric_world {
  explicit terminal_world(std::uint64_t seed = 0) : fabric_world(seed) {
    id = run(dispatch("talk")).dispatch().spawn().id();
    terminal = find();
  }
  pty_actor find() {
    auto a = request<pty_actor>(board->get().processes, pty_atom_v, id);
    w.settle();
    return a.get();
  }
  test::asked<pty_chunk_ptr> read(std::uint64_t from, std::uint64_t max = 0, bool wait = false, bool tail = false) {
    auto r = std::make_shared<pty_read>();
    r->from = from;
    r->max_bytes = max;
    r->wait = wait;
    r->tail = tail;
    auto a = request<pty_chunk_ptr>(terminal, pty_read_ptr{r});
    w.settle();
    return a;
  }
  test::asked<std::uint64_t> type(const std::string& data, const std::string& req = {}, bool person = false) {
    auto in = std::make_shared<pty_input>();
    in->data = data;
    in->request = req;
    in->who.set_kind(person ? v1::Principal::OPERATOR : v1::Principal::NODE);
    auto a = request<std::uint64_t>(terminal, pty_input_ptr{in});
    w.settle();
    return a;
  }
  void print(const std::string& bytes) {
    keeper.print(id, bytes);
    w.settle();
  }
  /// Follows from an offset to the end of what there is; gaps are filled with '?'.
  std::string all(std::uint64_t from = 0) {
    std::string out;
    for (;;) {
      auto c = read(from).get();
      out.append(c->gap(), '?');
      out += c->data();
      if (c->data().empty() && c->gap() == 0)
        return out;
      from = c->offset() + c->data().size();
    }
  }

  std::string id;
  pty_actor terminal;
};

std::string pattern(std::size_t n, std::size_t at = 0) {
  std::string out;
  for (std::size_t i = 0; i < n; ++i)
    out.push_back(static_cast<char>('a' + (at + i) * 7 % 26));
  return out;
}

} // namespace

TEST_CASE("output is read by offset, in parts, and from its tail") {
  terminal_world t;
  t.print("0123456789");
  CHECK(t.read(0).get()->data() == "0123456789");
  CHECK(t.read(4, 3).get()->data() == "456");
  CHECK(t.read(4, 3).get()->offset() == 4);
  auto tail = t.read(0, 4, false, true).get();
  CHECK(tail->data() == "6789");
  CHECK(tail->offset() == 6);
  CHECK(t.read(10).get()->data().empty());
}

TEST_CASE("a follower is woken by output and learns how the program ended") {
  terminal_world t;
  auto first = t.read(0, 0, true);
  CHECK_FALSE(first.answered());
  t.print("hello");
  CHECK(first.get()->data() == "hello");
  CHECK_FALSE(first.get()->ended());
  auto second = t.read(5, 0, true);
  CHECK_FALSE(second.answered());
  t.keeper.exit(t.id, 7);
  t.w.settle();
  CHECK(second.get()->ended());
  CHECK(second.get()->exit_status() == 7);
  CHECK(t.read(0).get()->data() == "hello");
  CHECK(t.read(0).get()->ended());
}

TEST_CASE("what the ring has let go is read from the files") {
  terminal_world t;
  std::string everything;
  for (int i = 0; i < 20; ++i) {
    auto part = pattern(10'000, everything.size());
    everything += part;
    t.print(part);
  }
  REQUIRE(everything.size() > 2 * limits::ring_bytes_min);
  CHECK(t.all() == everything);
  t.keeper.exit(t.id, 0);
  t.w.settle();
  CHECK(t.all() == everything);
}

TEST_CASE("output that came too fast for the ring is announced as a gap, and the rest is right") {
  terminal_world t;
  auto everything = pattern(3 * limits::ring_bytes_min);
  t.print(everything);
  auto got = t.all();
  REQUIRE(got.size() == everything.size());
  auto lost = got.find_last_of('?') + 1;
  CHECK(lost > 0);
  CHECK(lost <= everything.size() - limits::ring_bytes_min + 4096);
  CHECK(got.substr(lost) == everything.substr(lost));
  CHECK(got.substr(0, lost) == std::string(lost, '?'));
}

TEST_CASE("the keeper is told how far output is in the files") {
  terminal_world t;
  std::uint64_t end = 0;
  for (int i = 0; i < 20; ++i) {
    t.print(pattern(10'000, end));
    end += 10'000;
    CHECK(t.keeper.taken[t.id] <= end);
    CHECK(end - t.keeper.taken[t.id] < limits::ring_bytes_min / 2);
  }
  // One that has come back, or whose connection was lost with what it told, tells it again.
  t.keeper.taken.clear();
  SUBCASE("node") { t.restart(); }
  SUBCASE("connection") { t.keeper.lose(); }
  SUBCASE("terminal") {
    t.drill("processes/pty/" + t.id);
    t.w.settle();
  }
  t.w.advance_by(1s, 100ms);
  CHECK(end - t.keeper.taken[t.id] < limits::ring_bytes_min / 2);
}

TEST_CASE("the log goes on where it was after a restart of the node and after a crash of the terminal") {
  terminal_world t;
  t.print("before ");
  SUBCASE("node") {
    t.restart();
    t.w.advance_by(1s, 100ms);
  }
  SUBCASE("terminal") {
    t.drill("processes/pty/" + t.id);
    t.w.settle();
  }
  t.terminal = t.find();
  t.print("after");
  CHECK(t.all() == "before after");
}

TEST_CASE("a terminal whose program ended before the node started is listed and read as it was kept") {
  terminal_world t;
  std::string words;
  SUBCASE("with output") { words = "last words"; }
  SUBCASE("without any") {}
  t.print(words);
  t.keeper.exit(t.id, 7);
  t.w.settle();
  t.restart();
  auto listed = t.request<std::vector<pty_info_ptr>>(t.board->get().processes, list_atom_v, std::string{"s"});
  t.w.settle();
  REQUIRE(listed.get().size() == 1);
  const auto& info = *listed.get().front();
  CHECK(info.id() == t.id);
  CHECK(info.harness() == "exec");
  CHECK_FALSE(info.running());
  CHECK(info.exit_status() == 7);
  CHECK(info.end() == words.size());
  t.terminal = t.find();
  auto c = t.read(0, 0, true).get();
  CHECK(c->data() == words);
  CHECK(c->ended());
  CHECK(c->exit_status() == 7);
  auto elsewhere = t.request<std::vector<pty_info_ptr>>(t.board->get().processes, list_atom_v, std::string{"other"});
  t.w.settle();
  CHECK(elsewhere.get().empty());
}

namespace {

std::vector<pty_info_ptr> listed(terminal_world& t) {
  auto a = t.request<std::vector<pty_info_ptr>>(t.board->get().processes, list_atom_v, std::string{"s"});
  t.w.settle();
  return a.get();
}

} // namespace

TEST_CASE("a terminal whose program ends while the node stops stays in the list, with its true end or an unknown one") {
  for (std::size_t steps = 0; steps < 60; ++steps) {
    CAPTURE(steps);
    terminal_world t;
    t.keeper.exit(t.id, 0, 15);
    for (std::size_t i = 0; i < steps; ++i)
      t.w.step();
    t.stop();
    t.keeper.die(); // as `swarmctl down` ends it
    t.start();
    t.w.settle();
    auto list = listed(t);
    REQUIRE(list.size() == 1);
    const auto& info = *list.front();
    CHECK(info.name() == "talk");
    CHECK_FALSE(info.running());
    CHECK((info.signal() == 15 || info.exit_status() == -1));
    auto row = t.spawn_row(t.id);
    CHECK(row.status() == v1::Spawn::ENDED);
    if (info.signal() == 15)
      CHECK(row.signal() == 15);
    t.terminal = t.find();
    auto c = t.read(0, 0, true).get();
    CHECK(c->ended());
    CHECK(c->signal() == info.signal());
    CHECK(c->exit_status() == info.exit_status());
  }
}

TEST_CASE("a program that was lost while no node ran is listed with an unknown end, and the next start still knows that") {
  terminal_world t;
  t.stop();
  t.keeper.die();
  for (int i = 0; i < 2; ++i) {
    t.restart();
    REQUIRE(listed(t).size() == 1);
    CHECK_FALSE(listed(t).front()->running());
    CHECK(listed(t).front()->exit_status() == -1);
    CHECK(listed(t).front()->pid() != 0);
  }
  CHECK(t.keeper.killed == std::vector{t.id}); // what it had started may go on
  CHECK(t.spawn_row(t.id).reason() == "node_restarted");
  CHECK_FALSE(std::filesystem::exists(t.state.dir.pty_dir() / t.id / terminal_started_name));
}

TEST_CASE("a stopping node is told when the end of every program is committed and kept") {
  terminal_world t;
  auto kept = t.request<bool>(t.board->get().processes, gone_atom_v);
  t.w.settle();
  CHECK_FALSE(kept.answered()); // it runs
  t.keeper.exit(t.id, 0, 15);
  while (!kept.answered() && t.w.step()) {
  }
  REQUIRE(kept.answered());
  t.stop(); // at once
  t.keeper.die();
  t.start();
  t.w.settle();
  REQUIRE(listed(t).size() == 1);
  CHECK(listed(t).front()->signal() == 15);
  CHECK(t.spawn_row(t.id).signal() == 15);
  auto again = t.request<bool>(t.board->get().processes, gone_atom_v);
  t.w.settle();
  CHECK(again.answered());
}

TEST_CASE("a keeper that still has what an earlier node has noted is told to forget it once the end is committed") {
  int still_there = 0;
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    CAPTURE(seed);
    terminal_world t{seed};
    t.print("all of it");
    t.keeper.exit(t.id, 0);
    auto noted = [&] { return std::filesystem::exists(t.state.dir.pty_dir() / t.id / terminal_record_name); };
    while (!noted() && t.w.step()) {
    }
    t.stop();
    still_there += t.keeper.find(t.id) != nullptr ? 1 : 0;
    t.start();
    t.w.settle();
    CHECK(t.keeper.find(t.id) == nullptr);
    auto q = t.query();
    q.mutable_list_tasks();
    auto tasks = t.ask(q);
    REQUIRE(tasks.tasks().tasks_size() == 1);
    CHECK(tasks.tasks().tasks(0).result().find("all of it") != std::string::npos);
    REQUIRE(listed(t).size() == 1);
    CHECK(listed(t).front()->exit_status() == 0);
  }
  CHECK(still_there > 0);
}

TEST_CASE("a terminal's record that is damaged or somebody else's is not taken for it") {
  test::scratch_state state;
  auto dir = state.dir.pty_dir() / "t1";
  v1::PtyInfo info;
  info.set_id("t1");
  info.set_exit_status(3);
  write_terminal_record(dir, info);
  REQUIRE(read_terminal_record(dir).has_value());
  CHECK(read_terminal_record(dir)->exit_status() == 3);
  CHECK((std::filesystem::status(dir / "info").permissions() & std::filesystem::perms::mask) ==
        (std::filesystem::perms::owner_read | std::filesystem::perms::owner_write));
  info.set_id("t2");
  write_terminal_record(dir, info);
  CHECK_FALSE(read_terminal_record(dir).has_value());
  std::ofstream{dir / "info"} << "\xff\xff\xff";
  CHECK_FALSE(read_terminal_record(dir).has_value());
  CHECK_FALSE(read_terminal_record(state.dir.pty_dir() / "none").has_value());
}

TEST_CASE("old output alone does not make a terminal one that has ended") {
  terminal_world t;
  t.print("so far");
  t.stop();
  t.keeper.reachable = false;
  t.start();
  t.w.settle();
  auto early = t.request<pty_actor>(t.board->get().processes, pty_atom_v, t.id);
  t.w.settle();
  REQUIRE(early.answered());
  CHECK(early.error() == errc::unavailable);
  t.keeper.reachable = true;
  t.w.advance_by(10s, 100ms);
  t.terminal = t.find();
  t.print(", and on");
  CHECK(t.all() == "so far, and on");
  CHECK(t.read(0).get()->ended() == false);
}

namespace {

/// The node's part for programs alone: nobody claims any, as while the home that has their rows is away.
struct unclaimed_world : terminal_world {
  unclaimed_world() {
    print("before");
    stop();
    environment->facts.dir = state.dir;
    environment->clock = &w.clock;
    environment->processes = &keeper;
    environment->restarts = restarts;
  }
  ~unclaimed_world() {
    w.end(subject);
    w.end(log_files);
  }
  void start_alone() {
    log_files = w.sys.spawn(pty_log, node_environment_ptr{environment});
    subject = w.sys.spawn(processes, node_environment_ptr{environment}, log_files);
    w.settle();
  }
  test::asked<pty_actor> ask_for_it() {
    auto a = request<pty_actor>(subject, pty_atom_v, id);
    w.settle();
    return a;
  }

  std::shared_ptr<node_environment> environment = std::make_shared<node_environment>();
  pty_log_actor log_files;
  processes_actor subject;
};

} // namespace

TEST_CASE("a program whose spawn nobody has claimed yet is read, typed to and ended") {
  unclaimed_world t;
  t.start_alone();
  t.terminal = t.ask_for_it().get();
  auto info = t.request<pty_info_ptr>(t.terminal, status_atom_v);
  t.w.settle();
  CHECK(info.get()->running());
  CHECK(info.get()->scope() == "s"); // by which the caller's rights are judged, as by its session
  CHECK(info.get()->name() == "talk");
  CHECK(t.all() == "before");
  CHECK(t.type("ls\n").get() == 3);
  auto follower = t.read(6, 0, true);
  t.print(" after");
  CHECK(follower.get()->data() == " after");
  auto killed = t.request<pty_info_ptr>(t.terminal, kill_atom_v, std::int32_t{0});
  t.w.settle();
  CHECK_FALSE(killed.failed());
  CHECK(t.keeper.killed == std::vector{t.id});
  CHECK(t.read(12).get()->ended());
  CHECK(t.read(12).get()->signal() == 15);
  CHECK(t.all() == "before after");
}

TEST_CASE("what an unclaimed program writes is kept as it comes, and its spawn is told of its end") {
  unclaimed_world t;
  t.start_alone();
  std::string everything = "before";
  for (int i = 0; i < 20; ++i) {
    auto part = pattern(10'000, everything.size());
    everything += part;
    t.print(part); // more than the ring keeps
  }
  t.keeper.exit(t.id, 7);
  t.w.settle();
  t.w.end(t.subject);
  t.w.end(t.log_files);
  t.w.settle();
  t.start();
  t.w.settle();
  CHECK(t.spawn_row(t.id).status() == v1::Spawn::ENDED);
  t.terminal = t.find();
  CHECK(t.all() == everything);
  CHECK(t.read(everything.size()).get()->exit_status() == 7);
}

TEST_CASE("of a program that is another one than was noted only its spawn makes a terminal") {
  unclaimed_world t;
  t.keeper.children.at(t.id).info.pid += 1;
  t.start_alone();
  CHECK(t.ask_for_it().error() == errc::unavailable);
}

TEST_CASE("a program without a terminal does not wait for one to take its output when the node finds it") {
  unclaimed_world t;
  const auto& child = t.keeper.children.at(t.id).info;
  t.keeper.taken.clear();
  SUBCASE("without") {
    t.keeper.children.at(t.id).info.pid += 1;
    t.start_alone();
    CHECK(t.keeper.taken[t.id] == child.end);
  }
  SUBCASE("with") {
    t.start_alone();
    CHECK_FALSE(t.keeper.taken.contains(t.id)); // the little that there is needs no room
  }
}

TEST_CASE("followers that have left make room for others") {
  terminal_world t;
  for (int i = 0; i < 600; ++i) {
    auto follower = t.read(0, 0, true);
    REQUIRE_FALSE(follower.answered());
    t.w.end(follower.who);
  }
  auto last = t.read(0, 0, true);
  CHECK_FALSE(last.answered());
  t.print("x");
  CHECK(last.get()->data() == "x");
}

TEST_CASE("input with the same request is typed once") {
  terminal_world t;
  CHECK(t.type("ls\n", "r1").get() == 3);
  CHECK(t.type("ls\n", "r1").get() == 3);
  CHECK(t.type("ls\n", "r2").get() == 3);
  CHECK(t.type("ls\n").get() == 3);
  CHECK(t.keeper.typed.size() == 3);
}

TEST_CASE("input that was not taken may be sent again under its request") {
  terminal_world t;
  t.keeper.take_at_most = 0;
  CHECK(t.type("ls\n", "r1").error() == errc::overloaded);
  t.keeper.take_at_most = 2;
  CHECK(t.type("ls\n", "r1").get() == 2);
  CHECK(t.type("ls\n", "r1").get() == 2);
  CHECK(t.keeper.typed == std::vector<std::string>{"ls"});
}

TEST_CASE("a repeated request waits for the first one's answer") {
  terminal_world t;
  t.keeper.hold_input = true;
  auto first = t.type("x", "r1"), again = t.type("x", "r1");
  CHECK_FALSE(first.answered());
  CHECK_FALSE(again.answered());
  CHECK(t.keeper.typed.size() == 1);
  t.keeper.accept_input();
  t.w.settle();
  CHECK(first.get() == 1);
  CHECK(again.get() == 1);
}

TEST_CASE("those who typed are answered when the program ends or the keeper goes away") {
  terminal_world t;
  t.keeper.hold_input = true;
  auto typed = t.type("x");
  CHECK_FALSE(typed.answered());
  SUBCASE("program") {
    t.keeper.exit(t.id, 0);
    t.w.settle();
    CHECK(typed.error() == errc::not_found);
    CHECK(t.type("y").error() == errc::not_found);
  }
  SUBCASE("keeper") {
    t.keeper.lose();
    t.w.settle();
    t.w.advance_by(1s, 100ms);
    CHECK(typed.error() == errc::unknown_outcome);
  }
}

TEST_CASE("what was typed before the node or the keeper's connection started over is not typed again") {
  terminal_world t;
  CHECK(t.type("once", "me/1").get() == 4);
  SUBCASE("known") {
    t.keeper.lose();
    t.w.advance_by(1s, 100ms);
  }
  SUBCASE("in doubt") {
    t.keeper.hold_input = true;
    auto doubtful = t.type("twice?", "me/2");
    t.keeper.lose();
    t.w.settle();
    t.w.advance_by(1s, 100ms);
    CHECK(doubtful.error() == errc::unknown_outcome);
    t.keeper.hold_input = false;
    CHECK(t.type("twice?", "me/2").get() == 6);
  }
  SUBCASE("another node") {
    t.restart();
    t.w.settle();
    t.terminal = t.find();
  }
  auto before = t.keeper.typed.size();
  CHECK(t.type("once", "me/1").get() == 4);
  CHECK(t.keeper.typed.size() == before);
  CHECK(t.type("more", "me/3").get() == 4);
  CHECK(t.keeper.typed.size() == before + 1);
}

TEST_CASE("input with a stale fence is not typed, and what was accepted before is not denied") {
  terminal_world t;
  auto with_fence = [&](const std::string& request, bool stale) {
    auto in = std::make_shared<pty_input>();
    in->data = "now";
    in->request = request;
    in->stale = stale;
    in->who.set_kind(v1::Principal::OPERATOR);
    auto a = t.request<std::uint64_t>(t.terminal, pty_input_ptr{in});
    t.w.settle();
    return a;
  };
  CHECK(with_fence("one", true).error() == errc::stale);
  CHECK(t.type("agent").get() == 5); // nobody has typed yet
  CHECK(with_fence("one", false).get() == 3);
  CHECK(with_fence("one", true).get() == 3);
  CHECK(with_fence("two", true).error() == errc::stale);
  t.keeper.exit(t.id, 0);
  t.w.settle();
  CHECK(with_fence("two", true).error() == errc::not_found);
}

TEST_CASE("a person outranks agents for a moment") {
  terminal_world t;
  CHECK(t.type("agent").get() == 5);
  CHECK(t.type("me", {}, true).get() == 2);
  CHECK(t.type("agent").error() == errc::forbidden);
  CHECK(t.type("me", {}, true).get() == 2);
  t.w.advance(4s);
  CHECK(t.type("agent").get() == 5);
}

TEST_CASE("input is bounded, each and together") {
  terminal_world t;
  CHECK(t.type(std::string(limits::pty_input_bytes_max, 'x')).get() == limits::pty_input_bytes_max);
  CHECK(t.type(std::string(limits::pty_input_bytes_max + 1, 'x')).error() == errc::overloaded);
  t.keeper.hold_input = true;
  std::size_t refused = 0;
  for (int i = 0; i < 100; ++i)
    refused += t.type("x").failed();
  CHECK(refused > 0);
  CHECK(refused < 100);
}

TEST_CASE("sizes and signals that make no sense are refused") {
  terminal_world t;
  auto resize = [&](std::uint32_t c, std::uint32_t r) {
    auto a = t.request<pty_info_ptr>(t.terminal, resize_atom_v, c, r);
    t.w.settle();
    return a;
  };
  CHECK(resize(120, 40).get()->size().columns() == 120);
  CHECK(resize(0, 40).error() == errc::invalid);
  CHECK(resize(120, 1001).error() == errc::invalid);
  CHECK(t.keeper.resized.size() == 1);
  auto kill = [&](std::int32_t s) {
    auto a = t.request<pty_info_ptr>(t.terminal, kill_atom_v, s);
    t.w.settle();
    return a;
  };
  CHECK(kill(-1).error() == errc::invalid);
  CHECK(kill(65).error() == errc::invalid);
  kill(0).get();
  CHECK(t.keeper.killed == std::vector{t.id});
}

TEST_CASE("readers beyond the bound are refused and those before are served") {
  terminal_world t;
  std::vector<test::asked<pty_chunk_ptr>> all;
  for (int i = 0; i < 300; ++i)
    all.push_back(t.read(0, 0, true));
  auto refused = std::count_if(all.begin(), all.end(), [](const auto& a) { return a.answered(); });
  CHECK(refused > 0);
  CHECK(refused < 100);
  t.print("x");
  for (const auto& a : all)
    CHECK(a.answered());
}

TEST_CASE("there is no terminal under a hostile name") {
  terminal_world t;
  for (const auto& name : std::vector<std::string>{"../../etc", "..", "", "/etc/passwd", "a/b", std::string(5000, 'a')}) {
    auto a = t.request<pty_actor>(t.board->get().processes, pty_atom_v, name);
    t.w.settle();
    CHECK(a.error() == errc::not_found);
  }
}

// -- names ---------------------------------------------------------------------------------------

namespace {

std::string name_of(fabric_world& f, const std::string& id) {
  auto a = f.request<std::vector<pty_info_ptr>>(f.board->get().processes, list_atom_v, std::string{});
  f.w.settle();
  for (const auto& p : a.get())
    if (p->id() == id)
      return p->name();
  return "(not listed)";
}

std::string worker_named_after(fabric_world& f, const std::string& title) {
  auto cmd = f.dispatch(title);
  cmd.mutable_dispatch()->set_fresh(true);
  return f.run(cmd).dispatch().spawn().id();
}

} // namespace

TEST_CASE("a worker's terminal is named after its task, in a word that a shell takes as it is") {
  fabric_world f;
  auto name = [&](const std::string& title) { return name_of(f, worker_named_after(f, title)); };
  CHECK(name("Fix the parser: it's slow!") == "fix-the-parser-it-s-slow");
  CHECK(name("Describe everything that the new parser does") == "describe-everything-that");
  CHECK(name("Donaudampfschifffahrtsgesellschaft") == "donaudampfschifffahrtsge");
  CHECK(name("  ../../etc  ") == "etc");
  CHECK(name("\u65e5\u672c") == "implementer");
}

TEST_CASE("of two workers that run with the same title one has a part of its id in its name") {
  fabric_world f;
  auto first = worker_named_after(f, "Describe everything that is slow");
  f.w.advance(1ms); // names are given in the order in which workers were asked for
  auto second = worker_named_after(f, "Describe everything that is slow");
  auto distinct = "describe-everything-" + second.substr(0, 4);
  CHECK(name_of(f, first) == "describe-everything-that");
  CHECK(name_of(f, second) == distinct);
  f.restart();
  f.w.settle();
  CHECK(name_of(f, first) == "describe-everything-that");
  CHECK(name_of(f, second) == distinct);
  f.keeper.exit(first, 0);
  f.w.settle();
  CHECK(name_of(f, worker_named_after(f, "Describe everything that is slow")) == "describe-everything-that");
  CHECK(name_of(f, second) == distinct);
}

// -- forgetting ----------------------------------------------------------------------------------

TEST_CASE("an ended terminal that is forgotten is listed no more, also after a restart, and its output stays") {
  terminal_world t;
  auto forget = [&] {
    auto a = t.request<pty_info_ptr>(t.terminal, forget_atom_v);
    t.w.settle();
    return a;
  };
  t.print("kept");
  CHECK(forget().error() == errc::invalid); // it runs
  CHECK(name_of(t, t.id) == "talk");
  t.keeper.exit(t.id, 3);
  t.w.settle();
  auto forgotten = forget();
  CHECK(forgotten.get()->exit_status() == 3);
  CHECK(name_of(t, t.id) == "(not listed)");
  t.restart();
  t.w.settle();
  CHECK(name_of(t, t.id) == "(not listed)");
  t.terminal = t.find();
  CHECK(t.all() == "kept");
  CHECK(t.read(4).get()->exit_status() == -1); // not known any more
  CHECK(forget().error() == errc::not_found);
}

// -- files -------------------------------------------------------------------------------------

TEST_CASE("segments are filled one after the other and read back across their borders") {
  test::scratch_state s;
  auto dir = s.dir.pty_dir() / "one";
  auto total = limits::pty_segment_bytes() + 100'000;
  auto everything = pattern(total);
  {
    pty_log_files files{dir};
    for (std::size_t at = 0; at < total; at += 70'000)
      files.append(at, std::string_view{everything}.substr(at, 70'000));
    CHECK(files.end() == total);
  }
  pty_log_files again{dir};
  CHECK(again.start() == 0);
  CHECK(again.end() == total);
  std::string part;
  std::string got;
  while (got.size() < total) {
    auto at = again.read(got.size(), 64 * 1024, part);
    REQUIRE(at == got.size());
    REQUIRE_FALSE(part.empty());
    got += part;
  }
  CHECK(got == everything);
  CHECK(std::distance(std::filesystem::directory_iterator{dir}, {}) == 2);
}

TEST_CASE("what is written twice is kept once, and a hole stays a hole") {
  test::scratch_state s;
  pty_log_files files{s.dir.pty_dir() / "one"};
  files.append(0, "0123456789");
  files.append(5, "56789abc");
  std::string got;
  CHECK(files.read(0, 100, got) == 0);
  CHECK(got == "0123456789abc");
  files.append(100, "xyz");
  CHECK(files.read(13, 100, got) == 100);
  CHECK(got == "xyz");
  CHECK(files.read(50, 100, got) == 100);
  CHECK(files.read(102, 100, got) == 102);
  CHECK(got == "z");
  CHECK(files.read(103, 100, got) == 103);
  CHECK(got.empty());
  files.clear();
  CHECK(files.empty());
  files.append(0, "new");
  files.read(0, 100, got);
  CHECK(got == "new");
}

TEST_CASE("the oldest segments go when a terminal has written too much") {
  test::scratch_state s;
  pty_log_files files{s.dir.pty_dir() / "one"};
  std::string block(limits::pty_segment_bytes(), 'x');
  auto n = limits::pty_segments_total_bytes() / limits::pty_segment_bytes() + 3;
  for (std::size_t i = 0; i < n; ++i)
    files.append(i * block.size(), block);
  CHECK(files.end() - files.start() <= limits::pty_segments_total_bytes());
  CHECK(files.start() > 0);
  std::string got;
  CHECK(files.read(0, 10, got) == files.start());
  std::uintmax_t bytes = 0;
  for (const auto& e : std::filesystem::directory_iterator{s.dir.pty_dir() / "one"})
    bytes += e.file_size();
  CHECK(bytes <= limits::pty_segments_total_bytes());
}

TEST_CASE("files are ours alone, and strangers in the directory are passed over") {
  test::scratch_state s;
  auto dir = s.dir.pty_dir() / "one";
  {
    pty_log_files files{dir};
    files.append(0, "secret");
  }
  for (const auto& e : std::filesystem::directory_iterator{dir})
    CHECK((e.status().permissions() & std::filesystem::perms(0077)) == std::filesystem::perms::none);
  std::ofstream(dir / "notes.txt") << "x";
  std::ofstream(dir / "zz.seg") << "x";
  pty_log_files again{dir};
  CHECK(again.end() == 6);
}

TEST_CASE("what a crash or a stranger left among a terminal's files hides nothing of them") {
  test::scratch_state s;
  auto dir = s.dir.pty_dir() / "one";
  {
    pty_log_files files{dir};
    files.append(0, "first");
    files.append(100, "second");
  }
  auto read = [](const pty_log_files& files, std::uint64_t from) {
    std::string out;
    auto at = files.read(from, 100, out);
    return std::to_string(at) + " " + out;
  };
  // Not as we name them, empty, beyond the last offset there is, a directory.
  std::ofstream{dir / "7.seg"} << "strange";
  std::ofstream{dir / "000000000000000x.seg"} << "strange";
  std::ofstream{dir / "0000000000000020.seg"} << "";
  std::ofstream{dir / "ffffffffffffffff.seg"} << "too far";
  std::filesystem::create_directory(dir / "0000000000000030.seg");
  pty_log_files files{dir};
  CHECK(files.end() == 106);
  CHECK(read(files, 0) == "0 first");
  CHECK(read(files, 5) == "100 second");
  CHECK(read(files, 7) == "100 second");
  CHECK(read(files, 40) == "100 second");
  // One that has grown does not cover the next.
  std::ofstream{dir / "0000000000000000.seg"} << std::string(200, 'x');
  pty_log_files grown{dir};
  CHECK(read(grown, 104) == "104 nd");
  CHECK(grown.end() == 106);
  CHECK_THROWS_AS(grown.append(~std::uint64_t{0} - 1, "xyz"), std::system_error);
}

TEST_CASE("the log takes no name that leads out of its directory") {
  fabric_world f;
  auto node = std::make_shared<node_environment>();
  node->facts.dir = f.state.dir;
  node->clock = &f.w.clock;
  auto log = f.w.sys.spawn(pty_log, node);
  for (const auto& name : std::vector<std::string>{"../escaped", "..", ".", "", "a/b", std::string("a\0b", 3)}) {
    auto slice = std::make_shared<log_slice>();
    slice->id = name;
    slice->bytes = "x";
    f.w.tell(log, log_atom_v, log_slice_ptr{slice});
    auto a = f.request<log_slice_ptr>(log, log_atom_v, name, std::uint64_t{0}, std::uint64_t{10});
    f.w.settle();
    CHECK(a.error() == errc::not_found);
  }
  CHECK_FALSE(std::filesystem::exists(f.state.dir.root / "escaped"));
  CHECK(std::filesystem::is_empty(f.state.dir.pty_dir()));
  f.w.end(log);
}

namespace {

/// The terminal of an agent's worker.
struct agents_terminal : fabric_world {
  std::string id;
  pty_actor terminal;

  agents_terminal() {
    auto cmd = dispatch("talk");
    cmd.mutable_dispatch()->set_harness("claude");
    id = run(cmd).dispatch().spawn().id();
    auto a = request<pty_actor>(board->get().processes, pty_atom_v, id);
    w.settle();
    terminal = a.get();
  }
  pty_info_ptr info() {
    auto a = request<pty_info_ptr>(terminal, status_atom_v);
    w.settle();
    return a.get();
  }
  void does(v1::AgentReport::State state) {
    caf::anon_send(terminal, gate_atom_v, static_cast<std::int32_t>(state));
    w.settle();
  }
  test::asked<std::uint64_t> type(const v1::Principal& who, const std::string& data = "\r") {
    auto in = std::make_shared<pty_input>();
    in->data = data;
    in->who = who;
    auto a = request<std::uint64_t>(terminal, pty_input_ptr{in});
    w.settle();
    return a;
  }
};

} // namespace

TEST_CASE("an agent's terminal takes the input of a session that was granted it, and none while the agent may ask its user") {
  agents_terminal t;
  const auto peer = test::session_named("peer", {"pty:agents"});
  v1::Principal person;
  person.set_kind(v1::Principal::OPERATOR);
  t.does(v1::AgentReport::IDLE);
  CHECK(t.type(peer, "look").get() == 4);
  CHECK(t.type(test::session_named("peer", {"pty"})).error() == errc::forbidden);
  CHECK(t.type(test::session_named(t.info()->session_id(), {"pty", "pty:agents"})).error() == errc::forbidden);
  CHECK(t.type({}).error() == errc::forbidden);
  for (auto state : {v1::AgentReport::BLOCKED, v1::AgentReport::UNKNOWN}) {
    t.does(state);
    CHECK(t.info()->agent_status() == state);
    const auto typed = t.keeper.typed.size();
    CHECK(t.type(peer).error() == errc::forbidden);
    CHECK(t.keeper.typed.size() == typed);
    CHECK(t.type(person).get() == 1);
    t.w.advance(limits::pty_person_hold() + 1s);
  }
}

TEST_CASE("what a person types is told, what his terminal says by itself is not, and a new size is told with its place in the output") {
  terminal_world t;
  auto change_after = [&](std::uint64_t seen) {
    auto a = t.request<pty_change_ptr>(t.terminal, attach_atom_v, seen);
    t.w.settle();
    return a;
  };
  auto first = change_after(0).get();
  auto waits = change_after(first->number);
  CHECK(t.type("agent").get() == 5);
  CHECK(t.type("\x1b[I", {}, true).get() == 3);
  CHECK_FALSE(waits.answered());
  t.type("y", {}, true);
  REQUIRE(waits.answered());
  auto typed = waits.get();
  CHECK(typed->answers == first->answers + 1);
  t.print("0123456789");
  t.request<pty_info_ptr>(t.terminal, resize_atom_v, std::uint32_t{100}, std::uint32_t{30});
  t.w.settle();
  auto sized = change_after(typed->number).get();
  CHECK(sized->columns == 100);
  CHECK(sized->rows == 30);
  CHECK(sized->sized_at == 10);
}
