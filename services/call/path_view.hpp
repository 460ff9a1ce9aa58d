// Paths of scopes that hosts share, as one caller sees them: absolute outside, relative to the checkout inside.
#pragma once

#include <set>
#include <string>

#include <google/protobuf/message.h>

#include "services/federation/checkouts.hpp"

namespace swarm {

/// Of one call. Costs nothing while this host has no checkout of a shared scope.
class path_view {
public:
  path_view() = default;
  /// Of a call that names this scope, from this directory (empty = not known); `scope` becomes the one that is meant.
  path_view(const checkouts& shared, std::string& scope, const std::string& directory);

  /// Paths that the caller wrote, anywhere in the message, as the scope holds them. With `works_here` a worker without a choice of nodes works in the
  /// checkout that was named, when the host has several: its directory stays as it is, and the answer is true.
  bool to_store(google::protobuf::Message&, bool works_here = true);
  /// Paths of the scope, anywhere in the message, as the caller sees them; and the scope by the name that the caller gave it.
  void to_caller(google::protobuf::Message&) const;

private:
  template <class Body>
  std::string own_directory(const Body&) const;
  const checkouts* shared_ = nullptr; // null: nothing is changed
  std::string scope_;
  std::string named_;           // by the caller
  std::set<std::string> asked_; // paths of the call, as stored
  std::string root_;            // from which the caller looks; empty = it has no checkout, and sees them relative
};

} // namespace swarm
