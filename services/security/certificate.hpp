// Keys, requests for certificates, and what a certificate says.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "services/security/failure.hpp"
#include "services/security/secret.hpp"

struct evp_pkey_st;

namespace swarm {

/// A UUID in lower case. Host names do not tell upper case from lower, and a node's id is part of one.
bool is_node_id(std::string_view) noexcept;
/// The name under which a node's certificate is looked for, wherever the node listens: <node id>.node.swarm
std::string node_dns_name(std::string_view node_id);
/// swarm://@<node id>
std::string node_uri(std::string_view node_id);

/// A private EC P-256 key and its public half.
class key_pair {
public:
  static security_result<key_pair> generate();
  /// PKCS#8 without a passphrase.
  static security_result<key_pair> from_pem(std::string_view);
  static security_result<key_pair> from_der(std::string_view);
  security_result<secret> to_pem() const;
  /// The shortest form, for what a person may have to type: without the public half.
  security_result<secret> to_der() const;
  /// SubjectPublicKeyInfo in DER: equal for equal keys.
  std::string public_key() const;

  evp_pkey_st* native() const noexcept { return key_.get(); }

private:
  struct give_back {
    void operator()(evp_pkey_st*) const noexcept;
  };
  explicit key_pair(evp_pkey_st* key) : key_(key) {}
  std::unique_ptr<evp_pkey_st, give_back> key_;
};

/// PKCS#10 in DER, signed with the key.
security_result<std::string> make_csr(const key_pair&, std::string_view common_name);
/// The public key for which the certificate is asked, as key_pair::public_key gives it. Refused: another kind of key than EC P-256
/// (wrong_key), and who cannot sign with it (bad_signature).
security_result<std::string> csr_public_key(std::string_view der);

/// The first certificate of the text.
security_result<std::string> certificate_from_pem(std::string_view pem);
security_result<std::string> certificate_to_pem(std::string_view der);

struct certificate_info {
  std::string node_id; // empty: it is no node's
  bool is_ca = false;
  std::int64_t not_before_ms = 0;
  std::int64_t not_after_ms = 0;
  std::string serial;     // hex, lower case
  std::string sha256;     // 32 bytes, of the DER
  std::string public_key; // as key_pair::public_key gives it
};

/// What it says, whatever its source.
security_result<certificate_info> read_certificate(std::string_view der);

} // namespace swarm
