#include "actors/base/limits.hpp"

#include <cstdlib>
#include <fstream>
#include <set>

#include <doctest/doctest.h>

#include "actors/base/limits_config.hpp"

using namespace swarm;

namespace {

/// Limits are the process's own, so whatever a case sets is put back.
struct defaults_again {
  std::vector<limit_setting> before = limit_settings();
  ~defaults_again() {
    std::string text = "[limits]\n";
    for (const auto& s : before)
      text += std::string{s.name} + " = " + std::to_string(s.value) + "\n";
    std::ofstream{file()} << text;
    CHECK_FALSE(configure_limits(file()).has_value());
    std::filesystem::remove_all(dir);
  }
  std::filesystem::path file() const { return dir / "config.toml"; }
  std::optional<std::string> read(const std::string& text) {
    std::ofstream{file()} << text;
    return configure_limits(file());
  }
  std::filesystem::path dir = [] {
    auto name = (std::filesystem::temp_directory_path() / "swarm-limits-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    return std::filesystem::path{name};
  }();
};

} // namespace

TEST_CASE("a configuration sets limits within their range") {
  defaults_again config;
  CHECK_FALSE(configure_limits("/nonexistent/config.toml").has_value());
  CHECK_FALSE(config.read("").has_value());
  CHECK_FALSE(config.read("[limits]\nlock_waiters_max = 32\nsession_reclaim = 120_000\n").has_value());
  CHECK(limits::lock_waiters_max() == 32);
  CHECK(limits::session_reclaim() == limits::minutes{2});
  CHECK_FALSE(config.read("# \xd0\x99\n[limits] # \xc3\xa9\nlock_waiters_max = 33 # \xe2\x82\xac\n").has_value());
  CHECK(limits::lock_waiters_max() == 33);
}

TEST_CASE("a configuration that cannot be read or is too large is refused") {
  defaults_again config;
  CHECK(configure_limits(config.dir).value().find("cannot be read") != std::string::npos);
  CHECK(config.read("[limits]\nlock_waiters_max = 32\n" + std::string(300 * limits::kib, '#')).value().find("larger than 256 KiB") !=
        std::string::npos);
  CHECK(limits::lock_waiters_max() == 256);
}

TEST_CASE("a wrong configuration is refused whole, with a text that names what is wrong") {
  struct wrong {
    const char* text;
    const char* says;
  };
  for (auto w : {wrong{"[limits]\nlock_waiters_max = 32\nno_such_limit = 1\n",
                       "unknown key \"no_such_limit\" in [limits]; the keys are listed by: swarmctl config show limits"},
                 wrong{"[limits]\nlock_waiters_max = 32\nbatch_tasks_max = 0\n", "batch_tasks_max in [limits] must be a whole number from 6 to 400"},
                 wrong{"[limits]\nlock_waiters_max = 32\nbatch_tasks_max = -1\n", "batch_tasks_max in [limits] must be"},
                 wrong{"[limits]\nlock_waiters_max = 32\nbatch_tasks_max = \"50\"\n", "batch_tasks_max in [limits] must be"},
                 wrong{"[limits]\nlock_waiters_max = 32\nbatch_tasks_max = 50.5\n", "batch_tasks_max in [limits] must be"},
                 wrong{"[limits]\nlock_waiters_max = 32\nsession_stale = 200_000\n", "session_stale must not be above session_reclaim"},
                 wrong{"limits = 3\n", "limits must be a table: [limits]"}, wrong{"[limits]\nlock_waiters_max = \n", "config.toml:2: "},
                 wrong{"\xff[", "the file is no UTF-8 text"},
                 // Found by tests/fuzz/files_fuzz.cpp: both ended the program inside toml++.
                 wrong{"[limits]\nlock_waiters_max = 32\n[=", "config.toml:3: "},
                 wrong{"limits = {\xd0\x99= \"5 s\"}\n", "config.toml:1: only comments and texts in quotes may hold characters beyond ASCII"}}) {
    CAPTURE(w.text);
    defaults_again config;
    auto told = config.read(w.text);
    REQUIRE(told.has_value());
    CHECK_MESSAGE(told->find(w.says) != std::string::npos, *told);
    CHECK(told->find("config.toml") != std::string::npos);
    CHECK(limits::lock_waiters_max() == 256);
  }
}

TEST_CASE("every bound of the header can be configured, and its default lies in its range") {
  std::set<std::string> known;
  for (const auto& s : limit_settings()) {
    CAPTURE(s.name);
    CHECK(known.emplace(s.name).second);
    CHECK(s.lowest <= s.value);
    CHECK(s.value <= s.highest);
    CHECK(s.lowest > 0);
  }
  auto sources = std::getenv("SWARM_SOURCE_DIR");
  REQUIRE(sources);
  std::ifstream header{std::string{sources} + "/actors/base/limits.hpp"};
  std::size_t bounds = 0;
  for (std::string line; std::getline(header, line);) {
    if (line.rfind("inline constinit bound<", 0) != 0)
      continue;
    ++bounds;
    auto from = line.find("> ") + 2;
    CHECK_MESSAGE(known.contains(line.substr(from, line.find('{', from) - from)), line);
  }
  CHECK(bounds == known.size());
}

TEST_CASE("a text is taken over like a file, all or nothing") {
  defaults_again limits_now;
  auto before = limits::lock_waiters_max();
  CHECK(configure_limits_from("[limits]\nlock_waiters_max = 65\nnonsense = 1\n").has_value());
  CHECK(configure_limits_from("[limits\n").value().find("line ") == 0);
  CHECK(limits::lock_waiters_max() == before);
  CHECK_FALSE(configure_limits_from("[limits]\nlock_waiters_max = 65\n").has_value());
  CHECK(limits::lock_waiters_max() == 65);
}
