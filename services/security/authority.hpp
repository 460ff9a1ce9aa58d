// The cluster's certificate authority: a self-signed certificate, known to every node, and its key, known to the home only.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "services/security/certificate.hpp"

namespace swarm {

class authority {
public:
  /// A new cluster's.
  static security_result<authority> create(std::string_view cluster_id, std::int64_t now_ms);
  /// Of what was kept. wrong_key: the key is not that of the certificate.
  static security_result<authority> from(std::string certificate_der, key_pair key);

  /// DER.
  const std::string& certificate() const noexcept { return certificate_; }
  const key_pair& key() const noexcept { return key_; }

  /// A certificate (DER) for this node and the key that signed the request. The request's subject and extensions are ignored.
  security_result<std::string> issue(std::string_view csr_der, std::string_view node_id, std::int64_t now_ms) const;

private:
  authority(std::string certificate, key_pair key) : certificate_(std::move(certificate)), key_(std::move(key)) {}

  std::string certificate_;
  key_pair key_;
};

/// The id of the node whose certificate this is, if the authority made it for a node and it is valid now.
security_result<std::string> verify_node_certificate(std::string_view certificate_der, std::string_view authority_der, std::int64_t now_ms);

} // namespace swarm
