#include "cli/verbs/line_editor.hpp"

#include <doctest/doctest.h>

using namespace swarm::cli;
using event = line_editor::event;

namespace {

event type(line_editor& e, std::string_view keys) {
  auto last = event::none;
  for (auto c : keys)
    last = e.feed(c);
  return last;
}

} // namespace

TEST_CASE("a line is typed, changed in its middle and submitted") {
  line_editor e;
  CHECK(type(e, "hullo") == event::changed);
  type(e, "\x1b[D\x1b[D\x1b[D\x7f");
  type(e, "\xc3\xa9");
  CHECK(e.line() == "h\xc3\xa9llo");
  CHECK(type(e, "\x7f") == event::changed); // the whole character
  CHECK(e.line() == "hllo");
  CHECK(type(e, "\r") == event::submitted);
  CHECK(e.take() == "hllo");
  CHECK(e.empty());
}

TEST_CASE("a paste of several lines is one text, and submits nothing") {
  line_editor e;
  CHECK(type(e, "\x1b[200~one\rtwo\x1b[201~") == event::changed);
  CHECK(e.line() == "one\ntwo");
  CHECK(type(e, "\r") == event::submitted);
}

TEST_CASE("what was submitted comes back with the arrow up") {
  line_editor e;
  type(e, "first\r");
  e.take();
  type(e, "half");
  type(e, "\x1b[A");
  CHECK(e.line() == "first");
  type(e, "\x1b[B");
  CHECK(e.line() == "half");
}

TEST_CASE("Ctrl-D ends only where nothing is typed") {
  line_editor e;
  CHECK(type(e, "\x04") == event::end);
  type(e, "x");
  CHECK(type(e, "\x04") == event::none);
  CHECK(type(e, "\x03") == event::interrupt);
  CHECK(type(e, "\x15") == event::changed);
  CHECK(e.at_begin());
}

TEST_CASE("wide and combining characters take the columns that they take") {
  CHECK(columns_of("a\xe6\x97\xa5z") == 4);
  CHECK(columns_of("e\xcc\x81") == 1);
  CHECK(fitting("a\xe6\x97\xa5z", 2) == 1);
  CHECK(fitting("abc", 2) == 2);
}
