// What a node keeps of its cluster, in a directory of its own: which one it is, its own key and certificate, the authority's certificate,
// and at the home the authority's key, sealed, and the nodes that were revoked. Any thread may call.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "services/security/authority.hpp"
#include "services/security/sealed_key.hpp"

namespace swarm {

struct cluster_facts {
  std::string cluster_id; // UUID
  std::string node_id;    // UUID of this node
  std::string home_id;    // UUID of the node that is home of the shared scopes
  std::string home_name;
  std::string home_address; // host:port
  std::string listen;       // host:port at which others reach this node; empty = it only dials out

  bool is_home() const noexcept { return node_id == home_id; }
};

/// What a node shows to others and what it believes them by.
struct node_credentials {
  secret key_pem;
  std::string chain_pem; // its own certificate, then the authority's: who joins looks for that one in it
  std::string authority_pem;
  std::string authority_der;
  certificate_info certificate;
};

class authority_store {
public:
  /// Makes the directory if need be and reads what is in it. What does not fit together is refused with the name of the file.
  static security_result<std::unique_ptr<authority_store>> open(const std::filesystem::path& directory);

  /// Nothing: the node is in no cluster.
  std::optional<cluster_facts> facts() const;

  /// Makes a cluster of which this node is the home, and gives the recovery copy of the authority's key; it is unlocked then.
  /// Without a passphrase the key is kept readable, and there is no copy.
  security_result<secret> found(const cluster_facts&, std::optional<std::string_view> passphrase, std::int64_t now_ms, seal_cost = {});
  /// The request for a certificate of this node. Its key is made once and kept, so that a join that was cut short can be repeated.
  security_result<std::string> request_certificate(std::string_view node_id);
  /// Takes the node into the cluster whose home answered with these.
  std::optional<security_failure> join(const cluster_facts&, std::string_view certificate_der, std::string_view authority_der, std::int64_t now_ms);
  /// A newer certificate for this node and its key.
  std::optional<security_failure> renew(std::string_view certificate_der, std::int64_t now_ms);
  /// True when it is time to ask for a new certificate.
  bool renewal_due(std::int64_t now_ms) const;
  /// This node's address, and the home's if it is this node.
  std::optional<security_failure> set_listen(const std::string& address);
  /// Forgets the cluster, its keys too. `home_is_told` false: they are kept in left(), for the home to be told with when the node joins again.
  std::optional<security_failure> leave(bool home_is_told = true);
  std::filesystem::path left() const { return directory_.string() + ".left"; }
  security_result<node_credentials> credentials() const;

  /// True when the authority's key is kept without a passphrase.
  bool insecure() const;
  /// Holds the authority's key for limits::authority_unlocked and says until when. Takes as long as seal_cost says.
  security_result<std::int64_t> unlock(std::string_view passphrase, std::int64_t now_ms);
  void lock();
  bool locked(std::int64_t now_ms);
  /// Wipes a key that was held for too long, and says for how many milliseconds it may be held yet; 0 = none is, or it needs no passphrase.
  std::int64_t wipe_in_time(std::int64_t now_ms);
  /// DER. Refused: at another node than the home (wrong_state), while locked, and for a node that was revoked.
  security_result<std::string> issue(std::string_view csr_der, std::string_view node_id, std::int64_t now_ms);

  /// All certificates of this node are revoked, also those that it could still get: it can only come back as another node.
  std::optional<security_failure> revoke(const std::string& node_id, std::int64_t now_ms);
  bool revoked(const std::string& node_id) const;
  /// The node has left by itself: its certificates that end up to then are revoked. It may come in again, with a newer one.
  std::optional<security_failure> retire(const std::string& node_id, std::int64_t certificates_until_ms);
  /// The id of the node whose certificate (DER) this is, if it is valid in this cluster now.
  security_result<std::string> verify(std::string_view certificate_der, std::int64_t now_ms) const;

private:
  struct kept {
    cluster_facts facts;
    std::string authority_der;
    std::string certificate_der;
    certificate_info certificate;
    bool insecure = false;
  };

  explicit authority_store(std::filesystem::path directory) : directory_(std::move(directory)) {}
  std::optional<security_failure> load();
  std::optional<security_failure> load_revoked();
  std::optional<security_failure> put_out(const std::string& node_id, std::int64_t certificates_until_ms);
  security_result<key_pair> node_key() const;
  security_result<key_pair> node_key_or_new() const;
  security_result<authority> read_authority(const std::string& authority_der, std::string_view passphrase) const;
  std::optional<security_failure> write_cluster(const cluster_facts&, std::string_view authority_der, std::string_view certificate_der) const;
  std::optional<security_failure> change(cluster_facts);
  /// Null while it is locked. What was held for too long is wiped here.
  const authority* unlocked(std::int64_t now_ms);

  const std::filesystem::path directory_;
  std::mutex unlocking_; // one at a time: each takes much memory
  mutable std::mutex mutex_;
  std::optional<kept> kept_;
  /// Node id -> certificates that end up to then are revoked; for_good = all, for ever.
  std::map<std::string, std::int64_t> revoked_;
  std::optional<authority> authority_;
  std::int64_t unlocked_at_ms_ = 0;
};

} // namespace swarm
