#include "actors/base/worktree.hpp"

#include <filesystem>
#include <fstream>
#include <stdexcept>

#include <doctest/doctest.h>
#include <stdlib.h>
#include <sys/stat.h>

using namespace swarm;
namespace fs = std::filesystem;

namespace {

/// The files git would have written.
struct scratch {
  scratch() {
    std::string name = "/tmp/swarm-worktree-test-XXXXXX";
    REQUIRE(mkdtemp(name.data()) != nullptr);
    root = fs::canonical(name).string();
  }
  ~scratch() {
    std::error_code ec;
    fs::remove_all(root, ec);
  }
  scratch(const scratch&) = delete;
  scratch& operator=(const scratch&) = delete;

  std::string at(const std::string& name) const { return root + "/" + name; }
  void write(const std::string& name, const std::string& text) const {
    fs::create_directories(fs::path{at(name)}.parent_path());
    std::ofstream{at(name)} << text;
  }
  void repository(const std::string& git_directory) const {
    write(git_directory + "/HEAD", "ref: refs/heads/main\n");
    fs::create_directories(at(git_directory + "/objects"));
  }
  void linked(const std::string& tree, const std::string& git_directory) const {
    auto own = git_directory + "/worktrees/" + fs::path{tree}.filename().string();
    write(own + "/HEAD", "ref: refs/heads/other\n");
    write(own + "/commondir", "../..\n");
    write(own + "/gitdir", at(tree) + "/.git\n");
    write(tree + "/.git", "gitdir: " + at(own) + "\n");
  }

  std::string root;
};

} // namespace

TEST_CASE("a file of a linked worktree has the path of the same file in the main one") {
  scratch s;
  s.repository("repo/.git");
  s.linked("trees/one", "repo/.git");
  s.write("trees/one/src/a.txt", "");
  CHECK(repository_path(s.at("trees/one/src/a.txt")) == s.at("repo/src/a.txt"));
  CHECK(repository_path(s.at("trees/one/not/there/yet")) == s.at("repo/not/there/yet"));
  CHECK(repository_path(s.at("trees/one")) == s.at("repo"));
  CHECK(repository_path(s.at("trees/one/src/a.txt/below")) == s.at("repo/src/a.txt/below"));
  CHECK(repository_path(s.at("trees/one.more/a")) == s.at("trees/one.more/a"));
  CHECK(repository_path(s.at("repo/src/a.txt")) == s.at("repo/src/a.txt"));
  CHECK(repository_path(s.at("trees")) == s.at("trees"));
  CHECK(repository_path("/") == "/");
  CHECK(repository_path("") == "");

  auto tree = find_git_tree(s.at("trees/one/src"));
  REQUIRE(tree);
  CHECK(tree->linked);
  CHECK(tree->root == s.at("trees/one"));
  CHECK(tree->repository == s.at("repo"));
  CHECK(tree->common_directory == s.at("repo/.git"));
  CHECK(tree->git_directory == s.at("repo/.git/worktrees/one"));
  auto main = find_git_tree(s.at("repo/src/deep/er"));
  REQUIRE(main);
  CHECK_FALSE(main->linked);
  CHECK(main->root == s.at("repo"));
  CHECK(main->repository == s.at("repo"));
  CHECK_FALSE(find_git_tree(s.at("trees")));
}

TEST_CASE("the pointer to the repository may be relative, in any spelling git reads") {
  scratch s;
  s.repository("repo/.git");
  s.linked("trees/one", "repo/.git");
  s.write("trees/one/.git", "gitdir: ../../repo/.git/worktrees/one");
  CHECK(repository_path(s.at("trees/one/a")) == s.at("repo/a"));
  s.write("trees/one/.git", "gitdir:../../repo/./.git/worktrees/../worktrees/one\r\n\n");
  CHECK(repository_path(s.at("trees/one/a")) == s.at("repo/a"));
  s.write("repo/.git/worktrees/one/commondir", s.at("repo/.git"));
  CHECK(repository_path(s.at("trees/one/a")) == s.at("repo/a"));
}

TEST_CASE("symlinks on the way to a worktree do not hide it") {
  scratch s;
  s.repository("repo/.git");
  s.linked("trees/one", "repo/.git");
  s.write("trees/one/.git", "gitdir: ../../repo/.git/worktrees/one");
  fs::create_directories(s.at("far/away"));
  fs::create_directory_symlink(s.at("trees/one"), s.at("far/away/link"));
  CHECK(repository_path(s.at("far/away/link/a")) == s.at("repo/a"));
  // The repository under another name: the scope says which one is used.
  fs::create_directory_symlink(s.at("repo"), s.at("short"));
  CHECK(repository_path(s.at("trees/one/a"), s.at("short")) == s.at("short/a"));
  CHECK(repository_path(s.at("trees/one/a"), s.at("trees")) == s.at("repo/a"));
  CHECK(repository_path(s.at("trees/one/a"), "short") == s.at("repo/a"));
}

TEST_CASE("a scope that is the linked worktree itself keeps its own paths") {
  scratch s;
  s.repository("repo/.git");
  s.linked("trees/one", "repo/.git");
  CHECK(repository_path(s.at("trees/one/a"), s.at("trees/one")) == s.at("trees/one/a"));
  CHECK(repository_path(s.at("trees/one/src/a"), s.at("trees/one/src")) == s.at("trees/one/src/a"));
  CHECK(repository_path(s.at("trees/one/a"), s.at("repo")) == s.at("repo/a"));
  CHECK(repository_path(s.at("trees/one/a"), s.at("repo/src")) == s.at("repo/a"));
  CHECK(repository_path(s.at("trees/one/a"), "a-name") == s.at("repo/a"));
  // Somebody works in a linked tree of their own, and so do their workers.
  s.linked("trees/mine", "repo/.git");
  CHECK(repository_path(s.at("trees/one/a"), s.at("trees/mine")) == s.at("trees/mine/a"));
  CHECK(repository_path(s.at("repo/a"), s.at("trees/mine")) == s.at("repo/a"));
  // Another repository's worktree does not belong to it.
  s.repository("other/.git");
  CHECK(repository_path(s.at("trees/one/a"), s.at("other")) == s.at("repo/a"));
}

TEST_CASE("what is broken is no linked worktree") {
  scratch s;
  s.repository("repo/.git");
  s.linked("trees/one", "repo/.git");
  auto own = [&](const std::string& text) {
    s.write("trees/one/.git", text);
    return repository_path(s.at("trees/one/a")) == s.at("trees/one/a") && !find_git_tree(s.at("trees/one/a"));
  };
  CHECK(own(""));
  CHECK(own("\n"));
  CHECK(own("gitdir:"));
  CHECK(own("gitdir: \n"));
  CHECK(own("gitdir: /nowhere/at/all\n"));
  CHECK(own("gitdir: " + s.at("repo/.git/worktrees/gone") + "\n"));
  CHECK(own("gitdir: " + s.at("repo/.git/worktrees/one/HEAD") + "\n")); // a file
  CHECK(own("gitdir: " + s.at("repo/.git/worktrees/one") + "\nand more\n"));
  CHECK(own(std::string{"gitdir: "} + '\0' + s.at("repo")));
  CHECK(own("gitdir: " + std::string(100'000, 'x')));
  CHECK(own(std::string(100'000, '\n') + "gitdir: " + s.at("repo/.git/worktrees/one")));
  CHECK(own("directory: " + s.at("repo/.git/worktrees/one")));
  auto good = "gitdir: " + s.at("repo/.git/worktrees/one") + "\n";
  CHECK_FALSE(own(good));
  s.write("repo/.git/worktrees/one/commondir", "");
  CHECK(own(good));
  s.write("repo/.git/worktrees/one/commondir", "../../../nowhere");
  CHECK(own(good));
  s.write("repo/.git/worktrees/one/commondir", "../../..\n"); // no repository
  CHECK(own(good));
  // Nothing there holds us up.
  fs::remove(s.at("trees/one/.git"));
  REQUIRE(mkfifo(s.at("trees/one/.git").c_str(), 0600) == 0);
  CHECK(repository_path(s.at("trees/one/a")) == s.at("trees/one/a"));
  fs::remove(s.at("trees/one/.git"));
  fs::create_symlink(".git", s.at("trees/one/.git"));
  CHECK(repository_path(s.at("trees/one/a")) == s.at("trees/one/a"));
  // Nor is an empty .git a repository.
  fs::create_directories(s.at("plain/.git"));
  CHECK_FALSE(find_git_tree(s.at("plain/a")));
}

TEST_CASE("a submodule is no linked worktree, but may lie in one") {
  scratch s;
  s.repository("repo/.git");
  s.repository("repo/.git/modules/sub");
  s.write("repo/sub/.git", "gitdir: ../.git/modules/sub\n");
  CHECK(repository_path(s.at("repo/sub/a")) == s.at("repo/sub/a"));
  auto tree = find_git_tree(s.at("repo/sub/a"));
  REQUIRE(tree);
  CHECK_FALSE(tree->linked);
  CHECK(tree->repository == s.at("repo/sub"));

  s.linked("trees/one", "repo/.git");
  s.repository("repo/.git/worktrees/one/modules/sub");
  s.write("trees/one/sub/.git", "gitdir: " + s.at("repo/.git/worktrees/one/modules/sub"));
  CHECK(repository_path(s.at("trees/one/sub/a")) == s.at("repo/sub/a"));

  // A linked worktree of the submodule: where its main one is, its configuration says.
  s.linked("trees/of-sub", "repo/.git/modules/sub");
  CHECK(repository_path(s.at("trees/of-sub/a")) == s.at("repo/.git/modules/sub/a"));
  s.write("repo/.git/modules/sub/config", "[user]\n\tworktree = /wrong\n[CORE]\n\tbare = false\n\tWorktree = ../../../sub\n[x]\nworktree = y\n");
  CHECK(repository_path(s.at("trees/of-sub/a")) == s.at("repo/sub/a"));
}

TEST_CASE("a repository inside a linked worktree is one of its own") {
  scratch s;
  s.repository("repo/.git");
  s.linked("trees/one", "repo/.git");
  s.repository("trees/one/vendor/x/.git");
  CHECK(repository_path(s.at("trees/one/vendor/x/a")) == s.at("trees/one/vendor/x/a"));
  CHECK(repository_path(s.at("trees/one/vendor/a")) == s.at("repo/vendor/a"));
}

TEST_CASE("worktrees of a bare repository share paths below it") {
  scratch s;
  s.repository("repo.git");
  s.linked("trees/one", "repo.git");
  s.linked("trees/two", "repo.git");
  CHECK(repository_path(s.at("trees/one/a")) == s.at("repo.git/a"));
  CHECK(repository_path(s.at("trees/two/a")) == s.at("repo.git/a"));
}

TEST_CASE("a lock of who works in a linked worktree means the file there") {
  scratch s;
  s.repository("repo/.git");
  s.linked("trees/one", "repo/.git");
  const auto linked = find_git_tree(s.at("trees/one")), own = find_git_tree(s.at("repo"));
  REQUIRE(linked);
  REQUIRE(own);
  CHECK(path_in_tree(*linked, s.at("repo/src/a.txt"), s.at("repo")) == s.at("trees/one/src/a.txt"));
  CHECK(path_in_tree(*linked, s.at("repo"), s.at("repo")) == s.at("repo"));
  CHECK(path_in_tree(*linked, s.at("elsewhere/a"), s.at("repo")) == s.at("elsewhere/a"));
  CHECK(path_in_tree(*linked, s.at("repo/a"), "name") == s.at("trees/one/a"));
  // Its scope is the worktree: names are those of its files.
  CHECK(path_in_tree(*linked, s.at("repo/a"), s.at("trees/one")) == s.at("repo/a"));
  CHECK(path_in_tree(*own, s.at("repo/a"), s.at("repo")) == s.at("repo/a"));
}
