#include "services/call/logins.hpp"

#include <doctest/doctest.h>

#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include <sys/stat.h>
#include <unistd.h>

#include "actors/base/crypto.hpp"

using namespace swarm;

namespace {

struct scratch {
  std::filesystem::path dir = std::filesystem::temp_directory_path() / ("swarm-login-" + random_uuid());
  scratch() { std::filesystem::create_directory(dir); }
  ~scratch() { std::filesystem::remove_all(dir); }
  std::filesystem::path file() const { return dir / "login.hash"; }
};

const kernel_session here{10, 100, "boot"}, there{20, 200, "boot"};

struct logins {
  scratch files;
  std::int64_t now_ms = 1'000'000;
  login_registry registry{files.file(), [this] { return now_ms; }};

  explicit logins(const std::string& passphrase = {}) {
    if (!passphrase.empty())
      REQUIRE_FALSE(registry.set_passphrase(here, "", passphrase));
  }
};

/// A machine of the test's own.
struct machine {
  std::map<pid_t, process_stat> processes;
  std::set<pid_t> agents;

  void add(pid_t pid, pid_t parent, pid_t session, int terminal = 1) {
    process_stat p;
    p.pid = pid;
    p.state = 'S';
    p.parent = parent;
    p.group = p.session = session;
    p.terminal = terminal;
    p.start = static_cast<std::uint64_t>(pid);
    processes[pid] = p;
  }
  std::optional<kernel_session> of(pid_t pid) const {
    session_view view;
    view.process = [this](pid_t p) {
      auto i = processes.find(p);
      return i == processes.end() ? std::nullopt : std::optional{i->second};
    };
    view.is_agents = [this](const process_stat& p, const process_stat&) { return agents.contains(p.pid); };
    view.boot_id = "boot";
    return person_session_of(pid, view);
  }
};

} // namespace

TEST_CASE("a terminal whose person shows the passphrase is a person's for twelve hours, and no other terminal is") {
  logins l{"correct horse"};
  CHECK(l.registry.has_passphrase());
  CHECK_FALSE(l.registry.is_person(here));
  auto valid = l.registry.login(here, "correct horse");
  REQUIRE(valid);
  CHECK(*valid == 12 * 3'600'000);
  CHECK(l.registry.is_person(here));
  CHECK_FALSE(l.registry.is_person(there));
  CHECK_FALSE(l.registry.is_person({here.leader, here.leader_start + 1, here.boot_id}));
  CHECK_FALSE(l.registry.is_person({here.leader, here.leader_start, "another boot"}));
  l.now_ms += *valid - 1;
  CHECK(l.registry.is_person(here));
  l.now_ms += 1;
  CHECK_FALSE(l.registry.is_person(here));
}

TEST_CASE("what is kept of the passphrase is a hash that only its owner may read") {
  logins l{"correct horse"};
  std::ostringstream kept;
  kept << std::ifstream{l.files.file()}.rdbuf();
  CHECK(kept.str().find("correct") == std::string::npos);
  CHECK(kept.str().starts_with("$argon2id$"));
  struct stat st {};
  REQUIRE(stat(l.files.file().c_str(), &st) == 0);
  CHECK((st.st_mode & 0777) == 0600);
}

TEST_CASE("a wrong passphrase logs nobody in, and after five from one terminal the right one waits for a minute as well") {
  logins l{"correct horse"};
  for (int i = 0; i < 5; ++i)
    CHECK(l.registry.login(here, "wrong horse!").failure().code == security_error::wrong_passphrase);
  CHECK(l.registry.login(here, "correct horse").failure().code == security_error::too_many_attempts);
  CHECK_FALSE(l.registry.is_person(here));
  // The person has another terminal.
  CHECK(l.registry.login(there, "correct horse"));
  l.now_ms += 60'000;
  CHECK(l.registry.login(here, "correct horse"));
}

TEST_CASE("wrong passphrases are bounded for all terminals together") {
  logins l{"correct horse"};
  for (int i = 0; i < 30; ++i)
    CHECK(l.registry.login({100 + i, 1, "boot"}, "wrong horse!").failure().code == security_error::wrong_passphrase);
  CHECK(l.registry.login(here, "correct horse").failure().code == security_error::too_many_attempts);
}

TEST_CASE("without a passphrase nobody logs in, and the refusal says how to set one") {
  logins l;
  CHECK_FALSE(l.registry.has_passphrase());
  const auto none = l.registry.login(here, "");
  REQUIRE_FALSE(none);
  CHECK(none.failure().text.find("login --set") != std::string::npos);
}

TEST_CASE("who changes or removes the passphrase shows the one before, and every login ends") {
  logins l{"correct horse"};
  REQUIRE(l.registry.login(here, "correct horse"));
  CHECK(l.registry.set_passphrase(here, "wrong horse!", "battery staple")->code == security_error::wrong_passphrase);
  CHECK(l.registry.is_person(here));
  CHECK(l.registry.set_passphrase(here, "correct horse", "short")->code == security_error::malformed);
  CHECK_FALSE(l.registry.set_passphrase(here, "correct horse", "battery staple"));
  CHECK_FALSE(l.registry.is_person(here));
  CHECK(l.registry.login(here, "battery staple"));
  CHECK_FALSE(l.registry.set_passphrase(here, "battery staple", ""));
  CHECK_FALSE(l.registry.has_passphrase());
  CHECK_FALSE(std::filesystem::exists(l.files.file()));
}

TEST_CASE("logging out ends this terminal's login, or all") {
  logins l{"correct horse"};
  REQUIRE(l.registry.login(here, "correct horse"));
  REQUIRE(l.registry.login(there, "correct horse"));
  CHECK(l.registry.logout(here));
  CHECK_FALSE(l.registry.logout(here));
  CHECK(l.registry.is_person(there));
  CHECK(l.registry.logout_all() == 1);
  CHECK_FALSE(l.registry.is_person(there));
}

TEST_CASE("a command of a terminal's shell is of the shell's session, whatever is above the shell") {
  machine m;
  m.add(5, 1, 5, 0); // an agent, or the multiplexer that it has started
  m.add(10, 5, 10);  // the shell
  m.add(11, 10, 10);
  m.add(12, 11, 10);
  m.agents = {5};
  REQUIRE(m.of(12));
  CHECK(*m.of(12) == kernel_session{10, 10, "boot"});
  CHECK(m.of(10));
}

TEST_CASE("what an agent in a person's terminal runs is not the person's, however it runs it") {
  machine m;
  m.add(10, 1, 10);
  m.add(11, 10, 10);    // the agent
  m.add(12, 11, 10);    // its tool's shell
  m.add(13, 11, 13, 0); // another one, in a session of its own
  m.add(14, 1, 10);     // left behind in the background
  m.agents = {11};
  CHECK_FALSE(m.of(11));
  CHECK_FALSE(m.of(12));
  CHECK_FALSE(m.of(13));
  CHECK_FALSE(m.of(14));
  CHECK(m.of(10));
  // The shell becomes the agent.
  m.agents = {10};
  CHECK_FALSE(m.of(10));
}

TEST_CASE("a session without a terminal, without its leader or with a changed one is nobody's") {
  machine m;
  m.add(10, 1, 10, 0);
  m.add(11, 10, 10, 0);
  CHECK_FALSE(m.of(11));
  m.add(21, 20, 20);
  CHECK_FALSE(m.of(21)); // its leader is gone
  m.add(30, 1, 30);
  m.add(31, 30, 30);
  m.processes[31].start = 29; // older than its parent: the number was used again
  CHECK_FALSE(m.of(31));
  CHECK_FALSE(m.of(4'000'000));
}
