#include "actors/base/restrictions.hpp"

#include <doctest/doctest.h>

#include <filesystem>

#include <sys/wait.h>
#include <unistd.h>

#include "actors/base/crypto.hpp"
#include "actors/base/local_socket.hpp"
#include "actors/base/process.hpp"

using namespace swarm;

TEST_CASE("what restricts a process is read from the kernel's own words") {
  const auto r = parse_restrictions("Name:\tNoNewPrivs:\nUid:\t1\nNoNewPrivs:\t1\nSeccomp:\t2\nSeccomp_filters:\t3\n",
                                    "0::/user.slice/user-1000.slice/user@1000.service/app.slice/swarmd.service\n");
  CHECK(r.no_new_privileges);
  CHECK(r.seccomp == 2);
  CHECK(r.unit == "swarmd.service");
  CHECK(parse_restrictions("Name:\tx\n", "") == restrictions{});
  CHECK(parse_restrictions("", "12:pids:/a.service\n1:name=systemd:/system.slice/b.service/sub\n").unit == "b.service");
}

TEST_CASE("the scope of a terminal is no service, so that two terminals are alike") {
  for (const auto* path : {"0::/\n", "0::/user.slice/user-1000.slice/session-3.scope\n",
                           "0::/user.slice/user-1000.slice/user@1000.service/app.slice/app-org.gnome.Terminal.slice/vte-spawn-x.scope\n",
                           "0::/user.slice/user-1000.slice/user@1000.service/app.slice/app-konsole@ab.service\n"})
    CHECK(parse_restrictions("", path).unit.empty());
}

TEST_CASE("what differs is named, the other's first") {
  const restrictions free{}, held{.no_new_privileges = true, .seccomp = 2, .unit = "swarmd.service"};
  CHECK(difference_of(held, held).empty());
  CHECK(difference_of(free, held) == "NoNewPrivs 0, here 1; Seccomp 0, here 2; unit none, here swarmd.service");
}

TEST_CASE("this process can be seen, and one that is gone cannot") {
  CHECK(restrictions_of(getpid()));
  CHECK_FALSE(restrictions_of(0x7ffffff0));
}

namespace {

/// Runs in a child that is no root's, into which nobody may look; its verdict.
template <class Act>
bool holds_when_hidden(Act act) {
  const auto pid = fork();
  if (pid == 0) {
    const bool ordinary = geteuid() != 0 || (setresgid(65534, 65534, 65534) == 0 && setresuid(65534, 65534, 65534) == 0);
    forbid_inspection();
    _exit(ordinary && is_inspection_forbidden() && act() ? 0 : 1);
  }
  int status = -1;
  waitpid(pid, &status, 0);
  return status == 0;
}

} // namespace

TEST_CASE("a process that nobody may look into still reaches its sockets by long paths, and sees itself") {
  const auto dir = std::filesystem::temp_directory_path() / ("swarm-" + random_uuid()) / std::string(120, 'd');
  std::filesystem::create_directories(dir);
  std::filesystem::permissions(dir.parent_path(), std::filesystem::perms::all);
  std::filesystem::permissions(dir, std::filesystem::perms::all);
  CHECK(holds_when_hidden([&] {
    auto listening = listen_at(dir / "s.sock", 1);
    return static_cast<bool>(connect_at(dir / "s.sock"));
  }));
  CHECK(holds_when_hidden([] { return executable_of(getpid()) && pid_start_time(getpid()) && restrictions_of(getpid()); }));
  std::filesystem::remove_all(dir.parent_path());
}

TEST_CASE("of a process that nobody may look into others see what restricts it and its name, but not its environment or its file") {
  int ready[2], done[2];
  REQUIRE(pipe(ready) == 0);
  REQUIRE(pipe(done) == 0);
  const auto hidden = fork();
  if (hidden == 0) {
    (void)!(geteuid() != 0 || (setresgid(65534, 65534, 65534) == 0 && setresuid(65534, 65534, 65534) == 0));
    forbid_inspection();
    char c = 0;
    close(done[1]);
    (void)!write(ready[1], "x", 1);
    (void)!read(done[0], &c, 1);
    _exit(0);
  }
  char c = 0;
  REQUIRE(read(ready[0], &c, 1) == 1);
  CHECK(holds_when_hidden([&] {
    return restrictions_of(hidden) && command_name_of(hidden) && pid_start_time(hidden) && !executable_of(hidden) && !environment_of(hidden, "PATH");
  }));
  close(done[1]);
  waitpid(hidden, nullptr, 0);
  for (auto fd : {ready[0], ready[1], done[0]})
    close(fd);
}

TEST_CASE("whether /proc hides processes is said by the mount that lies on top of it") {
  const std::string plain = "22 27 0:21 / /proc rw,relatime shared:5 - proc proc rw\n";
  const std::string other = "23 27 0:22 / /sys rw - sysfs sysfs rw,hidepid=2\n30 27 0:30 / /chroot/proc rw - proc proc rw,hidepid=2\n";
  auto with = [](const std::string& options) { return "90 22 0:60 / /proc rw,relatime - proc proc rw" + options + "\n"; };
  CHECK_FALSE(is_proc_hiding(""));
  CHECK_FALSE(is_proc_hiding("\n - proc \n"));
  CHECK_FALSE(is_proc_hiding(plain + other));
  for (const auto* hides : {",hidepid=2", ",hidepid=invisible", ",gid=4,hidepid=1,subset=pid", ",hidepid=ptraceable"})
    CHECK_MESSAGE(is_proc_hiding(plain + with(hides) + other), hides);
  for (const auto* shows : {"", ",hidepid=0", ",hidepid=off", ",hidepid="})
    CHECK_FALSE_MESSAGE(is_proc_hiding(with(",hidepid=2") + with(shows)), shows);
}
