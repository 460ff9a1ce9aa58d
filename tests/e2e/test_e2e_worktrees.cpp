// Workers in git worktrees of their own: made, locked under the repository's paths, merged, kept when there is work in them.
#include <csignal>
#include <filesystem>
#include <fstream>

#include <doctest/doctest.h>

#include "tests/support/mcp_client.hpp"
#include "tests/support/repository.hpp"

using namespace swarm::testing;

TEST_CASE("a worker with a worktree of its own works there, on a branch of its own, and the exit status is its own") {
  repository repo;
  auto ran = repo.ctl(repo.line("look", "pwd; echo tree=$SWARM_WORKTREE; git branch --show-current; echo two > a.txt; exit 5"));
  CAPTURE(ran.out);
  CHECK(ran.status == 5);
  CHECK(repo.read("a.txt") == "one\n");
  auto row = repo.tree("look");
  REQUIRE(row.is_object());
  auto path = text(row, "path");
  CHECK(path.starts_with(repo.root + ".worktrees/"));
  CHECK(text(row, "branch") == "swarm/" + text(row, "task_id").substr(0, 8));
  CHECK(ran.out.find(path + "\n") != std::string::npos);
  CHECK(ran.out.find("tree=" + path + "\n") != std::string::npos);
  CHECK(ran.out.find(text(row, "branch") + "\n") != std::string::npos);
  CHECK(ran.err.find("swarmctl worktree diff " + text(row, "task_id").substr(0, 8)) != std::string::npos);
  CHECK(file_text(path + "/a.txt") == "two\n");
  CHECK(row.at("task_status") == "failed");
  CHECK(row.at("dirty") == true);
  CHECK(row.at("ahead") == 0);
  CHECK(row.at("behind") == 0);
  CHECK(row.at("present") == true);
  CHECK(row.at("in_use") == false);
  CHECK(row.at("base_branch") == "main");
  CHECK(row.at("base").get<std::string>() + "\n" == repo.head());
  CHECK(row.at("problem").is_null());
  // The main worktree has not noticed.
  CHECK(repo.status() == "## main\n");
}

TEST_CASE("a worker that succeeds and leaves nothing leaves no worktree either") {
  repository repo;
  auto ran = repo.ctl_json(repo.line("read", "cat a.txt; touch built.o; true"));
  CHECK(ran.at("task").at("status") == "done");
  CHECK(ran.at("worktree").is_null());
  CHECK(repo.trees().empty());
  CHECK_FALSE(fs::exists(repo.root + ".worktrees"));
  CHECK(repo.git({"branch", "--list"}).out == "* main\n");
  CHECK(repo.git({"worktree", "list", "--porcelain"}).out.find("worktrees") == std::string::npos);
  // Failure keeps it, whatever is in it, until somebody prunes.
  CHECK(repo.ctl(repo.line("fail", "exit 1")).status == 1);
  auto failed = repo.tree("fail");
  CHECK(failed.at("dirty") == false);
  auto dry = repo.ctl_json({"worktree", "prune", "--dry-run"});
  CHECK(dry.at("dry_run") == true);
  CHECK(dry.at("removed").at(0).at("branch") == failed.at("branch"));
  CHECK(repo.trees().size() == 1);
  CHECK(repo.prune().at("removed").size() == 1);
  CHECK(repo.trees().empty());
  CHECK_FALSE(repo.has_branch(text(failed, "branch")));
}

TEST_CASE("two workers change the same file, the first is merged, the second conflicts, and the conflict becomes a task") {
  repository repo;
  auto first = repo.worker("first", "echo first >> a.txt; git commit -qam first");
  auto second = repo.worker("second", "echo second >> a.txt; echo more > new.txt; git add -A; git commit -qm second");
  REQUIRE(first.is_object());
  REQUIRE(second.is_object());
  auto diff = repo.ctl({"worktree", "diff", text(second, "task_id")});
  CHECK(repo.ctl({"worktree", "diff", "@last"}).out == diff.out);
  CHECK(diff.status == 0);
  CHECK(diff.out.find("+second\n") != std::string::npos);
  CHECK(diff.out.find("new.txt") != std::string::npos);

  auto merged = repo.ctl_json({"worktree", "merge", text(first, "task_id").substr(0, 8)});
  CHECK(merged.at("merged") == true);
  CHECK(merged.at("into") == "main");
  CHECK(merged.at("removed") == true);
  CHECK(merged.at("commit").get<std::string>() + "\n" == repo.head());
  CHECK(repo.read("a.txt") == "one\nfirst\n");
  CHECK_FALSE(fs::exists(text(first, "path")));
  CHECK_FALSE(repo.has_branch(text(first, "branch")));

  // What others have in the main worktree stays as it is.
  repo.write("sub/b.txt", "being edited\n");
  repo.write("untracked.txt", "mine\n");
  auto head = repo.head();
  auto status = repo.status();
  auto refused = repo.ctl({"worktree", "merge", text(second, "branch"), "--json"});
  CHECK(refused.status == 1);
  auto conflict = refused.parsed();
  CHECK(conflict.at("merged") == false);
  CHECK(conflict.at("conflicts") == json::array({"a.txt"}));
  CHECK(refused.err.find(text(conflict, "merge_task_id")) != std::string::npos);
  CHECK(repo.head() == head);
  CHECK(repo.status() == status);
  CHECK(repo.read("a.txt") == "one\nfirst\n");
  CHECK(repo.read("sub/b.txt") == "being edited\n");
  CHECK_FALSE(fs::exists(repo.root + "/.git/MERGE_HEAD"));
  auto task = repo.ctl_json({"task", text(conflict, "merge_task_id")});
  CHECK(task.at("type") == "fix");
  CHECK(task.at("status") == "open");
  CHECK(text(task, "title").starts_with("Merge " + text(second, "branch")));
  CHECK(task.at("files") == json::array({repo.root + "/a.txt"}));
  CHECK(task.at("fixes_task_id") == second.at("task_id"));
  CHECK(text(task, "description").find("<<<<<<<") != std::string::npos);
  CHECK(text(task, "description").find("second") != std::string::npos);
  // The same conflict again is the same task.
  auto again = repo.ctl({"worktree", "merge", text(second, "branch"), "--json"}).parsed();
  CHECK(again.at("merge_task_id") == conflict.at("merge_task_id"));
  CHECK(again.at("existing") == true);

  // The session that takes it resolves it in the worktree and merges.
  auto path = text(second, "path");
  auto inside = child_process({"/usr/bin/env", "git", "merge", "-q", "main"}, repo.node.env(), path).finish();
  CHECK(inside.status == 1);
  std::ofstream{path + "/a.txt"} << "one\nfirst\nsecond\n";
  CHECK(repo.ctl({"worktree", "merge", text(second, "branch")}).err.find("a merge is not finished") != std::string::npos);
  repo.commit("resolved", path);
  auto home = repo.ctl_json({"worktree", "merge", text(second, "branch")});
  CHECK(home.at("merged") == true);
  CHECK(repo.read("a.txt") == "one\nfirst\nsecond\n");
  CHECK(repo.read("new.txt") == "more\n");
  CHECK(repo.read("sub/b.txt") == "being edited\n");
  CHECK(repo.trees().empty());
}

TEST_CASE("a merge is refused, with nothing changed, when the main worktree has changes in the files concerned") {
  repository repo;
  auto row = repo.worker("change", "echo two > a.txt; echo b > b; git add -A; git commit -qm two");
  repo.write("a.txt", "mine\n");
  auto status = repo.status();
  auto refused = repo.ctl({"worktree", "merge", text(row, "task_id")});
  CHECK(refused.status == 1);
  CHECK(refused.err.find("nothing was changed") != std::string::npos);
  CHECK(refused.err.find("a.txt") != std::string::npos);
  CHECK(repo.status() == status);
  CHECK(repo.read("a.txt") == "mine\n");
  CHECK(repo.trees().size() == 1);
  repo.git({"checkout", "-q", "a.txt"});
  repo.write("b", "also mine\n"); // untracked, and would be overwritten
  CHECK(repo.ctl({"worktree", "merge", text(row, "task_id")}).status == 1);
  CHECK(repo.read("b") == "also mine\n");
  fs::remove(repo.root + "/b");
  repo.git({"checkout", "-q", "--detach"});
  CHECK(repo.ctl({"worktree", "merge", text(row, "task_id")}).err.find("no branch is checked out") != std::string::npos);
  repo.git({"checkout", "-q", "main"});
  auto merged = repo.ctl({"worktree", "merge", text(row, "task_id")});
  CHECK(merged.status == 0);
  CHECK_MESSAGE(merged.out.ends_with(", 1 commit)\n"), merged.out);
  CHECK(repo.read("a.txt") == "two\n");
}

TEST_CASE("a merge over files that others have locked is refused, with holder and file, unless it is forced") {
  repository repo;
  auto peer = repo.session("name:peer");
  auto own = repo.session("name:own");
  auto row = repo.worker("change", "echo two > a.txt; git rm -q sub/b.txt; mkdir new; echo x > 'new/*'; git add -A; git commit -qm two");
  auto id = text(row, "task_id");
  auto locks = [&](const std::string& name, const std::string& who) { return repo.ctl({"lock", name, "--note", "mine", "--as", who}).status == 0; };
  auto head = repo.head();
  // What the merge does not touch may be locked, and what only looks like it.
  REQUIRE(locks(".gitignore", peer));
  REQUIRE(locks("news", peer));
  REQUIRE(locks("newer/file", peer));
  // The last two are directories: what the merge changes lies in them.
  for (const std::string name : {"a.txt", "sub/b.txt", "sub", "new"}) {
    CAPTURE(name);
    REQUIRE(locks(name, peer));
    auto refused = repo.ctl({"worktree", "merge", id, "--json"});
    CHECK(refused.status == 1);
    CHECK(refused.err.find(repo.root + "/" + name + ": held by name:peer (mine)") != std::string::npos);
    auto told = refused.parsed();
    CHECK(told.at("merged") == false);
    REQUIRE(told.at("locked").size() == 1);
    CHECK(told.at("locked").at(0).at("file") == repo.root + "/" + name);
    CHECK(told.at("locked").at(0).at("instance_id") == peer);
    CHECK(repo.head() == head);
    CHECK(repo.read("a.txt") == "one\n");
    REQUIRE(repo.ctl({"unlock", name, "--as", peer}).status == 0);
  }
  REQUIRE(locks("a.txt", own));
  REQUIRE(locks("sub/b.txt", peer));
  CHECK(repo.ctl({"worktree", "merge", id}).err.find("a.txt: held by name:own") != std::string::npos);
  auto for_own = repo.ctl({"worktree", "merge", id, "--as", own});
  CHECK(for_own.status == 1);
  CHECK(for_own.err.find("a.txt") == std::string::npos);
  CHECK(for_own.err.find("sub/b.txt: held by name:peer") != std::string::npos);
  auto forced = repo.ctl({"worktree", "merge", id, "--as", own, "--force", "--json"});
  CHECK(forced.status == 0);
  CHECK(forced.err.find("merged over a lock: " + repo.root + "/sub/b.txt: held by name:peer (mine)") != std::string::npos);
  CHECK(forced.parsed().at("merged") == true);
  CHECK(forced.parsed().at("locked").size() == 1);
  CHECK(repo.read("a.txt") == "two\n");
  CHECK_FALSE(fs::exists(repo.root + "/sub/b.txt"));
}

TEST_CASE("a merge is free again when the lock is gone, and locks of another repository are not in its way") {
  repository repo;
  auto peer = repo.session("name:peer");
  auto row = repo.worker("change", "echo two > a.txt; git commit -qam two");
  REQUIRE(repo.ctl({"lock", repo.root + "-other/a.txt", "--as", peer}).status == 0);
  REQUIRE(repo.ctl({"lock", "a.txt", "--as", peer}).status == 0);
  CHECK(repo.ctl({"worktree", "merge", text(row, "task_id")}).status == 1);
  REQUIRE(repo.ctl({"deregister", "--as", peer}).status == 0);
  CHECK(repo.ctl({"worktree", "merge", text(row, "task_id")}).status == 0);
  CHECK(repo.read("a.txt") == "two\n");
}

TEST_CASE("a merge asks every scope in which its files may be locked: the task's, the repository's, one around it, a named one") {
  repository repo{"outer/repo"};
  const auto outer = repo.node.work() + "/outer";
  fs::create_directories(outer + "/.git/objects");
  std::ofstream{outer + "/.git/HEAD"} << "ref: refs/heads/main\n";
  auto line = repo.line("change", "echo two > a.txt; git commit -qam two");
  line.insert(line.begin(), {"--scope", "elsewhere"});
  auto ran = repo.ctl(line);
  REQUIRE_MESSAGE(ran.status == 0, (ran.out + ran.err));
  const auto branch = text(repo.trees().at(0), "branch");
  struct holder {
    std::string scope, file;
  };
  for (const auto& [scope, file] :
       {holder{repo.root, "a.txt"}, {outer, "repo"}, {"elsewhere", repo.root + "/a.txt"}, {"third", repo.root + "/a.txt"}}) {
    CAPTURE(scope);
    const auto directory = scope == outer ? outer : repo.root;
    auto peer = repo.node.ctl_json({"--scope", scope, "register", "--label", "name:peer", "--lease-seconds", "600"}, {.directory = directory})["id"];
    REQUIRE(repo.ctl({"--scope", scope, "lock", file, "--as", peer}, {.directory = directory}).status == 0);
    auto refused = repo.ctl({"worktree", "merge", branch});
    CHECK(refused.status == 1);
    CHECK_MESSAGE(refused.err.find("held by name:peer") != std::string::npos, refused.err);
    CHECK(repo.read("a.txt") == "one\n");
    REQUIRE(repo.ctl({"--scope", scope, "deregister", "--as", peer}, {.directory = directory}).status == 0);
  }
  CHECK(repo.ctl({"worktree", "merge", branch}).status == 0);
  CHECK(repo.read("a.txt") == "two\n");
}

TEST_CASE("work that is not committed survives prune and merge, however it hides") {
  repository repo;
  auto untracked = repo.worker("untracked", "git config status.showUntrackedFiles no; echo new > new.txt");
  auto assumed = repo.worker("assumed", "git update-index --assume-unchanged a.txt; echo two > a.txt");
  auto broken = repo.worker("broken index", "echo two > a.txt; echo rubbish > $(git rev-parse --git-dir)/index");
  auto detached = repo.worker("detached", "git checkout -q --detach; echo two > a.txt; git commit -qam two");
  auto pruned = repo.prune();
  CHECK(pruned.at("removed").empty());
  CHECK(pruned.at("kept").size() == 4);
  for (const auto& row : {untracked, assumed, broken, detached})
    CHECK(repo.ctl({"worktree", "merge", text(row, "task_id")}).status == 1);
  CHECK(file_text(text(untracked, "path") + "/new.txt") == "new\n");
  for (const auto& row : {assumed, broken, detached})
    CHECK(file_text(text(row, "path") + "/a.txt") == "two\n");
}

TEST_CASE("commits that are nowhere else keep a worktree, ignored files do not") {
  repository repo;
  auto row = repo.worker("commit", "echo two > a.txt; git commit -qam two; touch built.o");
  auto kept = repo.prune().at("kept");
  REQUIRE(kept.size() == 1);
  CHECK(text(kept.at(0), "reason").find("unmerged commits: 1") != std::string::npos);
  CHECK(row.at("dirty") == false);
  // Merged by hand it is of no use any more.
  repo.git({"merge", "-q", text(row, "branch")});
  CHECK(repo.tree("commit").at("merged") == true);
  CHECK(repo.prune().at("removed").size() == 1);
  CHECK(repo.read("a.txt") == "two\n");
}

TEST_CASE("of a worktree whose directory was deleted the branch is shown and merged, and its record can be dropped") {
  repository repo;
  auto done = repo.worker("done", "echo two > a.txt; git commit -qam two; echo lost > lost.txt");
  auto idle = repo.worker("idle", "echo lost > lost.txt");
  for (const auto& row : {done, idle})
    fs::remove_all(text(row, "path"));
  auto diff = repo.ctl({"worktree", "diff", text(done, "task_id")});
  CHECK(diff.status == 0);
  CHECK(diff.out.find("+two") != std::string::npos);
  CHECK(diff.err.find(text(done, "path") + " is not there any more; this is what is committed on " + text(done, "branch")) != std::string::npos);
  diff = repo.ctl({"worktree", "diff", text(idle, "task_id")});
  CHECK(diff.err.find("its branch " + text(idle, "branch") + " has no commits of its own") != std::string::npos);
  CHECK(repo.ctl_json({"worktree", "diff", text(idle, "task_id")}).at("present") == false);
  auto refused = repo.ctl({"worktree", "merge", text(idle, "task_id")});
  CHECK(refused.status == 1);
  CHECK(refused.err.find("is not there any more, and it has no commits") != std::string::npos);
  auto merged = repo.ctl({"worktree", "merge", text(done, "task_id")});
  CHECK(merged.status == 0);
  CHECK(merged.err.find("only what was committed is merged") != std::string::npos);
  CHECK(repo.read("a.txt") == "two\n");
}

TEST_CASE("a record whose place is not there stays until it is said that it is gone, and commits stay all the same") {
  repository repo;
  auto done = repo.worker("done", "echo two > a.txt; git commit -qam two");
  auto idle = repo.worker("idle", "echo lost > lost.txt");
  fs::remove_all(fs::path{text(done, "path")}.parent_path()); // or the disk is not mounted
  auto refused = repo.ctl({"worktree", "merge", text(done, "task_id")});
  CHECK(refused.status == 1);
  CHECK(refused.err.find("Commit it in") == std::string::npos);
  CHECK(refused.err.find("git merge " + text(done, "branch")) != std::string::npos);
  auto kept = repo.prune().at("kept");
  REQUIRE(kept.size() == 2);
  CHECK(text(kept.at(0), "reason").find("worktree prune --gone") != std::string::npos);
  CHECK(repo.ctl_json({"worktree", "prune", "--gone", "--dry-run"}).at("removed").size() == 2);
  CHECK(repo.trees().size() == 2);
  CHECK(repo.ctl_json({"worktree", "prune", "--gone"}).at("removed").size() == 2);
  CHECK(repo.trees().empty());
  CHECK(repo.has_branch(text(done, "branch")));
  CHECK_FALSE(repo.has_branch(text(idle, "branch")));
}

TEST_CASE("a task that has not ended keeps its worktree, merged or not") {
  repository repo;
  auto dispatched = repo.ctl_json(repo.line("long", "touch running; while test -e running; do sleep 0.05; done; exit 3", {"--detach"}));
  auto id = text(dispatched.at("task"), "id");
  REQUIRE(eventually([&] {
    auto rows = repo.trees();
    return rows.size() == 1 && rows.at(0).at("in_use") == true && fs::exists(text(rows.at(0), "path") + "/running");
  }));
  CHECK(text(repo.prune().at("kept").at(0), "reason") == "its worker runs");
  CHECK(repo.ctl({"worktree", "merge", id}).err.find("its worker runs") != std::string::npos);
  fs::remove(text(repo.trees().at(0), "path") + "/running");
  REQUIRE(eventually([&] { return repo.ctl_json({"task", id}).at("status") == "failed"; }));
  CHECK(repo.prune().at("removed").size() == 1);
}

TEST_CASE("kill -9 of a worker ends its program and keeps the worktree") {
  repository repo;
  auto id = text(repo.ctl_json(repo.line("victim", "echo $$ > pid; while :; do sleep 0.05; done", {"--detach"})).at("task"), "id");
  std::string path;
  REQUIRE(eventually([&] {
    auto rows = repo.trees();
    path = rows.empty() ? "" : text(rows.at(0), "path");
    return !rows.empty() && !file_text(path + "/pid").empty();
  }));
  auto program = static_cast<pid_t>(std::stol(file_text(path + "/pid")));
  auto spawn = repo.ctl_json({"spawns"}).at(0);
  CHECK(spawn.at("pid").get<pid_t>() != program);
  kill(spawn.at("pid").get<pid_t>(), SIGKILL);
  CHECK(eventually([&] { return !is_running(program); }));
  REQUIRE(eventually([&] { return repo.ctl_json({"task", id}).at("status") == "failed"; }));
  CHECK(repo.ctl_json({"spawns"}).at(0).at("signal") == SIGKILL);
  CHECK(fs::exists(path + "/pid"));
  CHECK(repo.prune().at("removed").empty());
}

TEST_CASE("a further attempt goes on in the same worktree") {
  repository repo;
  auto script = "echo run >> runs; if test $(wc -l < runs) -lt 2; then while :; do sleep 0.05; done; fi; exit 4";
  auto id = text(repo.ctl_json(repo.line("again", script, {"--detach", "--retries", "1"})).at("task"), "id");
  std::string path;
  REQUIRE(eventually([&] {
    auto rows = repo.trees();
    path = rows.empty() ? "" : text(rows.at(0), "path");
    return !rows.empty() && count_lines(path + "/runs") == 1;
  }));
  repo.node.kill_keeper();
  REQUIRE(eventually([&] { return repo.ctl_json({"task", id}).at("status") == "failed"; }));
  CHECK(repo.trees().size() == 1);
  CHECK(count_lines(path + "/runs") == 2);
  CHECK(repo.ctl_json({"spawns"}).at(0).at("attempt") == 2);
}

TEST_CASE("a worker in a worktree locks the repository's paths, and so does everybody about its files") {
  repository repo;
  auto peer = repo.ctl({"register", repo.root, "--label", "peer", "--lease-seconds", "600", "--json"});
  REQUIRE(peer.status == 0);
  auto peer_id = text(peer.parsed(), "id");
  auto id = text(repo
                   .ctl_json(repo.line("locker",
                                       "cd sub; swarmctl lock b.txt; swarmctl lock ../a.txt; swarmctl lock $SWARM_WORKTREE/c.txt; touch ../locked; "
                                       "while test -e ../locked; do sleep 0.05; done",
                                       {"--detach"}))
                   .at("task"),
                 "id");
  std::string path;
  REQUIRE(eventually([&] {
    auto rows = repo.trees();
    path = rows.empty() ? "" : text(rows.at(0), "path");
    return !rows.empty() && fs::exists(path + "/locked");
  }));
  std::vector<std::string> files;
  for (const auto& lock : repo.ctl_json({"locks"}))
    files.push_back(text(lock, "file"));
  std::sort(files.begin(), files.end());
  CHECK(files == std::vector<std::string>{repo.root + "/a.txt", repo.root + "/c.txt", repo.root + "/sub/b.txt"});
  CHECK(repo.ctl({"lock", "a.txt", "--as", peer_id}).status == 1);
  CHECK(repo.ctl({"lock", path + "/a.txt", "--as", peer_id}).status == 1);
  CHECK(repo.ctl({"lock", "d.txt", "--as", peer_id}).status == 0);

  // An MCP server resolves them in the same way.
  mcp_client mcp{repo.node};
  mcp.initialize();
  mcp.ask("register", {{"directory", repo.root}});
  CHECK(mcp.ask("get_file_lock", {{"file", path + "/sub/b.txt"}}).dump().find(repo.root + "/sub/b.txt") != std::string::npos);
  CHECK(mcp.call("lock_file", {{"file", path + "/a.txt"}}).text().find("already locked") != std::string::npos);
  fs::remove(path + "/locked");
  REQUIRE(eventually([&] { return repo.ctl_json({"task", id}).at("status") == "done"; }));
}

TEST_CASE("a worker asked for in a directory of the repository works in the same one, made if it is not in git") {
  repository repo;
  fs::create_directories(repo.root + "/empty");
  auto below = repo.ctl(repo.line("below", "pwd; cat b.txt"), {.directory = repo.root + "/sub"});
  CHECK(below.status == 0);
  CHECK(below.out.find(".worktrees/") != std::string::npos);
  CHECK(below.out.find("/sub\n") != std::string::npos);
  auto empty = repo.ctl(repo.line("empty", "pwd"), {.directory = repo.root + "/empty"});
  CHECK(empty.status == 0);
  CHECK(empty.out.find("/empty\n") != std::string::npos);
  CHECK(repo.trees().empty());
}

TEST_CASE("without a git repository, a commit or a worker, dispatch --worktree says so and makes no task") {
  test_node node;
  auto no_git = node.ctl({"dispatch", "t", "--worktree", "--harness", "exec", "--", "true"});
  CHECK(no_git.status == 1);
  CHECK(no_git.err.find("needs a git repository, and " + node.work() + " is in none") != std::string::npos);
  CHECK(node.ctl_json({"tasks"}).empty());
  auto spawn = node.ctl({"spawn", "--worktree", "--", "true"});
  CHECK(spawn.status == 1);
  CHECK(spawn.err.find("needs a git repository") != std::string::npos);
  CHECK(node.ctl_json({"spawns"}).empty());
  auto nobody = node.ctl({"dispatch", "t", "--worktree"});
  CHECK(nobody.status == 2);
  CHECK(node.ctl({"worktree", "list"}).err.find("not in a git repository") != std::string::npos);
  CHECK(node.ctl({"worktree", "exec", "--", "true"}).status == 2);
  CHECK(node.ctl({"worktree", "exec"}).status == 2);
  fs::create_directories(node.work() + "/.git"); // a directory of that name is no repository
  CHECK(node.ctl({"dispatch", "t", "--worktree", "--harness", "exec", "--", "true"}).status == 1);
  CHECK(node.ctl_json({"tasks"}).empty());
}

TEST_CASE("a repository without a commit fails the worker and says why") {
  test_node node;
  REQUIRE(child_process({"/usr/bin/env", "git", "init", "-q", "fresh"}, node.env(), node.work()).finish().status == 0);
  auto ran = node.ctl({"dispatch", "t", "--worktree", "--harness", "exec", "--", "true"}, {.directory = node.work() + "/fresh"});
  CHECK(ran.status == 1);
  CHECK(ran.out.find("has no commit yet") != std::string::npos);
}

TEST_CASE("which worktree is meant must be clear") {
  repository repo;
  CHECK(repo.ctl({"worktree", "diff", "nothing"}).err.find("no worktree of a task nothing") != std::string::npos);
  CHECK(repo.ctl({"worktree", "merge", "--force"}).status == 2);
  CHECK(repo.ctl({"worktree", "diff"}).status == 2);
  CHECK(repo.ctl({"worktree", "diff", "--", "-x"}).status == 1);
  CHECK(repo.ctl({"worktree"}).out == "(no worktrees)\n");
  CHECK(repo.trees() == json::array());
}

TEST_CASE("worktrees are made where SWARM_WORKTREES says, and what GIT_DIR says is not followed") {
  repository repo;
  auto place = repo.node.work() + "/elsewhere";
  auto env = environment{{"SWARM_WORKTREES", place}, {"GIT_DIR", "/nowhere"}, {"GIT_INDEX_FILE", "/nowhere/index"}};
  CHECK(repo.ctl(repo.line("there", "exit 1"), {.env = env}).status == 1);
  auto listed = repo.ctl({"worktree", "list", "--json"}, {.env = env}).parsed();
  REQUIRE(listed.size() == 1);
  CHECK(text(listed.at(0), "path").starts_with(place + "/repo-"));
  CHECK(repo.ctl({"worktree", "prune"}, {.env = env}).status == 0);
  CHECK(repo.trees().empty());
  auto relative = repo.ctl(repo.line("relative", "true"), {.env = {{"SWARM_WORKTREES", "here"}}});
  CHECK(relative.status == 1);
  CHECK(relative.out.find("SWARM_WORKTREES must be an absolute path") != std::string::npos);
}

TEST_CASE("names that look like options or need quoting are names") {
  repository repo{"-re po"};
  auto row = repo.worker("odd", "echo x > -- ; echo y > '$(touch hacked)'; echo z > \"a b\"; git add -A; git commit -qm 'odd names'; echo q > '-n'");
  REQUIRE(row.is_object());
  auto diff = repo.ctl({"worktree", "diff", text(row, "task_id"), "--json"}).parsed();
  CHECK(text(diff, "diff").find("$(touch hacked)") != std::string::npos);
  CHECK(diff.at("untracked") == json::array({"-n"}));
  fs::remove(text(row, "path") + "/-n");
  CHECK(repo.ctl({"worktree", "merge", text(row, "task_id")}).status == 0);
  CHECK(repo.read("a b") == "z\n");
  CHECK_FALSE(fs::exists(repo.root + "/hacked"));
}

TEST_CASE("what is typed into a worker's terminal reaches its program, Ctrl-C included") {
  repository repo;
  auto script = "trap 'echo interrupted >> said; exit 9' INT; echo ready > said; read line; echo \"$line\" >> said; while :; do sleep 0.05; done";
  auto id = text(repo.ctl_json(repo.line("typed", script, {"--detach"})).at("task"), "id");
  std::string path;
  auto said = [&](const std::string& wanted) {
    return eventually([&] {
      auto rows = repo.trees();
      path = rows.empty() ? "" : text(rows.at(0), "path");
      return !rows.empty() && file_text(path + "/said").find(wanted) != std::string::npos;
    });
  };
  REQUIRE(said("ready"));
  auto pty = text(repo.ctl_json({"spawns"}).at(0), "pty_id");
  REQUIRE(repo.ctl({"pty", "send", pty, "hello", "--enter"}).status == 0);
  REQUIRE(said("hello"));
  REQUIRE(repo.ctl({"pty", "send", pty, "\x03"}).status == 0);
  REQUIRE(said("interrupted"));
  REQUIRE(eventually([&] { return repo.ctl_json({"task", id}).at("status") == "failed"; }));
  CHECK(repo.ctl_json({"spawns"}).at(0).at("exit_status") == 9);
}

TEST_CASE("a worker without a task has a worktree of its own, too") {
  repository repo;
  auto spawn = repo.ctl_json({"spawn", "--worktree", "--", "sh", "-c", "pwd; exit 2"});
  REQUIRE(eventually([&] { return repo.ctl_json({"spawns"}).at(0).at("status") == "ended"; }));
  auto rows = repo.trees();
  REQUIRE(rows.size() == 1);
  CHECK(rows.at(0).at("task_id").is_null());
  CHECK(rows.at(0).at("spawn_id") == spawn.at("id"));
  CHECK(rows.at(0).at("task_status") == "ended");
  CHECK(repo.prune().at("removed").size() == 1);
}

TEST_CASE("in a linked worktree of one's own the workers begin there and come back there") {
  repository repo;
  auto mine = repo.node.work() + "/mine";
  repo.git({"worktree", "add", "-q", "-b", "feature", mine});
  std::ofstream{mine + "/a.txt"} << "feature\n";
  repo.commit("feature", mine);
  auto ran = repo.ctl(repo.line("mine", "cat a.txt; swarmctl lock a.txt; swarmctl locks; echo done > b.txt; git add -A; git commit -qm b"),
                      {.directory = mine});
  CHECK(ran.status == 0);
  CHECK(ran.out.find("feature\n") != std::string::npos);
  CHECK(ran.out.find("locked " + mine + "/a.txt") != std::string::npos);
  auto rows = repo.node.ctl_json({"worktree", "list"}, {.directory = mine});
  REQUIRE(rows.size() == 1);
  CHECK(rows.at(0).at("base_branch") == "feature");
  CHECK(rows.at(0).at("ahead") == 1);
  // Also when asked from the worker's own tree.
  auto merged = repo.node.ctl_json({"worktree", "merge", text(rows.at(0), "task_id")}, {.directory = text(rows.at(0), "path")});
  CHECK(merged.at("into") == "feature");
  CHECK(file_text(mine + "/b.txt") == "done\n");
  CHECK(repo.status() == "## main\n");
}

TEST_CASE("a person in a worker's worktree locks the repository's files in the repository's scope, as workers there do") {
  repository repo;
  auto path = text(repo.worker("change", "echo two > a.txt"), "path");
  repo.session("name:ann");
  repo.session("name:bob");
  run_options inside{.directory = path};
  auto locked = repo.ctl({"lock", "a.txt", "--as", "name:bob"}, inside);
  CHECK(locked.out == "locked " + repo.root + "/a.txt\n");
  auto seen = repo.ctl({"locks", "--json"}, inside).parsed();
  CHECK(seen.at(0).at("file") == repo.root + "/a.txt");
  CHECK(repo.ctl({"locks", "--json"}).parsed() == seen);
  CHECK(repo.ctl({"lock", "a.txt", "--as", "name:ann"}).status == 1);
  // By a session that was registered there, and one directory deeper.
  auto registered = repo.ctl({"register", "--label", "name:eve", "--lease-seconds", "600", "--json"}, inside).parsed();
  CHECK(registered.at("scope") == repo.root);
  CHECK(repo.ctl({"lock", "b.txt", "--as", "name:eve"}, {.directory = path + "/sub"}).out == "locked " + repo.root + "/sub/b.txt\n");
  CHECK(repo.ctl({"lock", path + "/sub/b.txt", "--as", "name:ann"}, inside).status == 1);
  mcp_client agent{repo.node, {.directory = path}};
  agent.initialize();
  CHECK(agent.ask("register", {{"directory", path}}).at("scope") == repo.root);
  // A worktree that a person made is a scope of its own.
  repo.git({"worktree", "add", "-q", "-b", "mine", repo.root + "-mine"});
  CHECK(repo.ctl({"locks"}, {.directory = repo.root + "-mine"}).out == "(no locks in scope " + repo.root + "-mine)\n");
}
