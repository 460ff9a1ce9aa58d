// The processes of agents that run on this host, and the sessions that were registered below each: whatever an agent's tools run acts as the
// agent's session. Kept in a file, so that a node which starts again knows them before the first caller comes.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "actors/agents/ancestry.hpp"
#include "actors/fabric/node_environment.hpp"

namespace swarm {

/// Identifies a process for ever.
struct process_key {
  std::int64_t pid = 0;
  std::uint64_t start = 0;

  auto operator<=>(const process_key&) const = default;
  /// "<pid>.<start>", as in Principal.id and Session.agent_root.
  std::string text() const { return std::to_string(pid) + "." + std::to_string(start); }
};

struct bound_session {
  std::string id;
  std::string scope;

  bool operator==(const bound_session&) const = default;
};

struct agent_root {
  process_key process;
  std::string program;                 // its name in the table of agents
  std::vector<bound_session> sessions; // oldest first; the newest one that lives is what runs below the root
};

/// Of the file's text; of a damaged text and of another boot nothing.
std::vector<agent_root> parse_agent_roots(std::string_view text, std::string_view boot_id);
std::string text_of_agent_roots(const std::vector<agent_root>&, std::string_view boot_id);
/// The one of the running kernel; empty when it does not say.
std::string current_boot_id();

/// Thread-safe; outlives the actors and services.
class agent_roots {
public:
  /// Reads the file: roots whose process has ended, or that another boot has seen, are gone. `watch` and `processes` outlive this.
  agent_roots(std::filesystem::path file, process_watch_port& watch, const process_view& processes, std::string boot_id);
  ~agent_roots();
  agent_roots(const agent_roots&) = delete;
  agent_roots& operator=(const agent_roots&) = delete;

  /// Grows with every new root: a caller that was looked at before may be below it.
  std::uint64_t generation() const noexcept { return shared_->generation; }
  /// It runs an agent's program, and stays a root until it ends. Above limits::agent_roots_max a new one is not kept: below it there is an agent
  /// without a session.
  void found(process_key, const std::string& program);
  /// The program of a root that is kept; null for any other process.
  const agents::agent* known(const process_stat&) const;
  std::optional<agent_root> find(process_key) const;
  /// The root that the process is below; found now, if it was not yet.
  std::optional<agent_root> root_of(std::int64_t pid);
  /// The root to which the session is bound.
  std::optional<process_key> root_of_session(std::string_view id) const;
  /// What runs below the root acts as this session from now on. False when the root is not kept.
  bool bind(process_key, const std::string& session_id, const std::string& scope);
  /// It has ended.
  void session_gone(const std::string& session_id);
  /// The value of a variable with which the root itself was started, so that what runs below it has no say in it.
  std::optional<std::string> environment_of_root(process_key, std::string_view name) const;

  const process_view& processes() const noexcept { return processes_; }

private:
  struct kept {
    agent_root root;
    std::uint64_t watch = 0;
  };
  /// What the watch's thread may need after this has gone.
  struct shared {
    std::mutex mutex;
    std::map<process_key, kept> roots;
    std::atomic<std::uint64_t> generation{1};
    std::mutex writing; // one file at a time, in the order of the changes
    std::filesystem::path file;
    std::string boot_id;
    bool over = false;

    void write();
    void ended(process_key);
  };

  void watch(process_key);

  process_watch_port& watch_;
  const process_view& processes_;
  std::shared_ptr<shared> shared_ = std::make_shared<shared>();
};

} // namespace swarm
