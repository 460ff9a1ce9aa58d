#include <doctest/doctest.h>

#include <algorithm>

#include "actors/base/toml_text.hpp"

using namespace swarm;

namespace {

std::size_t line_refused(std::string text) {
  auto wrong = make_fit_for_toml(text);
  if (wrong)
    CHECK_FALSE(wrong->text.empty());
  return wrong ? wrong->line : 0;
}

std::string fit(std::string text) {
  CHECK_FALSE(make_fit_for_toml(text));
  return text;
}

std::string dotted(std::size_t parts) {
  std::string out = "a";
  for (std::size_t i = 1; i < parts; ++i)
    out += ".a";
  return out;
}

} // namespace

TEST_CASE("what is written in TOML stays as it is, but for comments beyond ASCII") {
  for (const std::string text : {"", "a = 1\n", "[\"j\xc3\xbc\"]\nb = '\xe2\x9c\x93' # c\n", "a = \"\"\"\n\xc3\xa4\"\"\"\"\"\nb = ''''\xc3\xa4'''\n",
                                 "a = \"\\\"\xc3\xa4\"\n", "a = \"\" # \"\nb = ''\n",
                                 "a.\"\xc3\xa4\".'\xc3\xa4' = [\n  # c\n  '\xc3\xa4',\n  [\"\xc3\xa4\", {\"\xc3\xa4\" = '\xc3\xa4', b.'\xc3\xa4' = "
                                 "[], c = '\xc3\xa4'}],\n]\n'\xc3\xa4' = 1\n[[ \"\xc3\xa4\" ]]\n",
                                 "a = \"\"\"x \\\n   y \xc3\xa4\"\"\"\n"})
    CHECK(fit(text) == text);
  CHECK(fit("a = 1 # caf\xc3\xa9\nb = \"# \xc3\xa9\"\n") == "a = 1 # caf??\nb = \"# \xc3\xa9\"\n");
  CHECK(fit("\xef\xbb\xbf"
            "a = 1\n") == "   a = 1\n");
}

TEST_CASE("characters beyond ASCII where TOML has none are refused with their line") {
  CHECK(line_refused("\xc3\xa9 = 1\n") == 1);
  CHECK(line_refused("a = 1\n[b.\xc3\xa9]\n") == 2);
  CHECK(line_refused("a =\xc2\xa0"
                     "1\n") == 1);
  CHECK(line_refused("a = \"\"\"\n\n\"\"\"\xc3\xa9\n") == 3);
  CHECK(line_refused("a = \"open\n\xc3\xa9\n") == 2);
  CHECK(line_refused("a = \"\"\"x \\\n \xc3\xa9\"\"\"\n") == 2);
  CHECK(line_refused("a = \"\"\"x\n\\\xc3\xa9\"\"\"\n") == 2);
  CHECK(line_refused("a = \"\\\xc3\xa9\"\n") == 1);
  // Quotes where no text begins.
  CHECK(line_refused("a = 1x.\"\xc3\xa9\"\n") == 1);
  CHECK(line_refused("a = [1, 2.'\xc3\xa9']\n") == 1);
  CHECK(line_refused("a = {b = 1, c = d'\xc3\xa9'}\n") == 1);
  CHECK(line_refused("a = \"x\"\"\xc3\xa9\"\n") == 1);
  CHECK(line_refused("[a\"\xc3\xa9\"]\n") == 1);
  std::string broken = "a = \"\xc3\"\n";
  CHECK(make_fit_for_toml(broken));
}

TEST_CASE("keys of very many parts are refused, many keys are not") {
  CHECK(line_refused("b = 1\n" + dotted(100) + " = 1\n") == 0);
  CHECK(line_refused("b = 1\n" + dotted(101) + " = 1\n") == 2);
  CHECK(line_refused("[" + dotted(200'000) + "]\n") == 1);
  CHECK(line_refused("b = {c = {" + dotted(101) + " = 1}}\n") == 1);
  CHECK(line_refused("b = \"" + dotted(500) + "\" # " + dotted(500) + "\n") == 0);
  std::string many;
  for (int i = 0; i < 500; ++i)
    many += "a" + std::to_string(i) + ".b = 1.5\nc" + std::to_string(i) + " = [1.5, 2.5]\n";
  CHECK(line_refused(many) == 0);
}
