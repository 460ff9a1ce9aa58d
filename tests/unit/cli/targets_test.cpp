// Nodes that have names: the file, which of them is in use, and what is said to ssh.
#include "actors/base/crypto.hpp"
#include "cli/targets.hpp"
#include "cli/verb.hpp"
#include "gateway/client/ssh_line.hpp"
#include "tests/unit/cli/fake_node.hpp"

#include <filesystem>
#include <fstream>
#include <future>

#include <doctest/doctest.h>
#include <sys/socket.h>
#include <sys/stat.h>

using namespace swarm;
using namespace swarm::cli;
namespace fs = std::filesystem;

namespace {

/// A home of its own, and swarmctl in it.
struct world : test::cli {
  fs::path home = fs::temp_directory_path() / ("swarm-context-" + random_uuid());
  world() {
    fs::create_directories(home);
    set({});
  }
  ~world() { fs::remove_all(home); }
  fs::path file() const { return home / ".config" / "swarm" / "contexts.toml"; }
  void set(variables values) {
    values.emplace("HOME", home.string());
    env = environment{std::move(values)};
  }
  void write(const std::string& text) {
    fs::create_directories(file().parent_path());
    std::ofstream{file()} << text;
    fs::permissions(file(), fs::perms{0600});
  }
  std::string text() const {
    std::ifstream in(file());
    return {std::istreambuf_iterator<char>(in), {}};
  }
  /// The node a command went to.
  std::string went_to(std::vector<std::string> args) {
    node.spoken_to.reset();
    auto status = (*this)(std::move(args));
    if (status != code::ok)
      return "status " + std::to_string(status) + ": " + screen.err;
    return node.spoken_to ? node.spoken_to->name : "default";
  }
};

const char* two = "current = \"gpu\"\n"
                  "[context.gpu]\nssh = \"me@gpu-box\"\nscope = \"web\"\n"
                  "[context.here]\nstate_dir = \"/var/other\"\n";

} // namespace

TEST_CASE("a host is [USER@]HOST or a URL, and nothing that ssh or a shell could take for something else") {
  auto is = [](const char* text, const std::string& destination, const std::string& port) {
    CAPTURE(text);
    auto host = parse_ssh_host(text);
    REQUIRE(host);
    CHECK(host->destination == destination);
    CHECK(host->port == port);
  };
  is("gpu-box", "gpu-box", "");
  is("me@gpu.example.org", "me@gpu.example.org", "");
  is("ssh://me@gpu-box:2222", "me@gpu-box", "2222");
  is("ssh://gpu-box", "gpu-box", "");
  is("ssh://me@[fe80::1]:22", "me@fe80::1", "22");
  for (auto wrong : {"", "-oProxyCommand=x", "me@-oProxyCommand=x", "ssh://-x", "@host", "me@", "a b", "a;b", "$(x)@host", "`x`", "ssh://h:0",
                     "ssh://h:65536", "ssh://h:", "ssh://h/path", "ssh://[::1", "h\nx", "h'x", "ssh://h:22x"}) {
    CAPTURE(wrong);
    CHECK_FALSE(parse_ssh_host(wrong));
  }
}

TEST_CASE("what ssh is told: the port apart, no option behind the host, the state directory quoted for the other shell") {
  target c{"gpu", "ssh://me@gpu-box:2222", "", "/srv/it's here", ""};
  auto args = ssh_arguments(c, {false, std::chrono::milliseconds{1500}}, std::chrono::seconds{30});
  REQUIRE(args.size() > 4);
  CHECK(args[0] == "ssh");
  CHECK(std::find(args.begin(), args.end(), "2222") != args.end());
  CHECK(args[args.size() - 3] == "--");
  CHECK(args[args.size() - 2] == "me@gpu-box");
  CHECK(args.back() == "env 'SWARM_HOME=/srv/it'\\''s here' swarmctl dial-stdio --no-autostart --wait 2");
  c.remote_state_dir.clear();
  CHECK(ssh_arguments(c, {}, std::chrono::seconds{30}).back() == "swarmctl dial-stdio");
  CHECK(ssh_by_hand(c) == "ssh -p 2222 me@gpu-box");
}

TEST_CASE("a context is set, shown, used, changed and deleted, and the file is of its owner alone") {
  world w;
  CHECK(w({"context", "list", "--json"}) == code::ok);
  CHECK(w.out_json()["current"] == "default");
  CHECK(w.out_json()["contexts"].size() == 1);
  CHECK_FALSE(fs::exists(w.file()));
  CHECK(w({"context", "set", "gpu.1", "--ssh", "me@gpu-box", "--scope", "web"}) == code::ok);
  struct stat info {};
  REQUIRE(stat(w.file().c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0600);
  CHECK(w({"context", "set", "there", "--state-dir", "other"}) == code::ok);
  CHECK(w({"context", "show", "there", "--json"}) == code::ok);
  CHECK(w.out_json()["state_dir"] == "/r/other");
  CHECK(w({"context", "use", "gpu.1"}) == code::ok);
  CHECK(w({"context", "show", "--json"}) == code::ok);
  CHECK(w.out_json()["ssh"] == "me@gpu-box");
  CHECK(w.out_json()["current"] == true);
  // What is not said stays.
  CHECK(w({"context", "set", "gpu.1", "--remote-state-dir", "/srv/swarm"}) == code::ok);
  auto all = read_contexts(w.file());
  REQUIRE(all.contexts.size() == 2);
  CHECK(all.current == "gpu.1");
  CHECK(all.find("gpu.1")->scope == "web");
  CHECK(all.find("gpu.1")->remote_state_dir == "/srv/swarm");
  CHECK(w({"context", "list"}) == code::ok);
  CHECK(w.screen.out.find("me@gpu-box (/srv/swarm)") != std::string::npos);
  // The current one may go, and then the node of this user is used.
  CHECK(w({"context", "delete", "gpu.1"}) == code::ok);
  CHECK(read_contexts(w.file()).current.empty());
  CHECK(w({"context", "delete", "gpu.1"}) == code::refused);
  CHECK(w({"context", "use", "gpu.1"}) == code::refused);
  CHECK(w({"context", "use", "there"}) == code::ok);
  CHECK(w({"context", "use", "default"}) == code::ok);
  CHECK(read_contexts(w.file()).current.empty());
  // None of this has spoken to a node.
  CHECK_FALSE(w.node.spoken_to);
}

TEST_CASE("who chooses a context is told why this shell does not follow, with a name for what is set") {
  world w;
  REQUIRE(w({"context", "set", "here", "--state-dir", "/x"}) == code::ok);
  w.set({{"SWARM_HOME", "/y"}});
  CHECK(w({"context", "use", "here"}) == code::ok);
  CHECK_MESSAGE(w.screen.err.find("but not in this shell: SWARM_HOME is set\n") != std::string::npos, w.screen.err);
  w.set({{"SWARM_CONTEXT", "gone"}});
  CHECK(w({"context", "use", "here"}) == code::ok);
  CHECK_MESSAGE(w.screen.err.find("but not in this shell: SWARM_CONTEXT names \"gone\"") != std::string::npos, w.screen.err);
  CHECK(w.screen.err.find("is set") == std::string::npos);
}

TEST_CASE("what cannot be an entry is refused and changes nothing") {
  world w;
  w.write(two);
  for (std::vector<std::string> wrong : {std::vector<std::string>{"default", "--ssh", "h"},
                                         {"a/b", "--ssh", "h"},
                                         {"x"},
                                         {"x", "--ssh", "h", "--state-dir", "/s"},
                                         {"x", "--ssh=-oProxyCommand=x"},
                                         {"x", "--state-dir", "/s", "--remote-state-dir", "/s"},
                                         {"x", "--ssh", "h", "--remote-state-dir", "relative"},
                                         {"x", "--ssh", "h", "--scope", "./relative"}}) {
    CAPTURE(wrong[0]);
    wrong.insert(wrong.begin(), {"context", "set"});
    CHECK(w(wrong) == code::usage);
  }
  CHECK(w.text() == two);
  CHECK(w({"context", "delete", "default"}) == code::refused);
  CHECK(w({"context", "list", "--context", "gpu"}) == code::usage);
}

TEST_CASE("a damaged file is refused with its line and never written over") {
  world w;
  for (auto [text, line] : {std::pair{"current = 1\n", "line 1"},
                            {"[context.gpu\n", "line 1"},
                            {"\n[context.gpu]\nhost = \"x\"\n", "line 3"},
                            {"[context.gpu]\nssh = \"-x\"\n", "line 1"},
                            {"\n\ncurrent = \"nobody\"\n", "line 3"},
                            {"surprise = true\n", "line 1"},
                            {"[context.default]\nssh = \"h\"\n", "line 1"}}) {
    CAPTURE(text);
    w.write(text);
    for (std::vector<std::string> args :
         {std::vector<std::string>{"status"}, {"context", "list"}, {"context", "set", "x", "--ssh", "h"}, {"context", "use", "default"}}) {
      CHECK(w(args) == code::refused);
      CHECK(w.screen.err.find(w.file().string() + ": " + line) != std::string::npos);
    }
    CHECK(w.text() == text);
  }
  // Others may read it, but anybody who can write it says where commands go.
  w.write(two);
  fs::permissions(w.file(), fs::perms{0622});
  CHECK(w({"status"}) == code::refused);
  CHECK(w.screen.err.find("chmod 600") != std::string::npos);
  w.write(std::string(contexts_file_bytes_max, '#') + "\n");
  CHECK(w({"status"}) == code::refused);
}

TEST_CASE("which node is used: --context, SWARM_CONTEXT, SWARM_HOME, then the file") {
  world w;
  CHECK(w.went_to({"status"}) == "default");
  w.write(two);
  CHECK(w.went_to({"status"}) == "gpu");
  CHECK(w.went_to({"--context", "here", "status"}) == "here");
  CHECK(w.went_to({"status", "--context=default"}) == "default");
  w.set({{"SWARM_CONTEXT", "here"}});
  CHECK(w.went_to({"status"}) == "here");
  CHECK(w.went_to({"--context", "gpu", "status"}) == "gpu");
  w.set({{"SWARM_HOME", "/mine"}});
  CHECK(w.went_to({"status"}) == "default");
  CHECK(w.went_to({"--context", "here", "status"}) == "here");
  w.set({{"SWARM_HOME", "/mine"}, {"SWARM_CONTEXT", "gpu"}});
  CHECK(w.went_to({"status"}) == "gpu");
  w.set({{"SWARM_CONTEXT", "nobody"}});
  CHECK(w({"status"}) == code::refused);
  CHECK(w.screen.err.find("SWARM_CONTEXT names \"nobody\"") != std::string::npos);
  // To get out of that must be possible.
  CHECK(w({"context", "use", "here"}) == code::ok);
  CHECK(w({"context", "list"}) == code::ok);
  w.set({{"XDG_CONFIG_HOME", (w.home / "elsewhere").string()}});
  CHECK(w.went_to({"status"}) == "default");
}

TEST_CASE("inside a worker, for what is about this host, and for hooks the file is not used") {
  world w;
  w.write("damaged");
  w.set({{"SWARM_SPAWN_ID", "S1"}, {"SWARM_CONTEXT", "gpu"}});
  CHECK(w.went_to({"status"}) == "default");
  CHECK(w({"--context", "gpu", "status"}) == code::refused);
  CHECK(w.screen.err.find("a worker speaks to the node it runs on") != std::string::npos);
  w.set({});
  CHECK(w.went_to({"version"}) == "default");
  CHECK(w.went_to({"completion", "bash"}) == "default");
  CHECK(choose_node("", w.env, node_choice::told).why.empty());
  CHECK_THROWS_AS(choose_node("gpu", w.env, node_choice::told), failure);
  for (const auto& v : all_verbs())
    for (auto name : {"hook", "mcp", "serve"})
      if (std::string_view{v.name} == name)
        CHECK(v.node == node_choice::told);
}

TEST_CASE("what starts or touches things of this host is refused for the node of another one") {
  world w;
  w.write(two);
  for (std::vector<std::string> args : {std::vector<std::string>{"up"}, {"worktree", "list"}, {"routine", "list"}}) {
    CAPTURE(args[0]);
    CHECK(w(args) == code::refused);
    CHECK(w.screen.err.find("context gpu is the node of another host") != std::string::npos);
  }
  for (auto agent : {"mcp", "hook"}) {
    std::vector<std::string> args{"--context", "gpu", agent};
    if (args.back() == "hook")
      args.insert(args.end(), {"claude", "session-start"});
    CHECK(w(args) == code::refused);
    CHECK(w.screen.err.find("swarmctl join") != std::string::npos);
  }
  CHECK(w({"backup", "copy.db"}) == code::usage);
  CHECK(w({"backup", "/var/copy.db"}) == code::ok);
  CHECK(w({"--context", "here", "up"}) == code::ok);
}

TEST_CASE("a directory of this host is no scope of another one's") {
  world w;
  w.write("[context.gpu]\nssh = \"h\"\n[context.path]\nssh = \"h\"\nscope = \"/srv/web\"\n[context.named]\nssh = \"h\"\nscope = \"web\"\n");
  auto last_scope = [&] { return w.node.queries.back().scope(); };
  CHECK(w({"--context", "gpu", "locks"}) == code::usage);
  CHECK(w.screen.err.find("context set gpu --scope SCOPE") != std::string::npos);
  CHECK(w({"--context", "gpu", "locks", "--scope", "./x"}) == code::usage);
  CHECK(w.node.queries.empty());
  CHECK(w({"--context", "gpu", "status"}) == code::ok);
  REQUIRE(w({"--context", "gpu", "locks", "--scope", "api"}) == code::ok);
  CHECK(last_scope() == "api");
  REQUIRE(w({"--context", "named", "locks"}) == code::ok);
  CHECK(last_scope() == "web");
  REQUIRE(w({"--context", "path", "locks"}) == code::ok);
  CHECK(last_scope() == "/srv/web");
  CHECK(w.node.queries.back().caller().directory() == "/srv/web");
  w.set({{"SWARM_MCP_SCOPE", "mine"}});
  REQUIRE(w({"--context", "path", "locks"}) == code::ok);
  CHECK(last_scope() == "mine");
}

TEST_CASE("a terminal on another host does not get the environment of this one") {
  world w;
  w.write("[context.gpu]\nssh = \"h\"\nscope = \"/srv\"\n");
  w.set({{"PATH", "/bin"}, {"ANTHROPIC_API_KEY", "secret"}});
  REQUIRE(w({"pty", "new", "--", "sh"}) == code::ok);
  CHECK(w.node.created.environment_size() > 0);
  REQUIRE(w({"--context", "gpu", "pty", "new", "--", "sh"}) == code::ok);
  CHECK(w.node.created.environment_size() == 0);
  CHECK(w.node.created.directory() == "/srv");
}

TEST_CASE("no help or completion speaks of the other end of ssh") {
  world w;
  CHECK(w({"--help"}) == code::ok);
  CHECK(w.screen.out.find("--context") != std::string::npos);
  CHECK(w.screen.out.find("dial-stdio") == std::string::npos);
  CHECK(w({"completion", "bash"}) == code::ok);
  CHECK(w.screen.out.find("dial-stdio") == std::string::npos);
  CHECK(w({"__complete", "--", ""}) == code::ok);
  CHECK(w.screen.out.find("context") != std::string::npos);
  CHECK(w.screen.out.find("dial-stdio") == std::string::npos);
}

TEST_CASE("bytes are copied both ways, behind the greeting, until either side ends") {
  int client[2], node[2];
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, client) == 0);
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, node) == 0);
  unique_fd ours{client[0]}, theirs{client[1]}, far{node[0]}, near{node[1]};
  auto copied = std::async(std::launch::async, [&] {
    copy_both_ways(theirs.get(), theirs.get(), near.get());
    theirs.reset();
    near.reset();
  });
  auto take = [](int fd, std::size_t n) {
    std::string out(n, 0);
    CHECK(recv(fd, out.data(), n, MSG_WAITALL) == static_cast<ssize_t>(n));
    return out;
  };
  CHECK(take(ours.get(), dial_greeting.size()) == dial_greeting);
  // More than all the buffers hold, against a reader that has not begun.
  const std::string much(4 << 20, 'x');
  auto written = std::async(std::launch::async, [&] { return send(ours.get(), much.data(), much.size(), 0); });
  CHECK(send(far.get(), "back", 4, 0) == 4);
  CHECK(take(ours.get(), 4) == "back");
  CHECK(take(far.get(), much.size()) == much);
  CHECK(written.get() == static_cast<ssize_t>(much.size()));
  SUBCASE("the client goes") { ours.reset(); }
  SUBCASE("the node goes, and its last words arrive") {
    CHECK(send(far.get(), "last", 4, 0) == 4);
    far.reset();
    CHECK(take(ours.get(), 4) == "last");
  }
  CHECK(copied.wait_for(std::chrono::seconds{20}) == std::future_status::ready);
}

TEST_CASE("for doctor a damaged file is one failed check among the others, unless a context is named") {
  world w;
  w.write("current = [\n");
  CHECK(w({"doctor", "--json"}) == code::refused);
  REQUIRE_MESSAGE(!w.screen.out.empty(), w.screen.err);
  std::string context, disk, node;
  const auto report = w.out_json();
  for (const auto& check : report["checks"])
    if (check["name"] == "context")
      context = check["message"].get<std::string>();
    else if (check["name"] == "disk")
      disk = check["message"].get<std::string>();
    else if (check["name"] == "node")
      node = check["message"].get<std::string>();
  CHECK(context.find("contexts.toml: line 1: this is not TOML") != std::string::npos);
  CHECK(context.find("the node of this user") != std::string::npos);
  CHECK_FALSE(disk.empty());
  CHECK(node.find("box, pid 42") != std::string::npos);
  CHECK(w({"doctor", "--context", "gpu"}) == code::refused);
  CHECK(w.screen.out.empty());
  CHECK(w.screen.err.find("this is not TOML") != std::string::npos);
  w.write(two);
  w({"doctor"});
  REQUIRE(w.node.spoken_to);
  CHECK(w.node.spoken_to->name == "gpu");
}
