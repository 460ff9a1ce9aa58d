// The hooks of every agent's program against a real node: what is denied, in which words, and what happens when nobody can be asked.
#include <doctest/doctest.h>

#include <fstream>

#include "tests/support/hooked_agent.hpp"

using namespace swarm::testing;

TEST_CASE("a peer's lock blocks a write with the exact text and the file is unchanged, an own lock passes, and alone no lock is taken") {
  test_node node;
  hooked_agent me{node, "11111111-1111"};
  auto id = me.start();
  auto file = node.work() + "/a.py";
  // Alone.
  CHECK(me.write(file, "first") == "");
  CHECK(locks_of(node) == 0);
  auto peer = node.session("identity:work codex platform:cli origin:codex session:22222222");
  CHECK(me.write(file, "second") == "");
  hold(node, peer, file, "refactor auth");
  auto before = file_text(file);
  CHECK(me.write(file, "third") ==
        "swarm lock blocked Write for " + file + ": held by identity:work codex platform:cli origin:codex session:22222222 (refactor auth)");
  CHECK(file_text(file) == before);
  auto edit = me.before("Edit", {{"file_path", file}});
  CHECK(
    edit.out.rfind(
      R"({"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"swarm lock blocked Edit for )",
      0) == 0);
  CHECK(edit.err.empty());
  CHECK(denial(me.before("NotebookEdit", {{"notebook_path", file}})).rfind("swarm lock blocked NotebookEdit for ", 0) == 0);
  CHECK(denial(me.before("MultiEdit", {{"file_path", "a.py"}})).rfind("swarm lock blocked MultiEdit for ", 0) == 0);
  CHECK(me.before("Read", {{"file_path", file}}).out.empty());
  CHECK(me.before("Write", {{"file_path", node.work() + "/b.py"}}).out.empty());
  CHECK(me.before("Write", json::object()).out.empty());
  CHECK(me.before("Write", {{"file_path", 7}}).out.empty());
  // A lock without note; one without label.
  hold(node, peer, "c.py");
  CHECK(denial(me.before("Write", {{"file_path", node.work() + "/c.py"}})) ==
        "swarm lock blocked Write for " + node.work() + "/c.py: held by identity:work codex platform:cli origin:codex session:22222222");
  auto unnamed = node.session();
  hold(node, unnamed, "d.py");
  CHECK(denial(me.before("Write", {{"file_path", node.work() + "/d.py"}})) ==
        "swarm lock blocked Write for " + node.work() + "/d.py: held by " + unnamed.substr(0, 8));
  // Its own.
  REQUIRE(node.ctl({"unlock", file, "--as", peer}).status == 0);
  hold(node, id, file, "mine");
  CHECK(me.write(file, "fourth") == "");
  CHECK(file_text(file) == "fourth");
  CHECK(node.ctl_json({"locks", "--as", id}).size() == 1);
}

TEST_CASE("a locked file is known by its other names") {
  test_node node;
  hooked_agent me{node, "s"};
  me.start();
  auto peer = node.session("peer");
  fs::create_directories(node.work() + "/real");
  fs::create_directory_symlink(node.work() + "/real", node.work() + "/link");
  std::ofstream{node.work() + "/real/a.c"} << "x";
  fs::create_symlink(node.work() + "/real/a.c", node.work() + "/alias.c");
  hold(node, peer, "real/a.c");
  CHECK(has(denial(me.before("Write", {{"file_path", node.work() + "/link/a.c"}})), "for " + node.work() + "/real/a.c"));
  CHECK(!denial(me.before("Write", {{"file_path", node.work() + "/alias.c"}})).empty());
  CHECK(!denial(me.before("Write", {{"file_path", node.work() + "/x/../real/./a.c"}})).empty());
  CHECK(me.before("Write", {{"file_path", node.work() + "/real/b.c"}}).out.empty());
  // Locked by the name that is the symbolic link.
  hold(node, peer, "link/new.c");
  CHECK(!denial(me.before("Write", {{"file_path", node.work() + "/real/new.c"}})).empty());
}

TEST_CASE("a locked file is known by a name that begins at the home directory or as a URI by the hooks of every program") {
  test_node node;
  const auto proj = node.env({}).at("HOME") + "/proj";
  fs::create_directories(proj);
  std::ofstream{proj + "/a.c"} << "x";
  auto peer = node.session("peer");
  hold(node, peer, proj + "/a.c");
  for (const auto& flags : std::vector<std::vector<std::string>>{{}, {"--enforce"}, {"--fail-closed"}}) {
    hooked_agent claude{node, "c", "claude", flags}, hermes{node, "h", "hermes", flags}, codex{node, "x", "codex", flags},
      opencode{node, "o", "opencode", flags};
    for (const auto* each : {&claude, &hermes, &codex, &opencode})
      each->send("session-start");
    for (const auto& name : {std::string{"~/proj/a.c"}, "file://" + proj + "/a.c", "file:" + proj + "/a.c", "FILE://" + proj + "/a.c"}) {
      CAPTURE(name);
      CHECK(has(denial(claude.before("Write", {{"file_path", name}})), "held by peer"));
      CHECK(has(hermes.before("write_file", {{"path", name}}).parsed().value("message", ""), "held by " + peer.substr(0, 8)));
      CHECK(has(denial(codex.before("apply_patch", "*** Begin Patch\n*** Update File: " + name + "\n@@\n-x\n+y\n*** End Patch")), "held by peer"));
      CHECK(has(opencode.before("write", {{"filePath", name}}).parsed().value("reason", ""), "held by peer"));
    }
    CHECK(claude.before("Write", {{"file_path", "~/proj/b.c"}}).out.empty());
  }
}

TEST_CASE("a lock on a directory blocks the writes below it, whatever the name, and nothing beside it") {
  test_node node;
  hooked_agent me{node, "s"};
  me.start();
  auto peer = node.session("peer");
  fs::create_directories(node.work() + "/src/deep");
  fs::create_directory_symlink(node.work() + "/src", node.work() + "/link");
  hold(node, peer, "src");
  for (auto file : {"/src/a.c", "/src/deep/b.c", "/link/a.c", "/src/deep"})
    CHECK_MESSAGE(has(denial(me.before("Write", {{"file_path", node.work() + file}})), "held by peer"), file);
  CHECK(has(denial(me.before("Bash", {{"command", "echo x > src/new.c"}})), "held by peer"));
  CHECK(me.before("Write", {{"file_path", node.work() + "/src2.c"}}).out.empty());
  CHECK(me.before("Bash", {{"command", "echo x > other.c"}}).out.empty());
}

TEST_CASE("every agent sends events and reads answers in its own way") {
  test_node node;
  auto peer = node.session("peer");
  auto file = node.work() + "/a.c";
  hold(node, peer, file, "busy");
  auto text = [&](const std::string& tool) { return "swarm lock blocked " + tool + " for " + file + ": held by peer (busy)"; };

  hooked_agent codex{node, "c1", "codex"};
  codex.start();
  auto patch = "*** Begin Patch\n*** Update File: other.c\n*** Move to: a.c\n@@\n-x\n+y\n*** End Patch";
  for (const auto& input : {json(patch), json{{"command", patch}}, json{{"input", patch}}, json{{"patch", patch}}})
    CHECK(denial(codex.before("apply_patch", input)) == text("apply_patch"));
  CHECK(denial(codex.before("Bash", {{"command", "apply_patch <<'EOF'\n" + std::string{patch} + "\nEOF"}})) == text("Bash"));
  CHECK(denial(codex.before("shell", {{"command", {"bash", "-lc", "echo x > a.c"}}, {"workdir", node.work()}})) == text("shell"));
  CHECK(denial(codex.before("exec_command", {{"cmd", "rm a.c"}})) == text("exec_command"));
  CHECK(codex.before("apply_patch", "*** Begin Patch\n*** Add File: b.c\n+*** Update File: a.c\n*** End Patch").out.empty());

  hooked_agent hermes{node, "h1", "hermes"};
  hermes.send("session-start");
  auto said = hermes.before("write_file", {{"path", "a.c"}}).parsed();
  CHECK(said == json{{"action", "block"}, {"message", "swarm lock blocked write_file for " + file + ": held by " + peer.substr(0, 8) + " (busy)"}});
  CHECK(hermes.before("patch", {{"mode", "patch"}, {"patch", patch}}).parsed().at("action") == "block");
  CHECK(hermes.before("terminal", {{"command", "sed -i s/x/y/ a.c"}}).parsed().at("action") == "block");
  CHECK(hermes.before("write_file", {{"path", "b.c"}}).out.empty());
  hooked_agent lead{node, "h2", "hermes", {}, {{"SWARM_HERMES_ROLE", "gateway"}}};
  lead.send("session-start");
  CHECK(lead.before("write_file", {{"path", "a.c"}}).out.empty());
  // With fail_closed it takes silence for a failure.
  hooked_agent closed{node, "h3", "hermes", {"--fail-closed"}};
  closed.send("session-start");
  CHECK(closed.before("write_file", {{"path", "b.c"}}).parsed() == json::object());
  CHECK(closed.before("write_file", {{"path", "a.c"}}).parsed().at("action") == "block");

  hooked_agent opencode{node, "ses_1", "opencode"};
  opencode.start();
  said = opencode.before("edit", {{"filePath", file}}).parsed();
  CHECK(said == json{{"decision", "block"}, {"reason", text("edit")}});
  CHECK(opencode.before("bash", {{"command", "tee a.c"}, {"workdir", node.work()}}).parsed().at("decision") == "block");
  CHECK(opencode.before("bash", {{"command", "cat a.c"}}).out.empty());

  hooked_agent gemini{node, "g1", "gemini"};
  CHECK(gemini.send("session-start", {{"source", "startup"}}).parsed().at("hookSpecificOutput").contains("additionalContext"));
  said = gemini.before("write_file", {{"file_path", file}, {"content", "x"}}).parsed();
  CHECK(said == json{{"decision", "deny"}, {"reason", text("write_file")}});
  CHECK(gemini.before("replace", {{"file_path", file}}).parsed().at("decision") == "deny");
  CHECK(gemini.before("run_shell_command", {{"command", "cp /etc/hosts a.c"}}).parsed().at("decision") == "deny");
  CHECK(gemini.before("run_shell_command", {{"command", "rm a.c"}, {"directory", "sub"}}).out.empty());
}

TEST_CASE("a shell command that obviously writes a locked file is denied") {
  test_node node;
  hooked_agent me{node, "s"};
  me.start();
  hold(node, node.session("peer"), "src/a.c");
  auto refused = [&](const std::string& command) { return !denial(me.before("Bash", {{"command", command}})).empty(); };
  for (const auto* command : {"cd src && sed -i s/a/b/ a.c", "rm -r src", "git restore .", "rm src/*.c", "bash -c 'cat x | tee src/a.c'"}) {
    INFO(command);
    CHECK(refused(command));
  }
  for (const auto* command : {"echo 'rm src/a.c'", "grep -c x src/a.c > count", "git commit -m 'rm src/a.c'", ""}) {
    INFO(command);
    CHECK(!refused(command));
  }
}

TEST_CASE("half a character in what a tool is to do does not hide the file from the check") {
  test_node node;
  hooked_agent me{node, "s"};
  me.start();
  auto file = node.work() + "/a.c";
  hold(node, node.session("peer"), file);
  hold(node, node.session("other"), node.work() + "/b\xef\xbf\xbd.c");
  auto event = [&](const std::string& input) {
    return R"({"session_id":"s","cwd":")" + node.work() + R"(","tool_name":"Write","tool_use_id":"t","tool_input":)" + input + "}";
  };
  for (const auto* cut : {"\\ud83d", "\\ude00", "\xf0\x9f", "\xed\xa0\xbd"}) {
    INFO(cut);
    auto said = me.raw("pre-tool-use", event(R"({"file_path":")" + file + R"(","content":")" + cut + R"("})"));
    CHECK(has(denial(said), "held by peer"));
    CHECK(me.raw("post-tool-use", event(R"({"file_path":")" + file + R"(","content":")" + cut + R"("})")).err.empty());
  }
  // What the agent writes as the name of such a file.
  CHECK(has(denial(me.raw("pre-tool-use", event(R"({"file_path":"b\ud83d.c"})"))), "held by other"));
}

TEST_CASE("without a node a write passes and stderr says so, --fail-closed blocks it, and only a start starts one") {
  test_node node;
  hooked_agent me{node, "s"};
  hooked_agent strict{node, "s", "claude", {"--fail-closed"}};
  hooked_agent hermes{node, "h", "hermes", {"--fail-closed"}};
  json input{{"file_path", node.work() + "/a.c"}};
  // Nobody has registered.
  auto unknown = me.before("Write", input);
  CHECK(unknown.out.empty());
  CHECK(has(unknown.err, "no locks were checked: no node is running"));
  CHECK(has(denial(strict.before("Write", input)), "no node is running"));
  CHECK(node.node_pid() == 0);
  me.start();
  hermes.send("session-start");
  CHECK(node.node_pid() != 0);
  CHECK(strict.before("Write", input).out.empty());
  REQUIRE(node.down().status == 0);
  auto open = me.before("Write", input);
  CHECK(open.out.empty());
  CHECK(has(open.err, "no locks were checked: no node is running"));
  CHECK(has(denial(strict.before("Write", input)), "swarm lock check failed for Write: no node is running"));
  CHECK(hermes.before("write_file", {{"path", "a"}}).parsed().at("action") == "block");
  CHECK(strict.before("Read", input).out.empty());
  for (const auto* event : {"post-tool-use", "prompt-submit", "stop", "notification", "session-end"})
    CHECK(me.send(event, {{"tool_name", "Write"}, {"tool_input", input}}).out.empty());
  CHECK(node.node_pid() == 0);
}

TEST_CASE("no tool writes the node's state or swarm's settings, without a node and a session, in every mode, and the reason is said") {
  test_node node;
  const auto state = node.dir().root.string(), home = node.env({}).at("HOME");
  fs::create_directories(home + "/.config/swarm");
  for (const auto& flags : std::vector<std::vector<std::string>>{{}, {"--enforce"}, {"--fail-closed"}}) {
    hooked_agent me{node, "unregistered", "claude", flags};
    for (const auto& file : {state + "/config.toml", state + "/secrets/ca.key", home + "/.config/swarm/contexts.toml"}) {
      CAPTURE(file);
      const auto why = denial(me.before("Write", {{"file_path", file}, {"content", "x"}}));
      CHECK(has(why, "swarm denied Write for " + file));
      CHECK(has(why, "Tell the person"));
      CHECK(!denial(me.before("Edit", {{"file_path", file}})).empty());
      CHECK(!denial(me.before("Bash", {{"command", "echo x > " + file}})).empty());
      CHECK(!denial(me.before("mcp__files__write_file", {{"path", file}, {"content", "x"}})).empty());
      CHECK(!denial(me.before("mcp__files__move_file", {{"source", "x"}, {"destination", file}})).empty());
      CHECK(denial(me.before("mcp__files__read_file", {{"path", file}})).empty());
    }
    CHECK(!denial(me.before("Bash", {{"command", "cd ~/.config && rm -rf swarm"}})).empty());
    CHECK(!denial(me.before("Bash", {{"command", "tee $SWARM_HOME/config.toml < x"}})).empty());
  }
  CHECK_FALSE(fs::exists(node.dir().socket()));
  // Also with a session, and in the words of the other programs.
  hooked_agent me{node, "registered"};
  me.start();
  CHECK(!denial(me.before("Write", {{"file_path", state + "/config.toml"}})).empty());
  CHECK(me.before("Bash", {{"command", "cat " + state + "/config.toml"}}).out.empty());
  const auto blocked = hooked_agent{node, "other", "opencode"}.before("write", {{"filePath", state + "/config.toml"}}).parsed();
  CHECK(blocked.at("decision") == "block");
  CHECK(has(blocked.at("reason"), "swarm denied write"));
}

TEST_CASE("what cannot be read is passed over, or blocked when that was asked for") {
  test_node node;
  hooked_agent me{node, "s"};
  me.start();
  hooked_agent strict{node, "s", "claude", {"--fail-closed"}};
  std::string deep(100'000, '[');
  for (const auto& input : {std::string{}, std::string{"{"}, std::string{"[1,2]"}, std::string{"null"}, std::string{"\"text\""}, deep,
                            std::string(17u << 20, 'x'), std::string{"{\"tool_name\":\"Write\",\"a\":\"\xff\xfe"}}) {
    auto said = me.raw("pre-tool-use", input);
    CHECK(said.out.empty());
    CHECK(has(said.err, "no JSON object"));
  }
  for (const auto* event : {"session-start", "session-end", "post-tool-use", "stop"})
    CHECK(me.raw(event, "{").out.empty());
  for (const auto& input : {std::string{"{"}, std::string(17u << 20, 'x')})
    CHECK(!denial(strict.raw("pre-tool-use", input)).empty());
  for (const auto& input :
       {json{{"tool_name", 5}}, json{{"tool_name", "Write"}, {"tool_input", 7}},
        json{{"tool_name", "Bash"}, {"tool_input", {{"command", json::array({1, nullptr})}}}}, json{{"tool_name", "Bash"}, {"tool_input", nullptr}},
        json{{"tool_name", "Write"}, {"tool_input", {{"file_path", std::string(9000, 'a')}}}},
        json{{"tool_name", "Write"}, {"tool_input", {{"file_path", std::string{"a\0b", 3}}}}},
        json{{"tool_name", "apply_patch"}, {"tool_input", json::array()}}, json::object()}) {
    auto said = me.send("pre-tool-use", input);
    CHECK(said.out.empty());
    CHECK(has(said.err, "no locks were checked: the hook could not read"));
    CHECK_MESSAGE(has(denial(strict.send("pre-tool-use", input)), "could not read what the tool is to do"), input.dump().substr(0, 100));
  }
  CHECK(has(me.raw("no-such-event", "{}").err, "no event no-such-event"));
  hooked_agent stranger{node, "s", "emacs"};
  CHECK(has(stranger.raw("pre-tool-use", "{}").err, "no host emacs"));
}

TEST_CASE("a peer's lock in another worktree warns instead of denying") {
  test_node node;
  auto repository = node.work() + "/repo";
  auto git = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"/usr/bin/git", "-c", "user.name=a", "-c", "user.email=a@b"});
    return child_process{words, node.env(), repository}.finish().status;
  };
  fs::create_directories(repository);
  REQUIRE(git({"init", "-q"}) == 0);
  std::ofstream{repository + "/a.c"} << "x";
  REQUIRE(git({"add", "."}) == 0);
  REQUIRE(git({"commit", "-qm", "first"}) == 0);
  auto tree = node.work() + "/tree";
  REQUIRE(git({"worktree", "add", "-q", "-b", "topic", tree}) == 0);

  // Both in the repository's scope; the second works in the linked tree.
  environment scope{{"SWARM_MCP_SCOPE", repository}};
  hooked_agent main_tree{node, "m", "claude", {}, scope};
  hooked_agent linked{node, "l", "claude", {}, scope};
  auto cwd = [](const std::string& directory, json input = json::object()) {
    input["cwd"] = directory;
    return input;
  };
  auto id_of = [&](const run_result& r) { return r.out.substr(r.out.find("Instance `") + 10, 36); };
  auto in_main = id_of(main_tree.send("session-start", cwd(repository)));
  auto in_tree = id_of(linked.send("session-start", cwd(tree)));
  auto write = [&](const hooked_agent& who, const std::string& directory, const std::string& file) {
    return who.send("pre-tool-use", cwd(directory, {{"tool_name", "Write"}, {"tool_input", {{"file_path", file}}}}));
  };
  REQUIRE(node.ctl({"--scope", repository, "lock", repository + "/a.c", "--as", in_main}).status == 0);
  auto warned = write(linked, tree, tree + "/a.c");
  CHECK(has(context_of(warned), "held by"));
  CHECK(!warned.parsed().at("hookSpecificOutput").contains("permissionDecision"));
  CHECK(has(warned.err, "in another worktree"));
  // The same file, reached from the other tree, is denied.
  CHECK(!denial(write(linked, tree, repository + "/a.c")).empty());
  REQUIRE(node.ctl({"--scope", repository, "unlock", repository + "/a.c", "--as", in_main}).status == 0);
  REQUIRE(node.ctl({"--scope", repository, "lock", tree + "/a.c", "--as", in_tree}).status == 0);
  CHECK(has(context_of(write(main_tree, repository, repository + "/a.c")), "held by"));
  CHECK(!denial(write(main_tree, repository, tree + "/a.c")).empty());
  CHECK(write(linked, tree, tree + "/a.c").out.empty());
}

TEST_CASE("a lock binds who writes the file from another repository: one around it, one inside of it, one beside it") {
  test_node node;
  auto in = [&](const std::string& below) {
    auto root = node.work() + "/" + below;
    fs::create_directories(root + "/.git/objects");
    std::ofstream{root + "/.git/HEAD"} << "ref: refs/heads/main\n";
    return root;
  };
  auto outer = in("outer"), nested = in("outer/lib/nested"), beside = in("beside");
  auto peer_in = [&](const std::string& directory, const std::string& label) -> std::string {
    return node.ctl_json({"register", "--label", label, "--lease-seconds", "600"}, {.directory = directory}).at("id");
  };
  auto lock = [&](const std::string& verb, const std::string& directory, const std::string& file, const std::string& who) {
    return node.ctl({verb, file, "--as", who}, {.directory = directory}).status == 0;
  };
  auto around = peer_in(outer, "around"), inside = peer_in(nested, "inside");
  auto starts_in = [&](const std::string& directory, const std::string& name) {
    hooked_agent a{node, name};
    a.send("session-start", {{"cwd", directory}});
    return a;
  };
  auto writes = [&](const hooked_agent& a, const std::string& directory, const std::string& tool, const json& input) {
    return a.send("pre-tool-use", {{"cwd", directory}, {"tool_name", tool}, {"tool_input", input}, {"tool_use_id", "t"}});
  };
  auto in_nested = starts_in(nested, "n"), in_outer = starts_in(outer, "o"), in_beside = starts_in(beside, "b");
  json file{{"file_path", nested + "/a.c"}};
  json script{{"command", "echo x > " + nested + "/a.c"}};

  REQUIRE(lock("lock", outer, "lib", around));
  for (const auto& [a, directory] : {std::pair{in_nested, nested}, {in_outer, outer}, {in_beside, beside}}) {
    INFO(directory);
    CHECK(has(denial(writes(a, directory, "Write", file)), "held by around"));
    CHECK(has(denial(writes(a, directory, "Bash", script)), "held by around"));
  }
  REQUIRE(lock("unlock", outer, "lib", around));
  REQUIRE(lock("lock", nested, "a.c", inside));
  for (const auto& [a, directory] : {std::pair{in_nested, nested}, {in_outer, outer}, {in_beside, beside}}) {
    INFO(directory);
    CHECK(has(denial(writes(a, directory, "Write", file)), "held by inside"));
    CHECK(writes(a, directory, "Write", {{"file_path", nested + "/b.c"}}).out.empty());
  }
  CHECK(has(denial(writes(in_outer, outer, "Bash", {{"command", "rm -rf lib/nested"}})), "held by inside"));
}
