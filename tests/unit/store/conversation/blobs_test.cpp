#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "actors/base/crypto.hpp"
#include "actors/store/conversation/blobs.hpp"
#include "tests/support/fault_disk.hpp"
#include "tests/unit/store/store_fixture.hpp"

using namespace swarm;
using namespace swarm::test;

namespace {

constexpr auto abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"; // SHA-256 of abc

blobs open_blobs(disk& d, const std::filesystem::path& where) {
  auto opened = blobs::open(d, where);
  REQUIRE(opened);
  return *opened;
}

or_failure<blob> write(blobs& all, std::initializer_list<std::string_view> parts, std::uint64_t bytes_max = 1000) {
  auto writer = all.write(bytes_max);
  REQUIRE(writer);
  for (auto part : parts)
    (void)writer->add(part);
  return writer->finish();
}

} // namespace

TEST_CASE("a blob is written in parts, named by its digest, read in parts, and deleted") {
  scratch_dir dir;
  auto all = open_blobs(system_disk(), dir.path / "a" / "blobs");
  auto made = write(all, {"a", "", "bc"});
  REQUIRE(made);
  CHECK(*made == blob{abc, 3});
  CHECK(std::filesystem::exists(dir.path / "a" / "blobs" / abc));
  CHECK(*all.size(abc) == 3);
  CHECK(*all.read(abc, 0, 100) == "abc");
  CHECK(*all.read(abc, 1, 1) == "b");
  CHECK(*all.read(abc, 3, 1) == "");
  CHECK(*all.read(abc, ~0ull, 1) == "");
  CHECK(*all.read_whole(abc, 3) == "abc");
  CHECK_FALSE(all.read_whole(abc, 2));
  CHECK(*write(all, {"abc"}) == *made);
  CHECK_FALSE(all.remove(abc));
  CHECK_FALSE(all.remove(abc));
  CHECK_FALSE(all.read(abc, 0, 1));
  CHECK(std::filesystem::is_empty(dir.path / "a" / "blobs"));
}

TEST_CASE("a blob that becomes too large, or that nobody finishes, leaves nothing") {
  scratch_dir dir;
  auto all = open_blobs(system_disk(), dir.path);
  auto too_large = write(all, {"ab", "c", "d"}, 3);
  REQUIRE_FALSE(too_large);
  CHECK(too_large.failure().text.find("more than 3 bytes") != std::string::npos);
  CHECK(write(all, {"ab", "c"}, 3));
  {
    auto writer = all.write(1000);
    REQUIRE(writer);
    CHECK_FALSE(writer->add("half"));
  }
  CHECK(std::distance(std::filesystem::directory_iterator{dir.path}, {}) == 1);
}

TEST_CASE("a name that is no digest reads and removes nothing") {
  scratch_dir dir;
  std::filesystem::create_directory(dir.path / "blobs");
  auto all = open_blobs(system_disk(), dir.path / "blobs");
  REQUIRE_FALSE(system_disk().open(dir.file("secret"), disk::how::make)->get()->write_at(0, "x"));
  for (const auto& name : {std::string{"../secret"}, std::string{}, std::string(64, 'g'), std::string(64, 'A'), std::string(63, 'a')}) {
    auto refused = all.read(name, 0, 1);
    REQUIRE_FALSE(refused);
    CHECK(refused.failure().code == std::errc::no_such_file_or_directory);
    CHECK_FALSE(all.remove(name));
  }
  CHECK(std::filesystem::exists(dir.file("secret")));
}

TEST_CASE("a damaged blob is not read as a whole") {
  fault_disk d;
  auto all = open_blobs(d, "/blobs");
  REQUIRE(write(all, {"abc"}));
  d.damage("/blobs/" + std::string{abc}, [](std::string& bytes) { bytes[1] = 'x'; });
  CHECK_FALSE(all.read_whole(abc, 10));
}

TEST_CASE("the blobs that stand there are listed with their sizes and when they were written last") {
  fault_disk d;
  CHECK(blobs::at(d, "/blobs").list()->empty());
  auto all = open_blobs(d, "/blobs");
  d.set_time(1'000);
  REQUIRE(write(all, {"abc"}));
  auto half = all.write(1000);
  REQUIRE(half);
  CHECK(*all.list() == std::vector<blob_file>{{{abc, 3}, 1'000}});
  d.set_time(2'000);
  REQUIRE(write(all, {"ab", "c"}));
  CHECK(*blobs::at(d, "/blobs").list() == std::vector<blob_file>{{{abc, 3}, 2'000}});
}

TEST_CASE("a blob is checked whole, and one that cannot be read or is damaged is none") {
  fault_disk d;
  auto all = open_blobs(d, "/blobs");
  const std::string large(1'000'000, 'x');
  const auto made = write(all, {large}, large.size());
  REQUIRE(made);
  CHECK(*all.check(made->sha256) == large.size());
  d.fail_read_at(2);
  CHECK_FALSE(all.check(made->sha256));
  CHECK(all.check(made->sha256));
  d.damage("/blobs/" + made->sha256, [](std::string& bytes) { bytes.back() = 'y'; });
  const auto damaged = all.check(made->sha256);
  REQUIRE_FALSE(damaged);
  CHECK(damaged.failure().text.find("damaged") != std::string::npos);
  d.damage("/blobs/" + made->sha256, [](std::string& bytes) { bytes.resize(5); });
  CHECK_FALSE(all.check(made->sha256));
  CHECK(all.check(abc).failure().code == std::errc::no_such_file_or_directory);
}

TEST_CASE("reading blobs makes no directory and removes nothing that is being written") {
  fault_disk d;
  CHECK_FALSE(blobs::at(d, "/none").check(abc));
  CHECK(d.operations() == 0);
  auto all = open_blobs(d, "/blobs");
  auto half = all.write(1000);
  REQUIRE(half);
  CHECK_FALSE(half->add("abc"));
  CHECK(blobs::at(d, "/blobs").list()->empty());
  CHECK(half->finish());
}

TEST_CASE("a full disk refuses a blob, says so, and takes the next one when there is space") {
  fault_disk d;
  auto all = open_blobs(d, "/blobs");
  auto writer = all.write(100);
  REQUIRE(writer);
  d.fill(true);
  auto full = writer->add("abc");
  REQUIRE(full);
  CHECK(full->is_full());
  d.fill(false);
  CHECK(writer->add("abc"));
  CHECK_FALSE(writer->finish());
  CHECK(d.files().empty());
  CHECK(write(all, {"abc"}));
}

TEST_CASE("a power cut at any step of writing a blob leaves all of it or nothing") {
  for (std::uint64_t k = 1; k < 9; ++k)
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      CAPTURE(k);
      CAPTURE(seed);
      fault_disk d;
      auto all = open_blobs(d, "/blobs");
      d.cut_power_at(k);
      auto finished = false;
      if (auto writer = all.write(100)) {
        (void)writer->add("a");
        (void)writer->add("bc");
        finished = static_cast<bool>(writer->finish());
      }
      CHECK(finished == d.powered());
      d.reboot(seed);
      auto again = open_blobs(d, "/blobs");
      const auto there = d.files().count("/blobs/" + std::string{abc}) > 0;
      CHECK(d.files().size() == (there ? 1 : 0));
      CHECK((there || !finished));
      if (there)
        CHECK(*again.read_whole(abc, 3) == "abc");
    }
}
