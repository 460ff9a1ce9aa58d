#include "services/security/authority.hpp"

#include <algorithm>
#include <ctime>
#include <initializer_list>

#include "actors/base/crypto.hpp"
#include "actors/base/limits.hpp"
#include "services/security/openssl.hpp"

namespace swarm {

using namespace openssl;

namespace {

constexpr std::size_t serial_bytes = 16;

security_failure not_made() {
  return {security_error::failed, "a certificate could not be made: OpenSSL refused; the machine may be short of memory"};
}

std::string day_of(std::int64_t ms) {
  auto seconds = static_cast<std::time_t>(ms / 1000);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[32] = {};
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", &parts);
  return text;
}

bool set_serial(X509* x) {
  auto bytes = random_bytes(serial_bytes);
  bignum_ptr number{BN_bin2bn(reinterpret_cast<const unsigned char*>(bytes.data()), static_cast<int>(bytes.size()), nullptr)};
  return number && BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(x));
}

/// Certificates count in whole seconds.
bool set_times(X509* x, std::int64_t from_ms, std::int64_t to_ms) {
  return ASN1_TIME_set(X509_getm_notBefore(x), static_cast<std::time_t>(from_ms / 1000)) &&
         ASN1_TIME_set(X509_getm_notAfter(x), static_cast<std::time_t>(to_ms / 1000));
}

bool set_subject(X509* x, const std::string& common_name) {
  return X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_UTF8, reinterpret_cast<const unsigned char*>(common_name.data()),
                                    static_cast<int>(common_name.size()), -1, 0) == 1;
}

struct extension {
  int kind;
  std::string value;
};

bool add_extensions(X509* x, X509* issuer, const std::initializer_list<extension>& all) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, x, nullptr, nullptr, 0);
  X509V3_set_ctx_nodb(&context);
  for (const auto& e : all) {
    extension_ptr made{X509V3_EXT_conf_nid(nullptr, &context, e.kind, e.value.c_str())};
    if (!made || X509_add_ext(x, made.get(), -1) != 1)
      return false;
  }
  return true;
}

/// Signed and encoded.
security_result<std::string> finish(X509* x, const key_pair& key) {
  if (X509_sign(x, key.native(), EVP_sha256()) <= 0)
    return not_made();
  auto der = der_of<X509>(i2d_X509, x);
  if (der.empty())
    return not_made();
  return der;
}

security_failure not_yet(const char* what, std::int64_t from_ms, std::int64_t now_ms) {
  return {security_error::not_yet_valid, std::string{what} + " is not valid before " + day_of(from_ms) + ", and here it is " + day_of(now_ms) +
                                           ": compare the clocks of the two hosts"};
}

security_failure over(const char* what, std::int64_t to_ms) { return {security_error::expired, std::string{what} + " ended at " + day_of(to_ms)}; }

/// OpenSSL's verdict in our words.
security_failure refused(int error, int depth, const certificate_info& leaf, const certificate_info& ca, std::int64_t now_ms) {
  const auto* what = depth == 0 ? "the node's certificate" : "the certificate of the cluster's authority";
  const auto& which = depth == 0 ? leaf : ca;
  switch (error) {
    case X509_V_ERR_CERT_NOT_YET_VALID: return not_yet(what, which.not_before_ms, now_ms);
    case X509_V_ERR_CERT_HAS_EXPIRED: return over(what, which.not_after_ms);
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE: return {security_error::other_cluster, "the certificate was not made by this cluster's authority"};
    default: return {security_error::malformed, std::string{what} + " is not as this cluster makes them: " + X509_verify_cert_error_string(error)};
  }
}

/// As issue() makes them: no authority that was given more away by mistake lets anybody in.
bool is_node_profile(X509* x) {
  return is_p256(X509_get0_pubkey(x)) && (X509_get_extension_flags(x) & (EXFLAG_CA | EXFLAG_XKUSAGE)) == EXFLAG_XKUSAGE &&
         X509_get_key_usage(x) == KU_DIGITAL_SIGNATURE && X509_get_extended_key_usage(x) == (XKU_SSL_SERVER | XKU_SSL_CLIENT);
}

} // namespace

security_result<authority> authority::create(std::string_view cluster_id, std::int64_t now_ms) {
  no_errors_left clean;
  if (!is_node_id(cluster_id))
    return security_failure{security_error::malformed, "the id of a cluster must be a UUID in lower case"};
  auto key = key_pair::generate();
  if (!key)
    return key.failure();
  x509_ptr x{X509_new()};
  if (!x || X509_set_version(x.get(), X509_VERSION_3) != 1 || !set_serial(x.get()) ||
      !set_times(x.get(), now_ms - limits::certificate_backdate.count(), now_ms + limits::authority_lifetime.count()) ||
      !set_subject(x.get(), "swarm cluster " + std::string{cluster_id}) || X509_set_issuer_name(x.get(), X509_get_subject_name(x.get())) != 1 ||
      X509_set_pubkey(x.get(), key->native()) != 1 ||
      !add_extensions(x.get(), x.get(),
                      {{NID_basic_constraints, "critical,CA:TRUE,pathlen:0"},
                       {NID_key_usage, "critical,keyCertSign,cRLSign"},
                       {NID_subject_key_identifier, "hash"}}))
    return not_made();
  auto der = finish(x.get(), *key);
  if (!der)
    return der.failure();
  return authority{*std::move(der), *std::move(key)};
}

security_result<authority> authority::from(std::string certificate_der, key_pair key) {
  auto info = read_certificate(certificate_der);
  if (!info)
    return info.failure();
  if (!info->is_ca)
    return security_failure{security_error::malformed, "this is no certificate of an authority"};
  if (info->public_key != key.public_key())
    return security_failure{security_error::wrong_key, "the key is not that of this cluster's authority"};
  return authority{std::move(certificate_der), std::move(key)};
}

security_result<std::string> authority::issue(std::string_view csr_der, std::string_view node_id, std::int64_t now_ms) const {
  no_errors_left clean;
  if (!is_node_id(node_id))
    return security_failure{security_error::malformed, "the id of a node must be a UUID in lower case"};
  if (auto key = csr_public_key(csr_der); !key)
    return key.failure();
  auto own = read_certificate(certificate_);
  if (!own)
    return own.failure();
  constexpr auto what = "the certificate of the cluster's authority";
  if (now_ms < own->not_before_ms)
    return not_yet(what, own->not_before_ms, now_ms);
  if (now_ms >= own->not_after_ms)
    return over(what, own->not_after_ms);
  auto issuer = read_x509(certificate_);
  auto request = read_request(csr_der);
  x509_ptr x{X509_new()};
  auto from = std::max(now_ms - limits::certificate_backdate.count(), own->not_before_ms);
  auto to = std::min(now_ms + limits::node_certificate_lifetime().count(), own->not_after_ms);
  if (!issuer || !request || !x || X509_set_version(x.get(), X509_VERSION_3) != 1 || !set_serial(x.get()) || !set_times(x.get(), from, to) ||
      !set_subject(x.get(), "swarm node " + std::string{node_id}) || X509_set_issuer_name(x.get(), X509_get_subject_name(issuer.get())) != 1 ||
      X509_set_pubkey(x.get(), X509_REQ_get0_pubkey(request.get())) != 1 ||
      !add_extensions(x.get(), issuer.get(),
                      {{NID_basic_constraints, "critical,CA:FALSE"},
                       {NID_key_usage, "critical,digitalSignature"},
                       {NID_ext_key_usage, "serverAuth,clientAuth"},
                       {NID_subject_alt_name, "DNS:" + node_dns_name(node_id) + ",URI:" + node_uri(node_id)},
                       {NID_subject_key_identifier, "hash"},
                       {NID_authority_key_identifier, "keyid:always"}}))
    return not_made();
  return finish(x.get(), key_);
}

security_result<std::string> verify_node_certificate(std::string_view certificate_der, std::string_view authority_der, std::int64_t now_ms) {
  no_errors_left clean;
  auto leaf_info = read_certificate(certificate_der);
  auto ca_info = read_certificate(authority_der);
  if (!leaf_info)
    return leaf_info.failure();
  if (!ca_info)
    return ca_info.failure();
  auto leaf = read_x509(certificate_der);
  auto ca = read_x509(authority_der);
  store_ptr trusted{X509_STORE_new()};
  store_context_ptr context{X509_STORE_CTX_new()};
  if (!leaf || !ca || !trusted || !context || X509_STORE_add_cert(trusted.get(), ca.get()) != 1 ||
      X509_STORE_CTX_init(context.get(), trusted.get(), leaf.get(), nullptr) != 1)
    return security_failure{security_error::failed, "a certificate could not be checked: OpenSSL refused; the machine may be short of memory"};
  X509_STORE_CTX_set_flags(context.get(), X509_V_FLAG_X509_STRICT);
  X509_STORE_CTX_set_time(context.get(), 0, static_cast<std::time_t>(now_ms / 1000));
  if (X509_verify_cert(context.get()) != 1)
    return refused(X509_STORE_CTX_get_error(context.get()), X509_STORE_CTX_get_error_depth(context.get()), *leaf_info, *ca_info, now_ms);
  if (leaf_info->node_id.empty() || !is_node_profile(leaf.get()))
    return security_failure{security_error::malformed, "the certificate is of this cluster's authority, but not of a node"};
  return leaf_info->node_id;
}

} // namespace swarm
