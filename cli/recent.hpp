// What a terminal has made last: what @last means there.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "actors/base/paths.hpp"

namespace swarm::cli {

/// The kinds of things that @last can name.
enum class kind_of_thing { task, terminal, approval, conversation };

/// One small file for each terminal, which has a session of the kernel of its own, and for each script that runs without one, in the state directory
/// of this user. A lost entry costs convenience only: errors are kept quiet.
class recent_things {
public:
  /// Of no session: nothing is kept.
  recent_things() = default;
  explicit recent_things(std::filesystem::path file) : file_(std::move(file)) {}
  /// Of the terminal of this process, or of the script that runs it without one. No other one, of another boot or container for instance, is ever
  /// taken for it.
  static recent_things of_this_terminal(const state_dir&);

  /// `node`: the name of the context, empty = the node of this user.
  void made(kind_of_thing, const std::string& node, const std::string& scope, const std::string& id) const;
  /// Empty when this terminal made none there.
  std::string newest(kind_of_thing, const std::string& node, const std::string& scope) const;

private:
  std::filesystem::path file_;
};

} // namespace swarm::cli
