// The cluster as this node knows it: the files in the state directory, the list of nodes, and this node's description of itself. Any thread may
// call.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "actors/fabric/node_environment.hpp"
#include "services/federation/checkouts.hpp"
#include "services/federation/node_config.hpp"
#include "services/security/authority_store.hpp"
#include "services/security/join_tokens.hpp"

namespace swarm {

class cluster final : public cluster_port {
public:
  /// Reads the files of the state directory. Throws std::runtime_error that names the file when one is damaged.
  static std::unique_ptr<cluster> open(const state_dir& dir, const node_facts& facts, const clock_port& clock);
  /// What open() would throw of each of those files.
  static std::vector<std::string> obstacles(const state_dir& dir);

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
  const node_config& config() const noexcept { return config_; }
  /// By which the cluster knows this node; its own while it is in none.
  std::string name() const;

  authority_store& authority() noexcept { return *authority_; }
  join_tokens& tokens() noexcept { return *tokens_; }
  checkouts& shared() noexcept { return *checkouts_; }
  /// The checkouts of this host have changed: this node's description follows.
  void checkouts_changed();
  /// `unlocked` is called, from any thread, when the home reports that its authority is unlocked and this node's certificate is due for renewal. It
  /// must not block.
  void on_unlocked(std::function<void()> unlocked);
  /// Sets how this node describes itself to the others. Id, name, address, configured labels and checkouts are added here.
  void describe(v1::NodeInfo info);
  /// At the home: why the node may not join (its id or name is taken, or the cluster is full); empty = it may. `again`: the node has joined already
  /// and repeats its call.
  std::optional<security_failure> may_admit(const std::string& node_id, const std::string& name, bool again) const;
  /// At the home: adds a node that has joined, or replaces its description when it joins again.
  std::optional<security_failure> admit(v1::NodeInfo info, std::int64_t certificate_ends_ms);
  /// The files have changed: this node has founded, joined or left a cluster.
  void reload();
  /// At the home: revokes the node's certificate for good.
  std::optional<security_failure> revoke(const std::string& id_or_name);
  /// At the home: revokes the certificate of a node that leaves. The node may join again and gets a new one.
  std::optional<security_failure> retire(const std::string& node_id);
  /// At the home: the node gets no new workers; with `off` it gets them again.
  std::optional<security_failure> drain(const std::string& id_or_name, bool off);
  /// At the home: why it does not listen for the others; empty = it does. Its row in the view says so.
  void cannot_listen(std::string why);
  /// At the home: the node has a new certificate, which ends then.
  void renewed(const std::string& node_id, std::int64_t certificate_ends_ms);

private:
  cluster(state_dir dir, node_facts facts, const clock_port& clock) : dir_(std::move(dir)), facts_(std::move(facts)), clock_(clock) {}
  /// Loads every file and gives it to `take` with the member that it is for.
  template <class Take>
  static void load(const state_dir& dir, Take take);
  bool keep_nodes(const v1::ClusterView&);
  void take_decisions(const v1::NodeInfo&);
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
  std::string unheard_; // why this home does not listen
  std::string home_;    // id of the home; empty when this node is the home, or is in no cluster
  mutable std::mutex listening_;
  std::function<void()> changed_;
  std::function<void()> unlocked_;
};

} // namespace swarm
