#include "actors/base/log.hpp"

#include <filesystem>
#include <fstream>
#include <sstream>

#include <sys/wait.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include "actors/base/crypto.hpp"

using namespace swarm;

namespace {

struct temporary_file {
  std::filesystem::path path = std::filesystem::temp_directory_path() / ("swarm-log-" + random_uuid());
  ~temporary_file() { std::filesystem::remove(path); }
  std::string text() const {
    std::ostringstream out;
    out << std::ifstream(path).rdbuf();
    return out.str();
  }
};

/// In a process of its own: there is one log.
void in_child(const std::function<void()>& body) {
  auto pid = fork();
  if (pid == 0) {
    body();
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(pid, &status, 0) == pid);
  REQUIRE(WIFEXITED(status));
  REQUIRE(WEXITSTATUS(status) == 0);
}

} // namespace

TEST_CASE("a line of the log has its level and its pieces") {
  std::ostringstream out;
  {
    log::redirection here{out};
    log::warn({"session ", std::string{"s1"}, " ended after ", 5, " s; {} is not replaced"});
  }
  CHECK(out.str().find("[warning] session s1 ended after 5 s; {} is not replaced") != std::string::npos);
  auto before = out.str();
  log::debug({"no longer there"});
  CHECK(out.str() == before);
}

TEST_CASE("the log's file has what was logged, debugging only when asked for, and nothing after its end") {
  temporary_file quiet, verbose;
  in_child([&] {
    log::open({.file = quiet.path.string()});
    log::debug({"detail"});
    log::error({"fault"});
    log::close();
    log::critical({"late"});
  });
  in_child([&] {
    log::open({.file = verbose.path.string(), .verbose = true});
    log::debug({"detail"});
    log::flush();
  });
  CHECK(quiet.text().find("[error] fault") != std::string::npos);
  CHECK(quiet.text().find("detail") == std::string::npos);
  CHECK(quiet.text().find("late") == std::string::npos);
  CHECK(verbose.text().find("[debug] detail") != std::string::npos);
}
