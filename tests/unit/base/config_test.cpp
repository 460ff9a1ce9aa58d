#include "actors/base/config.hpp"

#include <filesystem>
#include <fstream>

#include <doctest/doctest.h>
#include <sys/stat.h>

#include "actors/base/nearest.hpp"

using namespace swarm;

namespace {

const config_registry& shop() {
  static const config_registry registry{
    {{.section = "shop", .name = "size", .kind = config_kind::number, .fallback = "5", .lowest = 1, .highest = 9},
     {.section = "shop", .name = "open", .kind = config_kind::boolean},
     {.section = "shop.door", .name = "name", .objection = [](std::string_view t) { return t == "bad" ? " is bad" : ""; }},
     {.section = "shop.door", .name = "keys", .kind = config_kind::texts, .count_max = 2},
     {.section = "colours", .name = "*", .objection_to_name = [](std::string_view n) { return n == "mauve" ? "no mauve" : ""; }}},
    {},
    true};
  return registry;
}

std::vector<std::string> faults_of(const std::string& text) {
  std::vector<std::string> out;
  const auto document = parse_config(text, shop());
  for (const auto& f : document.faults)
    out.push_back(f.told("c.toml"));
  return out;
}

using list = std::vector<std::string>;

} // namespace

TEST_CASE("a file is read by its table of keys with the line of each") {
  const auto d =
    parse_config("[shop]\nsize = 3\nopen = true\n[shop.door]\nname = \"n\\\"\"\nkeys = [\"a\", \"b\"]\n[colours]\nred = \"r\"\n", shop());
  REQUIRE(d.faults.empty());
  CHECK(std::get<std::uint64_t>(d.find("shop", "size")->value) == 3);
  CHECK(d.find("shop.door", "keys")->line == 6);
  CHECK(config_text(d.find("shop.door", "name")->value) == "\"n\\\"\"");
  CHECK(config_text(d.find("shop.door", "keys")->value) == "[\"a\", \"b\"]");
  CHECK(config_text(d.find("shop", "open")->value) == "true");
  CHECK(std::get<std::string>(d.find("colours", "red")->value) == "r");
  CHECK(d.find("shop", "name") == nullptr);
}

TEST_CASE("every fault of a file is told with its line and what may have been meant") {
  CHECK(faults_of("[shop]\nsize = 10\nopne = true\n[shop.dor]\n[colors]\n") ==
        list{"c.toml:2: size in [shop] must be a whole number from 1 to 9", "c.toml:3: unknown key \"opne\" in [shop]; did you mean open?",
             "c.toml:4: unknown key \"dor\" in [shop]; there are size and open",
             "c.toml:5: unknown table or key \"colors\"; did you mean [colours]?"});
  CHECK(faults_of("[shop]\nsize = \"3\"\nopen = 1\n") ==
        list{"c.toml:2: size in [shop] must be a whole number from 1 to 9", "c.toml:3: open in [shop] must be true or false"});
  CHECK(faults_of("[shop.door]\nname = \"bad\"\nkeys = [\"a\", \"b\", \"c\"]\n") ==
        list{"c.toml:2: name in [shop.door] is bad", "c.toml:3: keys in [shop.door] must be a list of at most 2 texts"});
  CHECK(faults_of("[colours]\nmauve = \"m\"\nred = 3\n") ==
        list{"c.toml:2: no mauve", "c.toml:3: red in [colours] must be a text in quotes: red = \"...\""});
  CHECK(faults_of("shop = 3\n") == list{"c.toml:1: shop must be a table: [shop]"});
  CHECK(faults_of("elsewhere = 3\n") == list{"c.toml:1: unknown table or key \"elsewhere\"; there are [shop] and [colours]"});
  CHECK(faults_of("[shop\n").at(0).starts_with("c.toml:1: "));
}

TEST_CASE("a registry of some sections leaves the others to their readers") {
  auto part = shop();
  part.whole = false;
  CHECK(parse_config("[elsewhere]\nx = 1\n", part).faults.empty());
  CHECK(parse_config("[shop]\nx = 1\n", part).faults.size() == 1);
}

TEST_CASE("a configuration that is no regular file is refused at once") {
  auto name = (std::filesystem::temp_directory_path() / "swarm-config-XXXXXX").string();
  REQUIRE(mkdtemp(name.data()) != nullptr);
  const std::filesystem::path dir{name};
  REQUIRE(mkfifo((dir / "fifo").c_str(), 0600) == 0);
  const auto d = read_config(dir / "fifo", shop());
  REQUIRE(d.faults.size() == 1);
  CHECK(d.faults[0].told((dir / "fifo").string()) ==
        (dir / "fifo").string() + ": cannot be read: it is no regular file; remove it, and write a file in its place");
  CHECK(read_config(dir, shop()).faults.size() == 1);
  CHECK(read_config("/dev/zero", shop()).faults.size() == 1);
  CHECK_FALSE(read_config(dir / "none", shop()).exists);
  std::ofstream{dir / "file"} << "[shop]\nsize = 3\n";
  std::filesystem::create_symlink(dir / "file", dir / "link");
  CHECK(read_config(dir / "link", shop()).entries.size() == 1);
  std::filesystem::remove_all(dir);
}

TEST_CASE("what is nearest to a word has few other letters") {
  CHECK(nearest("lock_waiter_max", {"lock_ttl_max", "lock_waiters_max"}) == "lock_waiters_max");
  CHECK(nearest("xyz", {"lock_ttl_max"}).empty());
  CHECK(nearest(std::string(100'000, 'a'), {"lock_ttl_max"}).empty());
}
