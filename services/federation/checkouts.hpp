// The directories of this host that are checkouts of scopes which hosts share. Any thread may call.
//
// In such a scope paths are relative to the root of whichever checkout they lie in, so that a file is one file in all of them. A directory
// becomes a checkout by `swarmctl scope share`, which also says whose; or, for a named scope, when a session registers from a git
// repository: all of one host's that are learned this way have the same git remote, because two repositories in one scope would have
// files in common that are not the same.
#pragma once

#include <atomic>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "services/security/failure.hpp"
#include "swarm/v1/cluster.pb.h"

namespace swarm {

/// A git remote without what differs from host to host: user, password, scheme, port, a trailing ".git" and slashes; the host in lower
/// case. "git@Host:me/x.git" and "https://me:secret@host/me/x/" are both "host/me/x". Empty when nothing of it is left.
std::string normalized_remote(std::string_view url);
/// The remote "origin" of the repository whose working tree this is, as it stands in its files; a linked worktree has that of the main
/// one. Empty when there is none. Reads a few files.
std::string remote_of(const std::filesystem::path& root);

class checkouts {
public:
  static security_result<std::unique_ptr<checkouts>> open(std::filesystem::path file);

  /// There are none: nothing need be looked up.
  bool empty() const noexcept { return empty_.load(std::memory_order_acquire); }
  /// The scope that a caller means who names this one: that of the checkout, for a directory that is one.
  std::string scope_of(std::string_view named) const;
  /// As the scope holds the path.
  std::string stored(std::string_view scope, std::string_view path) const;
  /// The root from which a caller in this directory sees the scope's paths: of the checkout it stands in, else of the first one. Empty =
  /// this host has none.
  std::string root_for(std::string_view scope, std::string_view directory) const;
  /// What is shared here, in order of root.
  v1::CheckoutList list() const;
  /// Scopes of which there is a checkout, each once, in order.
  std::vector<std::string> scopes() const;

  std::optional<security_failure> share(v1::Checkout declared);
  std::optional<security_failure> unshare(const std::string& root);
  /// A session has registered in this scope, from this root. True when that made it a checkout: the scope is a name, the root that of a git
  /// repository, and the same one as before. Looks into its files, and keeps a new one on the disk.
  bool learn(const std::string& scope, const std::string& root);

private:
  explicit checkouts(std::filesystem::path file) : file_(std::move(file)) {}
  std::optional<security_failure> keep(v1::CheckoutList next);

  const std::filesystem::path file_;
  std::atomic<bool> empty_ = true;
  mutable std::mutex mutex_;
  v1::CheckoutList all_; // in order of root
};

} // namespace swarm
