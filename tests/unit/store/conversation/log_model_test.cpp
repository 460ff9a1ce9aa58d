// A conversation's log beside a model that is a list: whatever the disk does, nothing is read that was not written, nothing that was synced is
// missing, and a reader is told `ok` only if it misses nothing and sees nothing twice.
#include <algorithm>
#include <random>

#include "tests/unit/store/conversation/log_fixture.hpp"

using namespace swarm;
using namespace swarm::test;

namespace {

/// Which frames precede a place: their numbers, which are never used twice.
using history = std::vector<std::uint64_t>;

struct issued {
  log_cursor cursor;
  history before;
};

class model {
public:
  explicit model(std::uint64_t seed) : dice_(seed) {
    world_.options.segment_bytes = 100 + dice_() % 600;
    world_.options.total_bytes = dice_() % 2 == 0 ? 1'000'000 : 2000;
    world_.options.age_ms = 500;
    open();
  }

  void step() {
    switch (dice_() % 16) {
      case 0: reopen(); break;
      case 1: crash(); break;
      case 2: fail(); break;
      case 3: retain(); break;
      case 4:
      case 5: sync(); break;
      case 6: world_.disk.cut_power_at(1 + dice_() % 12); break;
      case 7: world_.disk.fill(dice_() % 2 == 0); break;
      case 8:
      case 9: check_cursors(); break;
      default: append();
    }
    if (!world_.disk.powered())
      crash();
  }

  void check() {
    read_everything();
    check_cursors();
  }

private:
  conversation_log& log() { return *world_.log; }

  std::string body_of(std::uint64_t number) {
    auto length = number % 3 == 0 ? 20 : number % 50; // many of one length, so that their places coincide
    return std::to_string(number + 1'000'000) + std::string(length, static_cast<char>('a' + number % 26));
  }

  void append() {
    const auto number = next_++;
    auto frame = text_frame(body_of(number), now_ms_ += static_cast<std::int64_t>(dice_() % 20));
    frame.driver_seq = number;
    const auto begin = log().end().offset;
    if (log().append(frame)) {
      now_.push_back(number);
      begins_.push_back(begin);
      issue();
    }
  }

  void sync() {
    if (!log().sync()) {
      synced_ = now_.size();
      CHECK(log().synced() == log().end().offset);
      if (dice_() % 3 == 0)
        world_.options.synced = log().end().offset; // as a row that refers to it
    }
  }

  void retain() { (void)log().retain(now_ms_); }

  void fail() { world_.disk.fail_at(1 + dice_() % 4, dice_() % 2 == 0 ? std::errc::io_error : std::errc::no_space_on_device); }

  void issue() { issued_.push_back({log().cursor(log().end()), now_}); }

  /// The process dies, and nothing else: what was written is there.
  void reopen() {
    world_.disk.heal();
    open();
    CHECK(log().opened().cut < frame_bytes_max);
    check();
  }

  void crash() {
    world_.log.reset();
    world_.disk.reboot(dice_() % 4 == 0 ? std::nullopt : std::optional{dice_()});
    // Opening it may be cut as well.
    for (int tries = 0; dice_() % 3 == 0 && tries < 3; ++tries) {
      world_.disk.cut_power_at(1 + dice_() % 8);
      { auto opened = conversation_log::open(world_.disk, "/log", world_.options); }
      world_.disk.reboot(dice_());
    }
    open();
    const auto found = kept();
    // The end of what was read before, with all that had been synced.
    now_.resize(std::min(now_.size(), dropped() + found.size()));
    begins_.resize(now_.size());
    CHECK(now_.size() >= synced_);
    synced_ = now_.size();
    check();
    issue();
  }

  void open() {
    world_.open();
    CHECK_FALSE(log().opened().lost);
    if (issued_.empty())
      issue();
  }

  history kept() {
    history out;
    auto all = read_all(log());
    CHECK(all.gaps.empty());
    for (const auto& e : all.entries) {
      REQUIRE(e.frame.body == body_of(e.frame.driver_seq));
      out.push_back(e.frame.driver_seq);
    }
    return out;
  }

  /// How many frames retention has taken.
  std::size_t dropped() { return static_cast<std::size_t>(std::ranges::lower_bound(begins_, log().start().offset) - begins_.begin()); }

  void read_everything() {
    const auto found = kept();
    const auto from = dropped();
    REQUIRE(from + found.size() == now_.size());
    CHECK(std::equal(found.begin(), found.end(), now_.begin() + static_cast<std::ptrdiff_t>(from)));
  }

  void check_cursors() {
    for (int n = 0; n < 5; ++n) {
      const auto& i = issued_[dice_() % issued_.size()];
      const auto c = parse_cursor(to_text(i.cursor));
      REQUIRE(c);
      const auto found = world_.resume(*c);
      const auto is_before = i.before.size() <= now_.size() && std::equal(i.before.begin(), i.before.end(), now_.begin());
      const auto rest = read_on(log(), found.at, 1 + dice_() % 1000);
      CHECK(rest.gaps.empty());
      history seen;
      for (const auto& e : rest.entries)
        seen.push_back(e.frame.driver_seq);
      // Always the end of the log, from where it says.
      REQUIRE(seen.size() <= now_.size());
      CHECK(std::equal(seen.begin(), seen.end(), now_.end() - static_cast<std::ptrdiff_t>(seen.size())));
      if (!found.gap) {
        CHECK(is_before);
        CHECK(seen.size() == now_.size() - i.before.size());
        CHECK(c->epoch == log().cursor(log().end()).epoch);
        continue;
      }
      CHECK(found.gap->from == c->at.offset);
      CHECK(found.gap->to == found.at.offset);
      // Nothing but what retention took is missing behind what the reader has seen of this history.
      if (found.gap->reason != log_gap::why::retention && found.at != log().start()) {
        CHECK(is_before);
        CHECK(seen.size() == now_.size() - i.before.size());
      }
      if (is_before && c->epoch == log().cursor(log().end()).epoch)
        CHECK(found.gap->reason == log_gap::why::retention);
    }
  }

  std::mt19937_64 dice_;
  log_world world_;
  history now_;                       // all frames ever, without those that were lost
  std::vector<std::uint64_t> begins_; // their offsets
  std::size_t synced_ = 0;
  std::vector<issued> issued_;
  std::uint64_t next_ = 1;
  std::int64_t now_ms_ = 1000;
};

} // namespace

TEST_CASE("a log on a disk that fails, fills up and loses its power has what the model has") {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    model m{seed};
    for (int i = 0; i < 120; ++i)
      m.step();
    m.check();
  }
}
