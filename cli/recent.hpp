// What a terminal has made last: what @last means there.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "actors/base/paths.hpp"

namespace swarm::cli {

/// The kinds of things that @last can name.
enum class kind_of_thing { task, terminal, approval };

/// One small file for each controlling terminal, in the state directory of this user. A lost entry costs convenience only: errors are kept quiet.
class recent_things {
public:
  /// Of no terminal: nothing is kept.
  recent_things() = default;
  explicit recent_things(std::filesystem::path file) : file_(std::move(file)) {}
  /// Of the terminal that controls this process, which is told from a later one of the same number by its session.
  static recent_things of_this_terminal(const state_dir&);

  /// `node`: the name of the context, empty = the node of this user.
  void made(kind_of_thing, const std::string& node, const std::string& scope, const std::string& id) const;
  /// Empty when this terminal made none there.
  std::string newest(kind_of_thing, const std::string& node, const std::string& scope) const;

private:
  std::filesystem::path file_;
};

} // namespace swarm::cli
