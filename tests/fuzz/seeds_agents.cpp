#include "tests/fuzz/seeds.hpp"

#include <initializer_list>

namespace swarm::fuzz {

namespace {

std::string pieces(std::initializer_list<std::string> all) {
  std::string out;
  for (const auto& each : all)
    out += piece_of(each);
  return out;
}

/// The byte that chooses, then the text.
class texts {
public:
  texts(std::vector<seed>& out, std::string name) : out_(out), name_(std::move(name)) {}
  void add(int which, const std::string& bytes) {
    out_.push_back({name_ + "-" + std::to_string(out_.size()), std::string(1, static_cast<char>(which)) + bytes});
  }

private:
  std::vector<seed>& out_;
  std::string name_;
};

void add_routines(texts out) {
  const std::string everything = R"(name = "r" # a comment: é
summary = "What it does"

[parameters.version]
description = "Which one"
required = true

[parameters.how]
default = "fast"
choices = ["fast", "slow", "a\nb"]

[parameters.note]

[[step]]
id = "build"
title = "Build ${version}"
description = """
Grüße, ${how}: \
  go on. $${HOME} is no parameter.
"""
role = "implementer"
type = "implement"
files = ["src/${note}", 'a b.c']
priority = 3
harness = "codex"

[[step]]
id = "look"
title = "Look at ${version}"
type = "review"
needs = ["build"]
approval = true
)";
  for (int from : {0, 1, 2})
    out.add(from + 3 * 3, pieces({"1.0", "slow", "x/../y"}) + everything);
  out.add(0, pieces({}) + everything);
  out.add(3, piece_of("../../etc/passwd") +
               "name = \"r\"\nsummary = \"s\"\n[parameters.f]\n[[step]]\nid = \"a\"\ntitle = \"t\"\nfiles = [\"${f}\", \"/etc/x\", \"..\"]\n");
  out.add(
    1, "name = \"r\"\nsummary = \"s\"\n[[step]]\nid = \"a\"\ntitle = \"A\"\nneeds = [\"b\"]\n[[step]]\nid = \"b\"\ntitle = \"B\"\nneeds = [\"a\"]\n");
  out.add(1, "name = \"r\"\nsummary = \"s\"\nenv = {A = 1}\nstep = [{id = \"a\", title = \"${x\", host = \"h\", harness = \"exec\"}]\n");
  out.add(1, "name = \"r\"\nsummary = \"s\"\n[parameters.p]\ndefault = \"c\"\nchoices = [\"a\\nb\"]\n[[step]]\nid = \"a\"\ntitle = \"A\"\n");
  out.add(2, "a.b.c.d.e = 1\n[x.y.z]\n[[step.step]]\n\"\" = ''\n");
  out.add(1, "\xc3\xa9 = 1\n");
}

void add_hooks(texts out) {
  constexpr int event = 0, answers = 1, identity = 2, memory = 3;
  for (
    const auto* text : {
      R"({"session_id":"s1","cwd":"/repo","hook_event_name":"PreToolUse","tool_name":"Edit","tool_use_id":"toolu_1","tool_input":{"file_path":"/repo/a.c","old_string":"x","new_string":"y"}})",
      R"({"session_id":"s1","tool_name":"Bash","tool_input":{"command":"cd sub && sed -i s/a/b/ 'x y' > log"}})",
      R"({"tool_name":"apply_patch","tool_input":{"command":"*** Begin Patch\n*** Update File: a\n*** Move to: b\n*** Delete File: c\n*** End Patch"}})",
      R"({"tool_name":"apply_patch","tool_input":"*** Begin Patch\n*** Add File: /abs/../x\n"})",
      R"({"tool_name":"shell","tool_input":{"command":["bash","-lc","rm x"],"workdir":"sub"},"tool_use_id":""})",
      R"({"tool_name":"mcp__files__write_file","tool_input":{"path":"x","filePath":"y","notebook_path":"z"}})",
      R"({"tool_name":"write_file","tool_input":{"file_path":"a\u0000b","path":7,"absolute_path":null}})",
      R"({"tool_name":"run_shell_command","tool_input":{"command":"git apply <p","dir_path":"/w","directory":"d"}})",
      R"({"tool_name":"terminal","tool_input":{"command":[1,"rm","a"],"cwd":"/w"}})",
      R"({"tool_name":"Write","tool_input":[]})",
      R"({"tool_name":["Write"],"tool_input":{}})",
      R"([])",
      "{\"tool_name\":\"Write\",\"tool_input\":{\"file_path\":\"caf\xe9\"}}",
    })
    out.add(event, text);
  for (int host = 0; host < 5; ++host) {
    out.add(answers + 4 * host, "swarm lock blocked Edit for /repo/a: held by \"x\"\n\xff\x1b[31m");
    out.add(identity + 4 * host, pieces({"12345678-9abc", "cli", "ada", "", "gateway", "Fixer", "60", "linear:linear-mcp", "/repo"}));
    out.add(identity + 4 * host, pieces({"gr\xc3\xb6\xc3\x9f"
                                         "er",
                                         "tele gram", "two words", "role:x mode:gateway", "", "worker", "999999999",
                                         R"({"provider":"jira","mcp_server":"j","team":"t"})", "."}));
    out.add(identity + 4 * host, pieces({"s", "", "", "identity:z session:s", "", "\xf0\x9f\x90\x9d", "-1", "{", ""}));
  }
  out.add(memory,
          R"({"id":"a","scope":"/r","directory":"/r","root":"/r","file_root":"/r","registered":true,"gateway":false,"state":2,"reported_at_ms":5,)"
          R"("taken":[{"path":"/r/x","fence":7,"users":1}],"calls":[{"key":"k","from_ms":1,"to_ms":0,"paths":["/r/x"],"locks":["/r/x",7],)"
          R"("watched":[{"path":"/r/y","file":"/r/y","holder":"h","before":[1,2,3]},{"before":null}]}]})");
  out.add(memory, R"({"id":7,"state":-5,"taken":{"a":{"fence":-1,"users":1e300}},"calls":[7,[],{"paths":{"a":"b"},"watched":"x"}]})");
  std::string many;
  for (int i = 0; i < 40; ++i)
    many += (many.empty() ? "" : ",") + std::string{R"({"key":"k","from_ms":1,"to_ms":)"} + std::to_string(i % 2) + "}";
  out.add(memory, "{\"calls\":[" + many + "]}");
  out.add(memory, "{\"id\":\"a\"");
}

void add_commands(texts out) {
  constexpr int script = 0, words = 1, patch = 2;
  for (const auto* text : {
         "echo x > a.txt; make 2>&1 | tee -a log >| /abs/a",
         "git commit -m \"$(cat <<'EOF'\nDon't rm a.txt (or b) > c\nEOF\n)\" && echo \"done > e\"",
         "cat <<-A <<'B' > both\n\tone $x\n\tA\ntwo\nB\nrm after",
         "for f in *.txt; do rm \"$f\"; done; if [[ a < b || c > d ]]; then rm {x,y}.{c,h}; fi",
         "cd sub && (cd deeper; rm a) && rm b; cd -; rm c",
         "mv -t d a b; cp -r 'a b' \"$HOME\"/x; install -m 644 a /usr/local/; ln -sf a b; ln -f a b",
         "sed -i.bak -e s/a/b/ x y; perl -pi -e 's/a/b/' z; truncate -s 0 t; dd if=a of=b bs=1",
         "git -C sub checkout -- a b; git restore -s HEAD c; git rm -r --cached d; git mv e f",
         "git apply <<'E'\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\nE\npatch -p1 < p; patch -d d x p",
         "apply_patch <<'E'\n*** Begin Patch\n*** Update File: a\n*** Move to: b\n*** End Patch\nE",
         "bash -lc 'rm a; sh -c \"rm b\"'; eval rm c; env -i A=1 sudo -u x nice -n 5 timeout 5 rm d",
         "a=1 b=$a/x; rm $b ${b} ${b:-c} $(rm d) `rm e` <(rm f) $((1 > 2)) $'it\\'s'",
         "a=xxxxxxxxxxxxxxxx; a=$a$a$a$a; a=$a$a$a$a; a=$a$a$a$a; a=$a$a$a$a; a=$a$a$a$a; a=$a$a$a$a; a=$a$a$a$a; a=$a$a$a$a; rm $a",
         "a=xxxxxxxx; a=$a$a$a$a$a$a$a$a; a=$a$a$a$a$a$a$a$a; a=$a$a$a$a$a$a$a$a; a=$a$a$a$a$a$a$a$a; a=$a$a$a$a$a$a$a$a; a=$a$a$a$a$a$a$a$a; "
         "a=$a$a$a$a$a$a$a$a; a=$a$a$a$a$a$a$a$a; rm $a \"$a\"",
         "rm \\\n a\\ b 'c''d'\"e\" ~/f ~other/g {1..3} {a,{b,c}}d # rm no",
         "[[ a > b ]] && ((c > d)) || x=(1 2 > 3) > e; { rm f; } 2>g; ! rm h; time rm i",
         "rm [a-z]*.c '*'.h a\\*b; rm -rf -- -x; unlink y; shred -n 3 z; tee <&3 w",
       })
    out.add(script, text);
  std::string many = "rm";
  for (int i = 0; i < 300; ++i)
    many += " f" + std::to_string(i);
  out.add(script, many + "\nrm more");
  out.add(words, pieces({"rm", "a b", "$x", "*", "--", "-f", ""}));
  out.add(words, pieces({"bash", "-lc", "echo x > a; rm 'b'"}));
  out.add(words, pieces({"git", "-C", "d", "checkout", "--", "A=b", "it's"}));
  out.add(words, pieces({"A=1", "env", "B=2", "tee", "[[", "{a,b}", "\\"}));
  out.add(words, pieces({"while"}));
  for (int strip = 0; strip < 4; ++strip) {
    out.add(patch + 3 * strip,
            "diff --git a/x b/y\nrename from x\nrename to y z\n--- a/x\t2020-01-01\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\n--- /dev/null\n+++ \"b/q\"\n");
    out.add(patch + 3 * strip,
            "*** Begin Patch\n*** Add File: a b.c\n+x\n*** Update File: c\n*** Move to: d\r\n*** Move File: f -> g\n*** End Patch");
  }
}

void add_settings(texts out) {
  constexpr int host = 0, as_json = 1, as_toml = 2, as_yaml = 3;
  constexpr int claude = host, codex = host + 4, opencode = host + 8, gemini = host + 12, hermes = host + 16;
  const std::string program = "/opt/my swarm/it's/swarmctl";
  const std::string hooks =
    "{\n    \"hooks\": {\n        \"Stop\": [\n            {\"hooks\": [{\"type\": \"command\", \"command\": \"mine\"}]},\n"
    "            {\"hooks\": [{\"type\": \"command\", \"command\": \"/old/swarmctl hook claude stop\"}, {\"command\": \"too\"}]}\n"
    "        ],\n        \"PreToolUse\": []\n    },\n    \"model\": \"x\"\n}\n";
  const std::string server =
    "{\n  \"n\": 1.50e3, // c\n  \"mcpServers\": {\n    \"github\": {\"command\": \"gh\", \"env\": {\"T\": \"s\"}},\n  },\n}\n";
  const std::string foreign = R"({"mcpServers":{"swarm":{"command":"npx","args":["-y","swarm-mcp"]}}})";
  const std::string twice = R"({"mcpServers":{"swarm":{"command":"/a/swarmctl"},"swarm":{"command":"/b/swarmctl","env":{}}},"mcpServers":{"x":{}}})";
  for (char flags : {'\0', '\x03', '\x04', '\x07'}) {
    std::string f(1, flags);
    out.add(claude, f + pieces({server, hooks}));
    out.add(claude, f + pieces({foreign, ""}));
    out.add(claude, f + pieces({"", "{\"hooks\":{}}"}));
    out.add(codex, f + pieces({"# mine \xc3\xa9\nmodel = \"x\"\n\n[mcp_servers.other] # o\ncommand = \"o\"\nargs = [\n  \"a\",\n]\n# end", hooks}));
    out.add(codex, f + pieces({"[mcp_servers.swarm]\ncommand = \"/old/swarmctl\"\nenv = {A = \"b\"}\n\n[mcp_servers.swarm.tools]\nx = 1\n", "{}"}));
    out.add(opencode, f + pieces({"{\n  // mine\n  \"plugin\": [\"a\"],\n  \"mcp\": {\n    /* none */\n  }, // yet\n}\n"}));
    out.add(gemini, f + pieces({"{\"theme\":\"dark\",\"mcpServers\":{}}"}));
    out.add(hermes, f + pieces({"# mine\r\nmodel: x # best\r\nmcp_servers: {}\r\nhooks:\r\n  # none\r\nplugins:\r\n  enabled: [a, 'b'] # c\r\n",
                                "{\n  \"approvals\": [{\"command\": \"/old/swarmctl hook hermes pre-tool-use\"}, {\"command\": \"mine\"}]\n}"}));
    out.add(hermes,
            f + pieces({"mcp_servers:\n  other:\n    command: o\n  swarm:\n    command: \"/old/swarmctl\"\n    # of mine\n    env: {A: b}\nhooks:\n"
                        "  pre_tool_call:\n  - matcher: x\n    command: y\n  - command: '/old/swarmctl hook hermes pre-tool-use'\nlast: 1\n",
                        ""}));
  }
  out.add(claude, '\0' + pieces({twice, ""}));
  out.add(codex, '\0' + pieces({"[mcp_servers.swarm]\nargs = [\"x\"]\nenabled = false\n", ""}));
  out.add(codex, '\0' + pieces({"[[mcp_servers]]\nx = 1\n", "{\"hooks\":[]}"}));
  for (const auto& text :
       {server, hooks, twice, std::string{"\xef\xbb\xbf{ }"}, std::string{"{\"a\":{},\"l\":[ ],\"l\":[1,[2]],\"\":{\"\":null}}"}}) {
    out.add(as_json, pieces({"a", "{\"b\": [1, true]}"}) + text);
    out.add(as_json + 4, pieces({"mcpServers", "swarm", "7"}) + text);
    out.add(as_json + 8, pieces({"hooks", "Stop", "-", "{}"}) + text);
    out.add(as_json + 4, pieces({"l", "0", "\"x\""}) + text);
  }
  for (const auto* text :
       {"# c\na = 'x'\n[s.k]\nb = [\n [1], # d\n]\n[[l]]\nc = {d = 1}\n[\"q.r\"]\ne = \"\"\"\nf\n[s.x]\n\"\"\"\n", "s.k.command = 1\n",
        "[s]\nk = {command = \"x\"}\n", "[s.k]\r\ncommand = \"x\" # c\r\nargs = [\r\n]\r\n[s.k.t]\r\n# ours\r\n[s.k.u]\r\n",
        "[projects.\"/home/j\xc3\xbcrgen\"]\ntrust = '\xe2\x9c\x93' # \xc3\xa4\n", "\xc3\xa9 = 1\n"})
    out.add(as_toml + 4, pieces({"s", "k", program}) + text);
  out.add(as_toml + 8, pieces({"hooks", "state", "/h/.codex/hooks.json:stop:0:0", "sha256:0"}) + "[hooks.state]\n");
  for (const auto* text :
       {"mcp_servers:\n  other:\n    command: o\n\n# about hooks\nhooks:\n  pre_tool_call:\n    - matcher: \"x\"\n      command: y # keep\n"
        "  post_tool_call:\n    - command: z\nplugins:\n  enabled:\n    - a\n    # b is old\n    - c\nlast: 1\n",
        "---\ntext: |\n  mcp_servers:\n    swarm: no\n\n  plugins: x\nfolded: >-\n  a\n  b: c\nquoted: \"a\n  mcp_servers: b\"\nflow: {a: [1,\n  2], "
        "b: '}'}\n",
        "key: colon:inside\n\"quoted key\": 'it''s'\nurl: http://x:1/y#z\nanchor: &a\n  b: 1\nalias: *a\nempty:\nnull_value: ~\n",
        "list:\n- - 1\n  - 2\n- a: 1\n  b:\n  - c\n-\n  d: 1\nmore: plain text\n  going on\nplugins: {enabled: [x]}\nhooks: null\n",
        "a: !!str b\nplugins:\n  enabled: [\n    a\n  ]\n", "mcp_servers:\n# c\n\n\nx: 1\nhooks:\n  pre_tool_call: []\n"})
    out.add(as_yaml, piece_of(program) + text);
}

// Claude Code's output, as a program that drives it reads it.
void add_native_lines(texts out) {
  const std::string begin = R"({"type":"command_lifecycle","command_uuid":"p","state":"started"}
{"type":"system","subtype":"init","session_id":"s","model":"m","cwd":"/w","permissionMode":"default"}
)";
  const std::string streamed = R"({"type":"stream_event","event":{"type":"message_start","message":{"id":"m1","usage":{"input_tokens":1}}}}
{"type":"stream_event","event":{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}}
{"type":"stream_event","event":{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"h\u00e4"}}}
{"type":"assistant","message":{"id":"m1","content":[{"type":"text","text":"h\u00e4"},{"type":"tool_use","id":"t","name":"Write","input":{"a":[1]}}]}}
)";
  const std::string asked =
    R"({"type":"control_request","request_id":"r","request":{"subtype":"can_use_tool","tool_name":"Write","input":{"file_path":"a"},)"
    R"("permission_suggestions":[{"type":"addRules","rules":[],"behavior":"allow","destination":"x"}],"tool_use_id":"t"}}
{"type":"control_request","request_id":"q","request":{"subtype":"can_use_tool","tool_name":"AskUserQuestion","input":{"questions":[{"question":"Which?",)"
    R"("options":[{"label":"A"}],"multiSelect":true}]}}}
{"type":"control_request","request_id":"b","request":{"subtype":"can_use_tool","tool_name":"Bash","input":{"command":"x"},"permission_suggestions":)"
    R"([{"type":"addRules","rules":[{"toolName":"Bash","ruleContent":"x"}],"behavior":"allow","destination":"x"}]}}
{"type":"control_request","request_id":"h","request":{"subtype":"hook_callback","input":{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{}}}}
)";
  const std::string over = R"({"type":"control_cancel_request","request_id":"r"}
{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"text","text":"x"},{"type":"image","source":)"
                           R"({"media_type":"image/png","data":"AAAA"}}],"is_error":true}]},"parent_tool_use_id":"p"}
{"is_error":true,"terminal_reason":"aborted_tools","total_cost_usd":0.5,"usage":{"input_tokens":3},"modelUsage":{"m":{"contextWindow":9}},"type":"result"}
)";
  for (char way : {'\0', '\1', '\2', '\5', '\x80'}) {
    auto head = std::string(1, way) + piece_of(R"({"edited": 1})");
    out.add(0, head + begin + streamed + asked + over);
    out.add(7, head + begin + asked);
    out.add(100, head + "garbage\n" + begin + std::string(9000, 'x') + "\n" + streamed + begin);
  }
}

// Steps of a driver's world: what happens, and with what.
void add_driver(std::vector<seed>& out) {
  const auto step = [](int what, const std::string& piece) { return std::string(1, static_cast<char>(what)) + piece_of(piece); };
  const std::string begin = R"({"type":"command_lifecycle","command_uuid":"11111111-1111-4111-8111-111111111111","state":"started"}
{"type":"system","subtype":"init","session_id":"s","model":"m","cwd":"/repo"}
)";
  const std::string asked =
    R"({"type":"control_request","request_id":"r","request":{"subtype":"can_use_tool","tool_name":"Write","input":{"file_path":"/repo/a"},"tool_use_id":"t"}}
{"type":"control_request","request_id":"b","request":{"subtype":"can_use_tool","tool_name":"Bash","input":{"command":"npm test"}}}
{"type":"control_request","request_id":"h","request":{"subtype":"hook_callback","input":{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{}}}}
)";
  const std::string over = R"({"is_error":false,"total_cost_usd":0.5,"type":"result"})"
                           "\n";
  const auto turn = step(3, "") + step(4, "go") + step(9, begin);
  const std::string auto_edit = "\x08\x02", automatic = "\x08\x03\x10\xff\xff\xff\xff\xff\x3f",
                    pattern = "\x08\x01\x1a\x0e"
                              "Bash(npm test)";
  int number = 0;
  for (const auto& steps :
       {turn + step(1, asked) + step(5, "") + step(7, "") + step(1, over) + step(4, "more"), turn + step(6, auto_edit) + step(1, asked),
        turn + step(6, automatic) + step(1, asked + over), turn + step(6, pattern) + step(1, asked + asked) + step(25, "{}"),
        turn + step(1, asked) + step(8, std::string(400, 'x')) + step(3, ""), turn + step(4, "steered") + step(1, over) + step(0, "garbage"),
        step(3, "") + step(4, "\x89PNG\r\n\x1a\n") + step(9, begin)})
    out.push_back({"driver-" + std::to_string(number++), steps});
}

} // namespace

void add_agent_seeds(seeds& out) {
  add_routines({out["routine"], "routine"});
  add_hooks({out["hook"], "hook"});
  add_commands({out["shell"], "shell"});
  add_settings({out["settings"], "settings"});
  add_native_lines({out["native_lines"], "native_lines"});
  add_driver(out["driver"]);
}

} // namespace swarm::fuzz
