// A conversation's log whose files anything may have happened to: nothing is read that was not written, and nothing is missing without a word.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>

#include <sys/stat.h>

#include "tests/unit/store/conversation/log_fixture.hpp"
#include "tests/unit/store/store_fixture.hpp"

using namespace swarm;
using namespace swarm::test;

namespace {

constexpr std::uint64_t frames = 40;

class damaged_world : public log_world {
public:
  explicit damaged_world(std::uint64_t seed) : dice(seed) {
    options.segment_bytes = 200 + dice() % 800;
    open();
    cursors.push_back(log->cursor(log->end()));
    for (std::uint64_t i = 0; i < frames; ++i) {
      auto frame = text_frame(body_of(i));
      frame.driver_seq = i;
      REQUIRE(log->append(frame));
      cursors.push_back(log->cursor(log->end()));
    }
    sync();
    if (dice() % 2 == 0)
      options.synced = log->end().offset;
    log.reset();
  }

  static std::string body_of(std::uint64_t i) { return std::string(i % 4 * 20, static_cast<char>('a' + i % 26)) + std::to_string(i); }

  void strike() {
    std::vector<std::string> names;
    for (const auto& [name, data] : disk.files())
      names.push_back(name);
    if (names.empty())
      return;
    const auto& name = names[dice() % names.size()];
    const auto other = disk.files().at(names[dice() % names.size()])->now;
    disk.damage(name, [this, &other](std::string& bytes) {
      const auto at = bytes.empty() ? 0 : dice() % bytes.size();
      switch (dice() % 6) {
        case 0: bytes.resize(at); break;
        case 1: bytes.append(dice() % 300, static_cast<char>(dice() % 3)); break;
        case 2: bytes.replace(at, std::min<std::size_t>(bytes.size() - at, 64), std::min<std::size_t>(bytes.size() - at, 64), '\0'); break;
        case 3: bytes = other; break; // as a file system that mixes up two files
        case 4: bytes.replace(at, 30, other.substr(std::min(other.size(), at), 30)); break;
        default:
          if (!bytes.empty())
            bytes[at] = static_cast<char>(bytes[at] ^ static_cast<char>(1 << dice() % 8));
      }
    });
    if (dice() % 10 == 0)
      REQUIRE_FALSE(disk.remove(name));
  }

  /// What is read from there has been written, in this order, from `next` on; where frames are missing there is a gap in this very place, or the end.
  void check(log_position from, std::uint64_t next) {
    const auto found = read_on(*log, from);
    auto at = from.offset;
    auto gap = found.gaps.begin();
    auto skip_gaps = [&] {
      const auto first = gap;
      for (; gap != found.gaps.end() && gap->from == at; ++gap)
        at = gap->to;
      return gap != first;
    };
    for (const auto& e : found.entries) {
      const auto number = e.frame.driver_seq;
      const auto may_miss = skip_gaps();
      REQUIRE(e.at.offset == at);
      REQUIRE(number >= next);
      REQUIRE((number == next || may_miss));
      REQUIRE(number < frames);
      REQUIRE(e.frame.body == body_of(number));
      next = number + 1;
      at = e.next.offset;
    }
    skip_gaps();
    REQUIRE(gap == found.gaps.end());
    REQUIRE(at == log->end().offset);
  }

  std::mt19937_64 dice;
  std::vector<log_cursor> cursors; // [i]: behind i frames
};

} // namespace

TEST_CASE("damage of any kind never yields a frame that was not written nor hides one without a gap") {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    CAPTURE(seed);
    damaged_world w{seed};
    for (auto n = 1 + w.dice() % 3; n > 0; --n)
      w.strike();
    for (int opened = 0; opened < 2; ++opened) {
      auto& log = w.open();
      w.check({}, 0);
      for (std::uint64_t i = 0; i <= frames; ++i) {
        const auto found = w.resume(w.cursors[i]);
        if (!found.gap)
          w.check(found.at, i);
      }
      // A log that lost something of its end does not take the old cursors for its own.
      if (w.epochs > 1)
        CHECK(std::ranges::all_of(w.cursors, [&w](const log_cursor& c) { return w.why_not(c).has_value(); }));
      else if (w.options.synced != 0)
        CHECK(log.end() == w.cursors.back().at);
      else // whole frames may be missing at the end without a trace
        CHECK(std::ranges::any_of(w.cursors, [&log](const log_cursor& c) { return c.at == log.end(); }));
      const auto end = log.end();
      auto added = text_frame(damaged_world::body_of(0));
      REQUIRE(log.append(added));
      CHECK(read_on(log, end).bodies() == std::vector{added.body});
      REQUIRE_FALSE(log.sync());
      // The second time there is nothing new to find; without what was added here, for check().
      w.log.reset();
      const auto last = std::prev(w.disk.files().end())->first;
      w.disk.damage(last, [&added](std::string& bytes) { bytes.resize(bytes.size() - frame_head_bytes - added.body.size()); });
    }
    CHECK(w.epochs <= 2);
  }
}

TEST_CASE("files of arbitrary bytes give an empty log, not a frame") {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 dice{seed};
    log_world w;
    REQUIRE_FALSE(w.disk.make_directory("/log"));
    for (auto n = dice() % 4; n > 0; --n) {
      const auto name = "/log/" + log_world::file_name(dice() >> (dice() % 64));
      if (!w.disk.open(name, disk::how::make))
        continue;
      w.disk.damage(name, [&dice](std::string& bytes) {
        for (auto left = dice() % 500; left > 0; --left)
          bytes.push_back(static_cast<char>(dice() % 4 == 0 ? dice() : 0));
      });
    }
    w.open();
    CHECK(read_all(*w.log).entries.empty());
    w.append("one");
    w.open();
    CHECK(read_all(*w.log).bodies() == std::vector<std::string>{"one"});
  }
}

TEST_CASE("damage inside a frame hides this frame and none behind it") {
  log_world w;
  w.options.segment_bytes = 10'000;
  w.open();
  w.append("one");
  const auto before = w.log->end();
  const auto after = w.append("two");
  w.append("three");
  w.append("four");
  w.damage(0, segment_head_bytes + before.offset + frame_head_bytes);
  for (const bool again : {false, true}) {
    CAPTURE(again);
    if (again) {
      w.sync();
      w.options.synced = w.log->end().offset;
      w.open();
    }
    const auto found = read_all(*w.log);
    CHECK(found.bodies() == std::vector<std::string>{"one", "three", "four"});
    REQUIRE_FALSE(found.gaps.empty());
    CHECK(found.gaps.front() == log_gap{before.offset, after.offset, log_gap::why::damaged});
    CHECK(*w.log->seek(after.offset) == after);
  }
  w.append("five");
  CHECK(read_all(*w.log).bodies() == std::vector<std::string>{"one", "three", "four", "five"});
}

TEST_CASE("damage does not hide what is appended after the log has turned over to a new file") {
  log_world w;
  w.options.segment_bytes = 10'000;
  w.open();
  w.append("one");
  const auto before = w.log->end();
  w.append("two");
  w.append("three");
  w.sync();
  w.disk.damage("/log/" + log_world::file_name(0), [&](std::string& bytes) { bytes.resize(segment_head_bytes + before.offset + 3); });
  CHECK(read_all(*w.log).bodies() == std::vector<std::string>{"one"});
  REQUIRE_FALSE(w.log->turn_over(1000));
  w.append("four");
  w.append("five");
  CHECK(read_all(*w.log).bodies() == std::vector<std::string>{"one", "four", "five"});
  CHECK(w.disk.files().size() == 2);
  w.sync();
  w.options.synced = w.log->end().offset;
  w.open();
  CHECK(read_all(*w.log).bodies() == std::vector<std::string>{"one", "four", "five"});
  CHECK_FALSE(w.log->opened().lost);
}

TEST_CASE("what has the name of a log or of its file and is none is set aside, and the log goes on") {
  namespace fs = std::filesystem;
  for (const std::string odd : {"directory", "link", "pipe", "no log", "log that leads nowhere"}) {
    CAPTURE(odd);
    scratch_dir dir;
    const auto where = dir.path / "log";
    log_options options;
    options.new_epoch = [n = std::uint64_t{0}]() mutable { return ++n; };
    {
      auto log = conversation_log::open(system_disk(), where, options);
      REQUIRE(log);
      REQUIRE((*log)->append(text_frame("one")));
      REQUIRE_FALSE((*log)->sync());
      options.synced = (*log)->end().offset;
    }
    const auto file = where / log_world::file_name(0);
    if (odd == "directory" || odd == "link" || odd == "pipe")
      fs::remove(file);
    else
      fs::remove_all(where);
    if (odd == "directory")
      fs::create_directory(file);
    else if (odd == "link")
      fs::create_symlink("/dev/null", file);
    else if (odd == "pipe")
      ::mkfifo(file.c_str(), 0600);
    else if (odd == "no log")
      std::ofstream{where} << "x";
    else
      fs::create_symlink("/nonexistent", where);
    auto log = conversation_log::open(system_disk(), where, options);
    REQUIRE_MESSAGE(log, log.failure().text);
    CHECK((*log)->opened().lost == log_gap{0, options.synced, log_gap::why::damaged});
    REQUIRE((*log)->append(text_frame("two")));
    CHECK(read_all(**log).bodies() == std::vector<std::string>{"two"});
  }
}
