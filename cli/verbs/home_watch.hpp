// Whether the home of what a command follows is away.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "actors/base/limits.hpp"
#include "cli/invocation.hpp"
#include "gateway/client/ticker.hpp"

namespace swarm::cli {

/// Says when the home of the scope is away, and when it is back: a stream of events or of output says neither. It asks on a connection of its own, as
/// long as it lives, and calls `say` from a thread of its own.
class home_watch {
public:
  home_watch(const invocation&, const std::string& scope, std::function<void(const std::string&)> say);
  ~home_watch();
  home_watch(const home_watch&) = delete;
  home_watch& operator=(const home_watch&) = delete;

private:
  /// A home that is away is known to be so no sooner.
  static constexpr std::int64_t period_ms = limits::home_away_dial.count() * 2;

  void look();

  const v1::Query query_;
  const std::function<void(const std::string&)> say_;
  bool away_ = false;
  std::unique_ptr<node_line> line_; // null: there is nothing to ask
  ticker timer_;
};

/// Why the home that alone can answer the query is away; empty when it is there, and nothing when the node does not say.
std::optional<std::string> absence_of_home(coordination_port& node, const v1::Query&);

} // namespace swarm::cli
