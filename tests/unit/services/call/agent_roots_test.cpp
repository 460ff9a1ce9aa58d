#include "services/call/agent_roots.hpp"

#include <fstream>
#include <random>
#include <sstream>

#include <sys/stat.h>

#include <doctest/doctest.h>

#include "services/call/principals.hpp"
#include "tests/support/fabric_world.hpp"
#include "tests/support/process_tree.hpp"

using namespace swarm;
using test::session_named;

namespace {

constexpr const char* boot = "boot-1";

struct roots_world {
  test::scratch_state state;
  test::fake_process_watch watch;
  testing::process_tree all;
  std::unique_ptr<agent_roots> roots;

  roots_world() {
    all.add(10, {.session = 10, .executable = "/bin/bash"});
    all.add(20, {.parent = 10, .executable = "/opt/claude", .environment = {"SWARM_MCP_LABEL=name:mine"}});
    all.add(30, {.parent = 20, .session = 30, .executable = "/bin/bash", .environment = {"SWARM_MCP_LABEL=name:forged"}});
    all.add(31, {.parent = 30, .executable = "/usr/bin/swarmctl"});
    start();
  }
  /// As a node that starts again does.
  void start(const char* boot_id = boot) {
    roots = nullptr;
    roots = std::make_unique<agent_roots>(file(), watch, all, boot_id);
  }
  std::filesystem::path file() const { return state.dir.agents_file(); }
  std::string session_of(process_key k) const {
    auto r = roots->find(k);
    return r && !r->sessions.empty() ? r->sessions.back().id : std::string{};
  }
};

constexpr process_key claude{20, 20};

caller_place at(caller_place::kind kind, process_key root = {}, const std::string& session = {}) {
  caller_place out;
  out.is = kind;
  out.root = root;
  if (kind == caller_place::kind::worker)
    out.worker = session_named(session);
  out.own_session = session;
  return out;
}

} // namespace

TEST_CASE("a root is found above a caller, and acts as the session that was registered last") {
  roots_world w;
  CHECK_FALSE(w.roots->root_of(10));
  auto before = w.roots->generation();
  auto root = w.roots->root_of(31);
  REQUIRE(root);
  CHECK(root->process == claude);
  CHECK(root->process.text() == "20.20");
  CHECK(root->program == "claude");
  CHECK(w.roots->generation() > before);
  CHECK(w.roots->bind(claude, "a", "/repo"));
  CHECK(w.roots->bind(claude, "b", "/repo"));
  CHECK(w.session_of(claude) == "b");
  w.roots->session_gone("b");
  CHECK(w.session_of(claude) == "a");
  CHECK(w.roots->root_of_session("a") == claude);
  CHECK_FALSE(w.roots->root_of_session("b"));
  CHECK_FALSE(w.roots->bind({20, 21}, "c", "/repo"));
}

TEST_CASE("a session that goes on in another process of its agent leaves the first one") {
  roots_world w;
  w.all.add(40, {.parent = 10, .executable = "/opt/claude"});
  w.roots->root_of(31);
  w.roots->root_of(40);
  w.roots->bind(claude, "a", "/repo");
  w.roots->bind({40, 40}, "a", "/repo");
  CHECK(w.session_of(claude).empty());
  CHECK(w.session_of({40, 40}) == "a");
}

TEST_CASE("a node that starts again knows its agents and their sessions") {
  roots_world w;
  w.roots->root_of(31);
  w.roots->bind(claude, "a", "/repo");
  struct stat s {};
  REQUIRE(stat(w.file().c_str(), &s) == 0);
  CHECK((s.st_mode & 0777) == 0600);
  w.start();
  CHECK(w.session_of(claude) == "a");
  named_process p;
  p.pid = 20;
  p.start = 20;
  CHECK(w.roots->known(p) == agents::find("claude"));
  p.start = 21;
  CHECK_FALSE(w.roots->known(p));
}

TEST_CASE("roots of another boot, ended ones and reused numbers are not taken over") {
  roots_world w;
  w.all.add(40, {.parent = 10, .executable = "/opt/codex"});
  w.roots->root_of(31);
  w.roots->root_of(40);
  w.start("boot-2");
  CHECK_FALSE(w.roots->find(claude));
  w.start();
  w.roots->root_of(31);
  w.roots->root_of(40);
  w.all.end(40);
  w.all.add(20, {.parent = 10, .executable = "/opt/claude", .start = 99});
  w.start();
  CHECK_FALSE(w.roots->find(claude));
  CHECK_FALSE(w.roots->find({40, 40}));
}

TEST_CASE("a root stays until its process ends, whatever becomes of its sessions") {
  roots_world w;
  w.roots->root_of(31);
  w.roots->bind(claude, "a", "/repo");
  w.roots->session_gone("a");
  REQUIRE(w.roots->find(claude));
  w.watch.end(20);
  CHECK_FALSE(w.roots->find(claude));
  w.start();
  CHECK_FALSE(w.roots->find(claude));
}

TEST_CASE("what the root was started with is its own word, not that of what runs below it") {
  roots_world w;
  w.roots->root_of(31);
  CHECK(w.roots->environment_of_root(claude, "SWARM_MCP_LABEL") == "name:mine");
  CHECK_FALSE(w.roots->environment_of_root(claude, "SWARM_MCP_SCOPE"));
  CHECK_FALSE(w.roots->environment_of_root({20, 21}, "SWARM_MCP_LABEL"));
}

TEST_CASE("agents and their sessions are bounded") {
  roots_world w;
  for (std::size_t i = 0; i < limits::agent_roots_max + 5; ++i)
    w.roots->found({static_cast<std::int64_t>(1000 + i), 1}, "codex");
  CHECK(w.roots->find({1000, 1}));
  CHECK_FALSE(w.roots->find({static_cast<std::int64_t>(1000 + limits::agent_roots_max), 1}));
  for (std::size_t i = 0; i < limits::agent_root_sessions_max + 2; ++i)
    w.roots->bind({1000, 1}, "s" + std::to_string(i), "/repo");
  CHECK(w.roots->find({1000, 1})->sessions.size() == limits::agent_root_sessions_max);
  CHECK_FALSE(w.roots->root_of_session("s0"));
}

TEST_CASE("a damaged file of agents is an empty one") {
  const std::vector<agent_root> good{{{20, 5}, "claude", {{"a", "/repo"}}}, {{30, 6}, "codex", {}}};
  const auto text = text_of_agent_roots(good, boot);
  auto back = parse_agent_roots(text, boot);
  REQUIRE(back.size() == 2);
  CHECK(back[0].process == good[0].process);
  CHECK(back[0].sessions == good[0].sessions);
  CHECK(parse_agent_roots(text, "").empty());
  for (const auto* wrong : {"", "[]", "{}", R"({"format":1,"boot":"boot-1"})", R"({"format":2,"boot":"boot-1","roots":[]})",
                            R"({"format":1,"boot":"boot-1","roots":[1,{"pid":0,"start":1,"program":"claude"},{"pid":5,"start":1,"program":"vim"},
                                {"pid":"5","start":1,"program":"claude"},{"pid":5,"start":0,"program":"claude"}]})"})
    CHECK_MESSAGE(parse_agent_roots(wrong, boot).empty(), wrong);
  std::mt19937 random{7};
  for (int i = 0; i < 2'000; ++i) {
    auto bent = text;
    for (int n = 0; n < 4; ++n)
      bent[random() % bent.size()] = static_cast<char>(random());
    for (const auto& r : parse_agent_roots(bent, boot))
      CHECK((r.process.pid > 0 && agents::find(r.program)));
  }
}

TEST_CASE("a caller's place: the worker before the agent inside of it, a stray, an agent, a mark, an orphan, a person") {
  roots_world w;
  worker_registry workers;
  caller_places places{workers, *w.roots, [] { return std::int64_t{50}; }};
  auto place = [&](pid_t pid) { return places.look_at(pid).place; };
  using kind = caller_place::kind;
  CHECK(place(31).is == kind::agent);
  CHECK(place(31).root == claude);
  CHECK(w.roots->find(claude));
  CHECK(place(10).is == kind::user);
  CHECK(place(0).is == kind::unseen);
  CHECK(place(77).is == kind::unseen);
  w.all.add(50, {.session = 50, .executable = "/opt/swarm-keeper"});
  w.all.add(51, {.parent = 50, .session = 51, .executable = "/opt/claude"});
  w.all.add(52, {.parent = 51, .executable = "/usr/bin/swarmctl", .environment = {"SWARM_MCP_INSTANCE_ID=s", "SWARM_SPAWN_ID=w"}});
  CHECK(place(52).is == kind::stray);
  CHECK(place(52).own_session == "s");
  workers.put(51, session_named("s"), "hash");
  CHECK(place(52).is == kind::worker);
  CHECK(place(52).worker.id() == "s");
  w.all.add(53, {.parent = 1, .session = 53, .executable = "/usr/bin/swarmctl", .environment = {"SWARM_SPAWN_ID=w"}});
  CHECK(place(53).is == kind::stray);
  w.all.add(54, {.parent = 1, .session = 54, .executable = "/x/swarm-keeper (deleted)"});
  w.all.add(55, {.parent = 54, .session = 55, .executable = "/usr/bin/swarmctl"});
  CHECK(place(55).is == kind::stray);
  w.all.add(60, {.parent = 10, .executable = "/usr/bin/swarmctl", .environment = {"GEMINI_CLI=1"}});
  CHECK(place(60).is == kind::marked);
  w.all.add(61, {.parent = 1, .session = 999, .executable = "/usr/bin/swarmctl"});
  CHECK(place(61).is == kind::orphan);
}

TEST_CASE("a token of a worker or agent counts there and for people, and in no other worker or agent") {
  roots_world w;
  worker_registry workers;
  workers.put(51, session_named("worker-1"), "hash-1");
  workers.put(61, session_named("worker-2"), "hash-2");
  w.roots->root_of(31);
  w.roots->bind(claude, "of-claude", "/repo");
  caller_places places{workers, *w.roots, [] { return std::int64_t{0}; }};
  caller_table table;
  token_cache tokens{[] { return std::int64_t{0}; }};
  principals callers{table, workers, tokens, places};
  using kind = caller_place::kind;
  auto may_show = [&](const caller_place& place, const std::string& session, const std::string& made_by = {}) {
    return callers.objection_to_token(place, {session_named(session), {}, made_by}).empty();
  };
  // Of a worker.
  CHECK(may_show(at(kind::user), "worker-1"));
  CHECK(may_show(at(kind::orphan), "worker-1"));
  CHECK(may_show(at(kind::worker, {}, "worker-1"), "worker-1"));
  CHECK(may_show(at(kind::stray, {}, "worker-1"), "worker-1"));
  CHECK_FALSE(may_show(at(kind::worker, {}, "worker-2"), "worker-1"));
  CHECK_FALSE(may_show(at(kind::stray, {}, "worker-2"), "worker-1"));
  CHECK_FALSE(may_show(at(kind::stray), "worker-1"));
  CHECK_FALSE(may_show(at(kind::agent, claude), "worker-1"));
  CHECK_FALSE(may_show(at(kind::marked, {77, 77}), "worker-1"));
  // Of a session that a worker has made.
  CHECK(may_show(at(kind::worker, {}, "worker-1"), "further", "worker-1"));
  CHECK_FALSE(may_show(at(kind::worker, {}, "worker-2"), "further", "worker-1"));
  // Of an agent.
  CHECK(may_show(at(kind::agent, claude), "of-claude"));
  CHECK(may_show(at(kind::user), "of-claude"));
  CHECK_FALSE(may_show(at(kind::agent, {40, 40}), "of-claude"));
  CHECK_FALSE(may_show(at(kind::worker, {}, "worker-1"), "of-claude"));
  // Of nobody's: a person has handed it out.
  CHECK(may_show(at(kind::agent, claude), "free"));
  CHECK(may_show(at(kind::worker, {}, "worker-1"), "free"));
}
