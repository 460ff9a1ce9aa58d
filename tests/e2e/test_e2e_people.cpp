// People in their real surroundings: each is who `swarmctl whoami --explain` says, and can do what a person must; an agent in the same place cannot.
// Each case says what of it was real on this machine, and what was played by a program of that name.
#include <csignal>
#include <fstream>

#include <doctest/doctest.h>
#include <pwd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/login.hpp"
#include "tests/support/node_client.hpp"
#include "tests/support/own_sshd.hpp"

using namespace swarm::testing;
namespace v1 = swarm::v1;

namespace {

std::string swarmctl() { return program("swarmctl").string(); }

void was_real(const std::string& what) { MESSAGE("real: ", what); }
void was_played(const std::string& what) { MESSAGE("played: ", what); }
void is_skipped(const std::string& why) { MESSAGE("skipped: ", why); }

const passwd* nobody() { return geteuid() == 0 ? getpwnam("nobody") : nullptr; }

/// To other processes this one is the user's, for as long as this lives. Only root can.
class as_user {
public:
  explicit as_user(const passwd* user) : user_(user) {
    if (user_ && (setegid(user_->pw_gid) != 0 || seteuid(user_->pw_uid) != 0))
      throw std::runtime_error("seteuid");
  }
  ~as_user() {
    if (user_ && (seteuid(0) != 0 || setegid(0) != 0))
      std::abort();
    prctl(PR_SET_DUMPABLE, 1); // a change of the user takes it away, and a leak checker needs it
  }
  as_user(const as_user&) = delete;
  as_user& operator=(const as_user&) = delete;

private:
  const passwd* user_;
};

/// What came of the attempts.
struct outcome {
  json explained;
  std::string said;

  bool has(const std::string& text) const { return said.find(text) != std::string::npos; }
  std::string rule() const { return explained.is_object() ? explained.at("rule").get<std::string>() : "nothing"; }
  std::string kind() const { return explained.is_object() && explained.at("principal").is_object() ? explained["principal"].at("kind") : "nobody"; }
  bool passed(const std::string& role) const {
    return explained.is_object() &&
           std::any_of(explained.at("chain").begin(), explained.at("chain").end(), [&](const json& p) { return p.at("role") == role; });
  }
};

/// A node of ours, or of another user; and what a person must be able to do there: decide what an agent asks, take a lock from a session, stop the
/// node.
class people_node : public test_node {
public:
  explicit people_node(const passwd* user = nullptr) : user_(user) {
    fs::create_directories(dir().root);
    fs::permissions(dir().root, fs::perms::owner_all);
    if (user_)
      for (const auto& p : {fs::path{work()}.parent_path(), fs::path{work()}, dir().root.parent_path(), dir().root})
        REQUIRE(chown(p.c_str(), user_->pw_uid, user_->pw_gid) == 0);
    auto up = run({swarmctl(), "up"});
    REQUIRE_MESSAGE(up.status == 0, up.out, up.err);
    peer_ = run({swarmctl(), "register", "--lease-seconds", "600", "--json"}).parsed().at("id");
    REQUIRE(run({swarmctl(), "lock", "f", "--as", peer_}).status == 0);
    ask();
    write_deeds();
  }

  /// As the user of the node.
  std::vector<std::string> of_user(std::vector<std::string> argv) const {
    if (user_)
      argv.insert(argv.begin(), {"/usr/bin/setpriv", "--reuid", user_->pw_name, "--regid", std::to_string(user_->pw_gid), "--clear-groups"});
    return argv;
  }
  run_result run(const std::vector<std::string>& argv, const environment& more = {}) const {
    return child_process{of_user(argv), env(more), work()}.finish();
  }
  /// A copy of the shell that is called so.
  std::string shell_called(const std::string& name) const {
    const auto path = work() + "/bin/" + name;
    fs::create_directories(work() + "/bin");
    if (!fs::exists(path))
      fs::copy_file(fs::canonical("/bin/bash"), path);
    return path;
  }
  /// The command line of the attempts; what comes of them is outcome_of(name).
  std::string deeds(const std::string& name) const { return "sh " + work() + "/deeds " + name; }
  /// The same once the shell of this command line has ended.
  std::string deeds_later(const std::string& name) const {
    return "(while kill -0 $$ 2> /dev/null; do sleep 0.05; done; " + deeds(name) + ") > /dev/null 2>&1 < /dev/null &";
  }
  outcome outcome_of(const std::string& name) const {
    REQUIRE_MESSAGE(eventually([&] { return fs::exists(work() + "/" + name + ".over"); }), name);
    return {json::parse(file_text(work() + "/" + name + ".explained"), nullptr, false), file_text(work() + "/" + name + ".said")};
  }
  bool runs() const { return node_pid() != 0; }

private:
  void ask() {
    as_user guard{user_};
    node_client client{*this};
    auto asks = client.command(peer_);
    asks.mutable_request_approval()->set_subject("deploy");
    auto made = client.execute(asks);
    REQUIRE(made.has_approval());
    approval_ = made.approval().id();
  }
  /// With its surroundings in it: not everybody who starts it passes them on.
  void write_deeds() const {
    std::ofstream out{work() + "/deeds"};
    for (const auto& [name, value] : env())
      out << "export " << name << "='" << value << "'\n";
    out << "cd " << work() << "\n{\n" << swarmctl() << " whoami --explain --json > $1.explained\n";
    for (const auto& [name, command] : std::vector<std::pair<std::string, std::string>>{
           {"decide", "decide " + approval_ + " yes"}, {"unlock", "unlock f --as " + peer_}, {"down", "down"}})
      out << swarmctl() << " " << command << "; echo " << name << " $?\n";
    out << "} > $1.said 2>&1 < /dev/null\ntouch $1.over\n";
  }

  const passwd* user_;
  std::string peer_;
  std::string approval_;
};

/// It may everything, and has stopped the node.
void is_person(const people_node& node, const std::string& name, const std::string& rule = "user") {
  auto o = node.outcome_of(name);
  CAPTURE(name);
  CAPTURE(o.explained.dump());
  CAPTURE(o.said);
  CHECK(o.rule() == rule);
  CHECK(o.kind() == "operator");
  for (const auto* deed : {"decide 0", "unlock 0", "down 0"})
    CHECK_MESSAGE(o.has(deed), deed);
  CHECK(eventually([&] { return !node.runs(); })); // in a container `down` cannot see it end
}

/// It may nothing of that, hears where to ask why, and the node runs.
outcome is_refused(const people_node& node, const std::string& name, const std::string& rule, const std::string& kind) {
  auto o = node.outcome_of(name);
  CAPTURE(name);
  CAPTURE(o.explained.dump());
  CAPTURE(o.said);
  CHECK(o.rule() == rule);
  CHECK(o.kind() == kind);
  for (const auto* deed : {"decide 1", "unlock 1", "down 1"})
    CHECK_MESSAGE(o.has(deed), deed);
  CHECK(o.has("whoami --explain"));
  CHECK(node.runs());
  return o;
}

/// Takes over what is left behind below it, as the service manager of a user does.
class service_manager {
public:
  service_manager(const people_node& node, const std::string& script) {
    const auto shell = node.shell_called("systemd");
    std::vector<std::string> variables;
    for (const auto& [name, value] : node.env())
      variables.push_back(name + "=" + value);
    std::vector<char*> envp;
    for (auto& v : variables)
      envp.push_back(v.data());
    envp.push_back(nullptr);
    const char* argv[] = {shell.c_str(), "-c", script.c_str(), nullptr};
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_CHILD_SUBREAPER, 1);
      setsid();
      if (chdir(node.work().c_str()) == 0)
        execve(shell.c_str(), const_cast<char* const*>(argv), envp.data());
      _exit(127);
    }
  }
  ~service_manager() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  service_manager(const service_manager&) = delete;
  service_manager& operator=(const service_manager&) = delete;

private:
  pid_t pid_ = -1;
};

/// Where the programs of this build may be run by another user, and root starts the tests.
const passwd* other_user() {
  const auto* user = nobody();
  if (!user) {
    is_skipped("only root starts programs of another user");
    return nullptr;
  }
  child_process tries{
    {"/usr/bin/setpriv", "--reuid", user->pw_name, "--regid", std::to_string(user->pw_gid), "--clear-groups", swarmctl(), "--version"},
    {{"PATH", "/usr/bin:/bin"}, {"SWARM_HOME", "/nonexistent"}},
    "/"};
  if (auto r = tries.finish(); r.status != 0) {
    is_skipped("nobody may not run the programs of this build: " + r.err);
    return nullptr;
  }
  return user;
}

const std::vector<std::string> container{"/usr/bin/unshare", "--pid", "--fork", "--kill-child", "--mount-proc"};

std::vector<std::string> in_container(std::vector<std::string> argv) {
  argv.insert(argv.begin(), container.begin(), container.end());
  return argv;
}

} // namespace

TEST_CASE("in an editor the shell is the person's, and the tool server beside it is a session") {
  was_played("the editors, by shells called code and nvim; the tool server is real");
  for (const auto* name : {"code", "nvim"}) {
    CAPTURE(name);
    people_node node;
    const json calls[] = {
      {{"jsonrpc", "2.0"},
       {"id", 1},
       {"method", "tools/call"},
       {"params", {{"name", "register"}, {"arguments", {{"directory", node.work()}, {"label", "name:tools"}}}}}},
      {{"jsonrpc", "2.0"}, {"id", 2}, {"method", "tools/call"}, {"params", {{"name", "lock_file"}, {"arguments", {{"file", "tools-have-this"}}}}}}};
    std::ofstream{node.work() + "/calls"} << calls[0].dump() << "\n" << calls[1].dump() << "\n";
    const auto script = "(cat calls; while [ ! -e terminal.over ]; do sleep 0.05; done) | " + swarmctl() +
                        " mcp > tools.out & until grep -q '\"id\":2' tools.out; do sleep 0.05; done; " + swarmctl() + " locks --json > locks; " +
                        swarmctl() + " instances --json > rows; setsid -w /bin/bash -c '" + node.deeds("terminal") + "; :'; wait";
    auto editor = node.run({node.shell_called(name), "-c", script});
    is_person(node, "terminal");
    CHECK(node.outcome_of("terminal").passed("editor"));
    const auto rows = json::parse(file_text(node.work() + "/rows"));
    const auto tools = std::find_if(rows.begin(), rows.end(), [](const json& r) { return r.at("label") == "name:tools"; });
    REQUIRE_MESSAGE(tools != rows.end(), rows.dump(), editor.err);
    const auto locks = json::parse(file_text(node.work() + "/locks"));
    CHECK_MESSAGE(std::any_of(locks.begin(), locks.end(), [&](const json& l) { return l.at("instance_id") == tools->at("id"); }), locks.dump());
  }
}

TEST_CASE("an agent that an editor has started is the agent") {
  was_played("the editor and the agent, by shells called code and claude");
  people_node node;
  node.run({node.shell_called("code"), "-c", node.shell_called("claude") + " -c '" + node.deeds("agent") + "; :'; :"});
  is_refused(node, "agent", "agent_unregistered", "agent");
  node.run({node.shell_called("code"), "-c", node.deeds("person") + "; :"});
  is_person(node, "person");
}

TEST_CASE("a person in tmux is the operator, also in a server that an agent's shell has started, and an agent in a pane is not") {
  if (!fs::exists("/usr/bin/tmux")) {
    is_skipped("there is no tmux here (package tmux)");
    return;
  }
  was_real("tmux");
  was_played("the agent, by a shell called claude");
  people_node node;
  auto tmux = [&](const std::string& command) { return "tmux -f /dev/null -S " + node.work() + "/socket new-session -d '" + command + "'"; };
  node.run({node.shell_called("claude"), "-c", "/bin/sh -c \"" + tmux("cat") + "; :\"; :"}, {{"CLAUDECODE", "1"}});
  const auto claude = node.shell_called("claude");
  std::ofstream{node.work() + "/agent"} << node.deeds("agent") << "\n:\n";
  node.run({"/bin/sh", "-c", tmux(claude + " " + node.work() + "/agent")});
  is_refused(node, "agent", "agent_unregistered", "agent");
  node.run({"/bin/sh", "-c", tmux(node.deeds("in-agents-server"))});
  is_person(node, "in-agents-server");
  CHECK(node.outcome_of("in-agents-server").passed("multiplexer"));
  people_node other;
  other.run({"/bin/sh", "-c", "tmux -f /dev/null -S " + other.work() + "/socket new-session -d '" + other.deeds("own-server") + "'"});
  is_person(other, "own-server");
}

TEST_CASE("another user is refused, by the modes of the files and by the uid") {
  const auto* user = other_user();
  if (!user)
    return;
  was_real("another user, nobody by setpriv");
  people_node node;
  auto attempt = [&](const std::string& command) {
    return child_process{{"/usr/bin/setpriv", "--reuid", user->pw_name, "--regid", std::to_string(user->pw_gid), "--clear-groups", swarmctl(),
                          command, "--no-autostart"},
                         node.env(),
                         "/"}
      .finish();
  };
  CHECK(attempt("down").status != 0);
  for (const auto& p : {fs::path{node.work()}.parent_path(), fs::path{node.dir().root}, fs::path{node.dir().socket()}})
    fs::permissions(p, fs::perms::all);
  auto r = attempt("down");
  CHECK_MESSAGE(r.status != 0, r.out, r.err);
  CHECK(node.runs());
  CHECK(file_text(node.dir().root / "log" / "swarmd.log").find("a process of uid " + std::to_string(user->pw_uid) + ";") != std::string::npos);
}

TEST_CASE("who has become the node's user by way of another one is the operator: runuser, sudo -u, setpriv") {
  const auto* user = other_user();
  if (!user)
    return;
  const std::vector<std::pair<std::string, std::vector<std::string>>> ways{
    {"/usr/sbin/runuser", {"-u", user->pw_name, "--"}},
    {"/usr/bin/sudo", {"-u", user->pw_name}},
    {"/usr/bin/setpriv", {"--reuid", user->pw_name, "--regid", std::to_string(user->pw_gid), "--clear-groups"}}};
  for (const auto& [way, options] : ways) {
    if (!fs::exists(way)) {
      is_skipped("there is no " + way + " here");
      continue;
    }
    was_real(way);
    people_node node{user};
    std::vector<std::string> argv{way};
    argv.insert(argv.end(), options.begin(), options.end());
    argv.insert(argv.end(), {"/bin/sh", "-c", node.deeds("person") + "; :"});
    auto r = child_process{argv, node.env(), node.work()}.finish();
    CAPTURE(r.err);
    is_person(node, "person");
    CHECK(node.outcome_of("person").explained.at("end").get<std::string>().find("another user") != std::string::npos);
  }
}

TEST_CASE("with hidepid a person is the operator, an agent is the agent, and an orphan is one") {
  const auto* user = other_user();
  if (!user)
    return;
  was_real("hidepid=2, in a mount namespace");
  was_played("the agent, by a shell called claude");
  people_node node{user};
  REQUIRE(node.run({swarmctl(), "down"}).status == 0);
  const auto as_nobody = "setpriv --reuid nobody --regid " + std::to_string(user->pw_gid) + " --clear-groups ";
  const auto look = "test ! -e /proc/1/stat || exit 77; " + swarmctl() + " up; " + swarmctl() +
                    " dispatch work --harness exec --json -- sh -c 'env -u SWARM_TOKEN " + swarmctl() + " whoami --explain | head -n 2' > worker; " +
                    node.shell_called("claude") + " -c '" + node.deeds("agent") + "; :'; setsid -w sh -c '" + node.deeds_later("orphan") +
                    " :'; while [ ! -e orphan.over ]; do sleep 0.05; done; " + node.deeds("person") + "; :";
  std::ofstream{node.work() + "/look"} << look;
  auto r = child_process{{"/usr/bin/unshare", "-m", "/bin/sh", "-c", "mount -t proc -o hidepid=2 proc /proc && " + as_nobody + "sh look; exit $?"},
                         node.env(),
                         node.work()}
             .finish();
  if (r.status == 77 || r.err.find("mount:") != std::string::npos) {
    is_skipped("no /proc with hidepid can be mounted here: " + r.err);
    return;
  }
  CAPTURE(r.err);
  const auto agent = node.outcome_of("agent");
  CHECK(agent.rule() == "agent_unregistered");
  CHECK_MESSAGE(agent.has("down 1"), agent.said);
  const auto orphan = node.outcome_of("orphan");
  CHECK_MESSAGE(orphan.rule() == "orphan", orphan.explained.dump());
  CHECK_MESSAGE(orphan.has("down 1"), orphan.said);
  const auto work = json::parse(file_text(node.work() + "/worker"), nullptr, false);
  REQUIRE_MESSAGE(work.is_object(), file_text(node.work() + "/worker"), r.err);
  CHECK_MESSAGE(work.at("output_tail").get<std::string>().find("runs in a worker") != std::string::npos, work.dump());
  is_person(node, "person");
}

TEST_CASE("in a container with a node of its own a person is the operator, and the node of another container refuses, and says why") {
  if (geteuid() != 0) {
    is_skipped("only root makes a PID namespace here");
    return;
  }
  was_played("the containers, by unshare with PID and mount namespaces of their own");
  people_node node;
  REQUIRE(node.ctl({"down"}).status == 0);
  // The container's first process leads no session of its own, so what it takes over looks like its own child.
  std::ofstream{node.work() + "/leave"} << node.deeds_later("left") << "\n";
  const auto agent =
    node.shell_called("claude") + " -c '" + node.deeds("agent") + "; /bin/bash leave; while [ ! -e left.over ]; do sleep 0.05; done; :'; ";
  child_process inside{
    in_container(
      {"/bin/sh", "-c", swarmctl() + " up; " + agent + "touch ready; while [ ! -e go ]; do sleep 0.05; done; " + node.deeds("inside") + "; :"}),
    node.env(), node.work()};
  REQUIRE(eventually([&] { return fs::exists(node.work() + "/ready"); }));
  is_refused(node, "agent", "agent_unregistered", "agent");
  const auto left = node.outcome_of("left");
  CHECK_MESSAGE(left.rule() == "orphan", left.explained.dump());
  CHECK_MESSAGE((left.has("decide 1") && left.has("down 1")), left.said);
  child_process{in_container({"/bin/sh", "-c", node.deeds("outside") + "; :"}), node.env(), node.work()}.finish();
  auto outside = is_refused(node, "outside", "unreadable", "nobody");
  CHECK_MESSAGE(outside.has("PID namespace"), outside.said);
  std::ofstream{node.work() + "/go"};
  is_person(node, "inside");
  inside.finish();
}

TEST_CASE("a person in a container that shares the socket of the machine's node is the operator, and an agent's container is the agent's") {
  if (geteuid() != 0) {
    is_skipped("only root makes a PID namespace here");
    return;
  }
  was_played("the container, by unshare with PID and mount namespaces of its own");
  people_node node;
  node.run({node.shell_called("claude"), "-c", "unshare --pid --fork --kill-child --mount-proc sh -c '" + node.deeds("agents") + "; :'; :"});
  is_refused(node, "agents", "agent_unregistered", "agent");
  node.run(in_container({"/bin/sh", "-c", node.deeds("persons") + "; :"}));
  is_person(node, "persons");
}

TEST_CASE("what a person types behind ! in an agent's prompt is the agent's, with its session and without") {
  was_played("the agent, by a shell called claude");
  people_node node;
  const auto claude = node.shell_called("claude");
  node.run({claude, "-c", "/bin/bash -c '" + node.deeds("before") + "; :'; :"});
  is_refused(node, "before", "agent_unregistered", "agent");
  node.run({claude, "-c", swarmctl() + " register --lease-seconds 600; /bin/bash -c '" + node.deeds("registered") + "; :'; :"});
  is_refused(node, "registered", "agent_root", "session");
  node.run({"/bin/sh", "-c", node.deeds("person") + "; :"}); // the way out: another terminal
  is_person(node, "person");
}

TEST_CASE("a person who comes by ssh is the operator, in a command and in a shell with a terminal") {
  for (const auto* terminal : {"-T", "-tt"}) {
    people_node node;
    own_sshd sshd{"", {}};
    if (!sshd.missing().empty()) {
      is_skipped(sshd.missing());
      return;
    }
    was_real(std::string{"ssh "} + terminal);
    auto r = child_process{{sshd.client(), terminal, sshd.url(), node.deeds("far")}, node.env(), node.work()}.finish();
    CAPTURE(r.err);
    is_person(node, "far");
  }
}

TEST_CASE("a cron job and a service of the machine are the operator") {
  was_played("cron, by a shell called cron that the first process has taken over; the service, by a leader of a session below it");
  {
    people_node node;
    node.run({"/usr/bin/setsid", "-f", node.shell_called("cron"), "-c", "setsid -w /bin/sh -c '" + node.deeds("job") + "; :'; :"});
    is_person(node, "job");
  }
  {
    people_node node;
    node.run({"/usr/bin/setsid", "-f", "/bin/sh", "-c", node.deeds("service") + "; :"});
    is_person(node, "service");
  }
  if (const auto* user = other_user()) {
    was_played("the machine's own cron, which is root's and starts a job of nobody's");
    people_node node{user};
    const auto job =
      "setsid -w setpriv --reuid nobody --regid " + std::to_string(user->pw_gid) + " --clear-groups /bin/sh -c '" + node.deeds("job") + "; :'; :";
    child_process{{"/usr/bin/setsid", "-f", node.shell_called("cron"), "-c", job}, node.env(), node.work()}.finish();
    is_person(node, "job");
  }
}

TEST_CASE("a unit of the user's service manager is the operator, and what it leaves behind is an orphan") {
  was_played("systemd --user, by a shell called systemd that takes over orphans");
  people_node node;
  service_manager manager{node, "setsid /bin/sh -c '" + node.deeds_later("left") +
                                  " :'; while [ ! -e left.over ]; do sleep 0.05; done; setsid /bin/sh -c '" + node.deeds("unit") + "; :'; :"};
  const auto left = node.outcome_of("left");
  CAPTURE(left.explained.dump());
  CHECK(left.rule() == "orphan");
  CHECK(left.kind() == "orphan");
  CHECK(left.passed("service manager"));
  CHECK_MESSAGE((left.has("decide 1") && left.has("down 1")), left.said);
  is_person(node, "unit");
}

TEST_CASE("a nohup job is its person's while the terminal is there, and an orphan afterwards") {
  was_real("a terminal with bash, and nohup");
  people_node node;
  {
    terminal_process terminal{{"/bin/bash", "--norc", "-i"}, node.env(), node.work()};
    std::ofstream{node.work() + "/later"} << "while kill -0 $1 2> /dev/null; do sleep 0.05; done; " << node.deeds("afterwards") << "\n";
    terminal.type("nohup sh later $$ > /dev/null 2>&1 &\necho sta\"\"rted\n");
    REQUIRE(terminal.read_until("started"));
  }
  const auto o = node.outcome_of("afterwards");
  CAPTURE(o.explained.dump());
  CHECK(o.rule() == "orphan");
  CHECK_MESSAGE((o.has("decide 1") && o.has("down 1") && o.has("whoami --explain")), o.said);
  terminal_process terminal{{"/bin/bash", "--norc", "-i"}, node.env(), node.work()};
  terminal.type("nohup " + node.deeds("job") + " > /dev/null 2>&1 &\n");
  is_person(node, "job");
}

TEST_CASE("what is put into the background is its person's while the starter lives, and refused what a person must do once it has ended") {
  was_real("background jobs");
  people_node node;
  node.run({"/usr/bin/setsid", "-w", "/bin/bash", "-c", node.deeds_later("left")});
  const auto o = node.outcome_of("left");
  CAPTURE(o.explained.dump());
  CHECK(o.rule() == "orphan");
  CHECK(o.kind() == "orphan");
  CHECK_MESSAGE((o.has("decide 1") && o.has("down 1") && o.has("whoami --explain")), o.said);
  CHECK(node.runs());
  node.run({"/usr/bin/setsid", "-w", "/bin/bash", "-c", "(" + node.deeds("kept") + ") & wait"});
  is_person(node, "kept");
}

TEST_CASE("a login lifts a mark at its terminal, and nothing from an agent that runs in the same terminal") {
  was_real("a terminal with bash, and swarmctl login");
  was_played("the agent, by a shell called claude");
  people_node node;
  const auto claude = node.shell_called("claude");
  set_passphrase(node);
  terminal_process terminal{{"/bin/bash", "--norc", "-i"}, node.env({{"CLAUDECODE", "1"}}), node.work()};
  terminal.type(node.deeds("before") + "\n");
  is_refused(node, "before", "mark", "agent");
  log_in(terminal);
  terminal.type(claude + " -c '/bin/bash -c \"" + node.deeds("agents-tool") + "; :\"; :'\n");
  is_refused(node, "agents-tool", "agent_unregistered", "agent");
  terminal.type("setsid -w sh -c '" + node.deeds("elsewhere") + "; :'\n"); // it has left the terminal
  is_refused(node, "elsewhere", "mark", "agent");
  terminal.type(node.deeds("after") + "\n");
  is_person(node, "after", "login");
}

TEST_CASE("what a person registers who has logged in below an agent is the person's, and the agent's tools are not that session") {
  if (!fs::exists("/usr/bin/script")) {
    is_skipped("there is no script here (package bsdutils)");
    return;
  }
  was_real("a terminal with bash that an agent has opened, and swarmctl login");
  was_played("the agent, by a shell called claude");
  people_node node;
  set_passphrase(node);
  // The tool runs when the person has left the terminal.
  const auto tool = swarmctl() + " whoami --explain --json > tool; id=$(sed -n 's/.*\"id\": *\"\\([^\"]*\\)\".*/\\1/p' persons); " + swarmctl() +
                    " register --adopt-instance-id $id --lease-seconds 600 2> why; echo status $? > taken; :";
  terminal_process terminal{{node.shell_called("claude"), "-c", std::string{terminal_with_shell} + "; " + tool}, node.env(), node.work()};
  log_in(terminal);
  terminal.type(swarmctl() + " whoami --explain --json > person; " + swarmctl() + " register --lease-seconds 600 --json > persons\nexit\n");
  REQUIRE_MESSAGE(terminal.finish() == 0, terminal.screen());
  auto written = [&](const char* name) { return json::parse(file_text(node.work() + "/" + name), nullptr, false); };
  CHECK(written("person").at("rule") == "login");
  CHECK(written("person").at("reason").get<std::string>().find("has logged in at this terminal") != std::string::npos);
  CHECK_MESSAGE(written("tool").at("rule") == "agent_unregistered", written("tool").dump());
  CHECK(written("persons").at("id").is_string());
  CHECK(file_text(node.work() + "/taken") == "status 1\n");
  CHECK(file_text(node.work() + "/why").find("was not made for this agent") != std::string::npos);
}
