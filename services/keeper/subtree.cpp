#include "services/keeper/subtree.hpp"

#include <algorithm>
#include <set>
#include <unordered_map>

#include <signal.h>
#include <unistd.h>

namespace swarm::keeper {

namespace {

constexpr int scans_max = 16;
constexpr int depth_max = 4096;
constexpr std::chrono::milliseconds pause_max{1'000};

using process_table = std::unordered_map<pid_t, process_stat>;
using spawn_id_of = std::function<std::optional<std::string>(pid_t)>;

/// The ancestor (or self) that is a direct child of the keeper; null for processes elsewhere.
const process_stat* root_of(const process_table& table, const process_stat& p, pid_t keeper) {
  auto at = &p;
  for (int i = 0; i < depth_max; ++i) {
    if (at->parent == keeper)
      return at;
    auto parent = table.find(at->parent);
    // A parent younger than its child is another process with a recycled number: the list was not read at one moment.
    if (parent == table.end() || parent->second.start > at->start)
      return nullptr;
    at = &parent->second;
  }
  return nullptr;
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

} // namespace

std::vector<process_stat> members_of(const subtree& tree, pid_t keeper, const main_children& mains) {
  return members_among(
    list_processes(), [](pid_t pid) { return environment_of(pid, "SWARM_SPAWN_ID"); }, tree, keeper, mains);
}

std::vector<process_stat> members_among(const std::vector<process_stat>& all, const spawn_id_of& spawn_id, const subtree& tree, pid_t keeper,
                                        const main_children& mains) {
  process_table table;
  for (const auto& p : all)
    table.emplace(p.pid, p);
  std::vector<process_stat> out;
  for (const auto& [pid, p] : table) {
    if (p.is_dead() || pid == keeper)
      continue;
    auto root = root_of(table, p, keeper);
    if (root && belongs(tree, p, *root, spawn_id, mains))
      out.push_back(p);
  }
  return out;
}

std::size_t reaper::signal(const subtree& tree, int signal) { return signal_all(tree, {signal}); }

std::size_t reaper::signal_all(const subtree& tree, const std::vector<int>& signals) {
  std::set<std::pair<pid_t, std::uint64_t>> done;
  for (int i = 0; i < scans_max; ++i) {
    auto before = done.size();
    for (const auto& p : members_of(tree, getpid(), mains_()))
      if (done.emplace(p.pid, p.start).second)
        for (auto s : signals)
          signal_process(p.pid, p.start, s);
    if (done.size() == before)
      break;
  }
  return done.size();
}

void reaper::end(const subtree& tree, std::chrono::milliseconds grace, std::function<void()> gone) {
  auto found = grace.count() <= 0 ? signal_all(tree, {SIGKILL}) : signal_all(tree, {SIGTERM, SIGHUP, SIGCONT});
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

void reaper::kill_round(const subtree& tree) {
  auto i = jobs_.find(tree);
  if (i == jobs_.end())
    return;
  if (signal_all(tree, {SIGKILL}) == 0) {
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
