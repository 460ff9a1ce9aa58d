// Editing somebody else's YAML.
#include <doctest/doctest.h>

#include "cli/edit/json.hpp"
#include "cli/edit/toml.hpp"
#include "cli/edit/yaml.hpp"

using namespace swarm::cli;

namespace {

using path = yaml_text::path;
const std::vector<std::string> server{"command: \"/bin/x\"", "args: [\"mcp\"]"};
const std::vector<std::string> hook{"matcher: \"a|b\"", "command: \"/bin/x hook\""};

std::string put(const std::string& text) {
  yaml_text t{text};
  t.add_key({"mcp_servers"}, "swarm", server);
  t.add_item({"hooks", "pre_tool_call"}, hook);
  t.add_item({"plugins", "enabled"}, {"swarm"});
  return t.text();
}

void erase_item(yaml_text& t, const path& list, const std::string& key, const std::string& value) {
  for (std::size_t i = 0; i < t.size(list); ++i) {
    auto item = list;
    item.push_back(std::to_string(i));
    auto at = item;
    if (!key.empty())
      at.push_back(key);
    if (t.scalar(at) == value)
      return t.erase(item);
  }
}

std::string take(const std::string& text) {
  yaml_text t{text};
  t.erase({"mcp_servers", "swarm"});
  erase_item(t, {"hooks", "pre_tool_call"}, "command", "/bin/x hook");
  erase_item(t, {"plugins", "enabled"}, "", "swarm");
  return t.text();
}

std::size_t line_refused(const std::string& text) {
  try {
    put(text);
    return 0;
  } catch (const unreadable& e) {
    return e.line;
  }
}

} // namespace

TEST_CASE("entries are put into YAML of any style and taken out again") {
  for (const std::string text : {
         "",
         "# nothing yet\n",
         "model: x # the best\n",
         "---\nmodel: x\n",
         "mcp_servers:\n  other:\n    command: o\n\n# about hooks\nhooks:\n  pre_tool_call:\n    - matcher: \"x\"\n      command: y # keep\n"
         "  post_tool_call:\n    - command: z\nplugins:\n  enabled:\n    - a\n    # b is old\n    - c\nlast: 1\n",
         "plugins:\n  enabled:\n  - a\n  - b\nhooks:\n    pre_tool_call:\n    -   command: y\n        matcher: x\n",
         "plugins:\n  enabled: [a, 'b, c'] # short\n",
         "plugins:\n  enabled: []\n",
         "text: |\n  mcp_servers:\n    swarm: no\n\n  plugins: x\nfolded: >-\n  a\n  b: c\nquoted: \"a\n  mcp_servers: b\"\nflow: {a: [1,\n  2], b: "
         "'}'}\n",
         "key with: colon:inside\n\"quoted key\": 'it''s'\nurl: http://x:1/y#z\nanchor: &a\n  b: 1\nalias: *a\nempty:\nnull_value: ~\n",
         "list:\n- - 1\n  - 2\n- a: 1\n  b:\n  - c\n-\n  d: 1\nmore: plain text\n  going on\n",
       }) {
    CAPTURE(text);
    auto changed = put(text);
    CAPTURE(changed);
    yaml_text t{changed};
    CHECK(t.scalar({"mcp_servers", "swarm", "command"}) == "/bin/x");
    auto hooks = t.size({"hooks", "pre_tool_call"});
    REQUIRE(hooks > 0);
    CHECK(t.scalar({"hooks", "pre_tool_call", std::to_string(hooks - 1), "command"}) == "/bin/x hook");
    auto plugins = t.size({"plugins", "enabled"});
    REQUIRE(plugins > 0);
    CHECK(t.scalar({"plugins", "enabled", std::to_string(plugins - 1)}) == "swarm");
    CHECK(take(changed) == text);
  }
}

TEST_CASE("the new lines look like their neighbours") {
  CHECK(put("") == "mcp_servers:\n  swarm:\n    command: \"/bin/x\"\n    args: [\"mcp\"]\nhooks:\n  pre_tool_call:\n    - matcher: \"a|b\"\n"
                   "      command: \"/bin/x hook\"\nplugins:\n  enabled:\n    - swarm\n");
  yaml_text t{"plugins:\n  enabled:\n  - a\n\n# next\nx: 1\n"};
  t.add_item({"plugins", "enabled"}, {"b"});
  CHECK(t.text() == "plugins:\n  enabled:\n  - a\n  - b\n\n# next\nx: 1\n");
  yaml_text flow{"enabled: [a] # c\n"};
  flow.add_item({"enabled"}, {"b"});
  CHECK(flow.text() == "enabled: [a, b] # c\n");
  yaml_text braces{"hooks: {} # none\nx: 1\r\n"};
  braces.add_key({"hooks"}, "k", {"v: 1"});
  CHECK(braces.text() == "hooks: # none\r\n  k:\r\n    v: 1\r\nx: 1\r\n");
  yaml_text open{"a: 1"};
  open.add_key({}, "b", {"c: 1"});
  CHECK(open.text() == "a: 1\nb:\n  c: 1\n");
}

TEST_CASE("what is taken out leaves no comment behind in a text above it") {
  const std::string text = "agent:\n  prompt: |\n    Be brief.\n\nhooks:\n  pre_tool_call:\n    - command: x\n  # mine\n\n  # and this\nlast: 1\n";
  yaml_text t{text};
  t.erase({"hooks", "pre_tool_call", "0"});
  CHECK(t.text() == "agent:\n  prompt: |\n    Be brief.\n\n# mine\n\n# and this\nlast: 1\n");
  yaml_text plain{"a: 1\nhooks:\n  pre_tool_call:\n    - command: x\n  # mine\nlast: 1\n"};
  plain.erase({"hooks", "pre_tool_call", "0"});
  CHECK(plain.text() == "a: 1\n  # mine\nlast: 1\n");
}

TEST_CASE("what is not understood is refused with its line") {
  CHECK(line_refused("a: 1\n\tb: 2\n") == 2);
  CHECK(line_refused("a: 1\n  b: 2\n") == 2);
  CHECK(line_refused("- a\n- b\n") == 1);
  CHECK(line_refused("a: 1\n---\nb: 2\n") == 2);
  CHECK(line_refused("a: \"open\nb: 1\n") == 1);
  CHECK(line_refused("a: [1,\nb: 2\n") == 1);
  CHECK(line_refused("a:\n    b: 1\n  c: 2\n") == 3);
  CHECK(line_refused("just text\n") == 1);
  CHECK(line_refused("a: b: c\n") == 1);
  CHECK(line_refused("a: 1\nmcp_servers: {other: {command: o}}\n") == 2);
  CHECK(line_refused("a: 1\nmcp_servers: *b\n") == 2);
  CHECK(line_refused("mcp_servers: 7\n") == 1);
  CHECK(line_refused("mcp_servers:\n  - a\n") == 1);
  CHECK(line_refused("hooks:\n  pre_tool_call:\n    a: 1\n") == 2);
  CHECK(line_refused("a: \xff\n") == 1);
  CHECK(line_refused("a: {}}\n") == 1);
  CHECK(line_refused("a: 1\nhooks:\n  pre_tool_call: []\nb: 2\nhooks:\n") == 5);
  CHECK(line_refused("a:\n  b: 1\n  \"b\": 2\n") == 3);
  CHECK(line_refused("a: &x {}\nb:\n  <<: *x\n  <<: *x\n") == 0);
  CHECK(line_refused("a: 1\n!!str hooks: []\n") == 2);
  CHECK(line_refused("a: 1\nplugins:\r  enabled: x\n") == 2);
  CHECK(line_refused("a: b\xe2\x80\xa8"
                     "c: d\n") == 1);
  std::string deep;
  for (int i = 0; i < 300; ++i)
    deep += std::string(static_cast<std::size_t>(i), ' ') + "k:\n";
  CHECK(line_refused(deep) > 0);
}

TEST_CASE("files with any bytes in them are edited or refused, and an edit is found again") {
  const std::string samples[] = {
    "a: 1\nmcp_servers:\n  o: {c: [1, 'x']}\nhooks:\n  pre_tool_call:\n  - m: \"q\"\n    c: |\n      t\nplugins:\n  enabled: [a, b]\n# end\n",
    "{\n  \"a\": [1, \"x\\\"\", {}], // c\n  \"s\": {\"k\": {\"b\": 2}, },\n  /* d */ \"l\": [\n    1,\n  ]\n}\n",
    "# c\na = 'x'\n[s.k]\nb = [\n [1], # d\n]\n[[l]]\nc = {d = 1}\n[\"q.r\"]\ne = \"\"\"\nf\n\"\"\"\n",
  };
  const std::string bytes = "{}[]\",:'#=|>-*&!\\\n\t /a1\r\x80";
  std::uint32_t random = 7;
  auto next = [&](std::size_t below) {
    random = random * 1'664'525u + 1'013'904'223u;
    return (random >> 8) % below;
  };
  std::size_t edited = 0, refused = 0;
  auto attempt = [&](const auto& edit) {
    try {
      edit();
      ++edited;
    } catch (const unreadable&) {
      ++refused;
    }
  };
  for (int round = 0; round < 2'400; ++round) {
    auto text = samples[round % 3];
    for (auto changes = next(4) + 1; changes > 0; --changes) {
      auto at = next(text.size());
      if (auto how = next(3); how == 0)
        text[at] = bytes[next(bytes.size())];
      else if (how == 1)
        text.insert(at, 1, bytes[next(bytes.size())]);
      else
        text.erase(at, next(6) + 1);
    }
    CAPTURE(text);
    attempt([&] {
      yaml_text t{put(text)};
      CHECK(t.scalar({"mcp_servers", "swarm", "command"}) == "/bin/x");
      take(t.text());
    });
    attempt([&] {
      json_text t{text};
      t.set({"s", "k", "new"}, json{{"v", 1}});
      t.set({"l", "-"}, 2);
      CHECK(*t.find({"s", "k", "new", "v"}) == 1);
      t.erase({"s", "k", "new"});
      t.erase({"l", "0"});
    });
    attempt([&] {
      auto changed = toml_with_table(text, {"s", "swarm"}, {{"v", "1"}, {"w", "\"x\""}}, "# c");
      CHECK(toml_text_at(changed, {"s", "swarm", "w"}) == "x");
      toml_without_table(changed, {"s", "swarm"}, "# c");
    });
  }
  CHECK(edited > 300);
  CHECK(refused > 300);
}
