// Merging a worker's worktree: what of the main worktree it leaves alone, and what is there when it does not come to its end.
#include <csignal>
#include <filesystem>
#include <fstream>

#include <doctest/doctest.h>

#include "tests/support/repository.hpp"

using namespace swarm::testing;

namespace {

/// Says in `file` that it runs, with its process, and waits for the file `go` in the repository. So does a process group that it starts.
std::string waiting_hook(const repository& repo, const std::string& end = "exit 0") {
  return "echo $$ > " + repo.node.work() + "/hook; timeout 1000 sh -c 'echo $$ > " + repo.node.work() + "/inner; while ! test -e " +
         repo.node.work() + "/go; do sleep 0.05; done'; " + end;
}

void hook(const repository& repo, const std::string& name, const std::string& script) {
  auto file = repo.root + "/.git/hooks/" + name;
  fs::create_directories(repo.root + "/.git/hooks");
  std::ofstream{file} << "#!/bin/sh\n" << script << "\n";
  fs::permissions(file, fs::perms::owner_all);
}

bool hook_runs(const repository& repo) {
  return eventually([&] { return !file_text(repo.node.work() + "/inner").empty(); });
}

bool hook_is_gone(const repository& repo) {
  return eventually([&] {
    return !is_running(static_cast<pid_t>(std::stol(file_text(repo.node.work() + "/hook")))) &&
           !is_running(static_cast<pid_t>(std::stol(file_text(repo.node.work() + "/inner"))));
  });
}

void forget_hook(const repository& repo) {
  for (const auto* name : {"hook", "inner", "go"})
    fs::remove(fs::path{repo.node.work()} / name);
}

/// Makes, changes and removes files, and puts a file in the place of a directory.
constexpr const char* many_changes =
  "echo two > a.txt; git rm -q sub/b.txt; echo file > sub; mkdir new; echo x > new/file; git add -A; git commit -qm worker";

void check_as_before(const repository& repo, const std::string& head) {
  CHECK(repo.head() == head);
  CHECK(repo.status() == "## main\n");
  CHECK(repo.read("a.txt") == "one\n");
  CHECK(repo.read("sub/b.txt") == "one\n");
  CHECK_FALSE(fs::exists(repo.root + "/new"));
  CHECK_FALSE(fs::exists(repo.root + "/.git/MERGE_HEAD"));
  CHECK_FALSE(fs::exists(repo.root + "/.git/index.lock"));
}

/// Then the merge is a commit of its own.
void change_main(const repository& repo) {
  repo.write("main.txt", "main\n");
  repo.commit("main");
}

} // namespace

TEST_CASE("a merge that would overwrite an ignored file of the main worktree is refused with a conflict and without one") {
  repository repo;
  repo.write(".gitignore", "*.o\n.env\nlocal\n");
  repo.commit("ignore");
  const auto row = repo.worker("env", "echo template > .env; git add -f .env; git commit -qm env");
  const auto id = text(row, "task_id"), path = text(row, "path");
  repo.write(".env", "mine\n");
  auto refused = [&](const std::string& task, const std::string& name) {
    auto merge = repo.ctl({"worktree", "merge", task});
    CHECK(merge.status == 1);
    CHECK_MESSAGE(merge.err.find("nothing was changed") != std::string::npos, merge.err);
    CHECK_MESSAGE(merge.err.find("not in git: " + name) != std::string::npos, merge.err);
    CHECK(repo.status() == "## main\n");
    CHECK(repo.read(".env") == "mine\n");
  };
  refused(id, ".env"); // a fast-forward
  change_main(repo);
  refused(id, ".env");
  repo.write("a.txt", "main\n");
  repo.commit("main changes it, too");
  std::ofstream{path + "/a.txt"} << "worker\n";
  repo.commit("conflict", path);
  refused(id, ".env");
  fs::remove(repo.root + "/.env");
  auto conflict = repo.ctl({"worktree", "merge", id, "--json"});
  CHECK(conflict.parsed().at("conflicts") == json::array({"a.txt"}));

  // A directory in the place of an ignored file, and a file in that of a directory that holds one.
  auto made = text(repo.worker("made", "mkdir local; echo x > local/x; echo y > place; git add -f .; git commit -qm made"), "task_id");
  repo.write(".env", "mine\n");
  repo.write("local", "mine\n");
  refused(made, "local");
  CHECK(repo.read("local") == "mine\n");
  fs::remove(repo.root + "/local");
  fs::create_directories(repo.root + "/place");
  repo.write("place/built.o", "mine\n");
  refused(made, "place/built.o");
  CHECK(repo.read("place/built.o") == "mine\n");
  // What is ignored elsewhere is in nobody's way.
  fs::rename(repo.root + "/place", repo.root + "/elsewhere");
  CHECK(repo.ctl({"worktree", "merge", made}).status == 0);
  CHECK(repo.read("place") == "y\n");
  CHECK(repo.read("local/x") == "x\n");
  CHECK(repo.read("elsewhere/built.o") == "mine\n");
}

TEST_CASE("a merge is refused when somebody has locked a file under the name that the main branch has given it since") {
  repository repo;
  auto peer = repo.session("name:peer");
  repo.write("long.txt", "1\n2\n3\n4\n5\n6\n7\n8\n9\n");
  repo.write("sub/long.txt", "a\nb\nc\nd\ne\nf\ng\nh\ni\n");
  repo.commit("long");
  auto id = text(repo.worker("edit", "sed -i s/^5$/five/ long.txt; sed -i s/^e$/five/ sub/long.txt; git commit -qam worker"), "task_id");
  repo.git({"mv", "long.txt", "renamed.txt"});
  repo.git({"mv", "sub", "lib"});
  repo.commit("rename");
  const auto head = repo.head();
  for (const std::string name : {"renamed.txt", "lib", "lib/long.txt", "long.txt"}) {
    CAPTURE(name);
    REQUIRE(repo.ctl({"lock", name, "--as", peer}).status == 0);
    auto refused = repo.ctl({"worktree", "merge", id});
    CHECK(refused.status == 1);
    CHECK_MESSAGE(refused.err.find(repo.root + "/" + name + ": held by name:peer") != std::string::npos, refused.err);
    CHECK(repo.head() == head);
    REQUIRE(repo.ctl({"unlock", name, "--as", peer}).status == 0);
  }
  REQUIRE(repo.ctl({"lock", "lib/b.txt", "--as", peer}).status == 0);
  CHECK(repo.ctl({"worktree", "merge", id}).status == 0);
  CHECK(repo.read("renamed.txt").find("five") != std::string::npos);
  CHECK(repo.read("lib/long.txt").find("five") != std::string::npos);
}

TEST_CASE("a merge that does not end in time is taken back and the hook that it waited for is ended") {
  repository repo;
  auto row = repo.worker("slow", many_changes);
  change_main(repo);
  hook(repo, "pre-merge-commit", waiting_hook(repo));
  const auto head = repo.head();
  std::ofstream{repo.node.dir().config_file()} << "[limits]\ngit_deadline = 15000\n"; // the least there is
  auto merge = repo.ctl({"worktree", "merge", text(row, "task_id")}, {.deadline = patience * 4});
  CHECK(merge.status == 1);
  CHECK_MESSAGE(merge.err.find("not merged, nothing was changed: git merge did not end in time") != std::string::npos, merge.err);
  CHECK(hook_is_gone(repo));
  check_as_before(repo, head);
  fs::remove(repo.node.dir().config_file());
  hook(repo, "pre-merge-commit", "exit 0");
  CHECK(repo.ctl({"worktree", "merge", text(row, "task_id")}).status == 0);
  CHECK(repo.read("sub") == "file\n");
}

TEST_CASE("a signal during a merge ends git and its hook and takes the merge back with status 130") {
  repository repo;
  auto row = repo.worker("interrupted", many_changes);
  change_main(repo);
  hook(repo, "pre-merge-commit", waiting_hook(repo));
  const auto head = repo.head();
  for (auto signal : {SIGINT, SIGTERM, SIGHUP}) {
    CAPTURE(signal);
    auto merge = repo.node.ctl_start({"worktree", "merge", text(row, "task_id")}, {.directory = repo.root});
    REQUIRE(hook_runs(repo));
    merge.signal(signal);
    auto ended = merge.finish();
    CHECK(ended.status == 130);
    CHECK_MESSAGE(ended.err.find("not merged, nothing was changed: git merge was interrupted") != std::string::npos, ended.err);
    CHECK(hook_is_gone(repo));
    check_as_before(repo, head);
    CHECK(repo.trees().size() == 1);
    forget_hook(repo);
  }
  hook(repo, "pre-merge-commit", "exit 0");
  CHECK(repo.ctl({"worktree", "merge", text(row, "task_id")}).status == 0);
  CHECK(repo.trees().empty());
}

TEST_CASE("a signal that comes when git has merged already undoes nothing") {
  repository repo;
  auto row = repo.worker("merged", many_changes);
  change_main(repo);
  hook(repo, "post-merge", waiting_hook(repo));
  auto merge = repo.node.ctl_start({"worktree", "merge", text(row, "task_id")}, {.directory = repo.root});
  REQUIRE(hook_runs(repo));
  merge.signal(SIGTERM);
  auto ended = merge.finish();
  CHECK(ended.status == 0);
  CHECK_MESSAGE(ended.out.find("merged " + text(row, "branch") + " into main") != std::string::npos, ended.err);
  CHECK(hook_is_gone(repo));
  CHECK(repo.read("sub") == "file\n");
  CHECK(repo.status() == "## main\n");
  CHECK(repo.trees().empty());
  CHECK_FALSE(fs::exists(repo.root + "/.git/MERGE_HEAD"));
}

TEST_CASE("a merge that a hook refuses leaves what others have written and staged meanwhile and says so and leaves no merge unfinished") {
  repository repo;
  auto row = repo.worker("refused", many_changes);
  change_main(repo);
  hook(repo, "pre-merge-commit", waiting_hook(repo, "echo the tests fail >&2; exit 1"));
  const auto head = repo.head();
  auto merge = repo.node.ctl_start({"worktree", "merge", text(row, "task_id")}, {.directory = repo.root});
  REQUIRE(hook_runs(repo));
  repo.write("a.txt", "two\nand a peer's line\n");
  repo.write("main.txt", "staged by a peer\n");
  repo.git({"add", "main.txt"});
  std::ofstream{repo.node.work() + "/go"} << "\n";
  auto ended = merge.finish();
  CHECK(ended.status == 1);
  CHECK_MESSAGE(ended.err.find("the tests fail") != std::string::npos, ended.err);
  CHECK(ended.err.find("conflict") == std::string::npos);
  CHECK_MESSAGE(ended.err.find("somebody changed while it ran") != std::string::npos, ended.err);
  CHECK_MESSAGE(ended.err.find("\n  a.txt\n") != std::string::npos, ended.err);
  CHECK(repo.head() == head);
  CHECK_FALSE(fs::exists(repo.root + "/.git/MERGE_HEAD"));
  CHECK(repo.status() == "## main\n M a.txt\nM  main.txt\n");
  CHECK(repo.read("a.txt") == "two\nand a peer's line\n");
  CHECK(repo.read("main.txt") == "staged by a peer\n");
  CHECK(repo.read("sub/b.txt") == "one\n");
  CHECK_FALSE(fs::exists(repo.root + "/new"));
  // Without a peer all is as before, also when git was ended with half of the files written and nothing staged.
  forget_hook(repo);
  repo.git({"checkout", "-q", "HEAD", "--", "a.txt", "main.txt"});
  for (const std::string half : {"", "git reset -q; rm a.txt; ", "git reset -q; rm -r new; "}) {
    CAPTURE(half);
    hook(repo, "pre-merge-commit", half + "echo the tests fail >&2; exit 1");
    auto again = repo.ctl({"worktree", "merge", text(row, "task_id")});
    CHECK(again.status == 1);
    CHECK_MESSAGE(again.err.find("nothing was changed: the tests fail") != std::string::npos, again.err);
    check_as_before(repo, head);
  }
}

TEST_CASE("a merge is one also when the options of the branch say squash or no commit") {
  repository repo;
  for (const std::string options : {"--squash", "--no-commit --no-ff"}) {
    CAPTURE(options);
    auto row = repo.worker("with " + options, "echo x >> worker.txt; git add -A; git commit -qm worker");
    const auto tip = repo.git({"rev-parse", text(row, "branch")}).out;
    repo.git({"config", "branch.main.mergeOptions", options});
    auto merge = repo.ctl({"worktree", "merge", text(row, "task_id")});
    CHECK_MESSAGE(merge.status == 0, merge.err);
    CHECK(repo.git({"merge-base", tip.substr(0, tip.find('\n')), "HEAD"}).out == tip);
    CHECK(repo.status() == "## main\n");
    CHECK(repo.trees().empty());
    CHECK_FALSE(fs::exists(repo.root + "/.git/SQUASH_MSG"));
  }
}

TEST_CASE("a merge that a hook undoes although git succeeds is refused and worktree and branch stay") {
  repository repo;
  auto row = repo.worker("undone", many_changes);
  change_main(repo);
  const auto head = repo.head();
  hook(repo, "post-merge", "git reset -q --hard HEAD^");
  auto merge = repo.ctl({"worktree", "merge", text(row, "task_id")});
  CHECK(merge.status == 1);
  CHECK_MESSAGE(merge.err.find("although git merge succeeded") != std::string::npos, merge.err);
  check_as_before(repo, head);
  CHECK(repo.has_branch(text(row, "branch")));
  CHECK(repo.trees().size() == 1);
  hook(repo, "post-merge", "exit 0");
  CHECK(repo.ctl({"worktree", "merge", text(row, "task_id")}).status == 0);
  CHECK(repo.read("sub") == "file\n");
}
