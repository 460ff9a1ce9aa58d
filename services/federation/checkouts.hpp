// The directories of this host that are checkouts of shared scopes. Any thread may call.
//
// In a shared scope a path is relative to the root of its checkout, so that a file has the same path on all hosts. A directory becomes a checkout
// in two ways: `swarmctl scope share` declares it, together with its scope; or a session registers in a named scope from a git repository, and the
// checkout is learned. All checkouts that one host learns for a scope have the same git remote: with two repositories in one scope, different
// files would have the same path.
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

/// A git remote in a form that is equal on all hosts: without user, password, scheme, port, trailing ".git" and slashes, and with the host's name
/// in lower case. "git@Host:me/x.git" and "https://me:secret@host/me/x/" both become "host/me/x". Empty when the remote names no path.
std::string normalized_remote(std::string_view url);
/// The normalized remote "origin" of the repository whose root this is; empty when it has none. A worktree has the remote of its repository.
/// Reads git's files.
std::string remote_of(const std::filesystem::path& root);
/// Git has something of its own there: it is the root of a repository or of a worktree. Reads the file system.
bool is_repository_root(const std::filesystem::path& root);

class checkouts {
public:
  static security_result<std::unique_ptr<checkouts>> open(std::filesystem::path file);

  /// True when there is no checkout, so that callers skip the lookup.
  bool empty() const noexcept { return empty_.load(std::memory_order_acquire); }
  /// The scope that a caller means by this name: for the root of a declared checkout, the checkout's scope; otherwise the name itself.
  std::string scope_of(std::string_view named) const;
  /// The path as the rows of the scope hold it: relative to its checkout, unchanged outside of any.
  std::string stored(std::string_view scope, std::string_view path) const;
  /// The root to which a caller in this directory relates the scope's paths: that of the checkout around the directory, otherwise of the first
  /// checkout. Empty = this host has none.
  std::string root_for(std::string_view scope, std::string_view directory) const;
  /// Where a worker of the scope starts: root_for() without a directory, but no directory in which another repository lies by now. Reads git's files.
  std::string root_for_worker(std::string_view scope) const;
  /// The checkout of the scope around the directory, if another repository lies there by now, so that files of other hosts are not these. Reads git's
  /// files.
  std::optional<v1::Checkout> replaced(std::string_view scope, std::string_view directory) const;
  /// All checkouts, in order of root.
  v1::CheckoutList list() const;
  /// The scopes that have a checkout, each once, in order.
  std::vector<std::string> scopes() const;

  /// Whether a lock of the scope would be called otherwise if the directory became a checkout of it. `path`: as the scope holds it.
  bool would_rename(std::string_view scope, const std::string& root, std::string_view path) const;
  std::optional<security_failure> share(v1::Checkout declared);
  std::optional<security_failure> unshare(const std::string& root);
  /// What a session that registers in this scope, from this root, makes a checkout: the scope is a named one, the root is that of a git repository,
  /// and its remote is that of the scope's other checkouts. Nothing if it is one, or cannot become one. Reads git's files.
  std::optional<v1::Checkout> learnable(const std::string& scope, const std::string& root) const;
  /// Such a session has registered. True when the root became a checkout. Writes the list.
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
