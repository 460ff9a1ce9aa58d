// Output, input and sizes.
#include "tests/unit/services/keeper/harness.hpp"

using namespace swarm;
using namespace swarm::testing;

namespace {

std::pair<std::uint64_t, bool> answer(attached& a, const std::string& id, std::uint64_t ticket) {
  REQUIRE(a.events.wait([&] { return a.events.seen[id].input.count(ticket) != 0; }));
  return a.events.child(id).input[ticket];
}

constexpr std::uint32_t small_ring = 64 * 1024;

internal::StartChild flood(const std::string& id, const std::string& script, bool pipes = true) {
  auto s = shell(id, script, pipes);
  s.set_ring_bytes(small_ring);
  return s;
}

bool fill_ring(attached& a, const std::string& id) {
  return a.events.wait([&] { return a.events.seen[id].ring && a.events.seen[id].ring->end() >= small_ring; });
}

/// All output from an offset to the program's end, taken as it comes; '?' stands for what was lost.
std::string take_all(attached& a, const std::string& id, std::uint64_t next = 0) {
  std::string out;
  for (;;) {
    bool over = false;
    REQUIRE(a.events.wait([&] {
      over = !a.events.seen[id].exits.empty();
      return over || a.events.seen[id].ring->end() > next;
    }));
    auto seen = a.events.child(id);
    auto chunk = seen.ring->read(next, limits::pty_chunk_bytes_max);
    out.append(chunk.gap, '?');
    out += chunk.bytes;
    next = chunk.next();
    a.client.output_taken(id, 1, next);
    if (over && next >= seen.exits.front().end)
      return out;
  }
}

std::string numbers(int last) {
  std::string out;
  for (int i = 1; i <= last; ++i)
    out += std::to_string(i) + "\n";
  return out;
}

void set_hold(const node& n, int ms) {
  fs::create_directories(n.dir);
  std::ofstream{n.dir / "config.toml"} << "[limits]\nkeeper_output_hold = " << ms << "\n";
}

} // namespace

TEST_CASE("a program waits while its output is not taken and none of it is lost") {
  node n;
  attached a{n.dir, true, true};
  for (bool pipes : {true, false}) {
    CAPTURE(pipes);
    const auto id = pipes ? "pipes" : "terminal";
    a.run(flood(id, "seq 1 60000", pipes));
    REQUIRE(fill_ring(a, id));
    auto got = take_all(a, id);
    std::erase(got, '\r');
    CHECK(got == numbers(60'000));
  }
}

TEST_CASE("what a program has left in its pipe when it ends is told before its end") {
  node n;
  attached a{n.dir, true, true};
  a.run(flood("s1", "head -c 120000 /dev/zero"));
  REQUIRE(fill_ring(a, "s1"));
  REQUIRE(eventually([&] { return !is_running(static_cast<pid_t>(a.events.child("s1").pid)); }));
  CHECK(a.events.child("s1").ring->end() == small_ring);
  CHECK(take_all(a, "s1") == std::string(120'000, '\0'));
}

TEST_CASE("a program whose swarmd has gone waits for the next one and goes on without it in the end") {
  node n;
  SUBCASE("the next one comes") {
    set_hold(n, 40'000);
    {
      attached first{n.dir, true, true};
      first.run(flood("s1", "seq 1 60000"));
      REQUIRE(fill_ring(first, "s1"));
    }
    attached second{n.dir, true, true};
    REQUIRE(second.ready());
    CHECK(take_all(second, "s1") == numbers(60'000));
  }
  SUBCASE("none comes") {
    set_hold(n, 625);
    {
      attached first{n.dir, true, true};
      first.run(flood("s1", "seq 1 60000; touch " + (n.dir / "done").string()));
      REQUIRE(fill_ring(first, "s1"));
    }
    CHECK(eventually([&] { return fs::exists(n.dir / "done"); }));
  }
  SUBCASE("the next one takes no output") {
    set_hold(n, 625);
    {
      attached first{n.dir, true, true};
      first.run(flood("s1", "seq 1 60000"));
      REQUIRE(fill_ring(first, "s1"));
    }
    attached second{n.dir};
    REQUIRE(second.ready());
    CHECK(second.wait_exit("s1").exit_status == 0);
  }
}

TEST_CASE("a program does not wait for ever for a swarmd that is there and takes nothing and waits again for one that goes on") {
  node n;
  set_hold(n, 1'000);
  attached a{n.dir, true, true};
  a.run(flood("s1", "seq 1 60000; echo first; read x; seq 1 60000"));
  REQUIRE(a.events.wait([&] {
    const auto& ring = a.events.seen["s1"].ring;
    const auto end = ring->end();
    return end > small_ring && ring->read(end - 6, 6).bytes == "first\n";
  }));
  const auto end = a.events.child("s1").ring->end();
  a.client.output_taken("s1", 1, end);
  a.client.write("s1", 1, "\n");
  REQUIRE(a.events.wait([&] { return a.events.seen["s1"].ring->end() >= end + small_ring; }));
  CHECK(take_all(a, "s1", end) == numbers(60'000));
}

TEST_CASE("who only looks at what a keeper runs costs no output") {
  node n;
  set_hold(n, 40'000);
  {
    attached first{n.dir, true, true};
    first.run(flood("s1", "seq 1 60000"));
    REQUIRE(fill_ring(first, "s1"));
  }
  for (int i = 0; i < 2; ++i) {
    attached looks{n.dir};
    REQUIRE(looks.ready());
    CHECK(looks.events.listed.size() == 1);
  }
  attached second{n.dir, true, true};
  REQUIRE(second.ready());
  CHECK(take_all(second, "s1") == numbers(60'000));
}

TEST_CASE("a program that waits for a swarmd that has gone is ended at once by who comes for that") {
  node n;
  set_hold(n, 40'000);
  bool has_ended = false, with_keeper = false;
  SUBCASE("one that waits to write") {}
  SUBCASE("one that has left output in its pipe at its end") { has_ended = true; }
  SUBCASE("one with its keeper") { with_keeper = true; }
  SUBCASE("one that has left output with its keeper") { has_ended = with_keeper = true; }
  {
    attached first{n.dir, true, true};
    first.run(flood("s1", has_ended ? "head -c 120000 /dev/zero" : "seq 1 60000"));
    REQUIRE(fill_ring(first, "s1"));
    if (has_ended)
      REQUIRE(eventually([&] { return !is_running(static_cast<pid_t>(first.events.child("s1").pid)); }));
  }
  attached ends{n.dir};
  REQUIRE_MESSAGE(ends.ready(), ends.events.reason);
  if (with_keeper)
    ends.client.quit();
  else
    ends.client.kill("s1", 0);
  CHECK(ends.wait_exit("s1").attempt == 1);
}

TEST_CASE("a program that waits with its output can be ended and so can its keeper") {
  node n;
  attached a{n.dir, true, true};
  a.run(flood("s1", "seq 1 60000"));
  REQUIRE(fill_ring(a, "s1"));
  SUBCASE("program") {
    a.client.kill("s1", SIGKILL);
    const auto got = take_all(a, "s1");
    CHECK(got == numbers(60'000).substr(0, got.size()));
    CHECK(a.wait_exit("s1").signal == SIGKILL);
  }
  SUBCASE("keeper") {
    a.client.quit(std::chrono::milliseconds{0});
    CHECK(a.wait_exit("s1").signal == SIGKILL);
    CHECK(a.events.wait([&] { return a.events.gone; }));
  }
}

TEST_CASE("output beyond the ring gives an announced gap and keeps the newest bytes") {
  node n;
  attached a{n.dir};
  auto s = shell("s1", "i=0; while [ $i -lt 20000 ]; do echo line-$i; i=$((i+1)); done; printf END", true);
  s.set_ring_bytes(64 * 1024);
  a.run(s);
  auto e = a.wait_exit("s1");
  REQUIRE(e.end > s.ring_bytes());
  auto c = a.events.child("s1").ring->read(0, e.end);
  CHECK(c.offset == e.end - s.ring_bytes());
  CHECK(c.gap == c.offset);
  CHECK(c.bytes.size() == s.ring_bytes());
  CHECK(c.bytes.substr(c.bytes.size() - 14) == "line-19999\nEND");
}

TEST_CASE("input reaches the program and is acknowledged with its size") {
  node n;
  attached a{n.dir};
  a.run(shell("s1", "read x; echo got:$x"));
  a.client.write("s1", 7, "hello\n");
  CHECK(answer(a, "s1", 7) == std::pair<std::uint64_t, bool>{6, false});
  a.wait_exit("s1");
  CHECK(a.output("s1").find("got:hello") != std::string::npos);
}

TEST_CASE("input for a program that is gone is answered closed") {
  node n;
  attached a{n.dir};
  a.run(shell("s1", "true"));
  a.wait_exit("s1");
  a.client.write("s1", 1, "x");
  CHECK(answer(a, "s1", 1) == std::pair<std::uint64_t, bool>{0, true});
  a.client.write("unknown", 2, "x");
  CHECK(answer(a, "unknown", 2) == std::pair<std::uint64_t, bool>{0, true});
}

TEST_CASE("input that nobody reads is refused beyond the staging buffer and closed with the program") {
  node n;
  attached a{n.dir};
  a.run(shell("s1", "exec sleep 1000", true));
  std::string block(limits::pty_input_bytes_max, 'x');
  for (std::uint64_t t = 1; t <= 8; ++t)
    REQUIRE(a.client.write("s1", t, block));
  CHECK(answer(a, "s1", 8) == std::pair<std::uint64_t, bool>{0, false});
  CHECK(answer(a, "s1", 1) == std::pair<std::uint64_t, bool>{block.size(), false});
  CHECK(a.events.child("s1").input.count(4) == 0);
  a.client.kill("s1", SIGKILL);
  CHECK(answer(a, "s1", 4).second);
  a.wait_exit("s1");
}

TEST_CASE("the next client that attaches is told of the newest inputs that had a request, written or staged, and of none of their tickets") {
  node n;
  std::string block(limits::pty_input_bytes_max / 2, 'x');
  {
    attached first{n.dir};
    first.run(shell("s1", "read x; exec sleep 1000", true));
    for (std::uint64_t i = 1; i <= limits::keeper_inputs_remembered_max; ++i)
      first.client.write("s1", i, "\n", "me/" + std::to_string(i));
    first.client.write("s1", 100, "\n");
    first.client.write("s1", 101, "\n", std::string(limits::pty_request_bytes_max + 1, 'r'));
    CHECK(answer(first, "s1", 101) == std::pair<std::uint64_t, bool>{1, false});
    for (std::uint64_t i = 200; i < 203; ++i) // the last of them is staged
      first.client.write("s1", i, block, "block/" + std::to_string(i));
    CHECK(answer(first, "s1", 200) == std::pair<std::uint64_t, bool>{block.size(), false});
  }
  attached second{n.dir};
  REQUIRE(second.ready());
  REQUIRE(second.events.listed.size() == 1);
  auto inputs = second.events.listed[0].inputs;
  REQUIRE(inputs.size() == limits::keeper_inputs_remembered_max);
  CHECK(inputs.front() == std::pair<std::string, std::uint64_t>{"me/4", 1});
  CHECK(inputs.back() == std::pair<std::string, std::uint64_t>{"block/202", block.size()});
  second.client.kill("s1", SIGKILL);
  second.wait_exit("s1");
  CHECK(second.events.child("s1").input.empty());
}

TEST_CASE("an input that is sent again under its request is answered as before and not typed again") {
  node n;
  {
    attached first{n.dir};
    first.run(shell("s1", "while read line; do echo got-$line; done", true));
    first.client.write("s1", 1, "one\n", "me/1");
    CHECK(answer(first, "s1", 1) == std::pair<std::uint64_t, bool>{4, false});
    first.client.write("s1", 2, "one\n", "me/1");
    CHECK(answer(first, "s1", 2) == std::pair<std::uint64_t, bool>{4, false});
  }
  attached second{n.dir};
  REQUIRE(second.ready());
  second.client.write("s1", 1, "one\n", "me/1");
  CHECK(answer(second, "s1", 1) == std::pair<std::uint64_t, bool>{4, false});
  second.client.write("s1", 2, "two\n", "me/2");
  REQUIRE(second.wait_output("s1", "got-two"));
  auto output = second.output("s1");
  CHECK(output.find("got-one") == output.rfind("got-one"));
}

TEST_CASE("a block of input larger than the client accepts is refused at once") {
  node n;
  attached a{n.dir};
  CHECK_FALSE(a.client.write("s1", 1, std::string(limits::pty_input_bytes_max + 1, 'x')));
}

TEST_CASE("a terminal has the size it was given and follows a resize") {
  node n;
  attached a{n.dir};
  auto s = shell("s1", "stty size; trap 'stty size; exit 0' WINCH; echo ready; while :; do sleep 0.05; done");
  s.set_columns(101);
  s.set_rows(37);
  a.run(s);
  REQUIRE(a.wait_output("s1", "ready"));
  CHECK(a.output("s1").find("37 101") == 0);
  a.client.resize("s1", 132, 50);
  CHECK(a.wait_exit("s1").exit_status == 0);
  CHECK(a.output("s1").find("50 132") != std::string::npos);
}

TEST_CASE("a terminal is the controlling one, and its interrupt key works") {
  node n;
  attached a{n.dir};
  a.run(shell("s1", "echo direct > /dev/tty; exec sleep 1000"));
  REQUIRE(a.wait_output("s1", "direct"));
  a.client.write("s1", 1, "\x03");
  CHECK(a.wait_exit("s1").signal == SIGINT);
}

TEST_CASE("a program may close its terminal and open it again") {
  node n;
  attached a{n.dir};
  a.run(shell("s1", "echo one; exec </dev/null >/dev/null 2>&1; sleep 0.05; echo two > /dev/tty"));
  a.wait_exit("s1");
  CHECK(a.output("s1") == "one\r\ntwo\r\n");
}

TEST_CASE("with pipes no terminal changes the bytes, errors are output and stdin can be ended") {
  node n;
  attached a{n.dir};
  a.run(shell("s1", "test -t 0 || test -t 1 || echo none; echo err >&2; cat; echo after", true));
  a.client.write("s1", 1, std::string{"a\0b\x03\n", 5});
  a.client.write("s1", 2, "");
  CHECK(answer(a, "s1", 2) == std::pair<std::uint64_t, bool>{0, true});
  CHECK(a.wait_exit("s1").exit_status == 0);
  CHECK(a.output("s1") == std::string{"none\nerr\na\0b\x03\nafter\n", 20});
}

TEST_CASE("a program without input reads the end of it at once, as often as it reads, and keeps its terminal") {
  node n;
  attached a{n.dir};
  for (bool pipes : {false, true}) {
    auto s =
      shell(pipes ? "pipes" : "pty", "cat; read x || echo end; test -t 1 && test -e /dev/tty && (: </dev/tty) && echo terminal; exit 3", pipes);
    s.set_no_input(true);
    a.run(s);
    CHECK(a.wait_exit(s.id()).exit_status == 3);
    CHECK(a.output(s.id()) == (pipes ? "end\n" : "end\r\nterminal\r\n"));
  }
}

TEST_CASE("a program that closes its output early still has its exit status reported") {
  node n;
  attached a{n.dir};
  a.run(shell("s1", "echo out; exec >&- 2>&-; read x; exit 6", true));
  REQUIRE(a.wait_output("s1", "out"));
  a.client.write("s1", 1, "\n");
  CHECK(a.wait_exit("s1").exit_status == 6);
}

TEST_CASE("a program flooding its terminal does not keep others from being served") {
  node n;
  attached a{n.dir};
  a.run(shell("flood", "exec yes"));
  REQUIRE(a.wait_output("flood", "y"));
  for (int i = 0; i < 5; ++i) {
    auto id = "s" + std::to_string(i);
    a.run(shell(id, "echo fine"));
    CHECK(a.wait_exit(id).exit_status == 0);
  }
  a.client.kill("flood", SIGKILL);
  a.wait_exit("flood");
}
