#include "services/keeper/subtree.hpp"

#include <algorithm>
#include <set>
#include <tuple>
#include <unordered_map>

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "actors/base/text.hpp"

namespace swarm::keeper {

namespace {

constexpr int scans_max = 16;
constexpr int depth_max = 4096;
constexpr std::chrono::milliseconds pause_max{1'000};

using process_table = std::unordered_map<pid_t, process_stat>;
using spawn_id_of = std::function<std::optional<std::string>(pid_t)>;

struct place {
  const process_stat* root = nullptr; // the ancestor (or self) that is a direct child of the keeper; null for processes elsewhere
  int depth = 0;                      // below the root
};

const process_stat* parent_in(const process_table& table, const process_stat& p) {
  auto parent = table.find(p.parent);
  // A parent younger than its child is another process with a recycled number: the list was not read at one moment.
  return parent == table.end() || parent->second.start > p.start ? nullptr : &parent->second;
}

place place_of(const process_table& table, const process_stat& p, pid_t keeper) {
  auto at = &p;
  for (int i = 0; at && i < depth_max; ++i, at = parent_in(table, *at))
    if (at->parent == keeper)
      return {at, i};
  return {};
}

bool is_main(const main_children& mains, const process_stat& p) {
  auto i = mains.find(p.pid);
  return i != mains.end() && i->second == p.start;
}

bool belongs(const subtree& tree, const process_stat& p, const process_stat& root, const spawn_id_of& spawn_id, const main_children& mains) {
  if (tree.everything || (root.pid == tree.main && root.start == tree.start))
    return true;
  if (is_main(mains, root))
    return false;
  // The session's number cannot be reused while it has members, unless a later child of ours got it.
  auto reused = mains.find(tree.main);
  if (p.session == tree.main && p.start >= tree.start && (reused == mains.end() || reused->second == tree.start))
    return true;
  return !tree.marker.empty() && (spawn_id(root.pid) == tree.marker || spawn_id(p.pid) == tree.marker);
}

using found_processes = std::vector<std::tuple<int, pid_t, const process_stat*>>;

/// A session goes with its marked members, unless its leader lives and is not one of them: somebody may have given a command the variable by hand.
std::set<pid_t> sessions_left(const process_table& table, const std::set<pid_t>& marked) {
  std::set<pid_t> out;
  for (auto pid : marked) {
    auto session = table.at(pid).session;
    auto leader = table.find(session);
    if (session != 0 && (leader == table.end() || leader->second.is_dead() || marked.contains(session)))
      out.insert(session);
  }
  return out;
}

found_processes remains_among(const process_table& table, const spawn_id_of& spawn_id, const std::string& marker, pid_t keeper) {
  auto is_elsewhere = [&](const process_stat& p) { return !p.is_dead() && p.pid != keeper && !place_of(table, p, keeper).root; };
  std::set<pid_t> marked;
  for (const auto& [pid, p] : table)
    if (is_elsewhere(p) && spawn_id(pid) == marker)
      marked.insert(pid);
  const auto sessions = sessions_left(table, marked);
  found_processes out;
  for (const auto& [pid, p] : table) {
    int depth = 0;
    bool found = sessions.contains(p.session);
    for (auto at = &p; at && depth < depth_max; at = parent_in(table, *at), ++depth)
      found = found || marked.contains(at->pid);
    if (found && is_elsewhere(p))
      out.emplace_back(depth, pid, &p);
  }
  return out;
}

/// Interactive shells ignore SIGTERM, and end when they are hung up. What cleans up on SIGTERM alone would die of the other one meanwhile.
bool needs_hangup(pid_t pid) {
  auto on = signal_actions_of(pid);
  return on && (on->ignores(SIGTERM) || (on->catches(SIGTERM) && on->catches(SIGHUP)));
}

/// What passes variables on by name, as agents do to their tool servers, has SWARM_HOME at least.
bool is_from_home(pid_t pid, const std::string& home) {
  auto id = environment_of(pid, home_variable);
  if (!id)
    if (auto directory = environment_of(pid, "SWARM_HOME"))
      id = home_id(*directory);
  return id == home;
}

} // namespace

std::string home_id(const std::filesystem::path& state_directory) {
  struct stat info {};
  return stat(state_directory.c_str(), &info) == 0 ? concat({info.st_dev, ":", info.st_ino}) : std::string{};
}

std::vector<process_stat> members_of(const subtree& tree, pid_t keeper, const main_children& mains) {
  auto spawn_id = [&](pid_t pid) {
    auto id = environment_of(pid, "SWARM_SPAWN_ID");
    return id == tree.marker && tree.remains && !is_from_home(pid, tree.home) ? std::nullopt : id;
  };
  return members_among(list_processes(), spawn_id, tree, keeper, mains);
}

std::vector<process_stat> members_among(const std::vector<process_stat>& all, const spawn_id_of& spawn_id, const subtree& tree, pid_t keeper,
                                        const main_children& mains) {
  process_table table;
  for (const auto& p : all)
    table.emplace(p.pid, p);
  found_processes found;
  if (tree.remains && !tree.marker.empty())
    found = remains_among(table, spawn_id, tree.marker, keeper);
  for (const auto& [pid, p] : table) {
    if (tree.remains || p.is_dead() || pid == keeper)
      continue;
    auto [root, depth] = place_of(table, p, keeper);
    if (root && belongs(tree, p, *root, spawn_id, mains))
      found.emplace_back(depth, pid, &p);
  }
  std::sort(found.begin(), found.end());
  std::vector<process_stat> out;
  out.reserve(found.size());
  for (const auto& [depth, pid, p] : found)
    out.push_back(*p);
  return out;
}

std::size_t reaper::signal(const subtree& tree, int signal) { return signal_all(tree, signal).size(); }

/// Those that it was sent to, parents before their children.
std::vector<process_stat> reaper::signal_all(const subtree& tree, int signal) {
  std::vector<process_stat> out;
  std::set<std::pair<pid_t, std::uint64_t>> done;
  for (int i = 0; i < scans_max; ++i) {
    auto before = done.size();
    for (const auto& p : members_of(tree, getpid(), mains_()))
      if (done.emplace(p.pid, p.start).second) {
        signal_process(p.pid, p.start, signal);
        out.push_back(p);
      }
    if (done.size() == before)
      break;
  }
  return out;
}

// A shell whose child has died runs its next command, and so does what reads from a pipe whose writer has died. As signals reach one process after
// the other, the whole tree is stopped first; then each has its signal pending before any of them runs again. A parent is stopped before its
// children and continued after them, or a shell with job control would see that its job has stopped, and go on too.
std::size_t reaper::terminate(const subtree& tree) {
  auto stopped = signal_all(tree, SIGSTOP);
  for (const auto& p : stopped) {
    signal_process(p.pid, p.start, SIGTERM);
    if (needs_hangup(p.pid))
      signal_process(p.pid, p.start, SIGHUP);
  }
  for (auto p = stopped.rbegin(); p != stopped.rend(); ++p)
    signal_process(p->pid, p->start, SIGCONT);
  return stopped.size();
}

/// Stopped first for the same reason.
std::size_t reaper::kill(const subtree& tree) {
  signal_all(tree, SIGSTOP);
  return signal_all(tree, SIGKILL).size();
}

void reaper::end(const subtree& tree, std::chrono::milliseconds grace, std::function<void()> gone) {
  auto found = grace.count() <= 0 ? kill(tree) : terminate(tree);
  if (found == 0) {
    // Of an earlier call there may still be a round to come, and somebody who waits for it.
    if (auto begun = jobs_.extract(tree); !begun.empty()) {
      loop_.cancel(begun.mapped().timer);
      if (!gone)
        gone = std::move(begun.mapped().gone);
    }
    if (gone)
      gone();
    return;
  }
  auto kill_at = clock_.boot_ms() + grace.count();
  auto [i, fresh] = jobs_.try_emplace(tree);
  if (gone)
    i->second.gone = std::move(gone);
  if (!fresh && i->second.kill_at_ms <= kill_at)
    return;
  loop_.cancel(i->second.timer);
  i->second.kill_at_ms = kill_at;
  i->second.timer = loop_.after(std::max(grace, i->second.pause), [this, tree] { kill_round(tree); });
}

void reaper::review() {
  std::vector<subtree> over;
  for (const auto& [tree, job] : jobs_)
    if (job.gone && members_of(tree, getpid(), mains_()).empty())
      over.push_back(tree);
  for (const auto& tree : over) {
    auto job = jobs_.extract(tree);
    if (job.empty())
      continue;
    loop_.cancel(job.mapped().timer);
    job.mapped().gone();
  }
}

void reaper::kill_round(const subtree& tree) {
  auto i = jobs_.find(tree);
  if (i == jobs_.end())
    return;
  if (kill(tree) == 0) {
    auto gone = std::move(i->second.gone);
    jobs_.erase(i);
    if (gone)
      gone();
    return;
  }
  i->second.timer = loop_.after(i->second.pause, [this, tree] { kill_round(tree); });
  i->second.pause = std::min(i->second.pause * 2, pause_max);
}

} // namespace swarm::keeper
