// The file under the commit log: what was written is read, from the disk as from a file system in memory.
#include <doctest/doctest.h>

#include <cstring>
#include <fstream>
#include <vector>

#include "actors/store/log_file.hpp"
#include "actors/store/sqlite.hpp"
#include "tests/unit/store/store_fixture.hpp"

using namespace swarm;
using namespace swarm::test;

namespace {

std::vector<log_block> filled(std::size_t n, char with) {
  std::vector<log_block> blocks(n);
  for (auto& b : blocks)
    std::memset(b.bytes, with++, log_block_bytes);
  return blocks;
}

std::string read(log_file& file, std::int64_t offset, std::size_t n) {
  std::string out(n, '?');
  file.read_at(offset, out);
  return out;
}

void write_and_read(const std::string& path) {
  auto file = open_log_file(path, "");
  CHECK(file->size() == 0);
  file->write(0, filled(3, 'a'));
  CHECK(file->size() == 3 * log_block_bytes);
  CHECK(read(*file, log_block_bytes - 2, 4) == "aabb");
  // Written again after it was read: no reader's copy may outlive that.
  file->write(log_block_bytes, filled(1, 'x'));
  CHECK(read(*file, log_block_bytes - 2, 4) == "aaxx");
  CHECK(read(*file, 3 * log_block_bytes - 2, 4) == std::string{"cc\0\0", 4});
  CHECK(read(*open_log_file(path, ""), 0, log_block_bytes + 1) == std::string(log_block_bytes, 'a') + "x");
  std::ifstream other{path, std::ios::binary};
  other.seekg(log_block_bytes);
  CHECK(other.get() == 'x');
}

} // namespace

TEST_CASE("what is written to the file of a log is read, in any pieces, with zeros beyond its end") {
  scratch_dir dir;
  write_and_read(dir.file());
}

TEST_CASE("the file of a log may lie in memory, where not every kernel writes past the page cache") {
  std::filesystem::path memory{"/dev/shm"};
  if (!std::filesystem::is_directory(memory))
    return;
  auto path = memory / ("swarm-log-" + random_uuid());
  write_and_read(path);
  std::filesystem::remove(path);
}

TEST_CASE("the file of a log is not opened through a symbolic link, and a directory is refused") {
  scratch_dir dir;
  std::filesystem::create_symlink(dir.file("elsewhere"), dir.file());
  CHECK_THROWS_AS(open_log_file(dir.file(), ""), sqlite::io_failure);
  CHECK_FALSE(std::filesystem::exists(dir.file("elsewhere")));
  CHECK_THROWS_AS(open_log_file(dir.path, ""), sqlite::io_failure);
}
