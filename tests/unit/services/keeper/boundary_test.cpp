// Who may talk to the keeper, what it passes on and what it does not.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "actors/base/owner.hpp"
#include "services/keeper/connect.hpp"
#include "services/keeper/daemon.hpp"
#include "services/keeper/subtree.hpp"
#include "tests/unit/base/waiting_child.hpp"
#include "tests/unit/services/keeper/harness.hpp"

using namespace swarm;
using namespace swarm::testing;

namespace {

/// A connection that says what it likes.
class raw_caller {
public:
  explicit raw_caller(const fs::path& dir) : socket_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    socket_name name{dir / "keeper.sock"};
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    name.text().copy(address.sun_path, sizeof address.sun_path - 1);
    REQUIRE(connect(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  }
  void say(const std::string& bytes) { REQUIRE(send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) >= 0); }
  void say(const internal::ToKeeper& m) { say(keeper::encode_frame(m)); }
  /// What the keeper sends until it closes; fails the test when it does not.
  std::string until_closed() {
    std::string out;
    pollfd p{socket_.get(), POLLIN, 0};
    while (poll(&p, 1, static_cast<int>(std::chrono::milliseconds{patience}.count())) > 0) {
      char buffer[4096];
      auto n = recv(socket_.get(), buffer, sizeof buffer, 0);
      if (n <= 0)
        return out;
      out.append(buffer, static_cast<std::size_t>(n));
    }
    FAIL("the keeper did not close the connection");
    return out;
  }

private:
  unique_fd socket_;
};

internal::ToKeeper hello(std::uint32_t protocol) {
  internal::ToKeeper m;
  m.mutable_hello()->set_protocol(protocol);
  return m;
}

int run_program(const std::string& arguments) {
  auto status = std::system((keeper_program().string() + " " + arguments + " >/dev/null 2>&1").c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

} // namespace

TEST_CASE("there is one keeper per state directory") {
  node n;
  attached a{n.dir};
  REQUIRE(a.ready());
  CHECK(run_program("--state-dir " + n.dir.string()) == keeper::exit_owned);
  attached b{n.dir};
  REQUIRE(b.ready());
  CHECK(b.events.keeper == a.events.keeper);
}

TEST_CASE("two state directories have two keepers that do not know each other") {
  node n, m;
  attached a{n.dir}, b{m.dir};
  a.run(shell("s1", "echo up; read x"));
  REQUIRE(b.ready());
  CHECK(a.events.keeper != b.events.keeper);
  attached again{m.dir};
  REQUIRE(again.ready());
  CHECK(again.events.listed.empty());
}

TEST_CASE("several clients that start a keeper at once get the same one") {
  node n;
  std::vector<std::unique_ptr<attached>> all(6);
  std::vector<std::thread> threads;
  for (auto& slot : all)
    threads.emplace_back([&] { slot = std::make_unique<attached>(n.dir); });
  for (auto& t : threads)
    t.join();
  std::set<std::int64_t> keepers;
  for (auto& a : all) {
    REQUIRE(a->events.wait([&] { return a->events.welcomed || a->events.gone; }));
    if (a->events.welcomed)
      keepers.insert(a->events.keeper);
  }
  CHECK(keepers.size() == 1);
}

TEST_CASE("a keeper that is about to end is waited for, and the next one starts when it is gone") {
  node n;
  prepare(state_dir{n.dir});
  auto starts = n.temp.path() / "starts";
  auto counted = n.temp.path() / "counted";
  std::ofstream{counted} << "#!/bin/sh\necho x >>" << starts << "\nexec " << n.program << " \"$@\"\n";
  fs::permissions(counted, fs::perms::owner_all);
  auto lock = take_ownership(keeper::lock_file(state_dir{n.dir}));
  REQUIRE(lock);
  waiting_child old; // has the lock too
  auto signature = std::to_string(old.pid()) + " " + std::to_string(*pid_start_time(old.pid()));
  REQUIRE(write(lock.get(), signature.data(), signature.size()) > 0);
  lock.reset();
  std::thread end{[&] {
    CHECK(eventually([&] { return fs::exists(starts); }));
    old.end();
  }};
  CHECK(keeper::connect_or_start(state_dir{n.dir}, counted, patience));
  end.join();
  CHECK(file_text(starts).size() <= 2 * std::string{"x\n"}.size()); // not once every while
}

TEST_CASE("a keeper that cannot start is an error at once, with its reason") {
  node n;
  prepare(state_dir{n.dir});
  fs::create_directory(n.dir / "keeper.lock");
  CHECK_THROWS_WITH_AS(keeper::connect_or_start(state_dir{n.dir}, n.program, std::chrono::hours{1}), doctest::Contains("keeper.lock"),
                       std::runtime_error);
}

TEST_CASE("without leave to start one, no keeper is an error") {
  temp_dir t;
  recorder events;
  CHECK_THROWS_AS(keeper_client({state_dir{t.path() / "s"}, false, patience, {}}, events), std::runtime_error);
  CHECK_THROWS_AS(keeper_client({state_dir{t.path() / "s"}, true, std::chrono::milliseconds{50}, "/no/such/program"}, events), std::runtime_error);
}

TEST_CASE("a process that the keeper runs cannot command it") {
  node n;
  attached a{n.dir};
  auto s = shell("s1", "");
  // Says a valid hello and tells whether it was answered.
  give(*s.mutable_argv(),
       {"perl", "-MSocket", "-e",
        "socket(my $s, PF_UNIX, SOCK_STREAM, 0); connect($s, sockaddr_un($ARGV[0])) or die; "
        "$SIG{PIPE} = 'IGNORE'; syswrite($s, pack('V', 4) . \"\\x0a\\x02\\x08\\x01\"); my $n = sysread($s, my $b, 100); print $n ? 'answered' : "
        "'refused';",
        (n.dir / "keeper.sock").string()});
  a.run(s);
  CHECK(a.wait_exit("s1").exit_status == 0);
  CHECK(a.output("s1") == "refused");
  CHECK_FALSE(a.events.gone);
  // The same words from outside are answered.
  raw_caller outside{n.dir};
  outside.say(std::string{"\x04\0\0\0\x0a\x02\x08\x01", 8});
  CHECK(a.events.wait([&] { return a.events.gone; }));
}

TEST_CASE("malformed, oversized and untimely frames cost their sender the connection and nobody else anything") {
  node n;
  attached a{n.dir};
  a.run(shell("s1", "echo up; read x; exit 2"));
  REQUIRE(a.wait_output("s1", "up"));
  internal::ToKeeper quit;
  quit.mutable_quit();
  for (const std::string& bytes : {std::string{"\xff\xff\xff\xff", 4}, std::string{"\x03\0\0\0\xff\xff\xff", 7}, std::string(4, '\0'),
                                   keeper::encode_frame(quit), std::string{"\x02\0\0\0\x7a\x00", 6}}) {
    raw_caller p{n.dir};
    p.say(bytes);
    CHECK(p.until_closed().empty());
  }
  CHECK_FALSE(a.events.gone);
  a.client.write("s1", 1, "\n");
  CHECK(a.wait_exit("s1").exit_status == 2);
}

TEST_CASE("a client that sends rubbish after its hello is dropped, its programs are not") {
  node n;
  {
    attached a{n.dir};
    a.run(shell("s1", "echo up; read x; exit 2"));
    REQUIRE(a.wait_output("s1", "up"));
  }
  {
    raw_caller p{n.dir};
    p.say(hello(keeper::protocol_version));
    p.say(std::string{"\x03\0\0\0\xff\xff\xff", 7});
    p.until_closed();
  }
  attached b{n.dir};
  REQUIRE(b.ready());
  REQUIRE(b.events.listed.size() == 1);
  CHECK_FALSE(b.events.listed[0].exited);
}

TEST_CASE("random bytes never end the keeper") {
  node n;
  attached a{n.dir};
  REQUIRE(a.ready());
  for (unsigned seed = 1; seed <= 40; ++seed) {
    CAPTURE(seed);
    std::srand(seed);
    std::string bytes(static_cast<std::size_t>(1 + std::rand() % 200), '\0');
    for (auto& c : bytes)
      c = static_cast<char>(std::rand());
    raw_caller p{n.dir};
    // In one piece: the keeper may close after the first frame already.
    p.say(std::string{static_cast<char>(bytes.size()), '\0', '\0', '\0'} + bytes + std::string(4, '\xff'));
    p.until_closed();
  }
  attached b{n.dir};
  REQUIRE(b.ready());
  CHECK(b.events.keeper == a.events.keeper);
}

TEST_CASE("another protocol is told ours and refused, and the client stays") {
  node n;
  attached a{n.dir};
  REQUIRE(a.ready());
  raw_caller p{n.dir};
  p.say(hello(keeper::protocol_version + 1));
  auto answer = p.until_closed();
  REQUIRE(answer.size() > 4);
  internal::FromKeeper m;
  REQUIRE(m.ParseFromString(answer.substr(4)));
  CHECK(m.welcome().protocol() == keeper::protocol_version);
  CHECK_FALSE(a.events.gone);
}

TEST_CASE("a state directory may lie deeper than a socket's name is long") {
  node n{fs::path(std::string(100, 'a')) / std::string(100, 'b')};
  attached a{n.dir};
  a.run(shell("s1", "echo deep"));
  CHECK(a.wait_exit("s1").exit_status == 0);
  CHECK(a.output("s1") == "deep\r\n");
}

TEST_CASE("a program gets exactly the environment and descriptors it was given, and the id of the state directory") {
  node n;
  setenv("SWARM_TEST_SECRET", "leaked", 1);
  attached a{n.dir};
  REQUIRE(a.client.start(shell("held", "true")));
  auto s = shell("env", "");
  give(*s.mutable_argv(), {"cat", "/proc/self/environ"});
  give(*s.mutable_environment(), {"B=2", "PATH=/bin:/usr/bin", "A=1=x"});
  a.run(s);
  a.wait_exit("env");
  const auto home = "SWARM_HOME_ID=" + keeper::home_id(n.dir) + std::string(1, '\0');
  CHECK(a.output("env") == std::string{"B=2\0PATH=/bin:/usr/bin\0A=1=x\0", 29} + home);
  for (bool pipes : {false, true}) {
    auto f = shell(pipes ? "fd-pipes" : "fd-pty", "", pipes);
    give(*f.mutable_argv(), {"ls", "/proc/self/fd"});
    a.run(f);
    a.wait_exit(f.id());
    auto text = a.output(f.id());
    text.erase(std::remove_if(text.begin(), text.end(), [](char c) { return c == ' ' || c == '\r' || c == '\n'; }), text.end());
    CHECK(text == "0123"); // 3 is the directory that ls reads
  }
  unsetenv("SWARM_TEST_SECRET");
}

TEST_CASE("a program starts with default signals, in its directory, leading its session") {
  node n;
  attached a{n.dir};
  auto s =
    shell("s1", "pwd; umask; grep -E 'SigBlk|SigIgn' /proc/self/status; read -r _ _ _ _ _ sid _ < /proc/$$/stat; test $sid = $$ && echo leader");
  s.set_directory("/usr");
  a.run(s);
  a.wait_exit("s1");
  CHECK(a.output("s1") == "/usr\r\n0022\r\nSigBlk:\t0000000000000000\r\nSigIgn:\t0000000000000000\r\nleader\r\n");
}

TEST_CASE("the keeper is a daemon with a clean environment and private files") {
  node n;
  setenv("SWARM_TEST_SECRET", "leaked", 1);
  attached a{n.dir};
  REQUIRE(a.ready());
  unsetenv("SWARM_TEST_SECRET");
  auto pid = static_cast<pid_t>(a.events.keeper);
  auto environment = file_text("/proc/" + std::to_string(pid) + "/environ");
  CHECK(environment.find("SWARM_TEST_SECRET") == std::string::npos);
  CHECK(std::count(environment.begin(), environment.end(), '\0') == 5);
  CHECK(read_process(pid)->session != getsid(0));
  CHECK(is_descendant(pid, getpid()) == false);
  for (auto name : {"keeper.sock", "keeper.lock", "log/keeper.log"}) {
    struct stat st {};
    REQUIRE(stat((n.dir / name).c_str(), &st) == 0);
    CHECK((st.st_mode & 0777) == 0600);
  }
}

TEST_CASE("a keeper with nothing to do and nobody to serve ends by itself") {
  node n;
  REQUIRE(run_program("--state-dir " + n.dir.string() + " --idle-exit-ms 100") == 0);
  std::int64_t pid = 0;
  {
    attached a{n.dir, false};
    REQUIRE(a.ready());
    pid = a.events.keeper;
    a.run(shell("s1", "true"));
    a.wait_exit("s1");
    a.client.forget("s1");
  }
  CHECK(eventually([pid] { return !is_running(static_cast<pid_t>(pid)); }));
  CHECK_FALSE(fs::exists(n.dir / "keeper.sock"));
}

TEST_CASE("a wrong command line is a usage error") {
  CHECK(run_program("") == 2);
  CHECK(run_program("--no-such-option") == 2);
  CHECK(run_program("--state-dir /tmp/x extra") == 2);
  CHECK(run_program("--state-dir /tmp/x --ready-fd x") == 2);
  CHECK(run_program("--help") == 0);
  CHECK(run_program("--version") == 0);
}
