#include "actors/base/secrets.hpp"

#include <filesystem>
#include <fstream>

#include <doctest/doctest.h>
#include <sys/stat.h>

using namespace swarm;
namespace fs = std::filesystem;

namespace {

struct place {
  place() { REQUIRE(mkdtemp(name.data()) != nullptr); }
  ~place() { fs::remove_all(name); }
  std::string name = (fs::temp_directory_path() / "swarm-secrets-XXXXXX").string();
  fs::path dir() const { return fs::path{name} / "secrets"; }
  secret_store store() const { return secret_store{dir()}; }
};

mode_t mode_of(const fs::path& path) {
  struct stat info {};
  REQUIRE(lstat(path.c_str(), &info) == 0);
  return info.st_mode & 07777;
}

} // namespace

TEST_CASE("a secret is kept in a file that only its user can read") {
  place p;
  CHECK(p.store().names().empty());
  CHECK(p.store().set("anthropic", "v1").empty());
  CHECK(p.store().set("anthropic", "v2").empty());
  CHECK(p.store().set("b", std::string(secret_bytes_max, 'x')).empty());
  CHECK(p.store().names() == std::vector<std::string>{"anthropic", "b"});
  CHECK(p.store().read("anthropic")->bytes == "v2");
  CHECK(mode_of(p.dir()) == 0700);
  CHECK(mode_of(p.dir() / "anthropic") == 0600);
  CHECK(p.store().remove("anthropic").empty());
  CHECK_FALSE(p.store().has("anthropic"));
  CHECK(p.store().remove("anthropic") == "there is no secret anthropic; see: swarmctl secret list");
  CHECK(p.store().read("anthropic").failure() == "there is no secret anthropic; set it with: swarmctl secret set anthropic");
}

TEST_CASE("a name that leaves the directory and a value that no variable holds are refused") {
  place p;
  for (const auto* name : {"", "../x", "a/b", ".", "a b", "a.b", "\x1b"}) {
    CAPTURE(name);
    CHECK(p.store().set(name, "v").starts_with("a secret is named by"));
    CHECK(p.store().remove(name).starts_with("a secret is named by"));
    CHECK_FALSE(p.store().has(name));
  }
  const std::string key = "sk-ant-api03-0123456789abcdefghijklmnopqrstuvwxyz";
  CHECK(p.store().set(std::string(secret_name_bytes_max, 'n'), "v").empty());
  CHECK(p.store().remove(std::string(secret_name_bytes_max, 'n')).empty());
  for (const auto& why : {p.store().set(key, "v"), p.store().remove(key), p.store().read(key).failure()}) {
    CHECK(why.starts_with("a secret is named by"));
    CHECK(why.find("sk-ant") == why.npos);
  }
  CHECK(p.store().set("a", "").starts_with("a secret is not empty"));
  CHECK(p.store().set("a", std::string_view{"x\0y", 3}).find("zero byte") != std::string::npos);
  CHECK(p.store().set("a", std::string(secret_bytes_max + 1, 'x')) == "a secret has at most 64 KiB");
  CHECK(p.store().names().empty());
}

TEST_CASE("a secret that others can read or that is no file is not used") {
  place p;
  REQUIRE(p.store().set("a", "hunter2").empty());
  fs::permissions(p.dir() / "a", fs::perms{0644});
  const auto open = p.store().read("a");
  REQUIRE_FALSE(open);
  CHECK(open.failure().find("can be read by others: chmod 600 ") != std::string::npos);
  CHECK(open.failure().find("hunter2") == std::string::npos);
  fs::create_symlink("/etc/passwd", p.dir() / "link");
  REQUIRE(mkfifo((p.dir() / "fifo").c_str(), 0600) == 0);
  CHECK(p.store().names() == std::vector<std::string>{"a"});
  CHECK_FALSE(p.store().read("link"));
  CHECK_FALSE(p.store().read("fifo"));
  fs::permissions(p.dir(), fs::perms{0777});
  CHECK(p.store().set("b", "v").find("only you can write") != std::string::npos);
}

TEST_CASE("there is a greatest number of secrets") {
  place p;
  for (std::size_t i = 0; i < secrets_max; ++i)
    REQUIRE(p.store().set("s" + std::to_string(i), "v").empty());
  CHECK(p.store().set("one-more", "v").find("there are 256 secrets already") != std::string::npos);
  CHECK(p.store().set("s0", "w").empty());
}
