// The attack list: what a hostile worker, agent, member, home and stranger try. Each attempt is refused, said once in the log and counted, or is a
// known way out; what it was about is afterwards as it was, and no node ends.
#include <algorithm>
#include <csignal>
#include <fstream>
#include <map>
#include <set>

#include <unistd.h>

#include <doctest/doctest.h>

#include "actors/domain/order_seal.hpp"
#include "actors/runtime/error.hpp"
#include "tests/support/cluster_of_nodes.hpp"
#include "tests/support/node_client.hpp"
#include "tests/support/scripted_node.hpp"

using namespace swarm;
using namespace swarm::testing;
using namespace std::chrono_literals;

namespace {

std::string ctl() { return program("swarmctl").string(); }

// -- the list --------------------------------------------------------------------------------------

/// The node's count of what was refused, by kind of caller.
using counts = std::map<std::string, std::uint64_t>;

counts counts_of(const test_node& node) {
  counts out;
  const auto status = node.ctl_json({"status"});
  for (const auto& r : status.at("refusals"))
    out[r.at("who").get<std::string>()] += r.at("count").get<std::uint64_t>();
  return out;
}

std::vector<std::string> refusals_in_log(const test_node& node) {
  std::vector<std::string> out;
  for (const auto& line : lines_of(file_text(node.dir().log_dir() / "swarmd.log")))
    if (auto at = line.find("refused: "); at != std::string::npos)
      out.push_back(line.substr(at));
  return out;
}

struct tally {
  std::set<std::string> attempts;
  std::size_t refused = 0, known = 0, others = 0;

  /// `why`: shown when it was not refused.
  void add(const std::string& who, const std::string& name, bool is_refused, const std::string& why) {
    CHECK_MESSAGE(attempts.insert(who + ": " + name).second, who, " tries twice: ", name);
    ++(is_refused ? refused : others);
    CHECK_MESSAGE(is_refused, who, " is not refused: ", name, ": ", why);
  }
};

tally all;

/// Of the case: each is a process of its own under ctest.
void sum_up() {
  MESSAGE("attacks: ", all.attempts.size(), " attempts, ", all.refused, " refused, ", all.known, " known ways out, ", all.others, " others");
  CHECK(all.others == 0);
}

struct attempt {
  std::string name;
  std::string script;  // a shell's; its exit status says whether it was refused
  std::string counted; // the kind of caller in the node's count; empty where the program itself says no before the node is asked
};

/// Runs in the attacker's shell, and writes name, exit status and what was said of each.
std::string script_of(const std::vector<attempt>& list, const std::string& results) {
  std::string out = "exec < /dev/null\n";
  for (std::size_t i = 0; i < list.size(); ++i)
    out += "( " + list[i].script + "\n) > said 2>&1; echo \"" + std::to_string(i) + " $? $(tr '\\n' ' ' < said)\" >> " + results + "\n";
  return out + "echo over >> " + results + "\n";
}

std::vector<std::string> results_in(const std::string& file) {
  REQUIRE(eventually([&] { return file_text(file).ends_with("over\n"); }, std::chrono::minutes{3}));
  auto lines = lines_of(file_text(file));
  lines.pop_back();
  return lines;
}

void judge(const std::string& who, const std::vector<attempt>& list, const std::vector<std::string>& said) {
  REQUIRE(said.size() == list.size());
  for (std::size_t i = 0; i < list.size(); ++i) {
    const auto status = said[i].substr(said[i].find(' ') + 1, 2);
    all.add(who, list[i].name, status == "1 ", said[i]);
  }
}

/// As often as was tried.
void is_counted(const test_node& node, const counts& before, const std::vector<attempt>& list) {
  counts tried;
  for (const auto& a : list)
    if (!a.counted.empty())
      ++tried[a.counted];
  const auto now = counts_of(node);
  for (const auto& [what, n] : tried) {
    const auto was = before.contains(what) ? before.at(what) : 0;
    CHECK_MESSAGE((now.contains(what) ? now.at(what) : 0) - was >= n, what, " was tried ", n, " times: ", json(now).dump());
  }
}

void is_said_once(const test_node& node) {
  std::set<std::string> kinds;
  for (const auto& line : refusals_in_log(node))
    CHECK_MESSAGE(kinds.insert(line.substr(0, line.find(": ", line.find(", ")))).second, "said twice: ", line);
  CHECK_FALSE(kinds.empty());
}

// -- what is attacked ------------------------------------------------------------------------------

struct attacked_node {
  test_node node;
  std::string claude = node.work() + "/bin/claude";
  std::string peer, own_token = make_token(), own, approval, terminal, agent, agents_terminal, task;
  pid_t pid = 0, keeper = 0;

  attacked_node() {
    fs::create_directories(node.work() + "/bin");
    fs::copy_file(fs::canonical("/bin/bash"), claude);
    // An agent that asks its user, and goes on at Enter.
    std::ofstream{file("agent.sh")} << "#!/bin/sh\n"
                                    << ctl() << " report-agent blocked --source hook\ntouch asking\nread x\necho yes > answers.log\nsleep 600\n";
    fs::permissions(file("agent.sh"), fs::perms::owner_all);
    run_options by_program;
    by_program.env["SWARM_HARNESS_HERMES"] = file("agent.sh");
    REQUIRE(node.ctl({"up"}, by_program).status == 0);
    REQUIRE(node.ctl({"down"}, {.env = {{"SWARM_HOME", file("stopped")}}}).status == 0);
    REQUIRE(node.ctl({"backup", file("old.db")}).status == 0);
    peer = node.session("name:peer");
    REQUIRE(node.ctl({"lock", "f", "--as", peer}).status == 0);
    REQUIRE(node.ctl({"kv", "set", "k", "theirs", "--as", peer}).status == 0);
    task = node.ctl_json({"request-task", "fix", "it", "--as", peer}).at("id");
    REQUIRE(node.ctl({"claim", task, "--as", peer}).status == 0);
    terminal = node.ctl_json({"pty", "new", "--", "cat"}).at("id");
    node.ctl_json({"dispatch", "ask me", "--harness", "hermes"}, by_program);
    REQUIRE(eventually([&] { return fs::exists(node.work() + "/asking") && node.ctl_json({"agents"})[0].at("state") == "blocked"; }));
    agents_terminal = node.ctl_json({"agents"})[0].at("pty");
    agent = node.ctl_json({"agents"})[0].at("instance_id");
    node_client client{node};
    auto ask = client.command(peer);
    ask.mutable_request_approval()->set_subject("rm -r build");
    approval = client.execute(ask).approval().id();
    REQUIRE_FALSE(approval.empty());
    own = client.execute(client.registration_with_token(own_token, "name:own")).session().session().id();
    pid = node.node_pid();
    keeper = node.keeper_pid();
  }
  std::string home() const { return node.dir().root.string(); }
  std::string file(const std::string& name) const { return node.work() + "/" + name; }

  void is_as_it_was() const {
    CHECK(node.node_pid() == pid);
    CHECK(node.keeper_pid() == keeper);
    const auto locks = node.ctl_json({"locks"});
    REQUIRE(locks.size() == 1);
    CHECK(locks[0].at("instance_id") == peer);
    CHECK(node.ctl({"kv", "get", "k"}).out == "theirs\n");
    CHECK(node.ctl_json({"task", task}).at("status") == "in_progress");
    const auto approvals = node.ctl_json({"approvals"});
    REQUIRE(approvals.size() == 1);
    CHECK(approvals[0].at("id") == approval);
    CHECK(node.ctl({"pty", "read", terminal}).out.empty()); // `cat` would show what was typed
    CHECK(file_text(file("answers.log")).empty());
    CHECK(node.ctl_json({"agents"})[0].at("state") == "blocked");
    CHECK_FALSE(fs::exists(file("stolen.db")));
    CHECK(node.ctl_json({"nodes"}).at("nodes").size() <= 1);
    CHECK(fs::exists(file("stopped") + "/stopped"));
    CHECK_FALSE(fs::exists(file("none")));
    CHECK_FALSE(fs::exists(fs::path{node.env().at("HOME")} / ".config"));
    CHECK_FALSE(fs::exists(fs::path{node.env().at("HOME")} / ".claude"));
    std::size_t running = 0;
    const auto terminals = node.ctl_json({"pty", "list", "--all"});
    for (const auto& p : terminals)
      running += p.at("running") == true;
    CHECK(running == 2);
    std::set<std::string> ids;
    const auto instances = node.ctl_json({"instances"});
    for (const auto& i : instances)
      ids.insert(i.at("id").get<std::string>());
    CHECK((ids.contains(peer) && ids.contains(own) && ids.contains(agent)));
  }
};

/// What anybody below an agent or in a worker tries with `swarmctl`; `who`: the kind that the node sees in it.
std::vector<attempt> by_swarmctl(const attacked_node& a, const std::string& who) {
  const auto c = ctl() + " ";
  const auto as_peer = " --as " + a.peer;
  std::vector<attempt> out{
    {"stop the node", c + "down", who},
    {"copy the store", c + "backup " + a.file("stolen.db"), who},
    {"see everybody's actors", c + "graph", who},
    {"decide an approval", c + "decide " + a.approval + " yes", who},
    {"release a peer's lock as the peer", c + "unlock f" + as_peer, who},
    {"write a key as a peer", c + "kv set k mine" + as_peer, who},
    {"end a peer as itself", c + "deregister" + as_peer, who},
    {"complete a peer's task as the peer", c + "update-task " + a.task + " --status done" + as_peer, who},
    {"write in a peer's name", c + "broadcast hello" + as_peer, who},
    {"start a program", c + "spawn -- true", who},
    {"start a program for a task", c + "dispatch x --harness exec -- true", who},
    {"open a terminal", c + "pty new -- true", who},
    {"type into a program's terminal", c + "pty send " + a.terminal + " y --enter", who},
    {"type into an agent's terminal", c + "pty send " + a.agents_terminal + " --enter", who},
    {"read a program's terminal", c + "pty read " + a.terminal, who},
    {"end a program", c + "pty kill " + a.terminal, who == "agent" ? who : ""},
    {"end an agent", c + "pty kill " + a.agents_terminal, who == "agent" ? who : ""},
    {"resize an agent's terminal", c + "pty resize " + a.agents_terminal + " --columns 9 --rows 9", who},
    {"found a cluster", c + "up --listen 127.0.0.1:1 --insecure-ca", who},
    {"make a join token", c + "join-token create", who},
    {"share the directory", c + "scope share .", who},
    {"run the clean-up", c + "cleanup", who},
    // Where no node runs that could say no.
    {"keep a node down", "SWARM_HOME=" + a.file("none") + " " + c + "down --yes", ""},
    {"start a node that a person has stopped", "SWARM_HOME=" + a.file("stopped") + " " + c + "up", ""},
    {"replace a store", "SWARM_HOME=" + a.file("none") + " " + c + "restore " + a.file("old.db"), ""},
    {"name another node", c + "context set other --state-dir " + a.file("none"), ""},
    {"send commands to another node", c + "context use default", ""},
    {"forget a node's name", c + "context delete other", ""},
    {"take the guard out", c + "install --uninstall --yes --host claude", ""},
  };
  return out;
}

void attack_in_worker(const attacked_node& a, const std::string& who, const std::vector<attempt>& list) {
  const auto before = counts_of(a.node);
  const auto results = a.file("results of " + std::to_string(all.attempts.size()));
  std::ofstream{a.file("attack.sh")} << script_of(list, "'" + results + "'");
  REQUIRE(a.node.ctl({"spawn", "--", "bash", "attack.sh"}).status == 0);
  judge(who, list, results_in(results));
  is_counted(a.node, before, list);
}

void attack_in_agent(const attacked_node& a, const std::string& who, const std::string& first, const std::vector<attempt>& list) {
  const auto before = counts_of(a.node);
  const auto results = a.file("results of " + std::to_string(all.attempts.size()));
  std::ofstream{a.file("attack.sh")} << first + "\n" + script_of(list, "'" + results + "'");
  child_process agent{{a.claude, "-c", ". ./attack.sh\n:"}, a.node.env(), a.node.work()};
  const auto said = results_in(results);
  agent.finish();
  judge(who, list, said);
  is_counted(a.node, before, list);
}

/// A script that goes on when its starter has gone, and its exit status.
std::string left_behind(const std::string& how, const std::string& command) {
  return "rm -f left; " + how + " bash -c '( me=$BASHPID; while [ \"$(cut -d\" \" -f4 /proc/$me/stat)\" = $$ ]; do sleep 0.02; done; " + command +
         "; echo $? > left.new; mv left.new left ) & '; until [ -e left ]; do sleep 0.02; done; exit $(cat left)";
}

/// Another user, whom the files' rights are opened for so that the node itself must refuse; and bytes that are no call.
void attack_as_stranger(const attacked_node& a) {
  const auto before = counts_of(a.node);
  std::vector<attempt> tried;
  if (geteuid() == 0) {
    const auto socket = a.node.dir().socket().string();
    fs::permissions(a.node.dir().root, fs::perms::group_exec | fs::perms::others_exec, fs::perm_options::add);
    fs::permissions(a.node.work(), fs::perms::all);
    fs::permissions(fs::path{a.node.work()}.parent_path(), fs::perms::group_exec | fs::perms::others_exec, fs::perm_options::add);
    const std::string connect =
      "setpriv --reuid 65534 --regid 65534 --clear-groups python3 -c '"
      "import socket,sys; s=socket.socket(socket.AF_UNIX)\n"
      "try: s.connect(sys.argv[1]); s.sendall(b\"PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n\"); sys.exit(0 if s.recv(1) else 1)\n"
      "except OSError: sys.exit(1)' " +
      socket;
    tried.push_back({"connect as another user, by the socket's mode", connect, ""});
    tried.push_back({"connect as another user, with a socket that is open to it", "chmod 666 " + socket + "; " + connect, "stranger"});
    tried.push_back({"connect as another user again", connect + "; code=$?; chmod 600 " + socket + "; exit $code", "stranger"});
  } else
    MESSAGE("only root plays another user here");
  const auto results = a.file("results of a stranger");
  std::ofstream{a.file("attack.sh")} << script_of(tried, "'" + results + "'");
  child_process{{"/bin/bash", "attack.sh"}, a.node.env(), a.node.work()}.finish();
  judge("stranger", tried, results_in(results));
  is_counted(a.node, before, tried);
  fs::permissions(a.node.dir().root, fs::perms::owner_all);
  for (const auto& [name, bytes] : {std::pair{"nothing", std::string{}},
                                    {"text", std::string{"GET / HTTP/1.0\r\n\r\n"}},
                                    {"noise", std::string(4096, '\xff')},
                                    {"half a preface", std::string{"PRI * HTTP/2.0\r\n"}}}) {
    std::ofstream{a.file("noise"), std::ios::binary} << bytes;
    const auto sent = child_process{{"/usr/bin/env", "python3", "-c",
                                     "import socket,sys; s=socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); "
                                     "s.sendall(open('noise','rb').read()); s.shutdown(1)\n"
                                     "try:\n  while s.recv(4096): pass\nexcept OSError: pass",
                                     a.node.dir().socket().string()},
                                    a.node.env(),
                                    a.node.work()}
                        .finish();
    all.add("stranger", std::string{"bytes that are no call: "} + name, sent.status == 0 && a.node.ctl({"status"}).status == 0, sent.err);
  }
}

} // namespace

TEST_CASE("what a hostile worker, a hostile agent and a stranger try on a node is refused, said once and counted") {
  attacked_node a;
  const auto c = ctl() + " ";
  const auto bare = "env -i SWARM_HOME=" + a.home() + " ";

  {
    INFO("a worker");
    auto list = by_swarmctl(a, "session");
    const std::vector<attempt> more{
      {"type into its own terminal", c + "pty send $SWARM_SPAWN_ID --enter", "session"},
      {"register as a coordinator", c + "register --label mode:gateway", "session"},
      {"register with a right", c + "register --grant pty", "session"},
      {"register under another identity", c + "register --label identity:other", "session"},
      {"report as the node", c + "report-agent idle --source program", "session"},
      {"report for an agent that asks", c + "report-agent idle --source hook --as " + a.agent, "session"},
      {"cancel a peer's task", c + "update-task " + a.task + " --status cancelled", "session"},
      {"read a peer's mail", c + "bootstrap --as " + a.peer, "session"},
      {"stop the node without its token", "env -u SWARM_TOKEN -u SWARM_MCP_INSTANCE_ID " + c + "down", "session"},
      {"stop the node without an environment", bare + c + "down", "session"},
      {"stop the node in a kernel session of its own", "setsid -w " + c + "down", "session"},
      {"stop the node from a daemon", left_behind("setsid", bare + c + "down"), "stranger"},
      {"stop the node with a token of nobody", "SWARM_TOKEN=" + make_token() + " " + c + "down", ""},
      {"release a lock with the token of another", "SWARM_TOKEN=" + std::string(64, '0') + " " + c + "unlock f", "stranger"},
    };
    list.insert(list.end(), more.begin(), more.end());
    attack_in_worker(a, "worker", list);
    a.is_as_it_was();
  }
  {
    INFO("an agent in a user's terminal");
    auto list = by_swarmctl(a, "agent");
    const std::vector<attempt> more{
      {"lock a file", c + "lock g", ""},
      {"make a task", c + "request-task fix it", "agent"},
      {"stop the node without its mark", bare + c + "down", "agent"},
      {"stop the node in a kernel session of its own", "setsid -w " + c + "down", "agent"},
      {"stop the node from a background job", left_behind("", c + "down"), "orphan"},
      {"decide from a background job", left_behind("", c + "decide " + a.approval + " yes"), "orphan"},
      {"type from a background job", left_behind("", c + "pty send " + a.agents_terminal + " --enter"), "orphan"},
    };
    list.insert(list.end(), more.begin(), more.end());
    attack_in_agent(a, "agent", "", list);
    a.is_as_it_was();
  }
  {
    INFO("an agent that has registered");
    auto list = by_swarmctl(a, "session");
    attack_in_agent(a, "registered agent", c + "register --lease-seconds 600 > /dev/null", list);
    a.is_as_it_was();
  }
  {
    INFO("a stranger");
    attack_as_stranger(a);
    a.is_as_it_was();
  }
  is_said_once(a.node);
  sum_up();
  CHECK(all.attempts.size() >= 60);
}

TEST_CASE("what a hostile member says on its link is refused, said once and counted, and its home goes on") {
  cluster_of_nodes c;
  const auto victim = register_shared(c.home, "name:victim");
  REQUIRE(c.home.ctl(in_shared({"lock", "/src/f", "--as", victim})).status == 0);
  scripted_node odd{join_as_member(c.token(), "odd"), limits::link_protocol, 1};
  REQUIRE(odd.up());
  const auto pid = c.home.node_pid();
  auto attack = [&](const std::string& name, const v1::LinkRequest& r) {
    const auto said = odd.ask(r).value_or(v1::LinkResponse{});
    const auto code = said.reply().refusal().code();
    all.add("member", name,
            said.error().code() == static_cast<std::uint32_t>(errc::forbidden) || code == v1::Refusal::FORBIDDEN ||
              said.answer_to_query().refusal().code() == v1::Refusal::FORBIDDEN,
            said.ShortDebugString());
  };
  std::size_t tried = 0;
  for (auto kind : {v1::Principal::SESSION, v1::Principal::NODE, v1::Principal::KIND_UNSPECIFIED, v1::Principal::DEVICE, v1::Principal::GATEWAY}) {
    v1::Principal who;
    who.set_kind(kind);
    who.set_id(kind == v1::Principal::NODE ? odd.identity().home_id : victim);
    for (const auto* grant : {"approve", "admin", "pty:agents"})
      who.add_grants(grant);
    const auto as = " as " + v1::Principal::Kind_Name(kind);
    auto command = [&](const std::function<void(v1::Command&)>& fill) {
      v1::LinkRequest r;
      *r.mutable_principal() = who;
      r.set_timeout_ms(patience.count());
      r.mutable_execute()->mutable_id()->set_client("hostile-member");
      r.mutable_execute()->mutable_id()->set_seq(++tried);
      auto& cmd = *r.mutable_execute()->mutable_command();
      cmd.set_scope("shared");
      *cmd.mutable_principal() = who;
      cmd.set_actor(kind == v1::Principal::SESSION ? victim : "");
      fill(cmd);
      return r;
    };
    attack("release a lock" + as, command([](v1::Command& x) { x.mutable_release_lock()->set_path("/src/f"); }));
    attack("end a session" + as, command([&](v1::Command& x) { x.mutable_deregister_session()->set_session_id(victim); }));
    attack("decide" + as, command([](v1::Command& x) { x.mutable_decide_approval()->set_approval_id("x"); }));
  }
  const auto graph = c.home.ctl_json({"graph", "--here"});
  std::string detail;
  for (const auto& row : graph.at("nodes"))
    if (row.at("path").get<std::string>().ends_with("/federation/odd"))
      detail = row.at("detail");
  CHECK_MESSAGE(detail.find("; " + std::to_string(tried) + " denied, last: ") != std::string::npos, detail);
  is_said_once(c.home);
  CHECK(c.home.node_pid() == pid);
  CHECK(c.home.ctl_json(in_shared({"locks"})).size() == 1);
  CHECK(c.home.ctl_json(in_shared({"instances"})).size() == 1);
}

TEST_CASE("what a hostile home changes in an order of a member is not the member's any more") {
  const domain::order_sealer member{"member", std::string(32, 'm')};
  v1::RequestId id;
  id.set_client("a client");
  id.set_seq(1);
  v1::Command cmd;
  cmd.set_scope("s");
  auto& order = *cmd.mutable_request_spawn();
  order.set_harness("exec");
  order.add_argv("/bin/true");
  order.set_directory("tmp");
  domain::seal_order(cmd, id, member);
  v1::Spawn row;
  row.set_id(order.order().spawn_id());
  row.set_seal(order.order().seal());
  row.set_scope("s");
  row.set_harness("exec");
  *row.mutable_argv() = order.argv();
  row.set_directory("tmp");
  row.set_node_id("member");
  row.mutable_requested_by()->set_kind(v1::Principal::OPERATOR);
  row.mutable_requested_by()->set_node("member");
  REQUIRE(domain::is_sealed_here(row, "s", member));
  const std::vector<std::pair<std::string, std::function<void(v1::Spawn&)>>> forged{
    {"no seal", [](v1::Spawn& s) { s.clear_seal(); }},
    {"a changed seal", [](v1::Spawn& s) { s.mutable_seal()->back() ^= 1; }},
    {"another spawn", [](v1::Spawn& s) { s.set_id("11111111-2222-4333-8444-555555555555"); }},
    {"another program", [](v1::Spawn& s) { s.set_argv(0, "/bin/false"); }},
    {"a further argument", [](v1::Spawn& s) { s.add_argv("x"); }},
    {"another directory", [](v1::Spawn& s) { s.set_directory("usr"); }},
    {"another harness", [](v1::Spawn& s) { s.set_harness("shell"); }},
  };
  for (const auto& [name, change] : forged) {
    auto changed = row;
    change(changed);
    all.add("home", name, !domain::is_sealed_here(changed, "s", member), changed.ShortDebugString());
  }
  all.add("home", "in another scope", !domain::is_sealed_here(row, "t", member), "sealed");
  all.add("home", "for another member", !domain::is_sealed_here(row, "s", {"member", std::string(32, 'o')}), "sealed");
}

TEST_CASE("the first of the ways out of an agent that docs/security.md names is one still") {
  const std::vector<std::pair<std::string, std::string>> known{
    {"env -i setsid", "a kernel session of its own without a mark"},
    {"systemd-run", "the service manager starts the program, as for a person"},
    {"at", "a service starts it"},
    {"cron", "a service starts it"},
    {"tmux or screen server", "who types into a pane counts as a person"},
    {"ssh", "comes in as a person does"},
    {"docker", "a service starts it"},
    {"TIOCSTI", "the kernel lets the same user type into a terminal"},
    {"ptrace", "the kernel lets the same user look into programs"},
    {"/proc/PID/fd", "the kernel lets the same user write into pipes"},
    {"secrets/", "files of the same user"},
  };
  attacked_node a;
  // The first is tried, as it is harmless: a way out that is closed goes off the list.
  child_process agent{{a.claude, "-c", "env -i SWARM_HOME=" + a.home() + " setsid -f " + ctl() + " whoami --explain --json > who 2>&1\n:"},
                      a.node.env(),
                      a.node.work()};
  agent.finish();
  CHECK(eventually([&] { return file_text(a.file("who")).find("operator") != std::string::npos; }));
  all.known = known.size();
  sum_up();
}
