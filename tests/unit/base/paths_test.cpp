#include "actors/base/paths.hpp"

#include <cstdlib>
#include <fstream>
#include <random>
#include <stdexcept>

#include <doctest/doctest.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

using namespace swarm;
namespace fs = std::filesystem;

namespace {

struct temp_dir {
  temp_dir() {
    std::string name = "/tmp/swarm-paths-test-XXXXXX";
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~temp_dir() {
    std::error_code ec;
    fs::remove_all(path, ec);
  }
  fs::path path;
};

/// Sets or removes a variable and puts it back.
class scoped_env {
public:
  scoped_env(const char* name, const char* value) : name_(name) {
    if (auto old = std::getenv(name))
      old_ = old, had_ = true;
    value ? setenv(name, value, 1) : unsetenv(name);
  }
  ~scoped_env() { had_ ? setenv(name_, old_.c_str(), 1) : unsetenv(name_); }
  scoped_env(const scoped_env&) = delete;
  scoped_env& operator=(const scoped_env&) = delete;

private:
  const char* name_;
  std::string old_;
  bool had_ = false;
};

unsigned mode_of(const fs::path& p) {
  struct stat st {};
  REQUIRE(stat(p.c_str(), &st) == 0);
  return st.st_mode & 0777;
}

} // namespace

TEST_CASE("paths are made absolute and normal without touching the file system") {
  CHECK(normalize_path("/a/b", "/x") == "/a/b");
  CHECK(normalize_path("b", "/a") == "/a/b");
  CHECK(normalize_path("", "/a") == "/a");
  CHECK(normalize_path(".", "/a") == "/a");
  CHECK(normalize_path("..", "/a/b") == "/a");
  CHECK(normalize_path("/a//b/./c/../d/", "/") == "/a/b/d");
  CHECK(normalize_path("/..", "/") == "/");
  CHECK(normalize_path("../../..", "/a") == "/");
  CHECK(normalize_path("//a", "/") == "/a");
  CHECK(normalize_path("/", "/a") == "/");
  CHECK(normalize_path("/a/ b ", "/") == "/a/ b ");
}

TEST_CASE("normalising twice changes nothing") {
  for (unsigned seed = 1; seed <= 200; ++seed) {
    CAPTURE(seed);
    std::mt19937 rng{seed};
    static const char* parts[] = {"a", "b c", ".", "..", "", "/", "...", ".git"};
    std::string path;
    for (auto n = rng() % 10; n > 0; --n)
      path += std::string{parts[rng() % 8]} + (rng() % 3 ? "/" : "");
    auto once = normalize_path(path, "/home/u");
    CHECK(normalize_path(once, "/elsewhere") == once);
    CHECK(once.front() == '/');
    CHECK(once.find("//") == std::string::npos);
    CHECK((once.size() == 1 || once.back() != '/'));
  }
}

TEST_CASE("the git root is the nearest ancestor with .git, a directory or a file") {
  temp_dir t;
  auto repo = t.path / "repo", inner = repo / "src" / "inner", worktree = repo / "work";
  fs::create_directories(inner);
  fs::create_directories(worktree / "sub");
  CHECK(git_root(inner.string()) == inner.string());
  fs::create_directory(repo / ".git");
  std::ofstream{worktree / ".git"} << "gitdir: elsewhere\n";
  CHECK(git_root(repo.string()) == repo.string());
  CHECK(git_root(inner.string()) == repo.string());
  CHECK(git_root((worktree / "sub").string()) == worktree.string());
}

TEST_CASE("a scope is a name, a path or by default the git root") {
  temp_dir t;
  auto repo = t.path / "repo";
  fs::create_directories(repo / ".git");
  fs::create_directories(repo / "sub");
  auto sub = (repo / "sub").string();
  CHECK(resolve_scope("", sub) == repo.string());
  CHECK(resolve_scope(" \t", sub) == repo.string());
  CHECK(resolve_scope(" team ", sub) == "team");
  CHECK(resolve_scope("./x/../y", sub) == sub + "/y");
  CHECK(resolve_scope("/srv/a/", sub) == "/srv/a");
  CHECK(resolve_scope(".", sub) == sub);
  CHECK(is_named_scope("team"));
  for (auto no : {"", "a/b", "/", ".", ".."})
    CHECK_FALSE(is_named_scope(no));
}

TEST_CASE("inside means the same or below, never a longer name") {
  CHECK(is_inside("/a", "/a"));
  CHECK(is_inside("/a", "/a/b"));
  CHECK(is_inside("/", "/a"));
  CHECK(is_inside("/", "/"));
  CHECK_FALSE(is_inside("/a", "/ab"));
  CHECK_FALSE(is_inside("/a/b", "/a"));
  CHECK_FALSE(is_inside("/", "relative"));
}

TEST_CASE("file arguments are resolved by the four rules of swarm-mcp") {
  temp_dir t;
  auto logical = t.path / "logical", physical = t.path / "physical";
  fs::create_directories(logical / ".git");
  fs::create_directories(logical / "pkg");
  fs::create_directories(physical / "pkg");
  auto l = logical.string(), p = physical.string();
  SUBCASE("without a file root everything stays where it is") {
    CHECK(resolve_file("x.cpp", p + "/pkg", "", p) == p + "/pkg/x.cpp");
    CHECK(resolve_file("", p + "/pkg", "", p) == p + "/pkg");
    CHECK(resolve_file("/__swarm/lock", p + "/pkg", "", p) == "/__swarm/lock");
  }
  SUBCASE("inside the physical root: onto the logical root") {
    CHECK(resolve_file(p + "/pkg/x.cpp", p + "/pkg", l + "/pkg", p) == l + "/pkg/x.cpp");
    CHECK(resolve_file(p, p + "/pkg", l + "/pkg", p) == l);
  }
  SUBCASE("inside the physical directory only: onto the logical directory") {
    CHECK(resolve_file(p + "/pkg/x.cpp", p + "/pkg", l + "/pkg", "/elsewhere") == l + "/pkg/x.cpp");
    CHECK(resolve_file(p + "/pkg", p + "/pkg", l + "/pkg", "/elsewhere") == l + "/pkg");
  }
  SUBCASE("outside: unchanged but normal") { CHECK(resolve_file("/etc/../etc//hosts", p, l, p) == "/etc/hosts"); }
  SUBCASE("relative: against the logical directory") {
    CHECK(resolve_file("../a.txt", p + "/pkg", l + "/pkg", p) == l + "/a.txt");
    CHECK(resolve_file("", p + "/pkg", l + "/pkg", p) == l + "/pkg");
  }
  SUBCASE("a name keeps its blanks") {
    CHECK(resolve_file("x.cpp ", p + "/pkg", l + "/pkg", p) == l + "/pkg/x.cpp ");
    CHECK(resolve_file(p + "/pkg/x.cpp ", p + "/pkg", l + "/pkg", p) == l + "/pkg/x.cpp ");
    CHECK(resolve_file("/etc/hosts ", p, l, p) == "/etc/hosts ");
  }
}

TEST_CASE("only a path that begins in the working directory needs it") {
  const auto before = fs::current_path();
  {
    temp_dir t;
    fs::current_path(t.path);
    CHECK(absolute_path("a/../b") == t.path.string() + "/b");
  }
  // It has been removed now.
  CHECK(absolute_path("/a/../b") == "/b");
  CHECK_THROWS_WITH_AS(absolute_path("b"), doctest::Contains("the path b begins there; give an absolute one"), std::runtime_error);
  fs::current_path(before);
}

TEST_CASE("swarm-mcp cuts the blanks around a name, unless a file is really called so") {
  temp_dir t;
  const auto& dir = t.path;
  CHECK(file_word(" x.cpp ", dir.string()) == "x.cpp");
  CHECK(file_word("  ", dir.string()).empty());
  std::ofstream{dir / "x.cpp "} << "x";
  CHECK(file_word("x.cpp ", dir.string()) == "x.cpp ");
  CHECK(file_word((dir / "x.cpp ").string(), "/") == (dir / "x.cpp ").string());
  CHECK(file_word(" x.cpp", dir.string()) == "x.cpp");
}

TEST_CASE("the state directory follows SWARM_HOME, then XDG_STATE_HOME, then HOME") {
  scoped_env home{"HOME", "/home/u"};
  {
    scoped_env swarm{"SWARM_HOME", "/srv/swarm/"}, xdg{"XDG_STATE_HOME", "/xdg"};
    CHECK(default_state_dir().root == "/srv/swarm");
  }
  scoped_env swarm{"SWARM_HOME", nullptr};
  {
    scoped_env xdg{"XDG_STATE_HOME", "/xdg"};
    CHECK(default_state_dir().root == "/xdg/swarm");
  }
  {
    scoped_env xdg{"XDG_STATE_HOME", "relative"};
    CHECK(default_state_dir().root == "/home/u/.local/state/swarm");
  }
  scoped_env xdg{"XDG_STATE_HOME", nullptr}, nowhere{"HOME", nullptr};
  CHECK_THROWS_AS(default_state_dir(), std::runtime_error);
}

TEST_CASE("preparing makes private directories and tightens lax ones") {
  temp_dir t;
  state_dir d{t.path / "deep" / "state"};
  prepare(d);
  for (const auto& p : {d.root, d.log_dir(), d.pty_dir()})
    CHECK(mode_of(p) == 0700);
  REQUIRE(chmod(d.root.c_str(), 0755) == 0);
  prepare(d);
  CHECK(mode_of(d.root) == 0700);
}

TEST_CASE("preparing refuses a file or a symbolic link in the directory's place") {
  temp_dir t;
  std::ofstream{t.path / "file"} << "x";
  CHECK_THROWS_AS(prepare({t.path / "file"}), std::runtime_error);
  fs::create_directory(t.path / "real");
  fs::create_directory_symlink(t.path / "real", t.path / "link");
  CHECK_THROWS_AS(prepare({t.path / "link"}), std::runtime_error);
}

TEST_CASE("a socket's name fits the kernel's limit however deep it lies, and reaches the same file") {
  temp_dir t;
  auto deep = t.path / std::string(90, 'd') / std::string(90, 'e');
  fs::create_directories(deep);
  for (const auto& path : {t.path / "s.sock", deep / "s.sock"}) {
    socket_name name{path};
    sockaddr_un address{};
    REQUIRE(name.text().size() < sizeof address.sun_path);
    address.sun_family = AF_UNIX;
    name.text().copy(address.sun_path, sizeof address.sun_path - 1);
    auto fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    CHECK(fs::is_socket(path));
    close(fd);
  }
  CHECK_THROWS_AS(socket_name{t.path / std::string(120, 'x') / "s"}, std::runtime_error);
}
