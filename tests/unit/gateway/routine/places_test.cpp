#include <filesystem>
#include <fstream>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <sys/stat.h>
#include <unistd.h>

#include "actors/base/crypto.hpp"
#include "actors/base/limits.hpp"
#include "gateway/routine/places.hpp"
#include "gateway/routine/trust.hpp"

using namespace swarm;
using namespace swarm::routines;
namespace fs = std::filesystem;

namespace {

struct world {
  world() {
    std::string name = (fs::temp_directory_path() / "routines-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    base = name;
    fs::create_directories(base / "repo" / ".git");
    fs::create_directories(base / "repo" / "deep" / "down");
    fs::create_directories(base / "share" / "routines");
    where = places_of((base / "repo" / "deep" / "down").string(), (base / "state").string(), (base / "share").string());
  }
  ~world() {
    std::error_code ec;
    fs::remove_all(base, ec);
  }
  fs::path write(const fs::path& directory, const std::string& name, const std::string& summary = "s") const {
    fs::create_directories(directory);
    auto file = directory / (name + ".toml");
    std::ofstream{file} << "name = \"" << name << "\"\nsummary = \"" << summary << "\"\n[[step]]\nid = \"a\"\ntitle = \"A\"\n";
    return file;
  }
  routine_file get(const std::string& name) const {
    auto found = find(where, name);
    REQUIRE_MESSAGE(found.routine, found.why_not);
    return *found.routine;
  }
  std::string refusal(const std::string& name) const {
    auto found = find(where, name);
    REQUIRE_FALSE(found.routine);
    return found.why_not;
  }

  fs::path base;
  places where;
};

} // namespace

TEST_CASE("routines are found in the repository's root, in the state directory and among the shipped ones") {
  world w;
  CHECK(w.where.root == (w.base / "repo").string());
  w.write(w.where.repository, "one");
  w.write(w.where.user, "two");
  w.write(w.where.shipped, "three");
  std::ofstream{w.where.user / "notes.txt"} << "no routine";
  std::ofstream{w.where.user / "bad name.toml"} << "no routine";
  std::vector<std::string> names;
  for (const auto& r : list(w.where))
    names.push_back(r.full_name());
  CHECK(names == std::vector<std::string>{"user/two", "shipped/three", "repository/one"});
  CHECK(w.get("one").from == origin::repository);
  CHECK(w.get("shipped/three").from == origin::shipped);
  CHECK(w.refusal("four").find("there is no routine four") == 0);
  CHECK(w.refusal("user/one").find("there is no routine user/one") == 0);
  for (const auto* bad : {"", "../one", "repository/../one", "repository/", "a b", "user/x/y", "/etc/passwd"})
    CHECK(w.refusal(bad).find("is no name of a routine") != std::string::npos);
}

TEST_CASE("the user's routine takes precedence over a shipped one, and a repository's never takes their place") {
  world w;
  w.write(w.where.shipped, "check", "shipped");
  w.write(w.where.user, "check", "mine");
  CHECK(w.get("check").content.value.summary == "mine");
  CHECK(w.get("shipped/check").content.value.summary == "shipped");
  w.write(w.where.repository, "check", "theirs");
  CHECK(w.refusal("check").find("say which one is meant: repository/check or user/check") != std::string::npos);
  CHECK(w.get("repository/check").content.value.summary == "theirs");
  CHECK(w.get("user/check").content.value.summary == "mine");
  // Broken or not: it must not decide which one is meant.
  std::ofstream{w.where.repository / "check.toml"} << "[";
  CHECK(w.refusal("check").find("say which one") != std::string::npos);
}

TEST_CASE("what is no plain file is not read: directories, pipes, and symbolic links out of a repository") {
  world w;
  fs::create_directories(w.where.repository / "folder.toml");
  REQUIRE(mkfifo((w.where.repository / "pipe.toml").c_str(), 0600) == 0);
  auto outside = w.write(w.base / "elsewhere", "link");
  fs::create_symlink(outside, w.where.repository / "link.toml");
  for (const auto* name : {"folder", "pipe", "link"}) {
    CAPTURE(name);
    auto r = w.get(name);
    CHECK_FALSE(r.usable());
    CHECK(r.problems_text().find("cannot be read") != std::string::npos);
    CHECK(r.digest.empty());
  }
  // One's own may be symbolic links.
  fs::create_directories(w.where.user);
  fs::create_symlink(outside, w.where.user / "link.toml");
  CHECK(w.get("user/link").usable());
}

TEST_CASE("problems name file and line") {
  world w;
  fs::create_directories(w.where.user);
  std::ofstream{w.where.user / "bad.toml"} << "name = \"bad\"\nsummary = \"s\"\nhost = \"x\"\n[[step]]\nid = \"a\"\ntitle = \"A\"\n";
  auto r = w.get("bad");
  CHECK_FALSE(r.usable());
  CHECK(r.problems_text().find((w.where.user / "bad.toml").string() + ":3: unknown key \"host\"") == 0);
}

TEST_CASE("a directory gives at most so many routines") {
  world w;
  for (std::size_t i = 0; i < limits::routines_max + 10; ++i)
    w.write(w.where.user, "r" + std::to_string(i));
  CHECK(list(w.where).size() == limits::routines_max);
}

TEST_CASE("trust holds for the bytes that were looked at, of a repository's routine only") {
  world w;
  auto file = w.write(w.where.repository, "check");
  auto r = w.get("check");
  CHECK(r.digest == to_hex(sha256(r.text)));
  CHECK(trust_of(w.where, r) == trust::missing);
  CHECK(objection(w.where, r).find("swarmctl routine trust repository/check") != std::string::npos);
  trust_it(w.where, r, 1'000);
  CHECK(trust_of(w.where, r) == trust::given);
  CHECK(objection(w.where, r).empty());
  CHECK(w.where.trust.string().find(w.where.root) == std::string::npos);
  struct stat what {};
  REQUIRE(stat(w.where.trust.c_str(), &what) == 0);
  CHECK((what.st_mode & 0777) == 0600);

  std::ofstream{file, std::ios::app} << "# one more byte\n";
  auto changed = w.get("check");
  CHECK(trust_of(w.where, changed) == trust::changed);
  CHECK(objection(w.where, changed).find("has changed since it was trusted") != std::string::npos);
  trust_it(w.where, changed, 2'000);
  CHECK(trust_of(w.where, changed) == trust::given);
  // Going back to what was trusted needs no new look.
  CHECK(trust_of(w.where, r) == trust::given);

  w.write(w.where.user, "mine");
  w.write(w.where.shipped, "theirs");
  CHECK(trust_of(w.where, w.get("mine")) == trust::given);
  CHECK(trust_of(w.where, w.get("theirs")) == trust::given);
}

TEST_CASE("a broken file of trust is no trust, and giving trust repairs it") {
  world w;
  w.write(w.where.repository, "check");
  auto r = w.get("check");
  fs::create_directories(w.where.trust.parent_path());
  for (const std::string text : {"", "{", "{}", "[1, {\"digest\": 3}, null]", "[{\"digest\": \"\"}]"}) {
    CAPTURE(text);
    std::ofstream{w.where.trust} << text;
    CHECK(trust_of(w.where, r) == trust::missing);
  }
  trust_it(w.where, r, 1'000);
  CHECK(trust_of(w.where, r) == trust::given);
  // A file that could not be read has no digest, and none is trusted.
  auto unread = r;
  unread.digest.clear();
  CHECK(trust_of(w.where, unread) != trust::given);
}

TEST_CASE("trust is kept for a bounded number of contents, the oldest go") {
  world w;
  w.write(w.where.repository, "check");
  auto r = w.get("check");
  for (std::size_t i = 0; i < limits::routines_max + 5; ++i) {
    r.digest = to_hex(sha256(std::to_string(i)));
    trust_it(w.where, r, static_cast<std::int64_t>(i));
  }
  std::ifstream in{w.where.trust};
  CHECK(nlohmann::json::parse(in).size() == limits::routines_max);
  CHECK(trust_of(w.where, r) == trust::given);
  r.digest = to_hex(sha256(std::string{"0"}));
  CHECK(trust_of(w.where, r) != trust::given);
}
