#include "actors/fabric/workers/program_status.hpp"

#include <random>

#include <doctest/doctest.h>

using namespace swarm;
using namespace std::string_literals;
using report = v1::AgentReport;

namespace {

std::string status(const std::string& pairs) { return "\x1b]7501;" + pairs + "\x1b\\"; }
std::string title(const std::string& text) { return "\x1b]0;" + text + "\x07"; }

report::State after(const std::string& output) {
  program_status p;
  p.read(output);
  return p.said();
}

} // namespace

TEST_CASE("a program's status is what it said last, between whatever else it prints") {
  CHECK(after("") == report::UNKNOWN);
  CHECK(after("state=idle ]7501;state=idle\x07") == report::UNKNOWN);
  CHECK(after(status("state=working:app=codex")) == report::WORKING);
  CHECK(after("\x1b[2J" + status("state=working") + "\x1b]8;;http://x\x07link" + status("state=blocked:app=codex:kind=permission") + "\x1b[31mred") ==
        report::BLOCKED);
  CHECK(after(status("state=blocked") + "\x1b]7501;state=done:msg=RmluaXNoZWQ=\x07") == report::IDLE);
  CHECK(after(status("app=x:state=error")) == report::IDLE);
  CHECK(after(status("state=idle") + status("state=clear")) == report::UNKNOWN);
}

TEST_CASE("a status that is not one, is cut short or is too long changes nothing") {
  const auto idle = status("state=idle");
  for (const auto& noise : {status(""), status("state=asleep"), status("state"), status("idle"), status("id=a"), "\x1b]75010;state=working\x07"s,
                            "\x1b]7501state=working\x07"s, "\x1b]7501;state=working\x1b[K"s, "\x1b]7501;state=working"s,
                            "\x1bP7501;state=working\x1b\\"s, status("msg=" + std::string(5000, 'x') + ":state=working")}) {
    CAPTURE(noise);
    CHECK(after(idle + noise) == report::IDLE);
  }
  // What broke it off may begin the next.
  CHECK(after("\x1b]7501;state=working" + idle) == report::IDLE);
  CHECK(after("\x1b]7501;state=working\x1b\x1b]7501;state=blocked\x07") == report::BLOCKED);
}

TEST_CASE("a part that waits for the user makes the whole wait") {
  program_status p;
  p.read(status("state=working") + status("state=blocked:id=task/1") + status("state=idle"));
  CHECK(p.said() == report::BLOCKED);
  p.read(status("state=blocked:id=task/2") + status("id=task/1:state=working"));
  CHECK(p.said() == report::BLOCKED);
  p.read(status("state=clear:id=tas"));
  CHECK(p.said() == report::BLOCKED);
  p.read(status("state=clear:id=task"));
  CHECK(p.said() == report::IDLE);
  for (int i = 0; i < 100; ++i)
    p.read(status("state=blocked:id=" + std::to_string(i)));
  for (int i = 0; i < 100; ++i)
    p.read(status("state=done:id=" + std::to_string(i)));
  CHECK(p.said() == report::BLOCKED); // not all had a place
  p.read(status("state=idle"));
  CHECK(p.said() == report::IDLE);
  p.read(status("state=blocked:id=a"));
  p.forget();
  CHECK(p.said() == report::UNKNOWN);
}

TEST_CASE("a program that asks whether anybody listens is heard once for each time") {
  program_status p;
  CHECK_FALSE(p.asked());
  p.read("\x1b[c\x1b]7501;?\x07");
  CHECK(p.asked());
  CHECK_FALSE(p.asked());
  p.read(status("?:later=1"));
  CHECK(p.asked());
  CHECK(p.said() == report::UNKNOWN);
}

TEST_CASE("titles of Gemini CLI are read as what they mean, others as nothing") {
  CHECK(after(title("◇  Ready (repo)")) == report::IDLE);
  CHECK(after(title("◇  Ready (repo)") + title("✋  Action Required (repo)")) == report::BLOCKED);
  CHECK(after(title("✋  Action Required (repo)") + title("✦  Working… (repo)")) == report::WORKING);
  CHECK(after("\x1b]2;⏲  Working… (repo)\x1b\\") == report::WORKING);
  for (const auto& other : {"", "✳ Claude Code", "◐ Claude Code", "[ ! ] Action Required | repo", "repo", "✋", "Ready", "my ◇  Ready"})
    CHECK(after(title(other)) == report::UNKNOWN);
}

TEST_CASE("output in pieces says what it says in one") {
  const std::string all = "\x1b[H" + status("state=working:msg=eA==") + "\x1b]7501;?\x07 text \x1b]7501;state=blo" + status("state=blocked:id=a/b") +
                          title("◇  Ready (x)") + "\x1b" + status("state=clear:id=a") + "\xff\x00\x1b\x1b]"s;
  for (unsigned seed = 1; seed <= 200; ++seed) {
    CAPTURE(seed);
    std::mt19937 random{seed};
    program_status whole, pieces;
    whole.read(all);
    for (std::size_t at = 0; at < all.size();) {
      auto size = 1 + random() % 9;
      pieces.read(std::string_view{all}.substr(at, size));
      at += size;
    }
    CHECK(whole.said() == report::IDLE);
    CHECK(pieces.said() == whole.said());
    CHECK(pieces.asked());
  }
}
