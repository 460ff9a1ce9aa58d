// The commit log by itself: what was appended is read back, and nothing else ever is.
#include <doctest/doctest.h>

#include <fstream>
#include <random>

#include "actors/store/commit_log.hpp"
#include "tests/unit/store/store_fixture.hpp"

using namespace swarm;
using namespace swarm::test;

namespace {

std::vector<std::string> all(commit_log& log, const std::string& generation, std::uint64_t after = 0) {
  std::vector<std::string> out;
  log.read(generation, after, [&](std::string_view payload) { out.emplace_back(payload); });
  return out;
}

} // namespace

TEST_CASE("records come back in order, from the one that is asked for, and appending goes on behind them") {
  scratch_dir dir;
  auto generation = commit_log::new_generation();
  std::vector<std::string> written;
  {
    commit_log log{dir.file(), ""};
    log.start(generation);
    for (int i = 0; i < 20; ++i) {
      written.push_back(std::string(static_cast<std::size_t>(i * i * 50), static_cast<char>('a' + i)));
      log.append(written.back());
    }
  }
  commit_log log{dir.file(), ""};
  CHECK(all(log, generation) == written);
  CHECK(log.newest() == 20);
  CHECK(all(log, generation, 18) == std::vector<std::string>{written[18], written[19]});
  log.append("more");
  CHECK(all(log, generation, 20) == std::vector<std::string>{"more"});
  CHECK(all(log, commit_log::new_generation()).empty());
  CHECK(all(log, "").empty());
}

TEST_CASE("a new generation hides all of the old, whatever lies behind it") {
  scratch_dir dir;
  auto first = commit_log::new_generation(), second = commit_log::new_generation();
  commit_log log{dir.file(), ""};
  log.start(first);
  for (int i = 0; i < 10; ++i)
    log.append("same length");
  log.start(second);
  log.append("same length");
  CHECK(all(log, second) == std::vector<std::string>{"same length"});
  CHECK(all(log, first).empty());
}

TEST_CASE("it says when it is full, and still keeps the record that went beyond") {
  scratch_dir dir;
  auto generation = commit_log::new_generation();
  commit_log log{dir.file(), ""};
  log.start(generation);
  std::string half(limits::commit_log_bytes_max() / 2, 'x'), more(limits::commit_log_bytes_max(), 'y');
  log.append(half);
  CHECK_FALSE(log.full());
  log.append(more);
  CHECK(log.full());
  commit_log again{dir.file(), ""};
  CHECK(all(again, generation) == std::vector<std::string>{half, more});
  log.start(commit_log::new_generation());
  CHECK_FALSE(log.full());
}

TEST_CASE("a record that claims to be as long as a huge file ends the log and is not read") {
  scratch_dir dir;
  auto generation = commit_log::new_generation();
  {
    commit_log log{dir.file(), ""};
    log.start(generation);
    log.append("one");
    log.append("two");
  }
  constexpr std::uint64_t huge = 1ull << 36;
  std::filesystem::resize_file(dir.file(), huge); // sparse
  {
    std::fstream file{dir.file(), std::ios::in | std::ios::out | std::ios::binary};
    file.seekp(48 + 3 + 24); // the second record's length
    const std::uint64_t length = huge / 2;
    file.write(reinterpret_cast<const char*>(&length), sizeof length);
  }
  commit_log log{dir.file(), ""};
  CHECK(all(log, generation) == std::vector<std::string>{"one"});
}

TEST_CASE("damage anywhere ends the log there and never yields a record that was not written") {
  for (unsigned round = 0; round < 200; ++round) {
    CAPTURE(round);
    std::mt19937_64 rng{round};
    scratch_dir dir;
    auto generation = commit_log::new_generation();
    std::vector<std::string> written;
    {
      commit_log log{dir.file(), ""};
      log.start(generation);
      for (auto n = 1 + rng() % 8; n > 0; --n) {
        written.push_back(std::string(rng() % 300, static_cast<char>(rng())));
        log.append(written.back());
      }
    }
    std::size_t bytes = 0;
    for (const auto& w : written)
      bytes += 48 + w.size();
    auto at = rng() % bytes;
    {
      std::fstream file{dir.file(), std::ios::in | std::ios::out | std::ios::binary};
      file.seekg(static_cast<std::streamoff>(at));
      auto c = static_cast<char>(file.get());
      file.seekp(static_cast<std::streamoff>(at));
      file.put(static_cast<char>(c ^ static_cast<char>(1 << rng() % 8)));
    }
    commit_log log{dir.file(), ""};
    auto found = all(log, generation);
    REQUIRE(found.size() < written.size());
    CHECK(std::equal(found.begin(), found.end(), written.begin()));
  }
}
