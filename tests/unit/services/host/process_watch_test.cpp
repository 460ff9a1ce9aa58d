// Who watches processes must not take a lack of descriptors for their end.
#include <doctest/doctest.h>

#include <csignal>
#include <future>
#include <utility>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "actors/base/process.hpp"
#include "services/host/process_watch.hpp"

using namespace swarm;
using namespace std::chrono_literals;

namespace {

class sleeper {
public:
  sleeper() : pid_(fork()) {
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      pause();
      _exit(0);
    }
  }
  ~sleeper() { end(); }
  sleeper(const sleeper&) = delete;
  sleeper& operator=(const sleeper&) = delete;
  void end() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(std::exchange(pid_, 0), nullptr, 0);
    }
  }
  pid_t pid() const { return pid_; }
  std::uint64_t start() const { return pid_start_time(pid_).value_or(0); }

private:
  pid_t pid_;
};

} // namespace

TEST_CASE("the end of a process is noticed, also of one that was not there") {
  process_watch watch;
  sleeper a;
  std::promise<void> gone;
  CHECK(watch.watch(a.pid(), a.start(), [&] { gone.set_value(); }) != 0);
  a.end();
  CHECK(gone.get_future().wait_for(30s) == std::future_status::ready);
  auto at_once = false;
  CHECK(watch.watch(1, 1, [&] { at_once = true; }) == 0); // process 1 began at another time
  CHECK(at_once);
}

TEST_CASE("a process is not taken for ended when there is no descriptor for it, and is watched when there is one") {
  process_watch watch;
  sleeper first, second, heard;
  std::promise<void> gone, begun;
  // Its thread runs: the sanitizer looks at where a thread begins by a pipe, and takes it for broken where there is no descriptor.
  REQUIRE(watch.watch(heard.pid(), heard.start(), [&] { begun.set_value(); }) != 0);
  heard.end();
  begun.get_future().wait();
  auto held = watch.watch(first.pid(), first.start(), [] {});
  REQUIRE(held != 0);
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
  auto next_free = open("/dev/null", O_RDONLY | O_CLOEXEC);
  close(next_free);
  auto start = second.start();
  rlimit none{static_cast<rlim_t>(next_free), before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_NOFILE, &none) == 0);
  auto waiting = watch.watch(second.pid(), start, [&] { gone.set_value(); });
  setrlimit(RLIMIT_NOFILE, &before);
  REQUIRE(waiting != 0);
  auto ended = gone.get_future();
  CHECK(ended.wait_for(0s) == std::future_status::timeout);
  watch.forget(held); // its descriptor is free now
  CHECK(ended.wait_for(0s) == std::future_status::timeout);
  second.end();
  CHECK(ended.wait_for(30s) == std::future_status::ready);
}
