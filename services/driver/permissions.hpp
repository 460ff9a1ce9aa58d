// What becomes of an agent's request before a person is asked: peers' locks, what no agent writes, the conversation's rule and its patterns.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "actors/agents/held_paths.hpp"
#include "services/driver/outbox.hpp"
#include "swarm/internal/driver.pb.h"

namespace swarm::driver {

/// Where the agent works.
struct workplace {
  std::string directory;                             // of the conversation, absolute; empty = not known, then no file lies below it
  std::string home;                                  // of the user, for what a shell command writes
  std::vector<std::string> kept_out = {};            // directories that no agent writes, whatever the rule is
  std::map<std::string, std::string> variables = {}; // of its environment, that lead to files

  shell::place place() const { return {directory, home, variables}; }
};

struct ruling {
  enum class kind { ask, allow, deny };
  kind what = kind::ask;
  std::string rule = {};   // for people
  std::string reason = {}; // for the agent, with deny
};

/// Reads the file system for symbolic links.
class permission_rules {
public:
  explicit permission_rules(workplace at) : at_(std::move(at)) {}

  void set(internal::Permissions permissions, moment now);
  /// Whether swarmd has said any: one that is older keeps no patterns.
  bool are_known() const noexcept { return known_; }

  /// `asked` is the request without its body. `here` is the directory that the agent is in.
  ruling decide(const internal::Request& asked, std::string_view body, const std::string& here, const internal::Locks& locks, moment now) const;
  /// What a tool that is asked about would write.
  agents::tool_writes writes_of(const internal::Request& asked, std::string_view body, const std::string& here) const;
  agents::tool_writes writes_of(const internal::HookQuestion& question) const { return agents::writes_of(question, at_.place()); }
  /// Why no agent may do it, for the agent; empty when it may.
  std::string why_kept_out(const internal::Request& asked, std::string_view body, const std::string& here) const;
  /// Why a tool may not run, whether the agent asks for it or not (its own settings may allow it); empty when it may.
  std::string why_not_run(const internal::HookQuestion& question) const;
  /// What would allow exactly this; empty when no pattern can.
  std::string pattern_of(const internal::Request& asked, std::string_view body) const;

private:
  bool is_auto(moment now) const;
  bool is_plain_file_below(const std::string& path) const;
  bool is_setting_at_home(const std::string& path) const;
  std::string matching_pattern(const internal::Request& asked, std::string_view body) const;

  workplace at_;
  internal::Permissions permissions_;
  bool known_ = false;
  std::int64_t auto_until_ = 0; // boot_ms: a clock that is set back does not make it longer
};

} // namespace swarm::driver
