// Editing somebody else's TOML.
#include <doctest/doctest.h>

#include "cli/edit/json.hpp"
#include "cli/edit/toml.hpp"

using namespace swarm::cli;

namespace {

const toml_path server{"mcp_servers", "swarm"};
const toml_values values{{"command", "\"/bin/x\""}, {"args", "[\"mcp\"]"}};
constexpr const char* comment = "# ours";
const std::string block = "# ours\n[mcp_servers.swarm]\ncommand = \"/bin/x\"\nargs = [\"mcp\"]\n";

std::string put(const std::string& text) { return toml_with_table(text, server, values, comment); }
std::string take(const std::string& text) { return toml_without_table(text, server, comment); }

} // namespace

TEST_CASE("a table comes last, is found again, and goes without a trace") {
  for (const std::string text : {
         "",
         "# mine\nmodel = \"x\" # best\n",
         "model = \"x\"\n\n[mcp_servers.other]\ncommand = \"o\"\n",
         "s = '''\n[mcp_servers.swarm]\n'''\n\n[a]\nl = [\n  [1, 2],\n  [3],\n]\n# end\n",
         "[[x]]\na = 1\n[[x]]\na = 2\n",
         "a = 1\r\n[t]\r\nb = 2\r\n",
         "[mcp_servers.swarm-two]\ncommand = \"o\"\n",
         "[hooks.state.\"a:b\"]\ntrusted_hash = \"h\"\n",
         "# j\xc3\xbc\n[projects.\"/home/j\xc3\xbc\"]\ntrust_level = '\xe2\x9c\x93' # \xc3\xa4\n",
         "\xef\xbb\xbf"
         "a = 1\n",
       }) {
    CAPTURE(text);
    auto changed = put(text);
    CAPTURE(changed);
    CHECK(changed.rfind(text, 0) == 0);
    CHECK(toml_text_at(changed, {"mcp_servers", "swarm", "command"}) == "/bin/x");
    CHECK(put(changed) == changed);
    CHECK(take(changed) == text);
    CHECK(take(text) == text);
  }
  CHECK(put("") == block);
  CHECK(put("a = 1\n") == "a = 1\n\n" + block);
  CHECK(put("a = 1") == "a = 1\n\n" + block);
}

TEST_CASE("a table that is there keeps its other keys, its place and its neighbours") {
  const std::string text =
    "# top\n[mcp_servers.swarm] # here\ncommand = \"/old\"\nstartup_timeout_sec = 20 # slow\n\n[mcp_servers.swarm.env]\nA = \"1\"\n\n[z]\nk = 1\n";
  auto changed = put(text);
  CHECK(changed == "# top\n[mcp_servers.swarm] # here\nargs = [\"mcp\"]\ncommand = \"/bin/x\"\nstartup_timeout_sec = 20 # "
                   "slow\n\n[mcp_servers.swarm.env]\nA = \"1\"\n\n[z]\nk = 1\n");
  CHECK(take(changed) == "# top\n\n[z]\nk = 1\n");
  // What another program appended behind it stays, wherever it stands.
  auto appended = put("a = 1\n") + "\n[projects.\"/r\"]\ntrust_level = \"trusted\"\n";
  CHECK(take(appended) == "a = 1\n\n[projects.\"/r\"]\ntrust_level = \"trusted\"\n");
  // A list over several lines is replaced whole.
  CHECK(put("[mcp_servers.swarm]\nargs = [\n  \"serve\",\n]\ncommand = \"/bin/x\"\n") ==
        "[mcp_servers.swarm]\nargs = [\"mcp\"]\ncommand = \"/bin/x\"\n");
}

TEST_CASE("keys that are paths are quoted") {
  auto text = toml_with_table("", {"hooks", "state", "/home/u \"x\"/hooks.json:stop:0:0"}, {{"trusted_hash", toml_quoted("sha256:a")}}, "");
  CHECK(text == "[hooks.state.\"/home/u \\\"x\\\"/hooks.json:stop:0:0\"]\ntrusted_hash = \"sha256:a\"\n");
  CHECK(toml_without_table(text, {"hooks", "state", "/home/u \"x\"/hooks.json:stop:0:0"}, "") == "");
  CHECK(toml_text_at("v = " + toml_quoted("a\x7f\n\\\"é"), {"v"}) == "a\x7f\n\\\"é");
}

TEST_CASE("what is no TOML, and what cannot be edited line by line, is refused with its line") {
  auto line = [](const std::string& text) -> std::size_t {
    try {
      put(text);
      return 0;
    } catch (const unreadable& e) {
      return e.line;
    }
  };
  CHECK(line("a = 1\nb = = 2\n") == 2);
  CHECK(line("[=") == 1);
  CHECK(line("a = 1\nmcp_servers = { other = { command = \"o\" } }\n") == 2);
  CHECK(line("a = 1\n\nmcp_servers.swarm.command = \"/old\"\n") == 3);
  CHECK(line("mcp_servers = 7\n") == 1);
  CHECK(line("a = 1\nj\xc3\xbc = 1\n") == 2);
  CHECK(line("a = \"\xff\"\n") == 1);
  std::string deep = "a";
  while (deep.size() < 100'000)
    deep += ".a";
  CHECK(line("b = 1\n" + deep + " = 1\n") == 2);
  CHECK_THROWS_AS(take("mcp_servers = { swarm = { command = \"o\" } }\n"), const unreadable&);
}
