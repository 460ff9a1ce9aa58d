#include <doctest/doctest.h>

#include <fstream>

#include <sys/stat.h>

#include "actors/store/conversation/copy.hpp"
#include "tests/support/fault_disk.hpp"
#include "tests/unit/store/store_fixture.hpp"

using namespace swarm;
using namespace swarm::test;
namespace fs = std::filesystem;

namespace {

void put(const fs::path& file, std::string_view text) {
  fs::create_directories(file.parent_path());
  std::ofstream{file, std::ios::binary} << text;
}

std::string text_of(const fs::path& file) {
  std::ifstream in{file, std::ios::binary};
  return {std::istreambuf_iterator<char>{in}, {}};
}

unsigned mode_of(const fs::path& p) {
  struct stat info {};
  REQUIRE(lstat(p.c_str(), &info) == 0);
  return info.st_mode & 07777;
}

} // namespace

TEST_CASE("logs and blobs of all conversations are copied for their owner alone") {
  scratch_dir dir;
  const auto from = dir.path / "conversations", to = dir.path / "copy.db.conversations";
  const std::string large(3'000'000, 'x');
  put(from / "a" / "0.log", "said");
  put(from / "a" / "blobs" / "12ab", large);
  put(from / "b" / "0.log", "");
  put(from / "no conversation", "x");
  const auto copied = copy_conversations(system_disk(), from, to);
  REQUIRE(copied);
  CHECK(copied->conversations == 2);
  CHECK(copied->bytes == 4 + large.size());
  CHECK(text_of(to / "a" / "0.log") == "said");
  CHECK(text_of(to / "a" / "blobs" / "12ab") == large);
  CHECK(fs::exists(to / "b" / "0.log"));
  CHECK_FALSE(fs::exists(to / "no conversation"));
  CHECK(mode_of(to) == 0700u);
  CHECK(mode_of(to / "a" / "blobs") == 0700u);
  CHECK(mode_of(to / "a" / "0.log") == 0600u);
}

TEST_CASE("without a conversation the copy is an empty directory") {
  scratch_dir dir;
  const auto copied = copy_conversations(system_disk(), dir.path / "conversations", dir.path / "copy");
  REQUIRE(copied);
  CHECK(copied->conversations == 0);
  CHECK(fs::is_empty(dir.path / "copy"));
}

TEST_CASE("a copy takes no place that exists and follows no link") {
  scratch_dir dir;
  const auto from = dir.path / "conversations";
  put(from / "a" / "0.log", "said");
  put(dir.path / "secret", "secret");
  fs::create_symlink(dir.path / "secret", from / "a" / "1.log");
  fs::create_directory_symlink(dir.path, from / "b");
  fs::create_directory(dir.path / "there");
  CHECK_FALSE(copy_conversations(system_disk(), from, dir.path / "there"));
  fs::create_symlink(dir.path / "nowhere", dir.path / "link");
  CHECK_FALSE(copy_conversations(system_disk(), from, dir.path / "link"));
  const auto copied = copy_conversations(system_disk(), from, dir.path / "copy");
  REQUIRE(copied);
  CHECK(copied->conversations == 1);
  CHECK_FALSE(fs::exists(fs::symlink_status(dir.path / "copy" / "a" / "1.log")));
  CHECK_FALSE(fs::exists(fs::symlink_status(dir.path / "copy" / "b")));
}
