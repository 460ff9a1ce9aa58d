// Processes of our own making, for code that looks at processes. Thread-safe.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "actors/base/process_view.hpp"

namespace swarm::testing {

struct made_process {
  pid_t parent = 1;
  pid_t session = 0; // 0 = its parent's
  std::string executable = {};
  std::vector<std::string> arguments = {};   // none = the executable's name
  std::vector<std::string> environment = {}; // NAME=value
  uid_t user = 1000;
  bool is_closed = false;  // nobody may look into it: no executable, no environment
  bool is_hidden = false;  // it is not even listed
  std::string name = {};   // empty = the executable's
  std::uint64_t start = 0; // 0 = its pid
  pid_t group = 0;         // 0 = its own
};

class process_tree final : public process_view {
public:
  /// With process 1, a service manager of root's that nobody may look into.
  process_tree() { add(1, {.parent = 0, .session = 1, .executable = "/usr/lib/systemd/systemd", .user = 0, .is_closed = true}); }

  process_tree(const process_tree& other) : all_(other.all_) {}

  void add(pid_t pid, made_process p) {
    std::lock_guard guard{mutex_};
    if (p.session == 0)
      p.session = all_.contains(p.parent) ? all_.at(p.parent).session : pid;
    if (p.arguments.empty())
      p.arguments = {p.executable};
    if (p.name.empty())
      p.name = p.executable.substr(p.executable.rfind('/') + 1).substr(0, 15);
    if (p.start == 0)
      p.start = static_cast<std::uint64_t>(pid);
    all_.insert_or_assign(pid, std::move(p));
  }
  /// Its children go to the nearest process that takes orphans: the first one here.
  void end(pid_t pid, pid_t heir = 1) {
    std::lock_guard guard{mutex_};
    all_.erase(pid);
    for (auto& [other, p] : all_)
      if (p.parent == pid)
        p.parent = heir;
  }
  void change(pid_t pid, const std::function<void(made_process&)>& how) {
    std::lock_guard guard{mutex_};
    how(all_.at(pid));
  }

  std::optional<named_process> process(pid_t pid) const override {
    auto p = find(pid);
    return p && !p->is_hidden ? std::optional{named(pid, *p)} : std::nullopt;
  }
  std::vector<named_process> group(pid_t id) const override {
    std::lock_guard guard{mutex_};
    std::vector<named_process> out;
    for (const auto& [pid, p] : all_)
      if (!p.is_hidden && group_of(pid, p) == id)
        out.push_back(named(pid, p));
    return out;
  }
  std::optional<uid_t> user_of(pid_t pid) const override {
    auto p = find(pid);
    return p && !p->is_hidden ? std::optional{p->user} : std::nullopt;
  }
  std::optional<std::string> executable_of(pid_t pid) const override {
    auto p = find(pid);
    return p && !p->is_hidden && !p->is_closed ? std::optional{p->executable} : std::nullopt;
  }
  std::vector<std::string> arguments_of(pid_t pid) const override {
    auto p = find(pid);
    return p && !p->is_hidden ? p->arguments : std::vector<std::string>{};
  }
  std::optional<std::string> environment_of(pid_t pid) const override {
    auto p = find(pid);
    if (!p || p->is_hidden || p->is_closed)
      return std::nullopt;
    std::string out;
    for (const auto& v : p->environment)
      out += v + '\0';
    return out;
  }

private:
  static pid_t group_of(pid_t pid, const made_process& p) { return p.group == 0 ? pid : p.group; }

  static named_process named(pid_t pid, const made_process& p) {
    named_process out;
    out.pid = pid;
    out.state = 'S';
    out.parent = p.parent;
    out.group = group_of(pid, p);
    out.session = p.session;
    out.start = p.start;
    out.name = p.name;
    return out;
  }

  std::optional<made_process> find(pid_t pid) const {
    std::lock_guard guard{mutex_};
    auto i = all_.find(pid);
    return i == all_.end() ? std::nullopt : std::optional{i->second};
  }

  mutable std::mutex mutex_;
  std::map<pid_t, made_process> all_;
};

} // namespace swarm::testing
