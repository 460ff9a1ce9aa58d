#include <doctest/doctest.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <set>
#include <string>
#include <thread>

#include <sys/wait.h>
#include <unistd.h>

#include <caf/actor_system.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/scoped_actor.hpp>

#include "actors/runtime/defaults.hpp"
#include "actors/runtime/ending.hpp"
#include "actors/runtime/shutdown.hpp"
#include "actors/runtime/system.hpp"
#include "tests/unit/runtime/quiet.hpp"

using namespace std::chrono_literals;
using namespace swarm;
using runtime::shutdown;

namespace {

/// Runs in a child process; its exit status, or -1 when a signal ended it.
template <class F>
int status_of(F body) {
  std::cout.flush(); // or the child would print it again
  std::fflush(nullptr);
  auto pid = fork();
  if (pid == 0) {
    alarm(20); // a watchdog for the watchdog
    log::close();
    body();
    std::_Exit(0);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

std::multiset<std::string> thread_names() {
  std::multiset<std::string> out;
  for (const auto& task : std::filesystem::directory_iterator{"/proc/self/task"}) {
    std::string name;
    std::getline(std::ifstream{task.path() / "comm"} >> std::ws, name);
    out.insert(name.substr(0, 9));
  }
  return out;
}

caf::behavior obedient(caf::event_based_actor* self) {
  runtime::install_defaults(self);
  return {[](int x) { return x + 1; }};
}

caf::behavior stubborn(caf::event_based_actor* self) {
  runtime::install_defaults(self);
  self->set_exit_handler([](caf::exit_msg&) {});
  return {[](int x) { return x + 1; }};
}

} // namespace

TEST_CASE("the actor system has the settings and the named threads that were asked for") {
  auto cfg = runtime::make_config<>(3);
  caf::actor_system sys{cfg};
  CHECK(sys.scheduler().num_workers() == 3);
  CHECK(sys.scheduler().max_throughput() == 100);
  caf::scoped_actor me{sys};
  auto a = sys.spawn(obedient);
  auto got = 0;
  me->request(a, 10s, 1).receive([&](int x) { got = x; }, [](const caf::error&) {});
  CHECK(got == 2);
  // A thread names itself once it runs, which on a busy machine is later than now.
  auto deadline = std::chrono::steady_clock::now() + 10s;
  while (thread_names().count("swarm-caf") < 3 && std::chrono::steady_clock::now() < deadline)
    std::this_thread::yield();
  CHECK(thread_names().count("swarm-caf") >= 3);
  CHECK(sys.render(fail(errc::overloaded, "too much")) == to_string(errc::overloaded) + " (too much)");
  runtime::ask_to_end(a);
}

TEST_CASE("an actor that keeps its own mailbox filled does not starve its neighbour") {
  auto cfg = runtime::make_config<>(1);
  caf::actor_system sys{cfg};
  auto greedy = sys.spawn([](caf::event_based_actor* self) -> caf::behavior {
    runtime::install_defaults(self);
    caf::anon_send(self, tick_atom_v);
    return {[self](tick_atom) { caf::anon_send(self, tick_atom_v); }};
  });
  auto neighbour = sys.spawn(obedient);
  caf::scoped_actor me{sys};
  auto got = 0;
  me->request(neighbour, 10s, 1).receive([&](int x) { got = x; }, [](const caf::error&) {});
  CHECK(got == 2);
  runtime::kill(greedy);
  runtime::ask_to_end(neighbour);
}

TEST_CASE("worker threads follow the machine within bounds") {
  CHECK(runtime::default_threads(0) == 2);
  CHECK(runtime::default_threads(2) == 2);
  CHECK(runtime::default_threads(8) == 5);
  CHECK(runtime::default_threads(200) == 17);
}

TEST_CASE("steps run in order, and a late or throwing one is named and does not stop the others") {
  test::quiet log;
  std::string order;
  shutdown s;
  s.add("doors", 1s, [&](auto) { return order += "d", true; });
  s.add("scopes", 1s, [&](auto) { return order += "s", false; });
  s.add("links", 1s, [&](auto) -> bool { throw std::runtime_error("broken"); });
  s.add("store", 2s, [&](auto grace) { return order += "w" + std::to_string(grace.count()), true; });
  CHECK(s.run() == std::vector<std::string>{"scopes", "links"});
  CHECK(order == "dsw2000");
  CHECK(log.text().find("broken") != std::string::npos);
}

TEST_CASE("an actor ends within its grace, or is killed and reported") {
  test::quiet log;
  auto cfg = runtime::make_config<>(2);
  caf::actor_system sys{cfg};
  CHECK(runtime::stop_actor(sys, sys.spawn(obedient), 10s));
  CHECK_FALSE(runtime::stop_actor(sys, sys.spawn(stubborn), 50ms));
  CHECK(runtime::stop_actor(sys, caf::actor{}, 50ms));
}

TEST_CASE("the watchdog ends a process whose step never returns") {
  auto status = status_of([] {
    shutdown s{20ms};
    s.add("stuck", 30ms, [](auto) {
      for (;;)
        pause();
      return true;
    });
    s.run();
  });
  CHECK(status == shutdown::exit_code);
}

TEST_CASE("the watchdog also covers what comes after the steps, without the time that they did not need") {
  auto status = status_of([] {
    shutdown s{30ms};
    s.add("quick", 1h, [](auto) { return true; });
    s.run();
    for (;;)
      pause();
  });
  CHECK(status == shutdown::exit_code);
}

TEST_CASE("a shutdown in time is not disturbed by the watchdog") {
  auto status = status_of([] {
    {
      shutdown s{10s};
      s.add("quick", 1s, [](auto) { return true; });
      s.run();
    }
    std::_Exit(3);
  });
  CHECK(status == 3);
}
