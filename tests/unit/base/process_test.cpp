#include "actors/base/process.hpp"

#include <algorithm>

#include <doctest/doctest.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/base/waiting_child.hpp"

using namespace swarm;

TEST_CASE("a process is described by its stat line") {
  auto self = read_process(getpid());
  REQUIRE(self);
  CHECK(self->pid == getpid());
  CHECK(self->parent == getppid());
  CHECK(self->group == getpgrp());
  CHECK(self->session == getsid(0));
  CHECK(self->start > 0);
  CHECK_FALSE(self->is_dead());
  CHECK(parent_of(getpid()) == getppid());
  CHECK(pid_start_time(getpid()) == self->start);
}

TEST_CASE("a name with parentheses, spaces and newlines does not confuse the fields") {
  waiting_child c{") R 1 (\n) 7"};
  CHECK(parent_of(c.pid()) == getpid());
}

TEST_CASE("a stat line that is cut, or holds a number out of range, is refused") {
  const std::string whole = "7 (sh) S 1 2 3 34816 7 4194560 1 2 3 4 5 6 7 8 20 0 1 0 12345 1003520";
  auto p = parse_process_stat(7, whole);
  REQUIRE(p);
  CHECK(p->state == 'S');
  CHECK(p->parent == 1);
  CHECK(p->group == 2);
  CHECK(p->session == 3);
  CHECK(p->terminal == 34816);
  CHECK(p->start == 12345);
  for (const auto* wrong : {"", "7 (sh", "7 (sh)", "7 (sh) S 1 2 3", "7 (sh) SS 1 2 3 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 1",
                            "7 (sh) S 99999999999 2 3 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 1", "7 (sh) S 1 2 3 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 -1"})
    CHECK_FALSE_MESSAGE(parse_process_stat(7, wrong), wrong);
}

TEST_CASE("what a process does with signals can be seen") {
  auto usr1 = signal(SIGUSR1, SIG_IGN), usr2 = signal(SIGUSR2, [](int) {});
  auto on = signal_actions_of(getpid());
  signal(SIGUSR1, usr1);
  signal(SIGUSR2, usr2);
  REQUIRE(on);
  CHECK(on->ignores(SIGUSR1));
  CHECK_FALSE(on->catches(SIGUSR1));
  CHECK(on->catches(SIGUSR2));
  CHECK_FALSE(on->ignores(SIGUSR2));
  CHECK_FALSE(on->ignores(SIGWINCH));
  CHECK_FALSE(on->catches(SIGWINCH));
}

TEST_CASE("a vanished process gives empty answers everywhere") {
  waiting_child c;
  auto pid = c.pid();
  auto start = pid_start_time(pid).value_or(0);
  c.end();
  CHECK_FALSE(read_process(pid));
  CHECK_FALSE(pid_start_time(pid));
  CHECK_FALSE(parent_of(pid));
  CHECK_FALSE(is_descendant(pid, getpid()));
  CHECK_FALSE(ancestor_in(pid, {getpid()}));
  CHECK_FALSE(executable_of(pid));
  CHECK_FALSE(signal_actions_of(pid));
  CHECK_FALSE(environment_of(pid, "PATH"));
  CHECK_FALSE(open_pidfd(pid));
  CHECK_FALSE(signal_process(pid, start, 0));
}

TEST_CASE("descent follows the chain of parents") {
  waiting_child c;
  CHECK(is_descendant(c.pid(), getpid()) == true);
  CHECK(is_descendant(c.pid(), c.pid()) == true);
  CHECK(is_descendant(c.pid(), getppid()) == true);
  CHECK(is_descendant(getpid(), c.pid()) == false);
  waiting_child other;
  CHECK(is_descendant(c.pid(), other.pid()) == false);
}

TEST_CASE("the nearest ancestor of a set is found") {
  waiting_child c, other;
  CHECK(ancestor_in(c.pid(), {getpid(), getppid()}) == getpid());
  CHECK(ancestor_in(c.pid(), {c.pid(), getpid()}) == c.pid());
  CHECK(ancestor_in(c.pid(), {getppid()}) == getppid());
  CHECK_FALSE(ancestor_in(c.pid(), {other.pid()}));
  CHECK_FALSE(ancestor_in(c.pid(), {}));
}

TEST_CASE("a zombie is dead") {
  auto pid = fork();
  if (pid == 0)
    _exit(0);
  siginfo_t info;
  REQUIRE(waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT) == 0);
  REQUIRE(read_process(pid));
  CHECK(read_process(pid)->is_dead());
  waitpid(pid, nullptr, 0);
}

TEST_CASE("the list of processes holds us and our children once") {
  waiting_child c;
  auto all = list_processes();
  auto count = [&](pid_t pid) { return std::count_if(all.begin(), all.end(), [pid](const auto& p) { return p.pid == pid; }); };
  CHECK(count(getpid()) == 1);
  CHECK(count(c.pid()) == 1);
}

TEST_CASE("executable and environment are read from the process") {
  auto exe = executable_of(getpid());
  REQUIRE(exe);
  CHECK(exe->find("test_base") != std::string::npos);
  int ready[2], held[2];
  REQUIRE(pipe(ready) == 0);
  REQUIRE(pipe(held) == 0);
  auto pid = fork();
  if (pid == 0) {
    dup2(ready[1], 1);
    dup2(held[0], 0);
    char ab[] = "AB=1", a[] = "A=2=3";
    char* env[] = {ab, a, nullptr};
    execle("/bin/sh", "sh", "-c", "echo; read line", nullptr, env); // in place of another program it would have no environment for a moment
    _exit(127);
  }
  char c = 0;
  REQUIRE(read(ready[0], &c, 1) == 1);
  CHECK(environment_of(pid, "A") == "2=3");
  CHECK(environment_of(pid, "AB") == "1");
  CHECK_FALSE(environment_of(pid, "B"));
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
  for (int fd : {ready[0], ready[1], held[0], held[1]})
    close(fd);
}

TEST_CASE("a pidfd becomes readable when its process ends") {
  waiting_child c;
  auto fd = open_pidfd(c.pid());
  REQUIRE(fd);
  pollfd p{fd->get(), POLLIN, 0};
  CHECK(poll(&p, 1, 0) == 0);
  kill(c.pid(), SIGKILL);
  CHECK(poll(&p, 1, 10'000) == 1);
}

TEST_CASE("a signal goes to the process with that start time and to no other") {
  waiting_child c;
  auto start = pid_start_time(c.pid());
  REQUIRE(start);
  CHECK_FALSE(signal_process(c.pid(), *start + 1, SIGKILL));
  CHECK_FALSE(read_process(c.pid())->is_dead());
  CHECK(signal_process(c.pid(), *start, SIGKILL));
  int status = 0;
  waitpid(c.pid(), &status, 0);
  CHECK(WTERMSIG(status) == SIGKILL);
}
