// The machine's disk as conversations use it. What its faults do to them is tested on a disk in memory.
#include <doctest/doctest.h>

#include <sys/stat.h>

#include "actors/store/conversation/disk.hpp"
#include "tests/unit/store/store_fixture.hpp"

using namespace swarm;
using namespace swarm::test;

namespace {

std::string read(disk_file& file, std::uint64_t offset, std::size_t n) {
  std::string out(n, '?');
  auto got = file.read_at(offset, out);
  REQUIRE(got);
  out.resize(*got);
  return out;
}

unsigned mode_of(const std::filesystem::path& path) {
  struct stat about {};
  REQUIRE(stat(path.c_str(), &about) == 0);
  return about.st_mode & 0777u;
}

} // namespace

TEST_CASE("a file is written, read to its end, resized and synced") {
  scratch_dir dir;
  auto& d = system_disk();
  auto made = d.open(dir.path / "x", disk::how::make);
  REQUIRE(made);
  auto& file = **made;
  CHECK_FALSE(file.write_at(0, "hello"));
  CHECK_FALSE(file.write_at(3, "LOW"));
  CHECK(read(file, 0, 100) == "helLOW");
  CHECK(read(file, 100, 1).empty());
  CHECK_FALSE(file.resize(4));
  CHECK(*file.size() == 4);
  CHECK_FALSE(file.sync());
  CHECK(mode_of(dir.path / "x") == 0600);
  CHECK(d.open(dir.path / "x", disk::how::make).failure() == std::errc::file_exists);
  CHECK(d.open(dir.path / "y", disk::how::write).failure() == std::errc::no_such_file_or_directory);
  auto reader = d.open(dir.path / "x", disk::how::read);
  REQUIRE(reader);
  CHECK(read(**reader, 1, 10) == "elL");
  CHECK((*reader)->write_at(0, "x"));
}

TEST_CASE("directories are made with those above them, files renamed over others and removed") {
  scratch_dir dir;
  auto& d = system_disk();
  CHECK_FALSE(d.make_directory(dir.path / "a" / "b"));
  CHECK_FALSE(d.make_directory(dir.path / "a" / "b"));
  CHECK(mode_of(dir.path / "a" / "b") == 0700);
  REQUIRE(d.open(dir.path / "a" / "x", disk::how::make));
  REQUIRE(d.open(dir.path / "a" / "y", disk::how::make));
  CHECK_FALSE(d.rename(dir.path / "a" / "x", dir.path / "a" / "y"));
  CHECK_FALSE(d.remove(dir.path / "a" / "x"));
  auto names = d.list(dir.path / "a");
  REQUIRE(names);
  std::ranges::sort(*names);
  CHECK(*names == std::vector<std::string>{"b", "y"});
  CHECK_FALSE(d.sync_directory(dir.path / "a"));
  CHECK_FALSE(d.list(dir.path / "nowhere"));
  CHECK(d.sync_directory(dir.path / "nowhere"));
}

TEST_CASE("a symbolic link is not followed") {
  scratch_dir dir;
  REQUIRE(system_disk().open(dir.path / "x", disk::how::make));
  std::filesystem::create_symlink(dir.path / "x", dir.path / "link");
  for (auto how : {disk::how::read, disk::how::write, disk::how::make})
    CHECK_FALSE(system_disk().open(dir.path / "link", how));
}

TEST_CASE("what is no file is not opened, and nobody is waited for at the other end of a pipe") {
  scratch_dir dir;
  const auto path = dir.path / "x";
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  for (auto how : {disk::how::read, disk::how::write}) {
    const auto file = system_disk().open(path, how);
    REQUIRE_FALSE(file);
    CHECK(file.failure() == std::errc::no_such_device_or_address);
  }
  CHECK(system_disk().open(dir.path, disk::how::read).failure() == std::errc::is_a_directory);
}
