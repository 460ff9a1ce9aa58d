#include "actors/base/environment.hpp"
#include "actors/base/terminal_config.hpp"
#include "tests/unit/cli/fake_node.hpp"

#include <doctest/doctest.h>

using namespace swarm;
using namespace swarm::cli;

TEST_CASE("control characters in text are printed as visible escapes, and only what is shown whole has lines") {
  test::terminal t;
  t.io.line("title\x1b[2J\nnext");
  CHECK(t.out == "title\\x1b[2J\\nnext\n");
  t.out.clear();
  t.io.text("title\x1b[2J\nnext");
  CHECK(t.out == "title\\x1b[2J\nnext\n");
  CHECK(hanging("a\x1b\nb\n") == "a\\x1b\n    b\n    ");
  t.io.error("\x07");
  CHECK(t.err == "\\x07\n");
}

TEST_CASE("colours appear only when the console has them, and never unescape the text") {
  test::terminal plain;
  CHECK(plain.io.paint(colour::red, "a\x1b") == "a\\x1b");
  CHECK(plain.io.paint(colour::cyan, "a\nb") == "a\\nb");
  console coloured{[](std::string_view) {}, [](std::string_view) {}, true, true, true};
  CHECK(coloured.paint(colour::red, "a\x1b") == "\x1b[31ma\\x1b\x1b[0m");
  CHECK(coloured.paint(colour::none, "a") == "a");
}

TEST_CASE("a table aligns its columns and cannot be broken by a newline in a cell") {
  CHECK(table({"ID", "NAME"}, {{"1", "a\nb"}, {"22", "c"}}) == "  ID  NAME\n  1   a\\nb\n  22  c");
}

TEST_CASE("times are UTC and durations are readable") {
  CHECK(utc(1'795'291'620'000) == "2026-11-21 20:07:00");
  CHECK(duration(950) == "950 ms");
  CHECK(duration(12'340) == "12.3 s");
  CHECK(duration(250'000) == "4 min 10 s");
  CHECK(duration(7'500'000) == "2 h 5 min");
  CHECK(byte_count(1536) == "1.5 KiB");
}

TEST_CASE("a worker inherits the listed variables and never the session's token") {
  for (auto name : {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "TERM", "COLORTERM", "TZ", "TMPDIR", "EDITOR", "SSH_AUTH_SOCK",
                    "SWARM_MCP_LABEL", "AGENT_IDENTITY"})
    CHECK_MESSAGE(inheritable(name), name);
  for (auto name : {"SWARM_TOKEN", "AWS_SECRET_ACCESS_KEY", "LD_PRELOAD", "PATHX", "LC", "", "BASH_ENV", "SWARM"})
    CHECK_MESSAGE(!inheritable(name), name);
}

TEST_CASE("an agent's program inherits what it is set up with, and no other program does") {
  for (auto [name, harness] : std::vector<std::pair<const char*, const char*>>{{"ANTHROPIC_API_KEY", "claude"},
                                                                               {"CLAUDE_CONFIG_DIR", "claude"},
                                                                               {"CLAUDE_CODE_OAUTH_TOKEN", "claude"},
                                                                               {"CLAUDE_CODE_USE_BEDROCK", "claude"},
                                                                               {"OPENAI_API_KEY", "codex"},
                                                                               {"CODEX_HOME", "codex"},
                                                                               {"OPENCODE_CONFIG", "opencode"},
                                                                               {"GEMINI_API_KEY", "gemini"},
                                                                               {"GOOGLE_API_KEY", "gemini"},
                                                                               {"HERMES_HOME", "hermes"}}) {
    CAPTURE(name);
    CHECK(inheritable(name, harness));
    for (auto other : {"exec", "shell", ""})
      CHECK_FALSE(inheritable(name, other));
    CHECK_FALSE(inheritable(name));
  }
  CHECK_FALSE(inheritable("OPENAI_API_KEY", "claude"));
  CHECK_FALSE(inheritable("ANTHROPIC_API_KEY", "codex"));
  CHECK_FALSE(inheritable("CLAUDE_CODE_SESSION_ID", "claude"));
  CHECK_FALSE(inheritable("SWARM_TOKEN", "claude"));
  CHECK(inheritable("PATH", "claude"));
  environment env{{{"HOME", "/h"}, {"OPENAI_API_KEY", "k"}}};
  CHECK(env.inheritable("exec") == environment_list{{"HOME", "/h"}});
  CHECK(env.inheritable("codex") == environment_list{{"HOME", "/h"}, {"OPENAI_API_KEY", "k"}});
}

TEST_CASE("the environment gives empty for unset and knows the words for yes") {
  environment env{{{"A", " Yes "}, {"B", "0"}, {"C", "on"}, {"SWARM_TOKEN", "t"}, {"HOME", "/h"}, {"SWARM_CC_IDENTITY", "cc"}}};
  CHECK(env.truthy("A"));
  CHECK(!env.truthy("B"));
  CHECK(env.truthy("C"));
  CHECK(!env.truthy("D"));
  CHECK(env.get("D").empty());
  CHECK(env.identity() == "cc");
  CHECK(env.inheritable("exec") == environment_list{{"HOME", "/h"}, {"SWARM_CC_IDENTITY", "cc"}});
}

TEST_CASE("a detach key is a control key or one character") {
  CHECK(parse_detach_key("^]") == char{0x1d});
  CHECK(parse_detach_key("^a") == char{1});
  CHECK(parse_detach_key("^A") == char{1});
  CHECK(parse_detach_key("q") == 'q');
  CHECK(parse_detach_key("ctrl-]") == char{0x1d});
  CHECK(parse_detach_key("Ctrl-A") == char{1});
  CHECK(!parse_detach_key("ctrl-").has_value());
  CHECK(!parse_detach_key("ctrl-ab").has_value());
  CHECK(!parse_detach_key("").has_value());
  CHECK(!parse_detach_key("^!").has_value());
  CHECK(!parse_detach_key("ctrl").has_value());
}
