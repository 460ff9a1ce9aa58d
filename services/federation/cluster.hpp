// The cluster as this node knows it: what its files say, who is in it, and what this node says of itself. Any thread may call.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "actors/fabric/node_environment.hpp"
#include "services/federation/checkouts.hpp"
#include "services/federation/node_config.hpp"
#include "services/security/authority_store.hpp"
#include "services/security/join_tokens.hpp"

namespace swarm {

class cluster final : public cluster_port {
public:
  /// Of this state directory. Throws std::runtime_error with the file that is wrong.
  static std::unique_ptr<cluster> open(const state_dir& dir, const node_facts& facts, const clock_port& clock);

  std::string home_of(std::string_view scope) const override;
  std::string shared_home() const override;
  bool is_shared(std::string_view scope) const override;
  v1::ClusterView view() const override;
  void keep(const v1::ClusterView&) override;
  void busy(std::uint32_t workers) override;
  void placed(const std::string& node_id) override;
  void listen(std::function<void()> changed) override;
  std::string checkout_of(std::string_view scope) const override;
  const domain::accept_policy& accepts() const override { return config_.accept; }

  authority_store& authority() noexcept { return *authority_; }
  join_tokens& tokens() noexcept { return *tokens_; }
  checkouts& shared() noexcept { return *checkouts_; }
  /// What is shared on this host has changed.
  void checkouts_changed();
  /// `unlocked` is called, from any thread, when the home says that certificates can be made again; must not block.
  void on_unlocked(std::function<void()> unlocked);
  /// This node as it describes itself to the others.
  void describe(v1::NodeInfo info);
  /// At the home, before a node comes in: a name or an id that another one has, too many. `again`: it is the node that has this id.
  std::optional<security_failure> may_admit(const std::string& node_id, const std::string& name, bool again) const;
  /// A node has come in, or comes back under another address.
  std::optional<security_failure> admit(v1::NodeInfo info, std::int64_t certificate_ends_ms);
  /// The files have changed: this node has founded a cluster or has come into one.
  void reload();
  /// At the home: the node's certificate has been revoked.
  std::optional<security_failure> revoke(const std::string& id_or_name);
  /// At the home: the node goes, and may come in again with a new certificate.
  std::optional<security_failure> retire(const std::string& node_id);
  /// At the home: the node gets no new workers, or gets them again.
  std::optional<security_failure> drain(const std::string& id_or_name, bool off);
  /// At the home: the node has a certificate that ends then.
  void renewed(const std::string& node_id, std::int64_t certificate_ends_ms);

private:
  cluster(state_dir dir, node_facts facts, const clock_port& clock) : dir_(std::move(dir)), facts_(std::move(facts)), clock_(clock) {}
  void read_nodes();
  bool keep_nodes(const v1::ClusterView&);
  std::optional<security_failure> write_nodes(const v1::ClusterView&) const;
  void take_facts();
  security_result<v1::ClusterNode*> named(const std::string& id_or_name);

  const state_dir dir_;
  const node_facts facts_;
  const clock_port& clock_;
  std::unique_ptr<authority_store> authority_;
  std::unique_ptr<join_tokens> tokens_;
  std::unique_ptr<checkouts> checkouts_;
  node_config config_;
  mutable std::mutex mutex_;
  v1::ClusterView view_;
  v1::NodeInfo self_;
  std::string home_; // empty: this node, or no cluster
  mutable std::mutex listening_;
  std::function<void()> changed_;
  std::function<void()> unlocked_;
};

} // namespace swarm
