#include "cli/worktree/exec.hpp"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>

#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "actors/base/text.hpp"
#include "actors/base/worktree.hpp"
#include "cli/verb.hpp"
#include "cli/worktree/signals.hpp"
#include "cli/worktree/store.hpp"

namespace fs = std::filesystem;

namespace swarm::cli {

namespace {

constexpr int not_found_status = 127;
constexpr int not_runnable_status = 126;

worker_tree wanted_tree(const invocation& cli) {
  worker_tree t;
  t.task_id = cli.env().get("SWARM_TASK_ID");
  t.spawn_id = cli.env().get("SWARM_SPAWN_ID");
  t.scope = cli.scope();
  t.home = cli.node().finder.state_directory();
  if (t.key().empty())
    throw usage("worktree exec runs inside a worker; see: swarmctl dispatch --worktree");
  if (!is_plain_name(t.key()))
    throw usage("SWARM_TASK_ID is no task's id");
  return t;
}

/// The directory in the worktree that stands for the one we were started in. A part of it that is not in git is made.
std::string same_place(const invocation& cli, const worker_trees& trees, const worker_tree& t) {
  auto here = find_git_tree(cli.directory());
  if (!here || here->root != trees.root() || cli.directory() == here->root)
    return t.path;
  auto out = t.path + cli.directory().substr(here->root.size());
  std::error_code ec;
  fs::create_directories(out, ec);
  if (ec)
    throw failure(code::refused, "cannot make " + out + ": " + ec.message());
  return out;
}

/// In the child: becomes the program.
[[noreturn]] void become(const std::vector<std::string>& words, const std::string& directory, const std::string& tree, pid_t parent) {
  // A caller who kills the worker means the program.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent)
    _exit(not_runnable_status);
  signal(SIGPIPE, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  setenv("SWARM_WORKTREE", tree.c_str(), 1);
  setenv("PWD", directory.c_str(), 1);
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (const auto& word : words)
    argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  if (chdir(directory.c_str()) == 0)
    execvp(argv[0], argv.data());
  auto error = errno;
  dprintf(STDERR_FILENO, "swarmctl worktree exec: cannot run %s in %s: %s\n", argv[0], directory.c_str(), std::strerror(error));
  _exit(error == ENOENT ? not_found_status : not_runnable_status);
}

/// Runs it in the foreground, in our own process group: what the terminal sends reaches it without us. What is sent to this process
/// alone is passed on. The status as waitpid gives it.
int run_child(const std::vector<std::string>& words, const std::string& directory, const std::string& tree) {
  sigset_t ours;
  sigemptyset(&ours);
  for (auto s : {SIGCHLD, SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGTSTP, SIGTTOU, SIGTTIN})
    sigaddset(&ours, s);
  sigprocmask(SIG_BLOCK, &ours, nullptr);
  auto self = getpid();
  auto keeper = getppid();
  auto pid = fork();
  if (pid < 0)
    throw failure(code::refused, std::string{"cannot start the program: "} + std::strerror(errno));
  if (pid == 0)
    become(words, directory, tree, self);
  for (;;) {
    siginfo_t info{};
    int status = 0;
    auto signal = sigwaitinfo(&ours, &info);
    if (waitpid(pid, &status, WNOHANG) == pid)
      return status;
    // The keeper signals each process of the tree itself, and the terminal all of the group.
    bool for_us_alone = info.si_code == SI_USER && info.si_pid != keeper;
    if (signal > 0 && signal != SIGCHLD && for_us_alone)
      kill(pid, signal);
  }
}

/// Nothing was done in it: then nobody will look for it. Everything else is for `worktree list`, `merge` and `prune`.
void tidy_up(const worker_trees& trees, const worker_tree& t, int used) {
  try {
    auto guard = trees.lock();
    // Another attempt may have come to work in it.
    if (flock(used, LOCK_EX | LOCK_NB) == 0 && worker_trees::untouched(t, trees.look(t)))
      trees.remove(t);
  } catch (const failure&) {
    // It stays.
  }
}

} // namespace

int run_in_worktree(invocation& cli) {
  if (cli.tail.empty() || cli.tail.front().empty())
    throw usage("worktree exec needs a program after --");
  auto wanted = wanted_tree(cli);
  worker_trees trees{cli.directory()};
  worker_tree tree;
  unique_fd used;
  {
    auto guard = trees.lock();
    signals_held held;
    tree = trees.make(std::move(wanted), cli.env());
    used = worker_trees::use(tree);
  }
  auto status = run_child(cli.tail, same_place(cli, trees, tree), tree.path);
  if (status == 0) {
    if (chdir("/") == 0)
      tidy_up(trees, tree, used.get());
    return code::ok;
  }
  if (WIFEXITED(status))
    return WEXITSTATUS(status);
  // The end everybody sees is the program's.
  auto signal = WTERMSIG(status);
  ::signal(signal, SIG_DFL);
  sigset_t one;
  sigemptyset(&one);
  sigaddset(&one, signal);
  raise(signal);
  sigprocmask(SIG_UNBLOCK, &one, nullptr);
  constexpr int signalled = 128;
  return signalled + signal;
}

} // namespace swarm::cli
