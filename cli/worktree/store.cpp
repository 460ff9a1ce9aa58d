#include "cli/worktree/store.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "actors/base/atomic_file.hpp"
#include "actors/base/crypto.hpp"
#include "actors/base/limits.hpp"
#include "actors/base/paths.hpp"
#include "actors/base/text.hpp"
#include "actors/base/worktree.hpp"
#include "actors/domain/json_text.hpp"
#include "cli/worktree/signals.hpp"
#include "gateway/client/failure.hpp"

namespace fs = std::filesystem;

namespace swarm::cli {

namespace {

constexpr const char* branch_prefix = "swarm/";
constexpr std::size_t short_name_bytes = 8;
constexpr std::size_t place_hash_bytes = 8;

std::string start_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::string out(limits::worktree_record_bytes_max, '\0');
  in.read(out.data(), static_cast<std::streamsize>(out.size()));
  out.resize(static_cast<std::size_t>(std::max<std::streamsize>(in.gcount(), 0)));
  return out;
}

/// What cannot be looked at is there.
bool is_there(const fs::path& p) {
  std::error_code ec;
  return fs::symlink_status(p, ec).type() != fs::file_type::not_found;
}

bool is_same(const fs::path& a, const fs::path& b) {
  std::error_code ec;
  return fs::equivalent(a, b, ec) && !ec;
}

/// The branch that is checked out; empty when none is.
std::string checked_out(const git& in) {
  constexpr std::string_view heads = "refs/heads/";
  auto r = in.run({"symbolic-ref", "--quiet", "HEAD"});
  auto name = std::string{trimmed(r.out)};
  return r.ok() && name.starts_with(heads) ? name.substr(heads.size()) : std::string{};
}

void write_record(const worker_tree& t) {
  json record = {{"task", t.task_id},  {"spawn", t.spawn_id}, {"scope", t.scope}, {"home", t.home},
                 {"origin", t.origin}, {"branch", t.branch},  {"base", t.base},   {"base_branch", t.base_branch}};
  auto file = t.directory + "/" + worker_record_file;
  if (auto error = replace_file(file, record.dump(2, ' ', false, json::error_handler_t::replace) + '\n'))
    throw failure(code::refused, "cannot write " + file + ": " + error.message());
}

unique_fd open_lock(const std::string& file, int flags) {
  unique_fd fd{open(file.c_str(), flags | O_CLOEXEC, 0600)};
  if (!fd)
    throw failure(code::refused, "cannot open " + file + ": " + std::strerror(errno));
  return fd;
}

bool locked(int fd, int how) {
  int n = 0;
  do
    n = flock(fd, how);
  while (n != 0 && errno == EINTR);
  return n == 0;
}

std::string operation_in(const std::string& directory) {
  struct sign {
    const char* file;
    const char* name;
  };
  for (auto s : {sign{"rebase-merge", "a rebase"}, sign{"rebase-apply", "a rebase"}, sign{"MERGE_HEAD", "a merge"},
                 sign{"CHERRY_PICK_HEAD", "a cherry-pick"}, sign{"REVERT_HEAD", "a revert"}, sign{"BISECT_LOG", "a bisection"}})
    if (is_there(directory + "/" + s.file))
      return s.name;
  return {};
}

/// Names of the files in `status --porcelain -z`; of a renamed one both.
std::vector<std::string> changed_files(const std::string& status) {
  std::vector<std::string> out;
  bool second = false;
  for (auto& entry : nul_separated(status)) {
    constexpr std::size_t flags = 3;
    if (second || entry.size() <= flags) {
      out.push_back(std::move(entry));
      second = false;
      continue;
    }
    second = entry[0] == 'R' || entry[0] == 'C';
    out.push_back(entry.substr(flags));
  }
  return out;
}

/// Files git was told not to look at: changes in them would not be seen.
std::vector<std::string> hidden_files(const std::string& path, const std::string& listed) {
  std::vector<std::string> out;
  for (const auto& entry : nul_separated(listed)) {
    if (entry.size() < 3)
      continue;
    auto name = entry.substr(2);
    bool assumed = entry[0] >= 'a' && entry[0] <= 'z';
    if (assumed || (entry[0] == 'S' && is_there(concat({path, "/", name}))))
      out.push_back(name);
  }
  return out;
}

/// Where the worktrees of a repository are made. Beside it: programs that go through its files do not find them.
std::string place(const std::string& repository, const environment& env) {
  auto directory = env.get("SWARM_WORKTREES");
  if (directory.empty())
    return concat({repository, worktrees_suffix});
  if (directory.front() != '/')
    throw failure(code::refused, "SWARM_WORKTREES must be an absolute path");
  // Repositories of one name must not meet there.
  return normalize_path(fs::path{repository}.filename().string() + "-" + to_hex(sha256(repository)).substr(0, place_hash_bytes), directory);
}

} // namespace

worker_trees::worker_trees(const std::string& directory) : home_("") {
  auto tree = find_git_tree(directory);
  if (!tree)
    throw failure(code::refused, directory + " is not in a git repository");
  if (auto worker = tree->linked ? read(tree->git_directory) : std::nullopt) {
    auto common = tree->common_directory;
    for (const auto& from : {worker->origin, tree->repository}) {
      tree = find_git_tree(from);
      if (tree && is_same(tree->common_directory, common))
        break;
      tree.reset();
    }
    if (!tree)
      throw failure(code::refused, "the repository of " + directory + " has no main worktree");
  }
  repository_ = tree->repository;
  common_ = tree->common_directory;
  own_ = tree->git_directory;
  home_ = git{tree->root};
}

unique_fd worker_trees::lock() const {
  auto fd = open_lock(common_ + "/swarm-worktrees.lock", O_RDWR | O_CREAT);
  if (!locked(fd.get(), LOCK_EX))
    throw failure(code::refused, std::string{"cannot lock the repository: "} + std::strerror(errno));
  return fd;
}

unique_fd worker_trees::use(const worker_tree& t) {
  auto fd = open_lock(t.directory + "/" + worker_record_file, O_RDONLY);
  locked(fd.get(), LOCK_SH);
  return fd;
}

std::optional<worker_tree> worker_trees::read(const std::string& directory) {
  auto record = json::parse(start_of(directory + "/" + worker_record_file), nullptr, false);
  auto pointer = std::string{trimmed(start_of(directory + "/gitdir"))};
  if (!record.is_object() || pointer.empty())
    return std::nullopt;
  worker_tree t;
  t.task_id = domain::text_in(record, "task");
  t.spawn_id = domain::text_in(record, "spawn");
  t.scope = domain::text_in(record, "scope");
  t.home = domain::text_in(record, "home");
  t.origin = domain::text_in(record, "origin");
  t.branch = domain::text_in(record, "branch");
  t.base = domain::text_in(record, "base");
  t.base_branch = domain::text_in(record, "base_branch");
  t.directory = directory;
  t.path = fs::path{normalize_path(pointer, directory)}.parent_path().string();
  if (t.key().empty() || !t.branch.starts_with(branch_prefix))
    return std::nullopt;
  return t;
}

std::vector<worker_tree> worker_trees::list() const {
  std::vector<worker_tree> out;
  std::error_code ec;
  for (fs::directory_iterator i{common_ + "/worktrees", ec}, end; !ec && i != end; i.increment(ec))
    if (auto t = read(i->path().string()))
      out.push_back(std::move(*t));
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
  return out;
}

std::string worker_trees::home_branch() const { return checked_out(home_); }

std::string worker_trees::home_operation() const { return operation_in(own_); }

std::vector<std::string> worker_trees::home_changes() const {
  // What is checked out of a submodule is its own matter: a merge does not touch it.
  return changed_files(home_.output({"status", "--porcelain=v1", "-z", "--untracked-files=no", "--ignore-submodules=all"}));
}

std::string worker_trees::commit(const std::string& name) const {
  auto r = home_.run({"rev-parse", "--verify", "--quiet", "--end-of-options", name + "^{commit}"});
  return r.ok() ? std::string{trimmed(r.out)} : std::string{};
}

worker_tree worker_trees::make(worker_tree wanted, const environment& env) const {
  std::optional<worker_tree> known;
  for (auto& t : list())
    if (t.key() == wanted.key() && t.home == wanted.home)
      known = std::move(t);
  if (known && is_there(known->path + "/.git"))
    return *known;
  if (known) {
    // Somebody removed the directory; what was committed is on the branch.
    home_.output({"worktree", "add", "--force", "--quiet", known->path, known->branch});
    write_record(*known);
    return *known;
  }
  wanted.origin = root();
  wanted.base = commit("HEAD");
  if (wanted.base.empty())
    throw failure(code::refused, "the repository " + root() + " has no commit yet; a worktree needs one to begin from");
  wanted.base_branch = checked_out(home_);
  const auto directory = place(repository_, env);
  bool taken = false;
  for (const auto& name : {wanted.key().substr(0, short_name_bytes), wanted.key()}) {
    wanted.branch = branch_prefix + name;
    wanted.path = concat({directory, "/", name});
    if (adopt(wanted))
      return wanted;
    taken = is_there(wanted.path) || !commit("refs/heads/" + wanted.branch).empty();
    if (!taken)
      break;
  }
  if (is_there(wanted.path))
    throw failure(code::refused, wanted.path + " is there already and no worktree of this task");
  if (taken) // the branch has the whole id: the worktree was removed and the branch has stayed
    home_.output({"worktree", "add", "--quiet", wanted.path, wanted.branch});
  else
    home_.output({"worktree", "add", "--quiet", "--no-track", "-b", wanted.branch, wanted.path, wanted.base});
  wanted.directory = git{wanted.path}.line({"rev-parse", "--absolute-git-dir"});
  write_record(wanted);
  return wanted;
}

bool worker_trees::adopt(worker_tree& t) const {
  if (!is_there(t.path + "/.git") || checked_out(git{t.path}) != t.branch)
    return false;
  t.directory = git{t.path}.line({"rev-parse", "--absolute-git-dir"});
  auto tip = commit("refs/heads/" + t.branch);
  if (is_there(t.directory + "/" + worker_record_file) || tip.empty())
    return false;
  t.base = tip;
  write_record(t);
  return true;
}

bool worker_trees::is_merged(const std::string& what, const worker_tree& t) const {
  if (what.empty())
    return true;
  auto within = [&](const std::string& target) { return !target.empty() && home_.run({"merge-base", "--is-ancestor", what, target}).status == 0; };
  return within(commit("HEAD")) || (!t.base_branch.empty() && t.base_branch != t.branch && within(commit("refs/heads/" + t.base_branch)));
}

void worker_trees::look_inside(const worker_tree& t, tree_state& s) const {
  git inside{t.path};
  s.operation = operation_in(t.directory);
  const std::vector<std::string> status{"status", "--porcelain=v1", "-z", "--untracked-files=all", "--ignore-submodules=none"};
  auto changes = inside.run(status);
  s.changes = changed_files(changes.out);
  const std::vector<std::string> flags{"ls-files", "-v", "-z"};
  auto listed = inside.run(flags);
  for (auto& name : hidden_files(t.path, listed.out))
    s.changes.push_back(std::move(name));
  if (!changes.ok())
    s.trouble = git_trouble(status, changes);
  else if (!listed.ok())
    s.trouble = git_trouble(flags, listed);
  s.head_branch = checked_out(inside);
}

tree_state worker_trees::look(const worker_tree& t) const {
  tree_state s;
  {
    unique_fd fd{open((t.directory + "/" + worker_record_file).c_str(), O_RDONLY | O_CLOEXEC)};
    s.in_use = fd && !locked(fd.get(), LOCK_EX | LOCK_NB);
  }
  s.present = is_there(t.path);
  if (s.present && !is_there(t.path + "/.git"))
    s.trouble = "it has no .git any more";
  else if (s.present)
    look_inside(t, s);
  else if (!is_there(fs::path{t.path}.parent_path()))
    s.trouble = "its place " + fs::path{t.path}.parent_path().string() + " is not there"; // a disk that is not mounted, perhaps
  s.head = commit("worktrees/" + fs::path{t.directory}.filename().string() + "/HEAD");
  s.tip = commit("refs/heads/" + t.branch);
  const bool nothing_left = !s.present && s.tip.empty();
  if (s.head.empty() && s.trouble.empty() && !nothing_left)
    s.trouble = "its HEAD cannot be read";
  s.merged = is_merged(s.head, t) && (s.tip == s.head || is_merged(s.tip, t));
  auto counted = home_.run({"rev-list", "--left-right", "--count", "--end-of-options", "HEAD..." + (s.head.empty() ? s.tip : s.head)});
  if (counted.ok())
    std::istringstream{counted.out} >> s.behind >> s.ahead;
  return s;
}

std::string worker_trees::remove(const worker_tree& t, branch of) const {
  signals_held held;
  // Without --force: git looks once more.
  const std::vector<std::string> removal{"worktree", "remove", t.path};
  if (auto r = home_.run(removal); !r.ok())
    return git_trouble(removal, r);
  const std::vector<std::string> deletion{"branch", "--quiet", "-D", t.branch};
  std::error_code ec;
  fs::remove(fs::path{t.path}.parent_path(), ec); // when it was the last
  if (of == branch::stays)
    return {};
  if (auto r = home_.run(deletion); !r.ok() && !commit("refs/heads/" + t.branch).empty())
    return git_trouble(deletion, r);
  return {};
}

bool worker_trees::untouched(const worker_tree& t, const tree_state& s) { return s.present && !s.dirty() && s.head == t.base && s.tip == t.base; }

std::optional<worker_tree> find_worker_tree(const std::string& directory, const std::string& task_id) noexcept {
  try {
    for (auto& t : worker_trees{directory}.list())
      if (t.task_id == task_id)
        return std::move(t);
  } catch (const std::exception&) {
    // Then it is not found.
  }
  return std::nullopt;
}

} // namespace swarm::cli
