#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "actors/base/atomic_file.hpp"

using namespace swarm;
namespace fs = std::filesystem;

namespace {

struct temporary_directory {
  temporary_directory() {
    std::string name = "/tmp/swarm-atomic-XXXXXX";
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~temporary_directory() { fs::remove_all(path); }
  std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const auto& e : fs::directory_iterator(path))
      out.push_back(e.path().filename());
    return out;
  }
  fs::path path;
};

std::string text_of(const fs::path& p) {
  std::ifstream in(p, std::ios::binary);
  return {std::istreambuf_iterator<char>{in}, {}};
}

/// No file may grow beyond this while it lives: a disk that is full.
struct small_files {
  explicit small_files(rlim_t bytes) {
    getrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, SIG_IGN);
    auto now = before;
    now.rlim_cur = bytes;
    setrlimit(RLIMIT_FSIZE, &now);
  }
  ~small_files() { setrlimit(RLIMIT_FSIZE, &before); }
  rlimit before = {};
};

} // namespace

TEST_CASE("a file is replaced whole, is its owner's only, and nothing is left beside it") {
  temporary_directory d;
  auto file = d.path / "f";
  for (const auto* text : {"first", "second, which is longer", "", "x"}) {
    CHECK_FALSE(replace_file(file, text));
    CHECK(text_of(file) == text);
  }
  struct stat info {};
  REQUIRE(stat(file.c_str(), &info) == 0);
  CHECK((info.st_mode & 07777) == 0600);
  CHECK(d.names() == std::vector<std::string>{"f"});
}

TEST_CASE("a disk that is full leaves the old file, and nothing beside it") {
  temporary_directory d;
  auto file = d.path / "f";
  REQUIRE_FALSE(replace_file(file, "old"));
  for (auto how : {durability::synced, durability::cached}) {
    small_files limit{10};
    CHECK(replace_file(file, std::string(100, 'x'), how) == std::errc::file_too_large);
    CHECK(write_new_file(d.path / "g", std::string(100, 'x'), how) == std::errc::file_too_large);
  }
  CHECK(text_of(file) == "old");
  CHECK(d.names() == std::vector<std::string>{"f"});
}

TEST_CASE("what is not wanted any more at the last moment is not written") {
  temporary_directory d;
  auto file = d.path / "f";
  REQUIRE_FALSE(replace_file(file, "old"));
  CHECK(replace_file(file, "new", durability::synced, [] { return false; }) == std::errc::operation_canceled);
  CHECK_THROWS(replace_file(file, "new", durability::synced, []() -> bool { throw 1; }));
  CHECK(text_of(file) == "old");
  CHECK(d.names() == std::vector<std::string>{"f"});
  CHECK_FALSE(replace_file(file, "new", durability::synced, [] { return true; }));
  CHECK(text_of(file) == "new");
}

TEST_CASE("a symbolic link in the place of a file is replaced, not followed") {
  temporary_directory d;
  std::ofstream{d.path / "other"} << "theirs";
  fs::create_symlink("other", d.path / "f");
  CHECK_FALSE(replace_file(d.path / "f", "ours"));
  CHECK(text_of(d.path / "other") == "theirs");
  CHECK(fs::is_regular_file(fs::symlink_status(d.path / "f")));
  CHECK(write_new_file(d.path / "f", "x") == std::errc::file_exists);
}

TEST_CASE("of many writers at once one has the file, whole") {
  temporary_directory d;
  auto file = d.path / "f";
  constexpr std::size_t bytes = 100'000;
  std::vector<std::thread> writers;
  for (char c = 'a'; c < 'e'; ++c)
    writers.emplace_back([&, c] {
      for (int i = 0; i < 20; ++i)
        CHECK_FALSE(replace_file(file, std::string(bytes, c), durability::cached));
    });
  for (auto& w : writers)
    w.join();
  auto text = text_of(file);
  CHECK(text.size() == bytes);
  CHECK(text == std::string(bytes, text.front()));
  CHECK(d.names() == std::vector<std::string>{"f"});
}

TEST_CASE("a directory that is not there is an error of its own") {
  CHECK(replace_file("/nonexistent/swarm/f", "x") == std::errc::no_such_file_or_directory);
}
