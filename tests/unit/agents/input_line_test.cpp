#include "actors/agents/input_line.hpp"

#include <cstdlib>
#include <fstream>
#include <functional>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace swarm;
using namespace swarm::agents;
using json = nlohmann::json;

namespace {

const char* const programs[] = {"claude", "codex", "gemini", "opencode"};

/// Shows a recorded session to `see(kind, text, screen)`: before each input ("i") and at each mark ("m").
void replay(const std::string& program, const std::string& recording,
            const std::function<void(const std::string& kind, const std::string& text, const screen_view&)>& see) {
  std::ifstream file{std::string{std::getenv("SWARM_SOURCE_DIR")} + "/tests/agents/fixtures/" + program + "/" + recording + ".cast"};
  std::string line;
  REQUIRE(std::getline(file, line));
  auto header = json::parse(line);
  screen shown{header.at("width").get<std::uint32_t>(), header.at("height").get<std::uint32_t>()};
  while (std::getline(file, line)) {
    auto entry = json::parse(line);
    auto kind = entry.at(1).get<std::string>(), text = entry.at(2).get<std::string>();
    if (kind == "o")
      shown.write(text);
    else
      see(kind, text, shown.view());
  }
}

screen_view drawn(const std::string& output, std::uint32_t columns = 80, std::uint32_t rows = 24) {
  screen s{columns, rows};
  s.write(output);
  return s.view();
}

constexpr const char* cursor = "\x1b[7m \x1b[27m\x1b[D";
constexpr const char* hide = "\x1b[?25l";

} // namespace

TEST_CASE("recorded: each program that waits has an empty input line, and what was pasted stands in it before its Enter") {
  for (const std::string program : programs)
    for (const std::string recording : {"session", "dialog"}) {
      CAPTURE(program);
      CAPTURE(recording);
      std::string pasted;
      int idle = 0, entered = 0;
      replay(program, recording, [&](const std::string& kind, const std::string& text, const screen_view& view) {
        const auto line = find_input_line(view);
        if (kind == "m" && text == "idle") {
          ++idle;
          REQUIRE(line);
          CHECK(line->text.empty());
        }
        if (kind == "i" && text.starts_with("\x1b[200~"))
          pasted = text.substr(6, text.size() - 12);
        if (kind == "i" && text == "\r") {
          ++entered;
          REQUIRE(line);
          CHECK(line->at_end);
          // A long paste is a mark there; the fabric's line is short.
          CHECK(line->text == (program == "opencode" && pasted.size() > 150 ? "[Pasted~1lines]" : without_blanks(pasted)));
        }
      });
      CHECK(idle == 2);
      CHECK(entered == 1);
    }
}

TEST_CASE("recorded: while a program asks for permission there is no input line, though the prompt can be read above") {
  for (const std::string program : programs) {
    CAPTURE(program);
    bool asked = false;
    replay(program, "dialog", [&](const std::string&, const std::string& text, const screen_view& view) {
      if (text != "blocked" && text != "\x1b")
        return;
      asked = true;
      CHECK_FALSE(find_input_line(view));
    });
    CHECK(asked);
  }
}

TEST_CASE("a line that is broken anywhere, framed or not, is read as one, at every width") {
  const std::string text = "A peer sent you a swarm message for task 11111111-2222-3333-4444-555555555555. Read it with the swarm tool bootstrap";
  for (std::uint32_t width = 20; width <= 160; ++width) {
    CAPTURE(width);
    const auto room = width - 6;
    std::string plain = "\r\n❯ ", framed = "╭──╮\r\n│ > ", barred = "┃\r\n┃ ";
    for (std::size_t at = 0; at < text.size(); at += room) {
      auto part = text.substr(at, room);
      plain += (at ? "\r\n  " : "") + part;
      framed += (at ? "\r\n│   " : "") + part + std::string(room - part.size(), ' ') + " │";
      barred += (at ? "\r\n┃ " : "") + part;
    }
    const auto last = text.size() % room == 0 ? room : text.size() % room;
    framed += "\r\x1b[" + std::to_string(last + 4) + "C";
    for (const auto& drawing : {plain, framed, barred}) {
      CAPTURE(drawing);
      auto line = find_input_line(drawn(drawing, width));
      REQUIRE(line);
      CHECK(line->text == without_blanks(text));
      CHECK(line->at_end);
    }
    // As a terminal breaks it.
    if ((text.size() + 2) % width != 0)
      CHECK(find_input_line(drawn("\r\n> " + text, width))->text == without_blanks(text));
  }
}

TEST_CASE("a hint is no text, a draft is, and one with something behind the cursor is not at its end") {
  auto hint = find_input_line(drawn(std::string{hide} + "❯ " + cursor + "\x1b[C Try \"fix it\"\x1b[1;3H"));
  REQUIRE(hint);
  CHECK(hint->text.empty());
  CHECK_FALSE(hint->at_end);
  auto draft = find_input_line(drawn("❯ rm -rf build"));
  REQUIRE(draft);
  CHECK(draft->text == "rm-rfbuild");
  CHECK(draft->at_end);
  auto inside = find_input_line(drawn("❯ one two\x1b[4D"));
  REQUIRE(inside);
  CHECK(inside->text == "one");
  CHECK_FALSE(inside->at_end);
}

TEST_CASE("what is no input line: a choice of a dialog, a cursor that is not seen, a shell's prompt, text without a mark") {
  CHECK_FALSE(find_input_line(drawn(std::string{hide} + "> earlier prompt\r\nMay I?\r\n❯ 1. Yes\r\n  2. No\x1b[3;1H")));
  CHECK_FALSE(find_input_line(drawn(std::string{hide} + "> text")));
  CHECK_FALSE(find_input_line(drawn("! rm")));
  CHECK_FALSE(find_input_line(drawn("user@host:~$ ")));
  CHECK_FALSE(find_input_line(drawn(">> more")));
  CHECK_FALSE(find_input_line(drawn("> earlier\r\n\r\nMay I? [Y/n] ")));
  CHECK_FALSE(find_input_line(drawn("")));
  // A choice with a cursor in it holds a text that nobody has typed.
  auto choice = find_input_line(drawn("❯ 3. No, because "));
  REQUIRE(choice);
  CHECK(choice->text == "3.No,because");
}
