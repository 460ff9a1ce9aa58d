#include "cli/worktree/merge.hpp"

#include <algorithm>
#include <filesystem>

#include "actors/base/atomic_file.hpp"
#include "actors/base/text.hpp"
#include "actors/domain/lock_paths.hpp"
#include "gateway/client/failure.hpp"

namespace fs = std::filesystem;

namespace swarm::cli {

namespace {

using name_set = std::set<std::string>;

fs::file_type type_of(const worker_trees& trees, const std::string& name) {
  std::error_code ec;
  return fs::symlink_status(trees.root() + "/" + name, ec).type();
}

bool is_there(const worker_trees& trees, const std::string& name) { return type_of(trees, name) != fs::file_type::not_found; }

/// It or a directory that it lies in.
bool is_covered(const name_set& by, const std::string& name) {
  auto covering = domain::covering_paths(name);
  return std::any_of(covering.begin(), covering.end(), [&](const auto& path) { return by.contains(path); });
}

/// Those that are among the files, lie in one of them (which may be a directory now), or hold one.
std::vector<std::string> those_concerned(const std::vector<std::string>& all, const name_set& files) {
  name_set given{all.begin(), all.end()}, holding;
  for (const auto& file : files)
    for (auto& path : domain::covering_paths(file))
      if (given.contains(path))
        holding.insert(std::move(path));
  std::vector<std::string> out;
  for (const auto& name : given)
    if (holding.contains(name) || is_covered(files, name))
      out.push_back(name);
  return out;
}

std::string literal(const std::string& name) { return ":(top,literal)" + name; }

/// What lies where the merge makes this file: the file's own name, or something on the way to it that is no directory; empty = nothing.
std::string in_its_place(const worker_trees& trees, const std::string& file) {
  for (auto slash = file.find('/');; slash = file.find('/', slash + 1)) {
    auto part = file.substr(0, slash);
    auto type = type_of(trees, part);
    if (type == fs::file_type::not_found)
      return {};
    if (slash == std::string::npos || type != fs::file_type::directory)
      return part;
  }
}

/// Files of the home tree that git does not know, ignored or not, where the merge makes others.
name_set unknown_files(const worker_trees& trees, const merge_plan& plan) {
  name_set places, out;
  for (const auto& file : plan.made)
    if (auto place = in_its_place(trees, file); !place.empty())
      places.insert(std::move(place));
  constexpr std::size_t names_per_question = 200;
  for (auto at = places.begin(); at != places.end();) {
    std::vector<std::string> arguments{"ls-files", "--others", "-z", "--"};
    for (std::size_t n = 0; n < names_per_question && at != places.end(); ++n, ++at)
      arguments.push_back(literal(*at));
    for (auto& name : nul_separated(trees.home().output(arguments)))
      out.insert(std::move(name));
  }
  return out;
}

// -- taking back -------------------------------------------------------------------------------------

/// The names of files for a command of git, which has no room for many in its arguments.
class listed {
public:
  listed(const worker_trees& trees, const name_set& files) : file_(trees.home_git_directory() + "/swarm-merge-files") {
    std::string text;
    for (const auto& name : files)
      text.append(literal(name)).push_back('\0');
    if (auto error = replace_file(file_, text, durability::cached))
      throw failure(code::refused, "cannot write " + file_ + ": " + error.message());
  }
  ~listed() {
    std::error_code ec;
    fs::remove(file_, ec);
  }
  listed(const listed&) = delete;
  listed& operator=(const listed&) = delete;
  std::string option() const { return "--pathspec-from-file=" + file_; }

private:
  std::string file_;
};

/// The index has these files as the tree has them; those in the home tree stay as they are.
void stage(const worker_trees& trees, const name_set& files, const std::string& tree) {
  listed these{trees, files};
  trees.home().output({"reset", "--quiet", these.option(), "--pathspec-file-nul", tree});
}

/// Those that are in the home tree otherwise than staged; not those that are not staged.
name_set unlike_staged(const worker_trees& trees, const name_set& files) {
  name_set out;
  for (auto& name :
       nul_separated(trees.home().output({"diff", "--name-only", "-z", "--no-renames", "--no-ext-diff", "--ignore-submodules=all", "--"})))
    if (files.contains(name))
      out.insert(std::move(name));
  return out;
}

/// And the directories that are empty then.
void remove_file(const worker_trees& trees, const std::string& name) {
  std::error_code ec;
  for (const auto& path : domain::covering_paths(name))
    if (path == "." || !fs::remove(trees.root() + "/" + path, ec))
      return;
}

/// Puts the files of the merge back to what HEAD has, in the index and in the home tree; before, they were so. It leaves those in the home tree that
/// are neither as in HEAD nor as the merge makes them: somebody has changed them since. Returns those.
name_set put_back(const worker_trees& trees, const merge_plan& plan) {
  stage(trees, plan.files, plan.tree);
  auto others = unlike_staged(trees, plan.files);
  for (const auto& name : plan.removed)
    if (is_there(trees, name) && type_of(trees, name) != fs::file_type::directory)
      others.insert(name);
  stage(trees, plan.files, "HEAD");
  name_set kept;
  for (const auto& name : unlike_staged(trees, others))
    if (is_there(trees, name))
      kept.insert(name);
  for (const auto& name : others)
    if (plan.made.contains(name) && is_there(trees, name))
      kept.insert(name);
  name_set restored;
  for (const auto& name : plan.files)
    if (kept.contains(name) || std::any_of(kept.begin(), kept.end(), [&](const auto& k) { return k.starts_with(name + "/"); }))
      continue;
    else if (!plan.made.contains(name))
      restored.insert(name);
    else if (!others.contains(name))
      remove_file(trees, name);
  if (!restored.empty()) {
    listed these{trees, restored};
    trees.home().output({"restore", "--quiet", "--worktree", these.option(), "--pathspec-file-nul"});
  }
  return kept;
}

/// What of a merge could not be taken back; empty when all is as before.
struct remains {
  std::vector<std::string> files; // changed by somebody since
  std::string trouble;

  bool none() const noexcept { return files.empty() && trouble.empty(); }
};

/// Never more than the merge's own files: a merge that is aborted by git would take with it what others have staged since.
remains take_back(const worker_trees& trees, const merge_plan& plan) {
  remains out;
  try {
    bool changed = !those_concerned(trees.home_changes(), plan.files).empty() ||
                   std::any_of(plan.made.begin(), plan.made.end(), [&](const auto& name) { return is_there(trees, name); });
    if (changed && !plan.files.empty()) {
      auto kept = put_back(trees, plan);
      out.files.assign(kept.begin(), kept.end());
    }
    trees.home().output({"merge", "--quit"});
  } catch (const failure& f) {
    out.trouble = f.what();
  }
  return out;
}

std::string told(const worker_trees& trees, const remains& left) {
  const auto look = "see: git -C " + shell_quoted(trees.root()) + " status";
  if (!left.trouble.empty())
    return "\nIt could not be taken back: " + left.trouble + "\nWhat it changed is still in " + trees.root() + "; " + look;
  std::string lines;
  for (const auto& name : left.files)
    lines += "\n  " + escape_control(name, false);
  return "\nIt is taken back, except in files that somebody changed while it ran. They stay as they are, with what the merge made of them:" + lines +
         "\nBefore you commit them, " + look;
}

/// Which files conflict, and how; none when git has stopped for another reason.
conflict conflict_of(const worker_trees& trees, const git_result& merge) {
  conflict out;
  out.files = nul_separated(trees.home().run({"diff", "--name-only", "--diff-filter=U", "-z"}).out);
  auto diff = trees.home().run({"diff", "--no-ext-diff", "--no-textconv", "--no-color"});
  out.text = std::string{trimmed(to_utf8(merge.out))} + "\n\n" + to_utf8(diff.out);
  return out;
}

} // namespace

std::string some(const std::vector<std::string>& names) {
  constexpr std::size_t shown = 5;
  std::string out;
  for (std::size_t i = 0; i < std::min(names.size(), shown); ++i)
    out += (i == 0 ? "" : ", ") + names[i];
  return out + (names.size() > shown ? " and " + std::to_string(names.size() - shown) + " more" : "");
}

merge_plan plan_merge(const worker_trees& trees, const worker_tree& t) {
  const std::vector<std::string> arguments{"merge-tree", "--write-tree", "--no-messages", "HEAD", "refs/heads/" + t.branch};
  constexpr int conflicts = 1, usage = 129;
  auto merged = trees.home().run(arguments);
  if (merged.status != code::ok && merged.status != conflicts)
    throw failure(code::refused, t.branch + " is not merged: " +
                                   (merged.status == usage ? "git 2.38 or later is needed to tell what the merge would change"
                                                           : escape_control(git_trouble(arguments, merged))));
  merge_plan plan;
  plan.tree = merged.out.substr(0, merged.out.find('\n'));
  auto entries =
    nul_separated(trees.home().output({"diff-tree", "-r", "-z", "--name-status", "--no-renames", "--ignore-submodules=none", "HEAD", plan.tree}));
  for (std::size_t i = 0; i + 1 < entries.size(); i += 2) {
    const auto& name = entries[i + 1];
    plan.files.insert(name);
    if (entries[i] == "A")
      plan.made.insert(name);
    else if (entries[i] == "D")
      plan.removed.insert(name);
  }
  return plan;
}

void check_home_files(const worker_trees& trees, const worker_tree& t, const merge_plan& plan) {
  if (auto changed = those_concerned(trees.home_changes(), plan.files); !changed.empty())
    throw failure(code::refused, t.branch + " is not merged, nothing was changed: " + trees.root() +
                                   " has changes in files that the merge changes, too: " + escape_control(some(changed), false) +
                                   ". Commit them first");
  if (auto unknown = unknown_files(trees, plan); !unknown.empty())
    throw failure(code::refused, t.branch + " is not merged, nothing was changed: it would overwrite files in " + trees.root() +
                                   " that are not in git: " + escape_control(some({unknown.begin(), unknown.end()}), false) +
                                   ". Move them away first");
}

merge_result merge_branch(const worker_trees& trees, const worker_tree& t, const merge_plan& plan, const std::string& message,
                          signals_held& signals) {
  // The options of branch.NAME.mergeOptions come before these: with --squash or --no-commit there, git would succeed without a merge.
  const std::vector<std::string> arguments{"merge", "--no-squash", "--commit", "--no-edit", "--no-stat", "-m", message, "refs/heads/" + t.branch};
  auto merge = trees.home().run(arguments, signals.arrival());
  if (trees.home().run({"merge-base", "--is-ancestor", "refs/heads/" + t.branch, "HEAD"}).status == 0) {
    if (merge.status != 0) // git was ended when all was done, in a hook that comes after the merge
      trees.home().run({"merge", "--quit"});
    return {std::nullopt, trees.commit("HEAD")};
  }
  if (merge.status == 0)
    throw failure(code::refused, t.branch + " is not in what is checked out in " + trees.root() +
                                   ", although git merge succeeded: a hook may have undone it. Its worktree and branch stay; see: git -C " +
                                   shell_quoted(trees.root()) + " log");
  const auto why = escape_control(git_trouble(arguments, merge));
  const bool by_git = merge.status >= 0;
  auto stopped = by_git && !trees.home_operation().empty() ? conflict_of(trees, merge) : conflict{};
  // Git knows best how its conflicts are taken back.
  const bool aborted = !stopped.files.empty() && trees.home().run({"merge", "--abort"}).ok();
  const auto left = aborted ? remains{} : take_back(trees, plan);
  const auto reason = stopped.files.empty() ? why : "it conflicts in " + escape_control(some(stopped.files), false);
  const auto status = signals.take() ? code::interrupted : code::refused;
  if (!left.none())
    throw failure(status, t.branch + " is not merged: " + reason + told(trees, left));
  if (stopped.files.empty() || status == code::interrupted)
    throw failure(status, t.branch + " is not merged, nothing was changed: " + reason);
  return {std::move(stopped), {}};
}

} // namespace swarm::cli
