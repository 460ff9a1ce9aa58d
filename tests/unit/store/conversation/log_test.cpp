// A conversation's log by itself: what was appended is read, and a reader that comes back goes on where it was, or is told what it misses.
#include <thread>

#include "tests/unit/store/conversation/log_fixture.hpp"
#include "tests/unit/store/store_fixture.hpp"

using namespace swarm;
using namespace swarm::test;

using why = log_gap::why;

TEST_CASE("what was appended is read in order with all its fields, over the bounds of files and after opening again") {
  log_world w;
  auto& log = w.open();
  CHECK(log.opened().is_new);
  std::vector<conversation_frame> written;
  for (std::uint64_t i = 0; i < 30; ++i) {
    written.push_back({i / 10, i, static_cast<std::int64_t>(i * 1000), static_cast<std::uint32_t>(i + 1), std::string(i * 7, 'x')});
    REQUIRE(log.append(written.back()));
  }
  for (bool again : {false, true}) {
    if (again)
      w.open();
    CHECK_FALSE(again == w.log->opened().is_new);
    CHECK(w.log->opened().cut == 0);
    CHECK_FALSE(w.log->opened().lost);
    auto all = read_all(*w.log);
    CHECK(all.gaps.empty());
    REQUIRE(all.entries.size() == written.size());
    for (std::size_t i = 0; i < written.size(); ++i)
      CHECK(all.entries[i].frame == written[i]);
  }
  CHECK(w.disk.files().size() > 5);
  CHECK(w.epochs == 1);
}

TEST_CASE("a batch has at most the bytes that were asked for, but one frame at least") {
  log_world w;
  w.options.segment_bytes = 10'000;
  auto& log = w.open();
  for (int i = 0; i < 5; ++i)
    w.append(std::string(64, 'x')); // 100 bytes with its head
  for (auto [bytes, frames] : std::vector<std::pair<std::size_t, std::size_t>>{{0, 1}, {99, 1}, {100, 1}, {199, 1}, {200, 2}, {10'000, 5}}) {
    auto batch = log.read(log.start(), bytes);
    REQUIRE(batch);
    CHECK(batch->entries.size() == frames);
    CHECK(batch->next.offset == frames * 100);
  }
}

TEST_CASE("a reader that comes back goes on where it was, also after the node has started again") {
  log_world w;
  w.open();
  w.append("one");
  auto after_one = w.log->cursor(w.log->end());
  w.append("two");
  for (bool again : {false, true}) {
    if (again)
      w.open();
    auto found = w.resume(after_one);
    CHECK_FALSE(found.gap);
    CHECK(read_on(*w.log, found.at).bodies() == std::vector<std::string>{"two"});
    CHECK_FALSE(w.resume(w.log->cursor(w.log->end())).gap);
    CHECK_FALSE(w.resume(w.log->cursor(w.log->start())).gap);
  }
}

TEST_CASE("a cursor of an old epoch is a gap also where its reader misses nothing") {
  log_world w;
  w.open();
  w.append("one");
  auto after_one = w.log->cursor(w.log->end());
  w.sync();
  w.append("two");
  auto after_two = w.log->cursor(w.log->end());
  w.disk.damage("/log/" + log_world::file_name(0), [](std::string& bytes) { bytes.pop_back(); });
  w.open();
  CHECK(w.log->opened().cut == frame_head_bytes + 2);
  w.append("2nd two");
  CHECK(w.why_not(after_one) == why::epoch);
  CHECK(read_on(*w.log, w.resume(after_one).at).bodies() == std::vector<std::string>{"2nd two"});
  CHECK(w.why_not(after_two) == why::epoch);
  CHECK(w.resume(after_two).at == w.log->start());
  CHECK(w.why_not({.epoch = 99, .at = w.log->end()}) == why::epoch);
}

TEST_CASE("frames that a power cut took without a trace are noticed when others stand in their place") {
  log_world w;
  w.options.segment_bytes = 10'000;
  w.open();
  w.append("one");
  w.sync();
  w.append("two");
  auto after_two = w.log->cursor(w.log->end());
  w.log.reset();
  w.disk.reboot();
  w.open();
  CHECK(w.log->opened().cut == 0);
  CHECK(w.why_not(after_two) == why::beyond_end);
  w.append("2.0"); // as long
  CHECK(w.why_not(after_two) == why::history);
  w.append("three");
  CHECK(w.why_not(after_two) == why::history);
  CHECK(read_on(*w.log, w.resume(after_two).at).bodies() == std::vector<std::string>{"one", "2.0", "three"});
}

TEST_CASE("an offset inside a frame and one beyond the end are gaps") {
  log_world w;
  w.options.segment_bytes = 10'000;
  w.open();
  w.append("one");
  const auto end = w.append("two");
  auto c = w.log->cursor(end);
  for (std::uint64_t offset = 1; offset < end.offset; ++offset) {
    c.at.offset = offset;
    CHECK(w.why_not(c) == (offset == end.offset / 2 ? why::history : why::inside_frame));
  }
  c.at.offset = end.offset + 1;
  CHECK(w.why_not(c) == why::beyond_end);
  c.at.offset = ~0ull;
  CHECK(w.why_not(c) == why::beyond_end);
}

TEST_CASE("the oldest files go when there is too much, and readers of them are told") {
  log_world w;
  w.options.total_bytes = 1000;
  w.open();
  auto beginning = w.log->cursor(w.log->start());
  for (int i = 0; i < 100; ++i)
    w.append(std::to_string(i) + std::string(50, 'x'));
  const auto start = w.log->start(), end = w.log->end();
  CHECK(end.offset - start.offset <= w.options.total_bytes + w.options.segment_bytes + 200);
  CHECK(w.disk.files().size() <= 7);
  auto found = w.resume(beginning);
  REQUIRE(found.gap);
  CHECK(*found.gap == log_gap{0, start.offset, why::retention});
  CHECK(found.at == start);
  auto rest = read_on(*w.log, {});
  CHECK(rest.gaps == std::vector{log_gap{0, start.offset, why::retention}});
  CHECK(rest.entries.back().frame.body.starts_with("99"));
  w.open();
  CHECK(w.log->start() == start);
}

TEST_CASE("files whose newest frame is too old go, also the last one") {
  log_world w;
  w.options.age_ms = 1000;
  w.open();
  w.append("a" + std::string(300, 'x'), 10'000);
  w.append("b" + std::string(300, 'x'), 10'500);
  w.append("c", 10'800);
  auto kept = [&w](std::int64_t now) {
    REQUIRE_FALSE(w.log->retain(now));
    std::string out;
    for (const auto& body : read_all(*w.log).bodies())
      out += body.front();
    return out;
  };
  CHECK(kept(11'000) == "abc");
  CHECK(kept(11'501) == "bc");
  CHECK(kept(11'801) == "");
  const auto end = w.log->end();
  CHECK(kept(100'000) == "");
  CHECK(w.log->end() == end);
  w.append("d", 100'000);
  w.open();
  CHECK(kept(100'000) == "d");
}

TEST_CASE("seeking finds the first frame that begins at an offset or behind it") {
  log_world w;
  w.open();
  std::vector<log_position> begins;
  for (int i = 0; i < 40; ++i) {
    begins.push_back(w.log->end());
    w.append(std::string(static_cast<std::size_t>(i), 'x'));
  }
  begins.push_back(w.log->end());
  std::size_t next = 0;
  for (std::uint64_t offset = 0; offset <= w.log->end().offset; ++offset) {
    if (offset > begins[next].offset)
      ++next;
    auto found = w.log->seek(offset);
    REQUIRE(found);
    CHECK(*found == begins[next]);
  }
  CHECK(*w.log->seek(~0ull) == w.log->end());
}

TEST_CASE("a frame without a kind and one that is too long are refused, and change nothing") {
  log_world w;
  w.open();
  auto none = text_frame("x");
  none.kind = 0;
  CHECK_FALSE(w.log->append(none));
  CHECK_FALSE(w.log->append(text_frame(std::string(frame_body_bytes_max + 1, 'x'))));
  CHECK(w.log->end().offset == 0);
  w.append(std::string(frame_body_bytes_max, 'x'));
  CHECK(read_all(*w.log).bodies().front().size() == frame_body_bytes_max);
}

TEST_CASE("readers on other threads see whole frames only, each once and in order, while the log grows and loses its beginning") {
  scratch_dir dir;
  log_options options;
  options.segment_bytes = 16 * limits::kib;
  options.total_bytes = 128 * limits::kib;
  options.new_epoch = [] { return 1; };
  auto opened = conversation_log::open(system_disk(), dir.path / "log", options);
  REQUIRE(opened);
  auto& log = **opened;
  constexpr std::uint64_t last = 5000;
  auto read = [&log] {
    std::uint64_t seen = 0, frames = 0;
    for (auto at = log.start(); seen < last;) {
      auto batch = log.read(at, 10'000);
      if (!batch || (batch->gap && batch->gap->reason != why::retention))
        return false;
      for (const auto& e : batch->entries) {
        if (e.frame.driver_seq <= seen || e.frame.body != std::string(e.frame.driver_seq % 200, 'x') || (frames > 0 && !batch->gap && e.at != at))
          return false;
        at = e.next;
        seen = e.frame.driver_seq;
        ++frames;
      }
      at = batch->next;
    }
    return true;
  };
  bool good[3] = {};
  std::vector<std::thread> readers;
  for (auto& g : good)
    readers.emplace_back([&g, &read] { g = read(); });
  bool written = true;
  for (std::uint64_t i = 1; i <= last; ++i) {
    auto frame = text_frame(std::string(i % 200, 'x'));
    frame.driver_seq = i;
    written = written && log.append(frame);
  }
  for (auto& r : readers)
    r.join();
  CHECK(written);
  for (auto g : good)
    CHECK(g);
}
