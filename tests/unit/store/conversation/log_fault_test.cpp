// A conversation's log on a disk that is full, fails or is damaged.
#include <map>

#include "tests/unit/store/conversation/log_fixture.hpp"

using namespace swarm;
using namespace swarm::test;

using why = log_gap::why;
using texts = std::vector<std::string>;

namespace {

std::map<std::string, std::string> contents(const fault_disk& d) {
  std::map<std::string, std::string> out;
  for (const auto& [name, data] : d.files())
    out[name] = data->now;
  return out;
}

std::uint64_t reads_of_opening(log_world& w) {
  const auto before = w.disk.reads();
  w.open();
  return w.disk.reads() - before;
}

} // namespace

TEST_CASE("a full disk refuses a frame and nothing else: the log can be read, and goes on when there is space") {
  log_world w;
  w.open();
  w.append("one");
  w.sync();
  const auto end = w.log->end();
  w.disk.fill(true);
  for (int i = 0; i < 3; ++i) {
    auto refused = w.log->append(text_frame("two"));
    REQUIRE_FALSE(refused);
    CHECK(refused.failure().is_full());
    CHECK(refused.failure().text.find("free some space") != std::string::npos);
    CHECK(w.log->end() == end);
    CHECK(read_all(*w.log).bodies() == texts{"one"});
  }
  w.disk.fill(false);
  w.append("2");
  for (bool again : {false, true}) {
    if (again)
      w.open();
    CHECK(w.log->opened().cut == 0);
    CHECK(read_all(*w.log).bodies() == texts{"one", "2"});
  }
}

TEST_CASE("a full disk where the next file would begin refuses the frame only") {
  log_world w;
  w.open();
  w.append(std::string(300, 'a'));
  w.disk.fill(true);
  CHECK_FALSE(w.log->append(text_frame("b")));
  CHECK(read_all(*w.log).entries.size() == 1);
  w.disk.fill(false);
  w.append("c");
  w.open();
  CHECK(read_all(*w.log).bodies() == texts{std::string(300, 'a'), "c"});
}

TEST_CASE("after a sync that failed the next one makes the same frames durable") {
  log_world w;
  w.options.segment_bytes = 10'000;
  w.open();
  w.append("one");
  w.append("two");
  w.disk.fail_at(1, std::errc::io_error);
  auto failed = w.log->sync();
  REQUIRE(failed);
  CHECK_FALSE(failed->is_full());
  CHECK(w.log->synced() == 0);
  SUBCASE("in the same process") {}
  SUBCASE("in the next one") { w.open(); }
  CHECK(read_all(*w.log).bodies() == texts{"one", "two"});
  w.sync();
  CHECK(w.log->synced() == w.log->end().offset);
  w.log.reset();
  w.disk.reboot();
  w.open();
  CHECK(read_all(*w.log).bodies() == texts{"one", "two"});
}

TEST_CASE("what is durable needs no sync, nor does what a row says is") {
  log_world w;
  w.open();
  w.options.synced = w.append("one").offset;
  w.sync();
  auto before = w.disk.operations();
  w.sync();
  w.open();
  CHECK(w.log->synced() == w.log->end().offset);
  w.sync();
  CHECK(w.disk.operations() == before + 1); // of the directory's name, by opening
}

TEST_CASE("the names of a log's directories are durable before anything in the log counts as durable") {
  for (std::uint64_t k = 1; k <= 4; ++k) { // /a, its name, /a/log, its name
    CAPTURE(k);
    log_world w;
    w.disk.fail_at(k, std::errc::io_error);
    CHECK_FALSE(conversation_log::open(w.disk, "/a/log", w.options));
    for (bool again : {false, true}) {
      auto opened = conversation_log::open(w.disk, "/a/log", w.options);
      REQUIRE(opened);
      if (again)
        CHECK(read_all(**opened).bodies() == texts{"a"});
      else
        REQUIRE((*opened)->append(text_frame("a")));
      REQUIRE_FALSE((*opened)->sync());
      w.disk.reboot();
    }
  }
}

TEST_CASE("a log opens in a directory among others that this user may not read") {
  log_world w;
  w.open();
  w.disk.fail_at(1, std::errc::permission_denied);
  CHECK(w.open().end().offset == 0);
}

TEST_CASE("a name that could not be synced is synced before anything in its file counts as durable") {
  log_world w;
  w.open();
  w.append(std::string(300, 'a'));
  w.sync();
  w.disk.fail_at(5, std::errc::io_error); // make, head, sync, name, sync of the name
  CHECK_FALSE(w.log->append(text_frame("b")));
  w.append("c");
  SUBCASE("in the same process") {}
  SUBCASE("in the next one") { w.open(); }
  w.disk.fail_at(1, std::errc::io_error);
  CHECK(w.log->sync());
  CHECK(w.log->synced() == 300 + frame_head_bytes);
  w.sync();
  w.log.reset();
  w.disk.reboot();
  w.open();
  CHECK(read_all(*w.log).bodies() == texts{std::string(300, 'a'), "c"});
}

TEST_CASE("damage in an older file hides its frame, or the rest of the file when a length is hit, and readers are told") {
  log_world w;
  w.options.segment_bytes = 100;
  w.open();
  for (const auto* body : {"a", "b", "c", "d", "e", "f"})
    w.append(body); // 37 bytes each, three in a file
  auto after_a = w.log->cursor({37, read_all(*w.log).entries[0].next.mark});
  auto after_b = w.log->cursor(read_all(*w.log).entries[1].next);
  auto after_c = w.log->cursor(read_all(*w.log).entries[2].next);
  texts left{"a", "d", "e", "f"};
  std::uint64_t hidden_to = 111;
  SUBCASE("in a body") {
    w.damage(0, segment_head_bytes + 37 + 36);
    left.insert(left.begin() + 1, "c");
    hidden_to = 74;
  }
  SUBCASE("in a length") { w.damage(0, segment_head_bytes + 37 + 1); }
  for (bool again : {false, true}) {
    if (again)
      w.open();
    auto all = read_all(*w.log);
    CHECK(all.bodies() == left);
    CHECK(all.gaps == std::vector{log_gap{37, hidden_to, why::damaged}});
    // Its reader has missed nothing yet.
    CHECK_FALSE(w.resume(after_a).gap);
    CHECK(read_on(*w.log, w.resume(after_a).at).gaps == all.gaps);
    CHECK_FALSE(w.resume(after_c).gap);
    auto found = w.resume(after_b); // the frame before it is damaged, but it names the right one to come
    CHECK_FALSE(found.gap);
    CHECK(read_on(*w.log, found.at).bodies() == texts{"c", "d", "e", "f"});
    CHECK(w.log->seek(38)->offset == hidden_to);
  }
  CHECK_FALSE(w.log->opened().lost);
  CHECK(w.epochs == 1);
}

TEST_CASE("a file that is gone is a gap") {
  log_world w;
  w.options.segment_bytes = 70;
  w.open();
  for (const auto* body : {"a", "b", "c", "d", "e"})
    w.append(body);
  REQUIRE_FALSE(w.disk.remove("/log/" + log_world::file_name(74)));
  for (bool again : {false, true}) {
    if (again)
      w.open();
    auto all = read_all(*w.log);
    CHECK(all.bodies() == texts{"a", "b", "e"});
    CHECK(all.gaps == std::vector{log_gap{74, 148, why::damaged}});
  }
}

TEST_CASE("damage of what was synced in the last file is told apart from a torn end by the row that vouches for it") {
  log_world w;
  w.options.segment_bytes = 10'000;
  w.open();
  w.append("a");
  w.append("b");
  w.append("c");
  w.sync();
  w.damage(0, segment_head_bytes + 37 + 36);
  SUBCASE("no row: the end is cut") {
    w.open();
    CHECK(w.log->opened().cut == 74);
    CHECK_FALSE(w.log->opened().lost);
    CHECK(w.log->end().offset == 37);
    CHECK(read_all(*w.log).gaps.empty());
  }
  SUBCASE("a row: the damage is a gap for good") {
    w.options.synced = 111;
    w.open();
    CHECK(w.log->opened().cut == 0);
    REQUIRE(w.log->opened().lost);
    CHECK(*w.log->opened().lost == log_gap{37, 111, why::damaged});
    w.append("d");
    w.open();
    CHECK(read_all(*w.log).bodies() == texts{"a", "c", "d"});
    CHECK(read_all(*w.log).gaps == std::vector{log_gap{37, 74, why::damaged}});
  }
  CHECK(w.epochs == 2);
}

TEST_CASE("a log whose files are all gone or unreadable begins behind what a row vouches for") {
  log_world w;
  w.open();
  w.options.synced = w.append("a").offset;
  w.sync();
  auto at_end = w.log->cursor(w.log->end());
  SUBCASE("gone") { REQUIRE_FALSE(w.disk.remove("/log/" + log_world::file_name(0))); }
  SUBCASE("its head is damaged") { w.damage(0, 9); }
  SUBCASE("too short for a head") {
    w.disk.damage("/log/" + log_world::file_name(0), [](std::string& bytes) { bytes.resize(5); });
  }
  w.open();
  REQUIRE(w.log->opened().lost);
  CHECK(w.log->opened().lost->to >= 37);
  CHECK_FALSE(w.log->opened().is_new);
  CHECK(w.why_not(at_end) == why::epoch);
  w.append("b");
  w.open();
  CHECK(read_all(*w.log).bodies() == texts{"b"});
  CHECK(w.epochs == 2);
}

TEST_CASE("frames that could not be read and can be again are read, and what was appended in between as well") {
  log_world w;
  w.open();
  w.append("a");
  w.options.synced = w.append("b").offset;
  w.sync();
  w.damage(0, segment_head_bytes + 36);
  w.open();
  REQUIRE(w.log->opened().lost);
  w.damage(0, segment_head_bytes + 36);
  w.open();
  CHECK(read_all(*w.log).bodies() == texts{"a", "b"});
  w.append("c");
  w.open();
  const auto all = read_all(*w.log);
  CHECK(all.bodies() == texts{"a", "b", "c"});
  CHECK(all.gaps.empty());
  for (const auto& e : all.entries)
    CHECK_FALSE(w.resume(w.log->cursor(e.next)).gap);
}

TEST_CASE("a strange file far behind the end does not move the end, wherever it claims to be") {
  for (std::uint64_t base : {10'000'000ull, 1ull << 59, 1ull << 60, ~0ull}) {
    log_world w;
    w.open();
    w.append("a");
    REQUIRE(w.disk.open("/log/" + log_world::file_name(base), disk::how::make));
    w.open();
    CHECK(w.log->end().offset == 37);
    CHECK(w.epochs == 1);
  }
}

TEST_CASE("a log goes on behind the only file there is, whose head is damaged, wherever it begins") {
  for (std::uint64_t base : {0ull, 5000ull, 1ull << 59}) {
    log_world w;
    REQUIRE_FALSE(w.disk.make_directory("/log"));
    REQUIRE(w.disk.open("/log/" + log_world::file_name(base), disk::how::make));
    w.open();
    CHECK(w.log->opened().is_new == (base == 0));
    w.append("a");
    w.open();
    CHECK(read_all(*w.log).bodies() == texts{"a"});
    CHECK(w.log->start().offset == base);
  }
}

TEST_CASE("a disk that cannot be read refuses to open the log, and cuts nothing") {
  log_world w;
  w.open();
  w.append("a");
  const auto end = w.log->end();
  const auto before = contents(w.disk);
  const auto reads = reads_of_opening(w);
  REQUIRE(reads == 2); // head, frames
  for (std::uint64_t k = 1; k <= reads; ++k) {
    CAPTURE(k);
    w.disk.fail_read_at(k);
    CHECK_FALSE(conversation_log::open(w.disk, "/log", w.options));
    CHECK(contents(w.disk) == before);
    w.disk.heal();
    w.open();
    CHECK(w.log->opened().cut == 0);
    CHECK(w.log->end() == end);
  }
  CHECK(read_all(*w.log).bodies() == texts{"a"});
  CHECK(w.epochs == 1);
}

TEST_CASE("an older file that cannot be read when the log is opened is a gap until it can be") {
  log_world w;
  w.options.segment_bytes = 70;
  w.open();
  for (const auto* body : {"a", "b", "c", "d", "e", "f"})
    w.append(body); // two in a file
  w.sync();
  const auto end = w.log->end();
  const auto before = contents(w.disk);
  const auto all = read_all(*w.log).bodies();
  REQUIRE(reads_of_opening(w) == 4); // three heads, frames
  SUBCASE("the first") {
    w.disk.fail_read_at(1);
    w.open();
    CHECK(read_on(*w.log, {}).bodies() == texts{"c", "d", "e", "f"});
    CHECK(read_on(*w.log, {}).gaps == std::vector{log_gap{0, 74, why::retention}});
  }
  SUBCASE("one between") {
    w.disk.fail_read_at(2);
    w.open();
    CHECK(read_all(*w.log).bodies() == texts{"a", "b", "e", "f"});
    CHECK(read_all(*w.log).gaps == std::vector{log_gap{74, 148, why::damaged}});
  }
  CHECK(w.log->end() == end);
  CHECK(w.log->opened().cut == 0);
  CHECK_FALSE(w.log->opened().lost);
  CHECK(contents(w.disk) == before);
  w.open();
  CHECK(read_all(*w.log).bodies() == all);
  CHECK(read_all(*w.log).gaps.empty());
  CHECK(w.epochs == 1);
}

TEST_CASE("files of other names are left alone, and unfinished ones are removed") {
  log_world w;
  w.open();
  w.append("a");
  for (const auto* name : {"/log/notes.txt", "/log/0.log", "/log/ffffffffffffffff.log", "/log/0000000000000010.log.new", "/log/.log"})
    REQUIRE(w.disk.open(name, disk::how::make));
  w.open();
  CHECK(read_all(*w.log).bodies() == texts{"a"});
  CHECK(w.disk.files().size() == 5);
  CHECK(w.disk.files().count("/log/notes.txt") == 1);
}
