// The processes that belong to one child of the keeper, and how they are ended.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <sys/types.h>

#include "actors/base/event_loop.hpp"
#include "actors/base/process.hpp"

namespace swarm::keeper {

/// A child and everything it started: its descendants, what is left of its session, and orphans that came to the keeper with the
/// child's SWARM_SPAWN_ID in their environment.
struct subtree {
  pid_t main = 0;
  std::uint64_t start = 0;
  std::string marker;      // value of SWARM_SPAWN_ID; empty when it has none
  bool everything = false; // all processes below the keeper instead
  bool remains = false;    // what a child left that died with an earlier keeper: none of it is below this one, and marker and home tell whose it is
  std::string home = {};   // value of SWARM_HOME_ID of what is left: the spawns of a copied state directory have the same ids

  friend bool operator<(const subtree& a, const subtree& b) {
    return std::tie(a.everything, a.remains, a.main, a.start, a.marker, a.home) <
           std::tie(b.everything, b.remains, b.main, b.start, b.marker, b.home);
  }
};

inline subtree remains_of(std::string marker, std::string home) { return {0, 0, std::move(marker), false, true, std::move(home)}; }

/// Tells a state directory from its copies, also when it is moved: its device and inode. Empty when it cannot be looked at.
std::string home_id(const std::filesystem::path& state_directory);
/// The variable in which a keeper gives that of its own to what it starts.
inline constexpr std::string_view home_variable = "SWARM_HOME_ID";

/// The start times of the keeper's children that are not reaped, by pid: their descendants belong to nobody else.
using main_children = std::map<pid_t, std::uint64_t>;

/// The subtree's live processes, parents before their children, zombies not counted. `keeper` is the common subreaper.
std::vector<process_stat> members_of(const subtree&, pid_t keeper, const main_children&);
/// The same among processes that were listed already; `spawn_id` gives the SWARM_SPAWN_ID a process was started with.
std::vector<process_stat> members_among(const std::vector<process_stat>& all, const std::function<std::optional<std::string>(pid_t)>& spawn_id,
                                        const subtree&, pid_t keeper, const main_children&);

/// Ends subtrees and keeps at it until nothing is left of them.
class reaper {
public:
  reaper(event_loop& loop, const clock_port& clock, std::function<main_children()> mains) : loop_(loop), clock_(clock), mains_(std::move(mains)) {}

  /// One signal to every process of the subtree, also to those forked meanwhile. Returns how many were signalled.
  std::size_t signal(const subtree&, int signal);
  /// SIGTERM (and SIGHUP to what would not heed that) now, SIGKILL after the grace, repeated until nothing is left. No process goes on because
  /// another one has ended: a script does not come to its next command. Repeating it shortens the grace.
  /// `gone` is called when nothing is left, from within this call if that is so already; of several for one subtree, the last one.
  void end(const subtree&, std::chrono::milliseconds grace, std::function<void()> gone = {});
  /// Something has ended: those that somebody waits for are looked at again, before their time.
  void review();
  /// Something of it may be left.
  bool is_ending(const subtree& tree) const { return jobs_.contains(tree); }

private:
  struct job {
    event_loop::token timer = 0;
    std::int64_t kill_at_ms = 0;
    std::chrono::milliseconds pause{20};
    std::function<void()> gone;
  };

  std::vector<process_stat> signal_all(const subtree&, int signal);
  std::size_t terminate(const subtree&);
  std::size_t kill(const subtree&);
  void kill_round(const subtree&);

  event_loop& loop_;
  const clock_port& clock_;
  std::function<main_children()> mains_;
  std::map<subtree, job> jobs_;
};

} // namespace swarm::keeper
