// git as a child process and the worktrees of workers, against real repositories.
#include "cli/worktree/store.hpp"

#include <filesystem>
#include <fstream>
#include <sstream>

#include <doctest/doctest.h>
#include <stdlib.h>

#include "actors/base/limits.hpp"
#include "gateway/client/failure.hpp"

using namespace swarm;
using namespace swarm::cli;
namespace fs = std::filesystem;

namespace {

struct repository {
  repository() {
    std::string name = "/tmp/swarm-worktree-store-XXXXXX";
    REQUIRE(mkdtemp(name.data()) != nullptr);
    setenv("GIT_CONFIG_GLOBAL", "/dev/null", 1);
    setenv("GIT_CONFIG_NOSYSTEM", "1", 1);
    top = fs::canonical(name).string();
    root = top + "/repo";
    fs::create_directories(root);
    git in{root};
    in.output({"init", "--quiet", "-b", "main"});
    in.output({"config", "user.name", "Tester"});
    in.output({"config", "user.email", "tester@example.org"});
    std::ofstream{root + "/a.txt"} << "one\n";
    in.output({"add", "a.txt"});
    in.output({"commit", "--quiet", "-m", "first"});
  }
  ~repository() {
    std::error_code ec;
    fs::remove_all(top, ec);
  }
  repository(const repository&) = delete;
  repository& operator=(const repository&) = delete;

  std::string top, root;
};

worker_tree wanted(const std::string& id) {
  worker_tree t;
  t.task_id = id;
  t.spawn_id = "spawn";
  t.scope = "scope";
  t.home = "/state";
  return t;
}

std::string text_of(const fs::path& file) {
  std::ostringstream out;
  out << std::ifstream{file}.rdbuf();
  return out.str();
}

constexpr const char* id = "0123abcd-0000-4000-8000-000000000001";
constexpr const char* same_start = "0123abcd-0000-4000-8000-000000000002";

} // namespace

TEST_CASE("git's output is bounded, its failures are told, and it sees nothing of the caller's GIT_DIR") {
  repository r;
  git in{r.root};
  CHECK(in.line({"rev-parse", "--abbrev-ref", "HEAD"}) == "main");
  auto failed = in.run({"rev-parse", "--verify", "--quiet", "nothing"});
  CHECK(failed.status == 1);
  CHECK_THROWS_WITH_AS(in.output({"checkout", "nothing"}), doctest::Contains("nothing"), failure);
  setenv("GIT_DIR", "/nowhere", 1);
  setenv("GIT_INDEX_FILE", "/nowhere", 1);
  CHECK(in.run({"status", "--porcelain"}).ok());
  unsetenv("GIT_DIR");
  unsetenv("GIT_INDEX_FILE");
  // More than is kept.
  std::ofstream{r.root + "/big"} << std::string(limits::git_output_bytes_max + 1'000'000, 'x');
  in.output({"add", "big"});
  auto big = in.run({"show", ":big"});
  CHECK(big.status == 0);
  CHECK_FALSE(big.complete);
  CHECK_FALSE(big.ok());
  CHECK(big.out.size() == limits::git_output_bytes_max);
  CHECK_THROWS_WITH_AS(in.output({"show", ":big"}), doctest::Contains("too much"), failure);
  CHECK(nul_separated(std::string{"a\0\0b\0", 5}) == std::vector<std::string>{"a", "", "b"});
  CHECK(nul_separated("").empty());
  // Nothing can stop to ask on a terminal.
  CHECK(in.run({"-c", "alias.ask=!test -t 0 || exec < /dev/tty", "ask"}).status != 0);
  CHECK_THROWS_WITH_AS(git{"/nowhere/at/all"}.output({"status"}), doctest::Contains("/nowhere/at/all"), failure);
}

TEST_CASE("the worktree of a task is made once and found again") {
  repository r;
  worker_trees trees{r.root};
  CHECK(trees.list().empty());
  auto made = trees.make(wanted(id), {});
  CHECK(made.branch == "swarm/0123abcd");
  CHECK(made.path == r.root + ".worktrees/0123abcd");
  CHECK(made.base == trees.commit("HEAD"));
  CHECK(made.base_branch == "main");
  CHECK(text_of(made.path + "/a.txt") == "one\n");
  std::ofstream{made.path + "/a.txt"} << "two\n";
  auto again = trees.make(wanted(id), {});
  CHECK(again.path == made.path);
  CHECK(text_of(again.path + "/a.txt") == "two\n");
  REQUIRE(trees.list().size() == 1);
  CHECK(trees.list().front().task_id == id);
  CHECK(trees.list().front().origin == r.root);
  // From inside it is the same repository, home the same tree.
  CHECK(worker_trees{made.path + "/below"}.root() == r.root);
  auto found = find_worker_tree(made.path, id);
  REQUIRE(found);
  CHECK(found->branch == made.branch);
  CHECK_FALSE(find_worker_tree(r.root, "other"));
  CHECK_FALSE(find_worker_tree("/", id));
}

TEST_CASE("a branch that is there already is not taken for another task's") {
  repository r;
  worker_trees trees{r.root};
  trees.home().output({"branch", "swarm/0123abcd"});
  auto made = trees.make(wanted(id), {});
  CHECK(made.branch == std::string{"swarm/"} + id);
  CHECK(made.path == r.root + ".worktrees/" + id);
  // Nor is the one of a task whose id begins alike.
  trees.home().output({"branch", "-D", "swarm/0123abcd"});
  auto first = trees.make(wanted(same_start), {});
  CHECK(first.branch == "swarm/0123abcd");
  CHECK(trees.make(wanted(id), {}).branch == std::string{"swarm/"} + id);
  CHECK(trees.list().size() == 2);
  // A place that is occupied.
  fs::create_directories(r.root + ".worktrees/ffffffff");
  CHECK(trees.make(wanted("ffffffff-0000"), {}).path == r.root + ".worktrees/ffffffff-0000");
  fs::create_directories(r.root + ".worktrees/eeeeeeee");
  fs::create_directories(r.root + ".worktrees/eeeeeeee-0000");
  CHECK_THROWS_WITH_AS(trees.make(wanted("eeeeeeee-0000"), {}), doctest::Contains("is there already"), failure);
}

TEST_CASE("what was lost on the way is made again") {
  repository r;
  worker_trees trees{r.root};
  auto made = trees.make(wanted(id), {});
  git in{made.path};
  std::ofstream{made.path + "/a.txt"} << "two\n";
  in.output({"commit", "--quiet", "-am", "two"});
  SUBCASE("its directory was removed") {
    fs::remove_all(made.path);
    auto again = trees.make(wanted(id), {});
    CHECK(again.path == made.path);
    CHECK(text_of(again.path + "/a.txt") == "two\n");
    CHECK(trees.list().size() == 1);
  }
  SUBCASE("its maker was killed before it could write down whose it is") {
    fs::remove(made.directory + "/swarm.json");
    CHECK(trees.list().empty());
    auto again = trees.make(wanted(id), {});
    CHECK(again.path == made.path);
    CHECK(again.branch == made.branch);
    CHECK(trees.list().size() == 1);
  }
  SUBCASE("the record is damaged") {
    for (const auto* text : {"", "{", "[]", "{\"task\":7}", "{\"task\":\"x\",\"branch\":\"main\"}"}) {
      std::ofstream{made.directory + "/swarm.json"} << text;
      CHECK(trees.list().empty());
      // It is nobody's, so it is not touched, and another one is made.
      CHECK(fs::exists(made.path + "/a.txt"));
    }
    CHECK(trees.make(wanted(id), {}).branch == std::string{"swarm/"} + id);
  }
}

TEST_CASE("what is in a worktree: when git cannot tell, it counts as work") {
  repository r;
  worker_trees trees{r.root};
  auto made = trees.make(wanted(id), {});
  auto fresh = trees.look(made);
  CHECK(fresh.present);
  CHECK_FALSE(fresh.dirty());
  CHECK(fresh.merged);
  CHECK(worker_trees::untouched(made, fresh));
  CHECK_FALSE(fresh.in_use);
  {
    auto used = worker_trees::use(made);
    CHECK(trees.look(made).in_use);
  }
  CHECK_FALSE(trees.look(made).in_use);
  git in{made.path};
  SUBCASE("commits count both ways") {
    std::ofstream{made.path + "/b"} << "b";
    in.output({"add", "b"});
    in.output({"commit", "--quiet", "-m", "b"});
    trees.home().output({"commit", "--quiet", "--allow-empty", "-m", "x"});
    trees.home().output({"commit", "--quiet", "--allow-empty", "-m", "y"});
    auto s = trees.look(made);
    CHECK(s.ahead == 1);
    CHECK(s.behind == 2);
    CHECK_FALSE(s.merged);
    CHECK_FALSE(s.dirty());
    CHECK_FALSE(worker_trees::untouched(made, s));
  }
  SUBCASE("a commit on no branch is not merged") {
    in.output({"checkout", "--quiet", "--detach"});
    in.output({"commit", "--quiet", "--allow-empty", "-m", "x"});
    CHECK_FALSE(trees.look(made).merged);
  }
  SUBCASE("a renamed file") {
    in.output({"mv", "a.txt", "b.txt"});
    CHECK(trees.look(made).changes == std::vector<std::string>{"b.txt", "a.txt"});
  }
  SUBCASE("its place is not there") {
    fs::rename(r.root + ".worktrees", r.top + "/away");
    auto s = trees.look(made);
    CHECK_FALSE(s.present);
    CHECK(s.dirty());
  }
  SUBCASE("it was removed by hand") {
    fs::create_directories(r.root + ".worktrees/other");
    fs::remove_all(made.path);
    auto s = trees.look(made);
    CHECK_FALSE(s.present);
    CHECK_FALSE(s.dirty());
    CHECK(s.merged);
    CHECK(trees.remove(made).empty());
    CHECK(trees.list().empty());
  }
  SUBCASE("it was removed by hand, with its branch") {
    fs::create_directories(r.root + ".worktrees/other");
    fs::remove_all(made.path);
    fs::remove(r.root + "/.git/refs/heads/" + made.branch);
    auto s = trees.look(made);
    CHECK(s.tip.empty());
    CHECK_FALSE(s.dirty());
    CHECK(s.merged);
    CHECK(trees.remove(made).empty());
    CHECK(trees.list().empty());
  }
  SUBCASE("its record goes and its branch stays") {
    fs::remove_all(r.root + ".worktrees");
    CHECK(trees.remove(made, worker_trees::branch::stays).empty());
    CHECK(trees.list().empty());
    CHECK_FALSE(trees.commit("refs/heads/" + made.branch).empty());
  }
  SUBCASE("git refuses to remove what has work in it") {
    std::ofstream{made.path + "/b"} << "b";
    CHECK_FALSE(trees.remove(made).empty());
    CHECK(fs::exists(made.path + "/b"));
    CHECK_FALSE(trees.commit("refs/heads/swarm/0123abcd").empty());
  }
}

TEST_CASE("work is found however it hides") {
  repository r;
  worker_trees trees{r.root};
  auto made = trees.make(wanted(id), {});
  git in{made.path};
  auto write = [&](const std::string& name, const std::string& text) {
    fs::create_directories(fs::path{made.path + "/" + name}.parent_path());
    std::ofstream{made.path + "/" + name} << text;
  };
  REQUIRE_FALSE(trees.look(made).dirty());
  SUBCASE("changed") { write("a.txt", "two\n"); }
  SUBCASE("removed") { fs::remove(made.path + "/a.txt"); }
  SUBCASE("staged") {
    write("a.txt", "two\n");
    in.output({"add", "a.txt"});
  }
  SUBCASE("untracked") { write("sub/new", ""); }
  SUBCASE("untracked, and not to be shown") {
    in.output({"config", "status.showUntrackedFiles", "no"});
    write("new", "");
  }
  SUBCASE("assumed to be unchanged") {
    in.output({"update-index", "--assume-unchanged", "a.txt"});
    write("a.txt", "two\n");
  }
  SUBCASE("outside of a sparse checkout") {
    in.output({"update-index", "--skip-worktree", "a.txt"});
    write("a.txt", "two\n");
  }
  SUBCASE("a repository in it") {
    git{made.path}.output({"init", "--quiet", made.path + "/nested"});
    write("nested/x", "x");
  }
  SUBCASE("the index is broken") {
    write("a.txt", "two\n");
    std::ofstream{made.directory + "/index"} << "rubbish";
  }
  SUBCASE("the index cannot be read") {
    fs::remove(made.directory + "/index");
    fs::create_directories(made.directory + "/index");
  }
  SUBCASE(".git is gone") { fs::remove(made.path + "/.git"); }
  SUBCASE(".git is damaged") { std::ofstream{made.path + "/.git"} << "gitdir: /nowhere\n"; }
  SUBCASE("HEAD is damaged") { std::ofstream{made.directory + "/HEAD"} << "rubbish"; }
  SUBCASE("a merge is not finished") {
    trees.home().output({"checkout", "--quiet", "-b", "other"});
    trees.home().output({"commit", "--quiet", "--allow-empty", "-m", "x"});
    in.output({"merge", "--quiet", "--no-ff", "--no-commit", "other"});
  }
  SUBCASE("a cherry-pick is not finished") { std::ofstream{made.directory + "/CHERRY_PICK_HEAD"} << made.base; }
  SUBCASE("a rebase is not finished") { fs::create_directories(made.directory + "/rebase-merge"); }
  auto s = trees.look(made);
  CHECK(s.dirty());
  CHECK_FALSE(worker_trees::untouched(made, s));
  CHECK(fs::exists(made.path));
}

TEST_CASE("ignored files are no work") {
  repository r;
  std::ofstream{r.root + "/.gitignore"} << "*.o\n";
  git{r.root}.output({"add", ".gitignore"});
  git{r.root}.output({"commit", "--quiet", "-m", "ignore"});
  worker_trees trees{r.root};
  auto made = trees.make(wanted(id), {});
  std::ofstream{made.path + "/built.o"} << "x";
  auto s = trees.look(made);
  CHECK_FALSE(s.dirty());
  CHECK(worker_trees::untouched(made, s));
  CHECK(trees.remove(made).empty());
  CHECK_FALSE(fs::exists(made.path));
  CHECK_FALSE(fs::exists(r.root + ".worktrees"));
  CHECK(trees.commit("refs/heads/swarm/0123abcd").empty());
}

TEST_CASE("workers' trees of a bare repository go home to the tree they were made for") {
  repository r;
  git{r.top}.output({"clone", "--quiet", "--bare", r.root, r.top + "/bare.git"});
  git{r.top + "/bare.git"}.output({"worktree", "add", "--quiet", "-b", "mine", r.top + "/mine", "main"});
  worker_trees trees{r.top + "/mine"};
  auto made = trees.make(wanted(id), {});
  CHECK(made.base_branch == "mine");
  CHECK(worker_trees{made.path}.root() == r.top + "/mine");
  git{r.top + "/bare.git"}.output({"worktree", "remove", r.top + "/mine"});
  CHECK_THROWS_WITH_AS(worker_trees{made.path}, doctest::Contains("no main worktree"), failure);
  CHECK_THROWS_AS(worker_trees{r.top}, failure);
}
