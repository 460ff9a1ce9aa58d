#include <doctest/doctest.h>

#include <random>

#include "actors/base/text.hpp"
#include "actors/store/conversation/open_item.hpp"

using namespace swarm;

namespace {

std::string all(const open_item& item) {
  std::string out;
  for (auto at = item.begin(); at < item.end(); at = item.begin() + out.size()) {
    const auto text = item.text(at, 1000);
    REQUIRE_FALSE(text.empty());
    REQUIRE(text.size() <= 1000);
    out += text;
  }
  return out;
}

open_item with(const std::string& id, const std::string& text, std::uint64_t offset = 0) {
  open_item item;
  item.start(id, 2);
  item.add(offset, text);
  return item;
}

} // namespace

TEST_CASE("what streams in is there until the item is final") {
  open_item item;
  CHECK_FALSE(item.is_open());
  item.add(0, "lost");
  CHECK(item.end() == 0);
  item.start("i1", 2);
  CHECK(item.is_open());
  item.add(0, "Hel");
  item.add(3, "lo");
  CHECK(all(item) == "Hello");
  CHECK(item.text(3, 1) == "l");
  CHECK(item.text(5, 10).empty());
  item.clear();
  CHECK_FALSE(item.is_open());
  CHECK(item.end() == 0);
  CHECK(item.id().empty());
}

TEST_CASE("a delta that comes again is passed over, and one behind a hole shows where it belongs") {
  auto item = with("i1", "Hello");
  item.add(0, "Hello");
  item.add(3, "lo, you");
  CHECK(all(item) == "Hello, you");
  item.add(20, "there");
  CHECK(item.begin() == 20);
  CHECK(item.end() == 25);
  CHECK(all(item) == "there");
}

TEST_CASE("only the newest bytes are kept, cut between characters") {
  open_item item;
  item.start("i1", 2);
  std::string written;
  std::mt19937_64 dice{1};
  const std::string letters[] = {"a", "ß", "€", "😀"};
  while (written.size() < 3 * open_item::bytes_max) {
    std::string delta;
    for (auto n = dice() % 3000; n > 0; --n)
      delta += letters[dice() % 4];
    item.add(written.size(), delta);
    written += delta;
    REQUIRE(item.end() == written.size());
    REQUIRE(item.end() - item.begin() <= open_item::bytes_max);
  }
  CHECK(item.end() - item.begin() > open_item::bytes_max - 4);
  CHECK(all(item) == written.substr(item.begin()));
  CHECK(is_utf8(item.text(item.begin(), 1000)));
}

TEST_CASE("bytes that are no text are kept and read as well") {
  std::string bytes(2 * open_item::bytes_max, '\x80');
  auto item = with("i1", bytes);
  CHECK(item.end() == bytes.size());
  CHECK(item.end() - item.begin() <= open_item::bytes_max);
  auto few = with("i2", "\x80\x80\x80");
  CHECK(all(few) == "\x80\x80\x80");
}

TEST_CASE("a reader of the open item goes on where it was, also when the driver says it again to the next swarmd") {
  const std::string text(1000, 'x');
  auto item = with("i1", text);
  for (std::uint64_t to : {1, 500, 1000}) {
    const auto c = item.mark({.epoch = 1, .at = {5, 6}}, to);
    CHECK(c.open_bytes == to);
    CHECK(c.at == log_position{5, 6});
    CHECK(item.continues(c) == to);
    CHECK(with("i1", text + "more").continues(c) == to);
  }
  const auto end = item.mark({}, 1000);
  item.add(1000, std::string(open_item::bytes_max - 500, 'y'));
  CHECK(item.begin() == 500);
  CHECK(item.continues(end) == 1000);
  CHECK_FALSE(item.continues(with("i1", text).mark({}, 400)));
}

TEST_CASE("a cursor into another item, other text, more than there is, or none begins with what is kept") {
  const auto item = with("i1", "Hello, you");
  const auto c = item.mark({}, 5);
  CHECK(item.continues(c));
  CHECK_FALSE(with("i2", "Hello, you").continues(c));
  CHECK_FALSE(with("i1", "Help, you!").continues(c));
  CHECK_FALSE(with("i1", "Hell").continues(c));
  CHECK_FALSE(with("i1", "Hello, you", 1).continues(c));
  CHECK_FALSE(item.continues({}));
  CHECK_FALSE(open_item{}.continues(c));
  open_item other_kind;
  other_kind.start("i1", 3);
  other_kind.add(0, "Hello, you");
  CHECK_FALSE(other_kind.continues(c));
  CHECK(item.mark({}, 11).open_bytes == 0);
}
