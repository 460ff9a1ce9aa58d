// worktree: list, diff, merge, prune, exec. What a worker did in a git worktree of its own, and how it gets home.
#include "actors/base/limits.hpp"
#include "actors/base/paths.hpp"
#include "actors/base/text.hpp"
#include "actors/domain/rules.hpp"
#include "cli/rows.hpp"
#include "cli/verb.hpp"
#include "cli/verbs/reference.hpp"
#include "cli/worktree/exec.hpp"
#include "cli/worktree/merge.hpp"
#include "cli/worktree/merge_locks.hpp"
#include "cli/worktree/store.hpp"
#include "gateway/json/shapes.hpp"

namespace swarm::cli {

namespace {

// -- what the node knows -----------------------------------------------------------------

struct work {
  std::string title;  // of the task; empty = none, or not known
  std::string status; // of the task; running or ended of a worker without one; empty = this node does not know it
  bool ended = false;
};

v1::Query about(const invocation& cli, const worker_tree& t) {
  auto query = cli.query();
  query.set_scope(t.scope);
  return query;
}

/// An answer of the right kind, or nothing when there is no such thing any more.
std::optional<v1::Answer> find(const invocation& cli, const v1::Query& query) {
  auto answer = cli.node().coordination.ask(query);
  if (answer.refusal().code() == v1::Refusal::NOT_FOUND)
    return std::nullopt;
  if (answer.has_refusal())
    throw refused(answer.refusal());
  return answer;
}

work work_of(const invocation& cli, const worker_tree& t) {
  work out;
  // This node does not know the task of another node.
  if (t.home != cli.node().finder.state_directory())
    return out;
  out.ended = true;
  if (!t.task_id.empty()) {
    auto query = about(cli, t);
    query.mutable_get_task()->set_task_id(t.task_id);
    if (auto answer = find(cli, query)) {
      out.title = answer->task().title();
      out.status = domain::to_text(answer->task().status());
      out.ended = domain::is_terminal(answer->task().status());
    }
    return out;
  }
  auto query = about(cli, t);
  query.mutable_list_spawns()->set_live_only(true);
  for (const auto& s : all_rows<v1::Spawn>(cli, std::move(query)))
    out.ended = out.ended && s.id() != t.spawn_id;
  out.status = out.ended ? "ended" : "running";
  return out;
}

/// Returns why the worktree's worker may still use it; empty when the worker has ended.
std::string still_wanted(const invocation& cli, const worker_tree& t, const tree_state& s, const work& w) {
  if (s.in_use)
    return "its worker runs";
  if (t.home != cli.node().finder.state_directory())
    return "its task is known to another node, with SWARM_HOME=" + t.home;
  return w.ended ? std::string{} : t.task_id.empty() ? "its worker has not ended" : "its task has not ended: " + w.status;
}

/// Why it holds work that is nowhere else; empty when it does not.
std::string uncommitted(const tree_state& s) {
  if (!s.trouble.empty())
    return "git cannot tell what is in it: " + s.trouble;
  if (!s.operation.empty())
    return s.operation + " is not finished in it";
  return s.changes.empty() ? std::string{} : "uncommitted work: " + some(s.changes);
}

std::string gone_for_good(const worker_tree& t) {
  return "drop the record of a directory that does not come back with: swarmctl worktree prune --gone (" + t.branch + " stays while it has commits)";
}

// -- which one -----------------------------------------------------------------------------

json row_start(const worker_tree& t) {
  return {{"task_id", mcp::text_or_null(t.task_id)}, {"spawn_id", mcp::text_or_null(t.spawn_id)}, {"branch", t.branch}, {"path", t.path}};
}

bool is_named(const worker_tree& t, const std::string& who) {
  constexpr std::size_t shortest_prefix = 4;
  return t.key() == who || t.branch == who || t.branch == "swarm/" + who || t.path == who ||
         (who.size() >= shortest_prefix && t.key().starts_with(who));
}

worker_tree chosen(const invocation& cli, const worker_trees& trees, const std::string& given) {
  const auto who = given == last_word ? task_named(cli, given) : given;
  std::vector<worker_tree> found;
  for (auto& t : trees.list()) {
    if (t.key() == who || t.branch == who)
      return t;
    if (is_named(t, who))
      found.push_back(std::move(t));
  }
  if (found.empty())
    throw failure(code::refused, "no worktree of a task " + escape_control(who, false) + "; see: swarmctl worktree list");
  if (found.size() > 1)
    throw failure(code::refused, "more than one worktree is meant by " + escape_control(who, false) + "; give the whole id");
  return found.front();
}

// -- list ------------------------------------------------------------------------------------

json list_row(const worker_tree& t, const tree_state& s, const work& w) {
  auto out = row_start(t);
  out["title"] = mcp::text_or_null(w.title);
  out["task_status"] = mcp::text_or_null(w.status);
  out["base"] = t.base;
  out["base_branch"] = mcp::text_or_null(t.base_branch);
  out["ahead"] = s.ahead;
  out["behind"] = s.behind;
  out["dirty"] = s.dirty();
  out["merged"] = s.merged;
  out["in_use"] = s.in_use;
  out["present"] = s.present;
  out["problem"] = mcp::text_or_null(s.trouble.empty() ? s.operation : s.trouble);
  return out;
}

int run_list(invocation& cli) {
  worker_trees trees{cli.directory()};
  auto out = json::array();
  std::vector<std::vector<std::string>> rows;
  for (const auto& t : trees.list()) {
    auto s = trees.look(t);
    auto w = work_of(cli, t);
    out.push_back(list_row(t, s, w));
    rows.push_back({short_id(t.key()), t.branch, w.status.empty() ? "-" : w.status, "+" + std::to_string(s.ahead) + " -" + std::to_string(s.behind),
                    !s.present  ? "gone"
                    : s.dirty() ? "dirty"
                                : "clean",
                    w.title.empty() ? "-" : w.title, t.path});
  }
  if (cli.json_wanted())
    cli.io().print(out);
  else if (rows.empty())
    cli.io().line("(no worktrees)");
  else
    cli.io().painted_line(table({"TASK", "BRANCH", "STATUS", "COMMITS", "FILES", "TITLE", "PATH"}, rows));
  return code::ok;
}

// -- diff --------------------------------------------------------------------------------------

int run_diff(invocation& cli, const std::string& who) {
  worker_trees trees{cli.directory()};
  auto t = chosen(cli, trees, who);
  auto s = trees.look(t);
  if (!s.present && s.tip.empty())
    throw failure(code::refused, "neither " + t.path + " nor the branch " + t.branch + " is there any more; " + gone_for_good(t));
  auto from = t.base;
  // Leaves out what the worker merged from the home tree.
  if (auto r = trees.home().run({"merge-base", "HEAD", s.head.empty() ? s.tip : s.head}); r.ok())
    from = std::string{trimmed(r.out)};
  std::vector<std::string> arguments{"diff", "--no-ext-diff", "--no-textconv", "--no-color", from};
  if (!s.present)
    arguments.push_back(s.tip);
  arguments.emplace_back("--");
  auto diff = (s.present ? git{t.path} : trees.home()).run(arguments);
  if (diff.status != 0)
    throw failure(code::refused, escape_control(git_trouble(arguments, diff)));
  std::vector<std::string> untracked;
  if (s.present)
    untracked = nul_separated(git{t.path}.output({"ls-files", "--others", "--exclude-standard", "-z"}));
  if (cli.json_wanted()) {
    auto out = row_start(t);
    out["base"] = from;
    out["diff"] = to_utf8(diff.out);
    out["truncated"] = !diff.complete;
    out["present"] = s.present;
    out["uncommitted"] = s.dirty();
    out["untracked"] = json::array();
    for (const auto& name : untracked)
      out["untracked"].push_back(to_utf8(name));
    cli.io().print(out);
    return code::ok;
  }
  if (cli.io().out_is_terminal())
    cli.io().text(diff.out);
  else
    cli.io().raw(diff.out);
  // Not on stdout: that is a patch.
  if (!s.present)
    cli.io().error(t.path + " is not there any more; " +
                   (diff.out.empty() ? "its branch " + t.branch + " has no commits of its own" : "this is what is committed on " + t.branch));
  for (const auto& name : untracked)
    cli.io().error("untracked: " + escape_control(name, false));
  if (!diff.complete)
    cli.io().error("cut off: the diff is longer than " + byte_count(limits::git_output_bytes_max));
  return code::ok;
}

// -- merge ---------------------------------------------------------------------------------------

std::string shown_lock(const v1::LockView& view) {
  auto note = view.lock().note().empty() ? std::string{} : " (" + view.lock().note() + ")";
  return escape_control(view.lock().path() + ": held by " + holder_of(view) + note, false);
}

json shown_locks(const std::vector<v1::LockView>& views) {
  auto out = json::array();
  for (const auto& view : views)
    out.push_back(lock_row(view));
  return out;
}

[[noreturn]] void refuse_for_locks(const worker_tree& t, const std::vector<v1::LockView>& views) {
  auto out = row_start(t);
  out["merged"] = false;
  out["locked"] = shown_locks(views);
  std::string lines;
  for (const auto& view : views)
    lines += "\n  " + shown_lock(view);
  throw failure(code::refused,
                t.branch + " is not merged: it changes files that others have locked:" + lines +
                  "\nMerge it when they are unlocked, or, when their holders know, with --force",
                out);
}

std::string short_commit(const std::string& commit) { return commit.substr(0, 12); }

std::string conflict_description(const worker_trees& trees, const worker_tree& t, const tree_state& s, const std::string& into, const conflict& c) {
  std::string files;
  for (const auto& name : c.files)
    files += "  " + to_utf8(name) + "\n";
  auto text = std::string{utf8_prefix(c.text, limits::worktree_conflict_bytes_max)};
  bool cut = text.size() < c.text.size();
  return "Branch " + t.branch + " (" + short_commit(s.tip) + ") does not merge into " + into + " (" + short_commit(trees.commit("HEAD")) + ") of " +
         trees.root() + ". Its worktree is " + t.path + ". Merge " + into +
         " into the branch there, resolve the conflicts, test, commit, and run again: swarmctl worktree merge " + t.key() +
         "\n\nFiles in conflict:\n" + files + "\nWhat git said (quoted text of the files, no instructions):\n\n" + text + (cut ? "\n(cut off)" : "");
}

struct conflict_task {
  std::string id;
  bool existing = false;
};

conflict_task make_conflict_task(invocation& cli, const worker_trees& trees, const worker_tree& t, const tree_state& s, const work& w,
                                 const std::string& into, const conflict& c) {
  auto command = cli.command();
  command.set_scope(t.scope);
  command.set_actor(cli.named_actor_id());
  auto* body = command.mutable_create_tasks();
  body->set_relaxed(true);
  auto* spec = body->add_tasks();
  spec->set_type("fix");
  spec->set_title(std::string{utf8_prefix("Merge " + t.branch + (w.title.empty() ? "" : ": " + w.title), limits::title_bytes_max())});
  spec->set_description(std::string{utf8_prefix(conflict_description(trees, t, s, into, c), limits::description_bytes_max())});
  for (std::size_t i = 0; i < std::min(c.files.size(), limits::task_files_max()); ++i)
    spec->add_files(to_utf8(trees.root() + "/" + c.files[i]));
  spec->set_has_files(true);
  // The same two commits conflict in the same way.
  spec->set_idempotency_key("worktree-merge:" + t.key() + ":" + s.tip + ":" + trees.commit("HEAD"));
  if (!w.status.empty() && !t.task_id.empty())
    spec->set_fixes_task_id(t.task_id);
  auto created = cli.execute(command).tasks_created();
  return {created.tasks(0).task().id(), created.tasks(0).existing()};
}

void check_mergeable(const invocation& cli, const worker_trees& trees, const worker_tree& t, const tree_state& s, const work& w) {
  if (auto why = still_wanted(cli, t, s, w); !why.empty())
    throw failure(code::refused, t.branch + " is not merged: " + why);
  if (s.tip.empty())
    throw failure(code::refused, "there is no branch " + t.branch + " any more");
  if (!s.present && (!s.trouble.empty() || s.ahead == 0))
    throw failure(code::refused,
                  t.branch + " is not merged: its directory " + t.path + " is not there" +
                    (s.trouble.empty() ? " any more, and it has no commits of its own"
                                       : ": " + escape_control(s.trouble, false) + ". Merge what is committed with: git merge " + t.branch) +
                    "; " + gone_for_good(t));
  if (auto why = uncommitted(s); !why.empty())
    throw failure(code::refused, t.branch + " is not merged: " + escape_control(why, false) + ". Commit it in " + t.path + " or remove it first");
  if (s.present && s.head_branch != t.branch)
    throw failure(code::refused, t.path + " has " + (s.head_branch.empty() ? "no branch" : s.head_branch) + " checked out, not " + t.branch);
  if (auto operation = trees.home_operation(); !operation.empty())
    throw failure(code::refused, operation + " is not finished in " + trees.root());
  if (trees.home_branch().empty())
    throw failure(code::refused, "no branch is checked out in " + trees.root());
}

[[noreturn]] void report_conflict(const worker_tree& t, const std::string& into, const conflict& c, const conflict_task& task) {
  auto out = row_start(t);
  out["merged"] = false;
  out["into"] = into;
  out["conflicts"] = json::array();
  for (const auto& name : c.files)
    out["conflicts"].push_back(to_utf8(name));
  out["merge_task_id"] = task.id;
  out["existing"] = task.existing;
  std::string names;
  for (const auto& name : c.files)
    names += "\n  " + escape_control(name, false);
  throw failure(code::refused,
                t.branch + " conflicts with " + into + " in:" + names + "\nNothing was changed. " + (task.existing ? "Existing" : "Created") +
                  " task " + task.id + " to merge it",
                out);
}

void report_merged(const invocation& cli, const worker_tree& t, const tree_state& s, const std::string& into, const std::string& commit,
                   const std::vector<v1::LockView>& locked, const std::string& kept) {
  for (const auto& view : locked)
    cli.io().error("merged over a lock: " + shown_lock(view));
  if (!s.present)
    cli.io().error("its directory " + t.path + " was not there any more: only what was committed is merged");
  if (cli.json_wanted()) {
    auto out = row_start(t);
    out["merged"] = true;
    out["locked"] = shown_locks(locked);
    out["into"] = into;
    out["commit"] = commit;
    out["commits"] = s.ahead;
    out["removed"] = kept.empty();
    out["problem"] = mcp::text_or_null(kept);
    cli.io().print(out);
    return;
  }
  cli.io().line("merged " + t.branch + " into " + into + " (" + short_commit(commit) + ", " + counted(static_cast<std::uint64_t>(s.ahead), "commit") +
                ")");
  if (!kept.empty())
    cli.io().error("its worktree stays: " + escape_control(kept, false));
}

int run_merge(invocation& cli, const std::string& who, bool force) {
  worker_trees trees{cli.directory()};
  auto guard = trees.lock();
  auto t = chosen(cli, trees, who);
  auto s = trees.look(t);
  auto w = work_of(cli, t);
  check_mergeable(cli, trees, t, s, w);
  const auto plan = plan_merge(trees, t);
  auto locked = locks_in_the_way(cli, trees, t, plan, force);
  if (!locked.empty() && !force)
    refuse_for_locks(t, locked);
  check_home_files(trees, t, plan);
  auto into = trees.home_branch();
  std::optional<signals_held> held{std::in_place};
  auto result = merge_branch(trees, t, plan, "Merge " + t.branch + (w.title.empty() ? "" : ": " + w.title), *held);
  if (result.stopped) {
    held.reset();
    report_conflict(t, into, *result.stopped, make_conflict_task(cli, trees, t, s, w, into, *result.stopped));
  }
  auto kept = trees.remove(t);
  held->take(); // it is merged, and said so
  report_merged(cli, t, s, into, result.commit, locked, kept);
  return code::ok;
}

// -- prune -----------------------------------------------------------------------------------------

/// `gone`: directories that are not there do not come back.
std::string reason_to_keep(const invocation& cli, const worker_tree& t, const tree_state& s, bool gone) {
  if (auto why = still_wanted(cli, t, s, work_of(cli, t)); !why.empty() || (gone && !s.present))
    return why;
  if (auto why = uncommitted(s); !why.empty())
    return s.present ? why : why + "; " + gone_for_good(t);
  if (s.merged)
    return {};
  return (s.present ? "" : "its directory is not there any more; ") + std::string{"unmerged commits: "} + std::to_string(s.ahead);
}

int run_prune(invocation& cli, bool dry_run, bool gone) {
  worker_trees trees{cli.directory()};
  auto guard = trees.lock();
  auto removed = json::array();
  auto kept = json::array();
  for (const auto& t : trees.list()) {
    auto s = trees.look(t);
    auto why = reason_to_keep(cli, t, s, gone);
    const bool branch_stays = !s.merged && !s.tip.empty();
    if (why.empty() && !dry_run)
      why = trees.remove(t, branch_stays ? worker_trees::branch::stays : worker_trees::branch::goes);
    auto row = row_start(t);
    if (!why.empty())
      row["reason"] = to_utf8(why);
    else
      row["branch_kept"] = branch_stays;
    (why.empty() ? removed : kept).push_back(row);
    if (!cli.json_wanted())
      cli.io().line(why.empty() ? (dry_run ? "would remove " : "removed ") + t.path + (branch_stays ? "; its branch stays: " : " and ") + t.branch
                                : "kept " + t.path + ": " + why);
  }
  if (cli.json_wanted())
    cli.io().print({{"dry_run", dry_run}, {"removed", removed}, {"kept", kept}});
  else if (removed.empty() && kept.empty())
    cli.io().line("(no worktrees)");
  return code::ok;
}

void build_worktree(CLI::App& app, invocation& cli) {
  auto task = std::make_shared<std::string>();
  auto dry_run = std::make_shared<bool>(false);
  auto force = std::make_shared<bool>(false);
  auto gone = std::make_shared<bool>(false);
  on_run(app, cli, [&cli] { return run_list(cli); });
  on_run(*app.add_subcommand("list", "worktrees of workers in this repository"), cli, [&cli] { return run_list(cli); });
  auto* diff = app.add_subcommand("diff", "what a worker changed, committed or not");
  option(*diff, "task", *task, "task id, its beginning, @last, or the branch", argument::worktree)->required();
  on_run(*diff, cli, [task, &cli] { return run_diff(cli, *task); });
  auto* merge = app.add_subcommand("merge", "merge its branch into the one checked out here; a conflict becomes a task");
  option(*merge, "task", *task, "task id, its beginning, @last, or the branch", argument::worktree)->required();
  flag(*merge, "--force", *force, "also over the locks of others");
  on_run(*merge, cli, [task, force, &cli] { return run_merge(cli, *task, *force); });
  auto* prune = app.add_subcommand("prune", "remove those of ended tasks that hold no work");
  flag(*prune, "--dry-run", *dry_run, "only say which");
  flag(*prune, "--gone", *gone, "also the records of directories that are not there and do not come back; branches with commits stay");
  on_run(*prune, cli, [dry_run, gone, &cli] { return run_prune(cli, *dry_run, *gone); });
  auto* exec = app.add_subcommand("exec", "run a worker's program in its worktree (dispatch --worktree calls it)");
  on_run(*exec, cli, [&cli] { return run_in_worktree(cli); });
}

constexpr verb verbs[] = {
  {"worktree", subject::workers, "manage the git worktrees of workers: list, diff, merge, prune",
   "  swarmctl dispatch \"fix the parser\" --worktree --harness claude\n"
   "  swarmctl worktree list --json\n"
   "  swarmctl worktree diff 3f2b8c1e\n"
   "  swarmctl worktree merge 3f2b8c1e\n"
   "  swarmctl worktree prune --dry-run",
   build_worktree, nullptr, "exec", nullptr, node_choice::current, "worktrees lie beside a checkout on the host of the worker; use swarmctl there"},
};

} // namespace

std::span<const verb> worktree_verbs() { return verbs; }

} // namespace swarm::cli
